//! That hosts had to prove who they are is remembered: no restart opens a member to others by itself.
//!
//! The file `access` of the data directory has a line for each kind of check that was ever given:
//!
//! ```text
//! chap
//! allow
//! ```

use std::io::ErrorKind;
use std::path::Path;

use group::regular;

use super::replace::replace;
use super::{DataError, FILE_BYTES_MAX, Keeps};

const FILE: &str = "access";
const CHAP: &str = "chap";
const ALLOW: &str = "allow";

/// Which checks hosts have to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doors {
    /// They prove themselves by CHAP.
    pub chap: bool,
    /// A rule allows them.
    pub allow: bool,
}

impl Doors {
    /// Remembers in `data` what is checked now. Refused when that is less than it was before, unless
    /// `open_access`: then the rest is forgotten. What cannot be written is told where nothing can be.
    ///
    /// # Errors
    /// [`DataError::ChapLeftOut`] and [`DataError::RulesLeftOut`]; what does not read or cannot be written.
    pub fn keep(self, data: &Path, open_access: bool, keeps: Keeps) -> Result<(), DataError> {
        let path = data.join(FILE);
        let before = Doors::read(&path)?;
        if !open_access {
            self.compare(before, data)?;
        }
        if self == before {
            return Ok(());
        }
        match (replace(&path, &self.text()), keeps) {
            (Err(error), Keeps::Nothing) => {
                tracing::warn!("{error}: the next start does not know which hosts may log in now");
                Ok(())
            }
            (written, _) => written,
        }
    }

    /// Refuses what [`keep`](Self::keep) without `open_access` would refuse, and writes nothing.
    ///
    /// # Errors
    /// [`DataError::ChapLeftOut`] and [`DataError::RulesLeftOut`]; what does not read.
    pub fn check(self, data: &Path) -> Result<(), DataError> {
        self.compare(Self::read(&data.join(FILE))?, data)
    }

    fn compare(self, before: Self, data: &Path) -> Result<(), DataError> {
        if before.chap && !self.chap {
            return Err(DataError::ChapLeftOut(data.to_owned()));
        }
        if before.allow && !self.allow {
            return Err(DataError::RulesLeftOut(data.to_owned()));
        }
        Ok(())
    }

    fn read(path: &Path) -> Result<Self, DataError> {
        let text = match regular::read_text(path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => Default::default(),
            read => read.map_err(|source| DataError::Read { path: path.to_owned(), source })?,
        };
        let mut doors = Self { chap: false, allow: false };
        for line in text.lines() {
            match line {
                CHAP => doors.chap = true,
                ALLOW => doors.allow = true,
                // Better refuse than open what somebody had closed.
                _ => {
                    let (path, line) = (path.to_owned(), line.to_owned());
                    return Err(DataError::Doors { path, line });
                }
            }
        }
        Ok(doors)
    }

    fn text(self) -> String {
        let lines = [(self.chap, CHAP), (self.allow, ALLOW)];
        let given = lines.into_iter().filter(|(is_given, _)| *is_given);
        given.map(|(_, line)| format!("{line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const OPEN: Doors = Doors { chap: false, allow: false };
    const CLOSED: Doors = Doors { chap: true, allow: true };

    #[test]
    fn what_was_closed_once_is_opened_by_the_operator_alone() {
        let dir = tempfile::tempdir().unwrap();
        OPEN.keep(dir.path(), false, Keeps::All).unwrap();
        assert!(!dir.path().join(FILE).exists(), "nothing is to be remembered");
        CLOSED.keep(dir.path(), false, Keeps::All).unwrap();
        for (doors, is_rules) in [
            (Doors { allow: false, ..CLOSED }, true),
            (Doors { chap: false, ..CLOSED }, false),
            (OPEN, false),
        ] {
            let kept = doors.keep(dir.path(), false, Keeps::All);
            for refused in [kept, doors.check(dir.path())] {
                let refused = refused.unwrap_err();
                match refused {
                    DataError::RulesLeftOut(_) => assert!(is_rules, "{refused}"),
                    DataError::ChapLeftOut(_) => assert!(!is_rules, "{refused}"),
                    _ => panic!("{refused}"),
                }
            }
        }
        CLOSED.keep(dir.path(), false, Keeps::All).unwrap();
        CLOSED.check(dir.path()).unwrap();
        Doors { chap: false, ..CLOSED }.keep(dir.path(), true, Keeps::All).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(FILE)).unwrap(), "allow\n");
        Doors { chap: false, ..CLOSED }.keep(dir.path(), false, Keeps::All).unwrap();
        OPEN.keep(dir.path(), true, Keeps::All).unwrap();
        OPEN.keep(dir.path(), false, Keeps::All).unwrap();
    }

    #[test]
    fn what_does_not_read_or_cannot_be_written_opens_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("access.new")).unwrap();
        let refused = format!("{:#}", CLOSED.keep(dir.path(), false, Keeps::All).unwrap_err());
        assert!(refused.starts_with("cannot write '"), "{refused}");
        CLOSED.keep(dir.path(), false, Keeps::Nothing).unwrap();
        fs::write(dir.path().join(FILE), "chap\nsomething newer\n").unwrap();
        assert!(OPEN.keep(dir.path(), false, Keeps::All).is_err());
    }
}
