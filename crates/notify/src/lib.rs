//! Events go on: as e-mail, to a webhook, to a syslog server.
//!
//! ```text
//!  EventLog ──▶ Place ──▶ Messages ──▶ send ──▶ SMTP, HTTP, syslog
//!  (in memory)    ▲          │           │
//!                 ╰──────────┴── taken ◀─╯      Places: in a file of the data directory
//! ```
//!
//! What each destination has been given is its [`Place`](place): the number of an event, up to which all is done,
//! and the events that repeat themselves. There is no queue beside the log: a destination that is dead costs no
//! memory, and what the log has given up meanwhile is counted as lost.
//!
//! 1. A place moves on when the destination has taken what is before it, and is written down after that: at least
//!    once is what an event is sent. A crash repeats what was taken within the last second or two.
//! 2. Each destination has a task of its own on one thread beside the data path; whoever records an event does
//!    not know of it. The log is looked at once a second.
//! 3. What is told of a destination that fails is told to the others and never to that one, and what is told of
//!    destinations is never a reason to tell more of them: nothing goes round in circles.

mod message;
mod mutants;
mod place;
mod places;
mod pulse;
mod send;
mod status;
mod thread;
mod worker;

pub use message::Message;
pub use send::{SEND_TIME, SendError, Sender};
pub use status::{Status, Statuses};
pub use thread::{Config, Notifier};
