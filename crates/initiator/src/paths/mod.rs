//! Which path a command takes, when it may be repeated, and which sessions there should be.
//!
//! Pure: no I/O, and the time is an argument (a [`Duration`](std::time::Duration) since any fixed
//! moment). [`Router`] is the whole of a multipath disk but its sessions; [`plan`] decides how many
//! sessions a host should have, and where.

mod map;
mod overlap;
pub mod plan;
mod policy;
mod router;
mod select;
#[cfg(test)]
mod tests;

pub use map::{PageMap, RUNS_MAX};
pub use policy::{Policy, PolicyError};
pub use router::{Action, Failure, OpId, Router, RouterOptions, Shape, Verdict};
pub use select::{PathId, PathState, PathStatus};
