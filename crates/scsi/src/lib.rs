//! CDBs, sense data, VPD and mode pages, reservations, ALUA. Pure: no transport, no disk, no clock.

pub mod cdb;
pub mod nexus;
pub mod reservation;
pub mod sense;
pub mod status;

pub use cdb::{Command, CommandSpec, decode};
pub use nexus::NexusKey;
pub use sense::{AdditionalSense, FieldPointer, Sense, SenseBytes, SenseKey};
pub use status::Status;
