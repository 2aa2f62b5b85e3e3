//! Snapshots that are taken by themselves: of which volumes, when ([`Timing`]), and how many are kept.
//!
//! ```text
//!                 due                    Begin                  End or Fail
//!   waits ───────────────▶ Due::Run ─────────────▶ begun ───────────────────▶ waits
//!     │                                              ╰── the process ends: Adopt or Abandon at the next start
//!     ├── the moment has passed: Due::Missed ──▶ waits
//!     ╰── the clock went far back: Due::SetBack ──▶ waits
//! ```
//!
//! Invariants, for whoever stores a [`Schedule`] after each [`Step`] before it does the next thing:
//! 1. A moment is begun once, however often the process ends: what is begun is stored before a snapshot is
//!    taken, and moments up to the last one that was begun or missed are over.
//! 2. Snapshots are a schedule's own by their numbers, which no other snapshot ever has. Nothing is known by
//!    its name, except for the instant between a snapshot and the record of it ([`Step::Adopt`]).
//!
//! This room takes no snapshots and reads no clock.

mod progress;
mod timing;

use serde::{Deserialize, Serialize};

use crate::calendar::Moment;
use crate::record::Setting;

pub use progress::{Begun, Due, Last, Outcome, Own, Run, Step};
pub use timing::{
    EVERY_SECONDS_MAX, EVERY_SECONDS_MIN, TimeOfDay, TimeOfDayError, Timing, Weekday, WeekdayError,
};

/// Schedules of a group, at most.
pub const SCHEDULES_MAX: usize = 256;

/// Volumes of one schedule, at most.
pub const VOLUMES_MAX: usize = 32;

/// Snapshots of a volume that one schedule may keep, at most.
pub const KEEP_MAX: u32 = 500;

/// The longest name of a schedule: with the time behind it, it is the name of a snapshot.
const NAME_BYTES_MAX: usize = 40;

/// Why a schedule is not made or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// A name that none can have.
    #[error(
        "'{0}' cannot be the name of a schedule: write 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.', and a letter or digit first"
    )]
    Name(String),
    /// No schedule has this name.
    #[error("there is no schedule '{0}'")]
    NoSuchSchedule(String),
    /// A schedule has this name.
    #[error("there is a schedule '{0}' already: choose another name, or change that one")]
    ScheduleExists(String),
    /// There are as many as there may be.
    #[error("there are {SCHEDULES_MAX} schedules already: delete one first")]
    TooManySchedules,
    /// A period that is too short or too long.
    #[error("a schedule is due every minute at most and once in 366 days at least")]
    Every,
    /// Too few or too many snapshots to keep.
    #[error("{0} snapshots cannot be kept: write a number from 1 to {KEEP_MAX}")]
    Keep(u32),
    /// Too few or too many volumes.
    #[error("a schedule cannot be of {0} volumes: name 1 to {VOLUMES_MAX}")]
    Volumes(usize),
}

/// A volume of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduledVolume {
    /// Its number, which stays when its name changes, and is never that of another one.
    pub id: u32,
    /// Its name when it was put here, for when it is gone.
    pub name: String,
}

/// What operators set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Of which volumes snapshots are taken, at one moment.
    pub volumes: Vec<ScheduledVolume>,
    /// When.
    pub timing: Timing,
    /// How many are kept of each volume.
    pub keep: u32,
    /// Nothing is taken for now.
    #[serde(default)]
    pub paused: bool,
}

impl Plan {
    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`ScheduleError`]
    pub fn check(&self) -> Result<(), ScheduleError> {
        self.timing.check()?;
        if !(1..=KEEP_MAX).contains(&self.keep) {
            return Err(ScheduleError::Keep(self.keep));
        }
        if !(1..=VOLUMES_MAX).contains(&self.volumes.len()) {
            return Err(ScheduleError::Volumes(self.volumes.len()));
        }
        Ok(())
    }
}

/// What is to be changed of a plan; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in Plan")]
pub struct PlanChange {
    pub volumes: Option<Vec<ScheduledVolume>>,
    pub timing: Option<Timing>,
    pub keep: Option<u32>,
    pub paused: Option<bool>,
}

/// A schedule, and what came of it so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// What operators set.
    pub plan: Plan,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// Moments up to this one are over: begun, missed, or not meant.
    over_unix_seconds: u64,
    /// A run whose end is not stored.
    #[serde(default)]
    begun: Option<Begun>,
    /// The runs of which snapshots are there, oldest first.
    #[serde(default)]
    runs: Vec<Run>,
    /// The last moment that came.
    #[serde(default)]
    last: Option<Last>,
}

impl Setting for Schedule {
    const WHAT: &'static str = "a snapshot schedule";
}

impl Schedule {
    /// One that is due after `now` for the first time.
    #[must_use]
    pub const fn new(plan: Plan, now_unix_seconds: u64) -> Self {
        Self {
            plan,
            created_unix_seconds: now_unix_seconds,
            over_unix_seconds: now_unix_seconds,
            begun: None,
            runs: Vec::new(),
            last: None,
        }
    }

    /// Changes what operators set. What would have been due while it was paused, or by another rule, is not
    /// missed.
    ///
    /// # Errors
    /// [`ScheduleError`]; then nothing is changed.
    pub fn change(&mut self, change: PlanChange, now: u64) -> Result<(), ScheduleError> {
        let PlanChange { volumes, timing, keep, paused } = change;
        let before = &self.plan;
        let plan = Plan {
            volumes: volumes.unwrap_or_else(|| before.volumes.clone()),
            timing: timing.unwrap_or(before.timing),
            keep: keep.unwrap_or(before.keep),
            paused: paused.unwrap_or(before.paused),
        };
        plan.check()?;
        let begins_anew = plan.timing != before.timing || (before.paused && !plan.paused);
        if begins_anew {
            self.over_unix_seconds = self.over_unix_seconds.max(now);
        }
        self.plan = plan;
        Ok(())
    }
}

/// Refuses a name that no schedule can have.
///
/// # Errors
/// [`ScheduleError::Name`]
pub fn check_name(name: &str) -> Result<(), ScheduleError> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let begins_well = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    if begins_well && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_known) {
        Ok(())
    } else {
        Err(ScheduleError::Name(name.to_owned()))
    }
}

/// The name of the snapshots of one run: that of the schedule and the planned moment (UTC), and a number if
/// that is taken.
#[must_use]
pub fn snapshot_name(schedule: &str, planned: u64, is_taken: impl Fn(&str) -> bool) -> String {
    let Moment { year, month, day, hour, minute, second } = Moment::of(planned);
    let base = format!("{schedule}-{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}");
    let numbered = (2..).map(|number: u32| format!("{base}-{number}"));
    let mut all = std::iter::once(base.clone()).chain(numbered);
    all.find(|name| !is_taken(name)).expect("there is always a further number")
}

/// Whether [`snapshot_name`] makes such names.
#[must_use]
pub fn is_name_of_run(name: &str) -> bool {
    let is_number = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts: Vec<&str> = name.split('-').collect();
    parts.windows(2).skip(1).any(|pair| is_number(pair[0], 8) && is_number(pair[1], 6))
}

#[cfg(test)]
mod tests;
