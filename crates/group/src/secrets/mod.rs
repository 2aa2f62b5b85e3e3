//! Secrets in the store, encrypted with a key that lies elsewhere.
//!
//! Whoever has the disks, or reads the store, has no secret of a host. The key is in a file of mode 600 or
//! comes from systemd, and never in the store. A store that is opened without its key works; its
//! secrets say that they must be set again.
//!
//! What members of a group share is sealed with a key that each of them [derives](Key::derived) from what it
//! has, so that no file holds it and none is read or written for it ([`Vault::of_key`]).
//!
//! Each secret is sealed by XChaCha20-Poly1305 under a random nonce of 24 bytes. The version of this
//! format, the name of the key and the place in the store are authenticated along: a secret that is moved
//! to the place of another one does not open.

pub(crate) mod hex;
mod kept;
mod key;

use std::fmt::{self, Debug, Formatter};
use std::path::Path;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::record::Setting;

pub use kept::{KeptKey, KeyFile};
pub use key::{CREDENTIAL, Key, KeyError, KeySource};

/// A secret in the clear. Not shown, and wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Debug for Secret {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(..)")
    }
}

/// A secret as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The name of the key, which does not tell the key.
    key: String,
    /// In hexadecimal digits, as is the text.
    nonce: String,
    text: String,
}

impl Sealed {
    /// The name of the key that it was sealed with, as [`Key::name`].
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl Setting for Sealed {
    const WHAT: &'static str = "a secret";
}

/// Why a secret cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The key that it was sealed with is not here.
    #[error(
        "the secret at '{place}' was encrypted with the key {key}, which is not here: set the secret again, or bring the key back and start again"
    )]
    NoKey {
        /// Where it is in the store.
        place: String,
        /// The name of the key.
        key: String,
    },
    /// Sealed for another place, or damaged.
    #[error("the secret at '{place}' is not what was stored there: set it again")]
    NotIntact {
        /// Where it is in the store.
        place: String,
    },
}

/// Seals and opens secrets with the key of this machine, or with one that was derived.
///
/// Invariant: without a source there is a key, which is what the vault was made of.
#[derive(Debug)]
pub struct Vault {
    /// Where the key lies; `None` for one that lies nowhere.
    source: Option<KeySource>,
    /// What seals, and opens what it has sealed.
    key: Option<Key>,
    /// The key in the file beside a credential: it opens what was sealed with it.
    earlier: Option<Key>,
}

impl Vault {
    /// With the key if it is there; without one it opens nothing, and makes one when it first seals, if not before.
    ///
    /// # Errors
    /// A key is there and cannot be used. That beside a credential is a [fault](Self::fault).
    pub fn open(source: KeySource) -> Result<Self, KeyError> {
        let key = source.read()?;
        Ok(Self { key, ..Self::without_key(source) })
    }

    /// Without a key that seals, as there is one that cannot be used: it opens nothing but what was sealed with that
    /// beside a credential.
    #[must_use]
    pub fn without_key(source: KeySource) -> Self {
        let earlier = source.beside().and_then(|file| file.read().ok().flatten());
        Self { source: Some(source), key: None, earlier }
    }

    /// With this key, which lies nowhere: no file is read or written for it, and it has no faults.
    #[must_use]
    pub const fn of_key(key: Key) -> Self {
        Self { source: None, key: Some(key), earlier: None }
    }

    /// The file that a key lies in, or would: also where systemd has another one. Empty if it lies nowhere.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.source {
            Some(KeySource::File(path) | KeySource::Credential { file: path, .. }) => path,
            None => Path::new(""),
        }
    }

    /// Whether systemd has handed over a key.
    #[must_use]
    pub const fn has_credential(&self) -> bool {
        matches!(self.source, Some(KeySource::Credential { .. }))
    }

    /// Why there is a key that cannot be used, if it is so.
    #[must_use]
    pub fn fault(&self) -> Option<KeyError> {
        let source = self.source.as_ref()?;
        let of_key = if self.key.is_some() { None } else { source.read().err() };
        let of_earlier = || match self.earlier {
            Some(_) => None,
            None => source.beside()?.read().err(),
        };
        of_key.or_else(of_earlier)
    }

    /// The key that lies in the file, if it is in use and is not the credential as well.
    #[must_use]
    pub fn kept_key(&self) -> Option<KeptKey> {
        let source = self.source.as_ref()?;
        let (file, key) = match source.beside() {
            None => (source.clone(), self.key.as_ref()),
            Some(file) => (file, self.earlier.as_ref()),
        };
        let sealing = self.key.as_ref().filter(|_| *source != file);
        let key = key.filter(|key| sealing.is_none_or(|sealing| sealing.name() != key.name()))?;
        Some(KeptKey { file, key: key.clone() })
    }

    /// As if its file had this key, whatever lies there by now: it is of a vault that was open before. One without a
    /// file has none to remember.
    pub fn remember(&mut self, kept: &KeptKey) {
        let Some(source) = &self.source else { return };
        let has_file_beside = source.beside().is_some();
        let place = if has_file_beside { &mut self.earlier } else { &mut self.key };
        *place = Some(kept.key.clone());
    }

    /// Makes the key if there is none, so that nobody waits for its file system when the first secret is sealed.
    ///
    /// # Errors
    /// There is none and none can be made, or one that cannot be used; it is tried again with the first secret.
    pub fn make_ready(&mut self) -> Result<(), KeyError> {
        self.key = Some(self.take_key()?);
        Ok(())
    }

    fn take_key(&mut self) -> Result<Key, KeyError> {
        if let Some(key) = self.key.take() {
            return Ok(key);
        }
        let source = self.source.as_ref().expect("a vault without a source has a key");
        Ok(match source.read()? {
            Some(key) => key,
            None => source.make()?,
        })
    }

    /// Seals a secret for its place in the store.
    ///
    /// # Errors
    /// There is a key that cannot be used, or none and none can be made.
    pub fn seal(&mut self, place: &str, secret: &Secret) -> Result<Sealed, KeyError> {
        let key = self.take_key()?;
        let sealed = key.seal(place, secret);
        self.key = Some(key);
        sealed
    }

    /// Opens the secret of a place in the store.
    ///
    /// # Errors
    /// [`SecretError`]
    pub fn unseal(&self, place: &str, sealed: &Sealed) -> Result<Secret, SecretError> {
        let key = self.key.iter().chain(&self.earlier).find(|key| key.name() == sealed.key);
        let missing = || SecretError::NoKey { place: place.to_owned(), key: sealed.key.clone() };
        key.ok_or_else(missing)?.unseal(place, sealed)
    }
}

#[cfg(test)]
mod tests;
