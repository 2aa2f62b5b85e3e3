//! What an operator is told when something cannot be done: what is wrong, and the way out.

use block::BlockError;
use thiserror::Error;

use crate::Level;
use crate::membership::OpenRefusal;

/// Why the array refuses or fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// No volume has this name.
    #[error("there is no volume {0:?}")]
    NoSuchVolume(String),
    /// The name is taken.
    #[error("there is a volume {0:?} already: choose another name, or delete it first")]
    VolumeExists(String),
    /// The name is taken in the recycle bin.
    #[error("a deleted volume {0:?} waits in the recycle bin: undelete or purge it first")]
    InRecycleBin(String),
    /// The volume is not in the recycle bin.
    #[error("volume {0:?} is not in the recycle bin")]
    NotDeleted(String),
    /// No snapshot has this name.
    #[error("volume {volume:?} has no snapshot {name:?}")]
    NoSuchSnapshot {
        /// Its volume.
        volume: String,
        /// As asked for.
        name: String,
    },
    /// The name is taken.
    #[error("volume {volume:?} has a snapshot {name:?} already: choose another name")]
    SnapshotExists {
        /// Its volume.
        volume: String,
        /// As asked for.
        name: String,
    },
    /// More snapshots than a volume may have.
    #[error("volume {volume:?} has {max} snapshots, as many as there may be: delete some first")]
    TooManySnapshots {
        /// The volume.
        volume: String,
        /// How many there may be.
        max: usize,
    },
    /// More volumes and snapshots than a checkpoint can hold.
    #[error(
        "the array has as many volumes and snapshots as it can keep track of: delete some first"
    )]
    TablesFull,
    /// A name that cannot be one.
    #[error("{0:?} cannot be a name: take 1 to 63 letters, digits, '-', '.', '_' or ':'")]
    BadName(String),
    /// A size that cannot be one.
    #[error("a volume cannot have {size_bytes} bytes: {reason}")]
    BadSize {
        /// As asked for.
        size_bytes: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// A block size that cannot be one.
    #[error("a volume cannot have blocks of {0} bytes: take 512 or 4096")]
    BadBlock(u32),
    /// The level needs more disks.
    #[error("{level} needs {needed} disks, and {usable} can be used: add disks, or choose {other}")]
    TooFewDisks {
        /// As asked for.
        level: Level,
        /// Disks that it needs.
        needed: usize,
        /// Disks that there are.
        usable: usize,
        /// A level that would do.
        other: Level,
    },
    /// Not enough free space.
    #[error("there is room for {} more of this level, and a thick volume needs {}: add a disk, or make it thin", size(*.free_bytes), size(*.asked_bytes))]
    NoSpace {
        /// What there is.
        free_bytes: u64,
        /// What was asked for.
        asked_bytes: u64,
    },
    /// The volume is in use.
    #[error("volume {0:?} is online")]
    NotOffline(String),
    /// The snapshot is in use.
    #[error("snapshot {snapshot:?} of volume {volume:?} is online")]
    SnapshotOnline {
        /// Its volume.
        volume: String,
        /// Its name.
        snapshot: String,
    },
    /// No host ever wrote to the snapshot.
    #[error("snapshot {snapshot:?} of volume {volume:?} was never served read-write")]
    NeverWritable {
        /// Its volume.
        volume: String,
        /// Its name.
        snapshot: String,
    },
    /// A snapshot that is being deleted.
    #[error("snapshot {0:?} is being deleted")]
    Deleting(String),
    /// The disk is not one of the array.
    #[error("there is no disk {0:?} in this array")]
    NoSuchDisk(String),
    /// A disk that cannot be taken in.
    #[error("{0}")]
    BadDisk(String),
    /// A disk that was asked what it is.
    #[error("it has not answered for {seconds} seconds")]
    Silent {
        /// So long it was waited for.
        seconds: u64,
    },
    /// Without the disk there would be too few.
    #[error("disk {disk:?} cannot leave: {reason}")]
    DiskNeeded {
        /// The disk.
        disk: String,
        /// Why.
        reason: String,
    },
    /// The disk is not about to leave.
    #[error("disk {0:?} is not retiring")]
    NotRetiring(String),
    /// An array cannot be made or opened from these disks.
    #[error("{0}")]
    Refused(String),
    /// An array lacks disks that it needs to be opened.
    #[error("{0}")]
    Incomplete(OpenRefusal),
    /// The only disk with the journal or the checkpoints failed, and no other can take over.
    #[error(
        "{0}, and no other can take over: bring it back; nothing that was acknowledged is lost"
    )]
    LastHolder(String),
    /// Disks may have lost what they had not made durable.
    #[error(
        "more disks than the RAID level survives failed before what was written to them was \
         durable: open the array again when they are back; nothing that was acknowledged is lost"
    )]
    Unflushed,
    /// Disks refuse writes, because what they lie on is full; by their paths.
    #[error(
        "no space is left where {} {}: make room there (`df` shows how full a file system is) and \
         start again; nothing that was acknowledged is lost",
        .0.join(", "), if .0.len() == 1 { "lies" } else { "lie" }
    )]
    DisksFull(Vec<String>),
    /// Too many disks are missing.
    #[error("more disks are missing than the RAID level survives: bring them back")]
    Lost,
    /// Something lies on disks that are not there, and nowhere else.
    #[error(
        "{what} cannot be read without {}, which {} missing: connect {}, and it is there again",
        .missing.join(", "), if .missing.len() == 1 { "is" } else { "are" },
        if .missing.len() == 1 { "it" } else { "them" }
    )]
    Missing {
        /// What is needed.
        what: String,
        /// The disks, by the paths where they were last.
        missing: Vec<String>,
    },
    /// What is on the disks contradicts itself.
    #[error("the array is damaged: {0}")]
    Damaged(String),
    /// A device failed where nothing could take its place.
    #[error("I/O failed: {0}")]
    Io(#[from] BlockError),
    /// The array was closed without its last checkpoint.
    #[error(
        "the last checkpoint waited for {what}, stood still for {seconds} seconds and was given up: the next start \
         makes up for it"
    )]
    Unsettled {
        /// What it waited for.
        what: &'static str,
        /// For so long it had not got on.
        seconds: u64,
    },
    /// The array was closed, or stopped after an error.
    #[error("the array has stopped: {0}")]
    Stopped(String),
}

/// Bytes as people read them: whole binary units where possible, else one decimal.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = (1..UNITS.len()).rev().find(|&unit| bytes >= 1 << (10 * unit)).unwrap_or(0);
    let one = 1u64 << (10 * unit);
    if bytes.is_multiple_of(one) {
        format!("{} {}", bytes / one, UNITS[unit])
    } else {
        format!("{:.1} {}", bytes as f64 / one as f64, UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_the_reason_and_the_way_out() {
        let error = ArrayError::NoSpace { free_bytes: 12 << 30, asked_bytes: 20 << 30 };
        let text = "there is room for 12 GiB more of this level, and a thick volume needs 20 GiB: add a disk, \
             or make it thin";
        assert_eq!(error.to_string(), text);
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(0), "0 bytes");
    }
}
