//! What a running member answers.

use array::api::{JobInfo, SnapshotInfo, SpaceInfo, VolumeInfo};
use serde::{Deserialize, Serialize};

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Frame<T> {
    /// It goes on.
    Progress(Vec<JobInfo>),
    /// It is done; nothing follows.
    Done(T),
    /// It was refused or failed, and why, in one sentence; nothing follows.
    Failed(String),
}

/// A volume as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volume {
    /// As the array has it.
    #[serde(flatten)]
    pub(crate) info: VolumeInfo,
    /// The name of its target.
    pub(crate) iqn: String,
    /// Hosts that are logged in.
    pub(crate) sessions: usize,
    /// Why no host gets in, although it is online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_served: Option<String>,
}

/// A snapshot as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// As the array has it.
    #[serde(flatten)]
    pub(crate) info: SnapshotInfo,
    /// The name of its target, while it is online.
    pub(crate) iqn: Option<String>,
    /// What it holds, if that was asked for.
    pub(crate) space: Option<SpaceInfo>,
}
