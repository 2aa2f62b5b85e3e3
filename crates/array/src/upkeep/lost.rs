//! Blocks that no disk holds any more: who had them, as far as somebody met them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::{Core, Known, State};
use crate::raid::ReadError;
use crate::tree::Missing;
use crate::volume::Of;
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, Place};

/// How many are remembered.
const LOST_MAX: usize = 256;
/// After what time it is looked whether a host's error was one that passes.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// And what is sure: it may have been restored with the bytes that it had.
const SURE_AGAIN: Duration = Duration::from_secs(600);

/// Who had a block that is lost: a volume or snapshot, the cluster, and which block of it.
type Owner = (Of, u64, usize);

/// A block that could not be read.
#[derive(Debug, Clone, Copy)]
struct Lost {
    /// Where its cluster lies, and its checksum.
    block: (Place, u32),
    /// It was looked at again after a while: it was not a fault that passes.
    is_sure: bool,
    /// When it is looked at again.
    due: Option<Duration>,
}

/// What hosts, scrubs and rebuilds could not read since the array was opened, and nobody has written anew.
#[derive(Debug, Default)]
pub(crate) struct LostBlocks {
    blocks: BTreeMap<Owner, Lost>,
    /// There were more than can be remembered.
    are_more: bool,
}

impl LostBlocks {
    fn add(&mut self, owner: Owner, lost: Lost) {
        if self.blocks.len() < LOST_MAX || self.blocks.contains_key(&owner) {
            self.blocks.insert(owner, lost);
        } else {
            self.are_more = true;
        }
    }

    fn remove(&mut self, owner: &Owner) {
        self.blocks.remove(owner);
        self.are_more &= !self.blocks.is_empty();
    }

    /// That which is due first.
    fn next(&self) -> Option<(Owner, Lost)> {
        let all = self.blocks.iter().filter(|(_, lost)| lost.due.is_some());
        all.min_by_key(|(_, lost)| lost.due).map(|(owner, lost)| (*owner, *lost))
    }

    /// A disk may be back that has some of them.
    pub(crate) fn look_again(&mut self, now: Duration) {
        self.blocks.values_mut().for_each(|lost| lost.due = Some(now));
    }
}

impl State {
    /// What to tell the operator of blocks that are lost; those that were written anew or are nobody's by
    /// now are forgotten, as far as the pages of their maps are in memory.
    pub(crate) fn lost_warning(&mut self) -> Option<String> {
        let all: Vec<(Owner, (Place, u32))> =
            self.lost.blocks.iter().map(|(owner, lost)| (*owner, lost.block)).collect();
        for (owner, block) in all {
            if self.still_has(owner, block) == Ok(false) {
                self.lost.remove(&owner);
            }
        }
        let mut counts: BTreeMap<Of, usize> = BTreeMap::new();
        for ((of, _, _), _) in self.lost.blocks.iter().filter(|(_, lost)| lost.is_sure) {
            *counts.entry(*of).or_default() += 1;
        }
        let parts: Vec<String> =
            counts.iter().map(|(of, count)| format!("{count} of {}", self.name_of(*of))).collect();
        let more = if self.lost.are_more { " and more" } else { "" };
        (!parts.is_empty()).then(|| {
            format!(
                "{}{more} blocks of {BLOCK_BYTES} bytes are lost, no disk holds them ({}): restore them \
                 from a backup",
                counts.values().sum::<usize>(),
                parts.join(", "),
            )
        })
    }

    /// Whether somebody's map has this block still.
    fn still_has(
        &mut self,
        (of, cluster, row): Owner,
        block: (Place, u32),
    ) -> Result<bool, Missing> {
        Ok(!self.has_passed(of, cluster) && self.cluster(of, cluster)?.on_disk(row) == Some(block))
    }

    /// A volume or snapshot, for people.
    pub(crate) fn name_of(&self, of: Of) -> String {
        match of {
            Of::Head(id) => match self.tables.volumes.get(&id) {
                Some(volume) => format!("volume {}", volume.name),
                None => "a volume that was purged".to_owned(),
            },
            Of::Snapshot(_, id) => {
                let version = self.tables.versions.get(&id);
                match version.and_then(|version| version.snapshot.as_ref()) {
                    Some(snapshot) => format!("snapshot {}", snapshot.name),
                    None => "what a deleted volume left".to_owned(),
                }
            }
        }
    }
}

