//! What hosts have had done, and what disks did.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{CacheMemory, Level};

/// How long things took: commands, from their turn in their session to their answer, unless other things are named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    /// Their numbers by the bounds that the figures name: those that took no longer than each, and longer than the
    /// one before it; in the end those that took longer than all.
    pub counts: Vec<u64>,
    /// All their times together, in microseconds.
    pub sum_us: u64,
}

impl From<member::Latency> for Latency {
    fn from(theirs: member::Latency) -> Self {
        Self { counts: theirs.counts.to_vec(), sum_us: theirs.sum_ns / 1000 }
    }
}

impl Latency {
    /// How many commands.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What has come since it was as `before`; all of it where counting has begun anew.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let is_older = |(now, then): (&u64, &u64)| then <= now;
        let is_same = before.counts.len() == self.counts.len()
            && before.sum_us <= self.sum_us
            && self.counts.iter().zip(&before.counts).all(is_older);
        if !is_same {
            return self.clone();
        }
        let counts = self.counts.iter().zip(&before.counts).map(|(now, then)| now - then).collect();
        Self { counts, sum_us: self.sum_us - before.sum_us }
    }

    /// Takes others in.
    pub fn add(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum_us += other.sum_us;
    }

    /// The mean, in microseconds; `None` without commands.
    #[must_use]
    pub fn mean_us(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_us as f64 / count as f64)
    }

    /// The time in microseconds that a share of commands, 0 to 1, did not exceed, as far as the `bounds_us` of
    /// the classes tell: commands lie evenly in theirs, as in Prometheus' `histogram_quantile`. It is never
    /// above the last bound. `None` without commands.
    #[must_use]
    pub fn quantile_us(&self, share: f64, bounds_us: &[u64]) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = share.clamp(0.0, 1.0) * count as f64;
        let (mut below, mut lower) = (0.0, 0.0);
        for (here, bound) in self.counts.iter().zip(bounds_us) {
            let (here, bound) = (*here as f64, *bound as f64);
            if here > 0.0 && below + here >= rank {
                return Some(lower + (bound - lower) * ((rank - below) / here).max(0.0));
            }
            (below, lower) = (below + here, bound);
        }
        Some(lower)
    }
}

/// Commands that go one way.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Work {
    /// Those that were answered, with their times.
    pub latency: Latency,
    /// Bytes that they moved.
    pub bytes: u64,
    /// How many of them failed: answered with another status than GOOD, unit attentions excepted.
    pub errors: u64,
    /// Those that were aborted, which are not among the others.
    pub aborted: u64,
}

impl From<member::WorkFigures> for Work {
    fn from(theirs: member::WorkFigures) -> Self {
        let member::WorkFigures { latency, bytes, errors, aborted } = theirs;
        Self { latency: latency.into(), bytes, errors, aborted }
    }
}

/// What a session has had done. It is told as metrics only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SessionWork {
    /// READ.
    pub(crate) reads: Work,
    /// WRITE and the like.
    pub(crate) writes: Work,
    /// All other commands.
    pub(crate) others: Work,
}

impl From<member::UnitFigures> for SessionWork {
    fn from(theirs: member::UnitFigures) -> Self {
        let member::UnitFigures { reads, writes, others } = theirs;
        Self { reads: reads.into(), writes: writes.into(), others: others.into() }
    }
}

/// What hosts have had done by a volume, or by a snapshot that is served, since it was first served by this
/// process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeFigures {
    /// The volume.
    pub volume: String,
    /// Or which of its snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub snapshot: Option<String>,
    /// The name of the target.
    pub iqn: String,
    /// Commands that have not been answered.
    pub waiting: usize,
    /// READ.
    pub reads: Work,
    /// WRITE and the like: what brings data that is stored.
    pub writes: Work,
    /// All other commands.
    pub others: Work,
}

