//! Which path a command takes, when it may be repeated, and which sessions there should be.
//!
//! Pure: no I/O, and the time is an argument (a [`Duration`](std::time::Duration) since any fixed
//! moment). [`Router`] is the whole of a multipath disk but its sessions; [`plan`] decides how many
//! sessions a host should have, and where.

mod doubts;
mod map;
mod overlap;
pub mod plan;
mod policy;
mod router;
mod select;
#[cfg(test)]
mod tests;
mod words;

pub use map::PageMap;
pub use policy::{Policy, PolicyError};
pub use router::{Router, RouterOptions};
pub use select::{PathId, PathState, PathStatus};
pub use words::{Action, Failure, OpId, Shape, Verdict};
