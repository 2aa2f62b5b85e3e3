//! All metrics.

use std::collections::HashMap;
use std::fs;

use prometheus_client::metrics::MetricType;

use super::sessions::{self, Session};
use super::{Figures, HISTOGRAMS_MAX, VOLUMES_MAX};
use crate::types::{
    CoreFigures, Destination, Disk, DiskFigures, JobKind, Latency, PortalFigures, SetFigures,
    Volume, VolumeFigures, Work,
};

/// One metric.
pub(super) struct Metric {
    /// Its name; that of a counter is followed by `_total`.
    pub(super) name: &'static str,
    /// What it is, without a full stop.
    pub(super) help: &'static str,
    /// Its labels.
    pub(super) labels: &'static [&'static str],
    /// The values of its labels, and its own.
    pub(super) of: Source,
}

/// What kind of metric it is, and where its numbers come from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// It goes up and down.
    Gauge(fn(&Figures) -> Vec<Sample>),
    /// It only grows, and begins anew with the member.
    Counter(fn(&Figures) -> Vec<Sample>),
    /// So do its classes.
    Histogram(fn(&Figures) -> Vec<Timed<'_>>, Detail),
}

/// How many classes a histogram has.
#[derive(Clone, Copy)]
pub(super) enum Detail {
    /// All that are counted.
    All,
    /// Those that there is room for where there are many series.
    Few,
}

impl Source {
    pub(super) fn kind(self) -> MetricType {
        match self {
            Self::Gauge(_) => MetricType::Gauge,
            Self::Counter(_) => MetricType::Counter,
            Self::Histogram(..) => MetricType::Histogram,
        }
    }
}

/// Values of labels, and a number.
type Sample = (Vec<String>, f64);

/// Values of labels, and how long commands took.
type Timed<'a> = (Vec<String>, &'a Latency);

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    of: fn(&Figures) -> Vec<Sample>,
) -> Metric {
    Metric { name, help, labels, of: Source::Gauge(of) }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    of: fn(&Figures) -> Vec<Sample>,
) -> Metric {
    Metric { name, help, labels, of: Source::Counter(of) }
}

/// In all classes.
const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    of: for<'a> fn(&'a Figures) -> Vec<Timed<'a>>,
) -> Metric {
    Metric { name, help, labels, of: Source::Histogram(of, Detail::All) }
}

const NONE: &[&str] = &[];
const VOLUME: &[&str] = &["volume"];
const DIRECTION: &[&str] = &["volume", "direction"];
/// What tells a session from others.
pub(super) const SESSION: &[&str] = &["volume", "initiator", "isid", "portal"];
/// The same, and a direction.
pub(super) const SESSION_DIRECTION: &[&str] =
    &["volume", "initiator", "isid", "portal", "direction"];
