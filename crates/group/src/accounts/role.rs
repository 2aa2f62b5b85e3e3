//! What somebody may do.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What somebody may do; a later role may do all that an earlier one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Look at everything but accounts and tokens.
    ReadOnly,
    /// Change what is stored: volumes, snapshots, disks that are there, the array.
    Operator,
    /// Decide who may do what, and which disks of the machine are used.
    Administrator,
}

impl Role {
    /// All, from the least.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Operator, Self::Administrator];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Operator => "operator",
            Self::Administrator => "administrator",
        }
    }
}

impl Display for Role {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// A word that is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no role: write read-only, operator or administrator")]
pub struct NoSuchRole(String);

impl FromStr for Role {
    type Err = NoSuchRole;

    fn from_str(text: &str) -> Result<Self, NoSuchRole> {
        let found = Self::ALL.into_iter().find(|role| role.word() == text);
        found.ok_or_else(|| NoSuchRole(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_one_word_each_and_an_order() {
        for role in Role::ALL {
            assert_eq!(role.word().parse(), Ok(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.word());
        }
        assert!(Role::ALL.is_sorted() && Role::ReadOnly < Role::Administrator);
        assert!("root".parse::<Role>().unwrap_err().to_string().contains("write read-only"));
    }
}
