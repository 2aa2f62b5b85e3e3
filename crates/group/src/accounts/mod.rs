//! Who may manage a group from afar: accounts with passwords, tokens for programs, and their roles.
//!
//! Of a password only an argon2id hash is kept, of a token only its SHA-256: a token is 256 random bits,
//! which nobody finds by trying. Neither is encrypted beside: whoever reads the store learns no secret.

mod password;
mod role;
mod token;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::Setting;
use crate::store::Revision;

pub use password::{PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN, PasswordError, PasswordHash};
pub use role::Role;
pub use token::{TokenHash, TokenText};

/// Accounts of a group, at most.
pub const ACCOUNTS_MAX: usize = 256;

/// Tokens of a group, at most.
pub const TOKENS_MAX: usize = 1024;

/// The longest name of an account or a token.
const NAME_BYTES_MAX: usize = 63;

/// Why an account or a token is not made or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// A name that neither can have.
    #[error(
        "'{0}' cannot be the name of an account or a token: write 1 to {NAME_BYTES_MAX} letters, digits, '-', '.', '_' and '@', and more than dots"
    )]
    Name(String),
    /// No account has this name.
    #[error("there is no account '{0}'")]
    NoSuchAccount(String),
    /// An account has this name.
    #[error("there is an account '{0}' already")]
    AccountExists(String),
    /// No token has this name.
    #[error("there is no token '{0}'")]
    NoSuchToken(String),
    /// A token has this name.
    #[error("there is a token '{0}' already: revoke it first, or choose another name")]
    TokenExists(String),
    /// There are as many accounts as there may be.
    #[error("there are {ACCOUNTS_MAX} accounts already: remove one first")]
    TooManyAccounts,
    /// There are as many tokens as there may be.
    #[error("there are {TOKENS_MAX} tokens already: revoke one first")]
    TooManyTokens,
    /// A token that nobody could ever use.
    #[error("the token would have expired before it is made: choose a later time")]
    Expired,
}

/// Who logs in with a name and a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// What it may do.
    pub role: Role,
    /// What the password is held against.
    pub password: PasswordHash,
    /// It may not log in.
    #[serde(default)]
    pub disabled: bool,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
}

impl Setting for Account {
    const WHAT: &'static str = "an account";
}

/// What a program logs in with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// What it may do.
    pub role: Role,
    /// What it is known by.
    pub hash: TokenHash,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// From when on it is worth nothing.
    #[serde(default)]
    pub expires_unix_seconds: Option<u64>,
    /// When it was used last, to the hour.
    #[serde(default)]
    pub used_unix_seconds: Option<u64>,
}

impl Setting for Token {
    const WHAT: &'static str = "a token";
}

impl Token {
    /// Whether it is worth nothing any more at this time.
    #[must_use]
    pub fn is_expired(&self, now_unix_seconds: u64) -> bool {
        self.expires_unix_seconds.is_some_and(|end| end <= now_unix_seconds)
    }
}

/// When something was written, as the store numbers its changes: no number comes twice, so two accounts that
/// had one name, one after the other, are told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// It was made.
    pub made: Revision,
    /// It was changed last.
    pub changed: Revision,
}

/// All accounts and tokens at one moment, by their names. What cannot be read is not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logins {
    /// With passwords.
    pub accounts: BTreeMap<String, Account>,
    /// For programs.
    pub tokens: BTreeMap<String, Token>,
    /// When accounts were written.
    pub accounts_written: BTreeMap<String, Written>,
    /// When tokens were; to note a use of one is a change too.
    pub tokens_written: BTreeMap<String, Written>,
}

impl Logins {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.tokens.is_empty()
    }

    /// The token that this is, expired or not. All are looked at in constant time each: what was presented
    /// cannot be found piece by piece.
    #[must_use]
    pub fn token(&self, presented: &TokenHash) -> Option<(&str, &Token)> {
        let mut found = None;
        for (name, token) in &self.tokens {
            if token.hash.is(presented) {
                found = Some((name.as_str(), token));
            }
        }
        found
    }
}

/// Refuses what cannot be the name of an account or a token.
///
/// # Errors
/// [`AccountError::Name`]
pub fn check_name(name: &str) -> Result<(), AccountError> {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"-._@".contains(&byte);
    // Nobody could ask for a path that ends in those.
    let is_path = name == "." || name == "..";
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(belongs) && !is_path {
        return Ok(());
    }
    Err(AccountError::Name(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(hash: TokenHash) -> Token {
        Token {
            role: Role::Operator,
            hash,
            created_unix_seconds: 1,
            expires_unix_seconds: Some(10),
            used_unix_seconds: None,
        }
    }

    #[test]
    fn a_token_is_found_by_what_it_is_and_ends_in_time() {
        let (text, other) = (TokenText::draw().unwrap(), TokenText::draw().unwrap());
        let mut logins = Logins::default();
        assert!(logins.is_empty());
        logins.tokens.insert("ci".to_owned(), token(TokenHash::of(text.as_str())));
        let (name, found) = logins.token(&TokenHash::of(text.as_str())).unwrap();
        assert_eq!(name, "ci");
        assert!(!found.is_expired(9) && found.is_expired(10));
        assert_eq!(logins.token(&TokenHash::of(other.as_str())), None);
        let stored = String::from_utf8(logins.tokens["ci"].encode()).unwrap();
        assert!(!stored.contains(text.as_str()), "{stored}");
        assert_eq!(Token::decode(stored.as_bytes()).unwrap(), logins.tokens["ci"]);
    }

    #[test]
    fn names_are_plain() {
        for good in ["a", "ops.berlin", "ada@example.com", "ci-7_x"] {
            check_name(good).unwrap();
        }
        for bad in ["", "a b", "a:b", "a/b", "ä", ".", "..", &"a".repeat(64)] {
            assert_eq!(check_name(bad), Err(AccountError::Name(bad.to_owned())));
        }
    }
}
