//! Numbers with the units of storage people: `4k`, `10240m`, `1.5g`, `30m`, `2h`.

use std::time::Duration;

/// Bytes: a number and perhaps k, m, g or t, each 1024 of the one before. `None` if it is none.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let trimmed = lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower);
    let (number, shift) = match trimmed.char_indices().last()? {
        (at, 'k') => (&trimmed[..at], 10),
        (at, 'm') => (&trimmed[..at], 20),
        (at, 'g') => (&trimmed[..at], 30),
        (at, 't') => (&trimmed[..at], 40),
        _ => (trimmed, 0),
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A time: seconds, or a number and s, m or h.
pub(super) fn time(text: &str) -> Option<Duration> {
    const LONGEST_S: f64 = 366.0 * 86_400.0;
    let (number, unit_s) = match text.char_indices().last()? {
        (at, 's') => (&text[..at], 1.0),
        (at, 'm') => (&text[..at], 60.0),
        (at, 'h') => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    let seconds = decimal(number)? * unit_s;
    (seconds <= LONGEST_S).then(|| Duration::from_secs_f64(seconds))
}

/// A number without sign and exponent.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

/// I/Os a second: more than none, and at most 10^9, beyond which there is no time between them.
pub(super) fn rate(text: &str) -> Option<f64> {
    decimal(text).filter(|rate| *rate > 0.0 && *rate <= 1e9)
}

/// A whole number of percent, 0 to 100.
pub(super) fn percent(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| is_plain && number <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary_and_nothing_else_is_taken() {
        let cases =
            [("512", 512), ("8k", 8192), ("10240m", 10 << 30), ("1T", 1 << 40), ("4KiB", 4096)];
        for (text, expected) in cases {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for text in ["", "k", "-1", "4kk", "1.5g", "99999999999999t", "4 k"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_seconds_unless_they_say() {
        assert_eq!(time("30"), Some(Duration::from_secs(30)));
        assert_eq!(time("1.5"), Some(Duration::from_millis(1500)));
        assert_eq!(time("2h"), Some(Duration::from_secs(7200)));
        for text in ["", "h", "-3", "1e3", "inf", "99999999h"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