impl From<member::VolumeFigures> for VolumeFigures {
    fn from(theirs: member::VolumeFigures) -> Self {
        Self {
            volume: theirs.volume,
            snapshot: theirs.snapshot,
            iqn: theirs.iqn,
            waiting: theirs.waiting,
            reads: theirs.figures.reads.into(),
            writes: theirs.figures.writes.into(),
            others: theirs.figures.others.into(),
        }
    }
}

impl VolumeFigures {
    /// `volume`, or `volume@snapshot`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.snapshot {
            Some(snapshot) => format!("{}@{snapshot}", self.volume),
            None => self.volume.clone(),
        }
    }
}

/// What has gone over a portal: an address of the member at which hosts arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortalFigures {
    /// Its address.
    #[schema(value_type = String, example = "10.0.0.1:3260")]
    pub portal: SocketAddr,
    /// Connections of hosts that are logged in there.
    pub connections: usize,
    /// SCSI commands that have come.
    pub commands: u64,
    /// Bytes of data that were sent for them.
    pub read_bytes: u64,
    /// Bytes of data that came for them.
    pub written_bytes: u64,
    /// How long those took that were answered there.
    #[serde(default)]
    pub latency: Latency,
}

impl From<member::PortalFigures> for PortalFigures {
    fn from(theirs: member::PortalFigures) -> Self {
        Self {
            portal: theirs.portal,
            connections: theirs.connections,
            commands: theirs.commands,
            read_bytes: theirs.read_bytes,
            written_bytes: theirs.written_bytes,
            latency: theirs.latency.into(),
        }
    }
}

/// What a core of the member does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CoreFigures {
    /// Its number, from 0.
    pub core: usize,
    /// Processor time that its thread has taken, in microseconds.
    pub cpu_us: u64,
    /// Connections of hosts that are logged in.
    pub connections: usize,
    /// Memory in I/O buffers that somebody holds.
    pub buffer_bytes: usize,
    /// How long commands took that were answered by it.
    #[serde(default)]
    pub latency: Latency,
}

impl From<member::CoreFigures> for CoreFigures {
    fn from(theirs: member::CoreFigures) -> Self {
        Self {
            core: theirs.core,
            cpu_us: u64::try_from(theirs.cpu.as_micros()).unwrap_or(u64::MAX),
            connections: theirs.connections,
            buffer_bytes: theirs.buffer_bytes,
            latency: theirs.latency.into(),
        }
    }
}

/// What a disk has done for hosts and for the array itself, since the member was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskFigures {
    /// Its number.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Requests that it has not answered.
    pub waiting: u64,
    /// Reads.
    pub reads: Work,
    /// Writes and all else that changes what it holds.
    pub writes: Work,
    /// Flushes of its cache.
    pub flushes: Work,
}

impl From<member::DiskFigures> for DiskFigures {
    fn from(theirs: member::DiskFigures) -> Self {
        let member::DiskFigures { id, name, waiting, reads, writes, flushes } = theirs;
        let (reads, writes, flushes) = (reads.into(), writes.into(), flushes.into());
        Self { id, name, waiting, reads, writes, flushes }
    }
}

/// RAID sets of a level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetFigures {
    /// Their level; null for those that hold metadata.
    pub raid: Option<Level>,
    /// All of them.
    pub sets: u64,
    /// Those of which a disk is not there or not up to date.
    pub degraded: u64,
    /// How long they took for reads of blocks of one cluster since the array was opened, checked and mended if
    /// need be; of metadata for one copy. Sets of this level that are gone are in it.
    #[serde(default)]
    pub reads: Latency,
    /// And for writes to one stripe, with parity and all copies.
    #[serde(default)]
    pub writes: Latency,
}

impl From<array::api::SetFigures> for SetFigures {
    fn from(theirs: array::api::SetFigures) -> Self {
        let array::api::SetFigures { raid, sets, degraded, reads, writes } = theirs;
        let (reads, writes) = (reads.into(), writes.into());
        Self { raid: raid.map(Into::into), sets, degraded, reads, writes }
    }
}

