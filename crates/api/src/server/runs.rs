//! Long work that was asked for: it goes on by itself, and what came of it can be asked for later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use group::words::counted;
use member::{Answer, ArrayRequest, Request, RequestError};
use tokio::sync::watch;

use super::admit::Caller;
use super::app::{App, stopping, strange};
use super::signal::Signal;
use crate::problem::{Code, Problem};
use crate::types::{ArrayWork, Job, Report, Run, RunKind, RunState};

/// Runs that go on at once.
const RUNNING_MAX: usize = 8;

/// Of these, those beside which one more is begun over TLS: the socket keeps the rest.
const RUNNING_FROM_AFAR_MAX: usize = 6;

/// Runs that are kept, with those that go on.
const KEPT_MAX: usize = 64;

/// The runs of a member, oldest first.
#[derive(Debug)]
pub(super) struct Runs {
    /// What the names of all runs begin with: those of another start, or of another member, are others.
    prefix: String,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    by_number: BTreeMap<u64, Kept>,
}

#[derive(Debug, Clone)]
struct Kept {
    run: watch::Receiver<Run>,
    /// Who began it.
    owner: String,
    /// Given by whoever wants it to end.
    cancelled: Arc<Signal>,
    /// It goes to its end now, whoever wants it to end. Then nobody had wanted so before.
    is_final: bool,
}

impl All {
    /// Refuses one that has half of what others leave, as every newcomer is to find room.
    fn check_room(&self, owner: &str, max: usize) -> Result<(), Problem> {
        let running = || self.by_number.values().filter(|kept| !kept.is_over());
        let own = running().filter(|kept| kept.owner == owner).count();
        let others = running().count() - own;
        if own < max.saturating_sub(others).div_ceil(2) {
            return Ok(());
        }
        let sentence = match own {
            0 => "as many runs are under way as can be at once: try again when one has ended"
                .to_owned(),
            own => format!(
                "you have {} under way, and what else can be is left to others: try again when one of yours has ended",
                counted(own as u64, "run")
            ),
        };
        Err(Problem::new(Code::TooBusy, sentence))
    }
}

impl Kept {
    fn is_over(&self) -> bool {
        self.run.borrow().state != RunState::Running
    }
}

impl Default for Runs {
    fn default() -> Self {
        // No time: servers that come up together after a power cut begin within one second.
        let drawn = getrandom::u32().expect("the kernel has random numbers");
        Self { prefix: format!("{drawn:08x}"), all: Mutex::default() }
    }
}

impl Runs {
    fn all(&self) -> MutexGuard<'_, All> {
        // Each change is one call.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are kept.
    pub(super) fn list(&self) -> Vec<Run> {
        self.all().by_number.values().map(|kept| kept.run.borrow().clone()).collect()
    }

    /// One of them, and how it goes on.
    pub(super) fn find(&self, id: &str) -> Result<watch::Receiver<Run>, Problem> {
        Ok(self.kept(&self.all(), id)?.1.run.clone())
    }

    /// Asks for the end of one of them, which comes as soon as it can be left, and gives it as it is now.
    pub(super) fn cancel(&self, id: &str) -> Result<Run, Problem> {
        let all = self.all();
        let (_, kept) = self.kept(&all, id)?;
        let run = kept.run.borrow().clone();
        if run.state != RunState::Running {
            let sentence = format!("run '{id}' has ended already: there is nothing to cancel");
            return Err(Problem::new(Code::WrongState, sentence));
        }
        if kept.is_final {
            let sentence = format!(
                "the volume of run '{id}' is being handed over, which cannot be cancelled: it ends soon"
            );
            return Err(Problem::new(Code::WrongState, sentence));
        }
        kept.cancelled.give();
        Ok(run)
    }

    /// From now on this run cannot be cancelled; false if it has been.
    fn is_past_return(&self, id: &str) -> bool {
        let mut all = self.all();
        // Who works for it has it: it is kept as long as it goes on.
        let Ok((number, _)) = self.kept(&all, id) else { return true };
        let Some(kept) = all.by_number.get_mut(&number) else { return true };
        kept.is_final = !kept.cancelled.is_given();
        kept.is_final
    }

    /// Nothing was begun: it was no run.
    fn forget(&self, id: &str) {
        let mut all = self.all();
        let number = self.kept(&all, id).map(|(number, _)| number);
        if let Ok(number) = number {
            all.by_number.remove(&number);
        }
    }

