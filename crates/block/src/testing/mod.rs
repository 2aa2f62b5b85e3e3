//! What tests of this and other rooms need: a suite that every device must pass, and a device that
//! fails on order. And what a modelled drive does under a load, without waiting for it.

mod check;
mod faulty;
mod figures;
mod tables;

pub use check::{
    check_device, check_durable_faults, check_faults, check_null_device, check_read_only,
};
pub use faulty::{Fault, FaultyDisk, Operation, Rule};
pub use figures::{Figures, Load, Pattern, modelled};
pub use tables::{figures_markdown, flash_markdown, spinning_markdown};
