//! The files of `drystone attach --all`: one volume each, in the words of the command line.
//!
//! A secret cannot stand there, only the name of
//! the file that holds it; the exception is that of a URL, and then the file must be its owner's alone.

use crate::access::secret::{self, SecretError};
use crate::attach::plan::{Plan, PlanError};
use crate::cli::Command;
use crate::cli::attach::AttachArgs;
use crate::cli::words::{
    self, FILE_BYTES_MAX, Plain, Refused, Words, must_be_regular, read_regular,
};
use ::attach::nbd::Address;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The key for the volume, which stands without an option on the command line.
const URL: &str = "url";

/// The keys that say where the disk is to be found, of which a file has one.
const PLACES: [&str; 3] = ["nbd", "fuse", "ublk"];

/// Options that are for a command line only.
const NOT_IN_FILES: [&str; 8] =
    ["all", "config-dir", "runtime-dir", "chap", "mutual-chap", "help", "log", "version"];

/// The longest name: with what udev puts around it, still a file name.
const NAME_LEN_MAX: usize = 64;

/// A volume that is to be attached.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) args: AttachArgs,
    /// What the file holds, to see whether it has changed.
    pub(crate) text: String,
}

/// What a directory holds, by the names of the files without `.toml`.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) entries: BTreeMap<String, Entry>,
    /// A sentence for each file that does not read.
    pub(crate) refused: BTreeMap<String, String>,
}

/// Reads all `*.toml` of `dir`. A file that does not read leaves the others alone.
///
/// # Errors
/// When the directory cannot be read.
pub(crate) fn read_dir(dir: &Path) -> io::Result<Found> {
    let paths: Vec<PathBuf> =
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    let mut found = Found::default();
    for path in paths {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = file_name.strip_suffix(".toml").filter(|name| !name.starts_with('.'))
        else {
            continue;
        };
        match read_file(name, &path) {
            Ok(entry) => drop(found.entries.insert(name.to_owned(), entry)),
            Err(what) => {
                let sentence = format!("{}: {what}", path.display());
                found.refused.insert(name.to_owned(), sentence);
            }
        }
    }
    refuse_shared(&mut found);
    Ok(found)
}

/// What to do for an entry, with secrets read. The environment is that of all volumes, so that it says
/// nothing about one.
pub(crate) fn plan(args: &AttachArgs) -> Result<Plan, PlanError> {
    for file in [&args.chap_file, &args.mutual_chap_file].into_iter().flatten() {
        must_be_regular(file)
            .map_err(|error| SecretError::File { path: file.to_owned(), error })?;
        secret::must_be_private(file)?;
    }
    Plan::of(args, |_| None)
}

fn read_file(name: &str, path: &Path) -> Result<Entry, String> {
    if !is_name(name) {
        return Err(format!(
            "'{name}' cannot be a name: call the file by 1 to {NAME_LEN_MAX} letters, digits, dots, dashes or underscores"
        ));
    }
    let text = read_regular(path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let args = parse(&text).map_err(|refused| refused.to_string())?;
    if args.volume.as_ref().is_some_and(|volume| volume.login.is_some()) {
        secret::must_be_private(path).map_err(|error| error.to_string())?;
    }
    Ok(Entry { args, text })
}

/// Refuses entries that have a volume or a place in common: after a restart the one might be where the
/// other one was, and two disks over one volume have two caches.
fn refuse_shared(found: &mut Found) {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, Entry { args, .. }) in &found.entries {
        let volume = args.volume.as_ref().map(|it| format!("the volume {it}"));
        let fuse = args.fuse.as_ref().map(|dir| format!("the directory {}", real(dir).display()));
        // Port 0 is any that is free.
        let nbd = args.nbd.as_ref().filter(|it| !matches!(it, Address::Tcp(at) if at.port() == 0));
        let nbd = nbd.map(|address| format!("the NBD address {address}"));
        for what in [volume, fuse, nbd].into_iter().flatten() {
            owners.entry(what).or_default().push(name.clone());
        }
    }
    for (what, names) in owners.iter().filter(|(_, names)| names.len() > 1) {
        for name in names {
            found.entries.remove(name);
            let others: Vec<_> = names.iter().filter(|it| *it != name).cloned().collect();
            let sentence =
                format!("{what} is also that of {}: leave it to one file", others.join(", "));
            found.refused.insert(name.clone(), sentence);
        }
    }
}

/// The directory by its one name, if it is there.
fn real(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}

/// It becomes part of file names.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c);
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.chars().all(fits)
}

