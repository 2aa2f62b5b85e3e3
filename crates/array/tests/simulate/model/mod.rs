//! The truth as far as it can be known from outside: volumes, snapshots, and what the answers to
//! requests allow them to hold.

mod block;
mod doubt;
mod moment;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::BTreeMap;
use std::ops::Range;

use array::api::{Cache, SnapshotAccess, SnapshotInfo, VolumeInfo, VolumeSpec, VolumeState};

use crate::content::{BLOCK_SECTORS, Content, Tag, of_write};

pub(crate) use doubt::Doubt;
use moment::{Log, Set};
pub(crate) use volume::{Blocks, Change, Contents, Outcome, observe, zeroes};

/// How a volume should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    Online,
    Offline,
    /// In the recycle bin.
    Deleted,
}

impl Served {
    /// What the array says, in these words.
    pub(crate) fn of(state: VolumeState) -> Self {
        match state {
            VolumeState::Online | VolumeState::Degraded | VolumeState::Lost => Self::Online,
            VolumeState::Offline => Self::Offline,
            VolumeState::Deleted => Self::Deleted,
        }
    }
}

/// A snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) blocks: Blocks,
    pub(crate) size_bytes: u64,
    pub(crate) online: bool,
    /// Hosts may write, or last could; what they wrote is a volume of its name in
    /// [`view_name`].
    pub(crate) writable: bool,
}

/// The name under which hosts know what they write to a snapshot.
pub(crate) fn view_name(volume: &str, snapshot: &str) -> String {
    format!("{volume}@{snapshot}")
}

/// A volume.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) spec: VolumeSpec,
    pub(crate) contents: Contents,
    /// What it holds if a rollback, cut off by a crash, has happened after all.
    pub(crate) otherwise: Option<Blocks>,
    pub(crate) served: Served,
    pub(crate) snapshots: BTreeMap<String, Snapshot>,
    /// Hosts that are doing something to it.
    pub(crate) users: u32,
    /// No host may begin anything: it is about to be changed as a whole.
    pub(crate) closed: bool,
}

impl Volume {
    fn new(spec: VolumeSpec, blocks: Blocks) -> Self {
        Self {
            spec,
            contents: Contents::new(blocks),
            otherwise: None,
            served: Served::Online,
            snapshots: BTreeMap::new(),
            users: 0,
            closed: false,
        }
    }

    /// Whether an answered write survives a loss of power.
    pub(crate) fn durable(&self) -> bool {
        self.spec.cache == Cache::Durable
    }

    /// Whether hosts can use it now.
    pub(crate) fn usable(&self) -> bool {
        self.served == Served::Online && !self.closed
    }
}

/// How a machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The array was closed.
    Closed,
    /// The process was killed.
    Killed,
    /// The power went.
    PowerCut,
}

/// What an array says that it has.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) volumes: Vec<VolumeInfo>,
    pub(crate) snapshots: Vec<SnapshotInfo>,
}

impl Listing {
    pub(crate) fn volume(&self, name: &str) -> Option<&VolumeInfo> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    pub(crate) fn snapshot(&self, volume: &str, name: &str) -> Option<&SnapshotInfo> {
        let mut all = self.snapshots.iter();
        all.find(|snap| snap.volume == volume && snap.name == name && !snap.deleting)
    }
}

/// Everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    volumes: BTreeMap<String, Volume>,
    doubts: BTreeMap<u64, Doubt>,
    log: Log,
    /// Sets of snapshots that were not yet shown to be of one moment.
    sets: Vec<Set>,
    last_op: u32,
    last_name: u32,
    last_doubt: u64,
}

impl Model {
    pub(crate) fn names(&self) -> Vec<String> {
        self.volumes.keys().cloned().collect()
    }

