//! What a workload runs on: addresses of targets, opening them, and dividing them among the storage of
//! a script.

mod address;
mod assign;
mod open;
mod twins;

pub use address::{Address, AddressError};
pub use assign::{AssignError, assign};
pub use open::{OpenError, OpenTarget, Sessions, detach_all, open_all};
