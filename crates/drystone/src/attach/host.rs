//! The sessions of this host: at most so many, each with an ISID that it gets again after a crash.
//!
//! `RUNTIME_DIR/sessions` holds `seed`, three random bytes that make the ISIDs of this directory
//! differ from those of all others, and a file for each number that a session has had. The file is
//! locked for as long as a session has the number; when its process dies, the kernel unlocks it.
//!
//! ```text
//! ISID  | 80h | seed, 3 bytes | number, 2 bytes |     RFC 7143 11.12.5, type 10b
//! ```
//!
//! While a session is logged in, its file says where, in one line, with each place where something of it
//! may still be under way; after a logout it is empty. So a
//! file that is not empty, and that nobody has locked, tells of a session that ended without one.
//!
//! Invariant: a number belongs to the one process that holds the lock of its file. Files are never
//! removed, for a lock on one that has no name any more would hold nobody back.

use initiator::{ClaimError, Hold, Identities, Identity, Leftover, PortalAddress, TargetAddress};
use iscsi::pdu::Isid;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The type of an ISID whose middle part is random.
const TYPE_RANDOM: u8 = 0x80;

/// Sessions that a host can have: as many as there are numbers of two bytes. What bounds them before
/// is memory, open files, and what the targets take.
pub(crate) const SESSIONS_MAX: u32 = 1 << 16;

/// Numbers of sessions, shared by all attachments of one runtime directory.
#[derive(Debug)]
pub(crate) struct HostSessions {
    dir: PathBuf,
    seed: [u8; 3],
    /// Sessions that the host may have.
    max: u32,
}

impl HostSessions {
    /// The numbers of the runtime directory `runtime_dir`, which exists.
    pub(crate) fn open(runtime_dir: &Path) -> io::Result<HostSessions> {
        HostSessions::with(runtime_dir, SESSIONS_MAX)
    }

    fn with(runtime_dir: &Path, max: u32) -> io::Result<HostSessions> {
        let dir = runtime_dir.join("sessions");
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let seed = seed(&dir.join("seed"))?;
        Ok(HostSessions { dir, seed, max })
    }
}

impl HostSessions {
    fn isid(&self, number: u16) -> Isid {
        let ([a, b, c], [high, low]) = (self.seed, number.to_be_bytes());
        [TYPE_RANDOM, a, b, c, high, low]
    }

    /// The file of a number, locked; `None` while somebody else has it.
    fn take(&self, number: u16) -> Result<Option<File>, ClaimError> {
        let file = open(&self.dir.join(number.to_string()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// The numbers that there have been, smallest first.
    fn known(&self) -> io::Result<Vec<u16>> {
        let names = fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.file_name()));
        let names: Vec<_> = names.collect::<io::Result<_>>()?;
        let mut known: Vec<u16> =
            names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
        known.sort_unstable();
        Ok(known)
    }
}

impl Identities for HostSessions {
    /// The same ends get the same number while it is free, else the next one that is. One that tells
    /// of a session without a logout is taken last: its next login would be all that is left to end
    /// that session.
    fn claim(&self, volume: &TargetAddress, local: Option<IpAddr>) -> Result<Identity, ClaimError> {
        // Without random keys: it is the same in every process of this program.
        let mut ends = DefaultHasher::new();
        let portal = &volume.portal;
        (volume.name.as_str(), local, &portal.host, portal.port).hash(&mut ends);
        let max = u64::from(self.max);
        let first = ends.finish() % max;
        for takes_any in [false, true] {
            for n in (first..max).chain(0..first) {
                let number = u16::try_from(n).expect("below the number of sessions");
                let Some(file) = self.take(number)? else { continue };
                if takes_any || Mark::read(&file)?.is_none() {
                    let hold = Box::new(Number { file, volume: unit(volume) });
                    return Ok(Identity { isid: self.isid(number), hold });
                }
            }
        }
        Err(ClaimError::Full(self.max))
    }

