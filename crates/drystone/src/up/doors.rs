//! That hosts had to prove who they are is remembered: no restart opens a member to others by itself.
//!
//! The file `access` of the data directory has a line for each kind of check that was ever given:
//!
//! ```text
//! chap
//! allow
//! ```

use crate::os::replace::replace;
use crate::serve::Keeps;
use anyhow::{Context, bail};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

const FILE: &str = "access";
const CHAP: &str = "chap";
const ALLOW: &str = "allow";

/// Which checks hosts have to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doors {
    /// They prove themselves by CHAP.
    pub(crate) chap: bool,
    /// A rule allows them.
    pub(crate) allow: bool,
}

impl Doors {
    /// Remembers in `data` what is checked now. Refused when that is less than it was before, unless
    /// `open_access`: then the rest is forgotten. What cannot be written is told where nothing can be.
    pub(crate) fn keep(self, data: &Path, open_access: bool, keeps: Keeps) -> anyhow::Result<()> {
        let path = data.join(FILE);
        let before = Doors::read(&path)?;
        if !open_access {
            self.check(before, data)?;
        }
        if self == before {
            return Ok(());
        }
        match (replace(&path, &self.text()), keeps) {
            (Err(error), Keeps::Nothing) => {
                tracing::warn!(
                    "{error:#}: the next start does not know which hosts may log in now"
                );
                Ok(())
            }
            (written, _) => written,
        }
    }

    fn check(self, before: Doors, data: &Path) -> anyhow::Result<()> {
        let data = data.display();
        let hint = "or open the member to all who can reach it with --open-access";
        if before.chap && !self.chap {
            bail!(
                "'{data}' remembers that hosts log in by CHAP, and no secret is given: give it with --chap-file PATH, {hint}"
            );
        }
        if before.allow && !self.allow {
            bail!(
                "'{data}' remembers that only some hosts may log in, and no --allow is given: give the rules again, {hint}"
            );
        }
        Ok(())
    }

    fn read(path: &Path) -> anyhow::Result<Doors> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read '{}'", path.display()))?,
        };
        let mut doors = Doors { chap: false, allow: false };
        for line in text.lines() {
            match line {
                CHAP => doors.chap = true,
                ALLOW => doors.allow = true,
                // Better refuse than open what somebody had closed.
                _ => bail!("'{}' does not read: '{line}' is no check of hosts", path.display()),
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
    use super::*;

    const OPEN: Doors = Doors { chap: false, allow: false };
    const CLOSED: Doors = Doors { chap: true, allow: true };

    #[test]
    fn what_was_closed_once_is_opened_by_the_operator_alone() {
        let dir = tempfile::tempdir().unwrap();
        OPEN.keep(dir.path(), false, Keeps::All).unwrap();
        assert!(!dir.path().join(FILE).exists(), "nothing is to be remembered");
        CLOSED.keep(dir.path(), false, Keeps::All).unwrap();
        for (doors, option) in [
            (Doors { allow: false, ..CLOSED }, "--allow"),
            (Doors { chap: false, ..CLOSED }, "--chap-file"),
            (OPEN, "--chap-file"),
        ] {
            for _ in 0..2 {
                let refused =
                    format!("{:#}", doors.keep(dir.path(), false, Keeps::All).unwrap_err());
                assert!(refused.contains(option) && refused.contains("--open-access"), "{refused}");
            }
        }
        CLOSED.keep(dir.path(), false, Keeps::All).unwrap();
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
