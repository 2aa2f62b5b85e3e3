//! The key that secrets are sealed with, and where it lies.

use std::fmt::{self, Debug, Formatter};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{Sealed, Secret, SecretError, hex};

/// The name of the key among the credentials of a systemd service (`LoadCredential=`,
/// `SetCredentialEncrypted=`).
pub const CREDENTIAL: &str = "drystone-store-key";

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// A file that is longer holds no key.
const FILE_BYTES_MAX: u64 = 4096;

/// The bits of a file's mode that let others than its owner read or change it.
const MODE_OTHERS: u32 = 0o077;

/// Why the key cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It is no secret.
    #[error(
        "others than its owner may read or change '{}', the key of the configuration store: run chmod 600 on it",
        .0.display()
    )]
    Exposed(PathBuf),
    /// It is no key.
    #[error(
        "'{}' holds no key of a configuration store, which is a line of 64 hexadecimal digits: put the key that was there \
         before in its place; or move the file away, so that another key is made, and set those secrets again that were \
         encrypted with the one before, and nothing else",
        .0.display()
    )]
    Malformed(PathBuf),
    /// What systemd hands to the service is none.
    #[error(
        "the credential '{}' holds no key of a configuration store, which is a line of 64 hexadecimal digits: give the \
         service the key that it had before; or another one, and set those secrets again that were encrypted with the one \
         before, and nothing else",
        .0.display()
    )]
    BadCredential(PathBuf),
    /// It cannot be read or written.
    #[error("the key of the configuration store, '{}', is not available: {error}", path.display())]
    System {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Where the key lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In a file of mode 600, which is made when it is first needed.
    File(PathBuf),
    /// Among the credentials that systemd hands to the service, who guards them. What was sealed before the service had
    /// one opens with the key in the file beside it, if there is one.
    Credential {
        /// The credential.
        path: PathBuf,
        /// The file of a key from before.
        file: PathBuf,
    },
}

impl KeySource {
    /// systemd's credential if it is there (`credentials` is `$CREDENTIALS_DIRECTORY`), with this file beside it; else
    /// this file.
    #[must_use]
    pub fn find(credentials: Option<&Path>, file: PathBuf) -> Self {
        let credential = credentials.map(|directory| directory.join(CREDENTIAL));
        match credential.filter(|path| path.exists()) {
            Some(path) => Self::Credential { path, file },
            None => Self::File(file),
        }
    }

    /// The file beside a credential.
    pub(super) fn beside(&self) -> Option<Self> {
        match self {
            Self::File(_) => None,
            Self::Credential { file, .. } => Some(Self::File(file.clone())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Credential { path, .. } => path,
        }
    }

    fn malformed(&self) -> KeyError {
        match self {
            Self::File(path) => KeyError::Malformed(path.clone()),
            Self::Credential { path, .. } => KeyError::BadCredential(path.clone()),
        }
    }

    fn failed(&self, error: io::Error) -> KeyError {
        KeyError::System { path: self.path().to_owned(), error }
    }

    /// The key, if there is one.
    ///
    /// # Errors
    /// There is one that cannot be used.
    pub fn read(&self) -> Result<Option<Key>, KeyError> {
        let path = self.path();
        // A pipe would be waited for, and a device never ends.
        if fs::metadata(path).is_ok_and(|found| !found.is_file() || found.len() > FILE_BYTES_MAX) {
            return Err(self.malformed());
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(self.malformed());
            }
            Err(error) => return Err(self.failed(error)),
        };
        if matches!(self, Self::File(_)) {
            let mode = fs::metadata(path).map_err(|error| self.failed(error))?.permissions().mode();
            if mode & MODE_OTHERS != 0 {
                return Err(KeyError::Exposed(path.to_owned()));
            }
        }
        let bytes = hex::decode(text.trim_end_matches(['\r', '\n'])).map(Zeroizing::new);
        let bytes = bytes.ok_or_else(|| self.malformed())?;
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        if bytes.len() != KEY_BYTES {
            return Err(self.malformed());
        }
        key.copy_from_slice(&bytes);
        Ok(Some(Key(key)))
    }

    /// Makes a random key that outlives a loss of power.
    pub(super) fn make(&self) -> Result<Key, KeyError> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *key).map_err(|error| self.failed(error.into()))?;
        let key = Key(key);
        self.write(&key)?;
        Ok(key)
    }

    /// Writes a key where there is none.
    pub(super) fn write(&self, key: &Key) -> Result<(), KeyError> {
        let path = self.path();
        let half = path.with_extension("half-made");
        let write = || {
            // What is left of one that was cut off was never used.
            match fs::remove_file(&half) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&half)?;
            let line = Zeroizing::new(format!("{}\n", *Zeroizing::new(hex::encode(&*key.0))));
            file.write_all(line.as_bytes())?;
            file.sync_all()?;
            // A link does not replace a key that somebody put there meanwhile.
            fs::hard_link(&half, path)?;
            fs::remove_file(&half)?;
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|error| {
            // Best effort: a key is to lie in one place only.
            let _ = fs::remove_file(&half);
            self.failed(error)
        })
    }
}

/// A key. Not shown, and wiped when it is dropped.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; KEY_BYTES]>);

impl Debug for Key {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Key").field(&self.name()).finish()
    }
}

impl Key {
    /// The key that everybody has who has `from`, which must hold as much that nobody can guess as a key does. Keys of
    /// two purposes tell nothing of each other.
    #[must_use]
    pub fn derived(purpose: &str, from: &[u8]) -> Self {
        // The length keeps a purpose from running on into what it is derived from.
        let hash = Sha256::new()
            .chain_update(b"derived drystone store key 1\0")
            .chain_update((purpose.len() as u64).to_be_bytes())
            .chain_update(purpose)
            .chain_update(from);
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        key.copy_from_slice(&hash.finalize());
        Self(key)
    }

    /// The name of the key, which tells it from others and does not tell the key.
    #[must_use]
    pub fn name(&self) -> String {
        let hash =
            Sha256::new().chain_update(b"name of a drystone store key\0").chain_update(*self.0);
        hex::encode(&hash.finalize()[..8])
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.0).into())
    }

    pub(super) fn seal(&self, place: &str, secret: &Secret) -> Result<Sealed, KeyError> {
        let mut nonce = [0; NONCE_BYTES];
        let no_random = |error: getrandom::Error| KeyError::System {
            path: PathBuf::from("/dev/urandom"),
            error: error.into(),
        };
        getrandom::fill(&mut nonce).map_err(no_random)?;
        let key = self.name();
        let along = along(&key, place);
        let payload = Payload { msg: secret.as_bytes(), aad: along.as_bytes() };
        let text = self.cipher().encrypt(&XNonce::from(nonce), payload);
        let text = text.expect("a secret is shorter than what the cipher takes");
        Ok(Sealed { key, nonce: hex::encode(&nonce), text: hex::encode(&text) })
    }

    pub(super) fn unseal(&self, place: &str, sealed: &Sealed) -> Result<Secret, SecretError> {
        let opened = || {
            let nonce: [u8; NONCE_BYTES] = hex::decode(&sealed.nonce)?.try_into().ok()?;
            let text = hex::decode(&sealed.text)?;
            let along = along(&sealed.key, place);
            let payload = Payload { msg: &text, aad: along.as_bytes() };
            self.cipher().decrypt(&XNonce::from(nonce), payload).ok().map(Secret::new)
        };
        opened().ok_or_else(|| SecretError::NotIntact { place: place.to_owned() })
    }
}

/// What is authenticated along with a secret.
fn along(key: &str, place: &str) -> String {
    format!("drystone secret 1\0{key}\0{place}")
}
