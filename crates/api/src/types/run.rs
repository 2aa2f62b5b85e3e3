//! Long work that was asked for, and what came of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Job, Report};
use crate::problem::Problem;

/// Long work of a whole array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayWork {
    /// Reads and compares everything, in the background.
    Scrub,
    /// Verifies everything.
    Check,
    /// Spreads data over all disks.
    Rebalance,
}

impl ArrayWork {
    /// The word for it, as in paths.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Scrub => "scrub",
            Self::Check => "check",
            Self::Rebalance => "rebalance",
        }
    }
}

impl From<ArrayWork> for RunKind {
    fn from(work: ArrayWork) -> Self {
        match work {
            ArrayWork::Scrub => Self::Scrub,
            ArrayWork::Check => Self::Check,
            ArrayWork::Rebalance => Self::Rebalance,
        }
    }
}

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// Reads and compares everything, in the background.
    Scrub,
    /// Verifies everything.
    Check,
    /// Spreads data over all disks.
    Rebalance,
    /// Brings a volume to another member of the group.
    Move,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It goes on, whoever listens.
    Running,
    /// It came to its end.
    Done,
    /// It did not, and `problem` says why.
    Failed,
    /// It was cancelled, and `jobs` says how far it had come.
    Cancelled,
}

/// A run: kept in memory for as long as the member runs and it is among the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// What it goes by.
    pub id: String,
    /// What it does.
    pub kind: RunKind,
    /// The volume that a move brings to another member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub volume: Option<String>,
    /// The member that it is brought to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<String>,
    /// How far it has come.
    pub state: RunState,
    /// When it was asked for.
    pub begun_unix_seconds: u64,
    /// When it ended; null while it goes on.
    pub ended_unix_seconds: Option<u64>,
    /// How its work does, while it goes on; of one that was cancelled, how far it had come.
    pub jobs: Vec<Job>,
    /// What a scrub or a check found, when it is done.
    pub report: Option<Report>,
    /// Why it failed.
    pub problem: Option<Problem>,
}
