//! What tells a group, a move of a volume, a set of snapshots, a spread volume or a slice of one from all others of its
//! kind.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::secrets::hex;

const ID_BYTES: usize = 16;

const DIGITS: usize = 2 * ID_BYTES;

fn draw() -> Result<String, getrandom::Error> {
    let mut bits = [0; ID_BYTES];
    getrandom::fill(&mut bits)?;
    Ok(hex::encode(&bits))
}

/// It is a part of the names of keys and of volumes: two ways to write one would be two of what it is of.
fn is_identity(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == DIGITS && text.bytes().all(is_digit)
}

/// One type for each kind, so that nobody takes one for another.
macro_rules! identity {
    ($(#[$about:meta])* $Id:ident, $(#[$about_error:meta])* $Error:ident, $refusal:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $Id(String);

        $(#[$about_error])*
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[error($refusal)]
        pub struct $Error(String);

        impl $Id {
            /// Draws one.
            ///
            /// # Errors
            /// The system has no randomness.
            pub fn draw() -> Result<Self, getrandom::Error> {
                draw().map(Self)
            }

            /// Its digits.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Display for $Id {
            fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $Id {
            type Error = $Error;

            fn try_from(text: String) -> Result<Self, $Error> {
                if is_identity(&text) { Ok(Self(text)) } else { Err($Error(text)) }
            }
        }

        impl FromStr for $Id {
            type Err = $Error;

            fn from_str(text: &str) -> Result<Self, $Error> {
                text.to_owned().try_into()
            }
        }

        impl From<$Id> for String {
            fn from(id: $Id) -> Self {
                id.0
            }
        }
    };
}

identity!(
    /// What tells a group from all others, whatever they are called: 128 random bits, as 32 hexadecimal digits.
    GroupId,
    /// A text that is no identity of a group.
    GroupIdError,
    "the identity of a group is {DIGITS} hexadecimal digits in lower case, and '{0}' is not"
);

identity!(
    /// What tells a move of a volume from all others, also of the same volume: 128 random bits, as 32 hexadecimal digits.
    MoveId,
    /// A text that is no identity of a move.
    MoveIdError,
    "the identity of a move is {DIGITS} hexadecimal digits in lower case, and '{0}' is not"
);

identity!(
    /// What tells a set of snapshots of one moment from all others, also of the same volumes: 128 random bits, as 32
    /// hexadecimal digits.
    SetId,
    /// A text that is no identity of a set.
    SetIdError,
    "the identity of a set of snapshots is {DIGITS} hexadecimal digits in lower case, and '{0}' is not"
);

identity!(
    /// What tells a volume that is spread over members from all others, also from another attempt to make it: 128 random
    /// bits, as 32 hexadecimal digits.
    SpreadId,
    /// A text that is no identity of a spread volume.
    SpreadIdError,
    "the identity of a spread volume is {DIGITS} hexadecimal digits in lower case, and '{0}' is not"
);

identity!(
    /// What tells a slice of a spread volume from all others: 128 random bits, as 32 hexadecimal digits.
    SliceId,
    /// A text that is no identity of a slice.
    SliceIdError,
    "the identity of a slice is {DIGITS} hexadecimal digits in lower case, and '{0}' is not"
);

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;

    use super::*;

    fn is_read_as_it_is_drawn<Id>(draw: fn() -> Result<Id, getrandom::Error>, what: &str)
    where
        Id: Debug + Clone + PartialEq + Display + Serialize + DeserializeOwned + FromStr,
        Id::Err: Debug + Display,
    {
        let id = draw().expect("there is randomness");
        assert_ne!(id, draw().expect("there is randomness"));
        assert_eq!(id.to_string().parse::<Id>().expect("it is one"), id);
        let json = serde_json::to_string(&id).expect("it is a text");
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<Id>(&json).expect("it reads"), id);
        let digits = "0123456789abcdef0123456789abcde";
        let longer = |end: &str| format!("{digits}{end}");
        for wrong in [String::new(), longer(""), longer("F"), longer("/"), longer("00")] {
            let error = wrong.parse::<Id>().expect_err("it is refused").to_string();
            let sentence = format!(
                "the identity of a {what} is 32 hexadecimal digits in lower case, and '{wrong}' is not"
            );
            assert_eq!(error, sentence);
            assert!(serde_json::from_str::<Id>(&format!("\"{wrong}\"")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_drawn_is_read_again_and_nothing_else_is() {
        is_read_as_it_is_drawn(GroupId::draw, "group");
        is_read_as_it_is_drawn(MoveId::draw, "move");
        is_read_as_it_is_drawn(SetId::draw, "set of snapshots");
        is_read_as_it_is_drawn(SpreadId::draw, "spread volume");
        is_read_as_it_is_drawn(SliceId::draw, "slice");
    }
}
