//! Snapshot schedules.

use group::schedules::{self, TimeOfDayError, Timing};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::same_words;

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say what they are")]
pub enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

same_words!(Weekday, schedules::Weekday: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday);

/// When a schedule is due. All of it is UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// Again and again, counted from the beginning of 1970: what a day is a multiple of begins at midnight.
    Every {
        /// From one moment to the next: 60 (a minute) to 31622400 (366 days).
        #[schema(minimum = 60, maximum = 31_622_400)]
        seconds: u64,
    },
    /// Each day.
    Daily {
        /// Hours and minutes.
        #[schema(example = "03:00")]
        at: String,
    },
    /// Once in a week.
    Weekly {
        /// Which day.
        day: Weekday,
        /// Hours and minutes.
        #[schema(example = "03:00")]
        at: String,
    },
}

impl From<Timing> for When {
    fn from(timing: Timing) -> Self {
        match timing {
            Timing::Every { seconds } => Self::Every { seconds },
            Timing::Daily { at } => Self::Daily { at: at.to_string() },
            Timing::Weekly { day, at } => Self::Weekly { day: day.into(), at: at.to_string() },
        }
    }
}

impl TryFrom<When> for Timing {
    type Error = TimeOfDayError;

    fn try_from(when: When) -> Result<Self, TimeOfDayError> {
        Ok(match when {
            When::Every { seconds } => Self::Every { seconds },
            When::Daily { at } => Self::Daily { at: at.parse()? },
            When::Weekly { day, at } => Self::Weekly { day: day.into(), at: at.parse()? },
        })
    }
}

/// A schedule to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    /// Unique: 1 to 40 letters, digits, `-`, `_` or `.`, a letter or digit first. The names of its snapshots
    /// are this and the planned moment: `nightly-20261127-030000`.
    pub name: String,
    /// Of which volumes snapshots are taken, all at one moment: 1 to 32.
    #[schema(min_items = 1, max_items = 32)]
    pub volumes: Vec<String>,
    /// When.
    pub when: When,
    /// How many are kept of each volume: 1 to 500. The oldest beyond that are deleted, of those that the schedule
    /// took itself; what is in use stays.
    #[schema(minimum = 1, maximum = 500)]
    pub keep: u32,
    /// Nothing is taken at first.
    #[serde(default)]
    pub paused: bool,
}

impl TryFrom<NewSchedule> for member::NewSchedule {
    type Error = TimeOfDayError;

    fn try_from(new: NewSchedule) -> Result<Self, TimeOfDayError> {
        let NewSchedule { name, volumes, when, keep, paused } = new;
        Ok(Self { name, volumes, timing: when.try_into()?, keep, paused })
    }
}

/// What is to be changed of a schedule; what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleChange {
    /// Other volumes. Snapshots of those that are left out stay, and are not deleted by the schedule any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, min_items = 1, max_items = 32)]
    pub volumes: Option<Vec<String>>,
    /// Other moments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub when: Option<When>,
    /// How many are kept of each volume, from its next run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, maximum = 500)]
    pub keep: Option<u32>,
    /// Nothing is taken, or it goes on. What would have been due meanwhile is not made up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub paused: Option<bool>,
}

impl TryFrom<ScheduleChange> for member::ScheduleChange {
    type Error = TimeOfDayError;

    fn try_from(change: ScheduleChange) -> Result<Self, TimeOfDayError> {
        let ScheduleChange { volumes, when, keep, paused } = change;
        let timing = when.map(TryInto::try_into).transpose()?;
        Ok(Self { volumes, timing, keep, paused })
    }
}

/// A volume of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduledVolume {
    /// Its name; of one that is gone, what it was when it was put here.
    pub name: String,
    /// It was purged. The schedule goes on with the others.
    pub gone: bool,
}

/// What came of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunOutcome {
    /// Snapshots of all volumes were taken.
    Taken,
    /// Snapshots were taken of some; the others were not there.
    InPart,
    /// None was taken, and an event says why.
    Failed,
    /// The member did not run then, or its clock passed the moment over.
    Missed,
}

same_words!(RunOutcome, schedules::Outcome: Taken, InPart, Failed, Missed);

impl RunOutcome {
    /// How it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::InPart => "in part",
            Self::Failed => "failed",
            Self::Missed => "missed",
        }
    }
}

/// The last moment that came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastRun {
    /// When it was planned.
    pub planned_unix_seconds: u64,
    /// What came of it.
    pub outcome: RunOutcome,
}

/// Snapshots that are taken by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// Of which volumes.
    pub volumes: Vec<ScheduledVolume>,
    /// When.
    pub when: When,
    /// How many are kept of each volume.
    pub keep: u32,
    /// Nothing is taken for now.
    pub paused: bool,
    /// When it was made.
    pub created_unix_seconds: u64,
    /// When it is due next; null while it is paused.
    pub next_unix_seconds: Option<u64>,
    /// It is due later than one period from now, by the clock of the member: that was ahead when it last ran.
    #[serde(default)]
    pub waits: bool,
    /// The last moment that came; null if none has.
    pub last: Option<LastRun>,
    /// Snapshots that it has taken and not deleted.
    pub snapshots: u64,
    /// The member of the group that it is on; not there where that is in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member: Option<String>,
}

impl From<member::ScheduleShown> for Schedule {
    fn from(shown: member::ScheduleShown) -> Self {
        let member::ScheduleShown { name, volumes, timing, keep, paused, .. } = shown;
        let volume =
            |member::VolumeShown { name, is_gone }| ScheduledVolume { name, gone: is_gone };
        let last = shown.last.map(|last| LastRun {
            planned_unix_seconds: last.planned_unix_seconds,
            outcome: last.outcome.into(),
        });
        Self {
            name,
            volumes: volumes.into_iter().map(volume).collect(),
            when: timing.into(),
            keep,
            paused,
            created_unix_seconds: shown.created_unix_seconds,
            next_unix_seconds: shown.next_unix_seconds,
            waits: shown.waits,
            last,
            snapshots: shown.snapshots as u64,
            member: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_keeps_its_form_and_says_no_more_than_it_means() {
        let read = |text: &str| serde_json::from_str::<When>(text);
        for text in [
            r#"{"every":{"seconds":900}}"#,
            r#"{"daily":{"at":"03:00"}}"#,
            r#"{"weekly":{"day":"sunday","at":"23:59"}}"#,
        ] {
            let timing = Timing::try_from(read(text).unwrap()).unwrap();
            assert_eq!(serde_json::to_string(&When::from(timing)).unwrap(), text);
        }
        let wrong = Timing::try_from(read(r#"{"daily":{"at":"24:00"}}"#).unwrap());
        assert!(wrong.unwrap_err().to_string().contains("'24:00' is no time of the day"));
        for unread in [
            r#"{"every":{"seconds":900,"colour":"red"}}"#,
            r#"{"every":{"seconds":900},"daily":{"at":"03:00"}}"#,
            r#"{"weekly":{"day":"sun","at":"03:00"}}"#,
            "{}",
        ] {
            assert!(read(unread).is_err(), "{unread}");
        }
    }
}
