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
//! Invariant: a number belongs to the one process that holds the lock of its file. Files are never
//! removed, for a lock on one that has no name any more would hold nobody back.

use initiator::{ClaimError, Identities, Identity, PortalAddress};
use iscsi::text::IscsiName;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The type of an ISID whose middle part is random.
const TYPE_RANDOM: u8 = 0x80;

/// Numbers of sessions, shared by all attachments of one runtime directory.
#[derive(Debug)]
pub(crate) struct HostSessions {
    dir: PathBuf,
    seed: [u8; 3],
    /// Sessions that the host may have.
    max: u16,
}

impl HostSessions {
    /// The numbers of the runtime directory `runtime_dir`, which exists.
    pub(crate) fn open(runtime_dir: &Path, max: u32) -> io::Result<HostSessions> {
        let dir = runtime_dir.join("sessions");
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let seed = seed(&dir.join("seed"))?;
        Ok(HostSessions { dir, seed, max: u16::try_from(max).unwrap_or(u16::MAX) })
    }
}

impl Identities for HostSessions {
    /// The same ends get the same number while it is free, else the next one that is.
    fn claim(
        &self,
        target: &IscsiName,
        local: Option<IpAddr>,
        portal: &PortalAddress,
    ) -> Result<Identity, ClaimError> {
        // Without random keys: it is the same in every process of this program.
        let mut ends = DefaultHasher::new();
        (target.as_str(), local, &portal.host, portal.port).hash(&mut ends);
        let max = u64::from(self.max.max(1));
        let first = ends.finish() % max;
        for n in (first..max).chain(0..first) {
            let number = u16::try_from(n).expect("below the number of sessions");
            let file = open(&self.dir.join(number.to_string()))?;
            match file.try_lock() {
                Ok(()) => {
                    let ([a, b, c], [high, low]) = (self.seed, number.to_be_bytes());
                    let isid = [TYPE_RANDOM, a, b, c, high, low];
                    return Ok(Identity { isid, hold: Box::new(file) });
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        Err(ClaimError::Full(self.max.into()))
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
    use std::fs;

    fn claim(host: &HostSessions, portal: &str) -> Result<Identity, ClaimError> {
        let target = IscsiName::parse("iqn.2026-11.com.example:a").unwrap();
        let portal = PortalAddress { host: portal.to_owned(), port: 3260, group_tag: None };
        host.claim(&target, Some([192, 0, 2, 9].into()), &portal)
    }

    #[test]
    fn the_same_ends_get_the_same_isid_again_and_never_twice_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostSessions::open(dir.path(), 512).unwrap();
        let first = claim(&host, "192.0.2.1").unwrap();
        let isid = first.isid;
        assert_eq!(isid[0] >> 6, 2, "type 10b");
        // Another process, as far as locks go: it opens the files itself.
        let other = HostSessions::open(dir.path(), 512).unwrap();
        let second = claim(&other, "192.0.2.1").unwrap();
        assert_eq!(second.isid[..4], isid[..4], "one seed for all");
        assert_ne!(second.isid, isid);
        drop(first);
        assert_eq!(claim(&other, "192.0.2.1").unwrap().isid, isid);
        let elsewhere = tempfile::tempdir().unwrap();
        let stranger = HostSessions::open(elsewhere.path(), 512).unwrap();
        assert_ne!(stranger.seed, host.seed, "one of 16 million runs fails here");
    }

    #[test]
    fn the_limit_is_that_of_all_processes_together() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = [0, 1].map(|_| HostSessions::open(dir.path(), 3).unwrap());
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
        let host = HostSessions::open(dir.path(), 3).unwrap();
        let path = dir.path().join("sessions/seed");
        fs::write(&path, [7]).unwrap();
        let again = HostSessions::open(dir.path(), 3).unwrap();
        assert_eq!(fs::read(&path).unwrap(), again.seed);
        assert_eq!(HostSessions::open(dir.path(), 3).unwrap().seed, again.seed);
        drop(host);
    }
}
