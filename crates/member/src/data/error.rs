//! Why the data directory of a member cannot be used.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::lock::somebody;

/// Why what a member remembers cannot be read or written.
#[derive(Debug, Error)]
pub enum DataError {
    /// A file cannot be read.
    #[error("cannot read '{}': {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file cannot be written or replaced.
    #[error("cannot write '{}': {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file cannot be removed.
    #[error("cannot remove '{}': {source}", path.display())]
    Remove {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The list of disks is there and names none: that is not how it was left.
    #[error("'{}' is there and names no disk, so its list of disks is lost", .0.display())]
    ListLost(PathBuf),
    /// A line that is no check of hosts. Better refuse than open what somebody had closed.
    #[error("'{}' does not read: '{line}' is no check of hosts", path.display())]
    Doors {
        /// The file.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// Hosts had to prove themselves by CHAP, and now they would not have to.
    #[error("'{}' remembers that hosts log in by CHAP, and no secret is given", .0.display())]
    ChapLeftOut(PathBuf),
    /// Only some hosts were allowed, and now all would be.
    #[error("'{}' remembers that only some hosts may log in, and no rule of allowed hosts is given", .0.display())]
    RulesLeftOut(PathBuf),
    /// The number of the portal group does not read.
    #[error("'{}' holds no number of a portal group (1 to 65535)", .0.display())]
    PortalGroup(PathBuf),
    /// Another process uses the directory.
    #[error("{} uses '{}'", somebody(*holder), path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
        /// The process, if that can be told.
        holder: Option<u32>,
    },
    /// The directory cannot be locked.
    #[error("cannot lock '{}': {source}", path.display())]
    Lock {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}
