//! Lines made of two looks at a member.

use std::collections::{BTreeMap, HashMap};

use super::sample::Sample;
use crate::manage::connections;
use api::types::{Connection, Disk, DiskFigures, Latency, PortalFigures, VolumeFigures, Work};
use serde::Serialize;

/// What has come between two looks, for each second.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Load {
    /// Of a volume, a host, a portal or a disk.
    pub(super) name: String,
    /// SCSI commands of any kind; of a disk, reads and writes.
    pub(super) iops: f64,
    pub(super) read_bytes_per_second: f64,
    pub(super) written_bytes_per_second: f64,
    /// The mean of those that were answered meanwhile.
    pub(super) latency_mean_us: Option<f64>,
    /// What 99 % of them did not exceed, as far as the bounds of the classes tell.
    pub(super) latency_p99_us: Option<f64>,
    /// Commands that have not been answered at the second look.
    pub(super) waiting: usize,
}

/// A disk, and how busy it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DiskLoad {
    #[serde(flatten)]
    pub(super) disk: Disk,
    pub(super) load: Load,
}

/// All that is known of what a member is busy with.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) volumes: Vec<Load>,
    pub(super) hosts: Vec<Load>,
    pub(super) portals: Vec<Load>,
    pub(super) disks: Vec<DiskLoad>,
}

/// What has come.
#[derive(Debug, Default)]
struct Sum {
    commands: u64,
    read_bytes: u64,
    written_bytes: u64,
    latency: Latency,
    waiting: usize,
}

impl Rates {
    /// Of what is there at the second look; what came meanwhile counts whole.
    pub(super) fn between(before: &Sample, now: &Sample) -> Self {
        let seconds = now.seconds_since(before);
        let bounds_us = &now.figures.latency_bounds_us;
        let load = |(name, sum): (String, Sum)| Load {
            name,
            iops: sum.commands as f64 / seconds,
            read_bytes_per_second: sum.read_bytes as f64 / seconds,
            written_bytes_per_second: sum.written_bytes as f64 / seconds,
            latency_mean_us: sum.latency.mean_us(),
            latency_p99_us: sum.latency.quantile_us(0.99, bounds_us),
            waiting: sum.waiting,
        };
        let loads = |sums: Vec<(String, Sum)>| sums.into_iter().map(load).collect();
        Self {
            volumes: loads(volumes(before, now)),
            hosts: loads(hosts(before, now)),
            portals: loads(portals(before, now)),
            disks: disks(before, now)
                .into_iter()
                .map(|(disk, sum)| DiskLoad { load: load((disk.name.clone(), sum)), disk })
                .collect(),
        }
    }
}

