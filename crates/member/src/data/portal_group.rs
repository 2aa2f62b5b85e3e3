//! The number of this server's portal group (RFC 7143 §4.4.1).
//!
//! Hosts take two portals of one target and one number for ways to the same server, and what a login
//! there ends for ended everywhere. So the number of a server of disks is drawn once for its directory, at random,
//! and kept in the file `portal-group`: no other server has it by habit, and none gets it again. That of a member
//! goes with its array, as what hosts have reserved there does: it follows from the array's ID, or is the one
//! that an earlier version drew for the directory.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroU16;
use std::path::Path;

use group::regular;

use super::unit_files::rename_aside;
use super::{DataError, FILE_BYTES_MAX, RESERVATIONS};

const FILE: &str = "portal-group";

/// The number that all servers had before each drew its own. Registrations that were saved then are
/// those of nexuses with it.
const EVERYBODYS: u16 = 1;

/// The number of the server that keeps its state in `dir`, and its reservations too, 1 to 65535.
///
/// # Errors
/// What cannot be read or written, and [`DataError::PortalGroup`] if it holds no number.
pub fn number(dir: &Path) -> Result<u16, DataError> {
    let path = dir.join(FILE);
    if let Some(number) = read(&path)? {
        return Ok(number);
    }
    let number = if has_any(dir) { EVERYBODYS } else { draw() };
    keep(&path, number).map_err(|source| DataError::Write { path: path.clone(), source })?;
    // Another process that has begun at the same moment may have been the first.
    let gone = || ErrorKind::NotFound.into();
    read(&path)?.ok_or_else(|| DataError::Read { path, source: gone() })
}

/// The number that an earlier version of a member had in its data directory.
///
/// # Errors
/// As [`number`].
pub(crate) fn of_earlier(data: &Path) -> Result<Option<NonZeroU16>, DataError> {
    let number = match read(&data.join(FILE))? {
        Some(number) => Some(number),
        None => has_any(&data.join(RESERVATIONS)).then_some(EVERYBODYS),
    };
    Ok(number.and_then(NonZeroU16::new))
}

/// The number is stored elsewhere now: its file is moved aside, if there is one.
///
/// # Errors
/// [`DataError::Write`].
pub(crate) fn set_aside(data: &Path) -> Result<(), DataError> {
    let path = data.join(FILE);
    if path.exists() { rename_aside(&path) } else { Ok(()) }
}

/// The number that follows from the ID of an array, which was drawn at random too.
pub(crate) fn of_array(id: &str) -> NonZeroU16 {
    let digits = id.get(id.len().saturating_sub(4)..).unwrap_or(id);
    let number = u16::from_str_radix(digits, 16).ok().and_then(NonZeroU16::new);
    number.unwrap_or(NonZeroU16::MAX)
}

fn read(path: &Path) -> Result<Option<u16>, DataError> {
    let text = match regular::read_text(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| DataError::Read { path: path.to_owned(), source })?,
    };
    match text.trim().parse() {
        Ok(number) if number != 0 => Ok(Some(number)),
        _ => Err(DataError::PortalGroup(path.to_owned())),
    }
}

fn has_any(reservations: &Path) -> bool {
    let ends = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".reservations");
    let entries = fs::read_dir(reservations).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| ends(&entry.file_name()))
}

fn draw() -> u16 {
    let mut bytes = [0; 2];
    loop {
        getrandom::fill(&mut bytes).expect("the kernel has random numbers");
        if bytes != [0; 2] {
            return u16::from_ne_bytes(bytes);
        }
    }
}

/// Writes the file whole, unless there is one.
fn keep(path: &Path, number: u16) -> io::Result<()> {
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = fs::File::create(&fresh)?;
    writeln!(file, "{number}")?;
    file.sync_all()?;
    let linked = fs::hard_link(&fresh, path);
    fs::remove_file(&fresh)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    ring::sync_parent(path)
}

#[cfg(test)]
mod tests {
    use super::number as of;
    use super::*;

    #[test]
    fn each_directory_has_a_number_of_its_own_for_good() {
        let dirs: Vec<_> = (0..20).map(|_| tempfile::tempdir().unwrap()).collect();
        let mut numbers: Vec<_> = dirs.iter().map(|dir| of(dir.path()).unwrap()).collect();
        let again: Vec<_> = dirs.iter().map(|dir| of(dir.path()).unwrap()).collect();
        assert_eq!(numbers, again);
        assert!(!numbers.contains(&0));
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() > 15, "drawn at random: {numbers:?}");
        assert_eq!(fs::read_dir(dirs[0].path()).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn the_first_of_several_processes_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        keep(&path, 7).unwrap();
        keep(&path, 8).unwrap();
        assert_eq!(of(dir.path()).unwrap(), 7);
    }

    #[test]
    fn saved_registrations_keep_the_number_that_they_were_made_with() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.reservations"), b"").unwrap();
        assert_eq!(of(dir.path()).unwrap(), EVERYBODYS);
        fs::remove_file(dir.path().join("x.reservations")).unwrap();
        assert_eq!(of(dir.path()).unwrap(), EVERYBODYS, "also later");
    }

    #[test]
    fn what_does_not_read_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "0", "65536", "one"] {
            fs::write(dir.path().join(FILE), text).unwrap();
            let refused = of(dir.path()).unwrap_err().to_string();
            assert!(refused.contains("holds no number of a portal group"), "{refused}");
        }
    }

    #[test]
    fn an_array_has_one_by_its_id_or_from_an_earlier_version() {
        assert_eq!(of_array("0123456789abcdef0123456789abcdef").get(), 0xcdef);
        assert_eq!(of_array("0123456789abcdef0123456789ab0000").get(), u16::MAX);
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(of_earlier(dir.path()).unwrap(), None);
        set_aside(dir.path()).unwrap();
        let drawn = of(dir.path()).unwrap();
        assert_eq!(of_earlier(dir.path()).unwrap(), NonZeroU16::new(drawn));
        set_aside(dir.path()).unwrap();
        assert_eq!(of_earlier(dir.path()).unwrap(), None);
        assert!(dir.path().join("portal-group.moved").exists());
        fs::create_dir(dir.path().join(RESERVATIONS)).unwrap();
        fs::write(dir.path().join("reservations/x.reservations"), b"").unwrap();
        assert_eq!(of_earlier(dir.path()).unwrap(), NonZeroU16::new(EVERYBODYS));
    }
}