impl Core {
    /// A host could not read this block of the volume or snapshot: nobody has it, or it is a fault that passes.
    pub(crate) fn doubt(&self, (of, cluster): (Of, u64), block: u64, lost: (Place, u32)) {
        let owner = (of, cluster, (block % CLUSTER_BLOCKS as u64) as usize);
        let state = &mut *self.lock();
        if !state.lost.blocks.contains_key(&owner) {
            let due = Some(self.env.now() + LOOK_AGAIN);
            state.lost.add(owner, Lost { block: lost, is_sure: false, due });
            self.upkeep.ring();
        }
    }

    /// A block turned out to be lost that was known: for all who have it there still.
    pub(super) async fn mark_lost(&self, known: &Known, row: usize, block: (Place, u32)) {
        let due = Some(self.env.now() + SURE_AGAIN);
        let shared = known.shared_by.iter().map(|(volume, at)| (Of::Head(*volume), *at));
        for (of, cluster) in [(known.of, known.cluster)].into_iter().chain(shared) {
            let marked = self.with_pages(|state| {
                let owner = (of, cluster, row);
                if state.still_has(owner, block)? {
                    state.lost.add(owner, Lost { block, is_sure: true, due });
                }
                Ok(())
            });
            if let Err(error) = marked.await {
                tracing::warn!("a lost block is not remembered: {error}");
            }
        }
    }

    /// Looks again at the first of what was lost that is due; when the next one is. A disk may take long to
    /// say that it cannot read a block, and who calls this has more to do.
    pub(super) async fn look_for_lost(&self) -> Option<Duration> {
        let first = self.lock().lost.next();
        let now = self.env.now();
        if let Some((owner, lost)) =
            first.filter(|(_, lost)| lost.due.is_some_and(|due| due <= now))
        {
            self.look_at(owner, lost.block).await;
        }
        let (_, next) = self.lock().lost.next()?;
        next.due.map(|due| due.saturating_sub(self.env.now()))
    }

    async fn look_at(&self, owner: Owner, (place, crc): (Place, u32)) {
        let is_there = self.with_pages(|state| state.still_has(owner, (place, crc))).await;
        let read = match is_there {
            Ok(true) => Some(self.read_place(place, owner.2, &[crc]).await),
            Ok(false) => None,
            Err(_) => Some(Err(ReadError::Unproved)),
        };
        let now = self.env.now();
        let state = &mut *self.lock();
        let lost = state.lost.blocks.get_mut(&owner).filter(|lost| lost.block == (place, crc));
        let Some(lost) = lost else { return };
        match read {
            None | Some(Ok(_)) => state.lost.remove(&owner),
            Some(Err(ReadError::Damaged { .. })) => {
                (lost.is_sure, lost.due) = (true, Some(now + SURE_AGAIN));
            }
            // Of a volume that is lost itself: when its disks are back.
            Some(Err(ReadError::Lost)) => lost.due = None,
            Some(Err(ReadError::Later(_) | ReadError::Unproved)) => {
                lost.due = Some(now + LOOK_AGAIN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SetId, VersionId};

    #[test]
    fn what_is_lost_is_bounded_and_says_so() {
        let mut lost = LostBlocks::default();
        let owner = |cluster: usize| (Of::Head(VersionId(1)), cluster as u64, 3);
        let one = Lost { block: (Place::new(SetId(1), 5), 7), is_sure: true, due: None };
        for cluster in (0..LOST_MAX).chain(0..LOST_MAX) {
            lost.add(owner(cluster), one);
        }
        assert!(!lost.are_more, "each counts once");
        lost.add(owner(LOST_MAX), one);
        assert_eq!((lost.blocks.len(), lost.are_more), (LOST_MAX, true));
        (0..LOST_MAX).for_each(|cluster| lost.remove(&owner(cluster)));
        assert!(!lost.are_more, "as soon as none is known");
    }
}
