//! All metrics.

use std::collections::HashMap;
use std::fs;

use super::{Figures, VOLUMES_MAX};
use crate::types::{Disk, JobKind, Volume};

/// One metric.
pub(super) struct Metric {
    /// Its name; that of a counter is followed by `_total`.
    pub(super) name: &'static str,
    /// What it is, without a full stop.
    pub(super) help: &'static str,
    /// Its labels.
    pub(super) labels: &'static [&'static str],
    /// It only grows, and begins anew with the member.
    pub(super) is_counter: bool,
    /// The values of its labels, and its own.
    pub(super) of: fn(&Figures) -> Vec<Sample>,
}

/// Values of labels, and a number.
type Sample = (Vec<String>, f64);

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    of: fn(&Figures) -> Vec<Sample>,
) -> Metric {
    Metric { name, help, labels, is_counter: false, of }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    of: fn(&Figures) -> Vec<Sample>,
) -> Metric {
    Metric { name, help, labels, is_counter: true, of }
}

const NONE: &[&str] = &[];
const VOLUME: &[&str] = &["volume"];
const DISK: &[&str] = &["disk", "name"];
const KIND: &[&str] = &["kind"];

/// In the order in which they are told.
pub(super) const METRICS: &[Metric] = &[
    gauge("drystone_build_info", &["version"], "The version that runs; always 1", |_| {
        vec![(vec![env!("CARGO_PKG_VERSION").to_owned()], 1.0)]
    }),
    gauge(
        "process_start_time_seconds",
        NONE,
        "When the member was started, in seconds since 1970 (UTC)",
        |figures| one(figures.started_unix_seconds),
    ),
    gauge("process_resident_memory_bytes", NONE, "Memory that the process holds", |_| {
        resident_bytes().map_or_else(Vec::new, one)
    }),
    gauge("drystone_array_size_bytes", NONE, "Space that can be used, before redundancy", |f| {
        one(f.array.size_bytes as f64)
    }),
    gauge("drystone_array_used_bytes", NONE, "Space in use, before redundancy", |f| {
        one(f.array.used_bytes as f64)
    }),
    gauge("drystone_array_free_bytes", NONE, "Space that is free, before redundancy", |f| {
        one(f.array.free_bytes as f64)
    }),
    gauge("drystone_array_spare_bytes", NONE, "Space kept free for rebuilds", |f| {
        one(f.array.spare_bytes as f64)
    }),
    gauge("drystone_array_promised_bytes", NONE, "Sizes of all volumes that hosts may fill", |f| {
        one(f.array.promised_bytes as f64)
    }),
    gauge(
        "drystone_array_level_free_bytes",
        &["raid"],
        "What volumes of a level can still store, if the others store nothing more",
        |f| {
            f.array
                .free_by_level
                .iter()
                .map(|s| (vec![s.raid.to_string()], s.free_bytes as f64))
                .collect()
        },
    ),
    gauge("drystone_array_journal_size_bytes", NONE, "The journal", |f| {
        one(f.array.journal_bytes as f64)
    }),
    gauge(
        "drystone_array_journal_used_bytes",
        NONE,
        "What of the journal has not reached its place",
        |f| one(f.array.journal_used_bytes as f64),
    ),
    gauge("drystone_array_disks", NONE, "Disks of the array", |f| one(f.array.disks.into())),
    gauge("drystone_array_disks_online", NONE, "Disks that are online", |f| {
        one(f.array.disks_online.into())
    }),
    gauge("drystone_array_warnings", NONE, "Things that need an operator", |f| {
        one(f.array.warnings.len() as f64)
    }),
    gauge(
        "drystone_array_stalls",
        NONE,
        "Things that have stood still for ten seconds or more",
        |f| one(f.array.stalls.len() as f64),
    ),
    gauge(
        "drystone_array_scrub_timestamp_seconds",
        NONE,
        "When the last scrub ended, in seconds since 1970 (UTC)",
        |f| one(f.array.scrubbed_unix_seconds as f64),
    ),
    gauge("drystone_volumes", NONE, "Volumes, with those in the recycle bin", |f| {
        one(f.volumes.len() as f64)
    }),
    gauge("drystone_volume_size_bytes", VOLUME, "What hosts see of a volume", |f| {
        of_volumes(f, |v| v.size_bytes as f64)
    }),
    gauge("drystone_volume_used_bytes", VOLUME, "What the contents of a volume take", |f| {
        of_volumes(f, |v| v.used_bytes as f64)
    }),
    gauge(
        "drystone_volume_reserved_bytes",
        VOLUME,
        "Space set aside for a volume beyond that",
        |f| of_volumes(f, |v| v.reserved_bytes as f64),
    ),
    gauge("drystone_volume_snapshots", VOLUME, "Snapshots of a volume", |f| {
        of_volumes(f, |v| v.snapshots.into())
    }),
    gauge("drystone_volume_sessions", VOLUME, "Hosts that are logged in to a volume", |f| {
        of_volumes(f, |v| v.sessions as f64)
    }),
    gauge(
        "drystone_volume_state",
        &["volume", "state"],
        "How a volume does: 1 for the state it is in",
        |f| labelled(f).map(|v| (vec![v.name.clone(), word(&v.state)], 1.0)).collect(),
    ),
    gauge("drystone_volume_connections", VOLUME, "Connections of hosts to a volume", |f| {
        of_connections(f, |_| 1.0)
    }),
    gauge(
        "drystone_volume_commands_waiting",
        VOLUME,
        "SCSI commands to a volume that have not been answered",
        |f| of_connections(f, |c| c.waiting as f64),
    ),
    counter(
        "drystone_volume_commands",
        VOLUME,
        "SCSI commands to a volume; those that came after the last look at a connection that has ended are \
         not counted",
        |f| of_totals(f, |total| total.commands),
    ),
    counter(
        "drystone_volume_read_bytes",
        VOLUME,
        "Bytes that hosts read, counted the same way",
        |f| of_totals(f, |total| total.read_bytes),
    ),
    counter(
        "drystone_volume_written_bytes",
        VOLUME,
        "Bytes that hosts wrote, counted the same way",
        |f| of_totals(f, |total| total.written_bytes),
    ),
    gauge("drystone_disk_size_bytes", DISK, "A disk", |f| of_disks(f, |d| d.size_bytes as f64)),
    gauge("drystone_disk_used_bytes", DISK, "What of a disk is in RAID sets", |f| {
        of_disks(f, |d| d.used_bytes as f64)
    }),
    gauge(
        "drystone_disk_state",
        &["disk", "name", "state"],
        "How a disk does: 1 for the state it is in",
        |f| {
            let named = |d: &Disk| vec![d.id.to_string(), d.name.clone(), word(&d.state)];
            f.disks.iter().map(|d| (named(d), 1.0)).collect()
        },
    ),
    counter(
        "drystone_disk_read_errors",
        DISK,
        "Reads of a disk that failed or did not match their checksum",
        |f| of_disks(f, |d| d.errors_read as f64),
    ),
    counter("drystone_disk_write_errors", DISK, "Writes of a disk that failed", |f| {
        of_disks(f, |d| d.errors_write as f64)
    }),
    counter(
        "drystone_disk_healed_blocks",
        DISK,
        "Blocks of a disk that were rewritten from redundancy",
        |f| of_disks(f, |d| d.healed_blocks as f64),
    ),
    gauge("drystone_jobs", KIND, "Jobs that run in the background", |f| of_jobs(f, |_| 1)),
    gauge("drystone_job_done_bytes", KIND, "What these jobs have done", |f| {
        of_jobs(f, |job| job.done_bytes)
    }),
    gauge("drystone_job_size_bytes", KIND, "What these jobs have to do in all", |f| {
        of_jobs(f, |job| job.total_bytes)
    }),
];

