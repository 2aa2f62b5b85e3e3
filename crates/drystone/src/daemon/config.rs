//! The file of a member: the options of `drystone up` as keys, and disks by patterns.

use crate::cli::up::UpArgs;
use crate::cli::words::{Entry, FILE_BYTES_MAX, Plain, Refused, Words, read_regular};
use crate::cli::{Cli, Command};
use crate::logging;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Options that are for a command line only: secrets, and what is meant for one start.
const NOT_IN_FILES: [&str; 7] =
    ["accept-missing", "open-access", "chap", "mutual-chap", "help", "hints", "members"];

/// The key of the addresses that hosts reach.
const PORTAL: &str = "portal";

/// The key of what is logged, which is read where logging starts.
const LOG: &str = "log";

/// The keys whose values are disks.
pub(super) const DISK_KEYS: [&str; 2] = ["disk", "journal"];

/// What a file says.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) up: UpArgs,
    pub(super) log: Option<String>,
    /// The keys, with disks as they were written.
    pub(super) entries: Vec<Entry>,
    /// Patterns that match no disk.
    pub(super) unmatched: Vec<Refused>,
}

/// Why a file makes no member.
#[derive(Debug)]
pub(super) enum Unusable {
    /// All that does not read, in the order of the lines.
    Unread(Vec<Refused>),
    /// It cannot be read now; or it reads, and no disk is there that its patterns mean. That may pass.
    NotYet(Vec<Refused>),
}

impl Unusable {
    /// What is to be told.
    pub(super) fn refused(self) -> Vec<Refused> {
        let (Self::Unread(refused) | Self::NotYet(refused)) = self;
        refused
    }
}

/// Reads a file.
///
/// # Errors
/// It makes no member.
pub(super) fn read(path: &Path) -> Result<Config, Unusable> {
    let text = read_regular(path, FILE_BYTES_MAX).map_err(|error| {
        let what = format!(
            "it cannot be read ({error}): write it, the package brings an example with comments"
        );
        // What the system says of a disk or of a server may pass.
        let may_pass = error.raw_os_error().is_some() && error.kind() != ErrorKind::NotFound;
        match may_pass {
            true => Unusable::NotYet(vec![what.into()]),
            false => Unusable::Unread(vec![what.into()]),
        }
    })?;
    parse(&text)
}

fn parse(text: &str) -> Result<Config, Unusable> {
    let words = Words::of("up", None, &NOT_IN_FILES);
    let (entries, mut refused) = words.read(text);
    // Each on its own, so that all are told at once.
    let each = entries.iter().filter_map(|entry| words.parse(std::slice::from_ref(entry)).err());
    refused.extend(each);
    let is_bare = |entry: &&Entry| entry.key == PORTAL && entry.value == Plain::List(Vec::new());
    refused.extend(entries.iter().filter(is_bare).map(|entry| Refused {
        line: Some(entry.line),
        what: "'portal' names no address, so that no host could log in: write portal = [\"192.0.2.10:3260\"], or leave \
               the key out for this machine alone"
            .to_owned(),
    }));
    refused.extend(entries.iter().filter(|entry| entry.key == LOG).filter_map(|entry| {
        let what = texts(&entry.value).iter().find_map(|text| logging::check_key(text).err())?;
        Some(Refused { line: Some(entry.line), what })
    }));
    let names_disks = |entry: &Entry| entry.key == DISK_KEYS[0] && !texts(&entry.value).is_empty();
    if refused.is_empty() && !entries.iter().any(names_disks) {
        let what = "it names no disk: write disk = [\"/dev/disk/by-id/...\"], ls /dev/disk/by-id shows their names";
        refused.push(what.to_owned().into());
    }
    if !refused.is_empty() {
        refused.sort_by_key(|refused| refused.line);
        return Err(Unusable::Unread(refused));
    }
    let (found, unmatched) = with_disks(&entries);
    let Cli { log, command } =
        words.parse(&found).map_err(|refused| Unusable::Unread(vec![refused]))?;
    let Command::Up(up) = command else {
        return Err(Unusable::Unread(vec!["it is not about a member".to_owned().into()]));
    };
    // Without any it would be a member on trial files.
    match up.disks.is_empty() {
        true => Err(Unusable::NotYet(unmatched)),
        false => Ok(Config { up: *up, log, entries, unmatched }),
    }
}

