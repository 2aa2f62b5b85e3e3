//! Sizes as people write them: `512M`, `10GiB`, `4096`. Units are binary throughout.

use thiserror::Error;

/// The largest size a file, and so a disk here, can have: offsets are signed 64-bit.
const SIZE_BYTES_MAX: u64 = i64::MAX as u64;

/// The unit letters; each is 1024 times the one before it, the first is 1024 bytes.
const UNITS: &str = "KMGTPE";

/// Why a size was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Not a number with a unit.
    #[error("'{0}' is not a size: write a whole number with K, M, G or T after it, such as 512M")]
    NotASize(String),
    /// `10GB`: could be meant as 10^9.
    #[error(
        "'{text}' could mean two sizes: write {number}{unit} or {number}{unit}iB, which count in 1024s"
    )]
    Decimal {
        /// What was written.
        text: String,
        /// Its number.
        number: String,
        /// Its unit letter, in upper case.
        unit: char,
    },
    /// `1.5G`.
    #[error("'{0}' has a fraction: write a whole number in a smaller unit, such as 1536M for 1.5G")]
    Fraction(String),
    /// More than a file can hold.
    #[error("'{0}' is more than a disk can hold: write at most 7E")]
    TooBig(String),
    /// Nothing to serve.
    #[error("'{0}' leaves no room for a single block: write a size such as 512M")]
    Zero(String),
}

/// Reads a size; the result is in bytes and at least 1.
///
/// # Errors
/// What does not read, and what is too large or nothing.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    if number.is_empty() {
        return Err(SizeError::NotASize(text.to_owned()));
    }
    if unit.starts_with(['.', ',']) {
        return Err(SizeError::Fraction(text.to_owned()));
    }
    let shift = unit_shift(text, number, unit)?;
    let bytes = number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift))
        .filter(|bytes| *bytes <= SIZE_BYTES_MAX)
        .ok_or_else(|| SizeError::TooBig(text.to_owned()))?;
    if bytes == 0 { Err(SizeError::Zero(text.to_owned())) } else { Ok(bytes) }
}

/// The power of two that `unit` stands for.
fn unit_shift(text: &str, number: &str, unit: &str) -> Result<u32, SizeError> {
    let upper = unit.to_ascii_uppercase();
    let mut letters = upper.chars();
    let Some(letter) = letters.next().filter(|_| upper != "B") else { return Ok(0) };
    let (Some(index), rest) = (UNITS.find(letter), letters.as_str()) else {
        return Err(SizeError::NotASize(text.to_owned()));
    };
    match rest {
        "" | "IB" => Ok(10 * (index as u32 + 1)),
        "B" => Err(SizeError::Decimal {
            text: text.to_owned(),
            number: number.to_owned(),
            unit: letter,
        }),
        _ => Err(SizeError::NotASize(text.to_owned())),
    }
}

/// Whether `text`, found behind the last colon of a path, was meant as a size. A mistyped size
/// (`10X`, `5GB`) counts, so that it is refused and does not become part of a file's name.
pub(crate) fn looks_like_size(text: &str) -> bool {
    let digits_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    text.starts_with(|c: char| c.is_ascii_digit())
        && !number.ends_with('.')
        && unit.len() <= 3
        && unit.chars().all(|c| c.is_ascii_alphabetic())
}

/// The size in the largest unit that leaves it whole: 1073741824 is `1G`, 1000 is `1000`.
pub fn short(bytes: u64) -> String {
    let mut number = bytes;
    let mut unit = None;
    let mut larger = UNITS.chars();
    while number != 0 && number.is_multiple_of(1024) {
        let Some(next) = larger.next() else { break };
        unit = Some(next);
        number /= 1024;
    }
    unit.map_or_else(|| number.to_string(), |unit| format!("{number}{unit}"))
}