/// What hosts have had done, and what disks did for that. Counts only grow while the member runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// The upper bounds of the classes of all latencies, in microseconds.
    pub latency_bounds_us: Vec<u64>,
    /// By volume and snapshot, of those that are served.
    pub volumes: Vec<VolumeFigures>,
    /// By portal.
    pub portals: Vec<PortalFigures>,
    /// By core.
    pub cores: Vec<CoreFigures>,
    /// By disk.
    #[serde(default)]
    pub disks: Vec<DiskFigures>,
    /// RAID sets, by level.
    #[serde(default)]
    pub sets: Vec<SetFigures>,
    /// Metadata of the array in memory.
    #[serde(default)]
    pub cache_bytes: u64,
    /// How much of it is kept there at most, without what waits to be written.
    #[serde(default)]
    pub cache_bytes_max: u64,
    /// How often a page of it was asked for and in memory, since the array was opened.
    #[serde(default)]
    pub cache_hits: u64,
    /// And had to be loaded first.
    #[serde(default)]
    pub cache_misses: u64,
    /// How long it took since the array was opened to write batches of the journal to all disks that hold it.
    #[serde(default)]
    pub journal_writes: Latency,
    /// And to make batches durable that need a flush for that.
    #[serde(default)]
    pub journal_flushes: Latency,
    /// The read cache: blocks of volumes in memory.
    #[serde(default)]
    pub block_cache: CacheMemory,
}

impl From<member::Figures> for Figures {
    fn from(theirs: member::Figures) -> Self {
        let us = |bound: std::time::Duration| u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        Self {
            latency_bounds_us: member::LATENCY_BOUNDS.map(us).to_vec(),
            volumes: theirs.volumes.into_iter().map(Into::into).collect(),
            portals: theirs.portals.into_iter().map(Into::into).collect(),
            cores: theirs.cores.into_iter().map(Into::into).collect(),
            disks: theirs.disks.into_iter().map(Into::into).collect(),
            sets: theirs.array.sets.into_iter().map(Into::into).collect(),
            cache_bytes: theirs.array.cache_bytes,
            cache_bytes_max: theirs.array.cache_bytes_max,
            cache_hits: theirs.array.cache_hits,
            cache_misses: theirs.array.cache_misses,
            journal_writes: theirs.array.journal_writes.into(),
            journal_flushes: theirs.array.journal_flushes.into(),
            block_cache: theirs.array.block_cache.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS_US: [u64; 3] = [100, 200, 1000];

    fn latency(counts: [u64; 4], sum_us: u64) -> Latency {
        Latency { counts: counts.to_vec(), sum_us }
    }

    #[test]
    fn quantiles_lie_where_their_class_is() {
        let all = latency([90, 0, 10, 0], 1);
        assert_eq!(all.quantile_us(0.5, &BOUNDS_US), Some(100.0 * 50.0 / 90.0));
        assert_eq!(all.quantile_us(0.9, &BOUNDS_US), Some(100.0));
        assert_eq!(all.quantile_us(0.95, &BOUNDS_US), Some(600.0));
        assert_eq!(all.quantile_us(1.0, &BOUNDS_US), Some(1000.0));
        let slow = latency([0, 0, 0, 5], 1);
        assert_eq!(slow.quantile_us(0.5, &BOUNDS_US), Some(1000.0), "no bound above it");
        assert_eq!(Latency::default().quantile_us(0.5, &BOUNDS_US), None);
    }

    #[test]
    fn what_came_between_two_looks_has_its_own_mean() {
        let (before, now) = (latency([5, 1, 0, 0], 400), latency([7, 1, 1, 0], 1000));
        let between = now.since(&before);
        assert_eq!(between, latency([2, 0, 1, 0], 600));
        assert_eq!(between.mean_us(), Some(200.0));
        assert_eq!(before.since(&now), before, "counted anew");
        assert_eq!(now.since(&Latency::default()), now);
        let mut sum = Latency::default();
        sum.add(&before);
        sum.add(&between);
        assert_eq!(sum, now);
        assert_eq!(Latency::default().mean_us(), None);
    }
}
