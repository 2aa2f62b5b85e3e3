//! What tells a group from all others.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::secrets::hex;

const ID_BYTES: usize = 16;

const DIGITS: usize = 2 * ID_BYTES;

/// What tells a group from all others, whatever they are called: 128 random bits, as 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupId(String);

/// A text that is no identity of a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the identity of a group is {DIGITS} hexadecimal digits in lower case, and '{0}' is not")]
pub struct GroupIdError(String);

impl GroupId {
    /// Draws one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn draw() -> Result<Self, getrandom::Error> {
        let mut bits = [0; ID_BYTES];
        getrandom::fill(&mut bits)?;
        Ok(Self(hex::encode(&bits)))
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for GroupId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for GroupId {
    type Error = GroupIdError;

    fn try_from(text: String) -> Result<Self, GroupIdError> {
        // It is a part of the names of keys: two ways to write one would be two groups.
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_id = text.len() == DIGITS && text.bytes().all(is_digit);
        if is_id { Ok(Self(text)) } else { Err(GroupIdError(text)) }
    }
}

impl FromStr for GroupId {
    type Err = GroupIdError;

    fn from_str(text: &str) -> Result<Self, GroupIdError> {
        text.to_owned().try_into()
    }
}

impl From<GroupId> for String {
    fn from(id: GroupId) -> Self {
        id.0
    }
}
