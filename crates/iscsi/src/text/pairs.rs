//! `key=value` pairs in a data segment (RFC 7143 6.1): parsing with bounds, and writing.

use super::{BINARY_LEN_BYTES_MAX, KEY_LEN_BYTES_MAX, PAIRS_MAX, TextError, VALUE_LEN_BYTES_MAX};

/// One key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The key's name.
    pub key: &'a str,
    /// Its value, without the terminating NUL.
    pub value: &'a str,
}

/// Splits a complete text into at most `pairs_max` pairs, in their order.
///
/// Every pair ends with a NUL. Surplus NULs and a missing last one are passed over, since peers that get
/// this wrong are otherwise sound.
///
/// # Errors
/// A [`TextError`] for whatever is not a pair as 6.1 defines it.
pub fn parse_pairs(text: &[u8], pairs_max: usize) -> Result<Vec<Pair<'_>>, TextError> {
    let mut pairs = Vec::new();
    for bytes in text.split(|&byte| byte == 0).filter(|pair| !pair.is_empty()) {
        if pairs.len() == pairs_max {
            return Err(TextError::TooManyPairs);
        }
        let pair = std::str::from_utf8(bytes).map_err(|_| TextError::Encoding)?;
        let (key, value) = pair.split_once('=').ok_or(TextError::NoValue)?;
        if !is_key_name(key) {
            return Err(TextError::KeyName);
        }
        if value.len() > value_len_bytes_max(key) {
            return Err(TextError::ValueTooLong);
        }
        pairs.push(Pair { key, value });
    }
    Ok(pairs)
}

/// Refuses a text in which a key comes twice; only the records of SendTargets may repeat theirs (6.2).
///
/// # Errors
/// [`TextError::RepeatedKey`].
pub fn refuse_repeated_keys(pairs: &[Pair<'_>]) -> Result<(), TextError> {
    debug_assert!(pairs.len() <= PAIRS_MAX, "quadratic in the number of pairs");
    let repeated = |at: usize, key: &str| pairs[..at].iter().any(|earlier| earlier.key == key);
    let mut numbered = pairs.iter().enumerate();
    if numbered.any(|(at, pair)| repeated(at, pair.key)) {
        return Err(TextError::RepeatedKey);
    }
    Ok(())
}

/// A standard-label (6.1). The capital at its start is not insisted on: `iSCSIProtocolLevel` has none (RFC 7144 7.1.1).
fn is_key_name(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-+@_#".contains(&byte);
    (1..=KEY_LEN_BYTES_MAX).contains(&key.len()) && key.bytes().all(allowed)
}

/// Binary values of CHAP may be 1024 bytes before their encoding, of which hexadecimal is the longest (12.1.3).
fn value_len_bytes_max(key: &str) -> usize {
    match key {
        "CHAP_C" | "CHAP_R" => "0x".len() + 2 * BINARY_LEN_BYTES_MAX,
        _ => VALUE_LEN_BYTES_MAX,
    }
}

/// Writes pairs into a text.
#[derive(Debug, Clone, Default)]
pub struct TextWriter(Vec<u8>);

impl TextWriter {
    /// An empty text.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends `key=value` and its NUL.
    pub fn push(&mut self, key: &str, value: impl std::fmt::Display) {
        use std::io::Write as _;
        write!(self.0, "{key}={value}\0").expect("writing to memory cannot fail");
    }

    /// Length of the text so far.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        self.0.len()
    }

    /// The text.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
