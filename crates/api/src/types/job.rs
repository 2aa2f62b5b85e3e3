//! What runs in the background.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What work does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// Restores redundancy; also empties disks that are to leave.
    Rebuild,
    /// Reads and compares everything.
    Scrub,
    /// Gives back the space of a deleted snapshot or volume.
    Delete,
    /// Moves data to disks that are emptier than others.
    Rebalance,
    /// Brings a volume to another member of the group: it is a job of its run alone.
    Move,
}

impl From<array::api::JobKind> for JobKind {
    fn from(theirs: array::api::JobKind) -> Self {
        match theirs {
            array::api::JobKind::Rebuild => Self::Rebuild,
            array::api::JobKind::Scrub => Self::Scrub,
            array::api::JobKind::Delete => Self::Delete,
            array::api::JobKind::Rebalance => Self::Rebalance,
        }
    }
}

impl JobKind {
    /// All kinds of what an array does in the background.
    pub const OF_ARRAY: [Self; 4] = [Self::Rebuild, Self::Scrub, Self::Delete, Self::Rebalance];

    /// The word for it, as in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Rebuild => "rebuild",
            Self::Scrub => "scrub",
            Self::Delete => "delete",
            Self::Rebalance => "rebalance",
            Self::Move => "move",
        }
    }

    /// The same as an array calls it; `None` of what no array does.
    pub(crate) fn of_array(self) -> Option<array::api::JobKind> {
        match self {
            Self::Rebuild => Some(array::api::JobKind::Rebuild),
            Self::Scrub => Some(array::api::JobKind::Scrub),
            Self::Delete => Some(array::api::JobKind::Delete),
            Self::Rebalance => Some(array::api::JobKind::Rebalance),
            Self::Move => None,
        }
    }
}

/// Long work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// What it does.
    pub kind: JobKind,
    /// To what: a disk or volume by name.
    pub subject: String,
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes per second of late; 0 when not known.
    pub rate_bytes: u64,
    /// The member of the group that does it; not there where that is in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member: Option<String>,
}

impl From<array::api::JobInfo> for Job {
    fn from(info: array::api::JobInfo) -> Self {
        let array::api::JobInfo { kind, subject, done_bytes, total_bytes, rate_bytes } = info;
        Self { kind: kind.into(), subject, done_bytes, total_bytes, rate_bytes, member: None }
    }
}
