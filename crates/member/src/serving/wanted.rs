//! What is to be served, and the disk of each target.

use array::api::{Cache, SnapshotAccess, SnapshotInfo, VolumeInfo, VolumeState};
use group::access::Object;
use group::membership::SpreadId;
use target::UnitSpec;

use super::{Serving, online_of, serves_leaving};
use crate::spread::DiskError;

/// What is to be served, by the name of its target. Its device is made when it is served: most that are
/// wanted are served already.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) iqn: String,
    pub(super) serial: String,
    /// The number of the volume whose settings say who may use it.
    pub(super) volume: u32,
    volume_name: String,
    source: Source,
}

/// What a target gives its hosts.
#[derive(Debug)]
enum Source {
    Volume {
        write_cache: bool,
    },
    /// A volume that lies on several members.
    Spread(SpreadId),
    /// A snapshot of this name, to be read.
    Snapshot(String),
    /// What is written over a snapshot of this name.
    View {
        snapshot: String,
        write_cache: bool,
    },
}

impl Wanted {
    pub(super) fn object(&self) -> Object {
        match self.source {
            Source::Volume { .. } | Source::Spread(_) => Object::Volume,
            Source::Snapshot(_) | Source::View { .. } => Object::Snapshot,
        }
    }

    /// Whether it is served no longer although it is there.
    pub(super) fn is_shut(&self, serving: &Serving) -> bool {
        matches!(&self.source, Source::Spread(id) if serving.spread.why_old(id).is_some())
    }

    /// As operators call it.
    pub(super) fn name(&self) -> String {
        let volume = &self.volume_name;
        match &self.source {
            Source::Volume { .. } | Source::Spread(_) => volume.clone(),
            Source::Snapshot(snapshot) | Source::View { snapshot, .. } => {
                format!("{volume}@{snapshot}")
            }
        }
    }
}

impl Serving {
    /// All that should be targets now.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        let mut snapshots = self.array.all_snapshots();
        for (volume, id) in self.servable() {
            let is_withheld = self.settings.withheld(volume.id).is_some() && !serves_leaving();
            if volume.state == VolumeState::Deleted || is_withheld {
                continue;
            }
            if matches!(volume.state, VolumeState::Online | VolumeState::Degraded) {
                wanted.push(self.volume_target(&volume, id));
            }
            if volume.state != VolumeState::Lost {
                let online = online_of(&mut snapshots, &volume);
                wanted.extend(online.filter_map(|s| self.snapshot_target(&volume, s)));
            }
        }
        wanted
    }

    fn volume_target(&self, volume: &VolumeInfo, id: Option<SpreadId>) -> Wanted {
        Wanted {
            iqn: self.iqn_of_volume(volume),
            serial: self.names().volume_serial(volume),
            volume: volume.id,
            volume_name: volume.name.clone(),
            source: match id {
                Some(id) => Source::Spread(id),
                None => Source::Volume { write_cache: volume.cache == Cache::Volatile },
            },
        }
    }

    fn snapshot_target(&self, volume: &VolumeInfo, snapshot: SnapshotInfo) -> Option<Wanted> {
        let iqn = self.names().snapshot((volume.id, &volume.name), &snapshot.name);
        let (serial, source) = if snapshot.access == SnapshotAccess::ReadWrite {
            // A disk of its own to hosts, as it is no more what the snapshot is.
            let view = self.array.snapshot_view(&volume.name, &snapshot.name).ok()?;
            let write_cache = view.cache == Cache::Volatile;
            let source = Source::View { snapshot: snapshot.name, write_cache };
            (self.names().volume_serial(&view), source)
        } else {
            (self.names().snapshot_serial(&snapshot), Source::Snapshot(snapshot.name))
        };
        Some(Wanted { iqn, serial, volume: volume.id, volume_name: volume.name.clone(), source })
    }

    /// The disk of a target; `None` of what was deleted meanwhile, and of what is served in a moment.
    ///
    /// # Errors
    /// The slices of a volume make no disk.
    pub(super) fn unit(&self, wanted: &Wanted) -> Result<Option<UnitSpec>, DiskError> {
        let (array, volume) = (&self.array, &wanted.volume_name);
        let (device, write_cache, read_only) = match &wanted.source {
            Source::Volume { write_cache } => (array.device(volume).ok(), *write_cache, false),
            Source::Spread(id) => (self.spread.for_hosts(id)?, false, false),
            Source::Snapshot(snapshot) => {
                (array.snapshot_device(volume, snapshot).ok(), false, true)
            }
            Source::View { snapshot, write_cache } => {
                (array.snapshot_view_device(volume, snapshot).ok(), *write_cache, false)
            }
        };
        let (serial, name) = (wanted.serial.clone(), wanted.name());
        Ok(device.map(|device| UnitSpec {
            device,
            serial,
            write_cache,
            read_only,
            referrals: None,
            name,
        }))
    }
}
