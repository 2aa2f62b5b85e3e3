//! What a comparison found: the content of `latest.json`.

use serde::{Deserialize, Serialize};

use crate::machine::Facts;

/// A core that is this busy is taken to be full.
const FULL: f64 = 0.90;

/// Everything about one comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The machine.
    pub(crate) facts: Facts,
    /// How it was done, in a sentence.
    pub(crate) method: String,
    /// The targets, in the order of the report.
    pub(crate) targets: Vec<TargetInfo>,
    /// Runs under load.
    pub(crate) cells: Vec<Cell>,
    /// Rest.
    pub(crate) idle: Vec<Idle>,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TargetInfo {
    /// Its name.
    pub(crate) name: String,
    /// What it is.
    pub(crate) what: String,
    /// Why it was not measured.
    pub(crate) skipped: Option<String>,
}

/// All runs of one target in one row with one client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Key of the row.
    pub(crate) row: String,
    /// The row for people.
    pub(crate) title: String,
    /// Name of the target.
    pub(crate) target: String,
    /// `lean`, `iscsi-perf` or `qemu-img`.
    pub(crate) client: String,
    /// One per round.
    pub(crate) runs: Vec<Run>,
    /// What went wrong in rounds that gave no run.
    pub(crate) failures: Vec<String>,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// I/Os per second.
    pub(crate) iops: f64,
    /// 10^6 bytes per second.
    pub(crate) mb_per_s: f64,
    /// Mean latency; clients of others do not tell.
    pub(crate) latency_us_mean: Option<f64>,
    /// Median latency.
    pub(crate) latency_us_p50: Option<f64>,
    /// 99th percentile.
    pub(crate) latency_us_p99: Option<f64>,
    /// 99.9th percentile; reports of earlier days do not tell.
    #[serde(default)]
    pub(crate) latency_us_p999: Option<f64>,
    /// The longest, of what was still under way at the end too.
    #[serde(default)]
    pub(crate) latency_us_max: Option<f64>,
    /// Whole seconds in which nothing was answered.
    #[serde(default)]
    pub(crate) silent_seconds: Option<u64>,
    /// CPU time of the target per I/O, user and system.
    pub(crate) target_cpu_us_per_io: f64,
    /// CPU time of the client per I/O.
    pub(crate) client_cpu_us_per_io: f64,
    /// Cores that the target used.
    pub(crate) target_core: f64,
    /// Cores that the client used.
    pub(crate) client_core: f64,
    /// Share of the time in which others had the client's core.
    pub(crate) client_waited: f64,
    /// I/Os of the least served session over its fair share.
    pub(crate) session_share_min: f64,
    /// I/Os that failed.
    pub(crate) errors: u64,
}

/// A target at rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Idle {
    /// Name of the target.
    pub(crate) target: String,
    /// Share of a core that it used with no session.
    pub(crate) core_alone: Option<f64>,
    /// Sessions that were then held idle.
    pub(crate) sessions: u32,
    /// Memory that each of them cost.
    pub(crate) session_bytes: Option<f64>,
    /// Share of a core that it used with them.
    pub(crate) core_sessions: Option<f64>,
    /// What went wrong.
    pub(crate) failure: Option<String>,
}

/// What kept a run from being faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Client,
    Target,
    Both,
    Neither,
}

impl Limit {
    /// Judged by how full the two cores were.
    pub(crate) fn of(client_core: f64, target_core: f64) -> Self {
        match (client_core >= FULL, target_core >= FULL) {
            (true, true) => Self::Both,
            (true, false) => Self::Client,
            (false, true) => Self::Target,
            (false, false) => Self::Neither,
        }
    }

    /// For the table.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Client => "client core full",
            Self::Target => "target core full",
            Self::Both => "both cores full",
            Self::Neither => "neither (waiting)",
        }
    }
}

/// The middle of some numbers, or the mean of the middle two; `None` of none.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

impl Cell {
    /// The median of each figure by itself; `None` when no round gave a run.
    pub(crate) fn median(&self) -> Option<Run> {
        let middle = |of: fn(&Run) -> f64| median(self.runs.iter().map(of));
        let maybe = |of: fn(&Run) -> Option<f64>| median(self.runs.iter().filter_map(of));
        Some(Run {
            iops: middle(|run| run.iops)?,
            mb_per_s: middle(|run| run.mb_per_s)?,
            latency_us_mean: maybe(|run| run.latency_us_mean),
            latency_us_p50: maybe(|run| run.latency_us_p50),
            latency_us_p99: maybe(|run| run.latency_us_p99),
            latency_us_p999: maybe(|run| run.latency_us_p999),
            latency_us_max: self.runs.iter().filter_map(|run| run.latency_us_max).reduce(f64::max),
            silent_seconds: self.runs.iter().filter_map(|run| run.silent_seconds).max(),
            target_cpu_us_per_io: middle(|run| run.target_cpu_us_per_io)?,
            client_cpu_us_per_io: middle(|run| run.client_cpu_us_per_io)?,
            target_core: middle(|run| run.target_core)?,
            client_core: middle(|run| run.client_core)?,
            client_waited: middle(|run| run.client_waited)?,
            session_share_min: middle(|run| run.session_share_min)?,
            errors: self.runs.iter().map(|run| run.errors).sum(),
        })
    }
}

impl Results {
    /// The median of the runs of the lean client.
    pub(crate) fn lean(&self, row: &str, target: &str) -> Option<Run> {
        let cell = self
            .cells
            .iter()
            .find(|cell| cell.client == "lean" && cell.row == row && cell.target == target)?;
        cell.median()
    }

    /// A target at rest.
    pub(crate) fn idle(&self, target: &str) -> Option<&Idle> {
        self.idle.iter().find(|idle| idle.target == target)
    }
}
