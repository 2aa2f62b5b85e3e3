//! Blocks that were found wrong, each counted once.

use std::collections::HashSet;

use crate::check::Mismatch;

/// A volume and a byte of it.
type Block = (u16, u64);

/// Invariant: each block of `of_step` is in `of_run`; the run is ended by the size of that.
#[derive(Debug, Default)]
pub(super) struct WrongBlocks {
    of_run: HashSet<Block>,
    of_step: HashSet<Block>,
    /// Blocks of the step that a step before had found.
    again_count: u64,
    /// The first findings of the step, one of each block.
    kept: Vec<Mismatch>,
}

/// What a step found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) count: u64,
    pub(super) again_count: u64,
    pub(super) first: Vec<Mismatch>,
}

impl WrongBlocks {
    /// Blocks of the run.
    pub(super) fn count(&self) -> u64 {
        self.of_run.len() as u64
    }

    /// A read has shown a block wrong, perhaps not for the first time.
    pub(super) fn note(&mut self, volume: u16, mismatch: Mismatch) {
        /// More would fill memory and tell nothing new.
        const KEPT: usize = 200;
        let block = (volume, mismatch.at_bytes);
        if !self.of_step.insert(block) {
            return;
        }
        self.again_count += u64::from(!self.of_run.insert(block));
        if self.kept.len() < KEPT {
            self.kept.push(mismatch);
        }
    }

    /// The end of a step.
    pub(super) fn take(&mut self) -> Found {
        let count = self.of_step.len() as u64;
        self.of_step.clear();
        let (again_count, first) = (self.again_count, std::mem::take(&mut self.kept));
        self.again_count = 0;
        Found { count, again_count, first }
    }
}
