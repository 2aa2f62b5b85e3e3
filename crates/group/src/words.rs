//! Numbers in sentences.

/// The unit letters; each is 1024 times the one before it, the first is 1024 bytes.
const UNITS: &str = "KMGTPE";

/// So many things of a noun whose plural ends in `s`: "1 volume", "2 volumes".
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// Bytes as people read them: whole binary units where possible, else one decimal of the largest. What is left over is
/// cut off, so that nobody reads of more room than there is.
#[must_use]
pub fn bytes_in_words(bytes: u64) -> String {
    let of_unit = |unit: usize| 1_u64 << (10 * unit);
    let unit = (1..=UNITS.len()).rev().find(|unit| bytes >= of_unit(*unit));
    let Some(unit) = unit else { return counted(bytes, "byte") };
    let letter = &UNITS[unit - 1..unit];
    let (whole, rest) = (bytes / of_unit(unit), bytes % of_unit(unit));
    if rest == 0 {
        return format!("{whole} {letter}iB");
    }
    let tenths = u128::from(rest) * 10 / u128::from(of_unit(unit));
    format!("{whole}.{tenths} {letter}iB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_several() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "host")), ["0 hosts", "1 host", "2 hosts"]);
    }

    #[test]
    fn bytes_are_said_in_units_and_not_rounded_up() {
        let said = [0, 1, 1023, 1024, 1536, 32 << 20, (5 << 40) - 1].map(bytes_in_words);
        let words = ["0 bytes", "1 byte", "1023 bytes", "1 KiB", "1.5 KiB", "32 MiB", "4.9 TiB"];
        assert_eq!(said, words);
        assert_eq!(bytes_in_words(u64::MAX), "15.9 EiB");
    }
}
