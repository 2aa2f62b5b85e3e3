//! Why a member does not start.

use std::path::PathBuf;

use array::{ArrayError, Level};
use block::BlockError;
use thiserror::Error;

use crate::data::DataError;
use crate::spec::DiskError;

/// Why no array is opened or made.
#[derive(Debug, Error)]
pub enum StartError {
    /// What the member remembers.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A disk that was named is not there, and an array was to be made of it.
    #[error("{why}")]
    Absent {
        /// The file, if there could be one.
        path: Option<PathBuf>,
        /// Why it is not there.
        why: Absence,
    },
    /// A disk does not answer, and the array was to be opened without what is missing.
    #[error(
        "disk '{0}' does not answer, and may have what would be given up without it; take it out of the machine if it is \
         gone for good"
    )]
    SilentDisk(String),
    /// A disk that was named holds something else.
    #[error("'{name}' holds {what}")]
    Foreign {
        /// The disk.
        name: String,
        /// What it holds, in words.
        what: String,
    },
    /// A disk was one of an array, and nothing tells of which.
    #[error("'{0}' was a disk of an array, and no label of it can be used")]
    WasMember(String),
    /// The making of an array was cut off, and its disks are not those that are usual.
    #[error("the making of an array of {} was cut off", quoted(.0))]
    MakingCutOff(Vec<String>),
    /// All disks would be for the journal alone.
    #[error("an array needs a disk that is not for the journal alone")]
    JournalOnly,
    /// The array has another level than was asked for.
    #[error("the array on these disks has {0}")]
    OtherLevel(Level),
    /// No disk of the array is there.
    #[error("no disk of the array that '{}' remembers is there ({})", data.display(), quoted(disks))]
    NothingLeft {
        /// The directory of the member.
        data: PathBuf,
        /// The disks that it remembers.
        disks: Vec<String>,
    },
    /// The directory was used before, and its list of disks is lost.
    #[error("'{}' was used before, and its list of disks is lost", .0.display())]
    UsedBefore(PathBuf),
    /// No disks are remembered, and devices of the machine are of an array.
    #[error(
        "'{}' remembers no disks, but {} of this machine carry labels of array {array}",
        data.display(), devices.join(", ")
    )]
    Labelled {
        /// The directory of the member.
        data: PathBuf,
        /// The devices.
        devices: Vec<String>,
        /// The array of the first.
        array: String,
    },
    /// The array refuses to open.
    #[error("cannot open the array: {error}{}", not_found(missing))]
    Open {
        /// Why.
        error: ArrayError,
        /// Disks that are not there and that `error` does not name.
        missing: Vec<String>,
    },
    /// The array cannot be made.
    #[error(transparent)]
    Create(ArrayError),
    /// A label that was cut off cannot be erased.
    #[error("{name}: {error}")]
    Erase {
        /// The disk.
        name: String,
        /// Why.
        error: BlockError,
    },
    /// A disk cannot be looked at, or the array not be closed.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The core of the member is gone.
    #[error("the first core ended")]
    CoreEnded,
    /// The member is gone.
    #[error("the member has ended")]
    Ended,
}

impl Absence {
    /// It is there, and says nothing: that is not as good as gone.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, Self::Unreadable(ArrayError::Silent { .. }))
    }
}

/// Why a disk is not there.
#[derive(Debug, Error)]
pub enum Absence {
    /// It cannot be opened.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It cannot be looked at.
    #[error(transparent)]
    Unreadable(#[from] ArrayError),
    /// It was named twice, in other words.
    #[error("it is '{0}' under another name")]
    Twin(String),
    /// What is there is of another array.
    #[error("what is there is of array {0}")]
    OtherArray(String),
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    names.join(", ")
}

fn not_found(missing: &[String]) -> String {
    if missing.is_empty() { String::new() } else { format!(" (not found: {})", quoted(missing)) }
}
