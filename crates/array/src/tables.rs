//! What is written whole with every checkpoint: volumes, snapshots, counters. Only a checkpoint
//! changes it, so what is in memory is always what the last checkpoint record holds.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::api::{Cache, Settings, SnapshotAccess};
use crate::tree::{PageRef, Parent};
use crate::{CLUSTER_BYTES, DiskId, Epoch, Level, VersionId};

/// A volume: the head of a line of versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) level: Level,
    pub(crate) thick: bool,
    pub(crate) block_bytes: u32,
    pub(crate) cache: Cache,
    pub(crate) read_ahead_bytes: u32,
    pub(crate) created_unix_seconds: u64,
    pub(crate) online: bool,
    /// When it went to the recycle bin.
    pub(crate) deleted_unix_seconds: Option<u64>,
    /// The snapshot it was cloned from, for people.
    pub(crate) origin: Option<String>,
    /// The snapshot that it belongs to: it has what hosts wrote to that, and is no volume of its own.
    pub(crate) view_of: Option<VersionId>,
    pub(crate) head: Contents,
}

impl Volume {
    /// Clusters that its map does not have.
    pub(crate) fn unmapped(&self) -> u64 {
        (self.size_bytes / CLUSTER_BYTES as u64).saturating_sub(self.head.mapped)
    }
}

/// A map and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    pub(crate) root: Option<PageRef>,
    /// The version that it was changed from; what it shares with it is not freed here.
    pub(crate) parent: Option<VersionId>,
    /// Clusters that the map has.
    pub(crate) mapped: u64,
}

/// A version that does not change any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) contents: Contents,
    /// When it was frozen: all that it maps was born then or before.
    pub(crate) epoch: Epoch,
    /// `None` for what a rollback or a purge left behind: nobody can ask for it any more.
    pub(crate) snapshot: Option<Snapshot>,
    /// Its space is being given back; leaves before this one are done.
    pub(crate) deleting_from_leaf: Option<u32>,
}

/// What people know of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) volume: VersionId,
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) created_unix_seconds: u64,
    pub(crate) online: bool,
    /// How it is served, or was last.
    pub(crate) access: SnapshotAccess,
}

/// Why a disk has left that nobody had told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Departure {
    /// It made too many errors.
    Errors,
    /// It was away for so long that others have got what it had.
    Away,
}

/// All of it.
///
/// Invariants:
/// 1. `parent` of every contents is a key of `versions`.
/// 2. At most one version is partly deleted (cursor above 0).
/// 3. A version's epoch is above its parent's.
/// 4. A view has the snapshot that it belongs to as its parent, and no other view has it.
/// 5. What is in `uncached` is a key of `volumes`, and no view.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Tables {
    pub(crate) volumes: BTreeMap<VersionId, Volume>,
    pub(crate) versions: BTreeMap<VersionId, Version>,
    pub(crate) scrubbed_unix_seconds: u64,
    /// Disks that are to be emptied and to leave.
    pub(crate) leaving: BTreeSet<DiskId>,
    pub(crate) settings: Settings,
    /// Data is being moved until all disks are equally full.
    pub(crate) rebalancing: bool,
    /// Volumes of which nothing is kept in memory. The record has it behind all else: older builds know nothing of it.
    #[serde(skip)]
    pub(crate) uncached: BTreeSet<VersionId>,
    /// Disks that have left, or are about to, without anybody's order, as long as no operator has dealt with it. Behind
    /// that in the record, for the same reason.
    #[serde(skip)]
    pub(crate) departed: BTreeMap<DiskId, Departure>,
}

impl Tables {
    /// The volume of this name, if it is not in the recycle bin.
    pub(crate) fn volume_named(&self, name: &str) -> Option<(VersionId, &Volume)> {
        let mut volumes = self.volumes.iter().map(|(&id, volume)| (id, volume));
        volumes.find(|(_, volume)| volume.name == name && volume.view_of.is_none())
    }