    /// Volumes, without what belongs to snapshots.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = (&String, &Volume)> {
        self.volumes.iter().filter(|(name, _)| !name.contains('@'))
    }

    /// All that hosts may use: volumes, and snapshots that they may write to.
    pub(crate) fn disks(&self) -> impl Iterator<Item = (&String, &Volume)> {
        self.volumes.iter()
    }

    /// A volume that must be there.
    pub(crate) fn volume(&mut self, name: &str) -> &mut Volume {
        self.volumes.get_mut(name).unwrap_or_else(|| panic!("the model knows no volume {name}"))
    }

    pub(crate) fn find(&mut self, name: &str) -> Option<&mut Volume> {
        self.volumes.get_mut(name)
    }

    /// A name that was never used.
    pub(crate) fn fresh_name(&mut self, letter: char) -> String {
        self.last_name += 1;
        format!("{letter}{}", self.last_name)
    }

    /// Starts a change of these sectors to what is given, or to data of its own.
    pub(crate) fn begin(
        &mut self,
        volume: &str,
        range: Range<u64>,
        content: Option<Content>,
    ) -> Change {
        self.last_op += 1;
        let op = self.last_op;
        let content = content.unwrap_or([of_write(op); BLOCK_SECTORS]);
        if content[0] == Tag(op) {
            self.log.begin(op, volume, range.clone());
        }
        let change = Change { op, range, content };
        self.volume(volume).contents.begin(&change);
        change
    }

    /// A change was answered.
    pub(crate) fn end(&mut self, volume: &str, change: &Change, outcome: Outcome) {
        if matches!(outcome, Outcome::Done | Outcome::DoneDurable) {
            self.log.answered(change.op);
        }
        self.volume(volume).contents.end(change, outcome);
    }

    /// Checks that snapshots of one set show one moment, where all of them have been read.
    pub(crate) fn check_moments(&mut self) -> Result<(), String> {
        for set in std::mem::take(&mut self.sets) {
            let mut blocks = BTreeMap::new();
            for (volume, name) in &set.snapshots {
                let of = self.volumes.get(volume);
                if let Some(snapshot) = of.and_then(|volume| volume.snapshots.get(name)) {
                    blocks.insert(volume.clone(), &snapshot.blocks);
                }
            }
            self.log.check(&set, &blocks)?;
        }
        Ok(())
    }

    /// Starts something about which a crash would leave doubts.
    pub(crate) fn doubt(&mut self, doubt: Doubt) -> u64 {
        self.last_doubt += 1;
        self.doubts.insert(self.last_doubt, doubt);
        self.last_doubt
    }

    /// It was never asked for.
    pub(crate) fn forget(&mut self, doubt: Doubt) {
        doubt.refused(self);
    }

    /// It was answered: it has happened.
    pub(crate) fn happened(&mut self, doubt: u64) {
        let doubt = self.doubts.remove(&doubt).expect("only what was begun can happen");
        doubt.happened(self);
    }

    /// It was refused: it has not happened.
    pub(crate) fn refused(&mut self, doubt: u64) {
        let doubt = self.doubts.remove(&doubt).expect("only what was begun can be refused");
        doubt.refused(self);
    }

    /// The machine ended.
    pub(crate) fn ended(&mut self, end: End) {
        let doubts = std::mem::take(&mut self.doubts);
        self.doubts = doubts.into_iter().map(|(id, doubt)| (id, doubt.rest(self))).collect();
        for volume in self.volumes.values_mut() {
            (volume.users, volume.closed) = (0, false);
            match end {
                End::Closed => volume.contents.closed(),
                End::Killed => volume.contents.process_ended(),
                End::PowerCut => volume.contents.power_cut(),
            }
        }
    }

    /// Whether it is not known if something happened that was begun.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// Settles all doubts by what the array has after a crash, and compares the rest.
    pub(crate) fn reconcile(&mut self, listing: &Listing) -> Result<(), String> {
        for (_, doubt) in std::mem::take(&mut self.doubts) {
            doubt.settle(listing, self)?;
        }
        // The array may empty its recycle bin when it needs the space.
        self.volumes.retain(|name, volume| {
            volume.served != Served::Deleted || listing.volume(name).is_some()
        });
        let names = self.names();
        let owner = |name: &str| name.split_once('@').map(|(volume, _)| volume.to_owned());
        self.volumes.retain(|name, _| owner(name).is_none_or(|volume| names.contains(&volume)));
        for (name, volume) in &self.volumes {
            if owner(name).is_some_and(|of| self.volumes[&of].served == Served::Deleted) {
                // It waits with its volume.
                continue;
            }
            let info = listing.volume(name).ok_or_else(|| format!("volume {name} is gone"))?;
            // One that is lost does not say whether it would be online otherwise.
            let served = Served::of(info.state);
            let is_lost = info.state == VolumeState::Lost && volume.served == Served::Offline;
            if info.size_bytes != volume.spec.size_bytes || served != volume.served && !is_lost {
                let (size_bytes, served) = (volume.spec.size_bytes, volume.served);
                return Err(format!("{info:?} should have {size_bytes} bytes and be {served:?}"));
            }
            if volume.served == Served::Deleted {
                // Its snapshots wait with it.
                continue;
            }
            for (snapshot, wanted) in &volume.snapshots {
                let info = listing.snapshot(name, snapshot);
                let info = info.ok_or_else(|| format!("snapshot {name}@{snapshot} is gone"))?;
                let access = match wanted.writable {
                    true => SnapshotAccess::ReadWrite,
                    false => SnapshotAccess::ReadOnly,
                };
                let is_as_wanted = (info.size_bytes, info.online, info.access)
                    == (wanted.size_bytes, wanted.online, access);
                if !is_as_wanted {
                    return Err(format!(
                        "{info:?} should be online: {}, {access:?}",
                        wanted.online
                    ));
                }
            }
        }
        let unknown = listing.volumes.iter().find(|info| !self.volumes.contains_key(&info.name));
        if let Some(info) = unknown {
            return Err(format!("nobody made {info:?}"));
        }
        for info in listing.snapshots.iter().filter(|info| !info.deleting) {
            let volume = self.volumes.get(&info.volume);
            if volume.is_none_or(|volume| !volume.snapshots.contains_key(&info.name)) {
                return Err(format!("nobody took {info:?}, or it was deleted"));
            }
        }
        Ok(())
    }
}
