//! The data of one cluster: what is old, what is new, and where it goes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use ring::{Buf, Data};

use super::Checkpoint;
use super::destage::Target;
use crate::cache::Blocks;
use crate::core::{Core, RETRY};
use crate::error::ArrayError;
use crate::mutants::{self, Mutant};
use crate::overlay::{Block, Patch};
use crate::raid::ReadError;
use crate::tree::leaf::Entry;
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, Place, block_checksum};

/// Before a block that nobody could give is asked for again, until it counts as lost.
pub(super) const PAUSES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(1000)];

/// One cluster to be destaged.
pub(super) struct Work {
    pub(super) cluster: u64,
    pub(super) patch: Patch,
    /// What the map has.
    pub(super) old: Option<Entry>,
    /// What lies under the changed blocks.
    pub(super) base: Option<Entry>,
    /// No older version has the base: it may be changed where it lies.
    pub(super) is_ours: bool,
}

/// One cluster that was destaged.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) cluster: u64,
    pub(super) old: Option<Entry>,
    /// A cluster that was written directly to new space, if that lay under the change.
    pub(super) base: Option<Entry>,
    /// What the map gets.
    pub(super) entry: Option<Entry>,
}

/// Blocks that go into a cluster where it lies.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) first: usize,
    pub(super) data: Data,
}

impl Run {
    /// The checksums of its blocks, of those of its cluster.
    pub(super) fn crcs_in<'a>(&self, entry: &'a Entry) -> &'a [u32] {
        &entry.crcs[self.first..][..self.data.len() / BLOCK_BYTES]
    }
}

impl Work {
    /// Whether nothing of the cluster is left.
    fn is_zero(&self) -> bool {
        let is_zero = |block: &Block| match block {
            Block::Zero => true,
            Block::Base => self.base.is_none(),
            Block::Journal(_) => false,
        };
        self.patch.blocks.iter().all(is_zero)
    }

    pub(super) fn written(&self, entry: Option<Entry>) -> Written {
        let base = self.base.filter(|base| self.old.is_none_or(|old| old.place != base.place));
        Written { cluster: self.cluster, old: self.old, base, entry }
    }
}

/// A cluster that needs a new place.
pub(super) struct Fresh {
    pub(super) work: Work,
    pub(super) data: Data,
    /// Blocks that no disk could give any more (bit = block): their new place must fail to read
    /// as the old one does.
    poisoned: u16,
}

impl Fresh {
    /// Whether all of it is what it should be.
    pub(super) fn is_sound(&self) -> bool {
        self.poisoned == 0 || mutants::is(Mutant::KeepPoison)
    }

    /// The checksums of its blocks when it lies at `place`.
    pub(super) fn crcs_at(&self, place: Place) -> [u32; CLUSTER_BLOCKS] {
        let mut crcs = crcs_of(place, &self.data);
        for (block, crc) in crcs.iter_mut().enumerate() {
            if self.poisoned >> block & 1 == 1 && !mutants::is(Mutant::BlindMerge) {
                *crc = !*crc;
            }
        }
        crcs
    }
}

/// A cluster that is changed where it lies.
pub(super) struct InPlace {
    pub(super) work: Work,
    pub(super) entry: Entry,
    pub(super) runs: Vec<Run>,
}

impl Checkpoint {
    /// Writes clusters to where they belong, not yet durably.
    pub(super) async fn write_out(
        &mut self,
        target: &Target,
        works: Vec<Work>,
        reserved: usize,
    ) -> Result<Vec<Written>, ArrayError> {
        let mut written = Vec::with_capacity(works.len());
        let mut merges = Vec::new();
        let mut in_place = Vec::new();
        for work in works {
            if work.is_zero() {
                written.push(work.written(None));
            } else if !work.patch.has_blocks() {
                written.push(work.written(work.base));
            } else if work.base.is_some() && (work.is_ours || mutants::is(Mutant::NoCopyOnWrite)) {
                in_place.push(self.core.runs_of(work).await);
            } else {
                merges.push(work);
            }
        }
        let core = Arc::clone(&self.core);
        let fresh = try_join_all(merges.into_iter().map(|work| core.merge(work))).await?;
        written.extend(self.place(target, fresh, in_place, reserved).await?);
        Ok(written)
    }
}

impl Core {
    /// The bytes of changed blocks.
    fn block_bytes(&self, block: Block, into: &mut [u8]) {
        match block {
            Block::Zero => into.fill(0),
            Block::Journal(position) => self.journal.read(position, into),
            Block::Base => unreachable!("only changed blocks are asked for"),
        }
    }

