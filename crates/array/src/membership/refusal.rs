//! Why no array is opened.

use crate::DiskId;
use crate::label::{self, ArrayId};

/// Why no array is opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenRefusal {
    /// None of the disks has a label.
    #[error("no disk of an array is among the {disks} given{}", first_reason(.first))]
    NoArray {
        /// How many were given.
        disks: usize,
        /// What the first one is.
        first: Option<(String, String)>,
    },
    /// Disks of two arrays.
    #[error(
        "{a} belongs to array {array_a}, but {b} to array {array_b}: give the disks of one array"
    )]
    TwoArrays {
        /// A disk.
        a: String,
        /// Its array.
        array_a: ArrayId,
        /// Another disk.
        b: String,
        /// Its array.
        array_b: ArrayId,
    },
    /// Two disks say that they are the same.
    #[error(
        "{a} and {b} both are disk {} of array {array}: one is a copy of the other, or the same \
         disk was given twice; leave one out", .disk.0
    )]
    SameDisk {
        /// A disk.
        a: String,
        /// Another one.
        b: String,
        /// What both say they are.
        disk: DiskId,
        /// Their array.
        array: ArrayId,
    },
    /// The array was never finished.
    #[error(
        "array {array} on {name} was not finished when it was made and holds no data: make it anew"
    )]
    HalfMade {
        /// A disk of it.
        name: String,
        /// The array.
        array: ArrayId,
    },
    /// A newer program wrote the disk.
    #[error(
        "{name} has format version {version}, this program reads version {}: \
         use the program that wrote it",
        label::FORMAT_VERSION
    )]
    Version {
        /// A disk.
        name: String,
        /// Its version.
        version: u32,
    },
    /// Two parts of the array went on without each other.
    #[error(
        "array {array} went on in two parts without each other: {} without {}, and {} without {}; \
         neither is opened beside the other: start with the disks of one part only, and take those \
         of the other in as blank disks when nothing on them is needed",
        list(.one), list(.other), list(.other), list(.one)
    )]
    TwoHistories {
        /// The array.
        array: ArrayId,
        /// The disks of one part.
        one: Vec<String>,
        /// Those of the other.
        other: Vec<String>,
    },
    /// Half of the disks or less, and what is missing holds data that nobody else has.
    #[error(
        "{present} of the {active} disks of array {array} are there, and the RAID sets need more \
         (missing: {}): add the missing disks, or accept that they are missing and lose what only \
         they know", list(.missing)
    )]
    TooFew {
        /// The array.
        array: ArrayId,
        /// Active members that are there.
        present: usize,
        /// All active members.
        active: usize,
        /// Those that are not, by the paths where they were last.
        missing: Vec<String>,
    },
    /// No disk with the checkpoints.
    #[error(
        "none of the disks that hold the checkpoints of array {array} is there (missing: {}): \
         add one of them", list(.missing)
    )]
    NoHolders {
        /// The array.
        array: ArrayId,
        /// All of them.
        missing: Vec<String>,
    },
    /// No disk with the journal.
    #[error(
        "none of the disks that hold the journal of array {array} is there (missing: {}), and with \
         it writes that were acknowledged: add one of them, or accept that they are missing and lose what \
         was not in its place yet", list(.missing)
    )]
    NoJournal {
        /// The array.
        array: ArrayId,
        /// All of them.
        missing: Vec<String>,
    },
    /// Whoever is there and holds the journal had missed some of it when the last checkpoint was made.
    #[error(
        "the journal of array {array} on {} is older than its last checkpoint, as an old copy of a disk is: \
         bring back the disk that was there, or accept that it is missing and lose what was not in its \
         place yet", list(.disks)
    )]
    OldJournal {
        /// The array.
        array: ArrayId,
        /// The disks.
        disks: Vec<String>,
    },
    /// Disks are older than the others, and nobody else has what was there in their place.
    #[error(
        "disks of array {array} ({}) are older than {}, as images are that were put back, and what was there in \
         their place is on no other: bring it back, or accept that it is missing and lose what was written since \
         (to go back to images of all disks, start without the newer ones)",
        list(.disks), list(.newer)
    )]
    OldDisks {
        /// The array.
        array: ArrayId,
        /// The disks.
        disks: Vec<String>,
        /// Disks that know more.
        newer: Vec<String>,
    },
    /// Disks know of a newer checkpoint than those that can be read.
    #[error(
        "the newest checkpoint of array {array} cannot be read on {}, and is on no other disk that is there, as {} know: \
         start again when they can be read, or accept that it is lost, with what was written since the one before",
        list(.disks), list(.newer)
    )]
    UnreadCheckpoint {
        /// The array.
        array: ArrayId,
        /// The disks.
        disks: Vec<String>,
        /// Disks that know of it.
        newer: Vec<String>,
    },
    /// A checkpoint was cut off, and what it had half done cannot be done again.
    #[error(
        "array {array} was cut off while it changed stripes that now miss too many disks \
         (missing: {}): add the missing disks, or accept that they are missing and lose these \
         stripes", list(.missing)
    )]
    Unfinished {
        /// The array.
        array: ArrayId,
        /// Members that are not there.
        missing: Vec<String>,
    },
}

impl OpenRefusal {
    /// Whether the array can be opened all the same when an operator accepts the loss.
    #[must_use]
    pub fn can_be_accepted(&self) -> bool {
        matches!(
            self,
            Self::TooFew { .. }
                | Self::Unfinished { .. }
                | Self::NoJournal { .. }
                | Self::OldJournal { .. }
                | Self::OldDisks { .. }
                | Self::UnreadCheckpoint { .. }
        )
    }

    /// The disks that it waits for, by the paths where they were last; old copies of them by their own.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        match self {
            Self::TooFew { missing, .. }
            | Self::NoHolders { missing, .. }
            | Self::NoJournal { missing, .. }
            | Self::OldJournal { disks: missing, .. }
            | Self::OldDisks { disks: missing, .. }
            | Self::UnreadCheckpoint { disks: missing, .. }
            | Self::Unfinished { missing, .. } => missing,
            _ => &[],
        }
    }
}

fn list(names: &[String]) -> String {
    names.join(", ")
}

fn first_reason(first: &Option<(String, String)>) -> String {
    first.as_ref().map_or(String::new(), |(name, reason)| format!(": {name} is {reason}"))
}
