//! What a member keeps of its group, in the directory `group` of its data directory, for its owner alone:
//!
//! ```text
//! group/
//! ├── authority.pem       the certificate of the group's authority
//! ├── authority-key.pem   its key, as each member lets others in
//! ├── member.pem          the certificate of this member
//! ├── member-key.pem      its key
//! ├── etcd/               what etcd keeps, where this member runs a part of the store
//! ╰── membership.json     who it is in which group: written last, removed first
//! ```
//!
//! Beside it lies `group-settings`, from the first time that the member shares the settings of a group: it stays when
//! the directory goes, and says to the next group that is joined where those of the member came from.
//!
//! Invariant: where `membership.json` is, all the others are, whole. A directory without it is that of a group that was
//! never made or joined to the end, or one that was left: the next that is made or joined takes its place.
//!
//! All of it blocks: a task does it by [`ring::blocking`].

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use group::address::GroupAddress;
use group::connections::ConnectionLimits;
use group::membership::GroupId;
use group::ownership::MemberId;
use group::regular;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::GroupError;

const DIR: &str = "group";
const MEMBERSHIP: &str = "membership.json";
const AUTHORITY: &str = "authority.pem";
const AUTHORITY_KEY: &str = "authority-key.pem";
const CERTIFICATE: &str = "member.pem";
const KEY: &str = "member-key.pem";
const ETCD: &str = "etcd";

/// Beside the directory.
const HAD_SETTINGS: &str = "group-settings";

/// The version of `membership.json` that is written, and the latest that is understood.
const VERSION: u32 = 1;

/// A file that is longer was written by nobody here.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Who this member is, and in which group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MembershipFile {
    pub(super) version: u32,
    pub(super) group: GroupId,
    /// As it was heard last.
    pub(super) group_name: String,
    pub(super) member: MemberId,
    pub(super) name: String,
    pub(super) address: IpAddr,
    pub(super) port: u16,
    /// Where the store answered last.
    pub(super) endpoints: Vec<String>,
    /// Where each member would answer as a part of it: asked when none of those does, as others may run it by now.
    #[serde(default)]
    pub(super) further_endpoints: Vec<String>,
    /// It runs a part of the store: where the data of that are gone, it must not begin anew by itself.
    pub(super) has_seat: bool,
    /// The group was to end, whose last member this one is: if its store is empty, it has.
    #[serde(default)]
    pub(super) is_ending: bool,
    /// Whose settings it has.
    #[serde(default)]
    pub(super) settings: SettingsMark,
    /// The address of the group, as it was heard last: it may be on an interface of this host yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group_address: Option<GroupAddress>,
    /// What it goes by before it has heard from the store.
    #[serde(default)]
    pub(super) limits: Option<KnownLimits>,
}

/// How many connections the group took when that was heard last, for a start that hears nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownLimits {
    pub(super) limits: ConnectionLimits,
    /// The pool of the member.
    pub(super) pool: String,
}

/// Whose settings a member has that is in a group, of those that members have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SettingsMark {
    /// Its own, until the group has them too.
    #[default]
    Own,
    /// Its own, until it takes the group's for them, as its operator wants it.
    ToReplace,
    /// Its own, which were those of a group that it was in before, until this one has them too: what that has not may
    /// have been taken away there.
    Returned,
    /// The group's.
    Shared,
}

impl MembershipFile {
    pub(super) const VERSION: u32 = VERSION;

