//! Disks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::same_words;

/// How a disk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// In use.
    Online,
    /// In use, with errors above the limit: its data is being copied to others.
    Suspect,
    /// Its data is moving to other disks because an operator asked.
    Retiring,
    /// Came back, and gets what changed in the meantime.
    Resyncing,
    /// Not there.
    Missing,
    /// Failed, or was declared failed.
    Failed,
}

same_words!(
    DiskState, array::api::DiskState: Online, Suspect, Retiring, Resyncing, Missing, Failed
);

/// What a disk is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskRole {
    /// Data, and the journal as long as no disk is for that alone.
    Data,
    /// The journal alone.
    Journal,
}

same_words!(DiskRole, array::api::DiskRole: Data, Journal);

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// Its number in the array.
    pub id: u16,
    /// Where it was found: a path, or what it was called.
    pub name: String,
    /// What it is for.
    pub role: DiskRole,
    /// How it does.
    pub state: DiskState,
    /// Why, in words; empty when it is online.
    pub reason: String,
    /// All of it.
    pub size_bytes: u64,
    /// In chunks of RAID sets.
    pub used_bytes: u64,
    /// Reads that failed or whose data did not match its checksum.
    pub errors_read: u64,
    /// Writes that failed.
    pub errors_write: u64,
    /// Blocks rewritten from redundancy.
    pub healed_blocks: u64,
}

impl From<array::api::DiskInfo> for Disk {
    fn from(info: array::api::DiskInfo) -> Self {
        Self {
            id: info.id.0,
            name: info.name,
            role: info.role.into(),
            state: info.state.into(),
            reason: info.reason,
            size_bytes: info.size_bytes,
            used_bytes: info.used_bytes,
            errors_read: info.errors_read,
            errors_write: info.errors_write,
            healed_blocks: info.healed_blocks,
        }
    }
}

/// A disk to be taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDisk {
    /// As it is written behind `--disk`: a path, with `:SIZE` behind it if a file is to be made.
    pub disk: String,
    /// For the journal alone.
    #[serde(default)]
    pub journal: bool,
}

/// What is to come in the place of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskReplacement {
    /// The new disk, as it is written behind `--disk`.
    pub by: String,
}

/// How a disk is declared failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskFailure {
    /// Also give up what no other disk has.
    #[serde(default)]
    pub accept_loss: bool,
}
