//! Copies under way: how they are stopped from outside, and how their records are kept.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ring::{OneshotReceiver, OneshotSender};
use scsi::Sense;
use scsi::copy::{CopyId, CopyOutcome, CopyProgress, OperationStatus, RodToken};
use scsi::nexus::NexusKey;

use super::{CopyManager, Request};
use crate::share;
use crate::unit::Unit;

/// One copy under way. Once it is stopped it begins nothing more at any unit.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) key: NexusKey,
    /// The unit it was sent to, its sources and its destinations.
    units: Vec<Arc<Unit>>,
    stop: Arc<AtomicBool>,
    /// The units that read or write for it at this moment: at most two.
    at_work: Vec<Arc<Unit>>,
    /// Those who wait: dropping the sender wakes them.
    waiting: Vec<(Until, OneshotSender<()>)>,
}

/// What somebody who stopped a copy waits for.
#[derive(Debug)]
enum Until {
    /// The copy is over.
    Over,
    /// Nothing is under way for it at this unit. The other unit may be one whose disk hangs, and
    /// that is no reason to keep a fence waiting.
    Idle(Arc<Unit>),
}

impl Job {
    /// It was sent to one of these units.
    pub(super) fn is_sent_to(&self, units: &[Arc<Unit>]) -> bool {
        self.units.first().is_some_and(|own| is_in(own, units))
    }

    pub(super) fn touches(&self, unit: &Arc<Unit>) -> bool {
        is_in(unit, &self.units)
    }

    fn wait(&mut self, until: Until) -> OneshotReceiver<()> {
        let (waiting, end) = ring::oneshot();
        self.waiting.push((until, waiting));
        end
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn is_in(unit: &Arc<Unit>, units: &[Arc<Unit>]) -> bool {
    units.iter().any(|other| Arc::ptr_eq(other, unit))
}

/// Copies under way at once. A copy in the background has no place in a command window: without a
/// bound a host could have some at each of a thousand units.
const JOBS_MAX: usize = 1024;

/// Why a copy does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// A unit is gone.
    Gone,
    /// There are too many, of its initiator or of all.
    TooMany,
}

/// All copies under way. None of them began when a unit of it was gone.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    list: BTreeMap<u64, Job>,
    next_id: u64,
}

impl Jobs {
    /// Whether a unit is gone is asked here, under the lock under which units go: a copy is either
    /// among those that [`retire`](Self::retire) stops, or it does not begin.
    pub(super) fn add(
        &mut self,
        key: NexusKey,
        units: Vec<Arc<Unit>>,
    ) -> Result<(u64, Arc<AtomicBool>), NotBegun> {
        assert!(!units.is_empty(), "a copy was sent to a unit");
        if units.iter().any(|unit| unit.is_gone()) {
            return Err(NotBegun::Gone);
        }
        let own = self.list.values().filter(|job| job.key.initiator == key.initiator).count();
        if !share::may_have_one_more(own, self.list.len(), JOBS_MAX) {
            return Err(NotBegun::TooMany);
        }
        let id = self.next_id;
        self.next_id += 1;
        let stop = Arc::new(AtomicBool::new(false));
        let (at_work, waiting) = (Vec::new(), Vec::new());
        self.list.insert(id, Job { key, units, stop: stop.clone(), at_work, waiting });
        Ok((id, stop))
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Job> {
        let job = self.list.remove(&id)?;
        debug_assert!(job.at_work.is_empty(), "nothing of a copy outlives it");
        Some(job)
    }

    /// A unit is about to read or write for a copy. Not if that is stopped: either who stops it finds
    /// the unit at work and waits, or nothing begins.
    fn begin_at(&mut self, id: u64, unit: &Arc<Unit>) -> bool {
        let Some(job) = self.list.get_mut(&id) else { return false };
        assert!(job.touches(unit), "a copy touches what it said it would");
        let may = !job.stop.load(Ordering::Relaxed);
        if may {
            job.at_work.push(unit.clone());
        }
        may
    }

    /// The unit is through; gives those back who waited for that.
    fn end_at(&mut self, id: u64, unit: &Arc<Unit>) -> Vec<(Until, OneshotSender<()>)> {
        let Some(job) = self.list.get_mut(&id) else { return Vec::new() };
        let at = job.at_work.iter().position(|other| Arc::ptr_eq(other, unit));
        job.at_work.swap_remove(at.expect("what ends has begun"));
        let at_work = &job.at_work;
        let is_reached = |(until, _): &mut (Until, _)| match until {
            Until::Over => false,
            Until::Idle(unit) => !is_in(unit, at_work),
        };
        job.waiting.extract_if(.., is_reached).collect()
    }

    /// Stops the jobs that `which` names; their ends are to be waited for.
    pub(super) fn stop(&mut self, which: impl Fn(&Job) -> bool) -> Ends {
        let mut ends = Vec::new();
        for job in self.list.values_mut().filter(|job| which(job)) {
            job.stop();
            ends.push(job.wait(Until::Over));
        }
        Ends(ends)
    }

    /// Stops the jobs that `which` names among those that touch these units; what is under way for
    /// them at these units is to be waited for.
    pub(super) fn stop_at(&mut self, units: &[Arc<Unit>], which: impl Fn(&Job) -> bool) -> Ends {
        let mut ends = Vec::new();
        for job in self.list.values_mut() {
            if !units.iter().any(|unit| job.touches(unit)) || !which(job) {
                continue;
            }
            job.stop();
            for unit in units {
                if is_in(unit, &job.at_work) {
                    ends.push(job.wait(Until::Idle(unit.clone())));
                }
            }
        }
        Ends(ends)
    }

    /// These units go: stops the jobs that touch one of them, and lets no other begin.
    pub(super) fn retire(&mut self, units: &[Arc<Unit>]) -> Ends {
        units.iter().for_each(|unit| unit.set_gone());
        self.stop_at(units, |_| true)
    }
}

/// What has been stopped and is still under way.
#[must_use = "what is under way may write until its end"]
pub(crate) struct Ends(Vec<OneshotReceiver<()>>);

impl Ends {
    /// Nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits until the last of it is over.
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
    pub(super) fn new(copies: Arc<CopyManager>, id: u64, stop: Arc<AtomicBool>) -> Self {
        Self { copies, id, stop }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// To be held while a unit reads or writes for it; `None` once it is stopped.
    pub(super) fn begin_at<'a>(&'a self, unit: &'a Arc<Unit>) -> Option<AtWork<'a>> {
        let begun = self.copies.jobs().begin_at(self.id, unit);
        begun.then(|| AtWork { job: self, unit })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Those who wait for it are woken when it is dropped, outside of the lock.
        let gone = self.copies.jobs().remove(self.id);
        drop(gone);
    }
}

/// A unit reads or writes for a copy.
pub(super) struct AtWork<'a> {
    job: &'a Running,
    unit: &'a Arc<Unit>,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let woken = self.job.copies.jobs().end_at(self.job.id, self.unit);
        drop(woken);
    }
}

/// The record of one copy, for those who ask about it later. One that is dropped without an
/// outcome was aborted.
pub(super) struct Record {
    unit: Arc<Unit>,
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
        let unit = request.unit.clone();
        if let Some(id) = &id {
            unit.records(|records| records.begin(id.clone(), background))?;
        }
        Ok(Self { unit, id, progress: Cell::default(), counted_bytes })
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
            self.unit.records(|records| records.progress(id, progress));
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
            self.unit.records(|records| records.finish(&id, progress, outcome));
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let status = OperationStatus::Terminated;
        self.end(CopyOutcome { status, sense: None, token: None });
    }
}
