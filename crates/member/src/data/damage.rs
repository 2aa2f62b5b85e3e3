//! A list of disks that does not read in part, as it was found.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use group::regular;

use super::{DataError, FILE_BYTES_MAX};
use crate::mutants::{self, Mutant};

/// How many different ones are kept beside each other.
const KEPT_MAX: usize = 99;

/// The file as it was found.
#[derive(Debug)]
pub(crate) struct Damage {
    path: PathBuf,
    bytes: Vec<u8>,
    /// How many do not read.
    lines: usize,
    /// Where it is kept.
    kept: Option<PathBuf>,
}

impl Damage {
    pub(super) fn new(path: &Path, bytes: &[u8], lines: usize) -> Self {
        Self { path: path.to_owned(), bytes: bytes.to_vec(), lines, kept: None }
    }

    /// Whether the list may be written anew.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Keeps the file beside the list, once, under a name that nothing has yet.
    pub(super) fn keep(&mut self) -> Result<(), DataError> {
        if self.is_kept() || mutants::is(Mutant::LoseDamaged) {
            return Ok(());
        }
        for number in 1..=KEPT_MAX {
            let path = self.place(number);
            match regular::read(&path, FILE_BYTES_MAX) {
                Ok(there) if **there == *self.bytes => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let written = ring::replace_file(&path, &self.bytes);
                    written.map_err(|source| DataError::Write { path: path.clone(), source })?;
                }
                Ok(_) | Err(_) => continue,
            }
            self.kept = Some(path);
            return Ok(());
        }
        let source = io::Error::other("too many damaged lists are kept beside it: remove those");
        Err(DataError::Write { path: self.place(KEPT_MAX), source })
    }

    fn place(&self, number: usize) -> PathBuf {
        match number {
            1 => self.path.with_extension("damaged"),
            _ => self.path.with_extension(format!("damaged.{number}")),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, lines) = (self.path.display(), self.lines);
        let lines_do = if lines == 1 {
            "1 line that does".to_owned()
        } else {
            format!("{lines} lines that do")
        };
        write!(
            f,
            "the list of disks '{path}' has {lines_do} not read: what else it names is used"
        )?;
        if let Some(kept) = &self.kept {
            write!(f, ", and the file as it was is kept as '{}'", kept.display())?;
        }
        f.write_str("; if a disk is missing, name it at the next start")
    }
}
