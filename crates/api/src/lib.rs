//! The interface: HTTP and JSON over what a running member can do, and its client.
//!
//! ```text
//!  curl, drystone ─▶ Client ─▶ socket ─▶ server ─▶ member::Remote ─▶ the member's core
//!                                          │
//!                              types ◀─────┴─────▶ problem
//! ```
//!
//! [`types`] are what travels, and nothing else has to be read to use it: what a member or an array
//! calls a thing may change without them. Refusals are [`problem::Problem`]s (RFC 9457), whose
//! `detail` is the sentence that the command line prints. The server has a thread and a runtime of
//! its own beside the data path; what it is asked goes to the member's core and is waited for without
//! a thread. Beside that it has the door of a group of members, where servers are let in, and knows how to
//! join there: `server::door` and `server::joining`.
//!
//! A new request of a member needs: its types in [`types`], a function in `server::routes` with its
//! `utoipa::path`, its line in `server::routes::all`, a row in `server::roles` (who may) and one in
//! `server::carry::whose` (which member of a group does it), and, if the command line asks it, a call of
//! [`client::Client`]. The document docs/openapi.json follows from them.

pub mod client;
mod headers;
pub mod metrics;
mod mutants;
mod place;
pub mod problem;
pub mod server;
pub mod types;
