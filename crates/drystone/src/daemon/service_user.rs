//! The user that the service runs as, and what of a member's files it may not use. Whoever checks them is root as
//! a rule, who may use all.

use super::config::Config;
use crate::up::socket;
use member::spec::disk::MemberDisk;
use rustix::fs::{Access, Gid, Uid, access};
use rustix::process::geteuid;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;

/// `User=` of the unit.
const USER: &str = "drystone";

/// `SupplementaryGroups=` of the unit: that of block devices.
const DEVICES: &str = "disk";

/// `StateDirectory=` of the unit: given to the user with all that is in it, if it is somebody else's.
const STATE: &str = "/var/lib/drystone";

/// `RuntimeDirectory=` of the unit: made for the user at each start.
const RUNTIME: &str = "/run/drystone-member";

/// The key of the data directory.
const DATA: &str = "data";

/// The key of the control socket.
const SOCKET: &str = "socket";

/// Who the service is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServiceUser {
    uid: u32,
    gid: u32,
    /// Those beside.
    groups: Vec<u32>,
}

/// A file, device or directory that the service needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Need {
    /// The key that names it; none names the file of the keys itself.
    pub(super) key: &'static str,
    path: PathBuf,
    access: Access,
    /// Without it the member does not start.
    pub(super) is_vital: bool,
}

impl ServiceUser {
    /// The user of the service, where there is one, if this is root, who can look with its eyes.
    pub(super) fn find() -> Option<Self> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let is_root = geteuid().is_root();
        is_root.then(|| Self::of(&read("/etc/passwd"), &read("/etc/group"))).flatten()
    }

    /// From the lines of users (`NAME:x:UID:GID:...`) and groups (`NAME:x:GID:USER,...`).
    fn of(users: &str, groups: &str) -> Option<Self> {
        let words = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        let user = users.lines().map(words).find(|words| words[0] == USER)?;
        let number = |words: &[String], at: usize| words.get(at)?.parse::<u32>().ok();
        let is_in = |words: &Vec<String>| {
            let members = words.get(3).map(String::as_str).unwrap_or_default();
            words[0] == DEVICES || members.split(',').any(|member| member == USER)
        };
        let groups = groups.lines().map(words).filter(is_in);
        Some(Self {
            uid: number(&user, 2)?,
            gid: number(&user, 3)?,
            groups: groups.filter_map(|words| number(&words, 2)).collect(),
        })
    }

    /// What a member with this file needs of what is there.
    pub(super) fn needs(&self, file: &Path, config: &Config) -> Vec<Need> {
        let read = |key, path: &Path, is_vital| Need::new(key, path, Access::READ_OK, is_vital);
        let mut needs = vec![read("", file, true)];
        let (up, api) = (&config.up, &config.up.api);
        for (key, path, is_vital) in [
            ("chap-file", &up.serve.chap_file, true),
            ("mutual-chap-file", &up.serve.mutual_chap_file, true),
            ("api-certificate", &api.api_certificate, false),
            ("api-key", &api.api_key, false),
        ] {
            needs.extend(path.as_deref().map(|path| read(key, path, is_vital)));
        }
        for (key, disks) in [("disk", &up.disks), ("journal", &up.journals)] {
            needs.extend(disks.iter().filter_map(|disk| Need::of_disk(key, disk)));
        }
        if let Some(data) = up.data.as_deref().filter(|data| !self.is_given(data)) {
            needs.push(Need::new(DATA, data, DIRECTORY, true));
            let inside = fs::read_dir(data).into_iter().flatten().flatten();
            needs.extend(inside.map(|entry| {
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let access = if is_directory { DIRECTORY } else { READ_WRITE };
                Need::new(DATA, &entry.path(), access, false)
            }));
        }
        if let Some(socket) = up.socket.socket.as_deref().filter(|it| !it.starts_with(RUNTIME)) {
            needs.push(Need::new(SOCKET, &socket::there(socket), DIRECTORY, false));
        }
        needs.retain(|need| need.path.exists());
        needs
    }

    /// Whether systemd gives a directory to the user when the service starts.
    fn is_given(&self, directory: &Path) -> bool {
        directory.starts_with(STATE) && fs::metadata(STATE).is_ok_and(|it| it.uid() != self.uid)
    }

    /// Those that this user may not use; of the data directory the first.
    ///
    /// # Errors
    /// This process cannot look with the eyes of that user.
    pub(super) fn refused(&self, mut needs: Vec<Need>) -> io::Result<Vec<Need>> {
        let look = || {
            self.become_it()?;
            Ok(needs.iter().map(|need| access(&need.path, need.access).is_ok()).collect())
        };
        // A thread of its own is that user from then on, and nothing else of the process is.
        let looked: io::Result<Vec<bool>> = thread::scope(|scope| {
            let ended = scope.spawn(look).join();
            ended.unwrap_or_else(|_| Err(io::Error::other("the thread that looked has ended")))
        });
        let mut may = looked?.into_iter();
        let mut has_data = false;
        needs.retain(|need| {
            let is_refused = !may.next().unwrap_or(true);
            is_refused && !(need.key == DATA && std::mem::replace(&mut has_data, true))
        });
        Ok(needs)
    }

    /// Makes this thread that user.
    fn become_it(&self) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        Ok(set_thread_res_uid(uid, uid, uid)?)
    }
}