/// Reads the keys of one volume; a sentence if that cannot be done.
fn parse(text: &str) -> Result<AttachArgs, Refused> {
    let words = Words::of("attach", Some(URL), &NOT_IN_FILES);
    let (entries, mut refused) = words.read(text);
    if !refused.is_empty() {
        return Err(refused.swap_remove(0));
    }
    if !entries.iter().any(|entry| entry.key == URL) {
        let what = "it names no volume: write url = \"iscsi://HOST[:PORT]/IQN[/LUN]\"";
        return Err(what.to_owned().into());
    }
    let is_place = |entry: &words::Entry| {
        PLACES.contains(&entry.key.as_str()) && entry.value != Plain::Switch(false)
    };
    if !entries.iter().any(is_place) {
        let what = "it names no place for the disk: write nbd = \"unix:PATH\", fuse = \"DIR\" or ublk = true";
        return Err(what.to_owned().into());
    }
    match words.parse(&entries)?.command {
        Command::Attach(args) => Ok(*args),
        _ => Err("it is not about an attachment".to_owned().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;
    use std::os::unix::fs::PermissionsExt;

    const IQN: &str = "iscsi://192.0.2.1/iqn.2026-11.com.example:a";

    #[test]
    fn a_file_says_what_a_command_line_says() {
        let text = format!(
            "# a volume\nurl = '{IQN}/2'\nnbd = \"unix:/run/a.sock\"\npolicy = \"round-robin:8\"\n\
             sessions = 3\nconnections = \"2\"\npath-timeout = 7\nublk = false\n\
             initiator = 'iqn.2026-11.com.example:me'\nchap-file = '/a'\nmutual-chap-file = '/b'\n"
        );
        let args = parse(&text).unwrap();
        assert_eq!(args.volume.unwrap().to_string(), format!("{IQN}/2"));
        assert_eq!(args.nbd.unwrap().to_string(), "unix:/run/a.sock");
        assert_eq!(args.policy.to_string(), "round-robin:8");
        assert_eq!((args.sessions, args.connections), (Some(3), 2));
        assert_eq!(args.path_timeout.as_secs(), 7);
        assert_eq!(args.initiator.as_deref(), Some("iqn.2026-11.com.example:me"));
        assert_eq!(args.chap_file.as_deref(), Some(Path::new("/a")));
        assert_eq!(args.mutual_chap_file.as_deref(), Some(Path::new("/b")));
        assert!(!args.ublk && !args.all);
        assert!(parse(&format!("url = '{IQN}'\nublk = true")).unwrap().ublk);
    }

    #[test]
    fn what_does_not_read_is_told_in_a_sentence() {
        let cases = [
            ("nbd = 'unix:/x'\npolcy = 'failover'", "there is no key 'polcy': write 'policy'"),
            ("ublk = true\n\nsessions = 0", "write 1 to 512"),
            ("ublk = true\npolicy = 'fastest'", "a policy is failover, "),
            ("ublk = 'yes'", "'ublk' is true or false: write ublk = true"),
            ("ublk = true\nsessions = [1]", "'sessions' needs a text or a number"),
            ("ublk = true\nsessions = true", "'sessions' needs a text or a number"),
            ("nbd = '/run/x'", "is not an address for NBD"),
            (
                "nbd = 'unix:/x'\nublk = true",
                "nbd cannot be used together with ublk: write only one",
            ),
            ("ublk = false", "it names no place for the disk: write nbd = "),
            (
                "ublk = true\nspeed = 3",
                "there is no key 'speed': the options in drystone attach --help",
            ),
            (
                "ublk = true\nchap-file = ''",
                "'chap-file' needs a text or a number: write chap-file =",
            ),
            (
                "ublk = yes",
                "line 2: string values must be quoted, expected literal string: write KEY =",
            ),
            ("chap = 'alice:sixteen-bytes-ok'\nublk = true", "write chap-file, and the secret"),
            ("all = true", "'all' is for the command line: leave it out"),
            ("policy = --all", "line 2: "),
            ("ublk = true\nublk = true", "line 3: "),
            ("ublk = true\n[table]\nnbd = 'unix:/x'", "there is no key 'table'"),
        ];
        for (text, what) in cases {
            let said = parse(&format!("url = '{IQN}'\n{text}")).unwrap_err().to_string();
            assert!(said.contains(what), "{text}: {said}");
            assert!(!said.contains("sixteen") && !said.contains('\n'), "{text}: {said}");
            let is_of_files = !said.replace("attach --help", "").contains("--");
            assert!(is_of_files, "{text}: {said}");
        }
        assert!(
            parse("ublk = true")
                .unwrap_err()
                .to_string()
                .starts_with("it names no volume: write url =")
        );
        assert!(
            parse("url = 'http://x'\nublk = true").unwrap_err().to_string().contains("iscsi://")
        );
    }

    #[test]
    fn a_value_is_never_taken_for_an_option() {
        let text = format!("url = '{IQN}'\nublk = true\ninitiator = '--all'");
        assert!(parse(&text).unwrap_err().to_string().contains("is not an iSCSI name"));
        assert!(parse("url = '--all'\nublk = true").unwrap_err().to_string().contains("iscsi://"));
    }

    #[test]
    fn files_that_do_not_read_leave_the_others_alone() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let good = format!("url = '{IQN}'\nnbd = 'unix:/run/a.sock'\n");
        for name in ["b.toml", "two words.toml", ".hidden.toml", "e.toml~", "README"] {
            write(name, &good);
        }
        write("a.toml", &good.replace("com.example:a", "com.example:b").replace("/a.", "/b."));
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe.toml"), 0o600.into()).unwrap();
        write("broken.toml", "url = '");
        let found = read_dir(dir.path()).unwrap();
        assert_eq!(found.entries.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(found.entries["b"].text, good);
        assert_eq!(found.refused.len(), 3);
        assert!(found.refused["pipe"].contains("it is no regular file"));
        assert!(found.refused["broken"].contains("/broken.toml: line 1: "));
        assert!(found.refused["two words"].contains("'two words' cannot be a name"));
        assert!(read_dir(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn a_volume_or_a_place_of_two_files_is_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, iqn: &str, place: &str| {
            let url = format!("iscsi://192.0.2.1/iqn.2026-11.com.example:{iqn}");
            let text = format!("url = '{url}'\n{place}\n");
            fs::write(dir.path().join(name).with_extension("toml"), text).unwrap();
        };
        write("alone", "a", "nbd = 'unix:/run/a.sock'");
        write("any", "f", "nbd = '127.0.0.1:0'");
        write("free", "g", "nbd = '127.0.0.1:0'");
        write("b", "b", "nbd = 'unix:/run/b.sock'");
        write("same", "c", "nbd = 'unix:/run/b.sock'");
        write("d", "d", &format!("fuse = '{}'", dir.path().display()));
        write("dots", "e", &format!("fuse = '{}/.'", dir.path().display()));
        write("volume", "d", "nbd = 'unix:/run/d.sock'");
        let found = read_dir(dir.path()).unwrap();
        assert_eq!(found.entries.keys().collect::<Vec<_>>(), ["alone", "any", "free"]);
        assert_eq!(found.refused.len(), 5);
        let said = &found.refused["same"];
        assert_eq!(
            said,
            "the NBD address unix:/run/b.sock is also that of b: leave it to one file"
        );
        assert!(found.refused["volume"].contains("the volume iscsi://192.0.2.1/iqn"));
        assert!(found.refused["dots"].contains("is also that of d:"));
    }

    /// The unit says what the command takes, and what the process tells.
    #[test]
    fn the_unit_starts_it_as_it_is() {
        const UNIT: &str = include_str!("../../../../packaging/drystone-attach.service");
        let value = |key: &str| {
            let mut lines = UNIT.lines().filter_map(|line| line.strip_prefix(key));
            lines.next().unwrap_or_else(|| panic!("no {key} in the unit")).to_owned()
        };
        let start = value("ExecStart=");
        let cli = Cli::try_parse_from(start.split(' ')).unwrap();
        let Command::Attach(args) = cli.command else { panic!("{start}") };
        assert!(args.all && args.runtime.runtime_dir.is_none());
        let made_by_systemd = Path::new("/etc").join(value("ConfigurationDirectory="));
        assert_eq!(args.config_dir, made_by_systemd);
        assert_eq!(value("Type="), "notify");
        assert!(value("ExecReload=").contains("-HUP $MAINPID"));
        assert!(!UNIT.contains("\nRuntimeDirectory="), "what it holds must survive a restart");
    }

    #[test]
    fn who_may_read_a_secret_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let may_read = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let path = dir.path().join("a.toml");
        let with_login = IQN.replace("//", "//bob%sixteen-bytes-no@");
        fs::write(&path, format!("url = '{with_login}'\nnbd = 'unix:/run/a.sock'\n")).unwrap();
        may_read(&path, 0o644);
        let said = read_dir(dir.path()).unwrap().refused["a"].clone();
        assert!(said.contains("run chmod 600 on it") && !said.contains("sixteen"), "{said}");
        may_read(&path, 0o600);
        assert_eq!(read_dir(dir.path()).unwrap().entries.len(), 1);

        let chap = dir.path().join("chap");
        fs::write(&chap, "alice:sixteen-bytes-ok").unwrap();
        let text = format!("url = '{IQN}'\nnbd = 'unix:/x'\nchap-file = '{}'\n", chap.display());
        let args = parse(&text).unwrap();
        may_read(&chap, 0o640);
        assert!(plan(&args).unwrap_err().to_string().contains("run chmod 600 on it"));
        may_read(&chap, 0o600);
        assert!(plan(&args).unwrap().options.session.chap.is_some());
        fs::remove_file(&chap).unwrap();
        assert!(plan(&args).unwrap_err().to_string().contains("cannot read the CHAP login"));
    }
}
