//! What is known of one cluster.

use crate::{CLUSTER_BLOCKS, Place};

/// Where one block's newest contents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Block {
    /// Not changed here: look at the base.
    #[default]
    Base,
    /// Zeroes.
    Zero,
    /// In the journal, at this position.
    Journal(u64),
}

/// What lies under the blocks of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Base {
    /// Older changes, or the map.
    #[default]
    Below,
    /// Nothing: zeroes.
    Zero,
    /// A cluster that was written whole to new space, with the checksums of its blocks.
    At(Place, Box<[u32; CLUSTER_BLOCKS]>),
}

/// Changes of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Patch {
    /// Under the blocks.
    pub(crate) base: Base,
    /// Above it.
    pub(crate) blocks: [Block; CLUSTER_BLOCKS],
    /// Where it will go when it is destaged.
    pub(crate) room: Room,
}

/// Where a patch will go when it is destaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Room {
    /// It writes nothing yet.
    #[default]
    Undecided,
    /// To a cluster that is the volume's alone.
    InPlace,
    /// To a new cluster, for which one of the free ones is set aside.
    Reserved,
    /// As `Reserved`, of those that are kept for a thick volume.
    Thick,
}

impl Room {
    /// Whether a free cluster is set aside.
    pub(crate) fn is_promised(self) -> bool {
        matches!(self, Self::Reserved | Self::Thick)
    }
}

impl Patch {
    /// Replaces all that was known of the contents.
    pub(crate) fn rebase(&mut self, base: Base) {
        self.base = base;
        self.blocks = [Block::Base; CLUSTER_BLOCKS];
    }

    /// Puts `older` under this one. Returns whether nothing can lie below any more.
    pub(super) fn lay_under(&mut self, older: &Self) -> bool {
        debug_assert_eq!(self.base, Base::Below, "a patch with a base has nothing below");
        for (mine, theirs) in self.blocks.iter_mut().zip(&older.blocks) {
            if *mine == Block::Base {
                *mine = *theirs;
            }
        }
        self.base = older.base.clone();
        self.is_settled()
    }

    /// Whether nothing below can be seen through it.
    pub(crate) fn is_settled(&self) -> bool {
        self.base != Base::Below || self.blocks.iter().all(|block| *block != Block::Base)
    }

    /// Whether any block differs from the base.
    pub(crate) fn has_blocks(&self) -> bool {
        self.blocks.iter().any(|block| *block != Block::Base)
    }
}
