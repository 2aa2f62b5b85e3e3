//! Making, changing and deleting volumes.

use std::sync::Arc;

use super::views::give_up_view;
use super::{Array, check_name, whole_clusters};
use crate::api::{VolumeInfo, VolumeSpec};
use crate::core::{State, UNCACHED_BYTES, VOLUME_BYTES};
use crate::error::ArrayError;
use crate::tables::{Contents, Tables, Version, Volume};
use crate::{BLOCK_BYTES, CLUSTER_BYTES, Level, VersionId};

/// What sequential reads fetch ahead unless a volume says otherwise.
pub(super) const READ_AHEAD_BYTES: u32 = 1 << 20;

impl Array {
    /// Makes a volume; its size is rounded up to 64 KiB.
    ///
    /// # Errors
    /// What is wrong with the name, size or level, and [`ArrayError::NoSpace`] for a thick one.
    pub async fn create_volume(&self, spec: VolumeSpec) -> Result<VolumeInfo, ArrayError> {
        self.make_volume(spec, true).await
    }

    /// The same, and it is offline until [`set_volume_online`](Self::set_volume_online).
    ///
    /// # Errors
    /// As for [`create_volume`](Self::create_volume).
    pub async fn create_volume_offline(&self, spec: VolumeSpec) -> Result<VolumeInfo, ArrayError> {
        self.make_volume(spec, false).await
    }

    async fn make_volume(&self, spec: VolumeSpec, online: bool) -> Result<VolumeInfo, ArrayError> {
        check_name(&spec.name)?;
        let size_bytes = whole_clusters(spec.size_bytes)?;
        if spec.block_bytes != 512 && spec.block_bytes != BLOCK_BYTES as u32 {
            return Err(ArrayError::BadBlock(spec.block_bytes));
        }
        let level = spec.level.unwrap_or(self.core.level);
        let now = self.core.env.unix_seconds();
        let (name, cached) = (spec.name.clone(), spec.cached);
        let volume = Volume {
            name: spec.name,
            size_bytes,
            level,
            thick: spec.thick,
            block_bytes: spec.block_bytes,
            cache: spec.cache,
            read_ahead_bytes: spec.read_ahead_bytes.unwrap_or(READ_AHEAD_BYTES),
            created_unix_seconds: now,
            online,
            deleted_unix_seconds: None,
            origin: None,
            view_of: None,
            head: Contents { root: None, parent: None, mapped: 0 },
        };
        self.add_volume(volume, cached).await?;
        self.volume(&name)
    }

    async fn add_volume(&self, volume: Volume, cached: bool) -> Result<(), ArrayError> {
        self.core.check_level(volume.level)?;
        let bytes = VOLUME_BYTES + UNCACHED_BYTES + volume.name.len() as u64;
        let core = Arc::clone(&self.core);
        self.core
            .request(move |tables, state| {
                check_free(tables, &volume.name)?;
                core.grant_record(state, bytes)?;
                if volume.thick {
                    core.promise(state, volume.level, volume.unmapped())?;
                }
                let id = state.take_version();
                tables.volumes.insert(id, volume);
                if !cached {
                    tables.uncached.insert(id);
                }
                Ok(())
            })
            .await
    }

    /// Changes the size; what lies beyond a smaller one is given up.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`], [`ArrayError::BadSize`]; [`ArrayError::NotOffline`] when it
    /// would shrink under its hosts, [`ArrayError::Lost`] while its disks are missing.
    pub async fn resize_volume(&self, name: &str, bytes: u64) -> Result<VolumeInfo, ArrayError> {
        let size_bytes = whole_clusters(bytes)?;
        let (id, old, is_lost) = {
            let state = self.core.lock();
            let (id, volume) = state.volume(name)?;
            let is_lost = state.live.get(&id).is_some_and(|live| live.is_aside());
            (id, volume.clone(), is_lost)
        };
        if size_bytes < old.size_bytes {
            if old.online {
                return Err(ArrayError::NotOffline(name.to_owned()));
            }
            if is_lost {
                return Err(ArrayError::Lost);
            }
            let gone = old.size_bytes - size_bytes;
            self.device(name)?.unmap(size_bytes, gone).await?;
        }
        let core = Arc::clone(&self.core);
        self.core
            .request(move |tables, state| {
                // A volume that was purged meanwhile has nothing to change any more.
                let Some(volume) = tables.volumes.get_mut(&id) else { return Ok(()) };
                // Snapshots that wait in its journal have the size that it has now.
                if state.live.get(&id).is_some_and(|live| live.is_aside()) {
                    return Err(ArrayError::Lost);
                }
                if volume.thick && size_bytes > volume.size_bytes {
                    let more = (size_bytes - volume.size_bytes) / CLUSTER_BYTES as u64;
                    core.promise(state, volume.level, more)?;
                }
                volume.size_bytes = size_bytes;
                Ok(())
            })
            .await?;
        self.volume(name)
    }

