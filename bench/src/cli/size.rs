//! Sizes with units.

/// `4k`, `64K`, `1g`, `512`: bytes, in powers of 1024.
///
/// # Errors
/// Says what to write instead.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..].to_ascii_lowercase()[..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        unit => return Err(format!("unknown unit {unit:?}: write for example 4k, 512m or 1g")),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("{text}: write for example 4k, 512m or 1g"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is too large"))
}
