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
}

/// What is known of a job.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) info: JobInfo,
    began: Duration,
}

impl Core {
    pub(crate) fn begin_job(self: &Arc<Self>, kind: JobKind, subject: &str, total_bytes: u64) -> Job {
        let state = &mut *self.lock();
        let id = state.next_job;
        state.next_job += 1;
        let subject = subject.to_owned();
        let info = JobInfo { kind, subject, done_bytes: 0, total_bytes, rate_bytes: 0 };
        state.jobs.insert(id, Progress { info, began: self.env.now() });
        Job { core: Arc::downgrade(self), id }
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

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.lock().jobs.remove(&self.id);
        }
    }
}
