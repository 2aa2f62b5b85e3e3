//! What a running member answers.

use array::api::{
    ArrayInfo, ChangedExtent, CheckReport, DiskInfo, JobInfo, SnapshotInfo, SpaceInfo, VolumeInfo,
};
use serde::{Deserialize, Serialize};

/// An answer to a request. Written out it is what it holds, and nothing for [`Done`](Self::Done).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// It was done.
    Done,
    /// A volume.
    Volume(Box<Volume>),
    /// Volumes.
    Volumes(Vec<Volume>),
    /// A snapshot.
    Snapshot(Box<Snapshot>),
    /// Snapshots.
    Snapshots(Vec<Snapshot>),
    /// What differs.
    Extents(Vec<ChangedExtent>),
    /// A disk.
    Disk(Box<DiskInfo>),
    /// Disks.
    Disks(Vec<DiskInfo>),
    /// The array.
    Array(Box<ArrayInfo>),
    /// What runs in the background.
    Jobs(Vec<JobInfo>),
    /// What a scrub or a check found.
    Report(CheckReport),
}

/// A volume as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// As the array has it.
    #[serde(flatten)]
    pub info: VolumeInfo,
    /// The name of its target.
    pub iqn: String,
    /// Hosts that are logged in.
    pub sessions: usize,
    /// Why no host gets in, although it is online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_served: Option<String>,
}

/// A snapshot as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// As the array has it.
    #[serde(flatten)]
    pub info: SnapshotInfo,
    /// The name of its target, while it is online.
    pub iqn: Option<String>,
    /// What it holds, if that was asked for.
    pub space: Option<SpaceInfo>,
}
