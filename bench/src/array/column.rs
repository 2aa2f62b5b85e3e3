//! Columns of a part's table: which figure of a run, and what counts of several rounds.

use crate::suite::{Run, median};

/// What counts of the figures of all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounds {
    /// The median: what a round does.
    Median,
    /// The largest: what must not happen even once.
    Worst,
    /// All of them together.
    Sum,
}

impl Rounds {
    /// One figure for all; `None` of none.
    pub(super) fn fold(self, figures: impl IntoIterator<Item = f64>) -> Option<f64> {
        match self {
            Self::Median => median(figures),
            Self::Worst => figures.into_iter().reduce(f64::max),
            Self::Sum => figures.into_iter().reduce(|sum, figure| sum + figure),
        }
    }
}

/// One column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Digits behind the point.
    digits: usize,
    rounds: Rounds,
    /// `None` where a run does not tell.
    figure: fn(&Run) -> Option<f64>,
}

const fn column(
    title: &'static str,
    digits: usize,
    rounds: Rounds,
    figure: fn(&Run) -> Option<f64>,
) -> Column {
    Column { title, digits, rounds, figure }
}

const IOPS: Column = column("IOPS", 0, Rounds::Median, |run| Some(run.iops));
const RATE: Column = column("MB/s", 1, Rounds::Median, |run| Some(run.mb_per_s));
const P50: Column = column("p50 us", 0, Rounds::Median, |run| run.latency_us_p50);
const P99: Column = column("p99 us", 0, Rounds::Median, |run| run.latency_us_p99);
const CPU: Column =
    column("server CPU us/IO", 2, Rounds::Median, |run| Some(run.target_cpu_us_per_io));
/// A promise about the slowest answers holds in the worst round or not at all.
pub(super) const P999: Column =
    column("p99.9 us, worst round", 0, Rounds::Worst, |run| run.latency_us_p999);
pub(super) const LONGEST: Column = column("longest us", 0, Rounds::Worst, |run| run.latency_us_max);
pub(super) const SILENT: Column = column("seconds without an answer", 0, Rounds::Sum, |run| {
    run.silent_seconds.map(|seconds| seconds as f64)
});

/// What most parts show.
pub(super) const USUAL: &[Column] = &[IOPS, RATE, P50, P99, CPU];
/// With the slowest answers.
pub(super) const TAILS: &[Column] = &[IOPS, RATE, P50, P99, P999, LONGEST, SILENT, CPU];

impl Column {
    /// The figure of these runs, if any of them tells.
    pub(super) fn of(&self, runs: &[Run]) -> Option<f64> {
        self.rounds.fold(runs.iter().filter_map(self.figure))
    }

    /// The same for the table.
    pub(super) fn text(&self, runs: &[Run]) -> String {
        let digits = self.digits;
        self.of(runs).map_or("-".to_owned(), |figure| format!("{figure:.digits$}"))
    }
}
