//! What is asked about the array as a whole, and how long work is followed.

use std::time::Duration;

use array::ArrayError;
use array::api::{CheckReport, JobInfo, JobKind};

use super::{Asker, Member, RequestError};
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
            ArrayRequest::Show => Ok(self.shown_array()),
            ArrayRequest::Jobs => Ok(Answer::Jobs(self.array.jobs())),
            ArrayRequest::Set(change) => {
                self.array.set(change).await?;
                Ok(self.shown_array())
            }
            ArrayRequest::Scrub => {
                let events = self.events.clone();
                events.tell(Event::of_array(Kind::ScrubBegun, "a scrub begins, as was asked for"));
                let work = async move {
                    let scrubbed = array.scrub().await;
                    tell_of_scrub(&events, "scrub", scrubbed.as_ref());
                    scrubbed
                };
                let report = self.with_progress(&[JobKind::Scrub], work, asker).await??;
                Ok(Answer::Report(report))
            }
            ArrayRequest::Rebalance => {
                let work = async move { array.rebalance().await };
                self.with_progress(&[JobKind::Rebalance], work, asker).await??;
                Ok(Answer::Done)
            }
            ArrayRequest::Check => {
                let events = self.events.clone();
                let work = async move {
                    let checked = array.check().await;
                    tell_of_scrub(&events, "check", checked.as_ref());
                    checked
                };
                let report = self.with_progress(&[JobKind::Scrub], work, asker).await??;
                Ok(Answer::Report(report))
            }
        }
    }

    fn shown_array(&self) -> Answer {
        Answer::Array(Box::new(self.array.info()))
    }

    /// Does long work, and tells the asker how its jobs go on. The work goes on without him.
    async fn with_progress<T: Send + 'static>(
        &self,
        kinds: &[JobKind],
        work: impl Future<Output = T> + 'static,
        asker: &impl Asker,
    ) -> Result<T, RequestError> {
        let (done, mut answer) = ring::oneshot();
        ring::spawn(async move { done.send(work.await) });
        loop {
            if let Some(result) = ring::timeout(PROGRESS_PAUSE, &mut answer).await {
                return result.ok_or(RequestError::NoResult);
            }
            if asker.is_to_end() {
                return Err(RequestError::Stopping);
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
            if asker.is_to_end() {
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
