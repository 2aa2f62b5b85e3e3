//! Which asks for the same blocks belong together, and are one use.

use crate::BLOCK_BYTES;
use crate::mutants::{self, Mutant};

/// The time of a shard, in blocks that hosts asked for or that came. It does not pass while nobody does anything, when
/// nothing has to go either, and passes with hits as with misses: what is read again and again stays in use when there
/// is nothing else.
///
/// Whoever reads in pieces smaller than a block, or from between two blocks on, asks for each block several times in a
/// row, and so do those of several reads under way that overlap. That says nothing of whether the block will be asked
/// for later: only what is asked for when a moment has passed is used again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    now: u32,
    /// So long is a moment.
    moment: u32,
}

impl Clock {
    /// A moment is as long as so many bytes take to be asked for.
    pub(super) fn set_moment(&mut self, bytes: u64) {
        self.moment = u32::try_from(bytes / BLOCK_BYTES as u64).unwrap_or(u32::MAX);
    }

    /// So many blocks were asked for, or came. It may wrap around: what nobody has asked for in 16 TiB counts once too
    /// little then.
    pub(super) fn tick(&mut self, blocks: usize) {
        self.now = self.now.wrapping_add(blocks as u32);
    }

    /// Whether a moment has passed since then.
    fn is_past(self, since: u32) -> bool {
        self.now.wrapping_sub(since) >= self.moment || mutants::is(Mutant::CountTouches)
    }
}

/// What hosts have asked for of a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    /// Bit = block of the cluster.
    blocks: u16,
    /// When one of them was asked for the first time, the last time that this was so, or when it counted last.
    since: u32,
}

impl Asked {
    /// These blocks, for the first time now.
    pub(super) fn first(mask: u16, clock: Clock) -> Self {
        Self { blocks: mask, since: clock.now }
    }

    pub(super) fn blocks(self) -> u16 {
        self.blocks
    }

    /// Whether one of these blocks was asked for before.
    pub(super) fn has_some(self, mask: u16) -> bool {
        self.blocks & mask != 0
    }

    /// If these blocks are asked for now, whether that is another use.
    pub(super) fn is_used_again(self, mask: u16, clock: Clock) -> bool {
        self.has_some(mask) && clock.is_past(self.since)
    }

    /// Notes what was asked for. Whoever reads on and on comes to blocks that nobody has asked for with each step: as
    /// long as that is so, no moment has passed.
    pub(super) fn note(&mut self, other: Self) {
        if other.blocks & !self.blocks != 0 {
            self.blocks |= other.blocks;
            self.since = other.since;
        }
    }

    /// Notes that these blocks are asked for now; whether that is another use. It is none while some of them are asked
    /// for the first time.
    pub(super) fn ask(&mut self, mask: u16, clock: Clock) -> bool {
        let is_used = mask & !self.blocks == 0 && clock.is_past(self.since);
        if is_used {
            self.since = clock.now;
        }
        self.note(Self::first(mask, clock));
        is_used
    }

    /// These blocks are others from now on.
    pub(super) fn forget(&mut self, mask: u16) {
        self.blocks &= !mask;
    }
}
