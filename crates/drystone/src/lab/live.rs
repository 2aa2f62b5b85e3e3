//! What is shown while a workload runs: a line for each interval, and a bar.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lab::engine::Event;
use lab::measure::{Figures, SessionCount, StepFigures};
use lab::report::Report;

use crate::print;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units::count;

/// How the bar looks.
const TEMPLATE: &str = "{msg:40!} [{bar:30}] {percent:>3} %";
/// Parts of the bar.
const WHOLE: u64 = 1000;
/// Wrong blocks and errors that are shown; results.json has more.
const SHOWN_MAX: usize = 10;

/// The table and the bar.
pub(super) struct Live {
    bar: ProgressBar,
    /// The table goes to stderr, for stdout is JSON.
    to_stderr: bool,
}

impl Live {
    pub(super) fn new(to_stderr: bool, notes: &[String]) -> Self {
        for note in notes {
            let _ = writeln!(io::stderr(), "note: {note}");
        }
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template reads");
        let bar = ProgressBar::new(WHOLE).with_style(style.progress_chars("=> "));
        Self { bar, to_stderr }
    }

    pub(super) fn hear(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::Begun(index, count, step) => {
                self.bar.set_message(step.name.clone());
                self.bar.set_position(0);
                self.say(&format!("step {} of {count}: {}\n{}", index + 1, step.name, heading()))
            }
            Event::Interval(figures, share) => {
                self.bar.set_position((share * WHOLE as f64) as u64);
                let at = Duration::from_secs_f64(figures.at_s);
                self.say(&line(&at, &figures.total, figures.queue_depth, figures.errors))
            }
            Event::Sessions(SessionCount { up, asked }) => {
                self.say(&format!("waiting for sessions: {up} of {asked} are up\n"))
            }
            Event::Waiting { ios, volume, longest } => self.say(&format!(
                "{} under way for long, the longest on {volume} for {:.1} s\n",
                count(*ios, "I/O"),
                longest.as_secs_f64()
            )),
            Event::Checking(done, all) => {
                self.bar.set_message("reading back what was written");
                self.bar.set_position(done * WHOLE / (*all).max(1));
                Ok(())
            }
            Event::Ended(figures) => self.say(&troubles(figures)),
        }
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.bar.suspend(|| {
            if !self.to_stderr {
                return print::out(text);
            }
            // Nobody there to be told: the results on stdout are what counts.
            let _ = io::stderr().write_all(text.as_bytes());
            Ok(())
        })
    }

    /// The table of all steps.
    pub(super) fn end(&self, report: &Report, directory: Option<&Path>) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        let mut text = format!("\n{}", summary(&report.steps));
        if let Some(directory) = directory {
            let _ = writeln!(text, "\nreport: {}", directory.join("report.html").display());
        }
        self.say(&text)
    }
}

fn heading() -> String {
    format!(
        "{:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6}\n",
        "seconds", "IOPS", "MB/s", "mean us", "p50 us", "p99 us", "max us", "depth", "errors"
    )
}

fn line(at: &Duration, figures: &Figures, depth: u64, errors: u64) -> String {
    let Figures { iops, mb_per_s, mean_us, p50_us, p99_us, max_us, .. } = figures;
    format!(
        "{:>8.1} {iops:>9.0} {mb_per_s:>9.2} {mean_us:>9.0} {p50_us:>9.0} {p99_us:>9.0} {max_us:>9.0} {depth:>6} {errors:>6}\n",
        at.as_secs_f64()
    )
}

/// What went wrong in a step.
fn troubles(figures: &StepFigures) -> String {
    let mut text = String::new();
    if let Some(sessions) = figures.sessions.filter(SessionCount::is_short) {
        let _ = writeln!(text, "sessions: {sessions}");
    }
    for mismatch in figures.validation.mismatches.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "WRONG DATA: {mismatch}");
    }
    for error in figures.errors.iter().take(SHOWN_MAX) {
        let _ = writeln!(
            text,
            "error at {:.3} s: {} of {} at byte {}: {}",
            error.at_s, error.operation, error.volume, error.at_bytes, error.error
        );
    }
    for fault in figures.target_faults.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "target: {fault}");
    }
    for stall in figures.stalls.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "stall at {:.3} s: {stall}", stall.at_s);
    }
    for freeze in figures.freezes.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "freeze at {:.3} s: {freeze}", freeze.at_s);
    }
    text
}

pub(super) fn summary(steps: &[StepFigures]) -> String {
    let whole = |value: f64| format!("{value:.0}");
    let rows = steps.iter().map(|step| {
        let total = &step.total;
        let target =
            step.target_cpu_us_per_io.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
        let up = match step.sessions.filter(SessionCount::is_short) {
            Some(sessions) => format!(" ({} up)", sessions.up),
            None => String::new(),
        };
        [
            format!("{}{up}", step.name),
            whole(total.iops),
            format!("{:.2}", total.mb_per_s),
            whole(total.mean_us),
            whole(total.p50_us),
            whole(total.p99_us),
            whole(total.p999_us),
            whole(total.max_us),
            format!("{:.1}", step.lab_cpu_us_per_io),
            target,
            step.error_count.to_string(),
            step.retries.to_string(),
            step.validation.mismatch_count.to_string(),
            step.stalls.len().to_string(),
        ]
    });
    let columns = [
        Text("STEP"),
        Number("IOPS"),
        Number("MB/S"),
        Number("MEAN US"),
        Number("P50"),
        Number("P99"),
        Number("P99.9"),
        Number("MAX"),
        Number("LAB CPU"),
        Number("TARGET CPU"),
        Number("ERRORS"),
        Number("RETRIES"),
        Number("WRONG"),
        Number("STALLS"),
    ];
    table(columns, rows)
}
