//! Long work, as an operator sees it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::api::{JobInfo, JobKind};
use crate::core::Core;

/// Progress of some long work; it ends with this.
#[derive(Debug)]
pub(crate) struct Job {
    core: Weak<Core>,
    id: u64,
    /// Whether the job ends with this; else it only adds to it.
    is_owner: bool,
}

/// What is known of a job.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) info: JobInfo,
    began: Duration,
}

impl Core {
    pub(crate) fn begin_job(
        self: &Arc<Self>,
        kind: JobKind,
        subject: &str,
        total_bytes: u64,
    ) -> Job {
        let state = &mut *self.lock();
        let id = state.next_job;
        state.next_job += 1;
        let subject = subject.to_owned();
        let info = JobInfo { kind, subject, done_bytes: 0, total_bytes, rate_bytes: 0 };
        state.jobs.insert(id, Progress { info, began: self.env.now() });
        Job { core: Arc::downgrade(self), id, is_owner: true }
    }

    /// The job that restoring redundancy is part of: a rebalancing, or one of its own.
    pub(crate) fn refresh_job(self: &Arc<Self>, total_bytes: u64) -> Job {
        let rebalance = {
            let state = self.lock();
            let mut jobs = state.jobs.iter();
            jobs.find(|(_, job)| job.info.kind == JobKind::Rebalance).map(|(id, _)| *id)
        };
        match rebalance {
            Some(id) => Job { core: Arc::downgrade(self), id, is_owner: false },
            None => self.begin_job(JobKind::Rebuild, "sets", total_bytes),
        }
    }
}

impl Job {
    /// So many bytes more are done.
    pub(crate) fn add(&self, bytes: u64) {
        let Some(core) = self.core.upgrade() else { return };
        let now = core.env.now();
        if let Some(progress) = core.lock().jobs.get_mut(&self.id) {
            let info = &mut progress.info;
            info.done_bytes = (info.done_bytes + bytes).min(info.total_bytes);
            let spent_ms = now.saturating_sub(progress.began).as_millis() as u64;
            info.rate_bytes = (info.done_bytes * 1000).checked_div(spent_ms).unwrap_or(0);
        }
    }
}

impl Job {
    /// So many bytes are done in all, if they are not more.
    pub(crate) fn reach(&self, bytes: u64) {
        let Some(core) = self.core.upgrade() else { return };
        let done = core.lock().jobs.get(&self.id).map_or(0, |progress| progress.info.done_bytes);
        self.add(bytes.saturating_sub(done));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.is_owner {
            return;
        }
        if let Some(core) = self.core.upgrade() {
            core.lock().jobs.remove(&self.id);
        }
    }
}
