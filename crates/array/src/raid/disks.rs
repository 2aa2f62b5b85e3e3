//! The disks of the array as the RAID layer sees them: what may be done with each, how busy it is,
//! and how often it failed.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use block::{BlockDevice, BlockError};

use super::late::Lateness;
use super::revocable::{Revocable, Revocation};
use crate::DiskId;
use crate::sync::Turn;

/// What a disk is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: missing, failed, or its contents are not to be trusted.
    None,
    /// A write to it failed: what stripes it holds that did not change since are still good.
    ReadOnly,
    /// Reads and writes.
    Full,
}

/// After this time an error counts half.
const HALF_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Errors of one disk, of which old ones fade.
#[derive(Debug, Default)]
struct Score {
    /// As of `since`.
    errors: f64,
    since: Duration,
    /// How many it knows of.
    seen: u64,
}

impl Score {
    fn update(&mut self, now: Duration, errors: u64) -> u64 {
        let halvings = now.saturating_sub(self.since).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.errors *= 0.5_f64.powf(halvings);
        self.since = now;
        self.errors += errors.saturating_sub(self.seen) as f64;
        self.seen = errors;
        self.errors.round() as u64
    }
}

/// What went wrong on a disk, and what was put right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads that the device refused.
    pub read_errors: u64,
    /// Writes and flushes that failed for good.
    pub write_errors: u64,
    /// Blocks that were read but were not what had been written.
    pub mismatches: u64,
    /// Blocks rewritten from redundancy, and read back.
    pub healed: u64,
}

/// A member disk.
#[derive(Debug)]
pub struct Disk {
    id: DiskId,
    name: String,
    device: Arc<dyn BlockDevice>,
    revocation: Arc<Revocation>,
    access: AtomicU8,
    /// Why writes are no longer done, as long as the rest of the array does not know: until then
    /// no write may be counted as done without this disk.
    unsettled: Mutex<Option<BlockError>>,
    in_flight: AtomicU32,
    /// It let a request wait until that failed.
    is_silent: AtomicBool,
    /// What its reads take.
    pub(super) lateness: Lateness,
    /// What it refused last it refused for want of space behind it.
    is_full: AtomicBool,
    /// It took something that is not durable.
    is_dirty: AtomicBool,
    /// It was written to since a checkpoint marked it.
    is_changed: AtomicBool,
    flushing: Turn,
    read_errors: AtomicU64,
    write_errors: AtomicU64,
    mismatches: AtomicU64,
    healed: AtomicU64,
    score: Mutex<Score>,
}

impl Disk {
    fn new(
        id: DiskId,
        name: &str,
        device: Arc<dyn BlockDevice>,
        revocation: Arc<Revocation>,
    ) -> Self {
        Self {
            id,
            name: name.to_owned(),
            device,
            revocation,
            access: AtomicU8::new(Access::Full as u8),
            unsettled: Mutex::new(None),
            in_flight: AtomicU32::new(0),
            is_silent: AtomicBool::new(false),
            lateness: Lateness::default(),
            is_full: AtomicBool::new(false),
            // A process before may have left it so.
            is_dirty: AtomicBool::new(true),
            is_changed: AtomicBool::new(true),
            flushing: Turn::default(),
            read_errors: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
            mismatches: AtomicU64::new(0),
            healed: AtomicU64::new(0),
            score: Mutex::default(),
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> DiskId {
        self.id
    }

    /// Where it was found.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device itself, for labels and the like.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// The same device for [`Disks::put_back`], opened anew where that makes a difference.
    #[must_use]
    pub fn reopened(&self) -> Arc<dyn BlockDevice> {
        self.device.reopened().unwrap_or_else(|| Arc::clone(&self.device))
    }

    /// What it is used for.
    #[must_use]
    pub fn access(&self) -> Access {
        match self.access.load(Ordering::Acquire) {
            0 => Access::None,
            1 => Access::ReadOnly,
            _ => Access::Full,
        }
    }

    /// Stops writing to it, though it did not fail: who writes without it waits until the rest of
    /// the array knows.
    pub fn close(&self) {
        if self.access() == Access::Full {
            let mut unsettled = self.unsettled.lock().expect("no panic under this lock");
            unsettled.get_or_insert(BlockError::LostWrites);
            self.access.fetch_min(Access::ReadOnly as u8, Ordering::AcqRel);
        }
    }

    /// Changes what it is used for. The caller has made the change known where it must be.
    pub fn set_access(&self, access: Access) {
        if access == Access::Full {
            self.is_full.store(false, Ordering::Release);
        }
        self.access.store(access as u8, Ordering::Release);
    }

    /// It refused a write, a label or a part of the journal.
    pub fn refused(&self, error: BlockError) {
        self.is_full.store(error == BlockError::NoSpace, Ordering::Release);
    }

    /// Whether it last refused something because no space is left behind it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// I/Os that the device has not answered.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// What went wrong so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            read_errors: self.read_errors.load(Ordering::Relaxed),
            write_errors: self.write_errors.load(Ordering::Relaxed),
            mismatches: self.mismatches.load(Ordering::Relaxed),
            healed: self.healed.load(Ordering::Relaxed),
        }
    }