    /// Changed blocks as runs, with the entry that they lead to.
    async fn runs_of(&self, work: Work) -> InPlace {
        let mut entry = work.base.expect("changed where it lies");
        let mut runs: Vec<Run> = Vec::new();
        let mut at = 0;
        while at < CLUSTER_BLOCKS {
            let rest = &work.patch.blocks[at..];
            let len = rest.iter().take_while(|block| **block != Block::Base).count();
            if len == 0 {
                at += 1;
                continue;
            }
            let mut buf = self.buffer(len * BLOCK_BYTES).await;
            for (index, bytes) in buf.chunks_exact_mut(BLOCK_BYTES).enumerate() {
                self.block_bytes(rest[index], bytes);
                let (set, slot) = (entry.place.set(), entry.place.slot());
                entry.crcs[at + index] = block_checksum(set, slot, at + index, bytes);
            }
            runs.push(Run { first: at, data: buf.freeze() });
            at += len;
        }
        InPlace { work, entry, runs }
    }

    /// A whole cluster: the base with the changed blocks over it.
    async fn merge(self: &Arc<Self>, work: Work) -> Result<Fresh, ArrayError> {
        let mut buf = self.buffer(CLUSTER_BYTES).await;
        buf.fill(0);
        let mut poisoned = 0u16;
        let is_kept = |block: &Block| *block == Block::Base;
        if let (Some(base), Some(first)) = (work.base, work.patch.blocks.iter().position(is_kept)) {
            let last = work.patch.blocks.iter().rposition(is_kept).expect("there is one");
            poisoned = self.read_old(base, first..last + 1, &mut buf).await?;
        }
        for (index, bytes) in buf.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            let block = work.patch.blocks[index];
            if block != Block::Base {
                self.block_bytes(block, bytes);
                poisoned &= !(1 << index);
            }
        }
        Ok(Fresh { work, data: buf.freeze(), poisoned })
    }

    /// Reads blocks of the old cluster into `buf`. Those that no redundancy can give back are
    /// marked in the answer: their new place must fail to read as the old one does.
    async fn read_old(
        self: &Arc<Self>,
        old: Entry,
        blocks: Range<usize>,
        buf: &mut Buf,
    ) -> Result<u16, ArrayError> {
        let mut poisoned = 0;
        match self.read_patiently(old.place, blocks.start, &old.crcs[blocks.clone()]).await {
            Ok(good) => good.copy_to(0, &mut buf[blocks.start * BLOCK_BYTES..][..good.len()]),
            Err(ReadError::Damaged { .. }) => {
                blocks.for_each(|block| poisoned |= 1 << block);
                // What is given up here is lost for good, and all disks of a shelf may refuse for
                // a moment.
                let mut pauses = PAUSES.into_iter();
                let may_come = || self.may_come_soon(old.place.set()).then_some(PAUSES[2]);
                while poisoned != 0
                    && let Some(pause) = pauses.next().or_else(may_come)
                {
                    self.env.sleep(pause).await;
                    poisoned = self.read_blocks(old, poisoned, buf).await?;
                }
                // Nor has a disk lost them that gives nothing at all.
                let set = self.sets.get(old.place.set());
                let is_hasty = mutants::is(Mutant::HastyMerge);
                if poisoned != 0 && !is_hasty && self.is_any_silent(&set).await {
                    return Err(ArrayError::Lost);
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(poisoned)
    }

    /// Reads these blocks (bit = block) one by one; those that nobody has.
    async fn read_blocks(
        self: &Arc<Self>,
        old: Entry,
        blocks: u16,
        buf: &mut Buf,
    ) -> Result<u16, ArrayError> {
        let mut missing = 0;
        for block in (0..CLUSTER_BLOCKS).filter(|block| blocks >> block & 1 == 1) {
            match self.read_patiently(old.place, block, &[old.crcs[block]]).await {
                Ok(good) => good.copy_to(0, &mut buf[block * BLOCK_BYTES..][..good.len()]),
                Err(ReadError::Damaged { .. }) => missing |= 1 << block,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(missing)
    }

    /// Reads again as long as the reason not to is a passing one.
    async fn read_patiently(
        self: &Arc<Self>,
        place: Place,
        first: usize,
        crcs: &[u32],
    ) -> Result<Data, ReadError> {
        if let Some(data) = self.cache.peek(Blocks { place, first, crcs }) {
            return Ok(data);
        }
        loop {
            match self.read_place(place, first, crcs).await {
                Ok(good) => {
                    self.queue_heals(good.heals);
                    return Ok(good.data);
                }
                Err(ReadError::Later(_)) => self.env.sleep(RETRY).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// The checksums of a cluster's blocks at `place`.
pub(crate) fn crcs_of(place: Place, data: &Data) -> [u32; CLUSTER_BLOCKS] {
    assert_eq!(data.len(), CLUSTER_BYTES, "a whole cluster");
    let bytes = data.as_slice().expect("data in buffers stands still");
    std::array::from_fn(|block| {
        let bytes = &bytes[block * BLOCK_BYTES..][..BLOCK_BYTES];
        block_checksum(place.set(), place.slot(), block, bytes)
    })
}
