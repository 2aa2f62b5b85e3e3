//! Passwords: argon2id (RFC 9106), kept as a PHC string with its own salt and costs.
//!
//! To hash one takes 19 MiB and some ten milliseconds of a processor: whoever calls this bounds how many are
//! at work, and calls it on no core.

use std::fmt::{self, Debug, Formatter};

use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The shortest password.
pub const PASSWORD_BYTES_MIN: usize = 12;

/// The longest password.
pub const PASSWORD_BYTES_MAX: usize = 255;

/// KiB that one hash takes; with [`PASSES`], what OWASP recommends at least for argon2id.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// The longest PHC string that is read.
const PHC_BYTES_MAX: usize = 512;

/// Why a password is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Too short to be safe, or too long to be meant.
    #[error(
        "the password has {0} bytes: choose one of {PASSWORD_BYTES_MIN} to {PASSWORD_BYTES_MAX}"
    )]
    Length(usize),
    /// A control character, as from a file that was edited elsewhere.
    #[error("the password holds a control character: write it on one line")]
    Control,
    /// There is no memory or no randomness for it.
    #[error("the password cannot be hashed: {0}")]
    Failed(String),
}

/// Bytes of a [mark](PasswordHash::mark), which is a part of a SHA-256: enough that no two are the same by chance.
pub(super) const MARK_BYTES: usize = 8;

/// What a password is held against.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl Debug for PasswordHash {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("PasswordHash(..)")
    }
}

impl PasswordHash {
    /// Hashes a password under a random salt.
    ///
    /// # Errors
    /// [`PasswordError`]
    pub fn of(password: &str) -> Result<Self, PasswordError> {
        if !(PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX).contains(&password.len()) {
            return Err(PasswordError::Length(password.len()));
        }
        if password.chars().any(char::is_control) {
            return Err(PasswordError::Control);
        }
        let failed = |error: argon2::password_hash::Error| PasswordError::Failed(error.to_string());
        let hash = hasher().hash_password(password.as_bytes()).map_err(failed)?;
        Ok(Self(hash.to_string()))
    }

    /// Of a password that nobody knows: holding one against it takes as long as against any other.
    ///
    /// # Errors
    /// [`PasswordError::Failed`]
    pub fn of_nobody() -> Result<Self, PasswordError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| PasswordError::Failed(error.to_string()))?;
        Self::of(&crate::secrets::hex::encode(&secret))
    }

    /// Whether this is the password. One that is longer than any is not hashed.
    #[must_use]
    pub fn is_of(&self, password: &str) -> bool {
        let is_sane = self.0.len() <= PHC_BYTES_MAX && password.len() <= PASSWORD_BYTES_MAX;
        is_sane && hasher().verify_password(password.as_bytes(), self.0.as_str()).is_ok()
    }

    /// What tells it from other ones and says nothing about the password: the same on all members that share it.
    #[must_use]
    pub fn mark(&self) -> String {
        crate::secrets::hex::encode(&Sha256::digest(self.0.as_bytes())[..MARK_BYTES])
    }
}

fn hasher() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None);
    let params = params.expect("these costs are within the bounds of argon2");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_again_and_not_kept() {
        let hash = PasswordHash::of("correct horse battery").unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.0);
        assert!(hash.is_of("correct horse battery"));
        for other in ["", "correct horse batterx", &"x".repeat(1 << 20)] {
            assert!(!hash.is_of(other));
        }
        let again = PasswordHash::of("correct horse battery").unwrap();
        assert_ne!(again, hash, "salted");
        assert_ne!(again.mark(), hash.mark());
        assert_eq!(PasswordHash(hash.0.clone()).mark(), hash.mark());
        assert!(!PasswordHash::of_nobody().unwrap().is_of(""));
        assert_eq!(format!("{hash:?}"), "PasswordHash(..)");
    }

    #[test]
    fn what_is_stored_damaged_is_nobodys_password() {
        for damaged in ["", "$argon2id$v=19$m=19456,t=2,p=1$", "plain", "$1$abc$def"] {
            assert!(!PasswordHash(damaged.to_owned()).is_of(damaged));
        }
    }

    #[test]
    fn what_cannot_be_a_password_is_refused() {
        assert_eq!(PasswordHash::of("short"), Err(PasswordError::Length(5)));
        assert_eq!(PasswordHash::of(&"x".repeat(256)), Err(PasswordError::Length(256)));
        assert_eq!(PasswordHash::of("twelve\nbytes-"), Err(PasswordError::Control));
    }
}
