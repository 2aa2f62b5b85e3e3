//! The units and names that all parts of the array share.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The unit of checksums, of the journal and of healing.
pub const BLOCK_BYTES: usize = 4096;
/// The unit of allocation, of snapshots and of change tracking; also the strip of every RAID set.
pub const CLUSTER_BYTES: usize = 64 << 10;
/// Blocks of a cluster.
pub const CLUSTER_BLOCKS: usize = CLUSTER_BYTES / BLOCK_BYTES;

/// A disk's number in its array; never used again once its disk has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DiskId(pub u16);

/// A RAID set's number in its array, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SetId(pub u32);

/// The number of a volume, a snapshot or a clone, from 1 on; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VersionId(pub u32);

/// Counts snapshots over the whole array: what was written at epoch `e` is seen by every snapshot
/// of its volume that was taken at `e` or later.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Epoch(pub u32);

/// Where a cluster lies: a slot of a RAID set.
///
/// Slot `s` of a set with `k` data strips per stripe is column `s % k` of stripe `s / k`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place(NonZeroU64);

impl Place {
    /// Slot `slot` of `set`.
    ///
    /// # Panics
    /// When `set` is 0.
    #[must_use]
    pub fn new(set: SetId, slot: u32) -> Self {
        let raw = u64::from(set.0) << 32 | u64::from(slot);
        assert!(set.0 != 0, "sets count from 1");
        Self(NonZeroU64::new(raw).expect("the set is not 0"))
    }

    /// From its 8 bytes on disk; `None` for 0 and for set 0.
    #[must_use]
    pub fn from_raw(raw: u64) -> Option<Self> {
        if raw >> 32 == 0 { None } else { NonZeroU64::new(raw).map(Self) }
    }

    /// As it stands on disk.
    #[must_use]
    pub fn raw(self) -> u64 {
        self.0.get()
    }

    /// The set.
    #[must_use]
    pub fn set(self) -> SetId {
        SetId((self.raw() >> 32) as u32)
    }

    /// The slot in the set.
    #[must_use]
    pub fn slot(self) -> u32 {
        self.raw() as u32
    }
}

/// How the clusters of a volume are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No redundancy, spread over all disks.
    Raid0,
    /// Two copies; one pair of chunks is filled before the next.
    Raid1,
    /// Two copies, spread over all pairs of disks.
    Raid10,
    /// One parity strip in each stripe.
    Raid5,
    /// Two parity strips in each stripe.
    Raid6,
    /// Spread over several narrower RAID 5 sets.
    Raid50,
}

impl Level {
    /// All levels, in the order in which they are shown.
    pub const ALL: [Self; 6] =
        [Self::Raid0, Self::Raid1, Self::Raid10, Self::Raid5, Self::Raid6, Self::Raid50];

    /// Disks that any set of this level may lose without losing data.
    #[must_use]
    pub fn losses_max(self) -> usize {
        match self {
            Self::Raid0 => 0,
            Self::Raid1 | Self::Raid10 | Self::Raid5 | Self::Raid50 => 1,
            Self::Raid6 => 2,
        }
    }

    /// Parity strips in each stripe.
    #[must_use]
    pub fn parity(self) -> usize {
        match self {
            Self::Raid0 | Self::Raid1 | Self::Raid10 => 0,
            Self::Raid5 | Self::Raid50 => 1,
            Self::Raid6 => 2,
        }
    }

    /// The fewest disks that it works with.
    #[must_use]
    pub fn disks_min(self) -> usize {
        match self {
            Self::Raid0 => 1,
            Self::Raid1 | Self::Raid10 => 2,
            Self::Raid5 => 3,
            Self::Raid6 => 4,
            Self::Raid50 => 6,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid10 => "raid10",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
            Self::Raid50 => "raid50",
        })
    }
}

/// A word that names no RAID level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no RAID level: take one of raid0, raid1, raid10, raid5, raid6, raid50")]
pub struct UnknownLevel(pub String);

impl FromStr for Level {
    type Err = UnknownLevel;

    /// `raid5`, `RAID-5` and `5` are the same.
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let word = text.to_ascii_lowercase();
        let number = word.strip_prefix("raid").unwrap_or(&word).trim_start_matches(['-', ' ']);
        let level = Self::ALL.into_iter().find(|level| level.to_string()[4..] == *number);
        level.ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

/// CRC32C (Castagnoli), as everywhere in the project.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_its_set_and_slot() {
        let place = Place::new(SetId(7), 9);
        assert_eq!((place.set(), place.slot()), (SetId(7), 9));
        assert_eq!(Place::from_raw(place.raw()), Some(place));
        assert_eq!(Place::from_raw(0), None);
        assert_eq!(Place::from_raw(9), None);
    }

    #[test]
    fn levels_are_read_as_people_write_them() {
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert_eq!("RAID-10".parse(), Ok(Level::Raid10));
        assert_eq!("6".parse(), Ok(Level::Raid6));
        assert!("raid7".parse::<Level>().unwrap_err().to_string().contains("raid50"));
    }

    #[test]
    fn the_checksum_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
