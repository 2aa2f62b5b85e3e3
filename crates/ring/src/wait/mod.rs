//! The ways to wait.
//!
//! | what is waited for | piece | who may wait | from where |
//! |---|---|---|---|
//! | something happens, once and for all | [`Event`] | any number | one core |
//! | something changes, again and again | [`Bell`] | any number | one core |
//! | the same | [`SharedBell`] | any number | any thread |
//! | a value | [`Answer`] | one | one core |
//! | a value, or that its sender is gone | [`oneshot`] | one | any thread |
//! | to be the only one, in the order of asking | [`Turn`] | any number | any thread |
//! | the same, where keys have turns | [`Turns`] | any number | any thread |
//! | to be given what others must leave first | [`Grant`], in a queue of its owner | one | one core |
//! | all of several futures | [`join_all`], [`both`] | | |
//! | one of two | [`first`] | | |
//!
//! Who needs another kind of queue keeps [`OneWaker`] or [`Wakers`] in it; [`FairQueue`] is the order in
//! which keys have turns.
//!
//! Three things hold for all of them. **None is tied to the executor of `ring`**: a waker is all they
//! know, so a simulation may poll them. **A wake-up is never lost**: a piece either is ready when it is
//! polled, or has the waker of that poll, which it calls when it becomes ready. **Each future may be
//! dropped at any time**: what it was given and has not taken goes to the next who waits. A waker that
//! was left behind costs its task one look in vain.
//!
//! The pieces for one core are cells without locks or counters, because each I/O passes several of
//! them; so there are two kinds of bell, and a pair for values. Turns are taken rarely enough to share one.

mod answer;
mod bell;
mod event;
mod fair;
mod grant;
mod join;
mod oneshot;
#[cfg(test)]
mod tests;
mod turn;
mod waker;

pub use answer::Answer;
pub use bell::{Bell, SharedBell};
pub use event::Event;
pub use fair::FairQueue;
pub use grant::{Grant, GrantState};
pub use join::{Either, both, first, join_all};
pub use oneshot::{OneshotReceiver, OneshotSender, oneshot};
pub use turn::{Guard, Turn, Turns};
pub use waker::{OneWaker, Wakers};
