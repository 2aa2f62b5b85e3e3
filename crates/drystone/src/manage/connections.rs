//! `drystone connections`: who is connected to what, and what goes over it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::Desk;
use crate::Failure;
use crate::cli::connections::ConnectionsArgs;
use crate::print::table::Column::{Number, Text};
use crate::print::table::{self, Column};
use crate::print::units;
use anyhow::bail;
use api::types::Connection;
use serde::Serialize;

const COLUMNS: [Column; 12] = [
    Text("VOLUME"),
    Text("HOST"),
    Text("ADDRESS"),
    Text("PORTAL"),
    Text("FOR"),
    Text("CHAP"),
    Text("DIGESTS"),
    Number("IOPS"),
    Number("READ/S"),
    Number("WRITE/S"),
    Number("LATENCY"),
    Number("QUEUE"),
];

/// A connection, and what has gone over it in the time between two looks, for each second.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    connection: Connection,
    commands_per_second: f64,
    read_bytes_per_second: f64,
    written_bytes_per_second: f64,
    /// The mean of those that were answered meanwhile, if there were any.
    latency_mean_us: Option<f64>,
}

/// Looks twice and prints.
pub(crate) fn run(args: &ConnectionsArgs) -> Result<(), Failure> {
    Ok(show(args)?)
}

fn show(args: &ConnectionsArgs) -> anyhow::Result<()> {
    let desk = Desk::new(&args.member)?;
    if let Some(name) = &args.volume {
        let volumes = desk.ask_all(|member| member.volumes())?;
        let is_whole = desk.client.members_missing().is_empty();
        if is_whole && volumes.iter().all(|volume| volume.name != *name) {
            bail!("there is no volume '{name}': see drystone volume list");
        }
    }
    let look = || -> anyhow::Result<Vec<Connection>> {
        let mut all = desk.ask(|member| member.connections())?;
        all.retain(|connection| is_meant(connection, args));
        Ok(all)
    };
    let begin = || desk.ask_all(|member| member.connections());
    let (mut before, begun) = (begin()?, Instant::now());
    before.retain(|connection| is_meant(connection, args));
    let mut now = Vec::new();
    if !before.is_empty() {
        thread::sleep(args.interval);
        now = look()?;
    }
    let shown = between(&before, now, begun.elapsed());
    desk.show(&shown, |shown| {
        Ok(match shown.is_empty() {
            true => "no host is connected\n".to_owned(),
            false => {
                let of_member = |shown: &Shown| (shown.connection.member.clone(), row(shown));
                table::table_of_members(COLUMNS, shown.iter().map(of_member))
            }
        })
    })
}

fn is_meant(connection: &Connection, args: &ConnectionsArgs) -> bool {
    let volume = args.volume.as_ref();
    let is_of_host = |text: &String| {
        connection.host.contains(text.as_str())
            || connection.address.to_string().contains(text.as_str())
    };
    volume.is_none_or(|name| connection.volume.as_ref() == Some(name))
        && args.host.as_ref().is_none_or(is_of_host)
}

/// What tells a connection from others, also of those that come in its place.
pub(super) fn key(connection: &Connection) -> (String, u16, u16, SocketAddr) {
    (connection.iqn.clone(), connection.session, connection.connection, connection.address)
}

/// What has gone over each connection that is there `now` since it was seen `before`; of one that was made
/// meanwhile all of it.
fn between(before: &[Connection], now: Vec<Connection>, time: Duration) -> Vec<Shown> {
    let before: HashMap<_, _> =
        before.iter().map(|connection| (key(connection), connection)).collect();
    let seconds = time.as_secs_f64().max(f64::MIN_POSITIVE);
    let rate = |now: u64, before: Option<u64>| {
        // Counts that have begun anew are of another connection in the same place.
        let done = now.checked_sub(before.unwrap_or(0)).unwrap_or(now);
        done as f64 / seconds
    };
    let shown = |connection: Connection| {
        let old = before.get(&key(&connection));
        Shown {
            commands_per_second: rate(connection.commands, old.map(|c| c.commands)),
            read_bytes_per_second: rate(connection.read_bytes, old.map(|c| c.read_bytes)),
            written_bytes_per_second: rate(connection.written_bytes, old.map(|c| c.written_bytes)),
            latency_mean_us: match old {
                Some(old) => connection.latency.since(&old.latency).mean_us(),
                None => connection.latency.mean_us(),
            },
            connection,
        }
    };
    now.into_iter().map(shown).collect()
}

fn row(shown: &Shown) -> [String; 12] {
    let Shown { connection: c, .. } = shown;
    let name = match (&c.volume, &c.snapshot) {
        (Some(volume), Some(snapshot)) => format!("{volume}@{snapshot}"),
        (Some(volume), None) => volume.clone(),
        (None, _) => c.iqn.clone(),
    };
    let digests = match (c.header_digest, c.data_digest) {
        (true, true) => "both",
        (true, false) => "header",
        (false, true) => "data",
        (false, false) => "none",
    };
    [
        name,
        c.host.clone(),
        c.address.to_string(),
        c.portal.to_string(),
        units::duration(c.seconds),
        c.chap_user.clone().unwrap_or_else(|| "none".into()),
        digests.into(),
        format!("{:.0}", shown.commands_per_second),
        units::bytes(shown.read_bytes_per_second as u64),
        units::bytes(shown.written_bytes_per_second as u64),
        shown.latency_mean_us.map_or_else(|| "-".into(), units::latency),
        c.waiting.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn connection(session: u16, commands: u64) -> Connection {
        let json = json!({
            "volume": "db", "iqn": "iqn.2026-11.x:db", "host": "iqn.1993-08.org.debian:01:a",
            "address": "10.0.0.7:40000", "portal": "10.0.0.1:3260", "isid": "400001370000",
            "session": session, "connection": 0, "seconds": 3700, "chap_user": null,
            "header_digest": true, "data_digest": false, "commands": commands,
            "read_bytes": commands * 4096, "written_bytes": 0, "waiting": 2,
            "latency": { "counts": [0, commands, 0], "sum_us": commands * 90 },
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn rates_are_what_has_come_between_two_looks() {
        let before = [connection(1, 100), connection(2, 100), connection(3, 1)];
        let now = vec![connection(1, 300), connection(2, 10), connection(4, 40)];
        let shown = between(&before, now, Duration::from_secs(2));
        let rates: Vec<f64> = shown.iter().map(|shown| shown.commands_per_second).collect();
        assert_eq!(rates, [100.0, 5.0, 20.0], "counted on, begun anew, and made meanwhile");
        assert_eq!(shown[0].read_bytes_per_second, 100.0 * 4096.0);
        assert_eq!(shown[0].latency_mean_us, Some(90.0));
        let idle = between(&before[..1], vec![connection(1, 100)], Duration::from_secs(2));
        assert_eq!((idle[0].commands_per_second, idle[0].latency_mean_us), (0.0, None));
    }

    #[test]
    fn a_line_says_who_where_since_when_and_how_busy() {
        let shown =
            between(&[connection(1, 100)], vec![connection(1, 300)], Duration::from_secs(1));
        let wanted = [
            "db",
            "iqn.1993-08.org.debian:01:a",
            "10.0.0.7:40000",
            "10.0.0.1:3260",
            "1 h 1 min",
            "none",
            "header",
            "200",
            "800 KiB",
            "0 B",
            "90 us",
            "2",
        ];
        assert_eq!(row(&shown[0]), wanted.map(str::to_owned));
    }
}