/// The keys with what their patterns match, and the patterns that match nothing.
fn with_disks(entries: &[Entry]) -> (Vec<Entry>, Vec<Refused>) {
    let (mut found, mut unmatched) = (Vec::new(), Vec::new());
    let mut taken = BTreeSet::new();
    for entry in entries {
        if !DISK_KEYS.contains(&entry.key.as_str()) {
            found.push(entry.clone());
            continue;
        }
        let mut disks = Vec::new();
        for text in texts(&entry.value) {
            if !is_pattern(text) {
                taken.insert(real(Path::new(text)));
                disks.push(text.clone());
                continue;
            }
            let matching = matching(text, &mut taken);
            if matching.is_empty() {
                let what = format!(
                    "no disk matches '{text}' that is not named before: ls /dev/disk/by-id shows what there is"
                );
                unmatched.push(Refused { line: Some(entry.line), what });
            }
            disks.extend(matching);
        }
        if !disks.is_empty() {
            found.push(Entry { value: Plain::List(disks), ..entry.clone() });
        }
    }
    (found, unmatched)
}

/// The texts of a value.
pub(super) fn texts(value: &Plain) -> &[String] {
    match value {
        Plain::Text(text) => std::slice::from_ref(text),
        Plain::List(texts) => texts,
        Plain::Switch(_) => &[],
    }
}

pub(super) fn is_pattern(text: &str) -> bool {
    text.starts_with('/') && text.contains(['*', '?', '['])
}

/// The disks that match and are not `taken`, by their first name each, and no partitions.
fn matching(pattern: &str, taken: &mut BTreeSet<PathBuf>) -> Vec<String> {
    let Ok(paths) = glob::glob(pattern) else { return Vec::new() };
    let names = paths.filter_map(Result::ok).filter_map(|path| path.to_str().map(str::to_owned));
    let whole = names.filter(|name| !is_partition(name));
    // Udev gives a disk several names.
    let once = whole.filter(|name| taken.insert(real(Path::new(name))));
    once.filter_map(|name| written(&name)).collect()
}

/// As a disk is written whose name may hold a colon, which parts a file from its size. Files with one are
/// not meant by patterns.
fn written(name: &str) -> Option<String> {
    let is_device = fs::metadata(name).is_ok_and(|found| found.file_type().is_block_device());
    match (is_device, name.contains(':')) {
        (true, _) => Some(format!("disk:{name}")),
        (false, false) => Some(name.to_owned()),
        (false, true) => None,
    }
}