    fn leftovers(&self, volume: &TargetAddress) -> Result<Vec<Leftover>, ClaimError> {
        let mut left = Vec::new();
        for number in self.known()? {
            let Some(file) = self.take(number)? else { continue };
            if let Some(mark) = Mark::read(&file)?.filter(|mark| mark.volume == unit(volume)) {
                let hold = Box::new(Number { file, volume: mark.volume });
                left.push(Leftover { isid: self.isid(number), places: mark.places, hold });
            }
        }
        Ok(left)
    }
}

/// The unit of a target, however it is reached.
fn unit(volume: &TargetAddress) -> String {
    format!("{}/{}", volume.name, volume.lun)
}

/// The right to a number.
#[derive(Debug)]
struct Number {
    file: File,
    volume: String,
}

impl Hold for Number {
    fn logged_in(&self, places: &[PortalAddress]) -> io::Result<()> {
        Mark { volume: self.volume.clone(), places: places.to_vec() }.write(&self.file)
    }

    fn logged_out(&self) {
        if let Err(error) = self.file.set_len(0) {
            tracing::warn!("cannot note that a session has logged out: {error}");
        }
    }
}

/// Where a session is.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    volume: String,
    /// One or more.
    places: Vec<PortalAddress>,
}

impl Mark {
    /// `UNIT` and `HOST PORT TAG` for each place, with a dash for a tag that is not known.
    fn write(&self, file: &File) -> io::Result<()> {
        let mut line = self.volume.clone();
        for PortalAddress { host, port, group_tag } in &self.places {
            let tag = group_tag.map_or_else(|| "-".to_owned(), |tag| tag.to_string());
            line.push_str(&format!(" {host} {port} {tag}"));
        }
        line.push('\n');
        // What a longer line leaves behind is cut off last: the first line is whole at every moment.
        file.write_all_at(line.as_bytes(), 0)?;
        file.set_len(line.len() as u64)
    }

    /// `None` if the session has logged out, or if there never was one.
    fn read(mut file: &File) -> io::Result<Option<Mark>> {
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let fields: Vec<&str> = text.lines().next().unwrap_or("").split(' ').collect();
        let [volume, places @ ..] = &fields[..] else { return Ok(None) };
        let place = |fields: &[&str]| {
            let [host, port, tag] = fields else { return None };
            let (host, port) = ((*host).to_owned(), port.parse().ok()?);
            Some(PortalAddress { host, port, group_tag: tag.parse().ok() })
        };
        let places: Option<Vec<_>> = places.chunks(3).map(place).collect();
        let places = places.filter(|places| !places.is_empty());
        Ok(places.map(|places| Mark { volume: (*volume).to_owned(), places }))
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The directory's random bytes, made by the first who asks.
fn seed(path: &Path) -> io::Result<[u8; 3]> {
    let mut file = open(path)?;
    file.lock()?;
    let mut seed = [0; 3];
    match file.read_exact(&mut seed) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            File::open("/dev/urandom")?.read_exact(&mut seed)?;
            // Over what a crash may have left of an earlier one.
            file.write_all_at(&seed, 0)?;
        }
        result => result?,
    }
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(portal: &str, lun: u16) -> TargetAddress {
        format!("iscsi://{portal}/iqn.2026-11.com.example:a/{lun}").parse().unwrap()
    }

    fn claim(host: &HostSessions, portal: &str) -> Result<Identity, ClaimError> {
        host.claim(&volume(portal, 0), Some([192, 0, 2, 9].into()))
    }

