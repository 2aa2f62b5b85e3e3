//! The load engine: runs the steps of a script on open volumes, on the core that calls.
//!
//! Each volume has its threads as tasks of the core. A task draws an I/O, waits until it is due, does
//! it, checks it, counts it, and begins anew; nothing is allocated in between, beyond what the device
//! itself does.

mod area;
mod bench;
mod claim;
mod ending;
mod pace;
mod routes;
mod sessions;
mod share;
mod step;
mod sweep;
#[cfg(test)]
mod tests;
mod worker;
mod wrong;

pub use bench::{Bench, BenchError, Opener, Opening, Volume};

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::measure::{IntervalFigures, MetricsUrl, SessionCount, StepFigures};
use crate::workload::{Rate, Script, Step};

/// How a script is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Stamp what is written and check what is read.
    pub validate: bool,
    /// Check all that the journal knows before the first step.
    pub validate_before: bool,
    /// Check all that was written after the last step.
    pub validate_after: bool,
    /// Where the ledger is kept beyond the end of the process.
    pub journal: Option<PathBuf>,
    /// Marks what this run writes; a journal brings its own.
    pub key: u64,
    /// A volume that finishes nothing for so long stands still.
    pub stall: Duration,
    /// So many wrong blocks end the run.
    pub mismatches_max: u64,
    /// The process of the target, for its CPU time.
    pub target_pid: Option<u32>,
    /// Where the target tells the CPU time of its process, if that is on another machine.
    pub target_metrics: Option<MetricsUrl>,
    /// How long I/Os may take to come back when a step ends.
    pub drain_max: Duration,
    /// Ends the run early; what was measured is kept.
    pub stop: Arc<AtomicBool>,
}

impl RunOptions {
    /// Validation on, nothing else.
    #[must_use]
    pub fn new(key: u64) -> Self {
        Self {
            validate: true,
            validate_before: false,
            validate_after: false,
            journal: None,
            key,
            stall: Duration::from_millis(500),
            mismatches_max: 50,
            target_pid: None,
            target_metrics: None,
            drain_max: Duration::from_secs(75),
            stop: Arc::default(),
        }
    }
}

/// What is told while a script runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A step begins: its number from 0, how many there are, and which it is.
    Begun(usize, usize, &'a Step),
    /// A step waits for its sessions: so many are up.
    Sessions(SessionCount),
    /// An interval is over; of the time asked for, so much has passed (0 to 1).
    Interval(&'a IntervalFigures, f64),
    /// So many I/Os have been under way for longer than a stall takes, the longest on this volume.
    Waiting {
        /// How many.
        ios: usize,
        /// The volume of the one that waits longest.
        volume: &'a str,
        /// For how long.
        longest: Duration,
    },
    /// All written data is read and compared: bytes so far, and in all.
    Checking(u64, u64),
    /// A step is over.
    Ended(&'a StepFigures),
}

/// Who is told.
pub type Listener = Rc<dyn Fn(&Event<'_>)>;

/// Runs all steps of a script, those of `done` left out, and checks data before and after as asked.
/// Errors of single I/Os are in the figures.
///
/// # Errors
/// A [`BenchError`]: a step that cannot be run at all, a journal that cannot be written.
pub async fn run(
    bench: &Rc<Bench>,
    script: &Script,
    done: &[StepFigures],
    listener: &Listener,
) -> Result<Vec<StepFigures>, BenchError> {
    let options = bench.options();
    let mut all: Vec<StepFigures> = Vec::new();
    if options.validate_before {
        all.push(sweep::check_all(bench, "before", listener).await?);
    }
    let mut max_iops = None;
    let count = script.steps.len();
    for (index, step) in script.steps.iter().enumerate() {
        let is_over = options.stop.load(Ordering::Relaxed)
            || bench.mismatch_count() >= options.mismatches_max;
        if is_over {
            break;
        }
        let figures = match done.iter().find(|figures| figures.name == step.name) {
            Some(figures) => figures.clone(),
            None => {
                listener(&Event::Begun(index, count, step));
                let rate = rate_of(step, max_iops)?;
                bench.have_sessions(step.sessions).await?;
                let sessions = sessions::wait(bench, step.sessions, listener).await;
                let figures = step::run(bench, &step.of_its_clients(), rate, listener).await?;
                let figures = StepFigures { sessions, ..figures };
                listener(&Event::Ended(&figures));
                // What it measured has been told: it is right, only not in the journal.
                bench.take_journal_error()?;
                figures
            }
        };
        if step.rate == Rate::Max {
            max_iops = Some(figures.total.iops);
        }
        all.push(figures);
    }
    if options.validate_after && !options.stop.load(Ordering::Relaxed) {
        all.push(sweep::check_all(bench, "after", listener).await?);
    }
    Ok(all)
}

/// I/Os a second that a step asks for.
fn rate_of(step: &Step, max_iops: Option<f64>) -> Result<Option<f64>, BenchError> {
    match (step.rate, max_iops) {
        (Rate::Max, _) => Ok(None),
        (Rate::Iops(rate), _) => Ok(Some(rate)),
        (Rate::PercentOfMax(percent), Some(max)) if max > 0.0 => Ok(Some(max * percent / 100.0)),
        (Rate::PercentOfMax(_), _) => Err(BenchError::NoMaximum(step.name.clone())),
    }
}
