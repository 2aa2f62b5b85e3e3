//! What a run counted, and the report made of it.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest latency that is told apart, in nanoseconds (one minute).
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Counters of the measured part of a run.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Latencies of all completed I/Os, in nanoseconds.
    pub(crate) latency_ns: Histogram<u64>,
    /// The longest of them, and of those that were under way at the end.
    latency_max: Duration,
    /// For each second of the measured part, up to the last completion, whether anything completed.
    busy_seconds: Vec<bool>,
    /// I/Os completed by each session.
    pub(crate) per_session: Vec<u64>,
    /// I/Os that ended in anything but GOOD with all their data.
    pub(crate) errors: u64,
    /// What the first of them was.
    pub(crate) first_error: Option<String>,
    /// System calls that sent.
    pub(crate) sends: u64,
    /// System calls that received.
    pub(crate) receives: u64,
    /// Wall time measured.
    pub(crate) elapsed: Duration,
    /// CPU time of the client's thread in that time.
    pub(crate) client_cpu: Duration,
    /// Time in which that thread was ready but others had its core.
    pub(crate) client_waited: Duration,
}

impl Tally {
    /// Empty counters for `sessions` sessions.
    pub(crate) fn new(sessions: usize) -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .expect("1 ns to 1 min at 3 digits is a valid range");
        Self {
            latency_ns,
            latency_max: Duration::ZERO,
            busy_seconds: Vec::new(),
            per_session: vec![0; sessions],
            errors: 0,
            first_error: None,
            sends: 0,
            receives: 0,
            elapsed: Duration::ZERO,
            client_cpu: Duration::ZERO,
            client_waited: Duration::ZERO,
        }
    }

    /// Forgets everything (the end of the warm-up).
    pub(crate) fn reset(&mut self) {
        self.latency_ns.reset();
        self.latency_max = Duration::ZERO;
        self.busy_seconds.clear();
        self.per_session.fill(0);
        // Errors of the warm-up stay: a run that had any is not a good run.
        self.sends = 0;
        self.receives = 0;
    }

    /// Counts one completion.
    pub(crate) fn complete(&mut self, session: usize, latency: Duration, failure: Option<String>) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NS_MAX);
        self.latency_ns.saturating_record(ns.max(1));
        self.per_session[session] += 1;
        self.latency_max = self.latency_max.max(latency);
        if let Some(failure) = failure {
            self.errors += 1;
            self.first_error.get_or_insert(failure);
        }
    }

    /// Counts what was under way when the measured part ended: it is none of its I/Os, for part of
    /// its time lies behind the end, but whoever waited for it has waited.
    pub(crate) fn complete_late(&mut self, latency: Duration, failed: bool) {
        self.latency_max = self.latency_max.max(latency);
        self.errors += u64::from(failed);
    }

    /// Notes that something completed this long after the begin of the measured part.
    pub(crate) fn answered_at(&mut self, since_start: Duration) {
        let second = since_start.as_secs() as usize;
        if self.busy_seconds.len() <= second {
            self.busy_seconds.resize(second + 1, false);
        }
        self.busy_seconds[second] = true;
    }

    /// Whole seconds of the measured part in which nothing completed.
    fn silent_seconds(&self) -> u64 {
        let whole = self.elapsed.as_secs() as usize;
        let busy = self.busy_seconds.iter().take(whole).filter(|&&busy| busy).count();
        (whole - busy) as u64
    }

    /// I/Os completed.
    pub(crate) fn ios(&self) -> u64 {
        self.per_session.iter().sum()
    }

    /// The report, for I/Os of `io_bytes`.
    pub(crate) fn report(&self, io_bytes: u32) -> LoadReport {
        let ios = self.ios();
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        let per_io = |value: f64| if ios == 0 { 0.0 } else { value / ios as f64 };
        let us = |ns: f64| ns / 1e3;
        let quantile = |q: f64| us(self.latency_ns.value_at_quantile(q) as f64);
        let share_min = self.per_session.iter().min().copied().unwrap_or(0);
        let share_fair = ios as f64 / self.per_session.len().max(1) as f64;
        LoadReport {
            ios,
            errors: self.errors,
            first_error: self.first_error.clone(),
            seconds,
            iops: ios as f64 / seconds,
            mb_per_s: ios as f64 * f64::from(io_bytes) / seconds / 1e6,
            latency_us_mean: if ios == 0 { 0.0 } else { us(self.latency_ns.mean()) },
            latency_us_p50: quantile(0.50),
            latency_us_p99: quantile(0.99),
            latency_us_p999: quantile(0.999),
            latency_us_max: us(self.latency_max.as_nanos() as f64),
            silent_seconds: self.silent_seconds(),
            client_cpu_us_per_io: per_io(self.client_cpu.as_secs_f64() * 1e6),
            client_core: self.client_cpu.as_secs_f64() / seconds,
            client_waited: self.client_waited.as_secs_f64() / seconds,
            sends_per_io: per_io(self.sends as f64),
            receives_per_io: per_io(self.receives as f64),
            sessions: self.per_session.len(),
            session_share_min: if ios == 0 { 0.0 } else { share_min as f64 / share_fair },
        }
    }
}