/// What udev calls `...-part1`, or the kernel knows as a partition.
fn is_partition(name: &str) -> bool {
    let number = name.rsplit_once("-part").map(|(_, number)| number);
    let is_called =
        number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()));
    let known = real(Path::new(name)).file_name().map(|it| Path::new("/sys/class/block").join(it));
    is_called || known.is_some_and(|known| known.join("partition").exists())
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(config: &Config) -> Vec<String> {
        config.up.disks.iter().map(ToString::to_string).collect()
    }

    /// What does not read.
    fn refused(text: &str) -> Vec<Refused> {
        match parse(text) {
            Err(Unusable::Unread(refused)) => refused,
            read => panic!("it reads: {read:?}"),
        }
    }

    #[test]
    fn a_file_says_what_a_command_line_says() {
        let text = "# a member\ndata = '/srv/d'\ndisk = ['ram:1G', \"/x:2G\"]\nportal = '192.0.2.1'\n\
                    cores = 2\nraid = 'raid5'\nlog = 'debug'\nallow = ['10.0.0.0/8', '::1']\n";
        let config = parse(text).unwrap();
        assert_eq!(names(&config), ["ram:1G", "/x:2G"]);
        assert_eq!(config.up.serve.portals, ["192.0.2.1:3260".parse().unwrap()]);
        assert_eq!((config.up.serve.cores, config.up.serve.allow.len()), (Some(2), 2));
        assert_eq!(config.log.as_deref(), Some("debug"));
        assert_eq!(config.up.data.as_deref(), Some(Path::new("/srv/d")));
    }

    #[test]
    fn all_that_is_wrong_is_told_with_its_line() {
        let text = "disk = ['ram:1G', '']\nportl = '1.2.3.4'\n\ncores = 0\nhints = true\nraid = 'raid7'\n\
                    chap = 'alice:sixteen-bytes-ok'\nfast = true\n[volumes]\na = 1\n";
        let said: Vec<String> = refused(text).iter().map(ToString::to_string).collect();
        let expected = [
            "line 1: 'disk' needs texts: write disk = \"...\"",
            "line 2: there is no key 'portl': write 'portal'",
            "line 4: ",
            "line 5: 'hints' is for the command line: leave it out",
            "line 6: ",
            "line 7: 'chap' is for the command line: write chap-file",
            "line 8: there is no key 'fast': ",
            "line 9: there is no key 'volumes'",
        ];
        assert_eq!(said.len(), expected.len(), "{said:#?}");
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.starts_with(expected), "{said}");
            assert!(!said.contains("sixteen"), "{said}");
        }
        let said = |text: &str| refused(text)[0].to_string();
        let bare = said("disk = 'ram:1G'\nportal = []");
        assert!(bare.starts_with("line 2: 'portal' names no address"), "{bare}");
        for filter in ["blah=;", "inf", "target="] {
            let wanted =
                format!("line 2: log: '{filter}' is not a log filter: write error, warn, ");
            let refused = said(&format!("disk = 'ram:1G'\nlog = '{filter}'"));
            assert!(refused.starts_with(&wanted), "{refused}");
        }
        assert!(said("cores = 1").starts_with("it names no disk: write disk = "));
        assert!(said("disk = []").starts_with("it names no disk: write disk = "));
        assert!(said("disk = 'ram:1G'\ncores =").starts_with("line 2: "));
    }

    /// A file of 1 GiB took 2 GB of memory.
    #[test]
    fn a_file_that_is_too_long_is_refused_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("member.toml");
        let file = fs::File::create(&path).unwrap();
        file.set_len(FILE_BYTES_MAX + 1).unwrap();
        let Err(Unusable::Unread(refused)) = read(&path) else { panic!("it may pass") };
        let said = refused[0].to_string();
        assert!(said.starts_with("it cannot be read (it has more than 1048576 bytes): "), "{said}");
        let mut text = "disk = 'ram:1G'\n#".to_owned();
        text.push_str(&"-".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() - text.len()));
        fs::write(&path, text).unwrap();
        assert_eq!(names(&read(&path).unwrap()).len(), 1);
    }

    #[test]
    fn a_pattern_means_whole_disks_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["sda", "sda1", "sdb", "sdc", "id-y:12M"] {
            fs::write(at(name), "").unwrap();
        }
        for (link, of) in
            [("id-a", "sda"), ("id-a-part1", "sda1"), ("id-a-too", "sda"), ("id-b", "sdb")]
        {
            symlink(at(of), at(link)).unwrap();
        }
        let shown = dir.path().display();
        let text = format!("journal = '{shown}/sd[c]'\ndisk = ['{shown}/id-*', '{shown}/no-*']\n");
        let config = parse(&text).unwrap();
        assert_eq!(names(&config), [format!("{shown}/id-a"), format!("{shown}/id-b")]);
        assert_eq!(config.up.journals.len(), 1);
        assert_eq!(config.unmatched.len(), 1);
        assert!(config.unmatched[0].to_string().starts_with("line 2: no disk matches '"));
        let named_first = format!("disk = ['{shown}/sda', '{shown}/id-*']");
        assert_eq!(names(&parse(&named_first).unwrap()).len(), 2);
        let none = parse(&format!("disk = '{shown}/no-*'")).unwrap_err();
        assert!(matches!(none, Unusable::NotYet(_)), "they may come yet: {none:?}");
        let none = none.refused();
        assert!(none[0].to_string().contains("no disk matches"), "no trial files: {none:?}");
    }
}
