//! What tests of this and other rooms need: a suite that every device must pass, and a device that
//! fails on order.

mod check;
mod faulty;

pub use check::check_device;
pub use faulty::{Fault, FaultyDisk, Operation, Rule};
