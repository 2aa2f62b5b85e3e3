//! One disk by two names. What is written by one of them would count as wrong data by the other, on a target
//! that does nothing wrong. Files are locked; exports and units are found here.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};

use initiator::TargetAddress;

use super::address::Address;
use super::open::{OpenError, OpenTarget};
use crate::nbd::{NbdAddress, Place};

/// Refuses addresses that lead to the same place, before anything is opened.
pub(super) fn refuse_same(addresses: &[Address]) -> Result<(), OpenError> {
    for (index, other) in addresses.iter().enumerate() {
        if let Some(one) = addresses[..index].iter().find(|one| is_same(one, other)) {
            return Err(twice(one.to_string(), other.to_string()));
        }
    }
    Ok(())
}

/// A unit of a target, and what it says it is.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    pub(super) address: &'a TargetAddress,
    pub(super) identity: &'a [u8],
}

/// Refuses a unit that is one of those before it by another portal: its target has the same name, its number is
/// the same, and it says the same of itself. Either alone proves nothing: two hosts with tgtd in its standard
/// state give their units the same worldwide name, and a name of a target can be given twice by mistake.
pub(super) fn refuse_known<'a>(
    mut before: impl Iterator<Item = Unit<'a>>,
    unit: &Unit<'_>,
) -> Result<(), OpenError> {
    let is_twin = |other: &Unit<'_>| {
        let place = |unit: &Unit<'_>| (unit.address.name.clone(), unit.address.lun);
        place(other) == place(unit) && !unit.identity.is_empty() && other.identity == unit.identity
    };
    match before.find(is_twin) {
        Some(one) => Err(twice(one.address.to_string(), unit.address.to_string())),
        None => Ok(()),
    }
}

/// A note for each unit that says the same of itself as one before it, and may be another all the same.
pub(super) fn look_alikes(targets: &[OpenTarget]) -> Vec<String> {
    let identity = |target: &OpenTarget| target.disk.as_ref().map(|disk| disk.identity().to_vec());
    let known: Vec<_> = targets.iter().map(|one| (one.name.as_str(), identity(one))).collect();
    alike(&known)
}

fn alike(known: &[(&str, Option<Vec<u8>>)]) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, (name, identity)) in known.iter().enumerate() {
        let Some(identity) = identity.as_ref().filter(|identity| !identity.is_empty()) else {
            continue;
        };
        if let Some((one, _)) = known[..index].iter().find(|one| one.1.as_ref() == Some(identity)) {
            notes.push(format!(
                "{name} gives its unit the same name as {one}: if that is one disk, its data is written over, and \
                 counts as wrong"
            ));
        }
    }
    notes
}

fn twice(one: String, other: String) -> OpenError {
    if one == other { OpenError::Twice(one) } else { OpenError::Twins { one, other } }
}

fn is_same(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Iscsi(one), Address::Iscsi(other)) => {
            (&one.portal, &one.name, one.lun) == (&other.portal, &other.name, other.lun)
        }
        (Address::Nbd(one), Address::Nbd(other)) => is_same_export(one, other),
        _ => false,
    }
}

fn is_same_export(one: &NbdAddress, other: &NbdAddress) -> bool {
    let is_same_place = || match (&one.place, &other.place) {
        (Place::Unix(one), Place::Unix(other)) => {
            one == other
                || fs::canonicalize(one)
                    .ok()
                    .is_some_and(|one| fs::canonicalize(other).ok() == Some(one))
        }
        (Place::Tcp(one, port), Place::Tcp(other, other_port)) => {
            port == other_port && (one == other || is_same_host(one, other, *port))
        }
        _ => false,
    };
    one.export == other.export && is_same_place()
}

