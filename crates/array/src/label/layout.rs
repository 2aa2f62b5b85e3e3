//! Where things lie on a disk of an array.

use serde::{Deserialize, Serialize};

use crate::{BLOCK_BYTES, CLUSTER_BYTES};

/// Bytes of each of the two labels.
pub const LABEL_BYTES: u64 = 64 << 10;
/// Fewest chunks that a data disk must hold: below that, wide sets cannot be spread.
const CHUNKS_MIN: u64 = 4;
/// Chunks that the smallest disk should hold: they are the grain of spreading and of rebuilds.
const CHUNKS_WANTED: u64 = 16;
const CHUNK_BYTES_MIN: u64 = 1 << 20;
const CHUNK_BYTES_MAX: u64 = 256 << 20;
const JOURNAL_BYTES_MIN: u64 = 4 << 20;
const JOURNAL_BYTES_MAX: u64 = 256 << 20;
/// What a checkpoint slot has for volumes and snapshots: at least the 4,096 snapshots that one
/// volume may have, whatever their names.
const TABLES_BYTES_MIN: u64 = 1 << 20;
const TABLES_BYTES_MAX: u64 = 64 << 20;
/// ... and for RAID sets, of which each chunk may be one: what a record says about them at most, for
/// a set and for what it holds.
const SET_BYTES: u64 = 128;
const STRIPES_SHARE: u64 = 1 << 17;
/// Two full stripes of 8 + 2 strips (1280 KiB) and room for their headers.
const REDO_BYTES: u64 = 1536 << 10;
/// Larger than any area can be; keeps sums of a decoded layout far from overflow.
const AREA_BYTES_MAX: u64 = 1 << 40;

/// Sizes of the areas, the same on every disk of an array and fixed when it is made.
///
/// ```text
/// 0        64 KiB                                                              size - 64 KiB
/// +---------+--------------+--------------+------+---------+---------+- - -+---+---------+
/// | label A | checkpoint A | checkpoint B | redo | journal | chunk 0 |     |gap| label B |
/// +---------+--------------+--------------+------+---------+---------+- - -+---+---------+
/// ```
///
/// 1. Every area begins and ends at a multiple of a cluster, except the gap and label B, which
///    begin and end at a multiple of a block.
/// 2. `chunk_bytes` is a power of two.
/// 3. A disk's size counts in whole blocks: bytes beyond the last one are never touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// Each of the two labels.
    pub label_bytes: u64,
    /// Each of the two checkpoint slots.
    pub checkpoint_bytes: u64,
    /// The redo area.
    pub redo_bytes: u64,
    /// The ring of the journal.
    pub journal_bytes: u64,
    /// Unit of RAID sets.
    pub chunk_bytes: u64,
}

/// Why no layout fits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An array of nothing.
    #[error("an array needs at least one disk")]
    NoDisks,
    /// A disk is too small.
    #[error("a disk of {size_bytes} bytes is too small: this array needs at least {min_bytes}")]
    TooSmall {
        /// What it has.
        size_bytes: u64,
        /// What it must have.
        min_bytes: u64,
    },
    /// The wish for a chunk size cannot be met.
    #[error(
        "chunks of {chunk_bytes} bytes are not possible: take a power of two from 1 MiB to 256 MiB"
    )]
    Chunk {
        /// What was asked for.
        chunk_bytes: u64,
    },
}

impl Layout {
    /// The layout for data disks of these sizes; `chunk_bytes` overrides the size of chunks.
    ///
    /// # Errors
    /// [`LayoutError`]; the smallest disk decides.
    pub fn choose(sizes_bytes: &[u64], chunk_bytes: Option<u64>) -> Result<Self, LayoutError> {
        let smallest = *sizes_bytes.iter().min().ok_or(LayoutError::NoDisks)?;
        let total = sizes_bytes.iter().fold(0_u64, |sum, size| sum.saturating_add(*size));
        // Names and roots of versions: 1/64 of one disk is what they may cost at most.
        let tables_max = (smallest / 64).clamp(TABLES_BYTES_MIN, TABLES_BYTES_MAX);
        let tables_bytes = (total / 1024).clamp(TABLES_BYTES_MIN, tables_max);
        let checkpoint_bytes = |chunk_bytes: u64| {
            let sets_bytes = total / chunk_bytes * SET_BYTES + total / STRIPES_SHARE;
            // A small disk among large ones is in few of their sets.
            let sets_max = whole_clusters(smallest / 64).max(CLUSTER_BYTES as u64);
            whole_clusters(tables_bytes)
                + sets_bytes.next_multiple_of(CLUSTER_BYTES as u64).min(sets_max)
        };
        let mut layout = Self {
            label_bytes: LABEL_BYTES,
            checkpoint_bytes: checkpoint_bytes(CHUNK_BYTES_MAX),
            redo_bytes: REDO_BYTES,
            journal_bytes: whole_clusters(
                (smallest / 64).clamp(JOURNAL_BYTES_MIN, JOURNAL_BYTES_MAX),
            ),
            chunk_bytes: CHUNK_BYTES_MAX,
        };
        match chunk_bytes {
            Some(chunk_bytes) if is_chunk(chunk_bytes) => {
                layout.chunk_bytes = chunk_bytes;
                layout.checkpoint_bytes = checkpoint_bytes(chunk_bytes);
            }
            Some(chunk_bytes) => return Err(LayoutError::Chunk { chunk_bytes }),
            None => {
                while layout.chunk_bytes > CHUNK_BYTES_MIN
                    && u64::from(layout.chunks(smallest)) < CHUNKS_WANTED
                {
                    layout.chunk_bytes /= 2;
                    layout.checkpoint_bytes = checkpoint_bytes(layout.chunk_bytes);
                }
            }
        }
        layout.check_disk(smallest)?;
        assert!(layout.is_sound(), "a chosen layout keeps its own rules");
        Ok(layout)
    }

