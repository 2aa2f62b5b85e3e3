//! The records of the journal.

use serde::{Deserialize, Serialize};

use crate::DiskId;
use crate::{Epoch, Level, Place, SetId, VersionId};

/// A cluster that was written whole to a new place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The volume it is of.
    pub volume: VersionId,
    /// Its number in the volume.
    pub cluster: u64,
    /// Where it lies.
    pub place: Place,
    /// Checksum of each of its blocks.
    pub crcs: [u32; crate::CLUSTER_BLOCKS],
}

/// A volume and its new snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The volume.
    pub volume: VersionId,
    /// The number of the snapshot.
    pub snapshot: VersionId,
    /// The name of the snapshot.
    pub name: String,
}

/// Blocks of a cluster that were changed where it lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The set.
    pub set: SetId,
    /// Its stripe.
    pub stripe: u32,
    /// The data column.
    pub column: u8,
    /// Block and its new checksum.
    pub crcs: Vec<(u8, u32)>,
}

/// A change. Its postcard form is part of the format on disk: new kinds go to the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Blocks with these contents, which are the record's payload.
    Data {
        /// The volume written to.
        volume: VersionId,
        /// First block.
        block: u64,
        /// How many; at least one.
        blocks: u16,
    },
    /// Blocks that read as zeroes.
    Zero {
        /// The volume written to.
        volume: VersionId,
        /// First block.
        block: u64,
        /// How many.
        blocks: u64,
    },
    /// Whole clusters, written to new space: of sets with parity whole stripes.
    Map {
        /// The clusters.
        clusters: Vec<Placed>,
    },
    /// Snapshots taken in one moment.
    Snapshot {
        /// What the snapshots see is of this epoch or an earlier one.
        epoch: Epoch,
        /// When, for people.
        unix_seconds: u64,
        /// Of which volumes.
        taken: Vec<Taken>,
    },
    /// Chunks that form a RAID set from now on.
    NewSet {
        /// Its number.
        id: SetId,
        /// `None` for a set of metadata.
        level: Option<Level>,
        /// Disk and chunk of each column.
        members: Vec<(DiskId, u32)>,
    },
    /// Columns of stripes that parity covers from now on, and what changed in them: the maps
    /// still have the checksums of what was there before.
    Written {
        /// The checkpoint that wrote them.
        checkpoint: u64,
        /// Set, stripe and a mask of columns: in the lower byte those that the parity covers, in the
        /// upper one those that it takes for zeroes, as nobody could give them.
        stripes: Vec<(SetId, u32, u16)>,
        /// Clusters in which data was changed where it lies.
        changed: Vec<Changed>,
    },
    /// All changes of a volume that are not in its map follow once more, up to the
    /// [`AgainEnds`](Self::AgainEnds) of the same volume: then those before do not count.
    AgainBegins {
        /// The volume.
        volume: VersionId,
        /// What is written is born at this epoch, up to the first snapshot.
        epoch: Epoch,
    },
    /// They have been repeated, all of them.
    AgainEnds {
        /// The volume.
        volume: VersionId,
    },
    /// The repetition was cut off by a crash: what there is of it, up to here, does not count.
    AgainCut {
        /// The volume.
        volume: VersionId,
    },
}

impl Record {
    /// Blocks of payload that go with it.
    pub(super) fn payload_blocks(&self) -> u64 {
        match self {
            Self::Data { blocks, .. } => u64::from(*blocks),
            _ => 0,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data in memory always has a postcard form")
    }

    /// The first record of `bytes`, and the bytes after it.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (record, rest) = postcard::take_from_bytes::<Self>(bytes).ok()?;
        let sound = match &record {
            Self::Data { blocks, .. } => *blocks > 0,
            // A set of number 0 passes serde, which knows only that a place is not 0.
            Self::Map { clusters } => {
                clusters.iter().all(|placed| Place::from_raw(placed.place.raw()).is_some())
            }
            _ => true,
        };
        sound.then_some((record, rest))
    }
}
