//! Whether a control socket can be made, before that is tried.

use anyhow::{anyhow, bail};
use api::server::{check_length, is_something_else};
use member::lock;
use rustix::fs::{Access, access};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// What a member is without one.
const WITHOUT: &str = "hosts are served, but no command reaches this member until it is started with a --socket that \
                       can be made";

/// Why there is no control socket, and what that means.
pub(crate) fn sentence(why: &dyn Display) -> String {
    format!("{why}: {WITHOUT}")
}

/// The lock of a socket lies beside it.
const LOCK_SUFFIX: &str = ".lock";

/// Where the lock of a socket lies.
pub(super) fn lock_of(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(LOCK_SUFFIX);
    path.into()
}

/// Refuses a path that is too long for a socket, or where something else is, or in the place of its lock.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    if is_something_else(path) {
        bail!("'{}' is no socket, and is not replaced by one", path.display());
    }
    let beside = lock_of(path);
    if lock::is_something_else(&beside) {
        bail!(
            "'{}' is no lock file of the socket beside it, and is not replaced by one",
            beside.display()
        );
    }
    check_length(path).map_err(|more| {
        let bytes = path.as_os_str().len();
        anyhow!(
            "the path of the control socket, '{}', has {bytes} bytes, and one in its place may have {}",
            path.display(),
            bytes.saturating_sub(more)
        )
    })
}

/// That none can be made in this directory.
pub(super) fn refused(dir: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("cannot make a control socket in '{}': {error}", dir.display())
}

/// Why none can be made, as far as that can be told without making anything.
///
/// # Errors
/// The sentence of a start.
pub(crate) fn look(path: &Path) -> Result<(), String> {
    let dir = path.parent().unwrap_or(path);
    let looked = check(path).and_then(|()| {
        let may = access(there(path), Access::WRITE_OK | Access::EXEC_OK);
        may.map_err(|error| refused(dir, &error.into()))
    });
    looked.map_err(|why| sentence(&why))
}

/// The directory of a socket, or the first above it that is there: the others are made in that.
pub(crate) fn there(socket: &Path) -> PathBuf {
    let above = socket.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
    above.into_iter().find(|dir| dir.exists()).unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_cannot_be_made_is_told_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let said = |name: &str| look(&dir.path().join(name)).err();
        assert_eq!((said("control.sock"), said("new/one/control.sock")), (None, None));
        let long = said(&"s".repeat(120)).unwrap();
        assert!(long.contains(" bytes, and one in its place may have "), "{long}");
        assert!(long.ends_with(WITHOUT), "{long}");
        fs::write(dir.path().join("file"), "").unwrap();
        let other = said("file").unwrap();
        let wanted = format!("'{}/file' is no socket, and is not replaced", dir.path().display());
        assert!(other.starts_with(&wanted) && other.ends_with(WITHOUT), "{other}");
        fs::write(dir.path().join("mine.lock"), "keepme").unwrap();
        let other = said("mine").unwrap();
        let wanted = format!("'{}/mine.lock' is no lock file of", dir.path().display());
        assert!(other.starts_with(&wanted) && other.ends_with(WITHOUT), "{other}");
        fs::remove_file(dir.path().join("mine.lock")).unwrap();
        let under = said("file/control.sock").unwrap();
        let wanted = format!("cannot make a control socket in '{}/file': ", dir.path().display());
        assert!(under.starts_with(&wanted), "{under}");
        assert_eq!(there(Path::new("control.sock")), Path::new("."));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
