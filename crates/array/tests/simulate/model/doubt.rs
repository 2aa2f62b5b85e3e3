//! Requests that were not answered yet: after a crash they have happened or they have not, and
//! what the array has tells which.

use array::api::{SnapshotAccess, VolumeSpec};

use super::{Blocks, Contents, Listing, Model, Served, Set, Snapshot, Volume, view_name, zeroes};

/// A snapshot that is being taken.
#[derive(Debug, Clone)]
pub(crate) struct Taking {
    pub(crate) volume: String,
    pub(crate) name: String,
    /// The open view of the volume, or what it had seen when the machine ended.
    seen: Seen,
    size_bytes: u64,
}

#[derive(Debug, Clone)]
enum Seen {
    Watch(u64),
    Blocks(Blocks),
}

/// A request without its answer.
#[derive(Debug, Clone)]
pub(crate) enum Doubt {
    Create(VolumeSpec),
    Delete(String),
    Undelete(String),
    Purge(String),
    Resize(String, u64),
    Serve(String, bool),
    /// Since this moment.
    Take(Vec<Taking>, u64),
    DeleteSnapshot(String, String),
    ServeSnapshot(String, String, bool),
    /// Hosts may write to it; without what they wrote before, if so.
    WriteSnapshot(String, String, bool),
    Rollback(String, String),
    Clone {
        volume: String,
        snapshot: String,
        spec: VolumeSpec,
    },
}

impl Doubt {
    /// What disks must set aside for it, at most.
    pub(crate) fn asked_bytes(&self) -> u64 {
        match self {
            Self::Create(spec) if spec.thick => 2 * spec.size_bytes,
            Self::Resize(_, size_bytes) => 2 * size_bytes,
            _ => 0,
        }
    }

    /// A set of snapshots, each a volume and a name; the views of the volumes open now.
    pub(crate) fn take(model: &mut Model, snapshots: &[(String, String)]) -> Self {
        let taking = |(volume, name): &(String, String)| {
            let of = model.volume(volume);
            let watch = of.contents.watch(&(0..of.contents.sectors()));
            let (volume, name) = (volume.clone(), name.clone());
            Taking { volume, name, seen: Seen::Watch(watch), size_bytes: of.spec.size_bytes }
        };
        let list = snapshots.iter().map(taking).collect();
        Self::Take(list, model.log.now())
    }

    /// The machine ended: open views end too.
    pub(super) fn rest(self, model: &mut Model) -> Self {
        let Self::Take(mut list, begun) = self else { return self };
        for taking in &mut list {
            if let Seen::Watch(watch) = taking.seen {
                let contents = &mut model.volume(&taking.volume).contents;
                taking.seen = Seen::Blocks(contents.unwatch(watch).into_blocks());
            }
        }
        Self::Take(list, begun)
    }

    pub(super) fn refused(self, model: &mut Model) {
        // Only open views have to be closed.
        let _ = self.rest(model);
    }

    /// Its effect.
    pub(super) fn happened(self, model: &mut Model) {
        match self.rest(model) {
            Self::Create(spec) => {
                let blocks = zeroes(spec.size_bytes);
                model.volumes.insert(spec.name.clone(), Volume::new(spec, blocks));
            }
            Self::Delete(name) => model.volume(&name).served = Served::Deleted,
            Self::Undelete(name) => model.volume(&name).served = Served::Offline,
            Self::Purge(name) => {
                model.volumes.remove(&name);
                let views = view_name(&name, "");
                model.volumes.retain(|name, _| !name.starts_with(&views));
            }
            Self::Resize(name, size_bytes) => {
                let volume = model.volume(&name);
                volume.spec.size_bytes = size_bytes;
                volume.contents.resize(size_bytes);
            }
            Self::Serve(name, online) => {
                let served = if online { Served::Online } else { Served::Offline };
                model.volume(&name).served = served;
            }
            Self::Take(list, begun) => {
                let pair = |taking: &Taking| (taking.volume.clone(), taking.name.clone());
                model.sets.push(Set { snapshots: list.iter().map(pair).collect(), begun });
                list.into_iter().for_each(|taking| taking.happened(model));
            }
            Self::DeleteSnapshot(volume, name) => {
                model.volume(&volume).snapshots.remove(&name);
                model.volumes.remove(&view_name(&volume, &name));
            }
            Self::ServeSnapshot(volume, name, online) => {
                let snapshot = model.volume(&volume).snapshots.get_mut(&name);
                let snapshot = snapshot.expect("a snapshot in use stays");
                snapshot.online = online;
                snapshot.writable &= !online;
                if let Some(view) = model.volumes.get_mut(&view_name(&volume, &name)) {
                    view.served = Served::Offline;
                }
            }
            Self::WriteSnapshot(volume, name, fresh) => model.write_snapshot(&volume, &name, fresh),
            Self::Rollback(volume, name) => {
                let volume = model.volume(&volume);
                let snapshot = volume.snapshots.get(&name).expect("a snapshot in use stays");
                volume.spec.size_bytes = snapshot.size_bytes;
                volume.contents = Contents::new(snapshot.blocks.clone());
            }
            Self::Clone { volume, snapshot, spec } => {
                let from = model.volume(&volume).snapshots.get(&snapshot);
                let blocks = from.expect("a snapshot in use stays").blocks.clone();
                model.volumes.insert(spec.name.clone(), Volume::new(spec, blocks));
            }
        }
    }

