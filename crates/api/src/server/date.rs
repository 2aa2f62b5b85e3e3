//! When an answer was given: `Date` (RFC 9110 §6.6.1).
//!
//! Not by hyper: it panics where a clock is before 1970 or behind the year 9999, and with it goes the member.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::HeaderValue;
use group::calendar::{DAY_SECONDS, Moment};

/// The day of the week on which 1970 began stands first.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The value of the header; `None` for a time that it cannot tell.
pub(super) fn date(now: SystemTime) -> Option<HeaderValue> {
    let seconds = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let Moment { year, month, day, hour, minute, second } = Moment::of(seconds);
    if year > 9999 {
        return None;
    }
    let of_week = DAYS[(seconds / DAY_SECONDS % 7) as usize];
    let month = MONTHS[(month - 1) as usize];
    let text =
        format!("{of_week}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT");
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_clock_may_be_anywhere() {
        let shown = |seconds| {
            let date = date(UNIX_EPOCH + Duration::from_secs(seconds))?;
            Some(date.to_str().unwrap().to_owned())
        };
        let cases = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            // RFC 9110 §5.6.7.
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (seconds, text) in cases {
            assert_eq!(shown(seconds).as_deref(), Some(text));
        }
        assert_eq!(shown(253_402_300_800), None);
        assert_eq!(shown(u64::MAX / 4), None);
        assert_eq!(date(UNIX_EPOCH - Duration::from_secs(1)), None);
    }
}