    /// Refuses a data disk that is too small for this layout.
    ///
    /// # Errors
    /// [`LayoutError::TooSmall`].
    pub fn check_disk(&self, size_bytes: u64) -> Result<(), LayoutError> {
        self.check(size_bytes, CHUNKS_MIN)
    }

    /// Refuses a disk that is too small to hold the journal (and no data) in this layout.
    ///
    /// # Errors
    /// [`LayoutError::TooSmall`].
    pub fn check_journal_disk(&self, size_bytes: u64) -> Result<(), LayoutError> {
        self.check(size_bytes, 0)
    }

    fn check(&self, size_bytes: u64, chunks: u64) -> Result<(), LayoutError> {
        let min_bytes = self.chunks_at() + chunks * self.chunk_bytes + self.label_bytes;
        if size_bytes < min_bytes {
            return Err(LayoutError::TooSmall { size_bytes, min_bytes });
        }
        Ok(())
    }

    /// Where checkpoint slot 0 or 1 begins.
    #[must_use]
    pub fn checkpoint_at(&self, slot: u64) -> u64 {
        assert!(slot < 2, "there are two slots");
        self.label_bytes + slot * self.checkpoint_bytes
    }

    /// Where the redo area begins.
    #[must_use]
    pub fn redo_at(&self) -> u64 {
        self.label_bytes + 2 * self.checkpoint_bytes
    }

    /// Where the journal begins.
    #[must_use]
    pub fn journal_at(&self) -> u64 {
        self.redo_at() + self.redo_bytes
    }

    /// Where the first chunk begins.
    #[must_use]
    pub fn chunks_at(&self) -> u64 {
        self.journal_at() + self.journal_bytes
    }

    /// Where chunk `chunk` begins.
    #[must_use]
    pub fn chunk_at(&self, chunk: u32) -> u64 {
        self.chunks_at() + u64::from(chunk) * self.chunk_bytes
    }

    /// Chunks on a disk of this size.
    #[must_use]
    pub fn chunks(&self, size_bytes: u64) -> u32 {
        let label_b_at = Self::label_b_at(size_bytes).unwrap_or(0);
        let room_bytes = label_b_at.saturating_sub(self.chunks_at());
        u32::try_from(room_bytes / self.chunk_bytes).unwrap_or(u32::MAX)
    }

    /// Where label B of a disk of this size begins; `None` when two labels do not fit.
    #[must_use]
    pub fn label_b_at(size_bytes: u64) -> Option<u64> {
        let end = size_bytes - size_bytes % BLOCK_BYTES as u64;
        end.checked_sub(LABEL_BYTES).filter(|at| *at >= LABEL_BYTES)
    }

    /// Whether a layout that was read can be computed with: rules 1 and 2, and sane sizes.
    pub(super) fn is_sound(&self) -> bool {
        let areas = [self.checkpoint_bytes, self.redo_bytes, self.journal_bytes];
        self.label_bytes == LABEL_BYTES
            && is_chunk(self.chunk_bytes)
            && self.journal_bytes >= JOURNAL_BYTES_MIN
            && areas.iter().all(|area| {
                *area > 0 && *area <= AREA_BYTES_MAX && area % CLUSTER_BYTES as u64 == 0
            })
    }
}

fn whole_clusters(bytes: u64) -> u64 {
    bytes - bytes % CLUSTER_BYTES as u64
}