    /// What hosts wrote to a snapshot.
    pub(crate) fn view_of(&self, snapshot: VersionId) -> Option<(VersionId, &Volume)> {
        let mut volumes = self.volumes.iter().map(|(&id, volume)| (id, volume));
        volumes.find(|(_, volume)| volume.view_of == Some(snapshot))
    }

    /// The views of snapshots, by these.
    pub(crate) fn views(&self) -> HashMap<VersionId, VersionId> {
        let volumes = self.volumes.iter();
        volumes.filter_map(|(id, volume)| Some((volume.view_of?, *id))).collect()
    }

    /// Whether what is read of a volume may be kept in memory. What hosts wrote to a snapshot is as the volume of that.
    pub(crate) fn is_cached(&self, id: VersionId) -> bool {
        let viewed = self.volumes.get(&id).and_then(|volume| volume.view_of);
        let snapshot = viewed.and_then(|id| self.versions.get(&id)?.snapshot.as_ref());
        !self.uncached.contains(&snapshot.map_or(id, |snapshot| snapshot.volume))
    }

    /// Snapshots of a volume that can be asked for, oldest first.
    pub(crate) fn snapshots_of(
        &self,
        volume: VersionId,
    ) -> impl Iterator<Item = (VersionId, &Version, &Snapshot)> {
        self.versions.iter().filter_map(move |(&id, version)| {
            let snapshot = version.snapshot.as_ref()?;
            (snapshot.volume == volume).then_some((id, version, snapshot))
        })
    }

    /// What contents with this parent share with it.
    pub(crate) fn sharing(&self, parent: Option<VersionId>) -> Parent {
        let Some(version) = parent.map(|id| &self.versions[&id]) else { return Parent::default() };
        let sharing = Parent::new(Some(version.epoch));
        match version.deleting_from_leaf {
            None | Some(0) => sharing,
            Some(below) => {
                let older = version.contents.parent.map(|id| self.versions[&id].epoch);
                sharing.deleted_below(below, older)
            }
        }
    }

    /// How many maps were changed from each version; those that none was are not in it.
    pub(crate) fn children(&self) -> HashMap<VersionId, usize> {
        let heads = self.volumes.values().map(|volume| &volume.head);
        let frozen = self.versions.values().map(|version| &version.contents);
        let mut children = HashMap::new();
        for parent in heads.chain(frozen).filter_map(|contents| contents.parent) {
            *children.entry(parent).or_default() += 1;
        }
        children
    }

    /// The maps that were changed from this version.
    pub(crate) fn children_of(&self, parent: VersionId) -> Vec<Option<PageRef>> {
        let heads = self.volumes.values().map(|volume| &volume.head);
        let frozen = self.versions.values().map(|version| &version.contents);
        let children = heads.chain(frozen).filter(|contents| contents.parent == Some(parent));
        children.map(|contents| contents.root).collect()
    }

    /// Whether another volume was made of a snapshot of this one, and is there still: itself, or what was
    /// frozen of it later.
    pub(crate) fn has_clones(&self, volume: VersionId, snapshot: VersionId) -> bool {
        let is_child = |contents: &Contents| contents.parent == Some(snapshot);
        let mut heads = self.volumes.iter().filter(|(id, head)| {
            // What hosts wrote to the snapshot goes with it.
            **id != volume && head.view_of.is_none() && is_child(&head.head)
        });
        let mut frozen = self.versions.values().filter(|version| {
            let of_another = version.snapshot.as_ref().is_some_and(|s| s.volume != volume);
            of_another && is_child(&version.contents)
        });
        heads.next().is_some() || frozen.next().is_some()
    }

    /// Takes out a version whose space is given back; its children become its parent's.
    pub(crate) fn forget(&mut self, id: VersionId) {
        let gone = self.versions.remove(&id).expect("it is there until it is forgotten");
        let heads = self.volumes.values_mut().map(|volume| &mut volume.head);
        let frozen = self.versions.values_mut().map(|version| &mut version.contents);
        for contents in heads.chain(frozen) {
            if contents.parent == Some(id) {
                contents.parent = gone.contents.parent;
            }
        }
    }

