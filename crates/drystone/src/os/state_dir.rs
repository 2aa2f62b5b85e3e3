//! The directory in which state outlives the process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where root's state is kept.
const SYSTEM_DIR: &str = "/var/lib/drystone";

/// The directory that is used when the user names none: the system's for root, else the user's
/// own by the XDG rules; `None` when there is no home either.
pub(crate) fn default_dir(
    root: bool,
    environment: impl Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    if root {
        return Some(SYSTEM_DIR.into());
    }
    // XDG: a path that is not absolute counts as not set.
    let absolute = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("drystone"))
}

/// Makes the directory if it is missing, and tries whether it can be written to.
pub(crate) fn prepare(dir: &Path) -> io::Result<()> {
    make(dir)?;
    try_to_write(dir)
}

/// Makes the directory if it is missing.
pub(crate) fn make(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::read_dir(dir).map(drop)
}

/// Tries whether files can be made in it.
pub(crate) fn try_to_write(dir: &Path) -> io::Result<()> {
    let probe = dir.join(format!(".probe-{}", std::process::id()));
    fs::write(&probe, b"")?;
    fs::remove_file(&probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<PathBuf> {
        default_dir(false, |name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn root_has_the_systems_and_others_their_own() {
        assert_eq!(default_dir(true, |_| None), Some("/var/lib/drystone".into()));
        assert_eq!(of(&[("HOME", "/home/a")]), Some("/home/a/.local/state/drystone".into()));
        assert_eq!(
            of(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "/state")]),
            Some("/state/drystone".into())
        );
        assert_eq!(
            of(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "not/absolute")]),
            Some("/home/a/.local/state/drystone".into())
        );
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn preparing_makes_it_and_leaves_nothing_in_it() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a/b");
        prepare(&dir).unwrap();
        prepare(&dir).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }

    #[test]
    fn a_file_in_its_place_is_an_error() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        fs::write(&path, b"").unwrap();
        assert!(prepare(&path).is_err());
    }
}