    fn kept<'a>(&self, all: &'a All, id: &str) -> Result<(u64, &'a Kept), Problem> {
        let number = id.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix('-'));
        let number = number.and_then(|number| number.parse().ok());
        let found = number.and_then(|number: u64| Some((number, all.by_number.get(&number)?)));
        found.filter(|(_, kept)| kept.run.borrow().id == id).ok_or_else(|| {
            let sentence = format!(
                "there is no run '{id}': the last {KEPT_MAX} of this start of the member are kept"
            );
            Problem::new(Code::NoSuchRun, sentence)
        })
    }

    /// One more of this owner, where `max` may go on at once: so many that others find room, too.
    fn enter(&self, kind: RunKind, owner: String, max: usize) -> Result<Going, Problem> {
        let mut all = self.all();
        all.check_room(&owner, max)?;
        while all.by_number.len() >= KEPT_MAX {
            let oldest = all.by_number.iter().find(|(_, kept)| kept.is_over()).map(|(n, _)| *n);
            // There are fewer that go on than are kept.
            all.by_number.remove(&oldest.expect("one of them is over"));
        }
        all.next += 1;
        let number = all.next;
        let (sender, run) = watch::channel(Run {
            id: format!("{}-{number}", self.prefix),
            kind,
            volume: None,
            to: None,
            state: RunState::Running,
            begun_unix_seconds: unix_seconds(),
            ended_unix_seconds: None,
            jobs: Vec::new(),
            report: None,
            problem: None,
        });
        let cancelled = Arc::<Signal>::default();
        let kept = Kept { run, owner, cancelled: cancelled.clone(), is_final: false };
        all.by_number.insert(number, kept);
        Ok(Going { run: sender, cancelled })
    }
}

/// A run that goes on, for who works for it.
#[derive(Debug)]
pub(super) struct Going {
    run: watch::Sender<Run>,
    cancelled: Arc<Signal>,
}

/// How a run has ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// With what was found, if something is looked for.
    Done(Option<Report>),
    /// Somebody wanted it to; its jobs tell how far it has come.
    Cancelled,
    Failed(Problem),
}

impl Going {
    /// As it is now.
    pub(super) fn shown(&self) -> Run {
        self.run.borrow().clone()
    }

    /// Waits until somebody wants it to end.
    pub(super) async fn cancelled(&self) {
        self.cancelled.given().await;
    }

    /// From now on it cannot be cancelled; false if it has been.
    pub(super) fn is_past_return(&self, app: &App) -> bool {
        app.runs.is_past_return(&self.shown().id)
    }

    /// It moves this volume to this member.
    pub(super) fn moves(&self, volume: &str, to: &str) {
        let (volume, to) = (Some(volume.to_owned()), Some(to.to_owned()));
        self.run.send_modify(|run| (run.volume, run.to) = (volume, to));
    }

    /// How its work does. It is a sign of life also where nothing has changed.
    pub(super) fn tell(&self, jobs: Vec<Job>) {
        self.run.send_modify(|run| run.jobs = jobs);
    }

    /// Nothing was begun: it was no run.
    pub(super) fn forget(self, app: &App) {
        app.runs.forget(&self.shown().id);
    }

    /// It has ended.
    pub(super) fn end(self, ended: Ended) {
        self.run.send_modify(|run| {
            run.ended_unix_seconds = Some(unix_seconds());
            match ended {
                Ended::Cancelled => return run.state = RunState::Cancelled,
                Ended::Done(report) => (run.state, run.report) = (RunState::Done, report),
                Ended::Failed(problem) => {
                    (run.state, run.problem) = (RunState::Failed, Some(problem));
                }
            }
            run.jobs.clear();
        });
    }
}

/// One more run of somebody, whose work is about to begin.
pub(super) fn enter(app: &App, kind: RunKind, caller: &Caller) -> Result<Going, Problem> {
    let max = if caller.is_local() { RUNNING_MAX } else { RUNNING_FROM_AFAR_MAX };
    app.runs.enter(kind, caller.owner(), max)
}

/// Begins work of the whole array for somebody, which goes on whoever waits for it.
pub(super) fn begin(app: &Arc<App>, work: ArrayWork, caller: &Caller) -> Result<Run, Problem> {
    let going = enter(app, work.into(), caller)?;
    let begun = going.shown();
    tokio::spawn(go_on(app.clone(), work, going));
    Ok(begun)
}

