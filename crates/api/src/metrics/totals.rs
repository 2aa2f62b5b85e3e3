//! What has gone over the connections to each volume. A connection takes its counts along when it ends;
//! what has been seen of them is kept here, so that sums only grow.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use crate::types::{Connection, Volume};

/// Sums of one volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) commands: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

/// What tells a connection from others, also of those that come in its place.
type Key = (String, u16, u16, SocketAddr);

/// Sums by volume, as far as connections have been looked at.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    sums: HashMap<String, Total>,
    /// The counts of each connection at the last look.
    seen: HashMap<Key, Total>,
}

impl Totals {
    /// Looks at the connections there are. Volumes and connections that are gone are forgotten.
    pub fn look(&mut self, volumes: &[Volume], connections: &[Connection]) {
        let mut seen = HashMap::with_capacity(connections.len());
        for connection in connections {
            let now = Total {
                commands: connection.commands,
                read_bytes: connection.read_bytes,
                written_bytes: connection.written_bytes,
            };
            let at = (connection.iqn.clone(), connection.session);
            let key = (at.0, at.1, connection.connection, connection.address);
            let before = self.seen.get(&key).filter(|before| before.commands <= now.commands);
            let before = before.copied().unwrap_or_default();
            if let Some(volume) = &connection.volume {
                let sum = self.sums.entry(volume.clone()).or_default();
                sum.commands += now.commands - before.commands;
                sum.read_bytes += now.read_bytes.saturating_sub(before.read_bytes);
                sum.written_bytes += now.written_bytes.saturating_sub(before.written_bytes);
            }
            seen.insert(key, now);
        }
        self.seen = seen;
        let names: HashSet<&String> = volumes.iter().map(|volume| &volume.name).collect();
        self.sums.retain(|name, _| names.contains(name));
    }

    pub(super) fn of(&self, volume: &str) -> Total {
        self.sums.get(volume).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn connection(session: u16, commands: u64) -> Connection {
        let json = json!({
            "volume": "db", "iqn": "iqn.2026-11.x:db", "host": "h", "address": "10.0.0.7:40000",
            "portal": "10.0.0.1:3260", "isid": "400001370000", "session": session,
            "connection": 0, "seconds": 1, "chap_user": null, "header_digest": false,
            "data_digest": false, "commands": commands, "read_bytes": commands * 10,
            "written_bytes": commands, "waiting": 0,
        });
        serde_json::from_value(json).unwrap()
    }

    fn volume(name: &str) -> Volume {
        let json = json!({
            "id": 1, "name": name, "size_bytes": 1, "raid": "raid5", "state": "online",
            "reason": "", "thick": false, "block_bytes": 512, "cache": "durable",
            "read_ahead_bytes": 0, "used_bytes": 0, "reserved_bytes": 0, "snapshots": 0,
            "origin": null, "created_unix_seconds": 0, "iqn": "iqn.2026-11.x:db", "sessions": 0,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn sums_only_grow_whoever_comes_and_goes() {
        let volumes = [volume("db")];
        let mut totals = Totals::default();
        let mut look = |connections: &[Connection]| {
            totals.look(&volumes, connections);
            totals.of("db").commands
        };
        assert_eq!(look(&[connection(1, 5), connection(2, 1)]), 6);
        assert_eq!(look(&[connection(1, 7)]), 8, "the second one has gone");
        assert_eq!(look(&[connection(1, 3)]), 11, "another one in its place");
        assert_eq!(look(&[]), 11);
        assert_eq!(totals.of("db").read_bytes, 110);
        totals.look(&[volume("other")], &[]);
        assert_eq!(totals.of("db"), Total::default());
        assert!(totals.seen.is_empty() && totals.sums.is_empty());
    }
}