    /// Versions whose space can be given back, and where each goes on. One with two children
    /// waits: what both have of it would seem to belong to each of them alone.
    pub(crate) fn deletions(&self) -> Vec<(VersionId, &Version, u32)> {
        let deleted = self.versions.iter();
        let deleted = deleted.filter_map(|(&id, v)| Some((id, v, v.deleting_from_leaf?)));
        let mut deleted: Vec<_> = deleted.collect();
        if !deleted.is_empty() {
            let children = self.children();
            deleted.retain(|(id, ..)| children.get(id).is_none_or(|count| *count <= 1));
        }
        deleted
    }

    /// The version whose space is to be given back next.
    pub(crate) fn next_deletion(&self) -> Option<VersionId> {
        // The one that was begun goes on, so that there is never a second one half-way.
        self.deletions().into_iter().max_by_key(|(_, _, from)| *from).map(|(id, ..)| id)
    }

    /// Whether the deletion of this version has given back what it had of a leaf: who shared it may
    /// write over that where it lies.
    pub(crate) fn has_passed(&self, id: VersionId, leaf: u32) -> bool {
        let from = self.versions.get(&id).and_then(|version| version.deleting_from_leaf);
        from.is_some_and(|from| leaf < from)
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn check(&self) {
        let heads = self.volumes.values().map(|volume| (None, &volume.head));
        let frozen = self.versions.values().map(|v| (Some(v.epoch), &v.contents));
        for (epoch, contents) in heads.chain(frozen) {
            let Some(parent) = contents.parent else { continue };
            let parent = self.versions.get(&parent).expect("invariant 1: parents exist");
            assert!(epoch.is_none_or(|epoch| epoch > parent.epoch), "invariant 3: epochs grow");
        }
        let mut viewed = BTreeSet::new();
        for volume in self.volumes.values() {
            let Some(snapshot) = volume.view_of else { continue };
            assert_eq!(volume.head.parent, Some(snapshot), "invariant 4: it begins with it");
            assert!(viewed.insert(snapshot), "invariant 4: one view of a snapshot");
        }
        for id in &self.uncached {
            let volume = self.volumes.get(id).expect("invariant 5: it is of a volume");
            assert!(volume.view_of.is_none(), "invariant 5: views are as their volumes");
        }
        let begun = self.versions.values().filter(|v| v.deleting_from_leaf > Some(0));
        assert!(begun.count() <= 1, "invariant 2: one deletion at a time");
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn questions_about_deletions_take_no_longer_for_each_when_there_are_many() {
        let mut tables = Tables::default();
        for number in 1..60_000u32 {
            let parent = (number > 1).then(|| VersionId(number - 1));
            let contents = Contents { root: None, parent, mapped: 0 };
            let (epoch, deleting_from_leaf) = (Epoch(number), Some(0));
            let version = Version { contents, epoch, snapshot: None, deleting_from_leaf };
            tables.versions.insert(VersionId(number), version);
        }
        let began = Instant::now();
        assert_eq!(tables.deletions().len(), 59_999);
        assert!(tables.next_deletion().is_some());
        // Looking through all for each of them would take minutes.
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        // One with two children waits for one of them to go.
        let second = tables.versions[&VersionId(2)].clone();
        tables.versions.insert(VersionId(70_000), second);
        assert!(tables.deletions().iter().all(|(id, ..)| *id != VersionId(1)));
    }

    #[test]
    fn a_map_tells_nothing_of_what_its_deletion_has_given_back() {
        let mut tables = Tables::default();
        for (id, deleting_from_leaf) in [(1, None), (2, Some(0)), (3, Some(5))] {
            let contents = Contents { root: None, parent: None, mapped: 0 };
            let version =
                Version { contents, epoch: Epoch(id), snapshot: None, deleting_from_leaf };
            tables.versions.insert(VersionId(id), version);
        }
        let has_passed = |id, leaf| tables.has_passed(VersionId(id), leaf);
        assert!(!has_passed(1, 0) && !has_passed(2, 0) && !has_passed(3, 5));
        assert!(has_passed(3, 0) && has_passed(3, 4));
    }
}