    /// Where the member answers others.
    pub(super) const fn door(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}

/// Proofs of who a member is, as PEM, and what lets it make those of others.
#[derive(Clone)]
pub(super) struct Keys {
    pub(super) authority: String,
    pub(super) authority_key: Zeroizing<String>,
    pub(super) certificate: String,
    pub(super) key: Zeroizing<String>,
}

/// What was found.
pub(super) enum Found {
    /// The member is in no group.
    Nothing,
    /// Something that was not made to its end.
    Unfinished,
    /// All.
    Here(Box<(MembershipFile, Keys)>),
}

#[derive(Deserialize)]
struct Label {
    version: u32,
}

/// Whether the member that has this data directory is in a group, by what it has written there.
#[must_use]
pub fn is_in_group(data: &Path) -> bool {
    GroupDir::new(data).0.join(MEMBERSHIP).exists()
}

/// The directory.
#[derive(Debug, Clone)]
pub(super) struct GroupDir(PathBuf);

impl GroupDir {
    pub(super) fn new(data: &Path) -> Self {
        // etcd is told of it, and logs it.
        let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
        Self(data.join(DIR))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Where etcd has its files.
    pub(super) fn etcd(&self) -> PathBuf {
        self.0.join(ETCD)
    }

    pub(super) fn authority(&self) -> PathBuf {
        self.0.join(AUTHORITY)
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.0.join(CERTIFICATE)
    }

    pub(super) fn key(&self) -> PathBuf {
        self.0.join(KEY)
    }

    fn had_settings(&self) -> PathBuf {
        self.0.with_file_name(HAD_SETTINGS)
    }

    /// Notes, for all groups that the member joins after this one, that its settings are those of a group.
    ///
    /// # Errors
    /// [`GroupError::Files`].
    pub(super) fn note_settings(&self, group: &GroupId) -> Result<(), GroupError> {
        let path = self.had_settings();
        ring::replace_file(&path, format!("{group}\n").as_bytes())
            .map_err(|error| failed(&path, error))
    }

    /// Whether that was noted; also where nobody can say.
    pub(super) fn has_noted_settings(&self) -> bool {
        let noted = fs::symlink_metadata(self.had_settings());
        !noted.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// What lies there.
    ///
    /// # Errors
    /// [`GroupError::Files`] of what does not read.
    pub(super) fn read(&self) -> Result<Found, GroupError> {
        let path = self.0.join(MEMBERSHIP);
        let text = match regular::read(&path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return match fs::symlink_metadata(&self.0) {
                    Ok(_) => Ok(Found::Unfinished),
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
                    Err(error) => Err(failed(&self.0, error)),
                };
            }
            read => read.map_err(|error| failed(&path, error))?,
        };
        let file = parse(&text).map_err(|error| failed(&path, error))?;
        let keys = Keys {
            authority: self.text(AUTHORITY)?.to_string(),
            authority_key: self.text(AUTHORITY_KEY)?,
            certificate: self.text(CERTIFICATE)?.to_string(),
            key: self.text(KEY)?,
        };
        Ok(Found::Here(Box::new((file, keys))))
    }

    fn text(&self, name: &str) -> Result<Zeroizing<String>, GroupError> {
        let path = self.0.join(name);
        regular::read_text(&path, FILE_BYTES_MAX).map_err(|error| failed(&path, error))
    }

    /// Writes what proves who the member is, into a directory that has nothing else. What lay there is gone.
    ///
    /// # Errors
    /// [`GroupError::Files`].
    pub(super) fn begin(&self, keys: &Keys) -> Result<(), GroupError> {
        self.clear()?;
        let made = DirBuilder::new().mode(0o700).create(&self.0);
        made.and_then(|()| ring::sync_parent(&self.0)).map_err(|error| failed(&self.0, error))?;
        let all = [
            (AUTHORITY, keys.authority.as_str()),
            (AUTHORITY_KEY, keys.authority_key.as_str()),
            (CERTIFICATE, keys.certificate.as_str()),
            (KEY, keys.key.as_str()),
        ];
        for (name, text) in all {
            let path = self.0.join(name);
            write_private(&path, text.as_bytes()).map_err(|error| failed(&path, error))?;
        }
        let last = self.0.join(KEY);
        ring::sync_parent(&last).map_err(|error| failed(&self.0, error))
    }

    /// Writes who the member is: from now on it is in the group.
    ///
    /// # Errors
    /// [`GroupError::Files`].
    pub(super) fn write(&self, file: &MembershipFile) -> Result<(), GroupError> {
        let path = self.0.join(MEMBERSHIP);
        let text = serde_json::to_vec_pretty(file).expect("names and numbers are JSON");
        ring::replace_file(&path, &text).map_err(|error| failed(&path, error))
    }

    /// Takes all of it away: the member is in no group from then on, whatever interrupts this.
    ///
    /// # Errors
    /// [`GroupError::Files`].
    pub(super) fn clear(&self) -> Result<(), GroupError> {
        let path = self.0.join(MEMBERSHIP);
        let gone = match fs::symlink_metadata(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => Err(error),
            Ok(_) => ring::remove_file(&path),
        };
        gone.map_err(|error| failed(&path, error))?;
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&self.0, error)),
            _ => ring::sync_parent(&self.0).map_err(|error| failed(&self.0, error)),
        }
    }
}

fn parse(text: &[u8]) -> io::Result<MembershipFile> {
    let damaged = |error: serde_json::Error| io::Error::new(ErrorKind::InvalidData, error);
    let label: Label = serde_json::from_slice(text).map_err(damaged)?;
    if label.version > VERSION {
        let found = label.version;
        return Err(io::Error::other(format!(
            "it has version {found}, and this version of drystone knows {VERSION}: use the version that wrote it, or a \
             later one"
        )));
    }
    serde_json::from_slice(text).map_err(damaged)
}

fn failed(path: &Path, source: io::Error) -> GroupError {
    GroupError::Files { path: path.to_owned(), source }
}

