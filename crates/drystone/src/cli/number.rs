//! Numbers with a range, refused in this program's own words.

use std::time::Duration;
use thiserror::Error;

/// A number out of its range, or no number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is not a number of {what}: write {min} to {max}")]
pub(crate) struct NumberError {
    text: String,
    what: &'static str,
    min: u64,
    max: u64,
}

/// Reads a whole number of `what`.
pub(crate) fn parse(
    text: &str,
    what: &'static str,
    min: u64,
    max: u64,
) -> Result<u64, NumberError> {
    let refused = || NumberError { text: text.to_owned(), what, min, max };
    let number = text.parse().map_err(|_| refused())?;
    if (min..=max).contains(&number) { Ok(number) } else { Err(refused()) }
}

/// `--cores`.
pub(crate) fn cores(text: &str) -> Result<u16, NumberError> {
    parse(text, "cores", 1, 256).map(|n| n as u16)
}

/// `--max-connections`.
pub(crate) fn connections(text: &str) -> Result<usize, NumberError> {
    parse(text, "connections", 1, 1 << 20).map(|n| n as usize)
}

/// `--max-logins`.
pub(crate) fn logins(text: &str) -> Result<usize, NumberError> {
    parse(text, "logins", 1, 1 << 20).map(|n| n as usize)
}

/// `--queue-depth`. CmdSN arithmetic would bear 2^31 - 1; memory is what bounds it.
pub(crate) fn commands(text: &str) -> Result<u32, NumberError> {
    parse(text, "commands", 1, 4096).map(|n| n as u32)
}

/// `--sessions`.
pub(crate) fn sessions(text: &str) -> Result<u16, NumberError> {
    parse(text, "sessions", 1, 512).map(|n| n as u16)
}

/// `--connections` of `drystone attach`.
pub(crate) fn session_connections(text: &str) -> Result<u16, NumberError> {
    parse(text, "connections", 1, 8).map(|n| n as u16)
}

/// A share of something.
pub(crate) fn percent(text: &str) -> Result<u8, NumberError> {
    parse(text, "percent", 1, 100).map(|n| n as u8)
}

/// From one scrub to the next.
pub(crate) fn days(text: &str) -> Result<u16, NumberError> {
    parse(text, "days", 0, 3650).map(|n| n as u16)
}

/// `--count` of `drystone top`.
pub(crate) fn lines(text: &str) -> Result<u64, NumberError> {
    parse(text, "lines", 1, 1_000_000_000)
}

/// Any time-out, in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, NumberError> {
    parse(text, "seconds", 1, 3600).map(Duration::from_secs)
}

/// `--stall` of `drystone lab`.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, NumberError> {
    parse(text, "milliseconds", 1, 600_000).map(Duration::from_millis)
}

/// `--limit` of `drystone events`.
pub(crate) fn records(text: &str) -> Result<usize, NumberError> {
    parse(text, "records", 1, 1_000_000).map(|n| n as usize)
}

/// `--wrong-blocks` of `drystone lab`.
pub(crate) fn blocks(text: &str) -> Result<u64, NumberError> {
    parse(text, "blocks", 1, 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_each_range_are_in_it() {
        assert_eq!(cores("1"), Ok(1));
        assert_eq!(cores("256"), Ok(256));
        assert_eq!(connections("1048576"), Ok(1 << 20));
        assert_eq!(logins("1"), Ok(1));
        assert_eq!(commands("4096"), Ok(4096));
        assert_eq!(sessions("512"), Ok(512));
        assert_eq!(seconds("3600"), Ok(Duration::from_secs(3600)));
    }

    #[test]
    fn a_refusal_names_the_range() {
        let cases = [
            (cores("0").map(|_| ()), "'0' is not a number of cores: write 1 to 256"),
            (cores("all").map(|_| ()), "'all' is not a number of cores: write 1 to 256"),
            (cores("-1").map(|_| ()), "'-1' is not a number of cores: write 1 to 256"),
            (
                connections("1048577").map(|_| ()),
                "'1048577' is not a number of connections: write 1 to 1048576",
            ),
            (logins("0").map(|_| ()), "'0' is not a number of logins: write 1 to 1048576"),
            (commands("0").map(|_| ()), "'0' is not a number of commands: write 1 to 4096"),
            (seconds("30s").map(|_| ()), "'30s' is not a number of seconds: write 1 to 3600"),
        ];
        for (outcome, sentence) in cases {
            assert_eq!(outcome.unwrap_err().to_string(), sentence);
        }
    }
}
