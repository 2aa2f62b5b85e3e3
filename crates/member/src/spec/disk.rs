//! A disk of an array, as written behind `--disk` and `--journal`: `PATH[:SIZE]`, or any other
//! medium with its kind in front.

use super::open::{How, open};
use super::size::SizeError;
use super::{DiskError, Medium, SpecError, parse_file, parse_medium};
use crate::printable::{is_obeyed, printable};
use block::BlockDevice;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// One disk of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDisk {
    medium: Medium,
    /// As written.
    text: String,
}

/// Why a disk was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemberDiskError {
    /// Nothing at all.
    #[error(
        "a disk of an array needs a path: write PATH[:SIZE], such as /dev/sdb or /srv/disk-0:100G"
    )]
    Empty,
    /// Data that is gone as soon as it is written.
    #[error(
        "'{0}' keeps nothing, so it cannot be a disk of an array: write PATH[:SIZE] or ram:SIZE"
    )]
    Null(String),
    /// The list of disks has one on each line, and people read its name on a screen.
    #[error(
        "'{0}' has control characters in its name, such as the end of a line: give it another name"
    )]
    Obeyed(String),
    /// As for any other disk.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A size that does not read.
    #[error(transparent)]
    Size(#[from] SizeError),
}

impl FromStr for MemberDisk {
    type Err = MemberDiskError;

    /// A path needs no kind in front of it; whether it is a file or a block device shows when it is
    /// opened. Every other kind that [`parse_medium`] knows can be a disk of an array too.
    fn from_str(text: &str) -> Result<Self, MemberDiskError> {
        if text.is_empty() {
            return Err(MemberDiskError::Empty);
        }
        let medium = match parse_medium(text) {
            Err(SpecError::Kind(_)) => parse_file(text)?,
            parsed => parsed?,
        };
        if matches!(medium, Medium::Null { .. }) {
            return Err(MemberDiskError::Null(text.to_owned()));
        }
        let disk = Self { medium, text: text.to_owned() };
        // The directory that a relative path begins in counts as well.
        match [text, &disk.name()].into_iter().find(|text| text.contains(is_obeyed)) {
            Some(obeyed) => Err(MemberDiskError::Obeyed(printable(obeyed).into_owned())),
            None => Ok(disk),
        }
    }
}

impl fmt::Display for MemberDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl MemberDisk {
    /// A file of its own kind: a missing one is made with `size_bytes`, sparse.
    #[must_use]
    pub fn file(path: &Path, size_bytes: u64) -> Self {
        let text = format!("{}:{}", path.display(), super::size::short(size_bytes));
        Self { medium: Medium::File { path: path.to_owned(), size_bytes: Some(size_bytes) }, text }
    }

    /// What is there already at this path.
    pub(crate) fn at(path: &Path) -> Self {
        let path = path.to_owned();
        let text = path.display().to_string();
        let medium = match is_block_device(&path) {
            true => Medium::Disk { path },
            false => Medium::File { path, size_bytes: None },
        };
        Self { medium, text }
    }

    /// Whether it is found again wherever it is looked for from.
    pub(crate) fn is_absolute(&self) -> bool {
        match &self.medium {
            Medium::File { path, .. } | Medium::Disk { path } => path.is_absolute(),
            Medium::Ram { .. } | Medium::Null { .. } => false,
            Medium::Sim { .. } | Medium::Volatile { .. } => true,
        }
    }

    /// The file or device node behind it, wherever it is reached from.
    pub fn path(&self) -> Option<PathBuf> {
        let path = match &self.medium {
            Medium::File { path, .. } | Medium::Disk { path } | Medium::Volatile { path, .. } => {
                path
            }
            Medium::Sim { path: Some(path), .. } => path,
            _ => return None,
        };
        Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
    }

