//! What is kept of a step: plain values for results.json. Their names are its format.

use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{Counter, Pair};
use crate::check::Mismatch;

/// I/Os of one kind over some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// How many.
    pub ios: u64,
    /// I/Os a second.
    pub iops: f64,
    /// 10^6 bytes a second.
    pub mb_per_s: f64,
    /// Mean latency.
    pub mean_us: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 90 in a hundred were faster.
    pub p90_us: f64,
    /// 99 in a hundred.
    pub p99_us: f64,
    /// 999 in a thousand.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Figures {
    pub(crate) fn of(counter: &Counter, seconds: f64) -> Self {
        Self::made(counter.ios, counter.bytes, &counter.latency_ns, seconds)
    }

    /// Reads and writes together.
    pub(crate) fn of_both(pair: &Pair, seconds: f64) -> Self {
        let mut latency = pair.read.latency_ns.clone();
        latency.add(&pair.write.latency_ns).expect("both have the same bounds");
        let (ios, bytes) = (pair.read.ios + pair.write.ios, pair.read.bytes + pair.write.bytes);
        Self::made(ios, bytes, &latency, seconds)
    }

    fn made(ios: u64, bytes: u64, latency: &Histogram<u64>, seconds: f64) -> Self {
        // None may have ended in time where the target stood still: then their latencies are all there is.
        if latency.is_empty() || seconds <= 0.0 {
            return Self::default();
        }
        let us = |q: f64| latency.value_at_quantile(q) as f64 / 1e3;
        Self {
            ios,
            iops: ios as f64 / seconds,
            mb_per_s: bytes as f64 / seconds / 1e6,
            mean_us: latency.mean() / 1e3,
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: us(1.0),
        }
    }
}

/// One interval of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalFigures {
    /// Its end, in seconds from the end of the warm-up.
    pub at_s: f64,
    /// Its length.
    pub seconds: f64,
    /// Reads.
    pub read: Figures,
    /// Writes.
    pub write: Figures,
    /// Both.
    pub total: Figures,
    /// I/Os that failed.
    pub errors: u64,
    /// I/Os under way at its end.
    pub queue_depth: u64,
    /// Commands a second of each path.
    pub path_iops: Vec<f64>,
}

/// One volume of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeFigures {
    /// Its name in the script.
    pub name: String,
    /// Reads.
    pub read: Figures,
    /// Writes.
    pub write: Figures,
    /// Both.
    pub total: Figures,
}

/// One path of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathFigures {
    /// The target that it leads to.
    pub volume: String,
    /// Where it leads.
    pub path: String,
    /// Its state at the end.
    pub state: String,
    /// Commands a second.
    pub iops: f64,
    /// 10^6 bytes a second.
    pub mb_per_s: f64,
    /// Smoothed time of a command at the end.
    pub latency_us: f64,
    /// Times that it was lost during the step.
    pub losses: u64,
    /// Commands that it was given and that were sent once more, on whichever path.
    #[serde(default)]
    pub retries: u64,
}

/// An I/O that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoError {
    /// When, in seconds from the end of the warm-up; negative in it.
    pub at_s: f64,
    /// The volume.
    pub volume: String,
    /// `read`, `write` or `flush`.
    pub operation: String,
    /// The first byte.
    pub at_bytes: u64,
    /// How many.
    pub len_bytes: u64,
    /// What was said.
    pub error: String,
}

/// A time in which a volume that had I/O to do finished none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// When it began, in seconds from the end of the warm-up; negative in it.
    pub at_s: f64,
    /// The volume.
    pub volume: String,
    /// How long.
    pub seconds: f64,
    /// How much of that the lab itself did not run: it may not be the target's.
    #[serde(default)]
    pub frozen_s: f64,
}

/// A time in which the lab itself did not run, because the machine did not let it, or it was busy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Freeze {
    /// When it began, in seconds from the end of the warm-up; negative in it.
    pub at_s: f64,
    /// How long.
    pub seconds: f64,
    /// CPU time that this process had in it: next to none if the machine did not let it run.
    pub cpu_s: f64,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} finished nothing for {:.3} s", self.volume, self.seconds)?;
        match self.frozen_s > 0.0 {
            true => write!(f, ", of which the lab itself did not run for {:.3} s", self.frozen_s),
            false => Ok(()),
        }
    }
}

impl fmt::Display for Freeze {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the lab itself did not run for {:.3} s, and had {:.3} s of CPU time: what took longer then is not \
             the target's",
            self.seconds, self.cpu_s
        )
    }
}

/// What checking the data found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Whether data was checked.
    pub is_on: bool,
    /// Bytes read and compared.
    pub compared_bytes: u64,
    /// Bytes read that nothing is known of: they were not written by this run.
    pub unknown_bytes: u64,
    /// Blocks that were wrong, each counted once in a step.
    pub mismatch_count: u64,
    /// Those of them that a step before had found as well.
    #[serde(default)]
    pub again_count: u64,
    /// The first of them.
    pub mismatches: Vec<Mismatch>,
}

/// Sessions when a step began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCount {
    /// Those that worked.
    pub up: u32,
    /// Those that were asked for.
    pub asked: u32,
}

impl SessionCount {
    /// Whether there were fewer than asked for.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.up < self.asked
    }
}

impl fmt::Display for SessionCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let only = if self.is_short() { "only " } else { "" };
        write!(f, "{only}{} of {} sessions were up when the step began", self.up, self.asked)
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepFigures {
    /// Its name.
    pub name: String,
    /// What it did, for people.
    pub what: String,
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// Seconds measured.
    pub seconds: f64,
    /// I/Os a second that were asked for; none for as many as there can be.
    pub asked_iops: Option<f64>,
    /// Reads.
    pub read: Figures,
    /// Writes.
    pub write: Figures,
    /// Both.
    pub total: Figures,
    /// I/Os under way on average.
    pub mean_queue_depth: f64,
    /// CPU time of this process for each I/O.
    pub lab_cpu_us_per_io: f64,
    /// CPU time of the target's process for each I/O, if one was named.
    pub target_cpu_us_per_io: Option<f64>,
    /// Each volume.
    pub volumes: Vec<VolumeFigures>,
    /// Each path of the volumes that have paths.
    pub paths: Vec<PathFigures>,
    /// Over time.
    pub intervals: Vec<IntervalFigures>,
    /// Sessions over all targets, where the step asks for a number.
    #[serde(default)]
    pub sessions: Option<SessionCount>,
    /// Commands that the initiator sent once more: I/Os that took longer, and did not fail by it.
    #[serde(default)]
    pub retries: u64,
    /// I/Os that failed, warm-up included.
    pub error_count: u64,
    /// The first of them.
    pub errors: Vec<IoError>,
    /// Stalls, warm-up included.
    pub stalls: Vec<Stall>,
    /// The longest time in which a volume that had I/O to do finished none.
    pub longest_pause_s: f64,
    /// How much of that the lab itself did not run.
    #[serde(default)]
    pub longest_pause_frozen_s: f64,
    /// Times in which the lab itself did not run, warm-up included.
    #[serde(default)]
    pub freezes: Vec<Freeze>,
    /// How targets broke their protocol, or did not answer, each way once.
    #[serde(default)]
    pub target_faults: Vec<String>,
    /// What checking the data found.
    pub validation: Validation,
    /// Whether it was ended before its time.
    pub was_stopped: bool,
}