const CORE: &[&str] = &["core"];
const DISK: &[&str] = &["disk", "name"];
const DISK_WORK: &[&str] = &["disk", "name", "operation"];
const RAID: &[&str] = &["raid"];
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
    counter("drystone_array_checkpoints", NONE, "Checkpoints since the array was made", |f| {
        one(f.array.checkpoint as f64)
    }),
    gauge(
        "drystone_array_level_used_bytes",
        RAID,
        "What volumes of a level hold, or have set aside, as hosts count it",
        |f| {
            let all = f.array.free_by_level.iter();
            all.map(|s| (vec![s.raid.to_string()], s.used_bytes as f64)).collect()
        },
    ),
    gauge("drystone_array_sets", RAID, "RAID sets of a level, or of metadata", |f| {
        of_sets(f, |set| set.sets)
    }),
    gauge(
        "drystone_array_sets_degraded",
        RAID,
        "RAID sets of which a disk is not there or not up to date",
        |f| of_sets(f, |set| set.degraded),
    ),
    gauge("drystone_array_cache_bytes", NONE, "Metadata of the array in memory", |f| {
        one(f.done.cache_bytes as f64)
    }),
    gauge(
        "drystone_array_cache_size_bytes",
        NONE,
        "How much of it is kept there at most, without what waits to be written",
        |f| one(f.done.cache_bytes_max as f64),
    ),
    counter(
        "drystone_array_cache_hits",
        NONE,
        "Pages of metadata that were asked for and in memory",
        |f| one(f.done.cache_hits as f64),
    ),
    counter(
        "drystone_array_cache_misses",
        NONE,
        "Pages of metadata that were asked for and had to be loaded",
        |f| one(f.done.cache_misses as f64),
    ),
    histogram(
        "drystone_array_set_latency_seconds",
        &["raid", "operation"],
        "How long RAID sets took to read blocks of a cluster, checked, or to write to a stripe, with its redundancy",
        set_latencies,
    ),
    histogram(
        "drystone_array_journal_latency_seconds",
        &["operation"],
        "How long it took to write a batch to all disks with the journal, or to make such batches durable by a flush",
        |f| {
            let all = [("write", &f.done.journal_writes), ("flush", &f.done.journal_flushes)];
            all.map(|(word, latency)| (vec![word.to_owned()], latency)).into()
        },
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
    gauge("drystone_volume_sessions", VOLUME, "Sessions that hosts have with a volume", |f| {
        of_volumes(f, |v| v.sessions as f64)
    }),
    gauge(
        "drystone_volume_state",
        &["volume", "state"],
        "How a volume does: 1 for the state it is in",
        |f| labelled(f).map(|v| (vec![v.name.clone(), word(&v.state)], 1.0)).collect(),
    ),
    gauge(
        "drystone_volume_connections",
        VOLUME,
        "Connections of hosts to a volume and its snapshots",
        of_connections,
    ),
    gauge(
        "drystone_volume_commands_waiting",
        VOLUME,
        "SCSI commands that have not been answered: the queue depth",
        |f| served(f).map(|v| (vec![v.name()], v.waiting as f64)).collect(),
    ),
    counter("drystone_volume_commands", DIRECTION, "SCSI commands that were answered", |f| {
        of_work(f, |work| work.latency.count())
    }),
    counter("drystone_volume_bytes", DIRECTION, "Bytes that these moved", |f| {
        of_work(f, |work| work.bytes)
    }),
    counter(
        "drystone_volume_errors",
        DIRECTION,
        "How many of them were answered with another status than GOOD, unit attentions excepted",
        |f| of_work(f, |work| work.errors),
    ),
    counter(
        "drystone_volume_aborted",
        DIRECTION,
        "SCSI commands that were aborted, by hosts or with their connection; they are not among the others",
        |f| of_work(f, |work| work.aborted),
    ),
    histogram(
        "drystone_volume_latency_seconds",
        DIRECTION,
        "How long commands took that were answered, from their turn in their session to their answer",
        latencies,
    ),
    gauge("drystone_sessions", NONE, "Sessions of hosts with volumes and snapshots", |f| {
        one(sessions::counts(&f.connections).0 as f64)
    }),
    gauge(
        "drystone_sessions_without_figures",
        NONE,
        "How many of them have no figures of their own: the latest, where there are more than 256",
        |f| one(sessions::counts(&f.connections).1 as f64),
    ),
    gauge(
        "drystone_session_commands_waiting",
        SESSION,
        "SCSI commands of a session that have not been answered: its queue depth",
        |f| {
            let all = sessions::told(&f.connections);
            all.iter().map(|one| (one.labels(), one.waiting as f64)).collect()
        },
    ),
    counter(
        "drystone_session_bytes",
        SESSION_DIRECTION,
        "Bytes that the SCSI commands of a session moved that were answered",
        |f| of_sessions(f).map(|(labels, work)| (labels, work.bytes as f64)).collect(),
    ),
    Metric {
        name: "drystone_session_latency_seconds",
        help: "How long commands of a session took that were answered, from their turn in it to their answer",
        labels: SESSION_DIRECTION,
        of: Source::Histogram(
            |f| of_sessions(f).map(|(labels, work)| (labels, &work.latency)).collect(),
            Detail::Few,
        ),
    },
    gauge(
        "drystone_portal_connections",
        &["portal"],
        "Connections of hosts that are logged in at an address of the member",
        |f| of_portals(f, |portal| portal.connections as f64),
    ),
    counter("drystone_portal_commands", &["portal"], "SCSI commands that came there", |f| {
        of_portals(f, |portal| portal.commands as f64)
    }),
    counter("drystone_portal_read_bytes", &["portal"], "Bytes of data that were sent there", |f| {
        of_portals(f, |portal| portal.read_bytes as f64)
    }),
    counter("drystone_portal_written_bytes", &["portal"], "Bytes of data that came there", |f| {
        of_portals(f, |portal| portal.written_bytes as f64)
    }),
    histogram(
        "drystone_portal_latency_seconds",
        &["portal"],
        "How long commands took that were answered there",
        |f| {
            let of = |portal: &'_ PortalFigures| vec![portal.portal.to_string()];
            f.done.portals.iter().map(|portal| (of(portal), &portal.latency)).collect()
        },
    ),
    counter(
        "drystone_core_cpu_seconds",
        CORE,
        "Processor time of a core's thread; one that waits a moment for the next event without sleeping \
         takes some, too",
        |f| of_cores(f, |core| core.cpu_us as f64 / 1e6),
    ),
    gauge("drystone_core_connections", CORE, "Connections of hosts that live on a core", |f| {
        of_cores(f, |core| core.connections as f64)
    }),
    gauge("drystone_core_buffer_bytes", CORE, "Memory of a core in I/O buffers in use", |f| {
        of_cores(f, |core| core.buffer_bytes as f64)
    }),
    histogram(
        "drystone_core_latency_seconds",
        CORE,
        "How long commands took that were answered by a core",
        |f| f.done.cores.iter().map(|core| (vec![core.core.to_string()], &core.latency)).collect(),
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
    gauge(
        "drystone_disk_requests_waiting",
        DISK,
        "Requests that a disk has not answered: its queue depth",
        |f| {
            let all = f.done.disks.iter();
            all.map(|d| (vec![d.id.to_string(), d.name.clone()], d.waiting as f64)).collect()
        },
    ),
    counter(
        "drystone_disk_requests",
        DISK_WORK,
        "Requests that a disk has answered, for hosts and for the array itself",
        |f| of_disk_work(f, |work| work.latency.count()),
    ),
    counter("drystone_disk_bytes", DISK_WORK, "Bytes that these moved", |f| {
        of_disk_work(f, |work| work.bytes)
    }),
    counter("drystone_disk_requests_failed", DISK_WORK, "How many of them failed", |f| {
        of_disk_work(f, |work| work.errors)
    }),
    histogram(
        "drystone_disk_latency_seconds",
        DISK_WORK,
        "How long a disk took for requests, from when it was asked to when its answer was seen",
        disk_latencies,
    ),
    counter(
        "drystone_destination_delivered",
        &["destination"],
        "Messages about events that a destination has taken",
        |f| of_destinations(f, |one| one.delivered as f64),
    ),
    counter(
        "drystone_destination_failed",
        &["destination"],
        "Attempts to send it some that failed",
        |f| of_destinations(f, |one| one.failed as f64),
    ),
    counter(
        "drystone_destination_given_up",
        &["destination"],
        "Events that were given up, as it took none for a day or the log had no room for more",
        |f| of_destinations(f, |one| one.given_up as f64),
    ),
    counter(
        "drystone_destination_audit_not_sent",
        &["destination"],
        "Entries of the audit log that were not sent to it, as the log had no room for more",
        |f| of_destinations(f, |one| one.audit_not_sent as f64),
    ),
    gauge(
        "drystone_destination_audit_behind",
        &["destination"],
        "Entries of the audit log that were still to be sent to it when it was looked last",
        |f| of_destinations(f, |one| one.audit_behind as f64),
    ),
    gauge(
        "drystone_destination_failing",
        &["destination"],
        "1 while the last attempt has failed",
        |f| of_destinations(f, |one| f64::from(u8::from(one.failing.is_some()))),
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

fn of_connections(figures: &Figures) -> Vec<Sample> {
    let mut counts: HashMap<&str, f64> = HashMap::new();
    for volume in figures.connections.iter().filter_map(|connection| connection.volume.as_ref()) {
        *counts.entry(volume).or_default() += 1.0;
    }
    let to = |volume: &Volume| counts.get(volume.name.as_str()).copied().unwrap_or(0.0);
    labelled(figures).map(|volume| (vec![volume.name.clone()], to(volume))).collect()
}

/// Volumes that are served, and behind them their snapshots that are, as far as they have figures of their own.
/// Nothing is summed up: a sum would fall, and so be taken for one that begins anew, when a part of it goes.
fn served(figures: &Figures) -> impl Iterator<Item = &VolumeFigures> {
    let all = &figures.done.volumes;
    let volumes = all.iter().filter(|one| one.snapshot.is_none());
    volumes.chain(all.iter().filter(|one| one.snapshot.is_some())).take(VOLUMES_MAX)
}

/// The work of a volume by its direction.
fn by_direction(volume: &VolumeFigures) -> [(Vec<String>, &Work); 3] {
    let all = [("read", &volume.reads), ("write", &volume.writes), ("other", &volume.others)];
    all.map(|(direction, work)| (vec![volume.name(), direction.to_owned()], work))
}

fn of_work(figures: &Figures, number: fn(&Work) -> u64) -> Vec<Sample> {
    let all = served(figures).flat_map(by_direction);
    all.map(|(labels, work)| (labels, number(work) as f64)).collect()
}

fn latencies(figures: &Figures) -> Vec<Timed<'_>> {
    let all = served(figures).take(HISTOGRAMS_MAX).flat_map(by_direction);
    all.map(|(labels, work)| (labels, &work.latency)).collect()
}

/// The work of the sessions that have figures of their own, by direction.
fn of_sessions(figures: &Figures) -> impl Iterator<Item = (Vec<String>, &Work)> {
    let all = sessions::told(&figures.connections).into_iter();
    all.flat_map(|session: Session<'_>| session.by_direction())
}

fn of_portals(figures: &Figures, number: fn(&PortalFigures) -> f64) -> Vec<Sample> {
    let one = |portal: &PortalFigures| (vec![portal.portal.to_string()], number(portal));
    figures.done.portals.iter().map(one).collect()
}

fn of_cores(figures: &Figures, number: fn(&CoreFigures) -> f64) -> Vec<Sample> {
    let one = |core: &CoreFigures| (vec![core.core.to_string()], number(core));
    figures.done.cores.iter().map(one).collect()
}

fn of_disks(figures: &Figures, number: fn(&Disk) -> f64) -> Vec<Sample> {
    let named = |disk: &Disk| vec![disk.id.to_string(), disk.name.clone()];
    figures.disks.iter().map(|disk| (named(disk), number(disk))).collect()
}

/// The work of a disk by what it is asked for.
fn by_operation(disk: &DiskFigures) -> [(Vec<String>, &Work); 3] {
    let all = [("read", &disk.reads), ("write", &disk.writes), ("flush", &disk.flushes)];
    all.map(|(word, work)| (vec![disk.id.to_string(), disk.name.clone(), word.to_owned()], work))
}

fn of_disk_work(figures: &Figures, number: fn(&Work) -> u64) -> Vec<Sample> {
    let all = figures.done.disks.iter().flat_map(by_operation);
    all.map(|(labels, work)| (labels, number(work) as f64)).collect()
}

/// There are as many disks as an array may have, which are few.
fn disk_latencies(figures: &Figures) -> Vec<Timed<'_>> {
    let all = figures.done.disks.iter().flat_map(by_operation);
    all.map(|(labels, work)| (labels, &work.latency)).collect()
}

/// The level of RAID sets as a label.
fn raid(set: &SetFigures) -> String {
    set.raid.map_or_else(|| "metadata".to_owned(), |raid| raid.to_string())
}

fn of_sets(figures: &Figures, number: fn(&SetFigures) -> u64) -> Vec<Sample> {
    figures.done.sets.iter().map(|set| (vec![raid(set)], number(set) as f64)).collect()
}

fn set_latencies(figures: &Figures) -> Vec<Timed<'_>> {
    let both = |set: &'_ SetFigures| [(raid(set), "read"), (raid(set), "write")];
    let labels = figures.done.sets.iter().flat_map(both);
    let times = figures.done.sets.iter().flat_map(|set| [&set.reads, &set.writes]);
    labels.map(|(raid, word)| vec![raid, word.to_owned()]).zip(times).collect()
}

/// There are as many as settings may hold, which are few.
fn of_destinations(figures: &Figures, number: fn(&Destination) -> f64) -> Vec<Sample> {
    figures.destinations.iter().map(|one| (vec![one.name.clone()], number(one))).collect()
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
