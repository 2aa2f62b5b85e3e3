//! The directory in which running attachments are found.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Where root's attachments are found.
const SYSTEM_DIR: &str = "/run/drystone";

/// The directory that is used when the user names none; `None` when the session has none.
pub(crate) fn default_dir(
    root: bool,
    environment: impl Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    if root {
        return Some(SYSTEM_DIR.into());
    }
    // XDG: a path that is not absolute counts as not set.
    let dir =
        environment("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())?;
    Some(dir.join("drystone"))
}

/// Makes the directory if it is missing, for its owner alone: who can write to a socket in it can
/// detach disks.
pub(crate) fn prepare(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(dir) {
        Err(_) if dir.is_dir() => Ok(()),
        result => result,
    }?;
    fs::read_dir(dir).map(drop)
}

/// Whether it is the one of the whole system.
pub(crate) fn is_of_system(dir: &Path) -> bool {
    dir == Path::new(SYSTEM_DIR)
}

/// Lets a group reach sockets in a directory that has been its owner's alone. Each of them says itself
/// who may use it.
pub(crate) fn let_in(dir: &Path, group: u32) -> io::Result<()> {
    if fs::metadata(dir)?.permissions().mode() & 0o777 == 0o700 {
        chown(dir, None, Some(group))?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o710))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn root_has_the_systems_and_others_their_sessions() {
        let of = |value: Option<&str>| default_dir(false, |_| value.map(str::to_owned));
        assert_eq!(default_dir(true, |_| None), Some("/run/drystone".into()));
        assert_eq!(of(Some("/run/user/7")), Some("/run/user/7/drystone".into()));
        assert_eq!(of(Some("not/absolute")), None);
        assert_eq!(of(None), None);
    }

    #[test]
    fn it_is_made_for_its_owner_alone() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a");
        prepare(&dir).unwrap();
        prepare(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        let group = fs::metadata(&dir).unwrap().gid();
        let_in(&dir, group).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o710);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
        let_in(&dir, group).unwrap();
        let mode = fs::metadata(&dir).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o750, "what somebody chose stays");
        fs::write(base.path().join("file"), b"").unwrap();
        assert!(prepare(&base.path().join("file")).is_err());
    }
}
