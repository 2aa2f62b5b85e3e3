//! The file of a key while its key is in use: whether the next start finds it there.

use std::io::ErrorKind;
use std::path::Path;

use super::{Key, KeyError, KeySource};

/// A key that is in use, and the file that the next start reads it from.
#[derive(Debug, Clone)]
pub struct KeptKey {
    pub(super) file: KeySource,
    pub(super) key: Key,
}

/// What lies where the key should.
#[derive(Debug)]
pub enum KeyFile {
    /// The key.
    InPlace,
    /// Nothing did, and the key was written back.
    Restored,
    /// Something else, which is left as it is.
    Other,
    /// The directory is gone, which is told by itself.
    NoDirectory,
    /// It cannot be read or written, or it is no secret.
    Unusable(KeyError),
}

impl KeptKey {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The name of the key, as [`Key::name`].
    #[must_use]
    pub fn name(&self) -> String {
        self.key.name()
    }

    /// Looks at the file, and writes the key back where there is none. It never replaces what is there.
    #[must_use]
    pub fn look(&self) -> KeyFile {
        match self.file.read() {
            Ok(Some(found)) if found.name() == self.key.name() => KeyFile::InPlace,
            Ok(Some(_)) | Err(KeyError::Malformed(_)) => KeyFile::Other,
            Ok(None) => match self.file.write(&self.key) {
                Ok(()) => KeyFile::Restored,
                // Somebody has put something back, or a link leads to nothing.
                Err(error) if is_taken(&error) => match self.file.read() {
                    Ok(Some(found)) if found.name() == self.key.name() => KeyFile::InPlace,
                    Ok(None) => KeyFile::Unusable(error),
                    Ok(Some(_)) | Err(_) => KeyFile::Other,
                },
                Err(KeyError::System { error, .. }) if error.kind() == ErrorKind::NotFound => {
                    KeyFile::NoDirectory
                }
                Err(error) => KeyFile::Unusable(error),
            },
            Err(error) => KeyFile::Unusable(error),
        }
    }
}

fn is_taken(error: &KeyError) -> bool {
    matches!(error, KeyError::System { error, .. } if error.kind() == ErrorKind::AlreadyExists)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::{CREDENTIAL, Secret, Vault};
    use super::*;

    const PLACE: &str = "/chap/users/alice";

    #[test]
    fn a_key_that_is_gone_is_written_back_and_another_one_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let source = KeySource::File(path.clone());
        let mut vault = Vault::open(source.clone()).unwrap();
        assert!(vault.kept_key().is_none(), "nothing was sealed yet");
        let sealed = vault.seal(PLACE, &Secret::new(b"hush-hush-hush".to_vec())).unwrap();
        let kept = vault.kept_key().expect("it is in the file");
        assert!(matches!(kept.look(), KeyFile::InPlace));
        let before = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(kept.look(), KeyFile::Restored));
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(kept.look(), KeyFile::InPlace));
        assert!(Vault::open(source).unwrap().unseal(PLACE, &sealed).is_ok());
        for other in ["ab".repeat(32), "rubbish".to_owned()] {
            fs::write(&path, &other).unwrap();
            assert!(matches!(kept.look(), KeyFile::Other), "{other}");
            assert_eq!(fs::read(&path).unwrap(), other.as_bytes());
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(dir.path().join("away"), &path).unwrap();
        assert!(matches!(kept.look(), KeyFile::Unusable(_)), "it leads to nothing");
        assert!(!dir.path().join("key.half-made").exists(), "no key lies about");
        fs::remove_file(&path).unwrap();
        fs::write(&path, before).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(kept.look(), KeyFile::Unusable(KeyError::Exposed(_))));
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(matches!(kept.look(), KeyFile::NoDirectory));
    }

    #[test]
    fn a_file_whose_key_is_the_credential_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (path, credential) = (dir.path().join("key"), dir.path().join(CREDENTIAL));
        let source = || KeySource::find(Some(dir.path()), path.clone());
        Vault::open(source()).unwrap().make_ready().unwrap();
        fs::write(&credential, "ab".repeat(32)).unwrap();
        let kept = Vault::open(source()).unwrap().kept_key().expect("it is another key");
        assert_eq!(kept.path(), path);
        // It was moved to where systemd has it.
        fs::copy(&path, &credential).unwrap();
        assert!(Vault::open(source()).unwrap().kept_key().is_none());
    }
}