fn is_chunk(bytes: u64) -> bool {
    bytes.is_power_of_two() && (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn test_disks_and_real_disks_get_fitting_layouts() {
        let small = Layout::choose(&[16 * MIB; 6], None).unwrap();
        assert_eq!((small.chunk_bytes, small.journal_bytes), (MIB, 4 * MIB));
        assert_eq!(small.chunks(16 * MIB), 8);
        let middle = Layout::choose(&[64 * MIB, 128 * MIB], None).unwrap();
        assert_eq!(middle.chunk_bytes, 2 * MIB);
        let big = Layout::choose(&[4 << 40; 12], None).unwrap();
        assert_eq!((big.chunk_bytes, big.journal_bytes), (256 * MIB, 256 * MIB));
        // 64 MiB for volumes and snapshots, 24 for 196,608 sets, 384 for what they hold.
        assert_eq!(big.checkpoint_bytes, (64 + 24 + 384) * MIB);
        // With the journal they take the place of five chunks.
        assert_eq!(big.chunks(4 << 40), 16379);
    }

    #[test]
    fn a_slot_has_room_for_as_many_snapshots_as_a_volume_may_have_and_for_all_sets() {
        for (disks, size, chunk) in
            [(2, 16 * MIB, None), (6, 64 * MIB, Some(MIB)), (24, 1 << 40, None), (3, 1 << 44, None)]
        {
            let layout = Layout::choose(&vec![size; disks], chunk).unwrap();
            let chunks = disks as u64 * u64::from(layout.chunks(size));
            let stripes = (layout.chunk_bytes / CLUSTER_BYTES as u64) as u32;
            let (set, tables) = (crate::raid::bytes_max(1, 0, stripes), 4096 * (112 + 63));
            let image = 16 + u64::from(stripes).div_ceil(64) * 8;
            let needed = chunks * (set + image) + tables;
            assert!(layout.checkpoint_bytes >= needed, "{needed} of {}", layout.checkpoint_bytes);
        }
    }

    #[test]
    fn the_redo_area_holds_two_of_the_widest_stripes() {
        let layout = Layout::choose(&[16 * MIB], None).unwrap();
        assert!(layout.redo_bytes >= 2 * (8 + 2) * CLUSTER_BYTES as u64 + 2 * BLOCK_BYTES as u64);
    }

    #[test]
    fn a_disk_too_small_is_told_the_minimum() {
        let error = Layout::choose(&[64 * MIB, 3 * MIB], None).unwrap_err();
        let LayoutError::TooSmall { size_bytes, min_bytes } = error else { panic!("{error}") };
        assert_eq!(size_bytes, 3 * MIB);
        assert!(Layout::choose(&[min_bytes - 4096], None).is_err());
        let layout = Layout::choose(&[min_bytes], None).unwrap();
        assert_eq!(layout.chunks(min_bytes), 4);
        assert!(layout.check_journal_disk(min_bytes - 4 * MIB).is_ok());
        assert!(layout.check_journal_disk(min_bytes - 4 * MIB - 4096).is_err());
        assert_eq!(Layout::choose(&[], None), Err(LayoutError::NoDisks));
    }

    #[test]
    fn a_wish_for_chunks_is_met_or_refused() {
        let layout = Layout::choose(&[64 * MIB], Some(4 * MIB)).unwrap();
        assert_eq!(layout.chunk_bytes, 4 * MIB);
        assert!(matches!(
            Layout::choose(&[64 * MIB], Some(3 * MIB)),
            Err(LayoutError::Chunk { .. })
        ));
        assert!(matches!(
            Layout::choose(&[64 * MIB], Some(256 * MIB)),
            Err(LayoutError::TooSmall { .. })
        ));
    }

    proptest! {
        #[test]
        fn areas_follow_each_other_and_fit(
            sizes in proptest::collection::vec(12 * MIB..1 << 44, 1..20),
        ) {
            let layout = Layout::choose(&sizes, None).unwrap();
            prop_assert!(layout.is_sound());
            for at in [layout.checkpoint_at(0), layout.checkpoint_at(1), layout.redo_at(),
                       layout.journal_at(), layout.chunks_at(), layout.chunk_at(3)] {
                prop_assert_eq!(at % CLUSTER_BYTES as u64, 0);
            }
            for size in sizes {
                let chunks = layout.chunks(size);
                let label_b_at = Layout::label_b_at(size).unwrap();
                prop_assert!(chunks >= 4);
                prop_assert!(layout.chunk_at(chunks) <= label_b_at);
                prop_assert!(layout.chunk_at(chunks + 1) > label_b_at);
                prop_assert_eq!(label_b_at % BLOCK_BYTES as u64, 0);
                prop_assert!(label_b_at + LABEL_BYTES <= size);
            }
        }
    }
}
