//! Rewriting blocks that turned out to be broken.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::CLUSTER_BLOCKS;
use crate::core::Core;
use crate::raid::{Heal, Healed};

/// More than that need not be remembered: whoever reads or scrubs finds the others again.
const HEALS_MAX: usize = 1 << 16;

/// Blocks to be rewritten from redundancy, each once.
#[derive(Debug, Default)]
pub(crate) struct HealQueue {
    order: VecDeque<Heal>,
    waiting: HashSet<Heal>,
}

impl HealQueue {
    pub(crate) fn extend(&mut self, heals: impl IntoIterator<Item = Heal>) {
        for heal in heals {
            if self.order.len() < HEALS_MAX && self.waiting.insert(heal) {
                self.order.push_back(heal);
            }
        }
    }

    fn pop(&mut self) -> Option<Heal> {
        let heal = self.order.pop_front()?;
        assert!(self.waiting.remove(&heal), "both hold the same");
        Some(heal)
    }
}

impl Core {
    /// Heals what reads have found.
    pub(super) async fn heal_queued(self: &Arc<Self>) {
        loop {
            let Some(heal) = self.lock().heals.pop() else { return };
            self.repair_beat.tick();
            let Some(set) = self.sets.find(heal.set) else { continue };
            // The slot stays what it is as long as somebody reads.
            let (_readers, is_live) = {
                let state = self.lock();
                // Metadata is taken page by page.
                let slot = match set.level() {
                    Some(_) => heal.slot,
                    None => heal.slot * CLUSTER_BLOCKS as u32 + heal.block as u32,
                };
                let slots = state.space.pool.slots(heal.set);
                let is_live = slots.is_some_and(|slots| slots.is_used(slot));
                (Arc::clone(state.pages.readers()), is_live)
            };
            if !is_live {
                continue;
            }
            match self.raid.heal(&set, &heal).await {
                Ok(Healed::Healed) => self.note_healed(heal.disk),
                Ok(_) => {}
                Err(error) => tracing::warn!("a block could not be healed: {error}"),
            }
        }
    }

    /// Tells of a healed block: the first of a disk, and then each power of ten.
    pub(super) fn note_healed(&self, disk: crate::DiskId) {
        let healed = self.raid.disks().get(disk).map_or(0, |disk| disk.counts().healed);
        if healed > 0 && 10_u64.pow(healed.ilog10()) == healed {
            let name = self.disk_name(disk);
            let text = format!("damaged blocks on disk {name} are rewritten, {healed} so far");
            self.lock().note(self.env.unix_seconds(), text);
        }
    }

    pub(crate) fn disk_name(&self, disk: crate::DiskId) -> String {
        let member = self.raid.disks().get(disk);
        member.map_or_else(|| disk.0.to_string(), |member| member.name().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::{DiskId, SetId};

    #[test]
    fn a_block_waits_once_and_the_queue_has_an_end() {
        let heal = |slot| Heal { set: SetId(1), slot, block: 2, crc: 3, disk: DiskId(4) };
        let mut queue = HealQueue::default();
        queue.extend([heal(1), heal(2), heal(1)]);
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(heal(1)), Some(heal(2)), None));
        queue.extend([heal(1)]);
        queue.extend((0..2 * HEALS_MAX as u32).map(heal));
        assert_eq!(queue.order.len(), HEALS_MAX);
    }
}
