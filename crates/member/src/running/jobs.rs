//! What is asked about the array as a whole, and how long work is followed.

use std::rc::Rc;
use std::time::Duration;

use array::ArrayError;
use array::api::{CheckReport, JobInfo, JobKind};

use super::cancelling::{Cancel, Safe, until_cancelled};
use super::{Asker, Member, RequestError, Wish};
use crate::events::{Event, EventLog, Kind, Severity};
use crate::reply::Answer;
use crate::request::ArrayRequest;

/// How often an asker hears of progress.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);

impl Member {
    pub(super) async fn whole(
        &self,
        request: ArrayRequest,
        asker: &impl Asker,
    ) -> Result<Answer, RequestError> {
        let array = self.array.clone();
        match request {
            ArrayRequest::Show => {
                self.look_at_places().await;
                Ok(self.shown_array())
            }
            ArrayRequest::Jobs => Ok(Answer::Jobs(self.array.jobs())),
            ArrayRequest::Set { settings, cache_memory } => {
                // What is refused is refused before anything is set.
                let cache_bytes = cache_memory.map(Self::checked_cache_memory).transpose()?;
                self.array.set(settings).await?;
                if let Some(bytes) = cache_bytes {
                    self.set_cache_bytes(bytes);
                }
                Ok(self.shown_array())
            }
            ArrayRequest::Scrub => {
                let begun = Event::of_array(Kind::ScrubBegun, "a scrub begins, as was asked for");
                self.events.tell(begun);
                let work = async move { array.scrub().await };
                self.verified("scrub", Safe::OnceItReads, work, asker).await
            }
            ArrayRequest::Rebalance => self.balanced(asker).await,
            ArrayRequest::Check => {
                let work = async move { array.check().await };
                self.verified("check", Safe::Always, work, asker).await
            }
        }
    }

    /// Has data moved until all disks are equally full, unless that is cancelled, for this asker or for another.
    async fn balanced(&self, asker: &impl Asker) -> Result<Answer, RequestError> {
        let (array, cancel) = (self.array.clone(), Rc::new(Cancel::default()));
        let asked = cancel.clone();
        let work = async move {
            let order = array.begin_rebalance().await?;
            // The array does the work by itself: who waits for it may leave at any time.
            match until_cancelled(array.balanced(order), asked, || Some(())).await {
                Ok(ended) => ended,
                Err(()) => array.cancel_rebalance(order).await.map(|()| false),
            }
        };
        match self.with_progress(&[JobKind::Rebalance], work, (asker, &cancel)).await?? {
            true => Ok(Answer::Done),
            false => Err(RequestError::Cancelled),
        }
    }

    /// Has everything read, unless that is cancelled, and records what was found.
    async fn verified(
        &self,
        what: &'static str,
        safe: Safe,
        work: impl Future<Output = Result<CheckReport, ArrayError>> + 'static,
        asker: &impl Asker,
    ) -> Result<Answer, RequestError> {
        let cancel = Rc::new(Cancel::default());
        let (events, array, verifying) = (self.events.clone(), self.array.clone(), self.verifies());
        let work = until_cancelled(work, cancel.clone(), move || {
            let jobs: Vec<_> =
                array.jobs().into_iter().filter(|job| job.kind == JobKind::Scrub).collect();
            safe.is_so(jobs.len(), verifying.count()).then_some(jobs)
        });
        let work = async move {
            let outcome = work.await;
            match &outcome {
                Ok(verified) => tell_of_scrub(&events, what, verified.as_ref()),
                Err(jobs) => tell_of_cancelled(&events, what, jobs),
            }
            outcome
        };
        let outcome = self.with_progress(&[JobKind::Scrub], work, (asker, &cancel)).await?;
        match outcome {
            Ok(verified) => Ok(Answer::Report(verified?)),
            Err(_) => Err(RequestError::Cancelled),
        }
    }

    fn shown_array(&self) -> Answer {
        let mut info = self.array.info();
        info.warnings.extend(self.gone_places());
        info.warnings.extend(self.settings.shared_secrets());
        info.warnings.extend(self.settings.key_trouble());
        info.warnings.extend(self.settings.low_on_room());
        Answer::Array(Box::new(info))
    }