    /// Finds out whether it has happened.
    pub(super) fn settle(self, listing: &Listing, model: &mut Model) -> Result<(), String> {
        let served = |name: &str| listing.volume(name).map(|info| Served::of(info.state));
        let happened = match &self {
            Self::Create(spec) | Self::Clone { spec, .. } => listing.volume(&spec.name).is_some(),
            Self::Delete(name) => served(name).is_none_or(|served| served == Served::Deleted),
            Self::Undelete(name) => served(name).is_some_and(|served| served != Served::Deleted),
            Self::Purge(name) => served(name).is_none(),
            Self::Resize(name, size_bytes) => {
                listing.volume(name).is_some_and(|info| info.size_bytes == *size_bytes)
            }
            Self::Serve(name, online) => served(name).is_some_and(|served| {
                served == if *online { Served::Online } else { Served::Offline }
            }),
            Self::Take(list, _) => {
                let taken =
                    |taking: &&Taking| listing.snapshot(&taking.volume, &taking.name).is_some();
                let count = list.iter().filter(taken).count();
                if count != 0 && count != list.len() {
                    return Err(format!("{count} of a set of {} snapshots", list.len()));
                }
                count > 0
            }
            Self::DeleteSnapshot(volume, name) => listing.snapshot(volume, name).is_none(),
            Self::ServeSnapshot(volume, name, online) => {
                listing.snapshot(volume, name).is_some_and(|info| info.online == *online)
            }
            Self::WriteSnapshot(volume, name, _) => {
                let info = listing.snapshot(volume, name);
                info.is_some_and(|info| info.online && info.access == SnapshotAccess::ReadWrite)
            }
            Self::Rollback(volume, name) => {
                // The size may tell; otherwise the contents will.
                let volume = model.volume(volume);
                let snapshot = volume.snapshots.get(name).expect("a snapshot in use stays");
                let size_bytes = listing.volume(&volume.spec.name).map(|info| info.size_bytes);
                if snapshot.size_bytes == volume.spec.size_bytes {
                    volume.otherwise = Some(snapshot.blocks.clone());
                    false
                } else {
                    size_bytes == Some(snapshot.size_bytes)
                }
            }
        };
        if happened {
            self.happened(model);
        }
        Ok(())
    }
}

impl Model {
    /// Hosts may write to a snapshot, which keeps its moment.
    fn write_snapshot(&mut self, volume: &str, name: &str, fresh: bool) {
        let view = view_name(volume, name);
        let of = self.volume(volume);
        let snapshot = of.snapshots.get_mut(name).expect("a snapshot in use stays");
        (snapshot.online, snapshot.writable) = (true, true);
        let (size_bytes, blocks) = (snapshot.size_bytes, snapshot.blocks.clone());
        let spec = VolumeSpec { name: view.clone(), size_bytes, thick: false, ..of.spec.clone() };
        if fresh || !self.volumes.contains_key(&view) {
            self.volumes.insert(view.clone(), Volume::new(spec, blocks));
        }
        self.volume(&view).served = Served::Online;
    }
}

impl Taking {
    fn happened(self, model: &mut Model) {
        let Seen::Blocks(blocks) = self.seen else { unreachable!("open views have ended") };
        let snapshot =
            Snapshot { blocks, size_bytes: self.size_bytes, online: false, writable: false };
        let snapshots = &mut model.volume(&self.volume).snapshots;
        assert!(snapshots.insert(self.name, snapshot).is_none(), "names of snapshots are fresh");
    }
}
