//! Who gets which part of the disks: chunks of disks form RAID sets ([`Chunks`]), slots of sets
//! hold clusters and metadata pages ([`Slots`]), and all sets of a level are one [`Pool`].
//!
//! Nothing here does I/O or knows chance: the same calls give the same places.

mod bits;
mod chunks;
mod pool;
mod slots;

pub use chunks::{COPIES_MIN, Chunks, Gives};
pub use pool::{Claim, NeedSet, Pool};
pub use slots::{BadBitmap, Slots};

use crate::Level;

/// Data strips of a stripe at most: wider sets save little space and rebuild slowly.
const DATA_STRIPS_MAX: usize = 8;
/// Copies of metadata, if there are so many disks: it outlives the loss of any two.
pub(crate) const METADATA_COPIES: usize = 3;

/// What a set holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pages of maps and bitmaps, mirrored.
    Metadata,
    /// Clusters of volumes of this level.
    Data(Level),
}

impl From<Level> for Kind {
    fn from(level: Level) -> Self {
        Self::Data(level)
    }
}

/// How many disks a new set of this kind lies on when `disks` take new chunks; `None` when they
/// are too few.
///
/// Parity sets leave disks out where they can, one or (RAID 6, from 6 disks on) two: a rebuild
/// needs a disk that the set is not on yet.
#[must_use]
pub fn width(kind: impl Into<Kind>, disks: usize) -> Option<usize> {
    let level = match kind.into() {
        Kind::Metadata => return (disks > 0).then_some(disks.min(METADATA_COPIES)),
        Kind::Data(level) => level,
    };
    if disks < level.disks_min() {
        return None;
    }
    let parity_set = |wished: usize, least: Level| {
        wished.clamp(least.disks_min(), DATA_STRIPS_MAX + least.parity())
    };
    let width = match level {
        Level::Raid0 => 1,
        Level::Raid1 | Level::Raid10 => 2,
        Level::Raid5 => parity_set(disks - 1, Level::Raid5),
        Level::Raid6 => parity_set(disks - if disks >= 6 { 2 } else { 1 }, Level::Raid6),
        // Each of its sets is a RAID 5 set.
        Level::Raid50 => parity_set(disks / 2, Level::Raid5),
    };
    assert!(width <= disks && width > level.parity(), "{width} of {disks} disks for {level}");
    Some(width)
}

/// How many sets of this kind are filled side by side, so that neighbouring clusters go to
/// different disks: one for each group of disks that a set covers.
#[must_use]
pub fn lanes(kind: impl Into<Kind>, disks: usize) -> usize {
    let kind = kind.into();
    match (kind, width(kind, disks)) {
        // One pair is filled before the next: that is what tells RAID 1 from RAID 10.
        (Kind::Data(Level::Raid1), _) | (_, None) => 1,
        (_, Some(width)) => (disks / width).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widths(level: Level) -> Vec<Option<usize>> {
        [1, 2, 3, 4, 5, 6, 7, 8, 12, 24].map(|disks| width(level, disks)).to_vec()
    }

    #[test]
    fn sets_are_as_wide_as_their_level_and_the_disks_allow() {
        let some = |widths: [usize; 10]| widths.map(|w| (w > 0).then_some(w)).to_vec();
        assert_eq!(widths(Level::Raid0), some([1; 10]));
        assert_eq!(widths(Level::Raid1), some([0, 2, 2, 2, 2, 2, 2, 2, 2, 2]));
        assert_eq!(widths(Level::Raid10), widths(Level::Raid1));
        assert_eq!(widths(Level::Raid5), some([0, 0, 3, 3, 4, 5, 6, 7, 9, 9]));
        assert_eq!(widths(Level::Raid6), some([0, 0, 0, 4, 4, 4, 5, 6, 10, 10]));
        assert_eq!(widths(Level::Raid50), some([0, 0, 0, 0, 0, 3, 3, 4, 6, 9]));
        let metadata = [0, 1, 2, 3, 9].map(|disks| width(Kind::Metadata, disks));
        assert_eq!(metadata, [None, Some(1), Some(2), Some(3), Some(3)]);
    }

    #[test]
    fn a_set_is_never_wider_than_the_disks_and_bears_what_its_level_promises() {
        for level in Level::ALL {
            for disks in 0..40 {
                let Some(width) = width(level, disks) else {
                    assert!(disks < level.disks_min());
                    continue;
                };
                assert!(width <= disks && width > level.losses_max());
                assert!(level.parity() == 0 || width - level.parity() >= 2, "parity of one strip");
            }
        }
    }

    #[test]
    fn lanes_cover_the_disks() {
        assert_eq!(lanes(Level::Raid0, 5), 5);
        assert_eq!(lanes(Level::Raid1, 8), 1);
        assert_eq!(lanes(Level::Raid10, 8), 4);
        assert_eq!(lanes(Level::Raid5, 24), 2);
        assert_eq!(lanes(Level::Raid6, 5), 1);
        assert_eq!(lanes(Level::Raid50, 6), 2);
        assert_eq!(lanes(Kind::Metadata, 2), 1);
        assert_eq!(lanes(Level::Raid5, 2), 1, "sets that there are stay usable");
    }
}
