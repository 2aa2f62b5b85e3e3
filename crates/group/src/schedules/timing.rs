//! When a schedule is due: moments that follow from the rule alone, whatever has happened before.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ScheduleError;
use crate::calendar::DAY_SECONDS;

/// The shortest period, also how late a run may begin and still be the one that was planned.
pub const EVERY_SECONDS_MIN: u64 = 60;

/// The longest period.
pub const EVERY_SECONDS_MAX: u64 = 366 * DAY_SECONDS;

const WEEK_SECONDS: u64 = 7 * DAY_SECONDS;

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

impl Weekday {
    /// All, in the order of the week.
    pub const ALL: [Self; 7] = [
        Self::Monday,
        Self::Tuesday,
        Self::Wednesday,
        Self::Thursday,
        Self::Friday,
        Self::Saturday,
        Self::Sunday,
    ];

    /// How it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Monday => "monday",
            Self::Tuesday => "tuesday",
            Self::Wednesday => "wednesday",
            Self::Thursday => "thursday",
            Self::Friday => "friday",
            Self::Saturday => "saturday",
            Self::Sunday => "sunday",
        }
    }

    /// In three letters.
    #[must_use]
    pub fn short(self) -> &'static str {
        &self.word()[..3]
    }
}

/// Why a word is no day of the week.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no day of the week: write mon, tue, wed, thu, fri, sat or sun")]
pub struct WeekdayError(String);

impl FromStr for Weekday {
    type Err = WeekdayError;

    /// The whole word, or its three first letters.
    fn from_str(text: &str) -> Result<Self, WeekdayError> {
        let word = text.to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|day| day.word() == word || day.short() == word);
        found.ok_or_else(|| WeekdayError(text.to_owned()))
    }
}

/// A time of the day (UTC), to the minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeOfDay {
    /// Less than 1,440.
    minute_of_day: u16,
}

/// Why a text is no time of the day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no time of the day: write hours and minutes of UTC, such as 03:00")]
pub struct TimeOfDayError(String);

impl FromStr for TimeOfDay {
    type Err = TimeOfDayError;

    fn from_str(text: &str) -> Result<Self, TimeOfDayError> {
        let digits = |text: &str| {
            let is_number =
                (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| text.parse::<u16>().ok())?
        };
        let read = || {
            let (hour, minute) = text.split_once(':')?;
            let is_whole = minute.len() == 2;
            let (hour, minute) = (digits(hour)?, digits(minute)?);
            (is_whole && hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let minute_of_day = read().ok_or_else(|| TimeOfDayError(text.to_owned()))?;
        Ok(Self { minute_of_day })
    }
}

impl Display for TimeOfDay {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{:02}:{:02}", self.minute_of_day / 60, self.minute_of_day % 60)
    }
}

impl TryFrom<String> for TimeOfDay {
    type Error = TimeOfDayError;

    fn try_from(text: String) -> Result<Self, TimeOfDayError> {
        text.parse()
    }
}

impl From<TimeOfDay> for String {
    fn from(time: TimeOfDay) -> Self {
        time.to_string()
    }
}

/// When a schedule is due. All of it is UTC, which knows no summer time: no moment comes twice and none is
/// left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Timing {
    /// Again and again, counted from the beginning of 1970: what a day is a multiple of begins at midnight.
    Every {
        /// From [`EVERY_SECONDS_MIN`] to [`EVERY_SECONDS_MAX`].
        seconds: u64,
    },
    /// Each day.
    Daily {
        /// When.
        at: TimeOfDay,
    },
    /// Once in a week.
    Weekly {
        /// Which day.
        day: Weekday,
        /// When.
        at: TimeOfDay,
    },
}

impl Timing {
    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`ScheduleError::Every`]
    pub fn check(self) -> Result<(), ScheduleError> {
        match self {
            Self::Every { seconds }
                if !(EVERY_SECONDS_MIN..=EVERY_SECONDS_MAX).contains(&seconds) =>
            {
                Err(ScheduleError::Every)
            }
            _ => Ok(()),
        }
    }

    /// From one moment to the next, in seconds.
    #[must_use]
    pub fn period_seconds(self) -> u64 {
        match self {
            // What a damaged record says must not divide by nothing.
            Self::Every { seconds } => seconds.max(EVERY_SECONDS_MIN),
            Self::Daily { .. } => DAY_SECONDS,
            Self::Weekly { .. } => WEEK_SECONDS,
        }
    }

    /// The first moment after the beginning of 1970; less than a period.
    fn offset_seconds(self) -> u64 {
        let seconds = |at: TimeOfDay| u64::from(at.minute_of_day) * 60;
        match self {
            Self::Every { .. } => 0,
            Self::Daily { at } => seconds(at),
            Self::Weekly { day, at } => {
                // 1970 began on a Thursday.
                let days = (day as u64 + 7 - Weekday::Thursday as u64) % 7;
                days * DAY_SECONDS + seconds(at)
            }
        }
    }

    /// How many moments there are from the beginning of 1970 up to a time, that one included.
    fn moments_until(self, unix_seconds: u64) -> u64 {
        let after = unix_seconds.checked_sub(self.offset_seconds());
        after.map_or(0, |seconds| seconds / self.period_seconds() + 1)
    }

    /// The first moment after a time.
    #[must_use]
    pub fn next_after(self, unix_seconds: u64) -> u64 {
        let next = self.moments_until(unix_seconds).saturating_mul(self.period_seconds());
        next.saturating_add(self.offset_seconds())
    }

    /// The last moment up to a time, that one included.
    #[must_use]
    pub fn last_until(self, unix_seconds: u64) -> Option<u64> {
        let before = self.moments_until(unix_seconds).checked_sub(1)?;
        Some(self.offset_seconds() + before * self.period_seconds())
    }

    /// How many moments lie after one time and up to another one.
    #[must_use]
    pub fn count(self, after: u64, until: u64) -> u64 {
        self.moments_until(until).saturating_sub(self.moments_until(after))
    }
}

