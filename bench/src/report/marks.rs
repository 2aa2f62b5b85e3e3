//! The marks that the project has set itself, and whether a report meets them.

use serde::Serialize;

use super::{FLOOR, REFERENCE};
use crate::suite::{Limit, Results, Run};

/// Ours with the disk that the mark is about.
const RAM: &str = "ours-ram";
const FILE: &str = "ours-file";
/// Memory that an idle session may cost.
const SESSION_KIB_MAX: f64 = 64.0;
/// What counts as no CPU: a thousandth of a core.
const REST_CORE_MAX: f64 = 0.001;

/// How a mark came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// The report does not hold the runs that it takes.
    Unknown,
}

impl Verdict {
    /// For tables.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Unknown => "not run",
        }
    }
}

/// One mark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Mark {
    /// What is asked.
    pub(crate) title: String,
    /// What was found.
    pub(crate) found: String,
    pub(crate) verdict: Verdict,
}

impl Mark {
    /// With the outcome: whether it is met, and what was found; `None` when it was not run.
    pub(crate) fn new(title: impl Into<String>, outcome: Option<(bool, String)>) -> Self {
        let (verdict, found) = match outcome {
            Some((true, found)) => (Verdict::Met, found),
            Some((false, found)) => (Verdict::Missed, found),
            None => (Verdict::Unknown, "the report has no such runs".into()),
        };
        Self { title: title.into(), found, verdict }
    }
}

/// All marks, in the order of the issue that set them.
pub(super) fn check(results: &Results) -> Vec<Mark> {
    let mut marks = vec![
        over_floor(results, "4k-read-32", "4 KiB reads", 1.3),
        over_floor(results, "4k-write-32", "4 KiB writes", 1.6),
    ];
    marks.extend(SPDK.iter().map(|&(row, what, us)| absolute(results, row, what, us)));
    marks.extend([
        cpu_ratio(results, "4k-read-32", "4 KiB reads", 4.0),
        cpu_ratio(results, "4k-write-32", "4 KiB writes", 3.0),
        rate_ratio(results, "4k-read-32", "4 KiB reads", 2.0, true),
        rate_ratio(results, "4k-write-32", "4 KiB writes", 2.0, true),
        rate_ratio(results, "4k-read-1", "4 KiB reads at depth 1", 1.5, false),
        rate_ratio(results, "256k-read-16", "256 KiB reads", 1.8, false),
        rate_ratio(results, "64k-write-16", "64 KiB writes", 1.8, false),
    ]);
    marks.extend(fairness(results));
    marks.extend(rest(results));
    marks
}

/// What SPDK's busy time per I/O is on a machine of this kind, and 15 us at depth 1. Absolute, so a
/// slow hour can miss them and a fast one meet them; the ratios above are the harder evidence.
const SPDK: [(&str, &str, f64); 7] = [
    ("4k-read-1", "4 KiB reads at depth 1", 15.0),
    ("4k-read-32", "4 KiB reads at depth 32", 2.6),
    ("4k-read-8x32", "4 KiB reads from 8 sessions", 2.1),
    ("4k-write-32", "4 KiB writes at depth 32", 3.0),
    ("8k-mix-32", "8 KiB, 67 % read", 3.8),
    ("64k-write-16", "64 KiB writes", 24.0),
    ("256k-read-16", "256 KiB reads", 69.0),
];

fn pair(results: &Results, row: &str, ours: &str, other: &str) -> Option<(Run, Run)> {
    Some((results.lean(row, ours)?, results.lean(row, other)?))
}

fn over_floor(results: &Results, row: &str, what: &str, times: f64) -> Mark {
    let outcome = pair(results, row, RAM, FLOOR).map(|(ours, floor)| {
        let ratio = ours.target_cpu_us_per_io / floor.target_cpu_us_per_io;
        let found = format!(
            "{ratio:.2} times ({:.2} us against {:.2} us)",
            ours.target_cpu_us_per_io, floor.target_cpu_us_per_io
        );
        (ratio <= times, found)
    });
    Mark::new(format!("{what}, {RAM}: at most {times} times the CPU of the plain loop"), outcome)
}

fn absolute(results: &Results, row: &str, what: &str, us: f64) -> Mark {
    let outcome = results.lean(row, RAM).map(|ours| {
        let found = ours.target_cpu_us_per_io;
        (found <= us, format!("{found:.2} us"))
    });
    Mark::new(format!("{what}, {RAM}: at most {us} us of CPU (absolute)"), outcome)
}

fn cpu_ratio(results: &Results, row: &str, what: &str, times: f64) -> Mark {
    let outcome = pair(results, row, FILE, REFERENCE).map(|(ours, other)| {
        let ratio = other.target_cpu_us_per_io / ours.target_cpu_us_per_io;
        let found = format!(
            "{ratio:.2} times less ({:.2} us against {:.2} us)",
            ours.target_cpu_us_per_io, other.target_cpu_us_per_io
        );
        (ratio >= times, found)
    });
    Mark::new(format!("{what}, {FILE}: at least {times} times less CPU than {REFERENCE}"), outcome)
}

fn rate_ratio(results: &Results, row: &str, what: &str, times: f64, or_full: bool) -> Mark {
    let outcome = pair(results, row, FILE, REFERENCE).map(|(ours, other)| {
        let ratio = ours.iops / other.iops;
        let limit = Limit::of(ours.client_core, ours.target_core);
        let client_full = matches!(limit, Limit::Client | Limit::Both);
        let found = format!(
            "{ratio:.2} times ({:.0} against {:.0} a second; {})",
            ours.iops,
            other.iops,
            limit.text()
        );
        (ratio >= times || (or_full && client_full), found)
    });
    let or = if or_full { ", or the client's core full" } else { "" };
    Mark::new(
        format!("{what}, {FILE}: at least {times} times the rate of {REFERENCE}{or}"),
        outcome,
    )
}

fn fairness(results: &Results) -> [Mark; 2] {
    let many = results.lean("fair-45", RAM);
    let total = many.as_ref().zip(results.lean("fair-1", RAM)).map(|(many, one)| {
        let ratio = many.iops / one.iops;
        (ratio >= 0.95, format!("{:.0} %", ratio * 100.0))
    });
    let share = many.as_ref().map(|many| {
        (many.session_share_min >= 0.5, format!("{:.0} %", many.session_share_min * 100.0))
    });
    [
        Mark::new("45 sessions: at least 95 % of the IOPS of one at the same total depth", total),
        Mark::new("45 sessions: none below half of its fair share", share),
    ]
}

fn rest(results: &Results) -> [Mark; 3] {
    let idle = results.idle(RAM);
    let sessions = idle.map_or(1000, |idle| idle.sessions);
    let percent = |core: f64| (core < REST_CORE_MAX, format!("{:.3} % of a core", core * 100.0));
    let memory = idle.and_then(|idle| idle.session_bytes).map(|bytes| {
        let kib = bytes / 1024.0;
        (kib < SESSION_KIB_MAX, format!("{kib:.1} KiB"))
    });
    [
        Mark::new(format!("{sessions} idle sessions: under 64 KiB of memory each"), memory),
        Mark::new(
            format!("{sessions} idle sessions: under 0.1 % of a core"),
            idle.and_then(|idle| idle.core_sessions).map(percent),
        ),
        Mark::new(
            "no session: under 0.1 % of a core",
            idle.and_then(|idle| idle.core_alone).map(percent),
        ),
    ]
}