    /// It does not answer; whether that is news.
    pub(super) fn fall_silent(&self) -> bool {
        !self.is_silent.swap(true, Ordering::AcqRel)
    }

    /// It answers after all.
    pub fn speaks(&self) {
        self.is_silent.store(false, Ordering::Release);
    }

    /// Whether it does not answer: nothing is read from it that another one has.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Acquire)
    }

    pub(super) fn is_readable(&self) -> bool {
        self.access() != Access::None
    }

    pub(super) fn is_writable(&self) -> bool {
        self.access() == Access::Full
    }

    /// Counts an I/O as long as the guard lives.
    pub(super) fn start(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// A write to it begins.
    pub(super) fn changes(&self) {
        self.is_changed.store(true, Ordering::Release);
    }

    /// Whether it may have been written to since this was asked last.
    pub(super) fn take_changed(&self) -> bool {
        self.is_changed.swap(false, Ordering::AcqRel)
    }

    /// A write that was not durable has ended.
    pub(super) fn took_volatile(&self) {
        self.is_dirty.store(true, Ordering::Release);
    }

    /// Makes durable what it took before. Those who ask while it is being flushed share the next
    /// flush. If that fails nothing it took since the last one is to be relied on, and it is out.
    pub(super) async fn flush(&self) -> Result<(), BlockError> {
        let _turn = self.flushing.take().await;
        if !self.is_writable() || !self.is_dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let flushed = match self.is_silent() {
            true => Err(BlockError::LostWrites),
            false => self.device.flush().await,
        };
        if let Err(error) = flushed {
            if !self.is_given_up() {
                tracing::warn!(disk = self.name, %error, "a flush failed: the disk is out");
            }
            self.fail(error, Access::ReadOnly);
        }
        flushed
    }

    /// Whether it is out for good, and nothing of it matters any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.revocation.is_revoked()
    }

    pub(super) fn count_read_error(&self) {
        if !self.is_given_up() {
            self.count(&self.read_errors, "reads failed");
        }
    }

    pub(super) fn count_mismatch(&self) {
        self.count(&self.mismatches, "blocks were not what had been written");
    }

    pub(super) fn count_healed(&self) {
        self.count(&self.healed, "blocks were rewritten from redundancy");
    }

    /// Counts, and says so at the first and at each power of ten: a disk with a million bad blocks
    /// is worth seven lines of the log.
    pub(super) fn count(&self, counter: &AtomicU64, what: &str) {
        let count = counter.fetch_add(1, Ordering::Relaxed) + 1;
        if 10_u64.pow(count.ilog10()) == count {
            tracing::warn!(disk = self.name, count, "{what}");
        }
    }

    /// Forgets all errors: what was wrong with the disk has been put right.
    pub fn forgive(&self) {
        for counter in [&self.read_errors, &self.write_errors, &self.mismatches, &self.healed] {
            counter.store(0, Ordering::Relaxed);
        }
        *self.score.lock().expect("no panic under this lock") = Score::default();
    }

    /// How many errors of reading the disk made of late: each counts half after a day.
    pub fn recent_errors(&self, now: Duration) -> u64 {
        let counts = self.counts();
        let errors = counts.read_errors + counts.mismatches;
        self.score.lock().expect("no panic under this lock").update(now, errors)
    }

    /// Stops writing to it. `access` is what is left.
    pub(super) fn fail(&self, error: BlockError, access: Access) {
        debug_assert!(access != Access::Full);
        // What a disk that was revoked does not do is no fault of it.
        self.write_errors.fetch_add(u64::from(!self.is_given_up()), Ordering::Relaxed);
        // First the reason: who sees the disk as not writable must find that it is not settled.
        self.unsettled.lock().expect("no panic under this lock").get_or_insert(error);
        self.access.fetch_min(access as u8, Ordering::AcqRel);
    }

    /// A flush failed that somebody else asked the device for: nothing that it took since the last one is
    /// to be relied on, and whoever flushes it now must hear that it is out.
    pub(crate) fn flush_failed(&self, error: BlockError) {
        if self.is_writable() {
            self.fail(error, Access::ReadOnly);
        }
    }

    /// Why it failed, if the array has not been told yet.
    pub(super) fn unsettled(&self) -> Option<BlockError> {
        *self.unsettled.lock().expect("no panic under this lock")
    }

    pub(crate) fn settle(&self) {
        *self.unsettled.lock().expect("no panic under this lock") = None;
    }
}

