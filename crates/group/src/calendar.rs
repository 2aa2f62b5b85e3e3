//! Dates of UTC, in which seconds since 1970 are counted: leap seconds are not.

use std::fmt::{self, Display, Formatter};

/// Seconds of a day.
pub const DAY_SECONDS: u64 = 24 * 60 * 60;

/// A moment of the calendar (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub struct Moment {
    pub year: u64,
    pub month: u64,
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
}

impl Moment {
    /// So many seconds after the beginning of 1970.
    #[must_use]
    pub const fn of(unix_seconds: u64) -> Self {
        let (days, seconds) = (unix_seconds / DAY_SECONDS, unix_seconds % DAY_SECONDS);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        Self { year, month, day, hour, minute, second }
    }
}

impl Display for Moment {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The date that is this many days after 1970-01-01. Years begin in March here, so that the day
/// that some years have more is the last one.
const fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    /// From 0000-03-01 to 1970-01-01.
    const DAYS_BEFORE_1970: u64 = 719_468;
    let days = days + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let leap_days = day_of_era / 1460 + day_of_era / (DAYS_OF_400_YEARS - 1);
    let year_of_era = (day_of_era + day_of_era / 36_524 - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + (month <= 2) as u64, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leap_days_are_those_of_the_calendar() {
        let of = |seconds| {
            let Moment { year, month, day, hour, minute, second } = Moment::of(seconds);
            [year, month, day, hour, minute, second]
        };
        assert_eq!(of(0), [1970, 1, 1, 0, 0, 0]);
        assert_eq!(of(951_782_399), [2000, 2, 28, 23, 59, 59]);
        assert_eq!(of(951_782_400), [2000, 2, 29, 0, 0, 0]);
        assert_eq!(of(4_107_542_400), [2100, 3, 1, 0, 0, 0]);
    }
}