impl Display for Timing {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Every { seconds } => {
                let units = [(DAY_SECONDS, "d"), (3600, "h"), (60, "m"), (1, "s")];
                let fits = |(unit, _): &(u64, &str)| seconds.is_multiple_of(*unit);
                let (unit, word) = units.into_iter().find(fits).unwrap_or((1, "s"));
                write!(out, "every {}{word}", seconds / unit)
            }
            Self::Daily { at } => write!(out, "daily {at}"),
            Self::Weekly { day, at } => write!(out, "weekly {} {at}", day.short()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> TimeOfDay {
        text.parse().expect("a time of the day")
    }

    /// 2026-11-27 01:30:00 UTC, a Friday.
    const FRIDAY: u64 = 1_795_743_000;

    #[test]
    fn moments_are_those_of_the_calendar() {
        let midnight = FRIDAY - 90 * 60;
        let cases = [
            (Timing::Every { seconds: 900 }, FRIDAY, FRIDAY + 900),
            (Timing::Every { seconds: 14_400 }, midnight, midnight + 14_400),
            (Timing::Daily { at: at("03:00") }, midnight - 21 * 3600, midnight + 3 * 3600),
            (Timing::Daily { at: at("1:30") }, FRIDAY, FRIDAY + DAY_SECONDS),
            (
                Timing::Weekly { day: Weekday::Sunday, at: at("03:00") },
                midnight - 5 * DAY_SECONDS + 3 * 3600,
                midnight + 2 * DAY_SECONDS + 3 * 3600,
            ),
            (
                Timing::Weekly { day: Weekday::Thursday, at: at("00:00") },
                midnight - DAY_SECONDS,
                midnight + 6 * DAY_SECONDS,
            ),
        ];
        for (timing, last, next) in cases {
            assert_eq!(timing.last_until(FRIDAY), Some(last), "{timing}");
            assert_eq!(timing.next_after(FRIDAY), next, "{timing}");
            assert_eq!(timing.next_after(last), next, "{timing}");
            assert_eq!(timing.last_until(next), Some(next), "{timing}");
        }
        let late = Timing::Daily { at: at("03:00") };
        assert_eq!((late.last_until(10), late.next_after(10)), (None, 3 * 3600));
    }

    #[test]
    fn timings_are_shown_as_they_are_written() {
        let every = |seconds| Timing::Every { seconds }.to_string();
        assert_eq!(
            [900, 14_400, 86_400, 90].map(every),
            ["every 15m", "every 4h", "every 1d", "every 90s"]
        );
        assert_eq!(Timing::Daily { at: at("3:05") }.to_string(), "daily 03:05");
        let weekly = Timing::Weekly { day: "SUN".parse().unwrap(), at: at("23:59") };
        assert_eq!(weekly.to_string(), "weekly sun 23:59");
        for wrong in ["", "3", "24:00", "03:60", "3:0", "003:00", "-1:00", "03:00:00", "+3:00"] {
            assert!(wrong.parse::<TimeOfDay>().is_err(), "{wrong}");
        }
        assert!("su".parse::<Weekday>().is_err());
        assert!(Timing::Every { seconds: 59 }.check().is_err());
        assert!(Timing::Every { seconds: 60 }.check().is_ok());
    }

    fn timings() -> impl Strategy<Value = Timing> {
        let time = || (0..1440_u16).prop_map(|minute_of_day| TimeOfDay { minute_of_day });
        let day = prop::sample::select(Weekday::ALL.to_vec());
        prop_oneof![
            (EVERY_SECONDS_MIN..EVERY_SECONDS_MAX).prop_map(|seconds| Timing::Every { seconds }),
            time().prop_map(|at| Timing::Daily { at }),
            (day, time()).prop_map(|(day, at)| Timing::Weekly { day, at }),
        ]
    }

    proptest! {
        #[test]
        fn between_two_moments_there_is_none(timing in timings(), now in 0..=u64::from(u32::MAX)) {
            let next = timing.next_after(now);
            prop_assert!(next > now && next - now <= timing.period_seconds());
            prop_assert_eq!(timing.count(now, next), 1);
            prop_assert_eq!(timing.count(now, next - 1), 0);
            prop_assert_eq!(timing.last_until(next), Some(next));
            prop_assert_eq!(timing.last_until(next - 1), timing.last_until(now));
        }

        #[test]
        fn no_time_is_too_far_away(timing in timings(), now: u64) {
            prop_assert!(timing.next_after(now) >= now || timing.next_after(now) == u64::MAX);
            prop_assert!(timing.last_until(now).is_none_or(|last| last <= now));
        }
    }
}