/// An I/O under way.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Disk>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The disks that are there, by their number. Shared by all cores.
#[derive(Debug, Default)]
pub struct Disks(RwLock<Vec<Slot>>);

/// One number.
#[derive(Debug, Default)]
struct Slot {
    disk: Option<Arc<Disk>>,
    /// Of whatever device has had it, or gets it.
    revocation: Arc<Revocation>,
    /// It is to be given everything, and is not up to date since.
    lacks_all: bool,
}

impl Disks {
    /// Adds a disk for reads and writes, in place of one with the same number (which came back). What is
    /// asked of it through the array ends when it is [revoked](Self::revoke).
    pub fn add(&self, id: DiskId, name: &str, device: Arc<dyn BlockDevice>) -> Arc<Disk> {
        self.put(id, name, Access::Full, |revocation| Arc::new(Revocable::new(device, revocation)))
    }

    /// The same for one that is not written to until it has been tried.
    pub fn add_shut(&self, id: DiskId, name: &str, device: Arc<dyn BlockDevice>) -> Arc<Disk> {
        let revocable =
            |revocation| Arc::new(Revocable::new(device, revocation)) as Arc<dyn BlockDevice>;
        self.put(id, name, Access::ReadOnly, revocable)
    }

    /// The same for a disk whose device was [opened anew](Disk::reopened).
    pub fn put_back(&self, disk: &Disk, reopened: Arc<dyn BlockDevice>) -> Arc<Disk> {
        self.put(disk.id, &disk.name, Access::Full, |_| reopened)
    }

    fn put(
        &self,
        id: DiskId,
        name: &str,
        access: Access,
        device: impl FnOnce(Arc<Revocation>) -> Arc<dyn BlockDevice>,
    ) -> Arc<Disk> {
        let mut disks = self.0.write().expect("no panic under this lock");
        let index = usize::from(id.0);
        if disks.len() <= index {
            disks.resize_with(index + 1, Slot::default);
        }
        let revocation = Arc::clone(&disks[index].revocation);
        let disk = Arc::new(Disk::new(id, name, device(Arc::clone(&revocation)), revocation));
        disk.set_access(access);
        disks[index].disk = Some(Arc::clone(&disk));
        disk
    }

    /// The disk of this number is never used again: whoever waits for it is let go, and hears that it has
    /// failed. Not for one that may come back, of which a write that is under way would come over later ones.
    pub fn revoke(&self, id: DiskId) {
        let slot = |disks: &Vec<Slot>| {
            disks.get(usize::from(id.0)).map(|slot| Arc::clone(&slot.revocation))
        };
        let revocation = slot(&self.0.read().expect("no panic under this lock"));
        // Not under the lock: who is woken may run at once.
        revocation.into_iter().for_each(|revocation| revocation.revoke());
    }

    /// The same of all disks that there are: the array was closed, and nothing more is begun on those that whoever has
    /// them next uses again. What the kernel was given of a write may still end.
    pub fn revoke_all(&self) {
        let disks = self.0.read().expect("no panic under this lock");
        let all: Vec<Arc<Revocation>> =
            disks.iter().map(|slot| Arc::clone(&slot.revocation)).collect();
        drop(disks);
        all.into_iter().for_each(|revocation| revocation.revoke());
    }

    /// Whether a disk has lost all that it should have: what it is known to have had before counts for nothing
    /// until it is up to date again.
    pub fn set_lacks_all(&self, id: DiskId, lacks_all: bool) {
        let mut disks = self.0.write().expect("no panic under this lock");
        let index = usize::from(id.0);
        if disks.len() <= index {
            disks.resize_with(index + 1, Slot::default);
        }
        disks[index].lacks_all = lacks_all;
    }

    /// Whether it has: see [`set_lacks_all`](Self::set_lacks_all).
    pub fn lacks_all(&self, id: DiskId) -> bool {
        let disks = self.0.read().expect("no panic under this lock");
        disks.get(usize::from(id.0)).is_some_and(|slot| slot.lacks_all)
    }

