//! The file of the socket: who may open it is an administrator.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The group whose members are administrators, where there is one.
const GROUP: &str = "drystone";

/// What a path of a socket may have (`sun_path` of unix(7), with a byte that ends it).
const PATH_BYTES_MAX: usize = 107;

/// The digits of a process ID: `pid_max` is at most 4,194,304 (proc_sys_kernel(5)).
const PID_DIGITS: usize = 7;

/// Whether a socket can be made at this path.
///
/// # Errors
/// It is too long: how many bytes it has more than it may have.
pub fn check_length(path: &Path) -> Result<(), usize> {
    let fresh = fresh(path, &"9".repeat(PID_DIGITS));
    let longest = path.as_os_str().len().max(fresh.as_os_str().len());
    match longest.saturating_sub(PATH_BYTES_MAX) {
        0 => Ok(()),
        more => Err(more),
    }
}

/// Whether something is at this path that is no socket, and is never replaced by one: a disk of the array, for all that
/// is known.
#[must_use]
pub fn is_something_else(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| !data.file_type().is_socket())
}

/// The name of a socket until its mode is set.
fn fresh(path: &Path, process: &str) -> PathBuf {
    path.with_extension(format!("{process}.new"))
}

/// A socket that listens, and its file, which goes with this value.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode: another server may have put its own in the place.
    made: (u64, u64),
}

impl SocketFile {
    /// Makes the socket, for its owner and, of root, for [`GROUP`]. A socket in its place is replaced: the
    /// caller has made sure that nobody listens there.
    pub(super) fn make(path: &Path) -> io::Result<(Self, UnixListener)> {
        if is_something_else(path) {
            return Err(io::Error::other("what is there is no socket"));
        }
        // Under another name until its mode is set: nobody else gets in between.
        let fresh = fresh(path, &std::process::id().to_string());
        drop(fs::remove_file(&fresh));
        let listener = UnixListener::bind(&fresh)?;
        let made = close_to_others(&fresh).and_then(|()| {
            let made = identity(&fresh)?;
            fs::rename(&fresh, path)?;
            Ok(made)
        });
        match made {
            Ok(made) => Ok((Self { path: path.to_owned(), made }, listener)),
            Err(error) => {
                drop(fs::remove_file(&fresh));
                Err(error)
            }
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.made) {
            // A file that stays is harmless.
            drop(fs::remove_file(&self.path));
        }
    }
}

fn close_to_others(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    if let Some(group) = administrators() {
        // The service is in that group, so that its files are, and its unit forbids chown altogether.
        if fs::metadata(path)?.gid() != group {
            chown(path, None, Some(group))?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    }
    Ok(())
}

/// The number of the group of administrators, if this process can give a file to it: root can, and who is
/// in it, as the service is.
#[must_use]
pub fn administrators() -> Option<u32> {
    use rustix::process::{getegid, geteuid};
    let group = group_in(&fs::read_to_string("/etc/group").ok()?, GROUP)?;
    (geteuid().is_root() || getegid().as_raw() == group).then_some(group)
}

/// Looks for a group in the words of `/etc/group`: name, password, number, members.
fn group_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut words = line.split(':');
        let is_it = words.next() == Some(name);
        words.nth(1).filter(|_| is_it)?.parse().ok()
    })
}

/// Which file a path names now.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let data = fs::symlink_metadata(path)?;
    Ok((data.dev(), data.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\ndrystones:x:7:\ndrystone:x:990:ada,bob\n";
        assert_eq!(group_in(groups, "drystone"), Some(990));
        assert_eq!(group_in(groups, "dry"), None);
        assert_eq!(group_in("drystone:x:what:", "drystone"), None);
    }

    #[tokio::test]
    async fn a_path_that_is_called_short_enough_is_and_no_shorter_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let room = PATH_BYTES_MAX - dir.path().as_os_str().len() - 1;
        // The name until its mode is set is longer: by a whole extension, or what it has more than that.
        let more = PID_DIGITS + ".new".len();
        for (name_bytes, end) in [(room - more - 1, ""), (room - more - 1 + ".sock".len(), ".sock")]
        {
            let path =
                |bytes: usize| dir.path().join(format!("{}{end}", "s".repeat(bytes - end.len())));
            assert_eq!(check_length(&path(name_bytes)), Ok(()));
            assert_eq!(check_length(&path(name_bytes + 2)), Err(2));
            drop(SocketFile::make(&path(name_bytes)).expect("it is short enough"));
            UnixListener::bind(fresh(&path(name_bytes + 1), "9999999")).unwrap_err();
        }
    }

    #[tokio::test]
    async fn a_socket_that_another_server_made_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let (first, _listens) = SocketFile::make(&path).unwrap();
        let (second, _listens) = SocketFile::make(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, if administrators().is_some() { 0o660 } else { 0o600 });
        drop(first);
        assert!(path.exists(), "it is the second one's");
        drop(second);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