/// Bytes as people read them: whole binary units where possible, else one decimal.
pub(crate) fn in_words(bytes: u64) -> String {
    let of_unit = |unit: usize| 1_u64 << (10 * unit);
    let unit = (1..=UNITS.len()).rev().find(|unit| bytes >= of_unit(*unit)).unwrap_or(0);
    let word =
        UNITS.chars().nth(unit.wrapping_sub(1)).map_or("bytes".to_owned(), |u| format!("{u}iB"));
    match bytes.is_multiple_of(of_unit(unit)) {
        true => format!("{} {word}", bytes / of_unit(unit)),
        false => format!("{:.1} {word}", bytes as f64 / of_unit(unit) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_said_in_words() {
        let said = [0, 1023, 1024, 1536, 32 << 20, 5 << 40].map(in_words);
        assert_eq!(said, ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "32 MiB", "5 TiB"]);
    }

    #[test]
    fn sizes_are_binary_in_every_spelling() {
        let cases = [
            ("1", 1),
            ("4096", 4096),
            ("4096B", 4096),
            ("1K", 1 << 10),
            ("1k", 1 << 10),
            ("3KiB", 3 << 10),
            ("512M", 512 << 20),
            ("512mib", 512 << 20),
            ("10G", 10 << 30),
            ("1T", 1 << 40),
            ("2PiB", 2 << 50),
            ("7E", 7 << 60),
            ("007M", 7 << 20),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_size_that_could_be_misread_is_refused_with_what_to_write() {
        let cases = [
            ("", "'' is not a size: write a whole number with K, M, G or T after it, such as 512M"),
            (
                "G",
                "'G' is not a size: write a whole number with K, M, G or T after it, such as 512M",
            ),
            (
                "10X",
                "'10X' is not a size: write a whole number with K, M, G or T after it, such as 512M",
            ),
            (
                "10 G",
                "'10 G' is not a size: write a whole number with K, M, G or T after it, such as 512M",
            ),
            (
                "-1G",
                "'-1G' is not a size: write a whole number with K, M, G or T after it, such as 512M",
            ),
            (
                "1Gib ",
                "'1Gib ' is not a size: write a whole number with K, M, G or T after it, such as 512M",
            ),
            ("10GB", "'10GB' could mean two sizes: write 10G or 10GiB, which count in 1024s"),
            ("5kb", "'5kb' could mean two sizes: write 5K or 5KiB, which count in 1024s"),
            (
                "1.5G",
                "'1.5G' has a fraction: write a whole number in a smaller unit, such as 1536M for 1.5G",
            ),
            ("8E", "'8E' is more than a disk can hold: write at most 7E"),
            (
                "99999999999999999999",
                "'99999999999999999999' is more than a disk can hold: write at most 7E",
            ),
            ("0", "'0' leaves no room for a single block: write a size such as 512M"),
            ("0G", "'0G' leaves no room for a single block: write a size such as 512M"),
        ];
        for (text, sentence) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), sentence, "{text}");
        }
    }

    #[test]
    fn a_mistyped_size_is_told_from_a_file_name() {
        for size in ["1G", "512M", "30", "10X", "5GB", "1.5G", "3GiB"] {
            assert!(looks_like_size(size), "{size}");
        }
        for name in ["", "img", "45.img", "1G/disk", "2nd-disk", "10-old", "7days"] {
            assert!(!looks_like_size(name), "{name}");
        }
    }

    #[test]
    fn short_takes_the_largest_whole_unit() {
        let cases = [(0, "0"), (1000, "1000"), (1536, "1536"), (1 << 20, "1M"), (3 << 29, "1536M")];
        for (bytes, text) in cases {
            assert_eq!(short(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn short_reads_back_as_the_same_size(bytes in 1..=SIZE_BYTES_MAX) {
            prop_assert_eq!(parse(&short(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = parse(&text);
            let _ = looks_like_size(&text);
        }

        #[test]
        fn whatever_reads_as_a_size_looks_like_one(text in "[0-9]{1,4}[KMGTPEkmgtpe]?(iB)?") {
            prop_assert!(parse(&text).is_err() || looks_like_size(&text));
        }
    }
}
