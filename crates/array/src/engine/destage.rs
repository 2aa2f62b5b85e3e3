//! Destaging: the frozen changes of a volume go to their places and into its map.

use std::ops::Range;
use std::sync::Arc;

use super::Checkpoint;
use super::merge::{Work, Written};
use crate::api::SnapshotAccess;
use crate::core::{State, batch_clusters};
use crate::error::ArrayError;
use crate::mutants::{self, Mutant};
use crate::overlay::{Base, Patch, Segment};
use crate::tables::{Snapshot, Version};
use crate::tree::{Draft, Missing, leaf};
use crate::{Level, Place, VersionId};

/// Leaves that are unmapped under one lock.
const BATCH_LEAVES: u32 = 256;

/// The map of a volume while it changes.
pub(super) struct Target {
    pub(super) volume: VersionId,
    pub(super) level: Level,
    pub(super) draft: Draft,
    pub(super) mapped: u64,
}

impl Checkpoint {
    /// Destages everything that is frozen.
    pub(super) async fn destage(&mut self) -> Result<(), ArrayError> {
        for (volume, segments) in self.frozen.clone() {
            let before = self.before(volume);
            let first = self.freed.len();
            match self.destage_volume(volume, &segments).await {
                Err(ArrayError::Lost) => self.set_aside(before),
                result => result?,
            }
            if mutants::is(Mutant::EarlyFree) {
                let space = &mut self.core.lock().space;
                self.freed[first..].iter().for_each(|place| space.release_early(*place));
            }
        }
        Ok(())
    }

    async fn destage_volume(
        &mut self,
        volume: VersionId,
        segments: &[Arc<Segment>],
    ) -> Result<(), ArrayError> {
        if self.core.lock().live.get(&volume).is_some_and(|live| live.lost.is_some()) {
            return Err(ArrayError::Lost);
        }
        for segment in segments {
            self.destage_segment(volume, segment).await?;
        }
        Ok(())
    }

    async fn destage_segment(
        &mut self,
        volume: VersionId,
        segment: &Arc<Segment>,
    ) -> Result<(), ArrayError> {
        let table = &self.next.volumes[&volume];
        let sharing = self.next.sharing(table.head.parent);
        let mut target = Target {
            volume,
            level: table.level,
            draft: Draft::new(table.head.root, sharing, segment.epoch),
            mapped: table.head.mapped,
        };
        for range in segment.zeroed() {
            self.unmap(&mut target, range).await?;
        }
        let mut patches = segment.patches();
        loop {
            let batch: Vec<(u64, &Patch)> = patches.by_ref().take(batch_clusters()).collect();
            if batch.is_empty() {
                break;
            }
            self.destage_batch(&mut target, &batch).await?;
            self.core.checkpoint_beat.tick();
            self.core.throttle.done(self.core.env.now(), batch.len() as u64);
            self.core.let_others_run().await;
        }
        self.finish_segment(target, segment).await
    }

    /// Takes a range of clusters out of the map.
    async fn unmap(&mut self, target: &mut Target, range: Range<u64>) -> Result<(), ArrayError> {
        let last_leaf = leaf::position(range.end - 1).0;
        let mut next = leaf::position(range.start).0;
        let core = Arc::clone(&self.core);
        while next <= last_leaf {
            let end = last_leaf.min(next.saturating_add(BATCH_LEAVES - 1));
            core.checkpoint_beat.tick();
            core.with_pages(|state| {
                while next <= end {
                    self.unmap_leaf(state, target, next, &range)?;
                    next += 1;
                }
                Ok(())
            })
            .await?;
            core.let_others_run().await;
        }
        Ok(())
    }

