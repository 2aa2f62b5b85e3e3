//! What is written whole with every checkpoint: volumes, snapshots, counters. Only a checkpoint
//! changes it, so what is in memory is always what the last checkpoint record holds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::api::{Cache, Settings, SnapshotAccess};
use crate::tree::{PageRef, Parent};
use crate::{DiskId, Epoch, Level, VersionId};

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

/// All of it.
///
/// Invariants:
/// 1. `parent` of every contents is a key of `versions`.
/// 2. At most one version is partly deleted (cursor above 0).
/// 3. A version's epoch is above its parent's.
/// 4. A view has the snapshot that it belongs to as its parent, and no other view has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Tables {
    pub(crate) volumes: BTreeMap<VersionId, Volume>,
    pub(crate) versions: BTreeMap<VersionId, Version>,
    pub(crate) scrubbed_unix_seconds: u64,
    /// Disks that are to be emptied and to leave.
    pub(crate) leaving: BTreeSet<DiskId>,
    pub(crate) settings: Settings,
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

    /// The maps that were changed from this version.
    pub(crate) fn children_of(&self, parent: VersionId) -> Vec<Option<PageRef>> {
        let heads = self.volumes.values().map(|volume| &volume.head);
        let frozen = self.versions.values().map(|version| &version.contents);
        let children = heads.chain(frozen).filter(|contents| contents.parent == Some(parent));
        children.map(|contents| contents.root).collect()
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

    /// The space of a version can be given back. One with two children waits: what both have of it
    /// would seem to belong to each of them alone.
    pub(crate) fn may_go(&self, id: VersionId) -> bool {
        self.children_of(id).len() <= 1
    }

    /// The version whose space is to be given back next.
    pub(crate) fn next_deletion(&self) -> Option<VersionId> {
        let waiting = self.versions.iter().filter(|(_, v)| v.deleting_from_leaf.is_some());
        let ready = waiting.filter(|&(&id, _)| self.may_go(id));
        // The one that was begun goes on, so that there is never a second one half-way.
        ready.max_by_key(|(_, v)| v.deleting_from_leaf).map(|(&id, _)| id)
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
        let begun = self.versions.values().filter(|v| v.deleting_from_leaf > Some(0));
        assert!(begun.count() <= 1, "invariant 2: one deletion at a time");
    }
}
