//! One disk by two names. What is written by one of them would count as wrong data by the other, on a target
//! that does nothing wrong. Files are locked; exports and units are found here.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};

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

/// Refuses a unit that says it is one of those before it, whatever address led to it.
pub(super) fn refuse_known(before: &[OpenTarget], target: &OpenTarget) -> Result<(), OpenError> {
    let identity = |target: &OpenTarget| target.disk.as_ref().map(|disk| disk.identity().to_vec());
    let own = identity(target).filter(|identity| !identity.is_empty());
    match before.iter().find(|one| own.is_some() && identity(one) == own) {
        Some(one) => Err(twice(one.name.clone(), target.name.clone())),
        None => Ok(()),
    }
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
            server.stop(Duration::from_secs(1)).await;
        };
        ring::block_on(&CoreConfig::default(), work).unwrap();
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