    fn unmap_leaf(
        &mut self,
        state: &mut State,
        target: &mut Target,
        number: u32,
        range: &Range<u64>,
    ) -> Result<(), Missing> {
        let Some(old) = target.draft.leaf(&mut state.pages, number)? else { return Ok(()) };
        let inside = |i: &usize| range.contains(&leaf::cluster(number, *i));
        let gone: Vec<(usize, leaf::Entry)> =
            leaf::entries(&old).filter(|(i, _)| inside(i)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let is_emptied = gone.len() == leaf::entries(&old).count();
        if is_emptied && !mutants::is(Mutant::KeepEmptied) {
            // Nothing will be written of it, so that there is no room needed for it either.
            target.draft.remove_leaf(&mut state.pages, number)?;
        } else {
            let page = target.draft.leaf_mut(&mut state.pages, number)?;
            gone.iter().for_each(|(i, _)| leaf::set(page, *i, None));
        }
        target.mapped -= gone.len() as u64;
        for (_, entry) in gone {
            self.let_go(target, number, &entry);
        }
        Ok(())
    }

    /// An entry leaves the map: its cluster is free unless an older version has it.
    fn let_go(&mut self, target: &Target, leaf: u32, entry: &leaf::Entry) {
        if !target.draft.parent().shares(entry.birth, leaf) {
            self.free(entry.place);
        }
    }

    /// Nothing that comes after this checkpoint refers to the place.
    fn free(&mut self, place: Place) {
        self.freed.push(place);
    }

    async fn destage_batch(
        &mut self,
        target: &mut Target,
        batch: &[(u64, &Patch)],
    ) -> Result<(), ArrayError> {
        let core = Arc::clone(&self.core);
        let mut works = Vec::with_capacity(batch.len());
        core.with_pages(|state| {
            // Goes on where a page was missing: the cache may be too small for those of all.
            for &(cluster, patch) in &batch[works.len()..] {
                let (number, index) = leaf::position(cluster);
                let page = target.draft.leaf(&mut state.pages, number)?;
                let old = page.and_then(|page| leaf::get(&page, index));
                works.push(self.work_of(target, cluster, patch, old));
            }
            Ok(())
        })
        .await?;
        let reserved = batch.iter().filter(|(_, patch)| patch.room.is_promised()).count();
        let written = self.write_out(target, works, reserved).await?;
        for done in &written {
            self.enter(target, done).await?;
        }
        Ok(())
    }

    /// What has to be done for one cluster.
    fn work_of(
        &mut self,
        target: &Target,
        cluster: u64,
        patch: &Patch,
        old: Option<leaf::Entry>,
    ) -> Work {
        let number = leaf::position(cluster).0;
        let is_ours = |entry: &leaf::Entry| !target.draft.parent().shares(entry.birth, number);
        let (base, is_ours) = match &patch.base {
            Base::Below => (old, old.as_ref().is_some_and(is_ours)),
            Base::Zero => (None, false),
            Base::At(place, crcs) => {
                let birth = target.draft.epoch();
                self.gained.push(*place);
                (Some(leaf::Entry { place: *place, birth, crcs: **crcs }), true)
            }
        };
        Work { cluster, patch: patch.clone(), old, base, is_ours }
    }

    /// Enters what was written into the map.
    async fn enter(&mut self, target: &mut Target, done: &Written) -> Result<(), ArrayError> {
        let (number, index) = leaf::position(done.cluster);
        let core = Arc::clone(&self.core);
        core.with_pages(|state| {
            if done.entry.is_none() && target.draft.leaf(&mut state.pages, number)?.is_none() {
                return Ok(());
            }
            leaf::set(target.draft.leaf_mut(&mut state.pages, number)?, index, done.entry.as_ref());
            Ok(())
        })
        .await?;
        target.mapped += u64::from(done.entry.is_some());
        target.mapped -= u64::from(done.old.is_some());
        let place = done.entry.map(|entry| entry.place);
        if let Some(old) = done.old.filter(|old| Some(old.place) != place) {
            self.let_go(target, number, &old);
        }
        // A cluster that was written whole and then again in this checkpoint.
        if let Some(base) = done.base.filter(|base| Some(base.place) != place) {
            self.free(base.place);
        }
        Ok(())
    }

    /// Ends a segment: its map is a tree of its own, and a snapshot if it ends with one.
    async fn finish_segment(
        &mut self,
        target: Target,
        segment: &Segment,
    ) -> Result<(), ArrayError> {
        let root = self.commit_draft(target.draft).await?;
        let table = self.next.volumes.get_mut(&target.volume).expect("it was there before");
        table.head.root = root;
        table.head.mapped = target.mapped;
        let Some(taken) = segment.taken() else { return Ok(()) };
        let snapshot = Snapshot {
            volume: target.volume,
            name: taken.name.clone(),
            size_bytes: taken.size_bytes,
            created_unix_seconds: taken.unix_seconds,
            online: false,
            access: SnapshotAccess::default(),
        };
        let version = Version {
            contents: table.head.clone(),
            epoch: taken.epoch,
            snapshot: Some(snapshot),
            deleting_from_leaf: None,
        };
        table.head.parent = Some(taken.snapshot);
        let before = self.next.versions.insert(taken.snapshot, version);
        assert!(before.is_none(), "numbers of snapshots are not used again");
        Ok(())
    }
}
