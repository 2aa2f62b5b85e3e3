//! Times as people write them: how long ago, or a date of UTC.

use api::client::Since;
use thiserror::Error;

/// Why a time does not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no time: write how long ago, such as 30m, 12h or 7d, or a date of UTC, such as 2026-11-26 or '2026-11-26 08:00'"
)]
pub(crate) struct SinceError(String);

/// Reads `30s`, `15m`, `12h`, `7d`, `2026-11-26`, `2026-11-26 08:00` and `2026-11-26T08:00:30Z`.
pub(crate) fn parse(text: &str) -> Result<Since, SinceError> {
    let read = ago(text).map(Since::Ago).or_else(|| at(text).map(Since::At));
    read.ok_or_else(|| SinceError(text.to_owned()))
}

fn ago(text: &str) -> Option<u64> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let (number, seconds) =
        units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    digits(number)?.checked_mul(seconds)
}

fn at(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut date = date.splitn(3, '-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':').map(digits);
    let (hour, minute) = (time.next()??, time.next()??);
    let second = time.next().unwrap_or(Some(0))?;
    let is_time = hour < 24 && minute < 60 && second < 60;
    let days = days(year, month, day)?;
    is_time.then_some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Days from 1970-01-01 to a date that there is.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let of_month = |month: u64| match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_date = (1970..3000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=of_month(month)).contains(&day);
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    is_date.then(|| years + (1..month).map(of_month).sum::<u64>() + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::units;

    #[test]
    fn times_are_ago_or_of_the_calendar() {
        let ago = [("0s", 0), ("90s", 90), ("15m", 900), ("12h", 43_200), ("7d", 604_800)];
        for (text, seconds) in ago {
            assert_eq!(parse(text), Ok(Since::Ago(seconds)), "{text}");
        }
        let dates = [
            ("1970-01-01", "never"),
            ("1970-01-02", "1970-01-02 00:00:00Z"),
            ("2000-02-29 23:59:59", "2000-02-29 23:59:59Z"),
            ("2026-11-26 08:05", "2026-11-26 08:05:00Z"),
            ("2026-11-26T08:05:09Z", "2026-11-26 08:05:09Z"),
            ("2100-03-01", "2100-03-01 00:00:00Z"),
        ];
        for (text, shown) in dates {
            let Ok(Since::At(seconds)) = parse(text) else { panic!("{text}") };
            assert_eq!(units::time(seconds), shown, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let none = [
            "",
            "m",
            "7",
            "7w",
            "-1d",
            "+1h",
            "1.5h",
            "yesterday",
            "2026-02-29",
            "2026-13-01",
            "2026-11-00",
            "2026-11-26 24:00",
            "2026-11-26 08",
            "26-11-2026",
            "2026-11-26 08:00:00:00",
            "99999999999999999999d",
            "18446744073709551615d",
        ];
        for text in none {
            assert_eq!(parse(text), Err(SinceError(text.to_owned())));
        }
    }
}