    /// What a killed attachment leaves is found by the next one of the same unit, by nobody else,
    /// and not while somebody has it.
    #[test]
    fn a_session_without_a_logout_is_known_to_the_next_attachment() {
        let dir = tempfile::tempdir().unwrap();
        let [killed, next] = [0, 1].map(|_| HostSessions::with(dir.path(), 8).unwrap());
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|portal| claim(&killed, portal).unwrap());
        let isid = one.isid;
        let at =
            |n, group_tag| PortalAddress { host: format!("192.0.2.{n}"), port: 3260, group_tag };
        one.hold.logged_in(&[at(101, None), at(102, Some(8)), at(103, Some(9))]).unwrap();
        one.hold.logged_in(&[at(1, Some(7)), at(2, None)]).unwrap();
        two.hold.logged_in(&[at(2, Some(7))]).unwrap();
        two.hold.logged_out();
        let here = volume("192.0.2.3", 0);
        assert!(next.leftovers(&here).unwrap().is_empty(), "it lives");
        drop((one, two));
        assert!(next.leftovers(&volume("192.0.2.1", 1)).unwrap().is_empty(), "another unit");
        let mut left = next.leftovers(&here).unwrap();
        assert_eq!(left.len(), 1, "the other one has logged out");
        let one = left.pop().unwrap();
        assert_eq!((one.isid, &one.places[..]), (isid, &[at(1, Some(7)), at(2, None)][..]));
        assert_ne!(claim(&next, "192.0.2.1").unwrap().isid, isid, "it is held");
        drop(one);
        assert_ne!(claim(&next, "192.0.2.1").unwrap().isid, isid, "and still to be ended");
        next.leftovers(&here).unwrap()[0].hold.logged_out();
        assert_eq!(claim(&next, "192.0.2.1").unwrap().isid, isid);
    }

    #[test]
    fn a_number_with_a_mark_is_better_than_none() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostSessions::with(dir.path(), 1).unwrap();
        let only = claim(&host, "192.0.2.1").unwrap();
        only.hold.logged_in(&[volume("192.0.2.1", 0).portal]).unwrap();
        let isid = only.isid;
        drop(only);
        assert_eq!(claim(&host, "192.0.2.1").unwrap().isid, isid);
    }

    #[test]
    fn the_same_ends_get_the_same_isid_again_and_never_twice_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostSessions::open(dir.path()).unwrap();
        let first = claim(&host, "192.0.2.1").unwrap();
        let isid = first.isid;
        assert_eq!(isid[0] >> 6, 2, "type 10b");
        // Another process, as far as locks go: it opens the files itself.
        let other = HostSessions::open(dir.path()).unwrap();
        let second = claim(&other, "192.0.2.1").unwrap();
        assert_eq!(second.isid[..4], isid[..4], "one seed for all");
        assert_ne!(second.isid, isid);
        drop(first);
        assert_eq!(claim(&other, "192.0.2.1").unwrap().isid, isid);
        let elsewhere = tempfile::tempdir().unwrap();
        let stranger = HostSessions::open(elsewhere.path()).unwrap();
        assert_ne!(stranger.seed, host.seed, "one of 16 million runs fails here");
    }

    /// 512 were once all that a host could have.
    #[test]
    fn a_host_has_thousands_of_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostSessions::open(dir.path()).unwrap();
        let claims = 0..600;
        let held: Vec<Identity> =
            claims.map(|n| claim(&host, &format!("192.0.2.{n}")).unwrap()).collect();
        let isids: std::collections::HashSet<_> = held.iter().map(|held| held.isid).collect();
        assert_eq!(isids.len(), 600);
        assert!(held.iter().any(|held| u16::from_be_bytes([held.isid[4], held.isid[5]]) > 512));
    }

    #[test]
    fn the_limit_is_that_of_all_processes_together() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = [0, 1].map(|_| HostSessions::with(dir.path(), 3).unwrap());
        let mut held: Vec<Identity> =
            (0..3).map(|n| claim(&hosts[n % 2], &format!("192.0.2.{n}")).unwrap()).collect();
        let full = claim(&hosts[1], "192.0.2.7").unwrap_err().to_string();
        assert_eq!(full, "this host has 3 sessions already, and may have no more");
        let freed = held.pop().unwrap().isid;
        assert_eq!(claim(&hosts[0], "192.0.2.7").unwrap().isid, freed);
    }

    #[test]
    fn a_seed_that_was_cut_short_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostSessions::with(dir.path(), 3).unwrap();
        let path = dir.path().join("sessions/seed");
        fs::write(&path, [7]).unwrap();
        let again = HostSessions::with(dir.path(), 3).unwrap();
        assert_eq!(fs::read(&path).unwrap(), again.seed);
        assert_eq!(HostSessions::with(dir.path(), 3).unwrap().seed, again.seed);
        drop(host);
    }
}
