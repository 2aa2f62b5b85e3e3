//! What a disk has done, counted by all cores. There is no lock in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use block::SharedLatency;
use target::WorkFigures;

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
    latency: SharedLatency,
    bytes: AtomicU64,
    errors: AtomicU64,
    aborted: AtomicU64,
    waiting: AtomicU64,
}

impl Tally {
    fn answered(&self, time: Duration, bytes: u64, is_done: bool) {
        self.latency.count(time);
        match is_done {
            true => self.bytes.fetch_add(bytes, Relaxed),
            false => self.errors.fetch_add(1, Relaxed),
        };
    }

    fn figures(&self) -> WorkFigures {
        WorkFigures {
            latency: self.latency.counted(),
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
    use std::hint::black_box;

    use super::*;

    /// `make bench-api` runs this on a release build, where it shows what each request to a disk pays.
    #[test]
    #[allow(clippy::print_stdout, reason = "it is a measurement")]
    fn what_metering_a_request_costs() {
        let is_release = !cfg!(debug_assertions);
        let count = if is_release { 20_000_000_u32 } else { 10_000 };
        let (meter, now) = (Arc::new(Meter::default()), Instant::now());
        for number in 0..count {
            let time = Duration::from_nanos(u64::from(black_box(number) & 0xffff));
            Request::begin(&meter, black_box(Work::Read), 4096, now).end(true, now + time);
        }
        let each = now.elapsed() / count;
        let counted = meter.counted();
        assert_eq!((counted.reads.latency.count(), counted.waiting), (u64::from(count), 0));
        println!("metering a request costs {} ns", each.as_nanos());
        assert!(!is_release || each < Duration::from_nanos(400), "{each:?}");
    }

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
        assert_eq!((latency.counts[0], latency.counts[1], latency.counts[14]), (1, 1, 1));
        assert_eq!(latency.sum_ns, 11_000_101_000);
    }
}
