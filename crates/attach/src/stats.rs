//! What an attachment has done, for `drystone attached`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Counters of all requests. Written by the core that serves, read by any thread.
#[derive(Debug, Default)]
pub struct Stats {
    begun: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    others: AtomicU64,
    failed: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    latency_ns: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads that ended.
    pub reads: u64,
    /// Writes that ended, of data and of zeroes.
    pub writes: u64,
    /// Flushes, trims and questions that ended.
    pub others: u64,
    /// Those of all of these that failed.
    pub failed: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written, without zeroes that carry no payload.
    pub written_bytes: u64,
    /// The sum of the times that all of them took.
    pub latency_ns: u64,
    /// Requests under way.
    pub in_flight: u64,
}

/// What kind of request is counted, with its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read(u64),
    Write(u64),
    Other,
}

impl Stats {
    /// Counts a request that begins now.
    pub(crate) fn begin(&self) -> Instant {
        self.begun.fetch_add(1, Ordering::Relaxed);
        ring::now()
    }

    /// Counts the end of a request that began at `since`. Its time is that between the turns of the core
    /// in which it was taken and answered: a look at the clock for each would cost more than it tells.
    pub(crate) fn end(&self, since: Instant, kind: Kind, ok: bool) {
        let add = |counter: &AtomicU64, n: u64| {
            counter.fetch_add(n, Ordering::Relaxed);
        };
        let took = ring::now().saturating_duration_since(since);
        add(&self.latency_ns, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        match kind {
            Kind::Read(bytes) => {
                add(&self.reads, 1);
                add(&self.read_bytes, if ok { bytes } else { 0 });
            }
            Kind::Write(bytes) => {
                add(&self.writes, 1);
                add(&self.written_bytes, if ok { bytes } else { 0 });
            }
            Kind::Other => add(&self.others, 1),
        }
        add(&self.failed, u64::from(!ok));
    }

    /// The counters now. They are read one after the other, so that under load they can differ by
    /// a few requests.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (reads, writes, others) = (get(&self.reads), get(&self.writes), get(&self.others));
        Counts {
            reads,
            writes,
            others,
            failed: get(&self.failed),
            read_bytes: get(&self.read_bytes),
            written_bytes: get(&self.written_bytes),
            latency_ns: get(&self.latency_ns),
            in_flight: get(&self.begun).saturating_sub(reads + writes + others),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::{CoreConfig, block_on};

    #[test]
    fn requests_count_by_kind_and_failures_carry_no_bytes() {
        let counts = block_on(&CoreConfig::default(), async {
            let stats = Stats::default();
            let since = stats.begin();
            ring::sleep(std::time::Duration::from_millis(1)).await;
            stats.end(since, Kind::Read(4096), true);
            stats.end(stats.begin(), Kind::Write(512), true);
            stats.end(stats.begin(), Kind::Write(512), false);
            stats.end(stats.begin(), Kind::Other, true);
            stats.begin();
            stats.counts()
        })
        .unwrap();
        let wanted = Counts {
            reads: 1,
            writes: 2,
            others: 1,
            failed: 1,
            read_bytes: 4096,
            written_bytes: 512,
            latency_ns: counts.latency_ns,
            in_flight: 1,
        };
        assert_eq!(counts, wanted);
        assert!(counts.latency_ns > 0);
    }
}
