//! Volumes that lie on several members of the group.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a volume lies that is spread over several members. Hosts reach all of it at its home, the member that it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeSpread {
    /// What tells it from all others, also from later ones of its name.
    pub id: String,
    /// The unit that is dealt to members.
    pub page_bytes: u64,
    /// The size that it is being given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub growing_to_bytes: Option<u64>,
    /// Its slices: the first is the home's own.
    pub slices: Vec<VolumeSlice>,
    /// In the answer to its creation: which member is full before all of it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub shortage: Option<String>,
}

/// A slice of a volume, as its home knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeSlice {
    /// What tells it from all others.
    pub id: String,
    /// The member that has it.
    pub member: String,
    /// How many pages of the volume lie there.
    pub pages: u64,
    /// For how long it cannot be reached: hosts have an error for what lies there. Not there where it can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unreachable_seconds: Option<u64>,
    /// Why it cannot be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub why: Option<String>,
}

/// How a slice stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SliceState {
    /// Its home can use it.
    Served,
    /// It is there, and its home cannot use it.
    NotServed,
    /// Its home does not say that it has the volume: it stays until an operator discards it.
    LeftOver,
    /// It is being deleted.
    Going,
    /// Its volume is deleted, and the member that has it has not said that it is gone.
    Awaited,
    /// What is stored of it is damaged, and will never be read: it stays until an operator discards that record.
    Damaged,
}

/// A slice of a volume that lies on several members: as the member knows it that has it, or, of a volume that is being
/// deleted, as its home waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Slice {
    /// What tells it from all others. Of one that is damaged, and is of a volume whose home says so, the number of the volume.
    pub id: String,
    /// The name of the volume; where that is deleted, the one that it had. Of one that is damaged it is not known: empty.
    pub volume: String,
    /// The member that is the home of the volume; empty where that is not known.
    pub home: String,
    /// The member that has the slice.
    pub on: String,
    /// How it stands.
    pub state: SliceState,
    /// Of one that is awaited: its member was removed from the group, so that it is awaited in vain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub is_in_vain: bool,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub why: Option<String>,
    /// What it takes on the disks of its member; not known to its home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub used_bytes: Option<u64>,
    /// The member that says so: it is to be named where the slice is to be discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member: Option<String>,
}
