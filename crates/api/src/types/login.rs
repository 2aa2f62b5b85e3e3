//! Who manages a member from afar.

use std::fmt::{self, Debug, Formatter};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::same_words;

/// What somebody may do; a later role may do all that an earlier one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Look at everything but accounts and tokens.
    ReadOnly,
    /// Change what is stored: volumes, snapshots, disks that are there, the array.
    Operator,
    /// Decide who may do what, and which disks of the machine are used.
    Administrator,
}

same_words!(Role, group::accounts::Role: ReadOnly, Operator, Administrator);

/// A password of 12 to 255 bytes. It is taken and never given or shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = Password, min_length = 3, max_length = 255)]
pub struct Password(pub String);

impl Debug for Password {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("Password(..)")
    }
}

/// An account to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAccount {
    /// Unique: 1 to 63 letters, digits, `-`, `.`, `_` or `@`.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// What it logs in with.
    pub password: Password,
}

/// What is to be changed of an account; what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountChange {
    /// What it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Another password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
    /// Whether it may not log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}

/// Who logs in with a name and a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// It may not log in.
    pub disabled: bool,
    /// When it was made.
    pub created_unix_seconds: u64,
    /// The number of its last change, which its tag is made of and which does not travel.
    #[serde(skip)]
    pub(crate) changed: u64,
}

impl From<member::AccountShown> for Account {
    fn from(shown: member::AccountShown) -> Self {
        let member::AccountShown { name, role, disabled, created_unix_seconds, written } = shown;
        let changed = written.changed;
        Self { name, role: role.into(), disabled, created_unix_seconds, changed }
    }
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Unique: 1 to 63 letters, digits, `-`, `.`, `_` or `@`.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// From when on it is worth nothing; if it is left out it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_seconds: Option<u64>,
}

/// What a program logs in with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made.
    pub created_unix_seconds: u64,
    /// From when on it is worth nothing; null if it does not expire.
    pub expires_unix_seconds: Option<u64>,
    /// When it was used last, to the hour; null if it never was.
    pub used_unix_seconds: Option<u64>,
    /// The number of the change that made it, which its tag is made of and which does not travel.
    #[serde(skip)]
    pub(crate) made: u64,
}

impl From<member::TokenShown> for Token {
    fn from(shown: member::TokenShown) -> Self {
        let member::TokenShown {
            name,
            role,
            created_unix_seconds,
            expires_unix_seconds,
            used_unix_seconds,
            written,
        } = shown;
        let (role, made) = (role.into(), written.made);
        Self { name, role, created_unix_seconds, expires_unix_seconds, used_unix_seconds, made }
    }
}

/// A token that was made. What it is comes in this answer and never again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// From when on it is worth nothing; null if it does not expire.
    pub expires_unix_seconds: Option<u64>,
    /// What is sent in `Authorization: Bearer`.
    pub token: String,
}

impl Debug for CreatedToken {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("CreatedToken").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Where a member is managed from afar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Interface {
    /// Where it listens for TLS: addresses with ports. None if it does not.
    pub addresses: Vec<String>,
    /// The SHA-256 of its certificate, in hexadecimal digits; null if it does not listen.
    pub certificate_sha256: Option<String>,
    /// Why it does not listen although it was started to, and what to do: a sentence. Null if it listens, or need not.
    #[serde(default)]
    pub not_over_tls: Option<String>,
    /// Which of its logs are not written to the disk, and why: a sentence each.
    #[serde(default)]
    pub logs_not_written: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_tokens_are_not_shown() {
        let password = Password("hush-hush-hush".to_owned());
        let new = NewAccount { name: "ada".to_owned(), role: Role::Operator, password };
        let made = CreatedToken {
            name: "ci".to_owned(),
            role: Role::ReadOnly,
            expires_unix_seconds: None,
            token: "hush".to_owned(),
        };
        let shown = format!("{new:?} {made:?}");
        assert!(
            shown.contains("ada") && shown.contains("ci") && !shown.contains("hush"),
            "{shown}"
        );
    }

    #[test]
    fn roles_have_the_words_of_the_group() {
        for role in group::accounts::Role::ALL {
            assert_eq!(serde_json::to_value(Role::from(role)).unwrap(), role.word());
        }
    }
}
