//! Snapshots, and what differs between them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::same_words;

/// What hosts may do with a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotAccess {
    /// Read what was there when it was taken.
    #[default]
    ReadOnly,
    /// Read that and write over it; the snapshot itself does not change.
    ReadWrite,
}

same_words!(SnapshotAccess, array::api::SnapshotAccess: ReadOnly, ReadWrite);

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Its number, never used again.
    pub id: u32,
    /// Its volume.
    pub volume: String,
    /// Its name, unique in its volume.
    pub name: String,
    /// Size of the volume at that time.
    pub size_bytes: u64,
    /// When it was taken.
    pub created_unix_seconds: u64,
    /// Served to hosts.
    pub online: bool,
    /// How it is served, or was last.
    pub access: SnapshotAccess,
    /// The number of the disk that hosts see while it is served read-write; what they wrote is kept
    /// while there is one.
    pub view_id: Option<u32>,
    /// Being deleted in the background.
    pub deleting: bool,
    /// The name of its iSCSI target, while it is online.
    pub iqn: Option<String>,
    /// What it holds, if that was asked for.
    pub space: Option<Space>,
    /// The member of the group that it is on; not there where that is in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member: Option<String>,
}

impl From<member::Snapshot> for Snapshot {
    fn from(snapshot: member::Snapshot) -> Self {
        let member::Snapshot { info, iqn, space } = snapshot;
        Self {
            id: info.id,
            volume: info.volume,
            name: info.name,
            size_bytes: info.size_bytes,
            created_unix_seconds: info.created_unix_seconds,
            online: info.online,
            access: info.access.into(),
            view_id: info.view_id,
            deleting: info.deleting,
            iqn,
            space: space.map(Into::into),
            member: None,
        }
    }
}

/// What a snapshot holds, counted exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Space {
    /// Held by it alone: what its deletion gives back.
    pub unique_bytes: u64,
    /// Held together with others.
    pub shared_bytes: u64,
    /// What hosts wrote to it, which its deletion gives back too.
    pub written_bytes: u64,
}

impl From<array::api::SpaceInfo> for Space {
    fn from(info: array::api::SpaceInfo) -> Self {
        let array::api::SpaceInfo { unique_bytes, shared_bytes, written_bytes } = info;
        Self { unique_bytes, shared_bytes, written_bytes }
    }
}

/// Snapshots of one moment to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshots {
    /// Of which volumes.
    pub volumes: Vec<String>,
    /// Their name; made from the time if it is left out.
    #[serde(default)]
    pub name: Option<String>,
}

/// Whether and how a snapshot is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotChange {
    /// Serve it, or stop to.
    pub online: bool,
    /// With `online`: what hosts may do with it.
    #[serde(default)]
    pub access: SnapshotAccess,
    /// With read-write access: throw away what hosts wrote to it before.
    #[serde(default)]
    pub fresh: bool,
}

/// A volume to be made of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Clone {
    /// Its name.
    pub to: String,
}

/// A range of a volume that differs between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Extent {
    /// First byte, a multiple of 64 KiB.
    pub at: u64,
    /// Length.
    pub len_bytes: u64,
}

impl From<array::api::ChangedExtent> for Extent {
    fn from(extent: array::api::ChangedExtent) -> Self {
        let array::api::ChangedExtent { at, len_bytes } = extent;
        Self { at, len_bytes }
    }
}