    /// Gives a volume another name.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`], or what is wrong with the new name.
    pub async fn rename_volume(&self, name: &str, new: &str) -> Result<VolumeInfo, ArrayError> {
        check_name(new)?;
        let id = self.core.lock().volume(name)?.0;
        let wanted = new.to_owned();
        let core = Arc::clone(&self.core);
        self.core
            .request(move |tables, state| {
                check_free(tables, &wanted)?;
                let views = tables.volumes.values().filter(|volume| volume.view_of.is_some());
                core.grant_record(state, ((1 + views.count()) * wanted.len()) as u64)?;
                let volume = tables.volumes.get_mut(&id);
                let volume = volume.ok_or_else(|| ArrayError::NoSuchVolume(wanted.clone()))?;
                volume.name = wanted.clone();
                rename_views(tables, id, &wanted);
                Ok(())
            })
            .await?;
        self.volume(new)
    }

    /// Changes what sequential reads fetch ahead; 0 for none.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`].
    pub async fn set_read_ahead(&self, name: &str, bytes: u32) -> Result<VolumeInfo, ArrayError> {
        let id = self.core.lock().volume(name)?.0;
        let gone = name.to_owned();
        self.core
            .request(move |tables, _| {
                let volume = tables.volumes.get_mut(&id).ok_or(ArrayError::NoSuchVolume(gone))?;
                volume.read_ahead_bytes = bytes;
                Ok(())
            })
            .await?;
        self.volume(name)
    }

    /// Says whether hosts may have the volume.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`].
    pub async fn set_volume_online(
        &self,
        name: &str,
        online: bool,
    ) -> Result<VolumeInfo, ArrayError> {
        let id = self.core.lock().volume(name)?.0;
        self.change(id, move |volume| volume.online = online).await?;
        self.volume(name)
    }

    /// Puts a volume into the recycle bin; it can come back until its space is needed.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`]; [`ArrayError::NotOffline`] while hosts may have it, and
    /// [`ArrayError::SnapshotOnline`] while they may write to a snapshot of it.
    pub async fn delete_volume(&self, name: &str) -> Result<(), ArrayError> {
        let (id, online) = {
            let state = self.core.lock();
            let (id, volume) = state.volume(name)?;
            (id, volume.online)
        };
        if online {
            return Err(ArrayError::NotOffline(name.to_owned()));
        }
        self.core.check_no_writers(id, name)?;
        let now = self.core.env.unix_seconds();
        self.change(id, move |volume| volume.deleted_unix_seconds = Some(now)).await
    }

    /// Takes a volume out of the recycle bin; it is offline.
    ///
    /// # Errors
    /// [`ArrayError::NotDeleted`]; [`ArrayError::NoSpace`] when a thick one has no room any more.
    pub async fn undelete_volume(&self, name: &str) -> Result<VolumeInfo, ArrayError> {
        let id = self.deleted(name)?;
        let (core, gone) = (Arc::clone(&self.core), name.to_owned());
        self.core
            .request(move |tables, state| {
                let volume = tables.volumes.get_mut(&id).ok_or(ArrayError::NotDeleted(gone))?;
                // In the bin nothing was kept for it.
                if volume.thick && volume.deleted_unix_seconds.is_some() {
                    core.promise(state, volume.level, volume.unmapped())?;
                }
                volume.deleted_unix_seconds = None;
                Ok(())
            })
            .await?;
        self.volume(name)
    }

    /// Gives up a volume in the recycle bin, with its snapshots. Their space comes back in the
    /// background.
    ///
    /// # Errors
    /// [`ArrayError::NotDeleted`].
    pub async fn purge_volume(&self, name: &str) -> Result<(), ArrayError> {
        let id = self.deleted(name)?;
        self.core.purge(id).await
    }

    fn deleted(&self, name: &str) -> Result<VersionId, ArrayError> {
        match self.core.lock().tables.volume_named(name) {
            Some((id, volume)) if volume.deleted_unix_seconds.is_some() => Ok(id),
            _ => Err(ArrayError::NotDeleted(name.to_owned())),
        }
    }

