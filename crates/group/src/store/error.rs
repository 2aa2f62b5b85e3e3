//! Why the store refused something.

use std::sync::Arc;

use super::types::{LeaseId, Revision};

/// Why the store refused something.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A key without a byte.
    #[error("a key of the configuration store has at least one byte")]
    EmptyKey,
    /// One transaction puts a key twice, or puts it and deletes it.
    #[error("one transaction changes the key '{0}' twice: leave one of the changes out")]
    DuplicateKey(String),
    /// More operations or comparisons than one transaction may have.
    #[error("a transaction of {count} operations is too long: make it of at most {max}")]
    TooManyOperations {
        /// How many it has, in its longest list.
        count: usize,
        /// How many it may have.
        max: usize,
    },
    /// More bytes than one transaction may have.
    #[error("a transaction of {size_bytes} bytes is too large: make it of at most {bytes_max}")]
    TooLarge {
        /// Its keys and values together.
        size_bytes: usize,
        /// What they may have.
        bytes_max: usize,
    },
    /// The history of this revision is no longer there.
    #[error(
        "the history of the configuration up to revision {compacted} is no longer kept: read what there is now, and watch from there"
    )]
    Compacted {
        /// The last revision that was forgotten.
        compacted: Revision,
    },
    /// A revision that is not there yet.
    #[error("revision {asked} is not there yet: the configuration is at {present}")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// Where the store is.
        present: Revision,
    },
    /// The lease has ended, or never was.
    #[error("lease {0} has ended: ask for a new one")]
    NoLease(LeaseId),
    /// A lease that would end at once, or never.
    #[error("a lease lasts from one second to {} days", super::types::LEASE_DAYS_MAX)]
    LeaseTime,
    /// A database of a later version.
    #[error(
        "the configuration store has format {found}, and this version of drystone knows {known}: use the version that wrote it, or a later one"
    )]
    Format {
        /// What its label says.
        found: u64,
        /// What is known here.
        known: u64,
    },
    /// The store cannot be opened, read or written.
    #[error("the configuration store is not available: {0}")]
    Failed(Arc<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Whether the device of the store has no room for what was to be written.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let Self::Failed(error) = self else { return false };
        let full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::StorageFull;
        match error.downcast_ref::<redb::Error>() {
            Some(redb::Error::Io(error)) => full(error),
            Some(_) => false,
            None => error.downcast_ref::<std::io::Error>().is_some_and(full),
        }
    }

    /// Wraps what went wrong below.
    pub(crate) fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(Arc::from(error.into()))
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error)
    }
}
