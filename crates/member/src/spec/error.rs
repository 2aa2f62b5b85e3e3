//! Why a disk cannot be had.

use std::io;
use std::path::PathBuf;

use block::OpenError;
use thiserror::Error;

use crate::lock::{self, somebody};

/// Why one disk cannot be opened.
#[derive(Debug, Error)]
pub enum DiskError {
    /// It is open in this process, under another name.
    #[error("'{}' is open in this drystone already, under another name", .0.display())]
    OpenHere(PathBuf),
    /// Another process has it.
    #[error("'{}' is in use by {}", path.display(), user(*holder))]
    InUse {
        /// The disk.
        path: PathBuf,
        /// The process, if that can be told.
        holder: Option<u32>,
    },
    /// There is none.
    #[error("there is no '{}'", .0.display())]
    Missing(PathBuf),
    /// A file that would have to be made, where all must be there.
    #[error("'{0}' does not exist")]
    New(String),
    /// It is given twice.
    #[error("'{0}' is given twice")]
    Twice(String),
    /// There is no address space for a disk in memory.
    #[error("there is not enough address space for '{name}': {source}")]
    AddressSpace {
        /// As it was written.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// Blocks that no host knows.
    #[error("'{}' has blocks of {block_bytes} bytes, and hosts know 512 and 4096 only", path.display())]
    Blocks {
        /// The disk.
        path: PathBuf,
        /// Its logical block.
        block_bytes: u64,
    },
    /// The medium cannot be opened.
    #[error(transparent)]
    Open(OpenError),
}

impl DiskError {
    /// Whether the system failed, and another disk or path would not help.
    #[must_use]
    pub const fn is_of_system(&self) -> bool {
        matches!(self, Self::Open(OpenError::System { .. }))
    }
}

/// A device that is mounted is held by the kernel, which no process is.
fn user(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process, or mounted".to_owned(), |pid| somebody(Some(pid)))
}

impl From<OpenError> for DiskError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::InUse { path } => match lock::holder(&path) {
                Some(pid) if pid == std::process::id() => Self::OpenHere(path),
                holder => Self::InUse { path, holder },
            },
            OpenError::Missing { path } => Self::Missing(path),
            error => Self::Open(error),
        }
    }
}

impl DiskError {
    /// Whether somebody has the disk open: it may serve the same array, so nothing is done without it.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::OpenHere(_) | Self::InUse { .. })
    }
}
