//! Snapshots that hosts may write to.
//!
//! A snapshot keeps its moment for ever. What hosts write to it goes to its *view*: a volume that
//! begins with the snapshot's contents, belongs to it, and is not listed among the volumes. It is
//! made when the snapshot first goes online read-write, stays while it is offline, and goes with
//! the snapshot, or when an operator wants a fresh one.
//!
//! Invariants: a snapshot has one view at most; a view is online exactly while its snapshot is
//! online read-write; nothing is ever made from a view.

use std::sync::Arc;

use block::BlockDevice;

use super::Array;
use super::volumes::abandon;
use crate::VersionId;
use crate::api::{SnapshotAccess, VolumeInfo};
use crate::core::{Core, State, VOLUME_BYTES};
use crate::error::ArrayError;
use crate::tables::{Contents, Tables, Volume};
use crate::volume::{Device, Of};

impl Array {
    /// Serves a snapshot read-write: hosts see what they wrote to it before, or its moment anew if
    /// `fresh`.
    ///
    /// # Errors
    /// Those of names; [`ArrayError::SnapshotOnline`] when hosts may have it now, but for the same
    /// thing asked again.
    pub async fn set_snapshot_writable(
        &self,
        volume: &str,
        snapshot: &str,
        fresh: bool,
    ) -> Result<(), ArrayError> {
        let (_, version) = self.core.materialized(volume, snapshot).await?;
        let name = format!("{volume}@{snapshot}");
        let (volume, snapshot) = (volume.to_owned(), snapshot.to_owned());
        {
            let state = &mut *self.core.lock();
            match state.served(version) {
                Some(SnapshotAccess::ReadWrite) if !fresh => return Ok(()),
                Some(_) => return Err(ArrayError::SnapshotOnline { volume, snapshot }),
                None if fresh => state.seal_view(version, true),
                None => {}
            }
        }
        let now = self.core.env.unix_seconds();
        let (core, bytes) = (Arc::clone(&self.core), VOLUME_BYTES + name.len() as u64);
        let result = self.core.request(move |tables, state| {
            core.grant_record(state, bytes)?;
            let source = tables.versions.get(&version);
            let source = source.filter(|source| source.deleting_from_leaf.is_none());
            if source.is_none_or(|source| source.snapshot.is_none()) {
                return Err(ArrayError::Deleting(snapshot));
            }
            if fresh {
                give_up_view(tables, state, version);
            }
            if tables.view_of(version).is_none() {
                let view = new_view(tables, version, name, now);
                tables.volumes.insert(state.take_version(), view);
            }
            serve(tables, version, true, SnapshotAccess::ReadWrite);
            Ok(())
        });
        let result = result.await;
        if result.is_err() {
            self.core.lock().seal_view(version, false);
        }
        result
    }

    /// What hosts see of a snapshot that is served read-write.
    ///
    /// # Errors
    /// Those of names; [`ArrayError::NeverWritable`] when it never was.
    pub fn snapshot_view(&self, volume: &str, snapshot: &str) -> Result<VolumeInfo, ArrayError> {
        let state = self.core.lock();
        let id = state.view(volume, snapshot)?;
        Ok(self.core.volume_info(&state, id))
    }

    /// The same as a disk that can be written.
    ///
    /// # Errors
    /// As of [`snapshot_view`](Self::snapshot_view).
    pub fn snapshot_view_device(
        &self,
        volume: &str,
        snapshot: &str,
    ) -> Result<Arc<dyn BlockDevice>, ArrayError> {
        let state = self.core.lock();
        let id = state.view(volume, snapshot)?;
        let view = &state.tables.volumes[&id];
        let (size_bytes, block_bytes) = (view.size_bytes, view.block_bytes);
        Ok(Arc::new(Device::new(Arc::clone(&self.core), Of::Head(id), size_bytes, block_bytes)))
    }
}

/// Says how a snapshot is served from now on, if it is.
pub(super) fn serve(tables: &mut Tables, version: VersionId, online: bool, access: SnapshotAccess) {
    let snapshot = tables.versions.get_mut(&version).and_then(|version| version.snapshot.as_mut());
    let Some(snapshot) = snapshot else { return };
    (snapshot.online, snapshot.access) = (online, access);
    if let Some((id, _)) = tables.view_of(version) {
        let view = tables.volumes.get_mut(&id).expect("found above");
        view.online = online && access == SnapshotAccess::ReadWrite;
    }
}

/// Nothing reaches the view of a snapshot any more; it was sealed before.
pub(super) fn give_up_view(tables: &mut Tables, state: &mut State, version: VersionId) {
    let Some((id, _)) = tables.view_of(version) else { return };
    let view = tables.volumes.remove(&id).expect("found above");
    abandon(tables, state, view.head);
}

fn new_view(tables: &Tables, version: VersionId, name: String, now: u64) -> Volume {
    let source = &tables.versions[&version];
    let snapshot = source.snapshot.as_ref().expect("checked before");
    Volume {
        name,
        size_bytes: snapshot.size_bytes,
        thick: false,
        created_unix_seconds: now,
        deleted_unix_seconds: None,
        origin: None,
        view_of: Some(version),
        head: Contents { parent: Some(version), ..source.contents.clone() },
        ..tables.volumes[&snapshot.volume].clone()
    }
}

impl Core {
    /// A snapshot of a volume that hosts may write to.
    pub(super) fn check_no_writers(&self, id: VersionId, volume: &str) -> Result<(), ArrayError> {
        let state = self.lock();
        let writable = state.tables.snapshots_of(id).find(|(_, _, snapshot)| {
            snapshot.online && snapshot.access == SnapshotAccess::ReadWrite
        });
        match writable {
            None => Ok(()),
            Some((_, _, snapshot)) => Err(ArrayError::SnapshotOnline {
                volume: volume.to_owned(),
                snapshot: snapshot.name.clone(),
            }),
        }
    }
}

impl State {
    /// How a snapshot is served; `None` if it is not.
    fn served(&self, version: VersionId) -> Option<SnapshotAccess> {
        let snapshot = self.tables.versions.get(&version)?.snapshot.as_ref()?;
        snapshot.online.then_some(snapshot.access)
    }

    /// Keeps changes from the view of a snapshot, or lets them in again.
    pub(super) fn seal_view(&mut self, version: VersionId, is_sealed: bool) {
        if let Some((id, _)) = self.tables.view_of(version)
            && let Some(live) = self.live.get_mut(&id)
        {
            live.is_sealed = is_sealed;
        }
    }

    fn view(&self, volume: &str, snapshot: &str) -> Result<VersionId, ArrayError> {
        let id = self.volume(volume)?.0;
        let version = self.snapshot(id, volume, snapshot)?.0;
        let view = self.tables.view_of(version).map(|(id, _)| id);
        view.ok_or_else(|| ArrayError::NeverWritable {
            volume: volume.to_owned(),
            snapshot: snapshot.to_owned(),
        })
    }
}