    async fn change(
        &self,
        id: VersionId,
        change: impl FnOnce(&mut Volume) + Send + 'static,
    ) -> Result<(), ArrayError> {
        self.core
            .request(move |tables, _| {
                // A volume that was purged meanwhile has nothing to change any more.
                if let Some(volume) = tables.volumes.get_mut(&id) {
                    change(volume);
                }
                Ok(())
            })
            .await
    }
}

/// Views carry the name of their volume, for logs.
fn rename_views(tables: &mut Tables, id: VersionId, name: &str) {
    let mut views: Vec<(VersionId, String)> = Vec::new();
    for (snapshot, _, of) in tables.snapshots_of(id) {
        views.extend(tables.view_of(snapshot).map(|(id, _)| (id, format!("{name}@{}", of.name))));
    }
    for (id, name) in views {
        tables.volumes.get_mut(&id).expect("found above").name = name;
    }
}

pub(super) fn check_free(tables: &Tables, name: &str) -> Result<(), ArrayError> {
    match tables.volume_named(name) {
        None => Ok(()),
        Some((_, volume)) if volume.deleted_unix_seconds.is_some() => {
            Err(ArrayError::InRecycleBin(name.to_owned()))
        }
        Some(_) => Err(ArrayError::VolumeExists(name.to_owned())),
    }
}

impl crate::core::Core {
    /// Gives up a volume in the recycle bin: nothing reaches it from now on.
    ///
    /// # Errors
    /// [`ArrayError::NotDeleted`] when it was taken out of the bin meanwhile.
    pub(crate) async fn purge(
        self: &std::sync::Arc<Self>,
        id: VersionId,
    ) -> Result<(), ArrayError> {
        let snapshots = {
            let state = &mut *self.lock();
            if let Some(live) = state.live.get_mut(&id) {
                live.is_sealed = true;
            }
            let snapshots: Vec<_> = state.tables.snapshots_of(id).map(|(id, _, _)| id).collect();
            snapshots.iter().for_each(|snapshot| state.seal_view(*snapshot, true));
            snapshots
        };
        // What is still in the journal is destaged by the same checkpoint, before it is given up.
        self.request(move |tables, state| {
            let is_deleted = |volume: &Volume| volume.deleted_unix_seconds.is_some();
            match tables.volumes.get(&id) {
                None => return Ok(()),
                Some(volume) if !is_deleted(volume) => {
                    // It was taken out of the recycle bin in time.
                    let name = volume.name.clone();
                    if let Some(live) = state.live.get_mut(&id) {
                        live.is_sealed = false;
                    }
                    snapshots.iter().for_each(|snapshot| state.seal_view(*snapshot, false));
                    return Err(ArrayError::NotDeleted(name));
                }
                Some(_) => {}
            }
            let volume = tables.volumes.remove(&id).expect("looked up above");
            tables.uncached.remove(&id);
            snapshots.iter().for_each(|snapshot| give_up_view(tables, state, *snapshot));
            for version in tables.versions.values_mut() {
                if version.snapshot.as_ref().is_some_and(|snapshot| snapshot.volume == id) {
                    version.snapshot = None;
                    version.deleting_from_leaf.get_or_insert(0);
                }
            }
            abandon(tables, state, volume.head);
            Ok(())
        })
        .await
    }

    /// Refuses a level that there are too few disks for.
    pub(super) fn check_level(&self, level: Level) -> Result<(), ArrayError> {
        let label = self.lock().label.clone();
        let usable = self.usable_disks(&label);
        if usable >= level.disks_min() {
            return Ok(());
        }
        let fitting = Level::ALL.into_iter().filter(|other| other.disks_min() <= usable);
        let other = fitting.max_by_key(|other| other.losses_max()).unwrap_or(Level::Raid0);
        Err(ArrayError::TooFewDisks { level, needed: level.disks_min(), usable, other })
    }
}

/// Contents that nobody can reach any more wait for their deletion.
pub(super) fn abandon(tables: &mut Tables, state: &mut State, contents: Contents) {
    if contents.root.is_none() {
        return;
    }
    let id = state.take_version();
    // Its own epoch: nothing is ever made from it.
    let version =
        Version { contents, epoch: state.epoch, snapshot: None, deleting_from_leaf: Some(0) };
    tables.versions.insert(id, version);
}