/// A new file that only its owner reads. No other is written over.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn keys() -> Keys {
        let text = |text: &str| Zeroizing::new(text.to_owned());
        Keys {
            authority: "a".to_owned(),
            authority_key: text("ak"),
            certificate: "c".to_owned(),
            key: text("k"),
        }
    }

    fn file() -> MembershipFile {
        MembershipFile {
            version: VERSION,
            group: "0123456789abcdef0123456789abcdef".parse().unwrap(),
            group_name: "lab".to_owned(),
            member: MemberId(7),
            name: "a".to_owned(),
            address: [192, 0, 2, 1].into(),
            port: 3262,
            endpoints: vec!["https://192.0.2.1:3263".to_owned()],
            further_endpoints: vec!["https://192.0.2.2:3263".to_owned()],
            has_seat: true,
            is_ending: false,
            settings: SettingsMark::Shared,
            group_address: None,
            limits: None,
        }
    }

    fn found(dir: &GroupDir) -> &'static str {
        match dir.read() {
            Ok(Found::Nothing) => "nothing",
            Ok(Found::Unfinished) => "unfinished",
            Ok(Found::Here(_)) => "here",
            Err(_) => "damaged",
        }
    }

    #[test]
    fn what_is_written_is_read_and_is_for_the_owner_alone() {
        let data = tempfile::tempdir().unwrap();
        let dir = GroupDir::new(data.path());
        assert_eq!(found(&dir), "nothing");
        dir.begin(&keys()).unwrap();
        dir.write(&file()).unwrap();
        let Found::Here(here) = dir.read().unwrap() else { panic!("it is there") };
        let (read, read_keys) = *here;
        assert_eq!(read, file());
        let texts = (read_keys.authority, read_keys.certificate);
        assert_eq!(texts, ("a".to_owned(), "c".to_owned()));
        assert_eq!((read_keys.authority_key.as_str(), read_keys.key.as_str()), ("ak", "k"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(dir.path()), 0o700);
        assert_eq!((mode(&dir.key()), mode(&dir.0.join(AUTHORITY_KEY))), (0o600, 0o600));
    }

    /// A crash may come between any two files: the member starts in any case, and knows whether it is in a group.
    #[test]
    fn a_group_that_was_not_made_to_its_end_is_none_and_makes_room_for_another() {
        let data = tempfile::tempdir().unwrap();
        let dir = GroupDir::new(data.path());
        fs::create_dir(dir.path()).unwrap();
        assert_eq!(found(&dir), "unfinished");
        for name in [AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY] {
            fs::write(dir.0.join(name), "old").unwrap();
            assert_eq!(found(&dir), "unfinished", "{name}");
        }
        fs::create_dir_all(dir.etcd().join("data")).unwrap();
        fs::write(dir.0.join("membership.json.new"), "{").unwrap();
        assert_eq!(found(&dir), "unfinished");
        dir.begin(&keys()).unwrap();
        assert!(!dir.etcd().exists(), "what etcd kept of another group is no use");
        assert!(!is_in_group(data.path()));
        dir.write(&file()).unwrap();
        assert_eq!((found(&dir), is_in_group(data.path())), ("here", true));
        dir.clear().unwrap();
        assert_eq!((found(&dir), is_in_group(data.path())), ("nothing", false));
        dir.clear().unwrap();
    }

    /// One that a version wrote whose members shared no settings is of a member that has its own.
    #[test]
    fn whose_settings_it_has_is_kept_and_is_its_own_unless_it_is_said() {
        let data = tempfile::tempdir().unwrap();
        let dir = GroupDir::new(data.path());
        dir.begin(&keys()).unwrap();
        dir.write(&file()).unwrap();
        let path = dir.0.join(MEMBERSHIP);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(r#""settings": "shared""#), "{text}");
        let marks = [
            SettingsMark::Own,
            SettingsMark::ToReplace,
            SettingsMark::Returned,
            SettingsMark::Shared,
        ];
        for settings in marks {
            dir.write(&MembershipFile { settings, ..file() }).unwrap();
            let Ok(Found::Here(here)) = dir.read() else { panic!("it is there") };
            assert_eq!(here.0.settings, settings);
        }
        let mut earlier: serde_json::Value = serde_json::from_str(&text).unwrap();
        earlier.as_object_mut().unwrap().remove("settings").unwrap();
        fs::write(&path, earlier.to_string()).unwrap();
        let Ok(Found::Here(here)) = dir.read() else { panic!("it is there") };
        assert_eq!(here.0, MembershipFile { settings: SettingsMark::Own, ..file() });
    }

    #[test]
    fn that_settings_are_those_of_a_group_is_known_after_it_was_left() {
        let data = tempfile::tempdir().unwrap();
        let dir = GroupDir::new(data.path());
        dir.begin(&keys()).unwrap();
        dir.write(&file()).unwrap();
        assert!(!dir.has_noted_settings());
        dir.note_settings(&file().group).unwrap();
        dir.note_settings(&file().group).unwrap();
        dir.clear().unwrap();
        assert_eq!(found(&dir), "nothing");
        assert!(dir.has_noted_settings());
    }

    #[test]
    fn what_is_not_whole_is_told_apart_from_no_group() {
        let data = tempfile::tempdir().unwrap();
        let dir = GroupDir::new(data.path());
        dir.begin(&keys()).unwrap();
        for text in ["", "{", "{\"version\":1}", "{\"version\":1,\"group\":\"x\"}"] {
            fs::write(dir.0.join(MEMBERSHIP), text).unwrap();
            assert_eq!(found(&dir), "damaged", "{text}");
        }
        fs::write(dir.0.join(MEMBERSHIP), "{\"version\":2}").unwrap();
        let Err(later) = dir.read() else { panic!("it is of a later version") };
        assert!(later.to_string().contains("has version 2"), "{later}");
        dir.write(&file()).unwrap();
        fs::remove_file(dir.key()).unwrap();
        assert_eq!(found(&dir), "damaged", "its key is gone");
    }
}
