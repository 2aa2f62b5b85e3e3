//! What is asked about the array as a whole, and how long work is followed.

use std::time::Duration;

use array::api::{JobInfo, JobKind};

use super::{Asker, Member, RequestError};
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
                let work = async move { array.scrub().await };
                let report = self.with_progress(&[JobKind::Scrub], work, asker).await??;
                Ok(Answer::Report(report))
            }
            ArrayRequest::Rebalance => {
                let work = async move { array.rebalance().await };
                self.with_progress(&[JobKind::Rebalance], work, asker).await??;
                Ok(Answer::Done)
            }
            ArrayRequest::Check => {
                let work = async move { array.check().await };
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
