//! The changes between two snapshots or checkpoints.

use std::collections::BTreeMap;
use std::ops::Range;

use super::ranges::Ranges;
use super::{Base, Block, Patch, Under};
use crate::{CLUSTER_BLOCKS, Epoch, VersionId};

/// A snapshot that is in the journal and waits for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) snapshot: VersionId,
    pub(crate) name: String,
    pub(crate) epoch: Epoch,
    pub(crate) size_bytes: u64,
    pub(crate) unix_seconds: u64,
}

/// Changes of one volume.
#[derive(Debug)]
pub(crate) struct Segment {
    /// What it writes is born at this epoch.
    pub(crate) epoch: Epoch,
    clusters: BTreeMap<u64, Patch>,
    zeroed: Ranges,
    taken: Option<Taken>,
}

impl Segment {
    pub(super) fn new(epoch: Epoch) -> Self {
        Self { epoch, clusters: BTreeMap::new(), zeroed: Ranges::default(), taken: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.zeroed.is_empty() && self.taken.is_none()
    }

    pub(super) fn end_with(&mut self, taken: Taken) {
        assert!(self.taken.is_none(), "a segment ends once");
        assert!(taken.epoch >= self.epoch, "epochs do not go back");
        self.taken = Some(taken);
    }

    pub(super) fn is_end_of(&self, snapshot: VersionId) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.snapshot == snapshot)
    }

    /// The snapshot that it ends with.
    pub(crate) fn taken(&self) -> Option<&Taken> {
        self.taken.as_ref()
    }

    /// The patch of `cluster`, if it has one.
    pub(crate) fn patch(&self, cluster: u64) -> Option<&Patch> {
        self.clusters.get(&cluster)
    }

    /// The patch of `cluster` to be changed; a new one shows what the segment knew before.
    pub(crate) fn patch_mut(&mut self, cluster: u64) -> &mut Patch {
        let is_zeroed = self.zeroed.contains(cluster);
        self.clusters.entry(cluster).or_insert_with(|| {
            let base = if is_zeroed { Base::Zero } else { Base::Below };
            Patch { base, ..Patch::default() }
        })
    }

    /// Blocks `first..first + count` of the volume are in the journal from `position` on.
    pub(crate) fn write(&mut self, first: u64, count: u64, position: u64) {
        for index in 0..count {
            let block = first + index;
            let patch = self.patch_mut(block / CLUSTER_BLOCKS as u64);
            let place = position + index * crate::BLOCK_BYTES as u64;
            patch.blocks[(block % CLUSTER_BLOCKS as u64) as usize] = Block::Journal(place);
        }
    }

    /// Blocks `first..first + count` read as zeroes from now on. Returns the patches that this
    /// took out, for what they had set aside or written.
    pub(crate) fn zero(&mut self, first: u64, count: u64) -> Vec<Patch> {
        let per = CLUSTER_BLOCKS as u64;
        let end = first + count;
        let whole = first.div_ceil(per)..end / per;
        if whole.start >= whole.end {
            self.zero_blocks(first..end);
            return Vec::new();
        }
        self.zero_blocks(first..whole.start * per);
        self.zero_blocks(whole.end * per..end);
        let inside: Vec<u64> = self.clusters.range(whole.clone()).map(|(&at, _)| at).collect();
        self.zeroed.insert(whole);
        inside.iter().filter_map(|cluster| self.clusters.remove(cluster)).collect()
    }

    fn zero_blocks(&mut self, blocks: Range<u64>) {
        for block in blocks {
            let patch = self.patch_mut(block / CLUSTER_BLOCKS as u64);
            patch.blocks[(block % CLUSTER_BLOCKS as u64) as usize] = Block::Zero;
        }
    }

    /// Puts what it knows of `cluster` under `found`. Returns whether nothing can lie below.
    pub(super) fn lay_under(&self, cluster: u64, found: &mut Patch) -> bool {
        if let Some(patch) = self.clusters.get(&cluster) {
            return found.lay_under(patch);
        }
        if self.zeroed.contains(cluster) {
            found.base = Base::Zero;
            return true;
        }
        false
    }

    /// What will lie under a later change of `cluster` when this segment is destaged; `None` where
    /// the segment does not decide that.
    pub(super) fn leaves(&self, cluster: u64) -> Option<Under> {
        if let Some(patch) = self.clusters.get(&cluster) {
            let in_journal = |block: &Block| matches!(block, Block::Journal(_));
            let is_data = matches!(patch.base, Base::At(..)) || patch.blocks.iter().any(in_journal);
            let is_zero =
                patch.base == Base::Zero || patch.blocks.iter().all(|b| *b == Block::Zero);
            return match (is_data, is_zero) {
                (true, _) => Some(Under::Data),
                (false, true) => Some(Under::Zero),
                (false, false) => None,
            };
        }
        self.zeroed.contains(cluster).then_some(Under::Zero)
    }

    /// What lies under the changed blocks of `cluster` in this segment, as far as it decides that.
    pub(super) fn base(&self, cluster: u64) -> Option<Under> {
        match self.clusters.get(&cluster).map(|patch| &patch.base) {
            Some(Base::Below) => None,
            Some(Base::Zero) => Some(Under::Zero),
            Some(Base::At(..)) => Some(Under::Data),
            None => self.zeroed.contains(cluster).then_some(Under::Zero),
        }
    }

    /// All patches, in the order of clusters.
    pub(crate) fn patches(&self) -> impl Iterator<Item = (u64, &Patch)> {
        self.clusters.iter().map(|(&cluster, patch)| (cluster, patch))
    }

    /// How many there are.
    pub(crate) fn patch_count(&self) -> usize {
        self.clusters.len()
    }

    /// Clusters that were zeroed whole; patches of the segment are newer.
    pub(crate) fn zeroed(&self) -> impl Iterator<Item = Range<u64>> {
        self.zeroed.iter()
    }
}
