//! Targets: their units, who may use them, and the table of those that are served.

mod table;
mod target;

use std::io;

use block::BlockError;
use iscsi::text::NameError;
use thiserror::Error;

use crate::access::AccessError;
use crate::unit::ReservationsError;

pub(crate) use table::{Found, Table};
pub use target::Hold;
pub(crate) use target::{Common, Target};

/// Why a target cannot be served, or did not end in order.
#[derive(Debug, Error)]
pub enum TargetError {
    /// Its name is not one.
    #[error("{name:?} cannot be the target's name: {error}")]
    Name {
        /// As given.
        name: String,
        /// What is wrong.
        error: NameError,
    },
    /// Nothing to serve.
    #[error("the target {0} needs at least one logical unit")]
    Empty(String),
    /// The name is taken.
    #[error("the target {0} is served already")]
    Taken(String),
    /// The server is about to end.
    #[error("the server is stopping")]
    Stopping,
    /// Nothing is served by that name.
    #[error("the target {0} is not served")]
    Unknown(String),
    /// Rules or CHAP credentials that must not be used.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// A logical unit's saved reservations cannot be used.
    #[error("{0}")]
    Reservations(#[from] ReservationsError),
    /// A disk did not finish its tasks in time. Hosts are logged out, but the device is still at
    /// work for them.
    #[error("the disks of {0} still work on what hosts asked for")]
    Busy(String),
    /// A change of reservations could not be saved, and was not made.
    #[error("nothing was changed, as the reservations of {unit} cannot be saved: {source}")]
    Unsaved {
        /// The unit's name.
        unit: String,
        /// Why.
        source: io::Error,
    },
    /// Writes that were accepted without a promise of durability may be lost.
    #[error("{unit} could not be flushed: {source}")]
    Flush {
        /// The unit's name.
        unit: String,
        /// What the disk said.
        source: BlockError,
    },
}