async fn go_on(app: Arc<App>, work: ArrayWork, going: Going) {
    let request = match work {
        ArrayWork::Scrub => ArrayRequest::Scrub,
        ArrayWork::Check => ArrayRequest::Check,
        ArrayWork::Rebalance => ArrayRequest::Rebalance,
    };
    let is_cancelled = going.cancelled.flag();
    let (mut progress, mut coming) = app.begin_cancellable(Request::Array(request), is_cancelled);
    let answer = loop {
        tokio::select! {
            answer = &mut coming => break answer,
            Ok(()) = progress.changed() => {
                let jobs = progress.borrow_and_update().iter().cloned().map(Into::into).collect();
                going.tell(jobs);
            }
        }
    };
    going.end(match answer {
        Ok(Err(RequestError::Cancelled)) => Ended::Cancelled,
        Ok(Ok(Answer::Report(report))) if work != ArrayWork::Rebalance => {
            Ended::Done(Some(report.into()))
        }
        Ok(Ok(Answer::Done)) if work == ArrayWork::Rebalance => Ended::Done(None),
        Ok(Ok(_)) => Ended::Failed(strange()),
        Ok(Err(error)) => Ended::Failed(app.problem(&error)),
        Err(_) => Ended::Failed(stopping()),
    });
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::time::timeout;

    use super::*;

    fn end(going: &Going) {
        going.run.send_modify(|run| run.state = RunState::Done);
    }

    #[test]
    fn few_go_on_at_once_and_the_last_are_kept() {
        let runs = Runs::default();
        let enter = || runs.enter(RunKind::Scrub, "ada".to_owned(), RUNNING_MAX);
        let running: Vec<_> = (0..RUNNING_MAX / 2).map(|_| enter().unwrap()).collect();
        assert_eq!(enter().unwrap_err().code, Code::TooBusy);
        let first = running[0].shown().id;
        let stays = running[1].shown().id;
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

    /// They share the address of a group, and each has a first run: that of one was taken for that of the other.
    #[test]
    fn servers_that_begin_in_one_second_share_no_run() {
        let [one, other] = [Runs::default(), Runs::default()];
        let enter = |runs: &Runs| runs.enter(RunKind::Scrub, "ada".to_owned(), RUNNING_MAX);
        let [of_one, of_other] = [&one, &other].map(|runs| enter(runs).unwrap().shown().id);
        assert!(one.find(&of_one).is_ok() && other.find(&of_other).is_ok());
        for refused in [one.find(&of_other).map(drop), other.cancel(&of_one).map(drop)] {
            assert_eq!(refused.unwrap_err().code, Code::NoSuchRun);
        }
        assert!(
            of_one.len() == "6745c1f0-1".len(),
            "as the help of 'run cancel' shows it: {of_one}"
        );
    }

    /// A token that asked for checks again and again kept the administrator at the socket out.
    #[test]
    fn whoever_begins_all_it_can_leaves_runs_to_others() {
        let runs = Runs::default();
        let take_all = |owner: &str, max: usize| -> Vec<_> {
            let enter = || runs.enter(RunKind::Check, owner.to_owned(), max).ok();
            std::iter::from_fn(enter).collect()
        };
        let greedy = take_all("token 'ci'", RUNNING_FROM_AFAR_MAX);
        let other = take_all("account 'ada'", RUNNING_FROM_AFAR_MAX);
        let third = take_all("account 'ben'", RUNNING_FROM_AFAR_MAX);
        assert_eq!((greedy.len(), other.len(), third.len()), (3, 2, 1));
        assert_eq!(take_all("account 'cyd'", RUNNING_FROM_AFAR_MAX).len(), 0);
        assert_eq!(take_all("user 0", RUNNING_MAX).len(), 1, "the socket has its own");
        let refused = |owner: &str| {
            let refused = runs.enter(RunKind::Check, owner.to_owned(), RUNNING_FROM_AFAR_MAX);
            refused.unwrap_err().detail
        };
        assert!(refused("token 'ci'").starts_with("you have 3 runs under way"));
        assert!(refused("account 'cyd'").starts_with("as many runs are under way"));
        greedy.iter().for_each(end);
        assert_eq!(take_all("account 'cyd'", RUNNING_FROM_AFAR_MAX).len(), 1);
    }

    #[test]
    fn what_goes_on_can_be_cancelled_and_nothing_else() {
        let runs = Runs::default();
        for kind in [RunKind::Scrub, RunKind::Check, RunKind::Rebalance, RunKind::Move] {
            let run = runs.enter(kind, "ada".to_owned(), RUNNING_MAX).unwrap();
            let id = run.shown().id;
            assert!(run.cancelled().now_or_never().is_none());
            for _ in 0..2 {
                assert_eq!(runs.cancel(&id).unwrap().state, RunState::Running, "it ends by and by");
                assert!(run.cancelled().now_or_never().is_some());
                assert!(run.cancelled.flag().load(Ordering::Relaxed), "an array looks for that");
            }
            assert!(!runs.is_past_return(&id), "it was cancelled before");
            end(&run);
            assert_eq!(runs.cancel(&id).unwrap_err().code, Code::WrongState);
        }
        assert_eq!(runs.cancel("x-1").unwrap_err().code, Code::NoSuchRun);
    }

    #[tokio::test]
    async fn who_works_for_a_run_hears_at_once_that_it_is_cancelled() {
        let runs = Runs::default();
        let run = runs.enter(RunKind::Move, "ada".to_owned(), RUNNING_MAX).unwrap();
        let id = run.shown().id;
        let waits = tokio::spawn(async move { run.cancelled().await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        runs.cancel(&id).unwrap();
        let heard = timeout(Duration::from_secs(20), waits).await;
        heard.expect("it was waiting, and hears of it").unwrap();
    }

    #[test]
    fn what_is_past_return_is_not_cancelled_and_what_was_not_begun_is_no_run() {
        let runs = Runs::default();
        let run = runs.enter(RunKind::Move, "ada".to_owned(), RUNNING_MAX).unwrap();
        let id = run.shown().id;
        assert!(runs.is_past_return(&id) && runs.is_past_return(&id));
        let refused = runs.cancel(&id).unwrap_err();
        assert_eq!(refused.code, Code::WrongState);
        assert!(refused.detail.contains("is being handed over"), "{refused}");
        assert!(run.cancelled().now_or_never().is_none());
        runs.forget(&id);
        assert!(runs.list().is_empty());
        assert_eq!(runs.find(&id).unwrap_err().code, Code::NoSuchRun);
    }
}
