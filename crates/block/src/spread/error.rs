//! Why slices do not make a volume.

use super::dealing::{PAGE_BYTES_MIN, PATTERN_MAX};

/// Why a volume cannot be spread like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpreadError {
    /// Pages cannot have this size.
    #[error("a page has {page_bytes} bytes, which is no power of two from {PAGE_BYTES_MIN} on")]
    Page {
        /// Bytes asked for.
        page_bytes: u64,
    },
    /// Too many entries in the pattern, or none.
    #[error("the pattern of pages has {entries} entries, and not 1 to {PATTERN_MAX}")]
    Pattern {
        /// Entries asked for.
        entries: usize,
    },
    /// Too many slices, or none.
    #[error("there are {slices} slices, and not 1 to {}", super::SLICES_MAX)]
    Slices {
        /// Slices that were given.
        slices: usize,
    },
    /// The pattern gives pages to a slice that is not there.
    #[error("the pattern of pages names slice {slice}, and there are {slices}")]
    NoSuchSlice {
        /// The slice that is named.
        slice: u8,
        /// Slices that were given.
        slices: usize,
    },
    /// A slice has other logical blocks than the first one.
    #[error("slice {slice} has blocks of {found} bytes, and the first one of {block_bytes}")]
    OtherBlocks {
        /// Which slice.
        slice: usize,
        /// Its logical block.
        found: u32,
        /// The logical block of the first slice.
        block_bytes: u32,
    },
    /// A slice is smaller than the volume.
    #[error("slice {slice} has {found} blocks, and the volume {blocks}")]
    SmallSlice {
        /// Which slice.
        slice: usize,
        /// Its blocks.
        found: u64,
        /// Blocks of the volume.
        blocks: u64,
    },
    /// The volume would become smaller.
    #[error("the volume has {now} blocks and does not shrink to {blocks}")]
    Shrinks {
        /// Blocks that it has.
        now: u64,
        /// Blocks asked for.
        blocks: u64,
    },
}
