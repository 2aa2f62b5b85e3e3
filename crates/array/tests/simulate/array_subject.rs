//! The array itself as the subject.

use std::sync::Arc;

use array::api::{
    ArrayInfo, ChangedExtent, CheckReport, DiskInfo, JobInfo, SnapshotInfo, VolumeInfo, VolumeSpec,
};
use array::{Array, ArrayError, CreateOptions, Env, Member, OpenOptions};
use block::{BlockDevice, BlockError};

use crate::disk::Drive;
use crate::env::SimEnv;
use crate::random::Random;
use crate::subject::{Answer, Maker, Refusal, Shape, Subject};

/// Makes and opens arrays.
pub(crate) struct ArrayMaker {
    random: Random,
}

impl ArrayMaker {
    pub(crate) fn new(env: &SimEnv) -> Self {
        Self { random: env.fork_random() }
    }

    /// Little memory for metadata pages now and then, so that they have to be read again, and for blocks, so that
    /// some are always about to go; with none what disks have is read each time.
    fn options(&self) -> OpenOptions {
        let cache_bytes = *self.random.pick(&[16 << 10, 256 << 10, 16 << 20]);
        let block_cache_bytes = *self.random.pick(&[0, 300 << 10, 4 << 20]);
        OpenOptions { cache_bytes, block_cache_bytes, ..OpenOptions::default() }
    }
}

fn member(drive: &Drive) -> Member {
    Member { name: drive.name(), device: drive.plug() }
}

#[allow(clippy::needless_pass_by_value)]
fn refusal(error: ArrayError) -> Refusal {
    let text = error.to_string();
    match error {
        ArrayError::NoSpace { .. }
        | ArrayError::TooFewDisks { .. }
        | ArrayError::Io(BlockError::NoSpace) => Refusal::NoSpace(text),
        _ => Refusal::Other(text),
    }
}

impl Maker for ArrayMaker {
    type Subject = ArraySubject;

    async fn create(&self, env: &SimEnv, drives: &[Drive], shape: &Shape) -> Answer<ArraySubject> {
        let (data, journal) = drives.split_at(drives.len() - shape.journal_disks);
        let journal = journal.iter().map(member).collect();
        let options = CreateOptions {
            level: shape.level,
            journal,
            chunk_bytes: Some(shape.chunk_bytes),
            open: self.options(),
        };
        let disks = data.iter().map(member).collect();
        let env: Arc<dyn Env> = Arc::new(env.clone());
        Array::create(env, disks, options).await.map(ArraySubject).map_err(refusal)
    }

    async fn open(&self, env: &SimEnv, drives: &[Drive], accepts: bool) -> Answer<ArraySubject> {
        let mut disks: Vec<_> = drives.iter().map(member).collect();
        // They are found in any order.
        self.random.shuffle(&mut disks);
        let env: Arc<dyn Env> = Arc::new(env.clone());
        let options = OpenOptions { accept_missing: accepts, ..self.options() };
        Array::open(env, disks, options).await.map(ArraySubject).map_err(refusal)
    }
}

/// An open array.
#[derive(Debug, Clone)]
pub(crate) struct ArraySubject(Array);

impl Subject for ArraySubject {
    fn info(&self) -> ArrayInfo {
        self.0.info()
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        self.0.volumes()
    }

    fn snapshots(&self, volume: &str) -> Answer<Vec<SnapshotInfo>> {
        self.0.snapshots(volume).map_err(refusal)
    }

    fn disks(&self) -> Vec<DiskInfo> {
        self.0.disks()
    }

    fn jobs(&self) -> Vec<JobInfo> {
        self.0.jobs()
    }

    fn events(&self) -> Vec<String> {
        self.0.events(0).0.into_iter().map(|event| event.text).collect()
    }

    fn view(&self, volume: &str, snapshot: &str) -> Answer<VolumeInfo> {
        self.0.snapshot_view(volume, snapshot).map_err(refusal)
    }

    fn device(&self, volume: &str) -> Answer<Arc<dyn BlockDevice>> {
        let device = match volume.split_once('@') {
            Some((volume, snapshot)) => self.0.snapshot_view_device(volume, snapshot),
            None => self.0.device(volume),
        };
        device.map_err(refusal)
    }

    fn snapshot_device(&self, volume: &str, snapshot: &str) -> Answer<Arc<dyn BlockDevice>> {
        self.0.snapshot_device(volume, snapshot).map_err(refusal)
    }

