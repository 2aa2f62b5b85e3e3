//! What tells a move of a volume from all others.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::secrets::hex;

const ID_BYTES: usize = 16;

const DIGITS: usize = 2 * ID_BYTES;

/// What tells a move of a volume from all others, also of the same volume: 128 random bits, as 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MoveId(String);

/// A text that is no identity of a move.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the identity of a move is {DIGITS} hexadecimal digits in lower case, and '{0}' is not")]
pub struct MoveIdError(String);

impl MoveId {
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

impl Display for MoveId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for MoveId {
    type Error = MoveIdError;

    fn try_from(text: String) -> Result<Self, MoveIdError> {
        // It is a part of the names of keys and of volumes: two ways to write one would be two moves.
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_id = text.len() == DIGITS && text.bytes().all(is_digit);
        if is_id { Ok(Self(text)) } else { Err(MoveIdError(text)) }
    }
}

impl FromStr for MoveId {
    type Err = MoveIdError;

    fn from_str(text: &str) -> Result<Self, MoveIdError> {
        text.to_owned().try_into()
    }
}

impl From<MoveId> for String {
    fn from(id: MoveId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_read_again_and_nothing_else_is() {
        let id = MoveId::draw().expect("there is randomness");
        assert_ne!(id, MoveId::draw().expect("there is randomness"));
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        let json = serde_json::to_string(&id).expect("it is a text");
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<MoveId>(&json).expect("it reads"), id);
        let digits = "0123456789abcdef0123456789abcde";
        let longer = |end: &str| format!("{digits}{end}");
        for wrong in [String::new(), longer(""), longer("F"), longer("/"), longer("00")] {
            let error = wrong.parse::<MoveId>().expect_err("it is refused").to_string();
            assert!(error.ends_with(&format!("and '{wrong}' is not")), "{error}");
            assert!(serde_json::from_str::<MoveId>(&format!("\"{wrong}\"")).is_err(), "{wrong}");
        }
    }
}
