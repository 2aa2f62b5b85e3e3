//! Settings as they lie in the store: JSON that says which version it has.
//!
//! `{"version":1,"value":{...}}`. What a later version wrote is refused and never read by halves; a field that
//! is new gets a default, so that what an earlier one wrote can be read.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What can be kept in the store.
pub trait Setting: Serialize + DeserializeOwned {
    /// What it is, as an operator says it.
    const WHAT: &'static str;

    /// The version that is written, and the latest that is understood.
    const VERSION: u32 = 1;

    /// Whether it can be, beyond what its types say. What cannot is as good as damaged.
    ///
    /// # Errors
    /// Why not, as a sentence.
    fn check_sound(&self) -> Result<(), String> {
        Ok(())
    }

    /// As it lies in the store.
    fn encode(&self) -> Vec<u8> {
        let written = Written { version: Self::VERSION, value: self };
        serde_json::to_vec(&written).expect("settings have string keys and plain values")
    }

    /// Reads it again.
    ///
    /// # Errors
    /// [`SettingError`]
    fn decode(bytes: &[u8]) -> Result<Self, SettingError> {
        let damaged = |error| SettingError::Damaged { what: Self::WHAT, error: Arc::new(error) };
        let label: Label = serde_json::from_slice(bytes).map_err(damaged)?;
        if label.version > Self::VERSION {
            let (found, known) = (label.version, Self::VERSION);
            return Err(SettingError::Later { what: Self::WHAT, found, known });
        }
        let written: Written<Self> = serde_json::from_slice(bytes).map_err(damaged)?;
        let unsound = |why: String| damaged(serde::de::Error::custom(why));
        written.value.check_sound().map_err(unsound)?;
        Ok(written.value)
    }
}

#[derive(Deserialize)]
struct Label {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Written<T> {
    version: u32,
    value: T,
}

/// Why a setting cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SettingError {
    /// A later version wrote it.
    #[error(
        "{what} was stored in version {found}, and this version of drystone knows {known}: use the version that wrote it, or a later one"
    )]
    Later {
        /// What it is.
        what: &'static str,
        /// Its version.
        found: u32,
        /// The latest that is known.
        known: u32,
    },
    /// It is not what it should be.
    #[error("{what} cannot be read from the configuration store: {error}")]
    Damaged {
        /// What it is.
        what: &'static str,
        /// What is wrong.
        error: Arc<serde_json::Error>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Colour {
        red: u8,
        #[serde(default)]
        green: u8,
    }

    impl Setting for Colour {
        const WHAT: &'static str = "a colour";
    }

    #[test]
    fn what_is_written_is_read_and_has_its_version() {
        let colour = Colour { red: 1, green: 2 };
        assert_eq!(colour.encode(), br#"{"version":1,"value":{"red":1,"green":2}}"#);
        assert_eq!(Colour::decode(&colour.encode()).unwrap(), colour);
        let early = br#"{"version":1,"value":{"red":3}}"#;
        assert_eq!(Colour::decode(early).unwrap(), Colour { red: 3, green: 0 });
    }

    #[test]
    fn a_later_version_and_damage_are_told_apart() {
        let said = |bytes: &[u8]| Colour::decode(bytes).unwrap_err().to_string();
        let later = said(br#"{"version":2,"value":"blue"}"#);
        assert!(later.starts_with("a colour was stored in version 2, and this"), "{later}");
        let damaged = said(br#"{"version":1,"value":"blue"}"#);
        assert!(damaged.starts_with("a colour cannot be read"), "{damaged}");
        assert!(said(b"\0").starts_with("a colour cannot be read"));
    }
}