    /// Takes a disk out; I/O that runs on it ends as it may.
    pub fn remove(&self, id: DiskId) -> Option<Arc<Disk>> {
        let mut disks = self.0.write().expect("no panic under this lock");
        disks.get_mut(usize::from(id.0))?.disk.take()
    }

    /// Takes out a disk that has not joined: another one gets its number.
    pub fn forget(&self, id: DiskId) {
        let mut disks = self.0.write().expect("no panic under this lock");
        disks.get_mut(usize::from(id.0)).into_iter().for_each(|slot| *slot = Slot::default());
    }

    /// The disk of this number.
    #[must_use]
    pub fn get(&self, id: DiskId) -> Option<Arc<Disk>> {
        self.0.read().expect("no panic under this lock").get(usize::from(id.0))?.disk.clone()
    }

    /// All of them, by number.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Disk>> {
        let disks = self.0.read().expect("no panic under this lock");
        disks.iter().filter_map(|slot| slot.disk.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::NullDisk;

    fn null() -> Arc<dyn BlockDevice> {
        Arc::new(NullDisk::new(4096, 16))
    }

    #[test]
    fn disks_come_and_go_by_their_number() {
        let disks = Disks::default();
        disks.add(DiskId(3), "c", null());
        disks.add(DiskId(1), "a", null());
        assert_eq!(disks.all().iter().map(|disk| disk.name()).collect::<Vec<_>>(), ["a", "c"]);
        assert!(disks.get(DiskId(2)).is_none() && disks.get(DiskId(9)).is_none());
        disks.remove(DiskId(1)).unwrap().set_access(Access::None);
        assert!(disks.get(DiskId(1)).is_none());
        assert_eq!(disks.add(DiskId(1), "b", null()).access(), Access::Full);
    }

    #[test]
    fn a_number_that_was_revoked_stays_so_whatever_device_gets_it() {
        let disks = Disks::default();
        let flush = |disk: &Disk| disk.device().flush().into_ready().expect("it waits for nothing");
        let disk = disks.add(DiskId(1), "a", null());
        disks.revoke(DiskId(0));
        disks.revoke(DiskId(7));
        assert_eq!(flush(&disk), Ok(()));
        let back = disks.put_back(&disk, disk.reopened());
        assert_eq!((back.id(), back.name(), flush(&back)), (DiskId(1), "a", Ok(())));
        disks.revoke(DiskId(1));
        disks.remove(DiskId(1));
        for disk in [disk, back, disks.add(DiskId(1), "a", null())] {
            assert_eq!(flush(&disk), Err(BlockError::LostWrites));
            disk.fail(BlockError::LostWrites, Access::None);
            disk.count_read_error();
            let counts = disk.counts();
            assert_eq!((counts.read_errors, counts.write_errors), (0, 0), "it did nothing wrong");
        }
    }

    #[test]
    fn a_failure_stays_unsettled_and_never_gives_access_back() {
        let disks = Disks::default();
        let disk = disks.add(DiskId(0), "a", null());
        disk.fail(BlockError::LostWrites, Access::None);
        disk.fail(BlockError::NoSpace, Access::ReadOnly);
        assert_eq!((disk.access(), disk.unsettled()), (Access::None, Some(BlockError::LostWrites)));
        assert_eq!(disk.counts().write_errors, 2);
        disk.settle();
        assert_eq!(disk.unsettled(), None);
    }

    #[test]
    fn the_queue_counts_what_runs() {
        let disk = Disks::default().add(DiskId(0), "a", null());
        let (first, second) = (disk.start(), disk.start());
        drop(first);
        assert_eq!(disk.in_flight(), 1);
        drop(second);
        assert_eq!(disk.in_flight(), 0);
    }

    #[test]
    fn errors_fade_and_only_new_ones_are_added() {
        let day = |days: u64| HALF_LIFE * days as u32;
        let mut score = Score::default();
        assert_eq!(score.update(day(1), 80), 80);
        assert_eq!(score.update(day(1), 80), 80, "the same errors count once");
        assert_eq!(score.update(day(2), 80), 40);
        assert_eq!(score.update(day(2), 100), 60);
        // Looked at each second for a day, or once after it: the same.
        let mut often = Score::default();
        often.update(day(0), 80);
        (0..HALF_LIFE.as_secs())
            .for_each(|second| _ = often.update(Duration::from_secs(second), 80));
        assert_eq!(often.update(day(1), 80), 40);
        assert_eq!(score.update(day(60), 100), 0);
    }
}