    /// Whether opening it makes a file that is not there, or is there and still empty.
    pub fn is_new(&self) -> bool {
        let (Medium::File { path, size_bytes: Some(_) }
        | Medium::Sim { path: Some(path), .. }
        | Medium::Volatile { path, .. }) = &self.medium
        else {
            return false;
        };
        match fs::metadata(path) {
            Ok(data) => data.is_file() && data.len() == 0,
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }

    /// As another process must read it, which may have another working directory.
    pub fn absolute(&self) -> String {
        match (&self.medium, self.path()) {
            (Medium::File { size_bytes: Some(size_bytes), .. }, Some(path)) => {
                format!("file:{}:{size_bytes}", path.display())
            }
            (Medium::File { size_bytes: None, .. }, Some(path)) => path.display().to_string(),
            (Medium::Disk { .. }, Some(path)) => format!("disk:{}", path.display()),
            _ => self.text.clone(),
        }
    }

    /// How the array and its operator call it: the path, or what was written.
    pub fn name(&self) -> String {
        self.path().map_or_else(|| self.text.clone(), |path| path.display().to_string())
    }

    /// What finds the disk again after a restart; `None` for what does not outlive one.
    pub(crate) fn lasting(&self) -> Option<String> {
        let path = self.path()?;
        match &self.medium {
            Medium::File { .. } => Some(format!("file:{}", path.display())),
            Medium::Sim { .. } | Medium::Volatile { .. } => Some(self.text.clone()),
            _ => Some(format!("disk:{}", path.display())),
        }
    }

    /// Opens it. The array has caches, checksums and a journal of its own, so the page cache is
    /// bypassed and nothing is durable before the array asks for it.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn open(&self) -> Result<Arc<dyn BlockDevice>, DiskError> {
        let how = How { block_bytes: None, read_only: false, write_through: false, direct: true };
        open(&self.found(), &self.text, how)
    }

    /// Opens it to see what it is: nothing can be written, and nobody else is kept from it.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub(crate) fn open_to_look(&self) -> Result<Arc<dyn BlockDevice>, DiskError> {
        let how = How { block_bytes: None, read_only: true, write_through: false, direct: true };
        open(&self.found(), &self.text, how)
    }

    /// The medium; a path says what it is only once it is looked at.
    fn found(&self) -> Medium {
        match &self.medium {
            Medium::File { path, size_bytes: None } if is_block_device(path) => {
                Medium::Disk { path: path.clone() }
            }
            medium => medium.clone(),
        }
    }
}

fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.file_type().is_block_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(text: &str) -> MemberDisk {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_needs_no_kind() {
        assert_eq!(disk("/srv/a:10G").medium, disk("file:/srv/a:10G").medium);
        assert_eq!(disk("/dev/sdb").name(), "/dev/sdb");
        assert_eq!(disk("/srv/a:10G").lasting().as_deref(), Some("file:/srv/a"));
        assert_eq!(disk("disk:/dev/sdb").lasting().as_deref(), Some("disk:/dev/sdb"));
        assert!(Path::new(&disk("here").name()).is_absolute());
        let ram = disk("ram:1G");
        assert_eq!((ram.name().as_str(), ram.path(), ram.lasting()), ("ram:1G", None, None));
    }

    #[test]
    fn what_cannot_be_a_disk_of_an_array_is_refused() {
        for (text, part) in [
            ("", "needs a path"),
            ("null:1G", "keeps nothing"),
            ("ram:", "needs a size"),
            ("/srv/a:10GB", "could mean two sizes"),
            ("ram:5X", "is not a size"),
            ("/srv/a\nb:1G", "'/srv/a\\u{a}b:1G' has control characters in its name"),
            ("disk:/dev/\u{1b}[2J", "control characters"),
        ] {
            let said = text.parse::<MemberDisk>().unwrap_err().to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn a_missing_file_is_made_and_an_existing_one_keeps_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk-0");
        drop(MemberDisk::file(&path, 8 << 20).open().unwrap());
        assert_eq!(fs::metadata(&path).unwrap().len(), 8 << 20);
        let again = disk(&path.display().to_string()).open().unwrap();
        assert_eq!(again.geometry().size_bytes(), 8 << 20);
        let missing = disk("/nonexistent/disk").open().unwrap_err();
        assert!(matches!(missing, DiskError::Missing(_)), "{missing}");
    }
}
