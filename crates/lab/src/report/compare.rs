//! Two runs side by side, and which differences are more than noise.
//!
//! Noise is what the intervals of a step scatter: neighbours are put together to ten groups, for they
//! resemble each other, and the error of the mean of the groups is taken. What two runs differ by
//! because they ran at other times of the day is not in it.

use serde::Serialize;

use super::Report;
use crate::measure::{IntervalFigures, StepFigures};

/// Groups of intervals.
const GROUPS: usize = 10;
/// With fewer intervals nothing is said of noise.
const INTERVALS_MIN: usize = 5;
/// A difference of so many errors is more than noise...
const ERRORS: f64 = 3.0;
/// ...if it is also more than this part.
const PART_MIN: f64 = 0.01;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// I/Os a second.
    Iops,
    /// 10^6 bytes a second.
    MbPerS,
    /// Median latency.
    P50Us,
    /// 99th percentile.
    P99Us,
}

impl Metric {
    const ALL: [Self; 4] = [Self::Iops, Self::MbPerS, Self::P50Us, Self::P99Us];

    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MbPerS => "MB/s",
            Self::P50Us => "p50 us",
            Self::P99Us => "p99 us",
        }
    }

    fn of_step(self, step: &StepFigures) -> f64 {
        let total = &step.total;
        [total.iops, total.mb_per_s, total.p50_us, total.p99_us][self as usize]
    }

    fn of_interval(self, interval: &IntervalFigures) -> f64 {
        let total = &interval.total;
        [total.iops, total.mb_per_s, total.p50_us, total.p99_us][self as usize]
    }

    fn more_is_better(self) -> bool {
        matches!(self, Self::Iops | Self::MbPerS)
    }
}

/// What a difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better, by more than the noise.
    Better,
    /// B is worse, by more than the noise.
    Worse,
    /// Not more than the noise.
    Noise,
    /// Too few intervals to know the noise.
    TooShort,
}

/// One metric of one step in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The step.
    pub step: String,
    /// What is compared.
    pub metric: Metric,
    /// In the first run.
    pub a: f64,
    /// In the second run.
    pub b: f64,
    /// How much more the second has, as a part of the first.
    pub change: f64,
    /// What that must exceed to be more than noise, as a part of the first.
    pub noise: f64,
    /// What that means.
    pub verdict: Verdict,
}

/// Compares the steps that both runs have, by name, and tells which only one of them has.
#[must_use]
pub fn compare(a: &Report, b: &Report) -> (Vec<Comparison>, Vec<String>) {
    let mut all = Vec::new();
    let has = |report: &Report, name: &str| report.steps.iter().any(|step| step.name == name);
    for step in &a.steps {
        let Some(other) = b.steps.iter().find(|other| other.name == step.name) else { continue };
        all.extend(Metric::ALL.into_iter().map(|metric| one(metric, step, other)));
    }
    let only = |from: &Report, other: &Report, which: &str| {
        let missing = from.steps.iter().filter(|step| !has(other, &step.name));
        missing.map(|step| format!("{} is in {which} only", step.name)).collect::<Vec<_>>()
    };
    let alone = [only(a, b, "A"), only(b, a, "B")].concat();
    (all, alone)
}

fn one(metric: Metric, step: &StepFigures, other: &StepFigures) -> Comparison {
    let (a, b) = (metric.of_step(step), metric.of_step(other));
    let change = if a > 0.0 { b / a - 1.0 } else { 0.0 };
    let errors = error_of(metric, step).zip(error_of(metric, other));
    let error = errors.map(|(one, other)| one.hypot(other) / a.max(f64::MIN_POSITIVE));
    let noise = error.map(|error| (ERRORS * error).max(PART_MIN));
    let verdict = match noise {
        None => Verdict::TooShort,
        Some(noise) if change.abs() <= noise => Verdict::Noise,
        Some(_) if (change > 0.0) == metric.more_is_better() => Verdict::Better,
        Some(_) => Verdict::Worse,
    };
    let (step, noise) = (step.name.clone(), noise.unwrap_or(0.0));
    Comparison { step, metric, a, b, change, noise, verdict }
}

/// The error of the mean over the intervals; the first is left out, for it may still warm up.
fn error_of(metric: Metric, step: &StepFigures) -> Option<f64> {
    let values: Vec<f64> =
        step.intervals.iter().skip(1).map(|interval| metric.of_interval(interval)).collect();
    if values.len() < INTERVALS_MIN {
        return None;
    }
    let groups = GROUPS.min(values.len());
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let means: Vec<f64> = (0..groups)
        .map(|group| {
            mean(&values[group * values.len() / groups..(group + 1) * values.len() / groups])
        })
        .collect();
    let middle = mean(&means);
    let square: f64 = means.iter().map(|value| (value - middle).powi(2)).sum();
    Some((square / (groups - 1) as f64 / groups as f64).sqrt())
}
