//! What can be asked of a running member about snapshot schedules, and what it answers.

use group::schedules::{Outcome, Timing};

/// About snapshot schedules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum ScheduleRequest {
    /// → [`ScheduleShown`]s.
    List,
    /// → [`ScheduleShown`].
    Show { name: String },
    /// → [`ScheduleShown`].
    Create(NewSchedule),
    /// → [`ScheduleShown`].
    Set { name: String, change: ScheduleChange },
    /// Its snapshots stay, and nobody deletes them by himself.
    Delete { name: String },
}

impl ScheduleRequest {
    /// The volumes that it names.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        let volumes = match self {
            Self::List | Self::Show { .. } | Self::Delete { .. } => None,
            Self::Create(new) => Some(&new.volumes),
            Self::Set { change, .. } => change.volumes.as_ref(),
        };
        volumes.into_iter().flatten().map(String::as_str).collect()
    }

    /// The name of the schedule that it changes, of one that is there already.
    pub(crate) fn changed(&self) -> Option<&str> {
        match self {
            Self::List | Self::Show { .. } | Self::Create(_) => None,
            Self::Set { name, .. } | Self::Delete { name } => Some(name),
        }
    }
}

/// A schedule to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSchedule {
    /// Its name, with which those of its snapshots begin.
    pub name: String,
    /// Of which volumes.
    pub volumes: Vec<String>,
    /// When.
    pub timing: Timing,
    /// Snapshots of each volume that are kept.
    pub keep: u32,
    /// Nothing is taken at first.
    pub paused: bool,
}

/// What is to be changed of a schedule; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in NewSchedule")]
pub struct ScheduleChange {
    pub volumes: Option<Vec<String>>,
    pub timing: Option<Timing>,
    pub keep: Option<u32>,
    pub paused: Option<bool>,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleShown {
    /// Its name.
    pub name: String,
    /// Of which volumes.
    pub volumes: Vec<VolumeShown>,
    /// When.
    pub timing: Timing,
    /// Snapshots of each volume that are kept.
    pub keep: u32,
    /// Nothing is taken for now.
    pub paused: bool,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// When it is due next; `None` while it is paused.
    pub next_unix_seconds: Option<u64>,
    /// That is later than it should be by the clock of the member, which was ahead when it last ran.
    pub waits: bool,
    /// The last moment that came.
    pub last: Option<LastRun>,
    /// Snapshots that it has taken and not deleted.
    pub snapshots: usize,
}

/// A volume of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeShown {
    /// Its name; of one that is gone, what it was when it was put here.
    pub name: String,
    /// It was purged.
    pub is_gone: bool,
}

/// The last moment that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRun {
    /// When it was planned.
    pub planned_unix_seconds: u64,
    /// What came of it.
    pub outcome: Outcome,
}
