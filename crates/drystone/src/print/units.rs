//! Sizes and times as people read them.

use group::calendar::Moment;

/// Bytes in the unit that leaves one to three digits in front of the point.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (1..UNITS.len()).rev().find(|unit| bytes >= 1 << (10 * unit)).unwrap_or(0);
    let one = 1u64 << (10 * unit);
    if bytes.is_multiple_of(one) {
        format!("{} {}", bytes / one, UNITS[unit])
    } else {
        format!("{:.1} {}", bytes as f64 / one as f64, UNITS[unit])
    }
}

/// What a member does not tell apart: how long commands took that were answered in the turn in which they came.
const LATENCY_MIN_US: f64 = 50.0;

/// How long commands have taken: `< 50 us`, `90 us`, `2.5 ms`, `1.2 s`.
pub(crate) fn latency(us: f64) -> String {
    match us {
        ..LATENCY_MIN_US => format!("< {LATENCY_MIN_US} us"),
        ..999.5 => format!("{us:.0} us"),
        ..999_950.0 => format!("{:.1} ms", us / 1000.0),
        _ => format!("{:.1} s", us / 1_000_000.0),
    }
}

/// How much of the whole the first part is: `83 %`; `None` of nothing. What is not quite all is not said to be all.
pub(crate) fn share(part: u64, rest: u64) -> Option<String> {
    let whole = u128::from(part) + u128::from(rest);
    (whole > 0).then(|| format!("{} %", u128::from(part) * 100 / whole))
}

/// A number of things: `1 disk`, `2 disks`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// How long something has lasted, in its two largest units: `5 s`, `1 h 1 min`, `3 d 0 h`.
pub(crate) fn duration(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// Seconds since 1970 as a date and time in UTC; 0 is "never".
pub(crate) fn time(unix_seconds: u64) -> String {
    if unix_seconds == 0 {
        return "never".to_owned();
    }
    Moment::of(unix_seconds).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_both_parts() {
        let of = |part, rest| share(part, rest);
        assert_eq!(of(0, 0), None);
        assert_eq!(of(1, 2).as_deref(), Some("33 %"));
        assert_eq!(of(999, 1).as_deref(), Some("99 %"));
        assert_eq!(of(u64::MAX, 0).as_deref(), Some("100 %"));
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let cases = [(0, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (3600, "1 h 0 min")];
        let longer = [(86_399, "23 h 59 min"), (86_400, "1 d 0 h"), (9_000_000, "104 d 4 h")];
        for (seconds, text) in cases.into_iter().chain(longer) {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn latencies_have_the_unit_that_leaves_few_digits() {
        let cases = [
            (0.0, "< 50 us"),
            (50.0, "50 us"),
            (999.4, "999 us"),
            (999.6, "1.0 ms"),
            (2_500_000.0, "2.5 s"),
        ];
        for (us, text) in cases {
            assert_eq!(latency(us), text);
        }
    }

    #[test]
    fn sizes_have_one_decimal_at_most() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (10 << 30, "10 GiB"),
            ((10 << 40) + (1 << 39), "10.5 TiB"),
        ];
        for (size, text) in cases {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn one_is_one_thing() {
        assert_eq!([0, 1, 2].map(|n| count(n, "disk")), ["0 disks", "1 disk", "2 disks"]);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let cases = [
            (0, "never"),
            (1, "1970-01-01 00:00:01Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (951_868_800, "2000-03-01 00:00:00Z"),
            (1_795_262_400, "2026-11-21 12:00:00Z"),
            (4_107_542_399, "2100-02-28 23:59:59Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(time(seconds), text);
        }
    }
}