/// The outcome of one run, for people (text) and programs (JSON).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadReport {
    /// I/Os completed.
    pub(crate) ios: u64,
    /// I/Os that failed.
    pub(crate) errors: u64,
    /// The first failure.
    pub(crate) first_error: Option<String>,
    /// Seconds measured.
    pub(crate) seconds: f64,
    /// I/Os per second.
    pub(crate) iops: f64,
    /// 10^6 bytes of payload per second.
    pub(crate) mb_per_s: f64,
    /// Mean latency.
    pub(crate) latency_us_mean: f64,
    /// Median latency.
    pub(crate) latency_us_p50: f64,
    /// 99th percentile.
    pub(crate) latency_us_p99: f64,
    /// 99.9th percentile.
    pub(crate) latency_us_p999: f64,
    /// The longest latency, of what was still under way at the end too.
    pub(crate) latency_us_max: f64,
    /// Whole seconds in which nothing completed.
    pub(crate) silent_seconds: u64,
    /// CPU time of the client per I/O.
    pub(crate) client_cpu_us_per_io: f64,
    /// Share of one core that the client used, 0 to 1.
    pub(crate) client_core: f64,
    /// Share of the time in which others had the client's core while it was ready, 0 to 1.
    pub(crate) client_waited: f64,
    /// Sending system calls per I/O.
    pub(crate) sends_per_io: f64,
    /// Receiving system calls per I/O.
    pub(crate) receives_per_io: f64,
    /// Sessions.
    pub(crate) sessions: usize,
    /// I/Os of the least served session over its fair share.
    pub(crate) session_share_min: f64,
}

impl LoadReport {
    /// A few lines for a terminal.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "{:.0} IOPS, {:.1} MB/s, {} I/Os in {:.2} s, {} errors\n\
             latency us: mean {:.1}, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, longest {:.1}\n\
             client: {:.3} us per I/O, {:.0} % of its core; per I/O {:.3} sends, {:.3} receives\n",
            self.iops,
            self.mb_per_s,
            self.ios,
            self.seconds,
            self.errors,
            self.latency_us_mean,
            self.latency_us_p50,
            self.latency_us_p99,
            self.latency_us_p999,
            self.latency_us_max,
            self.client_cpu_us_per_io,
            self.client_core * 100.0,
            self.sends_per_io,
            self.receives_per_io,
        );
        if self.sessions > 1 {
            text.push_str(&format!(
                "{} sessions; the least served got {:.0} % of its fair share\n",
                self.sessions,
                self.session_share_min * 100.0
            ));
        }
        if self.silent_seconds > 0 {
            text.push_str(&format!("{} whole seconds without an answer\n", self.silent_seconds));
        }
        if let Some(error) = &self.first_error {
            text.push_str(&format!("first error: {error}\n"));
        }
        text
    }
}
