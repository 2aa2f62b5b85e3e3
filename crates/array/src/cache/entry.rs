//! What is in memory of one cluster.

use std::ops::Range;

use ring::{Buf, Data, SharedData};
use smallvec::SmallVec;

use super::Blocks;
use super::clock::{Asked, Clock};
use crate::mutants::{self, Mutant};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS};

/// What an entry takes beside its blocks, about: its own memory, its places in the table and in a queue, and a ghost.
pub(super) const ENTRY_BYTES: u64 = 320;

/// So often at most it counts that blocks were asked for again (S3-FIFO).
const TIMES_MAX: u8 = 3;

/// `count` blocks from `first` on (bit = block of the cluster).
pub(super) fn mask_of(first: usize, count: usize) -> u16 {
    assert!(count > 0 && first + count <= CLUSTER_BLOCKS, "blocks of one cluster");
    (u16::MAX >> (CLUSTER_BLOCKS - count)) << first
}

/// Blocks that came together.
#[derive(Debug)]
pub(super) struct Run {
    first: usize,
    /// Of each that came.
    crcs: SmallVec<[u32; 2]>,
    /// Those of them that are still so (bit = block of the cluster).
    valid: u16,
    data: SharedData,
}

impl Run {
    pub(super) fn new(first: usize, crcs: &[u32], data: SharedData) -> Self {
        Self { first, crcs: SmallVec::from_slice(crcs), valid: mask_of(first, crcs.len()), data }
    }

    /// Those of its blocks that are still so.
    pub(super) fn valid(&self) -> u16 {
        self.valid
    }

    /// What it takes of memory, whatever of it is still valid.
    fn bytes(&self) -> u64 {
        self.data.capacity() as u64
    }

    /// Whether its block `block` is valid and has this checksum.
    fn has(&self, block: usize, crc: u32) -> bool {
        self.valid >> block & 1 == 1 && self.crcs[block - self.first] == crc
    }

    /// Where its blocks from `block` on lie in its data.
    fn range(&self, block: usize, count: usize) -> Range<usize> {
        let at = (block - self.first) * BLOCK_BYTES;
        at..at + count * BLOCK_BYTES
    }
}

/// Part of what was asked for: its first block, counted from the first that was asked for, and where its bytes are.
type Part = (usize, SharedData, Range<usize>);

/// Blocks that are here.
#[derive(Debug)]
pub(super) enum Found {
    /// They came together.
    Whole(SharedData, Range<usize>),
    /// They did not.
    Parts(SmallVec<[Part; 4]>),
}

impl Found {
    /// The bytes of so many blocks: lent, or put together; `None` if there is no memory for that.
    pub(super) fn data(self, blocks: usize) -> Option<Data> {
        match self {
            Self::Whole(run, bytes) => Some(Data::from(run).into_slice(bytes)),
            Self::Parts(parts) => {
                let mut buf = Buf::alloc(blocks * BLOCK_BYTES)?;
                for (at, run, bytes) in parts {
                    let into = &mut buf[at * BLOCK_BYTES..][..bytes.len()];
                    into.copy_from_slice(&run[bytes]);
                }
                Some(buf.freeze())
            }
        }
    }
}

/// All that is here of a cluster.
///
/// Invariant: no block is valid in two runs, and each run has a valid one.
#[derive(Debug)]
pub(super) struct Entry {
    runs: SmallVec<[Run; 1]>,
    /// Blocks that were asked for since they came: the next time counts, when a [moment](Clock) has passed. Who reads
    /// a cluster piece by piece asks for each of them once.
    asked: Asked,
    /// How often it counted since a queue passed by.
    pub(super) times: u8,
    /// Which of the marks in a queue is its own: those of entries that are gone stay there for a while.
    pub(super) mark: u32,
    /// It stands in the main queue.
    pub(super) is_main: bool,
}

impl Entry {
    pub(super) fn new(mark: u32, is_main: bool) -> Self {
        Self { runs: SmallVec::new(), asked: Asked::default(), times: 0, mark, is_main }
    }

    /// What it takes of memory.
    pub(super) fn bytes(&self) -> u64 {
        ENTRY_BYTES + self.runs.iter().map(Run::bytes).sum::<u64>()
    }

    /// How many blocks of it are here.
    pub(super) fn blocks(&self) -> u32 {
        self.runs.iter().map(|run| run.valid.count_ones()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What hosts have asked for of it.
    pub(super) fn asked(&self) -> Asked {
        self.asked
    }

    /// Takes in blocks, instead of what there was of them: of two reads that were under way together each brings them,
    /// and what was asked for stays so.
    pub(super) fn keep(&mut self, run: Run, asked: Asked) {
        self.take_out(run.valid);
        self.runs.push(run);
        self.asked.note(asked);
    }

    /// Forgets these blocks (bit = block), and that they were asked for.
    pub(super) fn end(&mut self, mask: u16) {
        self.asked.forget(mask);
        self.take_out(mask);
    }

    fn take_out(&mut self, mask: u16) {
        for run in &mut self.runs {
            run.valid &= !mask;
        }
        self.runs.retain(|run| run.valid != 0);
    }

    /// Whether all of these are here.
    pub(super) fn has(&self, blocks: Blocks<'_>) -> bool {
        let is_here =
            |(block, crc): (usize, &u32)| self.runs.iter().any(|run| run.has(block, *crc));
        (blocks.first..).zip(blocks.crcs).all(is_here)
    }

    /// These blocks, which count as asked for, and whether the last of them was not before: whoever reads on from the middle
    /// of a block has had the first one.
    pub(super) fn find(&mut self, blocks: Blocks<'_>, clock: Clock) -> Option<(Found, bool)> {
        let found = self.look(blocks)?;
        let mask = blocks.mask();
        let last = 1 << (u16::BITS - 1 - mask.leading_zeros());
        let is_first = !self.asked.has_some(mask & last);
        if self.asked.ask(mask, clock) {
            self.times = TIMES_MAX.min(self.times + 1);
        }
        Some((found, is_first))
    }

    /// These blocks.
    pub(super) fn look(&self, blocks: Blocks<'_>) -> Option<Found> {
        let (first, count) = (blocks.first, blocks.crcs.len());
        let mask = blocks.mask();
        let whole = |run: &&Run| run.valid & mask == mask;
        if let Some(run) = self.runs.iter().find(whole) {
            let crcs = &run.crcs[first - run.first..][..count];
            let is_same = crcs == blocks.crcs || mutants::is(Mutant::KeepEnded);
            return is_same.then(|| Found::Whole(run.data.clone(), run.range(first, count)));
        }
        let mut parts = SmallVec::new();
        let mut at = 0;
        while at < count {
            let block = first + at;
            let is_here = |run: &&Run| run.has(block, blocks.crcs[at]);
            let run = self.runs.iter().find(is_here)?;
            let more = (at + 1..count).take_while(|at| run.has(first + at, blocks.crcs[*at]));
            let len = 1 + more.count();
            parts.push((at, run.data.clone(), run.range(block, len)));
            at += len;
        }
        Some(Found::Parts(parts))
    }
}

#[cfg(test)]
impl Entry {
    /// Whether what it says of itself is so.
    pub(super) fn check(&self) {
        let mut seen = 0u16;
        for run in &self.runs {
            assert!(run.valid != 0 && run.valid & !mask_of(run.first, run.crcs.len()) == 0);
            assert_eq!(seen & run.valid, 0, "a block is valid in one run");
            seen |= run.valid;
        }
        assert_eq!(self.asked.blocks() & !seen, 0, "only what is here was asked for here");
    }
}
