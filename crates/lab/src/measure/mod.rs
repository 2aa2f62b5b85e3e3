//! What is counted while a step runs.

mod cpu;
mod figures;
mod freeze;
mod metrics;
mod stall;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

pub use cpu::{ProcessCpu, own_cpu};
pub use figures::{
    Figures, Freeze, IntervalFigures, IoError, PathFigures, SessionCount, Stall, StepFigures,
    Validation, VolumeFigures,
};
pub(crate) use freeze::{Freezes, Pause};
pub use metrics::{MetricsError, MetricsUrl};
pub(crate) use stall::{Found, Stalls};

/// The longest latency that is told apart: ten minutes.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// I/Os of one kind.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) ios: u64,
    pub(crate) bytes: u64,
    pub(crate) latency_ns: Histogram<u64>,
}

impl Counter {
    /// `digits` decide how exact latencies are, and how much memory they take.
    pub(crate) fn new(digits: u8) -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, digits)
            .expect("1 ns to 10 min at 2 or 3 digits is a valid range");
        Self { ios: 0, bytes: 0, latency_ns }
    }

    pub(crate) fn add(&mut self, bytes: u32, latency: Duration) {
        self.ios += 1;
        self.bytes += u64::from(bytes);
        self.wait(latency, 1);
    }

    /// The latency of so many I/Os that did not end in the measured part, or never.
    pub(crate) fn wait(&mut self, latency: Duration, ios: u64) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NS_MAX);
        self.latency_ns.saturating_record_n(ns.max(1), ios);
    }

    pub(crate) fn reset(&mut self) {
        self.ios = 0;
        self.bytes = 0;
        self.latency_ns.reset();
    }
}

/// Reads and writes apart.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) read: Counter,
    pub(crate) write: Counter,
}

impl Pair {
    pub(crate) fn new(digits: u8) -> Self {
        Self { read: Counter::new(digits), write: Counter::new(digits) }
    }

    pub(crate) fn of(&mut self, is_read: bool) -> &mut Counter {
        if is_read { &mut self.read } else { &mut self.write }
    }

    /// I/Os of both kinds.
    pub(crate) fn ios(&self) -> u64 {
        self.read.ios + self.write.ios
    }

    pub(crate) fn reset(&mut self) {
        self.read.reset();
        self.write.reset();
    }
}

/// All that one step counts.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) total: Pair,
    pub(crate) interval: Pair,
    pub(crate) volumes: Vec<Pair>,
    pub(crate) stalls: Stalls,
    pub(crate) freezes: Freezes,
    pub(crate) errors: Vec<IoError>,
    pub(crate) error_count: u64,
    /// I/Os under way, summed up at each begin, for the mean queue depth.
    pub(crate) in_flight: u64,
    depth_time: u128,
    depth_since: Instant,
    /// What is under way later is no part of the mean queue depth.
    depth_until: Instant,
    /// When the first I/O was under way, and when the last one ended.
    work: Option<(Instant, Instant)>,
    pub(crate) interval_errors: u64,
}

impl Tally {
    /// For a step that begins `now` and is measured until `until`.
    pub(crate) fn new(volumes: usize, stall: Duration, now: Instant, until: Instant) -> Self {
        Self {
            total: Pair::new(3),
            interval: Pair::new(2),
            volumes: (0..volumes).map(|_| Pair::new(2)).collect(),
            stalls: Stalls::new(volumes, stall, now),
            freezes: Freezes::default(),
            errors: Vec::new(),
            error_count: 0,
            in_flight: 0,
            depth_time: 0,
            depth_since: now,
            depth_until: until,
            work: None,
            interval_errors: 0,
        }
    }

    /// The end of the warm-up: what was counted goes, errors and stalls stay.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.total.reset();
        self.interval.reset();
        self.volumes.iter_mut().for_each(Pair::reset);
        self.depth_time = 0;
        self.depth_since = now;
        self.work = (self.in_flight > 0).then_some((now, now));
    }

    pub(crate) fn begin(&mut self, volume: usize, now: Instant) {
        self.weigh(now);
        self.work.get_or_insert((now, now));
        self.in_flight += 1;
        self.stalls.begin(volume, now);
    }

    /// An I/O has ended; it counts if `counts`.
    pub(crate) fn end(&mut self, done: &Done, now: Instant) {
        self.weigh(now);
        if let Some((_, last)) = &mut self.work {
            *last = now;
        }
        self.in_flight -= 1;
        self.stalls.end(done.volume, done.failed, now);
        if done.failed || done.counts == Counts::No {
            return;
        }
        if done.counts == Counts::Latency {
            self.wait(done.volume, done.is_read, done.latency, 1);
            return;
        }
        for pair in [&mut self.total, &mut self.interval, &mut self.volumes[done.volume]] {
            pair.of(done.is_read).add(done.bytes, done.latency);
        }
    }

    /// The step has ended before its time.
    pub(crate) fn cut(&mut self, now: Instant) {
        self.depth_until = self.depth_until.min(now);
    }

    /// So many I/Os of a volume have waited so long when the step had ended.
    pub(crate) fn wait(&mut self, volume: usize, is_read: bool, latency: Duration, ios: u64) {
        for pair in [&mut self.total, &mut self.volumes[volume]] {
            pair.of(is_read).wait(latency, ios);
        }
    }

    /// From the first I/O under way to the end of the last one.
    pub(crate) fn work(&self) -> Option<(Instant, Instant)> {
        self.work
    }

    fn weigh(&mut self, now: Instant) {
        let now = now.min(self.depth_until);
        let since = now.saturating_duration_since(self.depth_since);
        self.depth_time += since.as_nanos() * u128::from(self.in_flight);
        self.depth_since = self.depth_since.max(now);
    }

    /// I/Os under way on average over `elapsed`, which ends at `end`.
    pub(crate) fn mean_depth(&mut self, elapsed: Duration, end: Instant) -> f64 {
        self.weigh(end);
        self.depth_time as f64 / (elapsed.as_nanos() as f64).max(1.0)
    }

    pub(crate) fn fail(&mut self, error: IoError) {
        /// More would fill memory and tell nothing new.
        const KEPT: usize = 200;
        self.error_count += 1;
        self.interval_errors += 1;
        if self.errors.len() < KEPT {
            self.errors.push(error);
        }
    }
}

/// One I/O that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) volume: usize,
    pub(crate) bytes: u32,
    pub(crate) is_read: bool,
    pub(crate) latency: Duration,
    pub(crate) failed: bool,
    pub(crate) counts: Counts,
}

/// What an I/O counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// It ended in the warm-up, or began after the measured part.
    No,
    /// It was due in the measured part, and ended later.
    Latency,
    /// It ended in the measured part.
    All,
}