    async fn create_volume(&self, spec: VolumeSpec) -> Answer<()> {
        self.0.create_volume(spec).await.map(drop).map_err(refusal)
    }

    async fn resize_volume(&self, volume: &str, size_bytes: u64) -> Answer<()> {
        self.0.resize_volume(volume, size_bytes).await.map(drop).map_err(refusal)
    }

    async fn serve_volume(&self, volume: &str, online: bool) -> Answer<()> {
        self.0.set_volume_online(volume, online).await.map(drop).map_err(refusal)
    }

    async fn delete_volume(&self, volume: &str) -> Answer<()> {
        self.0.delete_volume(volume).await.map_err(refusal)
    }

    async fn undelete_volume(&self, volume: &str) -> Answer<()> {
        self.0.undelete_volume(volume).await.map(drop).map_err(refusal)
    }

    async fn purge_volume(&self, volume: &str) -> Answer<()> {
        self.0.purge_volume(volume).await.map_err(refusal)
    }

    async fn snapshot(&self, set: &[(String, String)]) -> Answer<()> {
        let set: Vec<_> =
            set.iter().map(|(volume, name)| (volume.as_str(), Some(name.as_str()))).collect();
        self.0.snapshot(&set).await.map(drop).map_err(refusal)
    }

    async fn rollback(&self, volume: &str, snapshot: &str) -> Answer<()> {
        self.0.rollback(volume, snapshot).await.map_err(refusal)
    }

    async fn clone_snapshot(&self, volume: &str, snapshot: &str, name: &str) -> Answer<()> {
        self.0.clone_snapshot(volume, snapshot, name, true).await.map(drop).map_err(refusal)
    }

    async fn delete_snapshot(&self, volume: &str, snapshot: &str) -> Answer<()> {
        self.0.delete_snapshot(volume, snapshot).await.map_err(refusal)
    }

    async fn serve_snapshot(&self, volume: &str, snapshot: &str, online: bool) -> Answer<()> {
        self.0.set_snapshot_online(volume, snapshot, online).await.map_err(refusal)
    }

    async fn write_snapshot(&self, volume: &str, snapshot: &str, fresh: bool) -> Answer<()> {
        self.0.set_snapshot_writable(volume, snapshot, fresh).await.map_err(refusal)
    }

    async fn diff(
        &self,
        volume: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Answer<Vec<ChangedExtent>> {
        self.0.diff(volume, from, to).await.map_err(refusal)
    }

    async fn space(&self, volume: &str, snapshot: Option<&str>) -> Answer<u64> {
        let space = self.0.space(volume, snapshot).await.map_err(refusal)?;
        Ok(space.unique_bytes)
    }

    async fn add_disk(&self, drive: &Drive) -> Answer<()> {
        self.0.add_disk(member(drive)).await.map(drop).map_err(refusal)
    }

    async fn keep_disk(&self, name: &str) -> Answer<()> {
        self.0.cancel_retire(name).await.map_err(refusal)
    }

    async fn replace_disk(&self, name: &str, drive: &Drive) -> Answer<()> {
        self.0.replace_disk(name, member(drive)).await.map(drop).map_err(refusal)
    }

    async fn fail_disk(&self, name: &str) -> Answer<()> {
        self.0.fail_disk(name, false).await.map_err(refusal)
    }

    async fn retire_disk(&self, name: &str) -> Answer<()> {
        self.0.retire_disk(name).await.map_err(refusal)
    }

    async fn clear_disk(&self, name: &str) -> Answer<()> {
        self.0.clear_disk(name).await.map_err(refusal)
    }

    async fn rebalance(&self) -> Answer<()> {
        self.0.rebalance().await.map(drop).map_err(refusal)
    }

    async fn cancel_rebalance(&self) -> Answer<()> {
        let order = self.0.begin_rebalance().await.map_err(refusal)?;
        self.0.cancel_rebalance(order).await.map_err(refusal)
    }

    async fn scrub(&self) -> Answer<CheckReport> {
        self.0.scrub().await.map_err(refusal)
    }

    async fn check(&self) -> Answer<CheckReport> {
        self.0.check().await.map_err(refusal)
    }

    async fn close(&self) -> Answer<()> {
        self.0.close().await.map_err(refusal)
    }
}
