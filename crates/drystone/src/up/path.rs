//! Where the control socket is.

use anyhow::Context;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::os::runtime_dir;

/// Its name in the directory of sockets.
const NAME: &str = "control.sock";

/// That of the member that is a service of the system (packaging/drystone.service).
const SERVICE: &str = "/run/drystone-member/control.sock";

/// The socket that was asked for, or the usual one.
pub(crate) fn choose(
    asked: Option<&Path>,
    root: bool,
    environment: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<PathBuf> {
    if let Some(path) = asked {
        return Ok(path.to_owned());
    }
    let dir = runtime_dir::default_dir(root, environment)
        .context("there is no directory for the control socket, as XDG_RUNTIME_DIR is not set: write --socket PATH")?;
    Ok(dir.join(NAME))
}

/// Where a command finds the member: at the socket that was asked for, at the usual one if there is one,
/// else at that of the service, if there is that.
pub(crate) fn find(
    asked: Option<&Path>,
    root: bool,
    environment: impl Fn(&str) -> Option<String>,
    look: impl Fn(&Path) -> io::Result<bool>,
) -> anyhow::Result<PathBuf> {
    let usual = choose(asked, root, environment);
    let is_there = |path: &PathBuf| look(path).unwrap_or(false);
    let is_used = asked.is_some() || usual.as_ref().is_ok_and(is_there);
    match is_used || !may_be_there(look(Path::new(SERVICE))) {
        true => usual,
        false => Ok(SERVICE.into()),
    }
}

/// Whether there is a socket of the service, as far as this user may look: in a directory that is for others it is
/// taken to be there, so that he is told so, and not that no member runs.
fn may_be_there(looked: io::Result<bool>) -> bool {
    looked.unwrap_or_else(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Uid;
    use rustix::process::geteuid;
    use rustix::thread::set_thread_res_uid;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    #[test]
    fn a_command_finds_the_service_where_nobody_started_another_member() {
        let xdg = |_: &str| Some("/run/user/7".to_owned());
        let own = "/run/user/7/drystone/control.sock";
        let found = |asked: Option<&str>, there: &[&str]| {
            let look = |path: &Path| Ok(there.iter().any(|it| path == Path::new(it)));
            find(asked.map(Path::new), false, xdg, look).unwrap()
        };
        assert_eq!(found(None, &[own, SERVICE]), Path::new(own));
        assert_eq!(found(None, &[SERVICE]), Path::new(SERVICE));
        assert_eq!(found(None, &[]), Path::new(own));
        assert_eq!(found(Some("/tmp/a"), &[SERVICE]), Path::new("/tmp/a"));
        let nowhere = find(None, false, |_| None, |path| Ok(path == Path::new(SERVICE)));
        assert_eq!(nowhere.unwrap(), Path::new(SERVICE), "without a session of one's own too");
        // Who has become another user may have the place of the one before.
        let closed = |_: &Path| Err(ErrorKind::PermissionDenied.into());
        assert_eq!(find(None, false, xdg, closed).unwrap(), Path::new(SERVICE));
    }

    #[test]
    fn a_socket_in_a_directory_for_others_is_taken_to_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        fs::write(at("file"), "").unwrap();
        let is_there = |name: &str| may_be_there(at(name).try_exists());
        assert!(is_there("file") && !is_there("none") && !is_there("file/none"));
        if !geteuid().is_root() {
            return;
        }
        // A thread of its own is somebody else from then on.
        let look = || {
            let nobody = Uid::from_raw(65_534);
            set_thread_res_uid(nobody, nobody, nobody).unwrap();
            (is_there("file"), is_there("none"))
        };
        assert_eq!(thread::scope(|scope| scope.spawn(look).join().unwrap()), (true, true));
    }

    #[test]
    fn the_unit_makes_the_directory_of_the_socket() {
        const UNIT: &str = include_str!("../../../../packaging/drystone.service");
        const CONFIG: &str = include_str!("../../../../packaging/member.toml");
        assert!(UNIT.contains("\nRuntimeDirectory=drystone-member\n"));
        assert!(CONFIG.contains(&format!("\nsocket = \"{SERVICE}\"\n")));
    }

    #[test]
    fn the_usual_place_depends_on_who_asks() {
        let xdg = |_: &str| Some("/run/user/7".to_owned());
        let chosen = |asked: Option<&str>, root| choose(asked.map(Path::new), root, xdg).unwrap();
        assert_eq!(chosen(None, true), Path::new("/run/drystone/control.sock"));
        assert_eq!(chosen(None, false), Path::new("/run/user/7/drystone/control.sock"));
        assert_eq!(chosen(Some("/tmp/a.sock"), true), Path::new("/tmp/a.sock"));
        assert!(choose(None, false, |_| None).unwrap_err().to_string().contains("--socket PATH"));
    }
}
