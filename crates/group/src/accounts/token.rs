//! Tokens: 256 random bits, shown once; only their hash is kept.

use std::fmt::{self, Debug, Formatter};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::password::MARK_BYTES;
use crate::secrets::hex;

/// What every token begins with, so that one that leaked is known for what it is.
const PREFIX: &str = "drystone_";

const TOKEN_BYTES: usize = 32;

/// A token in the clear. Not shown, and wiped when it is dropped.
#[derive(Clone)]
pub struct TokenText(Zeroizing<String>);

impl Debug for TokenText {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("TokenText(..)")
    }
}

impl TokenText {
    /// How long each is.
    pub(crate) const BYTES: usize = PREFIX.len() + 2 * TOKEN_BYTES;

    /// Draws one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn draw() -> Result<Self, getrandom::Error> {
        let mut bits = Zeroizing::new([0; TOKEN_BYTES]);
        getrandom::fill(&mut *bits)?;
        let digits = Zeroizing::new(hex::encode(&*bits));
        Ok(Self(Zeroizing::new(format!("{PREFIX}{}", *digits))))
    }

    /// As a program presents it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a token is known by: the SHA-256 of its text, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(String);

impl TokenHash {
    /// Of what was presented, whatever it is.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(hex::encode(&Sha256::digest(text.as_bytes())))
    }

    /// Whether both are the same, in a time that does not tell how much of them is.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }

    /// What tells it from other ones and does not say what it is: the same on all members that share it.
    #[must_use]
    pub fn mark(&self) -> String {
        hex::encode(&Sha256::digest(self.0.as_bytes())[..MARK_BYTES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_not_shown() {
        let (one, two) = (TokenText::draw().unwrap(), TokenText::draw().unwrap());
        assert_eq!(one.as_str().len(), TokenText::BYTES);
        assert!(one.as_str().starts_with(PREFIX) && one.as_str() != two.as_str());
        assert_eq!(format!("{one:?}"), "TokenText(..)");
        let (first, second) = (TokenHash::of(one.as_str()), TokenHash::of(two.as_str()));
        assert!(first.is(&TokenHash::of(one.as_str())) && !first.is(&second));
        assert!(!first.is(&TokenHash(String::new())), "damaged");
        assert_eq!(first.mark(), TokenHash::of(one.as_str()).mark());
        assert!(first.mark() != second.mark() && !first.0.contains(&first.mark()));
    }
}
