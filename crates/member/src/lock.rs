//! Files that one process at a time may hold.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A file that is locked for as long as this lives. The file itself stays: were it removed, a
/// process that is about to lock it would hold a lock that nobody else sees.
#[derive(Debug)]
pub struct LockFile {
    _locked: File,
}

/// Why a lock was not taken.
#[derive(Debug)]
pub enum LockError {
    /// Another process has it; its number, if that can be told.
    Taken(Option<u32>),
    /// The file cannot be made or locked.
    System(io::Error),
}

impl LockFile {
    /// Locks the file at `path`, which is made if it is missing and then holds the number of this
    /// process. A file with anything else than such a number is somebody's, and is not written over.
    pub fn take(path: &Path) -> Result<LockFile, LockError> {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(LockError::System(something_else(path)));
        }
        let mut open = fs::OpenOptions::new();
        open.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = open.open(path).map_err(LockError::System)?;
        lock(&mut file, path)?;
        if !is_a_number(&mut file).map_err(LockError::System)? {
            return Err(LockError::System(something_else(path)));
        }
        // The lock counts, the number is for people: a full file system is told of elsewhere.
        let _ = write_number(&mut file);
        Ok(LockFile { _locked: file })
    }

    /// The same of a file in a directory, and of the directory itself. Where nothing can be written, unless
    /// `is_written`, the file is taken as it is, and may be missing: who comes when that has changed
    /// finds the directory taken.
    pub fn take_with_dir(
        path: &Path,
        is_written: bool,
    ) -> Result<(Option<LockFile>, LockFile), LockError> {
        let of_file = match is_written {
            true => Some(Self::take(path)?),
            false => match File::open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                file => Some(Self::of(file, path)?),
            },
        };
        let dir = path.parent().unwrap_or(Path::new("."));
        Ok((of_file, Self::of(File::open(dir), dir)?))
    }

    fn of(file: io::Result<File>, path: &Path) -> Result<LockFile, LockError> {
        let mut file = file.map_err(LockError::System)?;
        lock(&mut file, path)?;
        Ok(LockFile { _locked: file })
    }
}

/// The bytes that the number of a process may have, with the end of its line.
const NUMBER_BYTES_MAX: u64 = 16;

/// Whether something is at `path` that is no lock file: not even a file, or one that holds more than a number.
#[must_use]
pub fn is_something_else(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {
            // What cannot be read is told when it is to be locked.
            let is_lock = File::open(path).and_then(|mut file| is_a_number(&mut file));
            !is_lock.unwrap_or(true)
        }
        Ok(_) => true,
        Err(_) => false,
    }
}

fn something_else(path: &Path) -> io::Error {
    io::Error::other(format!("'{}' is no lock file, and is not replaced by one", path.display()))
}

/// Whether a file holds the number of a process, or nothing: one that ends early leaves it empty, and a machine that
/// does perhaps with zeroes.
fn is_a_number(file: &mut File) -> io::Result<bool> {
    let mut bytes = Vec::new();
    file.take(NUMBER_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let is_of_it = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'\n' | 0);
    Ok(bytes.len() as u64 <= NUMBER_BYTES_MAX && bytes.iter().all(is_of_it))
}

fn write_number(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn lock(file: &mut File, path: &Path) -> Result<(), LockError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::Error(error)) => Err(LockError::System(error)),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // Without a number the sentence is shorter.
            let _ = file.read_to_string(&mut text);
            Err(LockError::Taken(text.trim().parse().ok().or_else(|| holder(path))))
        }
    }
}

/// How often the list of locks is read: it comes in pieces, and one that another process gives back
/// meanwhile hides the next.
const LOOKS: usize = 8;

/// The process that has a lock (flock) on the file or device at `path`.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    let metadata = fs::metadata(path).ok()?;
    let look =
        || holder_in(&fs::read_to_string("/proc/locks").ok()?, metadata.dev(), metadata.ino());
    (0..LOOKS).find_map(|_| look())
}

/// `another drystone (pid 7)`, or what else is known of who holds something.
pub fn somebody(pid: Option<u32>) -> String {
    let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    match pid.map(|pid| (pid, name(pid))) {
        Some((pid, Some(name))) if !name.starts_with("drystone") => {
            format!("process {pid} ({})", name.trim())
        }
        Some((pid, _)) => format!("another drystone (pid {pid})"),
        None => "another process".to_owned(),
    }
}

/// Looks for a lock in the words of `/proc/locks`: number, kind, `ADVISORY`, `WRITE`, process,
/// device and inode, range.
fn holder_in(locks: &str, dev: u64, inode: u64) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let wanted = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
        if file == wanted { pid.parse().ok().filter(|pid| *pid > 0) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_the_others_hear_who() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = LockFile::take(&path).unwrap();
        let again = LockFile::take(&path).unwrap_err();
        assert!(matches!(again, LockError::Taken(Some(pid)) if pid == std::process::id()));
        assert_eq!(holder(&path), Some(std::process::id()), "the system says so too");
        drop(held);
        assert_eq!(holder(&path), None);
        LockFile::take(&path).unwrap();
        let nowhere = LockFile::take(&dir.path().join("a/b")).unwrap_err();
        assert!(matches!(nowhere, LockError::System(_)));
    }

    /// A file of the user that happened to lie there was written over.
    #[test]
    fn what_is_no_lock_file_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock.lock");
        assert!(!is_something_else(&path), "nothing is there");
        for text in ["", "4711\n", "\0\0\0\0"] {
            fs::write(&path, text).unwrap();
            assert!(!is_something_else(&path), "{text:?}");
            drop(LockFile::take(&path).unwrap());
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        }
        for text in ["keepme", "1\nkeepme\n", "11111111111111111"] {
            fs::write(&path, text).unwrap();
            assert!(is_something_else(&path), "{text:?}");
            let refused = LockFile::take(&path).unwrap_err();
            let LockError::System(error) = refused else { panic!("{refused:?}") };
            assert!(error.to_string().contains("control.sock.lock' is no lock file"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(is_something_else(&path));
        let refused = LockFile::take(&path).unwrap_err();
        assert!(matches!(&refused, LockError::System(error) if error.raw_os_error().is_none()));
    }

    #[test]
    fn a_directory_has_one_holder_whether_it_can_be_written_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        for first_writes in [false, true, false] {
            let held = LockFile::take_with_dir(&path, first_writes).unwrap();
            for second_writes in [false, true] {
                let again = LockFile::take_with_dir(&path, second_writes);
                assert!(matches!(again, Err(LockError::Taken(Some(_)))), "{again:?}");
            }
            drop(held);
        }
        drop(LockFile::take_with_dir(&path, true).unwrap());
    }

    #[test]
    fn locks_of_other_files_and_kinds_are_passed_over() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:01:78 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:01:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 fe:01:77 0 EOF\n";
        let dev = rustix::fs::makedev(0xfe, 1);
        assert_eq!(holder_in(locks, dev, 77), Some(14));
        assert_eq!(holder_in(locks, dev, 79), None);
    }
}