const READ_WRITE: Access = Access::READ_OK.union(Access::WRITE_OK);
const DIRECTORY: Access = READ_WRITE.union(Access::EXEC_OK);

impl Need {
    fn new(key: &'static str, path: &Path, access: Access, is_vital: bool) -> Self {
        Self { key, path: path.to_owned(), access, is_vital }
    }

    /// The disk, or the directory that it is to be made in. An array opens without some.
    fn of_disk(key: &'static str, disk: &MemberDisk) -> Option<Self> {
        let path = disk.path()?;
        if path.exists() {
            return Some(Self::new(key, &path, READ_WRITE, false));
        }
        let directory = path.parent().filter(|_| disk.is_new())?;
        Some(Self::new(key, directory, DIRECTORY, false))
    }

    /// What is wrong, and what to do.
    pub(super) fn sentence(&self) -> String {
        let path = self.path.display();
        let what = if self.access == Access::READ_OK { "read" } else { "read and write" };
        let is_device =
            fs::metadata(&self.path).is_ok_and(|found| found.file_type().is_block_device());
        let remedy = match self.key {
            _ if is_device => {
                format!(
                    "give it to the group '{DEVICES}', which the service is in, by a rule of udev"
                )
            }
            SOCKET => {
                let tail = "so that no command would reach the member: write one in";
                return format!(
                    "the service runs as the user '{USER}', who cannot make a control socket in '{path}', {tail} {RUNTIME}"
                );
            }
            DATA => format!("run chown -R {USER}:{USER} on the data directory"),
            _ => {
                format!(
                    "run chown {USER} '{path}', and let that user through the directories above it"
                )
            }
        };
        format!("the service runs as the user '{USER}', who cannot {what} '{path}': {remedy}")
    }
}

/// Why it was not looked at.
pub(super) fn not_looked(error: &io::Error) -> String {
    format!(
        "what the user '{USER}' of the service may not use was not looked at ({error}): run this again by runuser -u {USER}"
    )
}

#[cfg(test)]
impl ServiceUser {
    /// Somebody who owns nothing.
    pub(super) const fn nobody() -> Self {
        Self { uid: 65_534, gid: 65_534, groups: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn the_user_has_the_groups_that_the_unit_gives_it() {
        let users =
            "root:x:0:0::/root:/bin/sh\ndrystone:x:993:992:a:/var/lib/drystone:/bin/false\n";
        let groups = "root:x:0:\ndisk:x:6:\ndrystone:x:992:\nkeys:x:50:ada,drystone\nx:x:7:ada\n\n";
        let user = ServiceUser::of(users, groups);
        assert_eq!(user, Some(ServiceUser { uid: 993, gid: 992, groups: vec![6, 50] }));
        assert_eq!(ServiceUser::of("root:x:0:0::/root:/bin/sh\n\n", groups), None);
    }

    /// Only root can be somebody else.
    #[test]
    fn it_is_asked_with_its_own_eyes() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let make = |name: &str, mode: u32| {
            fs::write(at(name), "x").unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
            Need::new("chap-file", &at(name), Access::READ_OK, true)
        };
        let user = ServiceUser { groups: vec![4711], ..ServiceUser::nobody() };
        let needs = vec![make("open", 0o644), make("own", 0o600), make("group", 0o640)];
        if !geteuid().is_root() {
            assert!(user.refused(needs).is_err() && ServiceUser::find().is_none());
            return;
        }
        chown(at("own"), Some(65_534), None).unwrap();
        chown(at("group"), None, Some(4711)).unwrap();
        assert_eq!(user.refused(needs).unwrap(), []);
        let closed = || vec![make("closed", 0o600), make("too", 0o644)];
        assert_eq!(user.refused(closed()).unwrap(), closed()[..1]);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(user.refused(closed()).unwrap(), closed(), "it does not get there");
        assert!(geteuid().is_root() && fs::read(at("closed")).is_ok(), "this thread is who it was");
    }
}
