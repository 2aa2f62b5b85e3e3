//! All metrics.

use prometheus_client::metrics::MetricType;

use super::Figures;
use super::samples::{
    Sample, Timed, disk_latencies, labelled, latencies, of_connections, of_cores, of_destinations,
    of_disk_work, of_disks, of_jobs, of_portals, of_sessions, of_sets, of_volumes, of_work, one,
    resident_bytes, served, set_latencies, word,
};
use super::sessions;
use crate::types::{Disk, PortalFigures};

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
    gauge("drystone_block_cache_bytes", NONE, "Memory that the read cache takes", |f| {
        one(f.array.cache_memory.bytes as f64)
    }),
    gauge(
        "drystone_block_cache_bytes_max",
        NONE,
        "Memory that the read cache may take: less than was set while the machine is short of memory",
        |f| one(f.array.cache_memory.bytes_max as f64),
    ),
    counter(
        "drystone_block_cache_hits",
        NONE,
        "Blocks of 4 KiB that were in memory when hosts read them",
        |f| one(f.array.cache_memory.hits as f64),
    ),
    counter(
        "drystone_block_cache_misses",
        NONE,
        "Blocks that had to be read from disks for hosts",
        |f| one(f.array.cache_memory.misses as f64),
    ),
    counter(
        "drystone_block_cache_evicted",
        NONE,
        "Blocks that made room for others in the read cache",
        |f| one(f.array.cache_memory.evicted as f64),
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
    counter(
        "drystone_volume_cache_hits",
        VOLUME,
        "Blocks of 4 KiB of a volume and its snapshots that were in memory when hosts read them",
        |f| of_volumes(f, |v| v.cache_hits as f64),
    ),
    counter(
        "drystone_volume_cache_misses",
        VOLUME,
        "Blocks of them that had to be read from disks",
        |f| of_volumes(f, |v| v.cache_misses as f64),
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
