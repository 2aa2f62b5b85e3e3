//! What is simulated, behind a joint: the array itself, or a plain device that shows whether the
//! checks see anything.

use std::fmt;
use std::sync::Arc;

use array::Level;
use array::api::{
    ArrayInfo, ChangedExtent, CheckReport, DiskInfo, JobInfo, SnapshotInfo, VolumeInfo, VolumeSpec,
};
use block::BlockDevice;

use crate::disk::Drive;
use crate::env::SimEnv;

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// For lack of space, which a test may have brought about.
    NoSpace(String),
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NoSpace(text) | Self::Other(text)) = self;
        f.write_str(text)
    }
}

pub(crate) type Answer<T> = Result<T, Refusal>;

/// How an array is to be made.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) level: Level,
    pub(crate) chunk_bytes: u64,
    pub(crate) journal_disks: usize,
}

/// Makes and opens subjects; what it holds outlives the machine.
pub(crate) trait Maker {
    type Subject: Subject;

    /// The last `shape.journal_disks` of the drives are for the journal alone.
    async fn create(&self, env: &SimEnv, drives: &[Drive], shape: &Shape) -> Answer<Self::Subject>;

    /// Whether copies of the drives are an array of their own.
    fn keeps_all_on_drives(&self) -> bool {
        true
    }

    /// `accepts` that some RAID sets lack more drives than they bear.
    async fn open(&self, env: &SimEnv, drives: &[Drive], accepts: bool) -> Answer<Self::Subject>;
}

/// An open array. Clones are the same one.
pub(crate) trait Subject: Clone + 'static {
    fn info(&self) -> ArrayInfo;
    fn volumes(&self) -> Vec<VolumeInfo>;
    fn snapshots(&self, volume: &str) -> Answer<Vec<SnapshotInfo>>;
    fn disks(&self) -> Vec<DiskInfo>;
    fn jobs(&self) -> Vec<JobInfo>;
    /// What happened since it was opened.
    fn events(&self) -> Vec<String>;
    /// What hosts see of a snapshot that was served read-write.
    fn view(&self, volume: &str, snapshot: &str) -> Answer<VolumeInfo>;
    /// A volume, or a snapshot that hosts may write to, by the name that `view_name` gives it.
    fn device(&self, volume: &str) -> Answer<Arc<dyn BlockDevice>>;
    fn snapshot_device(&self, volume: &str, snapshot: &str) -> Answer<Arc<dyn BlockDevice>>;

    /// Its size is whole clusters.
    async fn create_volume(&self, spec: VolumeSpec) -> Answer<()>;
    async fn resize_volume(&self, volume: &str, size_bytes: u64) -> Answer<()>;
    async fn serve_volume(&self, volume: &str, online: bool) -> Answer<()>;
    /// It is offline.
    async fn delete_volume(&self, volume: &str) -> Answer<()>;
    /// It is offline then.
    async fn undelete_volume(&self, volume: &str) -> Answer<()>;
    async fn purge_volume(&self, volume: &str) -> Answer<()>;

    /// Snapshots of several volumes at one moment; each a volume and a name.
    async fn snapshot(&self, set: &[(String, String)]) -> Answer<()>;
    /// The volume is offline.
    async fn rollback(&self, volume: &str, snapshot: &str) -> Answer<()>;
    async fn clone_snapshot(&self, volume: &str, snapshot: &str, name: &str) -> Answer<()>;
    async fn delete_snapshot(&self, volume: &str, snapshot: &str) -> Answer<()>;
    async fn serve_snapshot(&self, volume: &str, snapshot: &str, online: bool) -> Answer<()>;
    /// It is offline.
    async fn write_snapshot(&self, volume: &str, snapshot: &str, fresh: bool) -> Answer<()>;
    async fn diff(
        &self,
        volume: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Answer<Vec<ChangedExtent>>;
    /// What a volume, or a snapshot of it, holds alone: bytes.
    async fn space(&self, volume: &str, snapshot: Option<&str>) -> Answer<u64>;

    /// A blank drive, or one that was away.
    async fn add_disk(&self, drive: &Drive) -> Answer<()>;
    /// A disk that was to leave stays.
    async fn keep_disk(&self, name: &str) -> Answer<()>;
    /// A blank drive in the place of a disk, which leaves.
    async fn replace_disk(&self, name: &str, drive: &Drive) -> Answer<()>;
    async fn fail_disk(&self, name: &str) -> Answer<()>;
    async fn retire_disk(&self, name: &str) -> Answer<()>;
    /// What a disk did wrong is forgotten.
    async fn clear_disk(&self, name: &str) -> Answer<()>;
    async fn scrub(&self) -> Answer<CheckReport>;
    /// Ends when all disks are equally full, or when it is cancelled.
    async fn rebalance(&self) -> Answer<()>;
    async fn cancel_rebalance(&self) -> Answer<()>;

    async fn check(&self) -> Answer<CheckReport>;
    async fn close(&self) -> Answer<()>;
}
