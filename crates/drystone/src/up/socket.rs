//! Whether a control socket can be made, before that is tried.

use anyhow::anyhow;
use api::server::check_length;
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

/// Refuses a path that is too long for a socket.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
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
        let under = said("file/control.sock").unwrap();
        let wanted = format!("cannot make a control socket in '{}/file': ", dir.path().display());
        assert!(under.starts_with(&wanted), "{under}");
        assert_eq!(there(Path::new("control.sock")), Path::new("."));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
