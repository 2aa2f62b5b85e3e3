//! The full-feature phase, as pure arithmetic: command numbering, write transfers, read bursts.
//!
//! Nothing here knows a socket, a task table or SCSI; the target (and later the initiator) feeds
//! header fields in and acts on the answers.

pub mod data_in;
pub mod serial;
pub mod transfer;
pub mod window;

#[cfg(test)]
mod tests;

pub use data_in::{DataInPart, DataInPlan};
pub use serial::{serial_le, serial_lt};
pub use transfer::{DataOutHeader, R2tRequest, TransferError, TransferLimits, WriteTransfer};
pub use window::{CommandWindow, Placement};