/// Whether two names of hosts have an address in common.
fn is_same_host(one: &str, other: &str, port: u16) -> bool {
    let resolved = |host: &str| -> Vec<SocketAddr> {
        (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default()
    };
    let known = resolved(one);
    resolved(other).iter().any(|address| known.contains(address))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use attach::nbd::Server;
    use initiator::{DiskOptions, PlanOptions, SessionOptions};
    use ring::CoreConfig;

    use super::super::open::{Sessions, open_all};
    use super::*;
    use crate::workload::OpenFlags;

    #[test]
    fn an_export_is_opened_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let work = async move {
            let disk =
                Arc::new(attach::Disk::new(Arc::new(block::RamDisk::new(512, 2048).unwrap())));
            let server =
                Server::start(disk, "vol", &attach::nbd::Address::Unix(path.clone())).unwrap();
            let url = format!("nbd+unix:///vol?socket={}", path.display());
            let address: Address = url.parse().unwrap();
            let name = "iqn.2026-11.com.example:lab".parse().unwrap();
            let disk = DiskOptions::new(SessionOptions::new(name));
            let sessions = Sessions { disk, plan: PlanOptions::default() };
            let addresses = [address.clone(), address];
            let refused = open_all(&addresses, &sessions, OpenFlags::default(), false, None).await;
            let told = refused.map(|_| ()).unwrap_err().to_string();
            assert!(told.starts_with(&format!("{url} is named twice")), "{told}");
            // Whoever only reads does no harm.
            let read = open_all(&addresses, &sessions, OpenFlags::default(), true, None).await;
            assert_eq!(read.unwrap().len(), 2);
            server.stop(Duration::from_secs(1)).await;
        };
        ring::block_on(&CoreConfig::default(), work).unwrap();
    }

    /// Two hosts with tgtd in its standard state: all units of the number 1 have one worldwide name.
    #[test]
    fn different_disks_may_have_one_name() {
        let naa = b"\x60\0\0\0\0\0\0\0\x0e\0\0\0\0\x01\0\x01";
        let refused = |one: &str, other: &str, identity: &[u8]| {
            let [one, other] = [one, other].map(|text| text.parse::<TargetAddress>().unwrap());
            let unit = |address| Unit { address, identity };
            refuse_known([unit(&one)].into_iter(), &unit(&other)).is_err()
        };
        let first = "iscsi://192.0.2.1/iqn.2026-11.com.example:a/1";
        assert!(!refused(first, "iscsi://192.0.2.2/iqn.2026-11.com.example:b/1", naa));
        assert!(!refused(first, "iscsi://192.0.2.1/iqn.2026-11.com.example:a/2", naa));
        assert!(refused(first, "iscsi://192.0.2.2/iqn.2026-11.com.example:a/1", naa));
        assert!(!refused(first, "iscsi://192.0.2.2/iqn.2026-11.com.example:a/1", b""));

        let named = |name: &'static str, identity: &[u8]| (name, Some(identity.to_vec()));
        let known = [named("a", naa), named("b", b""), named("c", b""), ("d", None), ("e", None)];
        assert_eq!(alike(&known), [""; 0]);
        let notes = alike(&[named("a", naa), named("b", b"other"), named("c", naa)]);
        assert!(notes.len() == 1 && notes[0].starts_with("c gives its unit the same name as a"));
    }

    #[test]
    fn one_disk_is_known_by_its_addresses() {
        let refused = |one: &str, other: &str| {
            let addresses = [one, "ram:1m", other].map(|text| text.parse().unwrap());
            refuse_same(&addresses).err().map(|error| error.to_string())
        };
        let same = [
            ("nbd://127.0.0.1:10/x", "nbd://127.0.0.1:10/x"),
            ("nbd://127.0.0.1/x", "nbd://localhost:10809/x"),
            ("nbd+unix:///x?socket=/tmp/s", "nbd+unix:///x?socket=/tmp/../tmp/s"),
            (
                "iscsi://h/iqn.2026-11.com.example:a",
                "iscsi://u%secret-of-16-byt@h/iqn.2026-11.com.example:a/0",
            ),
        ];
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        fs::write(&socket, "").unwrap();
        for (one, other) in same {
            let with = |text: &str| {
                text.replace("/tmp/../tmp/s", &format!("{}/./s", directory.path().display()))
                    .replace("/tmp/s", &socket.display().to_string())
            };
            let told =
                refused(&with(one), &with(other)).unwrap_or_else(|| panic!("{one} and {other}"));
            assert!(told.contains("once in a run") && !told.contains("secret"), "{told}");
        }
        for (one, other) in [
            ("nbd://127.0.0.1/x", "nbd://127.0.0.1/y"),
            ("nbd://127.0.0.1/x", "nbd://127.0.0.1:10/x"),
            ("nbd://127.0.0.1/x", "nbd://127.0.0.2/x"),
            ("iscsi://h/iqn.2026-11.com.example:a/1", "iscsi://h/iqn.2026-11.com.example:a"),
            ("ram:1m", "ram:1m"),
        ] {
            assert_eq!(refused(one, other), None, "{one} and {other}");
        }
    }
}
