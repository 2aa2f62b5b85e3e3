//! What units of earlier versions kept in files of the data directory, `reservations/SERIAL.reservations` and
//! `reservations/SERIAL.unsanitized`: it is taken over once into the store on the array.
//!
//! ```text
//!  SERIAL.reservations ─ read ─▶ stored on the array ─ renamed ─▶ SERIAL.reservations.moved
//!                                     ╰── cut off here: the next start finds it stored, and renames
//! ```
//!
//! A file that was moved is never read again: what is on the array may be newer.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use group::settings::{UnitKey, UnitRecord};

use super::{DataError, RESERVATIONS};

const RESERVATIONS_END: &str = ".reservations";
const SANITIZE_END: &str = ".unsanitized";
const MOVED_END: &str = ".moved";

/// The files of the units of one array.
#[derive(Debug)]
pub(crate) struct UnitFiles {
    dir: PathBuf,
    /// How their serial numbers begin.
    prefix: String,
}

impl UnitFiles {
    /// Those in the data directory `data` whose serial numbers begin with `prefix`.
    pub(crate) fn new(data: &Path, prefix: String) -> Self {
        Self { dir: data.join(RESERVATIONS), prefix }
    }

    /// Which records there are.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn list(&self) -> Result<Vec<UnitKey>, DataError> {
        let failed = |source| DataError::Read { path: self.dir.clone(), source };
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut keys = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            keys.extend(name.to_str().and_then(key_of).filter(|key| self.is_ours(key)));
        }
        Ok(keys)
    }

    fn is_ours(&self, key: &UnitKey) -> bool {
        key.serial.starts_with(&self.prefix)
    }

    /// What a record holds.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&self, key: &UnitKey) -> Result<Vec<u8>, DataError> {
        let path = self.path(key);
        fs::read(&path).map_err(|source| DataError::Read { path, source })
    }

    /// Moves records aside that are on the array: they are not asked any more.
    ///
    /// # Errors
    /// They cannot be renamed. They are found again, and change nothing.
    pub(crate) fn set_aside(&self, keys: &[UnitKey]) -> Result<(), DataError> {
        for key in keys {
            rename_aside(&self.path(key))?;
        }
        Ok(())
    }

    /// Whether there are records of any array.
    pub(crate) fn has_any(&self) -> bool {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_str().and_then(key_of).is_some())
    }

    fn path(&self, key: &UnitKey) -> PathBuf {
        let end = match key.record {
            UnitRecord::Reservations => RESERVATIONS_END,
            UnitRecord::Sanitize => SANITIZE_END,
        };
        self.dir.join(format!("{}{end}", key.serial))
    }
}

/// Gives a file of an earlier version a name under which nobody asks for it, but an operator finds it.
pub(super) fn rename_aside(path: &Path) -> Result<(), DataError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(MOVED_END);
    let renamed = || -> io::Result<()> {
        fs::rename(path, &aside)?;
        ring::sync_parent(path)
    };
    renamed().map_err(|source| DataError::Write { path: aside.clone().into(), source })
}

/// Serial numbers of arrays have nothing in them that a file's name could not have.
fn key_of(name: &str) -> Option<UnitKey> {
    let ends = [(RESERVATIONS_END, UnitRecord::Reservations), (SANITIZE_END, UnitRecord::Sanitize)];
    ends.into_iter().find_map(|(end, record)| {
        let serial = name.strip_suffix(end)?.to_owned();
        Some(UnitKey { serial, record })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_array_are_found_read_and_moved_once() {
        let dir = tempfile::tempdir().unwrap();
        let files = UnitFiles::new(dir.path(), "AB-".to_owned());
        assert!(files.list().unwrap().is_empty() && !files.has_any(), "no directory at all");
        let reservations = dir.path().join(RESERVATIONS);
        fs::create_dir(&reservations).unwrap();
        for name in ["AB-V1.reservations", "AB-V2.unsanitized", "CD-V1.reservations", "other"] {
            fs::write(reservations.join(name), name).unwrap();
        }
        let mut keys = files.list().unwrap();
        keys.sort();
        let key = |serial: &str, record| UnitKey { serial: serial.to_owned(), record };
        let ours = [key("AB-V1", UnitRecord::Reservations), key("AB-V2", UnitRecord::Sanitize)];
        assert_eq!(keys, ours);
        assert_eq!(files.read(&keys[1]).unwrap(), b"AB-V2.unsanitized");
        files.set_aside(&keys).unwrap();
        assert!(files.list().unwrap().is_empty());
        assert!(files.has_any(), "another array's are left");
        assert!(reservations.join("AB-V1.reservations.moved").exists());
        assert!(files.set_aside(&keys).is_err(), "they are gone");
    }
}
