//! The target's write cache: what a flush makes durable, and what is lost with its power.

use std::collections::BTreeMap;

use block::BlockError;

use super::super::super::{OpId, Policy, Shape};
use super::Mistake;
use super::world::{BLOCKS, FLUSH, Waiting, World};
use crate::disk::cache::WriteBack;

/// The two sides of it.
#[derive(Debug)]
pub(super) struct Power {
    /// What each block holds if the power goes now.
    durable: Vec<u64>,
    /// What the host keeps of it.
    pub(super) cache: WriteBack,
    /// The host's flushes under way: its mark, and the writes that were acknowledged before.
    flushes: BTreeMap<usize, (u64, Vec<u64>)>,
    /// What was acknowledged to a process that was killed since: nobody can tell of its loss.
    of_the_dead: Vec<u64>,
    /// The target has restarted, which it tells the next nexus.
    is_untold: bool,
    /// Acknowledged writes were lost, and no flush has failed since.
    has_lost: bool,
    /// Flushes that said that all is well, and that something was lost.
    pub(super) said: [u64; 2],
}

impl Default for Power {
    fn default() -> Self {
        Self {
            durable: vec![0; BLOCKS as usize],
            cache: WriteBack::new(true),
            flushes: BTreeMap::new(),
            of_the_dead: vec![0; BLOCKS as usize],
            is_untold: false,
            has_lost: false,
            said: [0; 2],
        }
    }
}

impl Power {
    /// The target writes all that it has.
    pub(super) fn flush(&mut self, medium: &[u64]) {
        self.durable.copy_from_slice(medium);
    }

    pub(super) fn crash(&mut self, acknowledged: &[u64]) {
        self.of_the_dead.copy_from_slice(acknowledged);
        self.cache = WriteBack::new(true);
        (self.has_lost, self.is_untold) = (false, false);
        self.flushes.clear();
    }
}

impl World {
    pub(super) fn submit_flush(&mut self) {
        let shape = Shape { changes: None, len_bytes: 0, at: None };
        let mark = self.power.cache.mark();
        let before = self.acknowledged.clone();
        if self.mistake == Mistake::AFlushSendsNothing {
            self.power.cache.flushed(mark);
            self.done += 1;
            return self.check_flush(&before);
        }
        let op = self.router.submit(shape, self.now);
        self.power.flushes.insert(op.slot, (mark, before));
        let (blocks, floor, since) = ((0, BLOCKS), Vec::new(), self.now);
        self.waiting.insert(op.slot, Waiting { op, write: FLUSH, blocks, since, floor });
    }

    /// The target has answered a flush.
    pub(super) fn end_flush(&mut self, op: OpId) {
        let (mark, before) = self.power.flushes.remove(&op.slot).expect("it was submitted");
        let mark = match self.mistake {
            Mistake::AFlushCoversTooMuch => self.power.cache.mark(),
            _ => mark,
        };
        self.power.cache.flushed(mark);
        self.check_flush(&before);
    }

    /// What the host tells of a flush, beside what is true.
    fn check_flush(&mut self, before: &[u64]) {
        match self.power.cache.tell() {
            Ok(()) => {
                assert!(!self.power.has_lost, "a lost cache is not told");
                for (block, &write) in before.iter().enumerate() {
                    let durable = self.power.durable[block];
                    assert!(
                        durable >= write,
                        "write {write} of block {block} is not durable: {durable}"
                    );
                }
                self.power.said[0] += 1;
            }
            Err(error) => {
                assert_eq!(error, BlockError::LostWrites);
                self.power.has_lost = false;
                self.power.said[1] += 1;
            }
        }
    }

    /// The target starts anew: its sessions are gone, and what was in its cache alone.
    pub(super) fn lose_power(&mut self) {
        let paths: Vec<_> = self.links.keys().copied().collect();
        for path in paths {
            self.lose(path, Some(1000));
        }
        // Nothing of what it had been sent is there any more. What is still in a socket stays.
        self.copies.retain(|_, copy| copy.is_here || !copy.is_orphan);
        self.power.is_untold = true;
        for block in 0..BLOCKS as usize {
            let durable = self.power.durable[block];
            let known = durable.max(self.power.of_the_dead[block]);
            self.power.has_lost |= self.acknowledged[block] > known;
            self.medium[block] = self.medium[block].min(durable);
            self.acknowledged[block] = self.acknowledged[block].min(durable);
            self.seen[block] = self.seen[block].min(durable);
        }
        // One flush that fails tells of all that was lost.
        for (_, before) in self.power.flushes.values_mut() {
            for (write, durable) in before.iter_mut().zip(&self.power.durable) {
                *write = (*write).min(*durable);
            }
        }
        for waiting in self.waiting.values_mut() {
            for (floor, block) in waiting.floor.iter_mut().zip(waiting.blocks.0..) {
                *floor = (*floor).min(self.power.durable[block as usize]);
            }
        }
    }

    /// A nexus is back, and hears that the target has started.
    pub(super) fn hear_of_power(&mut self) {
        if std::mem::take(&mut self.power.is_untold) && self.mistake != Mistake::APowerOnIsNoNews {
            self.power.cache.power_lost();
        }
    }
}

/// Else nothing was tried.
#[test]
fn these_histories_have_flushes_of_both_kinds() {
    let mut said = [0, 0];
    for seed in 0..40 {
        let mut world = World::new(seed, 3, Policy::LeastQueueDepth, Mistake::None);
        world.run(200);
        said = [0, 1].map(|n| said[n] + world.power.said[n]);
    }
    assert!(said[0] > 300 && said[1] > 20, "{said:?}");
}
