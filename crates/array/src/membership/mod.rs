//! Who is a member, who holds the journal, what is out of date, and what an opening believes.
//!
//! Everything here is pure: labels and events in, labels to be written out. [`Array`](crate::Array)
//! does the I/O in between, and the model checker (its tests) walks through all that can happen to
//! a few disks with the same functions.
//!
//! ```text
//!            Event::Out                                     Event::UpToDate
//!   Active ─────────────▶ Stale(since) ────────────────────────────────────▶ Active
//!      │ Event::LacksAll     │ ▲ Event::LacksAll: since ever
//!      │ Event::Failed       │ Event::Failed, Event::Left
//!      ▼                     ▼
//!   Failed ──────────────▶ Retired                      (Event::Left; for good)
//! ```
//!
//! 1. What happened becomes a [`LabelChange`]. It counts, in memory too, only when it says
//!    [`Step::Durable`]: then all members that the new label calls active carry it. Before that
//!    nothing is answered that relies on it.
//! 2. So a label that some active member is known not to carry was never relied on, and [`choose()`]
//!    may drop it in favour of one that went on from an older label.
//! 3. Two labels that both may have been relied on, and neither of which came of the other, are two
//!    histories: none is opened until an operator says which.
//! 4. An opening makes it durable who is not there before it changes anything else
//!    ([`Opening::first_events`]).
//!    So whoever is in and carries neither the newest label nor the one before it is older than the others
//!    ([`lack_of`]); checkpoints that only such disks have are not believed.
//! 5. A disk that was away lacks what the journal says was written since ([`has_missed`]), and
//!    everything that the sets remember.
//! 6. The last disk that holds the journal, and the last that holds the checkpoints, never leave
//!    the label ([`Refusal::LastHolder`]): without it nothing can be opened.
//! 7. One that leaves in order does not take its copy of either with it: others hold them before the label
//!    that lets it go is made ([`checkpoint_successors`], [`journal_successors`]).

mod change;
mod choose;
mod lacking;
mod leaving;
mod recovery;
mod refusal;
#[cfg(test)]
mod tests;

pub use change::{Event, LabelChange, Refusal, Step, next_label, next_number};
pub use choose::{Opening, Present, SetDisks, choose, may_return};
pub use lacking::{Lack, lack_of};
pub use leaving::{SetSeats, without_place};
pub use recovery::{
    WaveId, checkpoint_successors, gets_checkpoint, gets_wave, has_missed, is_unflushed,
    journal_successors, notes_redone, takes_place, waves_to_redo,
};
pub use refusal::OpenRefusal;