/// What has come to a count; all of it where counting has begun anew.
fn more(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn volumes(before: &Sample, now: &Sample) -> Vec<(String, Sum)> {
    let old: HashMap<_, _> = before.figures.volumes.iter().map(|one| (&one.iqn, one)).collect();
    let sum = |volume: &VolumeFigures| {
        let mut sum = Sum { waiting: volume.waiting, ..Sum::default() };
        let old = old.get(&volume.iqn);
        let mut add = |work: &Work, old: Option<&Work>| {
            let latency = match old {
                Some(old) => work.latency.since(&old.latency),
                None => work.latency.clone(),
            };
            sum.commands += latency.count();
            sum.latency.add(&latency);
            more(work.bytes, old.map_or(0, |old| old.bytes))
        };
        let read_bytes = add(&volume.reads, old.map(|old| &old.reads));
        let written_bytes = add(&volume.writes, old.map(|old| &old.writes));
        add(&volume.others, old.map(|old| &old.others));
        (volume.name(), Sum { read_bytes, written_bytes, ..sum })
    };
    now.figures.volumes.iter().map(sum).collect()
}

/// All disks. One that nothing is counted of is not there.
fn disks(before: &Sample, now: &Sample) -> Vec<(Disk, Sum)> {
    let by_id = |sample: &Sample, id: u16| -> Option<DiskFigures> {
        sample.figures.disks.iter().find(|one| one.id == id).cloned()
    };
    let sum = |disk: &Disk| {
        let Some(here) = by_id(now, disk.id) else { return (disk.clone(), Sum::default()) };
        let old = by_id(before, disk.id);
        let latency = |work: &Work, old: Option<&Work>| match old {
            Some(old) => work.latency.since(&old.latency),
            None => work.latency.clone(),
        };
        let mut all = latency(&here.reads, old.as_ref().map(|old| &old.reads));
        all.add(&latency(&here.writes, old.as_ref().map(|old| &old.writes)));
        let sum = Sum {
            commands: all.count(),
            read_bytes: more(here.reads.bytes, old.as_ref().map_or(0, |old| old.reads.bytes)),
            written_bytes: more(here.writes.bytes, old.map_or(0, |old| old.writes.bytes)),
            latency: all,
            waiting: usize::try_from(here.waiting).unwrap_or(usize::MAX),
        };
        (disk.clone(), sum)
    };
    now.disks.iter().map(sum).collect()
}

/// By `name`, what has come over the connections that there are now.
fn over_connections(
    before: &Sample,
    now: &Sample,
    name: impl Fn(&Connection) -> String,
) -> BTreeMap<String, Sum> {
    let old: HashMap<_, _> =
        before.connections.iter().map(|one| (connections::key(one), one)).collect();
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for connection in &now.connections {
        let old = old.get(&connections::key(connection));
        let sum = sums.entry(name(connection)).or_default();
        sum.commands += more(connection.commands, old.map_or(0, |c| c.commands));
        sum.read_bytes += more(connection.read_bytes, old.map_or(0, |c| c.read_bytes));
        sum.written_bytes += more(connection.written_bytes, old.map_or(0, |c| c.written_bytes));
        match old {
            Some(old) => sum.latency.add(&connection.latency.since(&old.latency)),
            None => sum.latency.add(&connection.latency),
        }
        sum.waiting += connection.waiting;
    }
    sums
}

fn hosts(before: &Sample, now: &Sample) -> Vec<(String, Sum)> {
    over_connections(before, now, |one| one.host.clone()).into_iter().collect()
}

/// The portals count by themselves, so that nothing of a connection that has ended is lost; latencies and
/// queues are those of the connections.
fn portals(before: &Sample, now: &Sample) -> Vec<(String, Sum)> {
    let mut connections = over_connections(before, now, |one| one.portal.to_string());
    let old: HashMap<_, _> = before.figures.portals.iter().map(|one| (one.portal, one)).collect();
    let sum = |portal: &PortalFigures| {
        let old = old.get(&portal.portal);
        let name = portal.portal.to_string();
        let rest = connections.remove(&name).unwrap_or_default();
        let sum = Sum {
            commands: more(portal.commands, old.map_or(0, |old| old.commands)),
            read_bytes: more(portal.read_bytes, old.map_or(0, |old| old.read_bytes)),
            written_bytes: more(portal.written_bytes, old.map_or(0, |old| old.written_bytes)),
            ..rest
        };
        (name, sum)
    };
    now.figures.portals.iter().map(sum).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use serde_json::json;

    /// A look after so many seconds at which a volume had done so many reads of 4 KiB, each in 90 us, over one
    /// connection.
    pub(in crate::manage::top) fn sample(begun: Instant, seconds: u64, reads: u64) -> Sample {
        let none = json!({ "latency": { "counts": [0, 0, 0, 0], "sum_us": 0 }, "bytes": 0, "errors": 0, "aborted": 0 });
        let latency = json!({ "counts": [0, reads, 0, 0], "sum_us": reads * 90 });
        let figures = json!({
            "latency_bounds_us": [50, 100, 1000],
            "volumes": [{
                "volume": "db", "iqn": "iqn.2026-11.x:db", "waiting": 2, "writes": none, "others": none,
                "reads": { "latency": latency, "bytes": reads * 4096, "errors": 0, "aborted": 0 },
            }, {
                "volume": "logs", "iqn": "iqn.2026-11.x:logs", "waiting": 0,
                "reads": none, "writes": none, "others": none,
            }],
            "portals": [{
                "portal": "10.0.0.1:3260", "connections": 1, "commands": reads,
                "read_bytes": reads * 4096, "written_bytes": 0,
            }],
            "cores": [],
            "disks": [{
                "id": 0, "name": "/dev/disk/by-id/a", "waiting": 1, "writes": none, "flushes": none,
                "reads": { "latency": latency, "bytes": reads * 4096, "errors": 0, "aborted": 0 },
            }],
        });
        let connection = json!({
            "volume": "db", "iqn": "iqn.2026-11.x:db", "host": "iqn.1993-08.org.debian:01:a",
            "address": "10.0.0.7:40000", "portal": "10.0.0.1:3260", "isid": "400001370000",
            "session": 1, "connection": 0, "seconds": 3700, "chap_user": null,
            "header_digest": true, "data_digest": false, "commands": reads,
            "read_bytes": reads * 4096, "written_bytes": 0, "waiting": 2, "latency": latency,
        });
        let disk = json!({
            "id": 0, "name": "/dev/disk/by-id/a", "role": "data", "state": "online", "reason": "",
            "size_bytes": 1_u64 << 40, "used_bytes": 1_u64 << 39, "errors_read": 0,
            "errors_write": 3, "healed_blocks": 0,
        });
        Sample {
            at: begun + Duration::from_secs(seconds),
            figures: serde_json::from_value(figures).expect("figures"),
            connections: vec![serde_json::from_value(connection).expect("a connection")],
            disks: vec![serde_json::from_value(disk).expect("a disk")],
        }
    }

    #[test]
    fn lines_tell_what_came_between_two_looks() {
        let begun = Instant::now();
        let rates = Rates::between(&sample(begun, 0, 100), &sample(begun, 2, 300));
        let wanted = |name: &str| Load {
            name: name.to_owned(),
            iops: 100.0,
            read_bytes_per_second: 409_600.0,
            written_bytes_per_second: 0.0,
            latency_mean_us: Some(90.0),
            latency_p99_us: Some(99.5),
            waiting: 2,
        };
        let idle = Load { name: "logs".to_owned(), ..Load::default() };
        assert_eq!(rates.volumes, [wanted("db"), idle]);
        assert_eq!(rates.hosts, [wanted("iqn.1993-08.org.debian:01:a")]);
        assert_eq!(rates.portals, [wanted("10.0.0.1:3260")]);
        let disk = Load { waiting: 1, ..wanted("/dev/disk/by-id/a") };
        assert_eq!((rates.disks.len(), &rates.disks[0].load), (1, &disk));
        let json = serde_json::to_value(&rates.disks[0]).unwrap();
        assert_eq!((&json["errors_write"], &json["load"]["iops"]), (&json!(3), &json!(100.0)));
    }

    #[test]
    fn what_has_begun_anew_or_has_just_come_counts_whole() {
        let begun = Instant::now();
        let anew = Rates::between(&sample(begun, 0, 300), &sample(begun, 1, 10));
        assert_eq!(anew.volumes[0].iops, 10.0);
        assert_eq!(anew.hosts[0].iops, 10.0);
        let mut empty = sample(begun, 0, 0);
        empty.connections.clear();
        empty.figures.volumes.clear();
        empty.figures.portals.clear();
        let new = Rates::between(&empty, &sample(begun, 1, 10));
        assert_eq!((new.volumes[0].iops, new.portals[0].iops), (10.0, 10.0));
        assert_eq!(Rates::between(&sample(begun, 0, 10), &empty).hosts, []);
    }
}
