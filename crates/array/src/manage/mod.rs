//! What an operator does with an array.

mod caching;
mod disks;
mod failing;
mod figures;
mod held;
mod info;
mod snapshots;
mod views;
mod volumes;

use std::sync::Arc;

use block::BlockDevice;

use crate::core::{Core, State};
use crate::error::ArrayError;
use crate::tables::Volume;
use crate::volume::{Device, Of};
use crate::{CLUSTER_BYTES, VersionId};

pub use held::Hold;
pub use snapshots::SNAPSHOTS_MAX;

/// An open array. A clone is the same array.
///
/// Methods that are `async` run on a core of the engine (or of the simulation) and may be called
/// from any of them; the others from any thread.
#[derive(Debug, Clone)]
pub struct Array {
    pub(crate) core: Arc<Core>,
}

impl Array {
    /// A volume as a disk, whatever its state: it is served as long as its disks allow.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`].
    pub fn device(&self, volume: &str) -> Result<Arc<dyn BlockDevice>, ArrayError> {
        let state = self.core.lock();
        let (id, table) = state.volume(volume)?;
        let (size_bytes, block_bytes) = (table.size_bytes, table.block_bytes);
        Ok(Arc::new(Device::new(Arc::clone(&self.core), Of::Head(id), size_bytes, block_bytes)))
    }

    /// A snapshot as a read-only disk.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`], [`ArrayError::NoSuchSnapshot`].
    pub fn snapshot_device(
        &self,
        volume: &str,
        snapshot: &str,
    ) -> Result<Arc<dyn BlockDevice>, ArrayError> {
        let state = self.core.lock();
        let (id, table) = state.volume(volume)?;
        let block_bytes = table.block_bytes;
        let (version, size_bytes) = state.snapshot(id, volume, snapshot)?;
        let of = Of::Snapshot(id, version);
        Ok(Arc::new(Device::new(Arc::clone(&self.core), of, size_bytes, block_bytes)))
    }

    /// Waits until everything that was changed is in its place.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub async fn checkpoint(&self) -> Result<(), ArrayError> {
        self.core.checkpointed().await
    }

    /// Ends all work after a last checkpoint, which is waited for as long as it gets on. The array must not be used
    /// afterwards, whatever this says.
    ///
    /// # Errors
    /// When the checkpoint fails, or stands still ([`ArrayError::Unsettled`]); nothing that was acknowledged is lost
    /// then either.
    pub async fn close(&self) -> Result<(), ArrayError> {
        self.core.close().await
    }
}

impl State {
    /// A volume that is not in the recycle bin.
    pub(super) fn volume(&self, name: &str) -> Result<(VersionId, &Volume), ArrayError> {
        match self.tables.volume_named(name) {
            Some((id, volume)) if volume.deleted_unix_seconds.is_none() => Ok((id, volume)),
            _ => Err(ArrayError::NoSuchVolume(name.to_owned())),
        }
    }

    /// A snapshot of `volume` by name, with its size; one that waits for a checkpoint counts.
    pub(super) fn snapshot(
        &self,
        volume: VersionId,
        volume_name: &str,
        name: &str,
    ) -> Result<(VersionId, u64), ArrayError> {
        let durable = self.tables.snapshots_of(volume);
        let found = durable.filter(|(_, version, _)| version.deleting_from_leaf.is_none());
        let found = found.map(|(id, _, snapshot)| (id, &snapshot.name, snapshot.size_bytes));
        let waiting = self.live[&volume].overlay.waiting();
        let waiting = waiting.map(|taken| (taken.snapshot, &taken.name, taken.size_bytes));
        let mut all = found.chain(waiting);
        let found = all.find(|(_, other, _)| *other == name).map(|(id, _, size)| (id, size));
        found.ok_or_else(|| ArrayError::NoSuchSnapshot {
            volume: volume_name.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// Refuses what cannot be the name of a volume or of a snapshot.
///
/// # Errors
/// [`ArrayError::BadName`].
pub fn check_name(name: &str) -> Result<(), ArrayError> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    let fits = (1..=63).contains(&name.len());
    if fits && name.chars().all(is_good) { Ok(()) } else { Err(ArrayError::BadName(name.into())) }
}

/// The size that a volume gets: whole clusters.
fn whole_clusters(size_bytes: u64) -> Result<u64, ArrayError> {
    let refuse = |reason| Err(ArrayError::BadSize { size_bytes, reason });
    if size_bytes == 0 {
        return refuse("it has to hold something");
    }
    let max = u64::from(crate::tree::LEAVES_MAX)
        * crate::tree::leaf::ENTRIES as u64
        * CLUSTER_BYTES as u64;
    match size_bytes.checked_next_multiple_of(CLUSTER_BYTES as u64) {
        Some(size) if size <= max => Ok(size),
        _ => refuse("the largest volume has 51 TiB"),
    }
}
