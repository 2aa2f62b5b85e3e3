//! CDBs, sense data, VPD and mode pages, reservations, ALUA. Pure: no transport, no disk, no clock.
//!
//! A target decodes a CDB with [`decode`], asks [`unit::LogicalUnit::admit`] whether the command
//! may run, and hands it to [`unit::LogicalUnit::execute`] or, if it touches the medium, does it
//! itself. What the decoder accepts, what is admitted, what REPORT SUPPORTED OPERATION CODES says
//! and what the documentation lists all come from one table, [`cdb::commands`].

pub mod alua;
pub mod cdb;
mod config;
pub mod copy;
pub mod inquiry;
pub mod log;
pub mod mode;
pub mod nexus;
pub mod param;
pub mod referrals;
pub mod reservation;
pub mod sense;
pub mod status;
pub mod unit;

pub use cdb::{Command, CommandSpec, decode};
pub use nexus::NexusKey;
pub use sense::{AdditionalSense, FieldPointer, Sense, SenseBytes, SenseKey};
pub use status::Status;
