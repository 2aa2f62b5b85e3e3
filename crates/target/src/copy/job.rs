//! Copies under way: how they are stopped from outside, and how their records are kept.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ring::{OneshotReceiver, OneshotSender};
use scsi::Sense;
use scsi::copy::{CopyId, CopyOutcome, CopyProgress, OperationStatus, RodToken};
use scsi::nexus::NexusKey;

use super::{CopyManager, Request};

/// One copy under way.
#[derive(Debug)]
pub(super) struct Job {
    id: u64,
    key: NexusKey,
    /// Its copy manager's unit, its sources and its destinations.
    units: Vec<usize>,
    stop: Arc<AtomicBool>,
    /// Those who wait for its end: dropping these wakes them.
    waiting: Vec<OneshotSender<()>>,
}

/// All copies under way.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    list: Vec<Job>,
    next_id: u64,
}

impl Jobs {
    pub(super) fn add(&mut self, key: NexusKey, units: Vec<usize>) -> (u64, Arc<AtomicBool>) {
        let id = self.next_id;
        self.next_id += 1;
        let stop = Arc::new(AtomicBool::new(false));
        self.list.push(Job { id, key, units, stop: stop.clone(), waiting: Vec::new() });
        (id, stop)
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Job> {
        let at = self.list.iter().position(|job| job.id == id)?;
        Some(self.list.swap_remove(at))
    }

    /// Stops the jobs that `which` names by owner and units.
    pub(super) fn stop(&mut self, which: impl Fn(&NexusKey, &[usize]) -> bool) -> Ends {
        let mut ends = Vec::new();
        for job in self.list.iter_mut().filter(|job| which(&job.key, &job.units)) {
            job.stop.store(true, Ordering::Relaxed);
            let (waiting, end) = ring::oneshot();
            job.waiting.push(waiting);
            ends.push(end);
        }
        Ends(ends)
    }
}

/// The ends of jobs that have been stopped, still to come.
#[must_use = "a stopped job may write until its end"]
pub(crate) struct Ends(Vec<OneshotReceiver<()>>);

impl Ends {
    /// Waits until the last of them is over.
    pub(crate) async fn wait(self) {
        for end in self.0 {
            end.await;
        }
    }
}

/// A job as it sees itself; dropping it ends the job.
pub(super) struct Running {
    copies: Arc<CopyManager>,
    id: u64,
    stop: Arc<AtomicBool>,
}

impl Running {
    pub(super) fn new(
        copies: Arc<CopyManager>,
        add: impl FnOnce(&CopyManager) -> (u64, Arc<AtomicBool>),
    ) -> Self {
        let (id, stop) = add(&copies);
        Self { copies, id, stop }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.copies.remove_job(self.id);
    }
}

/// The record of one copy, for those who ask about it later. One that is dropped without an
/// outcome was aborted.
pub(super) struct Record {
    copies: Arc<CopyManager>,
    unit: usize,
    /// `None`: nobody will ask.
    id: Option<CopyId>,
    progress: Cell<CopyProgress>,
    /// The unit of [`CopyProgress::transferred`].
    counted_bytes: u64,
}

impl Record {
    /// # Errors
    /// Those of [`scsi::copy::CopyRegistry::begin`].
    pub(super) fn begin(
        request: &Request,
        id: Option<CopyId>,
        counted_bytes: u64,
        background: bool,
    ) -> Result<Self, Sense> {
        let unit = request.unit.index;
        if let Some(id) = &id {
            request.copies.records(unit, |records| records.begin(id.clone(), background))?;
        }
        let progress = Cell::default();
        Ok(Self { copies: request.copies.clone(), unit, id, progress, counted_bytes })
    }

    /// What was transferred so far, in the unit that the record counts in.
    pub(super) fn transferred(&self) -> u64 {
        self.progress.get().transferred
    }

    /// The next segment is being processed.
    pub(super) fn next_segment(&self) {
        self.change(|progress| progress.segments += 1);
    }

    /// So many bytes have been written since the last time.
    pub(super) fn arrived(&self, bytes: u64) {
        debug_assert!(bytes.is_multiple_of(self.counted_bytes), "whole blocks arrive");
        self.change(|progress| {
            progress.transferred += bytes / self.counted_bytes;
            progress.operations = progress.operations.saturating_add(1);
        });
    }

    fn change(&self, change: impl FnOnce(&mut CopyProgress)) {
        let mut progress = self.progress.get();
        change(&mut progress);
        self.progress.set(progress);
        if let Some(id) = &self.id {
            self.copies.records(self.unit, |records| records.progress(id, progress));
        }
    }

    pub(super) fn finish(
        mut self,
        status: OperationStatus,
        sense: Option<Sense>,
        token: Option<RodToken>,
    ) {
        self.end(CopyOutcome { status, sense, token });
    }

    fn end(&mut self, outcome: CopyOutcome) {
        if let Some(id) = self.id.take() {
            let progress = self.progress.get();
            self.copies.records(self.unit, |records| records.finish(&id, progress, outcome));
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let status = OperationStatus::Terminated;
        self.end(CopyOutcome { status, sense: None, token: None });
    }
}
