//! Long work that was asked for: it goes on by itself, and what came of it can be asked for later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use member::{ArrayRequest, Request};
use tokio::sync::watch;

use super::app::App;
use crate::problem::{Code, Problem};
use crate::types::{Nothing, Report, Run, RunKind, RunState};

/// Runs that go on at once.
const RUNNING_MAX: usize = 8;

/// Runs that are kept, with those that go on.
const KEPT_MAX: usize = 64;

/// The runs of a member, oldest first.
#[derive(Debug)]
pub(super) struct Runs {
    /// What the names of all runs begin with: those of another start of the member are others.
    prefix: String,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    by_number: BTreeMap<u64, watch::Receiver<Run>>,
}

impl Default for Runs {
    fn default() -> Self {
        Self { prefix: format!("{:x}", unix_seconds()), all: Mutex::default() }
    }
}

impl Runs {
    fn all(&self) -> MutexGuard<'_, All> {
        // Each change is one call.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are kept.
    pub(super) fn list(&self) -> Vec<Run> {
        self.all().by_number.values().map(|run| run.borrow().clone()).collect()
    }

    /// One of them, and how it goes on.
    pub(super) fn find(&self, id: &str) -> Result<watch::Receiver<Run>, Problem> {
        let number = id.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix('-'));
        let number = number.and_then(|number| number.parse().ok());
        let found = number.and_then(|number: u64| self.all().by_number.get(&number).cloned());
        found.filter(|run| run.borrow().id == id).ok_or_else(|| {
            let sentence = format!(
                "there is no run '{id}': the last {KEPT_MAX} of this start of the member are kept"
            );
            Problem::new(Code::NoSuchRun, sentence)
        })
    }

    fn enter(&self, kind: RunKind) -> Result<watch::Sender<Run>, Problem> {
        let mut all = self.all();
        let is_over = |run: &watch::Receiver<Run>| run.borrow().state != RunState::Running;
        if all.by_number.values().filter(|run| !is_over(run)).count() >= RUNNING_MAX {
            let sentence =
                format!("{RUNNING_MAX} runs are under way: try again when one has ended");
            return Err(Problem::new(Code::TooBusy, sentence));
        }
        while all.by_number.len() >= KEPT_MAX {
            let oldest = all.by_number.iter().find(|(_, run)| is_over(run)).map(|(n, _)| *n);
            // There are fewer that go on than are kept.
            all.by_number.remove(&oldest.expect("one of them is over"));
        }
        all.next += 1;
        let number = all.next;
        let (sender, run) = watch::channel(Run {
            id: format!("{}-{number}", self.prefix),
            kind,
            state: RunState::Running,
            begun_unix_seconds: unix_seconds(),
            ended_unix_seconds: None,
            jobs: Vec::new(),
            report: None,
            problem: None,
        });
        all.by_number.insert(number, run);
        Ok(sender)
    }
}

/// Begins a run, which goes on whoever waits for it.
pub(super) fn begin(app: &Arc<App>, kind: RunKind) -> Result<Run, Problem> {
    let sender = app.runs.enter(kind)?;
    let begun = sender.borrow().clone();
    tokio::spawn(go_on(app.clone(), kind, sender));
    Ok(begun)
}

async fn go_on(app: Arc<App>, kind: RunKind, run: watch::Sender<Run>) {
    let request = match kind {
        RunKind::Scrub => ArrayRequest::Scrub,
        RunKind::Check => ArrayRequest::Check,
        RunKind::Rebalance => ArrayRequest::Rebalance,
    };
    let (mut progress, coming) = app.begin(Request::Array(request));
    let outcome = async {
        Ok::<Option<Report>, Problem>(match kind {
            RunKind::Scrub | RunKind::Check => Some(app.outcome(coming).await?),
            RunKind::Rebalance => {
                app.outcome::<Nothing>(coming).await?;
                None
            }
        })
    };
    tokio::pin!(outcome);
    let outcome = loop {
        tokio::select! {
            outcome = &mut outcome => break outcome,
            Ok(()) = progress.changed() => {
                let jobs = progress.borrow_and_update().iter().cloned().map(Into::into).collect();
                run.send_modify(|run| run.jobs = jobs);
            }
        }
    };
    run.send_modify(|run| {
        run.jobs.clear();
        run.ended_unix_seconds = Some(unix_seconds());
        match outcome {
            Ok(report) => (run.state, run.report) = (RunState::Done, report),
            Err(problem) => (run.state, run.problem) = (RunState::Failed, Some(problem)),
        }
    });
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(run: &watch::Sender<Run>) {
        run.send_modify(|run| run.state = RunState::Done);
    }

    #[test]
    fn few_go_on_at_once_and_the_last_are_kept() {
        let runs = Runs::default();
        let enter = || runs.enter(RunKind::Scrub);
        let running: Vec<_> = (0..RUNNING_MAX).map(|_| enter().unwrap()).collect();
        assert_eq!(enter().unwrap_err().code, Code::TooBusy);
        let first = running[0].borrow().id.clone();
        let stays = running[1].borrow().id.clone();
        end(&running[0]);
        assert_eq!(runs.find(&first).unwrap().borrow().state, RunState::Done);
        for _ in 0..2 * KEPT_MAX {
            end(&enter().unwrap());
        }
        assert_eq!(runs.list().len(), KEPT_MAX);
        assert_eq!(runs.find(&first).unwrap_err().code, Code::NoSuchRun);
        assert_eq!(runs.find(&stays).unwrap().borrow().state, RunState::Running);
        for id in ["", "1", "-", "x-1"] {
            assert!(runs.find(id).is_err(), "{id}");
        }
    }
}
