//! What tells a slice from all others.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::printable::printable;

const ID_BYTES: usize = 16;

const DIGITS: usize = 2 * ID_BYTES;

/// What tells a slice from all others, also from another one of the same volume: 128 random bits, as 32 hexadecimal digits.
/// It is the serial number of the unit, too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId(String);

/// A text that is no identity of a slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the identity of a slice is {DIGITS} hexadecimal digits in lower case, and '{}' is not", printable(.0))]
pub struct SliceIdError(String);

impl SliceId {
    /// Draws one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn draw() -> Result<Self, getrandom::Error> {
        draw_digits(ID_BYTES).map(Self)
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for SliceId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for SliceId {
    type Err = SliceIdError;

    fn from_str(text: &str) -> Result<Self, SliceIdError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        // It is a part of names of targets: two ways to write one would be two slices.
        match text.len() == DIGITS && text.bytes().all(is_digit) {
            true => Ok(Self(text.to_owned())),
            false => Err(SliceIdError(text.to_owned())),
        }
    }
}

/// So many random bytes, in hexadecimal digits.
///
/// # Errors
/// The system has no randomness.
pub(super) fn draw_digits(bytes: usize) -> Result<String, getrandom::Error> {
    let mut bits = vec![0; bytes];
    getrandom::fill(&mut bits)?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}