fn one(number: f64) -> Vec<Sample> {
    vec![(Vec::new(), number)]
}

/// The volumes that have figures of their own.
fn labelled(figures: &Figures) -> impl Iterator<Item = &Volume> {
    figures.volumes.iter().take(VOLUMES_MAX)
}

fn of_volumes(figures: &Figures, number: fn(&Volume) -> f64) -> Vec<Sample> {
    labelled(figures).map(|volume| (vec![volume.name.clone()], number(volume))).collect()
}

fn of_connections(figures: &Figures, number: fn(&crate::types::Connection) -> f64) -> Vec<Sample> {
    let mut sums: HashMap<&str, f64> = HashMap::new();
    for connection in &figures.connections {
        if let Some(volume) = &connection.volume {
            *sums.entry(volume).or_default() += number(connection);
        }
    }
    let to = |volume: &Volume| sums.get(volume.name.as_str()).copied().unwrap_or(0.0);
    labelled(figures).map(|volume| (vec![volume.name.clone()], to(volume))).collect()
}

fn of_totals(figures: &Figures, number: fn(&super::totals::Total) -> u64) -> Vec<Sample> {
    let of = |volume: &Volume| number(&figures.totals.of(&volume.name)) as f64;
    labelled(figures).map(|volume| (vec![volume.name.clone()], of(volume))).collect()
}

fn of_disks(figures: &Figures, number: fn(&Disk) -> f64) -> Vec<Sample> {
    let named = |disk: &Disk| vec![disk.id.to_string(), disk.name.clone()];
    figures.disks.iter().map(|disk| (named(disk), number(disk))).collect()
}

fn of_jobs(figures: &Figures, number: fn(&crate::types::Job) -> u64) -> Vec<Sample> {
    let of = |kind| {
        let all = figures.jobs.iter().filter(|job| job.kind == kind);
        all.map(number).sum::<u64>() as f64
    };
    JobKind::ALL.into_iter().map(|kind| (vec![kind.word().to_owned()], of(kind))).collect()
}

/// The word that JSON has for it.
fn word(state: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(state).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// The second number of `/proc/self/statm`, in pages.
fn resident_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some((pages * rustix::param::page_size() as u64) as f64)
}