    /// Does long work, and tells the asker how its jobs go on. The work goes on without him.
    async fn with_progress<T: Send + 'static>(
        &self,
        kinds: &[JobKind],
        work: impl Future<Output = T> + 'static,
        (asker, cancel): (&impl Asker, &Cancel),
    ) -> Result<T, RequestError> {
        let (done, mut answer) = ring::oneshot();
        ring::spawn(async move { done.send(work.await) });
        loop {
            if let Some(result) = ring::timeout(PROGRESS_PAUSE, &mut answer).await {
                return result.ok_or(RequestError::NoResult);
            }
            match asker.wish() {
                Wish::GoOn => {}
                Wish::Cancel => cancel.ask(),
                Wish::End => return Err(RequestError::Stopping),
            }
            asker.tell(self.jobs(kinds)).await;
        }
    }

    /// Tells of jobs until there are none of these kinds, or nobody listens.
    pub(super) async fn watch(
        &self,
        kinds: &[JobKind],
        asker: &impl Asker,
    ) -> Result<Answer, RequestError> {
        loop {
            let jobs = self.jobs(kinds);
            // A rebuild is no job yet while it looks what there is to do.
            let is_settled = !kinds.contains(&JobKind::Rebuild) || self.array.is_settled();
            if jobs.is_empty() && is_settled {
                return Ok(Answer::Done);
            }
            if asker.wish() == Wish::End {
                return Err(RequestError::StoppingWatch);
            }
            if !asker.tell(jobs).await {
                return Ok(Answer::Done);
            }
            ring::sleep(PROGRESS_PAUSE).await;
        }
    }

    fn jobs(&self, kinds: &[JobKind]) -> Vec<JobInfo> {
        let mut jobs = self.array.jobs();
        jobs.retain(|job| kinds.contains(&job.kind));
        jobs
    }
}

/// Records that a scrub or check was cancelled, and how far it had come.
fn tell_of_cancelled(events: &EventLog, what: &str, jobs: &[JobInfo]) {
    let sum = |bytes: fn(&JobInfo) -> u64| jobs.iter().map(bytes).sum::<u64>();
    let (done, total) = (sum(|job| job.done_bytes), sum(|job| job.total_bytes));
    let (done, total) = (done >> 20, total >> 20);
    let text = format!(
        "the {what} was cancelled, as was asked for, after {done} of {total} MiB of data; what it has repaired \
         stays repaired, and what else it found only one that goes to its end tells"
    );
    events.tell(Event::of_array(Kind::ScrubCancelled, text));
}

/// Problems that are events of their own; the array logs more of them.
const PROBLEMS_TOLD_MAX: usize = 20;

/// Records what a scrub or check has found.
pub(super) fn tell_of_scrub(
    events: &EventLog,
    what: &str,
    ended: Result<&CheckReport, &ArrayError>,
) {
    let report = match ended {
        Ok(report) => report,
        Err(error) => {
            let text = format!("the {what} could not end: {error}");
            return events.tell(Event::of_array(Kind::ScrubFailed, text));
        }
    };
    for problem in report.problems.iter().take(PROBLEMS_TOLD_MAX) {
        events.tell(Event::of_array(Kind::ScrubFound, format!("{what}: {problem}")));
    }
    let text = format!(
        "the {what} has ended: {} clusters verified, {} blocks were wrong, {} repaired, {} lost, {} problems",
        report.clusters,
        report.wrong_blocks,
        report.repaired_blocks,
        report.lost_blocks,
        report.problems.len()
    );
    let ended = Event::of_array(Kind::ScrubEnded, text);
    let is_well = report.problems.is_empty() && report.lost_blocks == 0;
    events.tell(if is_well { ended } else { ended.with_severity(Severity::Error) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Logs;

    /// What a scrub has found is told at its end: who cancels it must know that nothing is told now.
    #[test]
    fn who_cancels_a_scrub_hears_how_far_it_came_and_what_is_not_told() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::open(dir.path()).unwrap();
        let job = |done_bytes| JobInfo {
            kind: JobKind::Scrub,
            subject: "a set".to_owned(),
            done_bytes,
            total_bytes: 8 << 20,
            rate_bytes: 0,
        };
        tell_of_cancelled(&logs.events, "scrub", &[job(1 << 20), job(2 << 20)]);
        let told = logs.events.after(0).pop().expect("it is told").what.clone();
        assert_eq!(told.kind, Kind::ScrubCancelled.word());
        assert_eq!(
            told.text,
            "the scrub was cancelled, as was asked for, after 3 of 16 MiB of data; what it has repaired stays \
             repaired, and what else it found only one that goes to its end tells"
        );
        logs.end();
    }
}
