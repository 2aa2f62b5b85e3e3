//! What a disk has done, counted by all cores. There is no lock in it.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use target::{LATENCY_BOUNDS, Latency, WorkFigures};

const CLASSES: usize = LATENCY_BOUNDS.len() + 1;

/// What a disk is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Contents.
    Read,
    /// Everything that changes them.
    Write,
    /// To make durable what was written.
    Flush,
}

/// Requests of one kind.
#[derive(Debug, Default)]
struct Tally {
    counts: [AtomicU64; CLASSES],
    sum_ns: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    aborted: AtomicU64,
    waiting: AtomicU64,
}

impl Tally {
    fn answered(&self, time: Duration, bytes: u64, is_done: bool) {
        let class = LATENCY_BOUNDS.iter().position(|bound| time <= *bound);
        self.counts[class.unwrap_or(CLASSES - 1)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        match is_done {
            true => self.bytes.fetch_add(bytes, Relaxed),
            false => self.errors.fetch_add(1, Relaxed),
        };
    }

    fn figures(&self) -> WorkFigures {
        let counts = array::from_fn(|class| self.counts[class].load(Relaxed));
        WorkFigures {
            latency: Latency { counts, sum_ns: self.sum_ns.load(Relaxed) },
            bytes: self.bytes.load(Relaxed),
            errors: self.errors.load(Relaxed),
            aborted: self.aborted.load(Relaxed),
        }
    }
}

/// Counts what one disk does, on whatever core it is asked.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    reads: Tally,
    writes: Tally,
    flushes: Tally,
}

/// What a meter has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) reads: WorkFigures,
    pub(crate) writes: WorkFigures,
    pub(crate) flushes: WorkFigures,
    /// Requests that the disk has not answered.
    pub(crate) waiting: u64,
}

impl Meter {
    fn tally(&self, work: Work) -> &Tally {
        match work {
            Work::Read => &self.reads,
            Work::Write => &self.writes,
            Work::Flush => &self.flushes,
        }
    }

    /// What it has counted so far. Each number is right by itself; they are not of one moment.
    pub(crate) fn counted(&self) -> Counted {
        let all = [&self.reads, &self.writes, &self.flushes];
        Counted {
            reads: self.reads.figures(),
            writes: self.writes.figures(),
            flushes: self.flushes.figures(),
            waiting: all.iter().map(|tally| tally.waiting.load(Relaxed)).sum(),
        }
    }
}

/// A request that a disk was given.
#[derive(Debug)]
pub(super) struct Request {
    meter: Arc<Meter>,
    work: Work,
    bytes: u64,
    begun: Instant,
    is_over: bool,
}

impl Request {
    pub(super) fn begin(meter: &Arc<Meter>, work: Work, bytes: u64, now: Instant) -> Self {
        meter.tally(work).waiting.fetch_add(1, Relaxed);
        Self { meter: Arc::clone(meter), work, bytes, begun: now, is_over: false }
    }

    /// The disk has answered.
    pub(super) fn end(mut self, is_done: bool, now: Instant) {
        self.is_over = true;
        let time = now.saturating_duration_since(self.begun);
        self.meter.tally(self.work).answered(time, self.bytes, is_done);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let tally = self.meter.tally(self.work);
        tally.waiting.fetch_sub(1, Relaxed);
        if !self.is_over {
            tally.aborted.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_by_their_kind_and_their_end() {
        let (meter, now) = (Arc::new(Meter::default()), Instant::now());
        let read = Request::begin(&meter, Work::Read, 4096, now);
        let write = Request::begin(&meter, Work::Write, 512, now);
        assert_eq!(meter.counted().waiting, 2);
        read.end(true, now + Duration::from_millis(1));
        write.end(false, now);
        drop(Request::begin(&meter, Work::Flush, 0, now));
        let counted = meter.counted();
        assert_eq!((counted.waiting, counted.reads.bytes, counted.writes.bytes), (0, 4096, 0));
        assert_eq!((counted.reads.latency.count(), counted.reads.errors), (1, 0));
        assert_eq!((counted.writes.latency.count(), counted.writes.errors), (1, 1));
        assert_eq!((counted.flushes.latency.count(), counted.flushes.aborted), (0, 1));
    }

    #[test]
    fn times_are_in_the_classes_of_all_latencies() {
        let tally = Tally::default();
        tally.answered(Duration::from_micros(50), 1, true);
        tally.answered(Duration::from_micros(51), 1, true);
        tally.answered(Duration::from_secs(11), 1, true);
        let latency = tally.figures().latency;
        assert_eq!((latency.counts[0], latency.counts[1], latency.counts[CLASSES - 1]), (1, 1, 1));
        assert_eq!(latency.sum_ns, 11_000_101_000);
    }
}
