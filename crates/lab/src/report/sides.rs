//! What must be known of two runs before their figures are compared: trouble that either had, and that they
//! did not do the same.

use super::{Ending, Report};
use crate::measure::StepFigures;

/// I/Os that failed, wrong data, stalls, and ends before the time, of either side.
#[must_use]
pub fn troubles(a: &Report, b: &Report) -> Vec<String> {
    let of = |(side, report): (&str, &Report)| {
        let ending = match report.ending {
            Ending::Complete => None,
            Ending::Unfinished => Some("the run is not finished"),
            Ending::Stopped => Some("the run was stopped"),
            Ending::WrongData => Some("wrong data ended the run"),
        };
        let ending = ending.map(|what| format!("{side}: {what}"));
        let steps = report.steps.iter().filter_map(trouble);
        let steps = steps.map(|trouble| format!("{side}: {trouble}"));
        ending.into_iter().chain(steps).collect::<Vec<_>>()
    };
    [("A", a), ("B", b)].into_iter().flat_map(of).collect()
}

fn trouble(step: &StepFigures) -> Option<String> {
    let mut parts = Vec::new();
    if step.validation.mismatch_count > 0 {
        parts.push(format!("{} blocks held WRONG DATA", step.validation.mismatch_count));
    }
    if step.error_count > 0 {
        parts.push(format!("{} I/Os failed", step.error_count));
    }
    let longest = step.stalls.iter().map(|stall| stall.seconds).fold(0.0, f64::max);
    if longest > 0.0 {
        parts.push(format!("{} stalls, the longest of {longest:.3} s", step.stalls.len()));
    }
    if let Some(sessions) = step.sessions.filter(|sessions| sessions.is_short()) {
        parts.push(sessions.to_string());
    }
    if step.was_stopped {
        parts.push("it was ended before its time".to_owned());
    }
    (!parts.is_empty()).then(|| format!("{}: {}", step.name, parts.join("; ")))
}

/// How workloads and targets of the two differ, as far as both kept it.
#[must_use]
pub fn differences(a: &Report, b: &Report) -> Vec<String> {
    let mut found = Vec::new();
    if a.volumes != b.volumes {
        found.push(format!("A worked on {}; B on {}", listed(&a.volumes), listed(&b.volumes)));
    }
    for step in &a.steps {
        let Some(other) = b.steps.iter().find(|other| other.name == step.name) else { continue };
        if step.what != other.what {
            found.push(format!("{}: in A {}; in B {}", step.name, step.what, other.what));
        }
        if step.validation.is_on != other.validation.is_on {
            let checked = if step.validation.is_on { "A" } else { "B" };
            found.push(format!("{}: only {checked} checked its data", step.name));
        }
    }
    if found.is_empty() && a.fingerprint != b.fingerprint {
        found
            .push("the workloads of A and B differ, as in threads, times or --sessions".to_owned());
    }
    found
}

fn listed(volumes: &[String]) -> String {
    /// More would hide the figures.
    const SHOWN: usize = 3;
    let shown = volumes.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match volumes.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
