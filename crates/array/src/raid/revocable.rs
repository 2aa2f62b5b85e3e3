//! Member disks that can be revoked: once one is given up for good, whoever waits for it is let go.
//!
//! A disk may take a request and never answer it. While the disk may come back its requests have to be
//! waited for: a write that is still under way could come over what is written when it is back. One that is
//! never used again owes nobody an answer. What was asked of it ends with [`BlockError::LostWrites`] then,
//! and so does all that is asked later. Whether a request still takes effect does not matter: nobody
//! believes the disk any more.
//!
//! The futures below are dropped for that, which each device allows: see [`BlockDevice`]. A
//! [`FileDisk`](block::FileDisk) leaves the buffer, the descriptor and the stripes of a write with a task that
//! waits for the kernel, and the buffer of a read with the engine.
//!
//! Invariant: whoever waits for a disk has its waker with the [`Revocation`] of that disk, or is about to
//! look whether it is revoked.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use block::{Answers, BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags};
use ring::Data;

use crate::mutants::{self, Mutant};

/// What those hear who ask a disk that is revoked.
const REVOKED: BlockError = BlockError::LostWrites;

/// Whether the disk of one number is given up, and who waits for it. Shared by all cores.
#[derive(Debug, Default)]
pub(super) struct Revocation {
    is_revoked: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// Invariant: a place is either free or of one request.
#[derive(Debug, Default)]
struct Waiting {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Revocation {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing in here panics.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::Acquire)
    }

    /// Lets all go who wait, for good.
    pub(super) fn revoke(&self) {
        if mutants::is(Mutant::KeepWaiting) {
            return;
        }
        self.is_revoked.store(true, Ordering::Release);
        let woken: Vec<Waker> = self.waiting().wakers.iter_mut().filter_map(Option::take).collect();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Remembers who waits, at the place that it had before or at a new one.
    fn enlist(&self, place: Option<usize>, waker: &Waker) -> usize {
        let waiting = &mut *self.waiting();
        let place = place.or_else(|| waiting.free.pop()).unwrap_or(waiting.wakers.len());
        if place == waiting.wakers.len() {
            waiting.wakers.push(None);
        }
        match &mut waiting.wakers[place] {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        place
    }

    fn leave(&self, place: usize) {
        let waiting = &mut *self.waiting();
        debug_assert!(!waiting.free.contains(&place), "it is of one request");
        waiting.wakers[place] = None;
        waiting.free.push(place);
    }

    #[cfg(test)]
    fn is_anybody_waiting(&self) -> bool {
        self.waiting().wakers.iter().any(Option::is_some)
    }
}

/// A request under way.
#[derive(Debug)]
struct Running<T> {
    /// `None` once it is over.
    future: Option<IoFuture<T>>,
    revocation: Arc<Revocation>,
    /// Where its waker is.
    place: Option<usize>,
}

impl<T> Running<T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, BlockError>> {
        let future = self.future.as_mut().expect("it is not asked after its end");
        let result = match self.revocation.is_revoked() {
            true => Poll::Ready(Err(REVOKED)),
            false => std::pin::Pin::new(future).poll(cx),
        };
        if result.is_ready() {
            self.future = None;
            return result;
        }
        self.place = Some(self.revocation.enlist(self.place, cx.waker()));
        // It may have been revoked before that.
        match self.revocation.is_revoked() {
            true => self.poll(cx),
            false => Poll::Pending,
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.revocation.leave(place);
        }
    }
}

/// The requests of one core that disks have not answered, so that none of them allocates.
#[derive(Debug)]
struct Table<T>(RefCell<Entries<T>>);

/// Invariant: a place is either free or of one request; its entry is missing while that is polled.
#[derive(Debug)]
struct Entries<T> {
    running: Vec<Option<Running<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(RefCell::new(Entries { running: Vec::new(), free: Vec::new() }))
    }
}

impl<T> Table<T> {
    fn begin(&self, running: Running<T>) -> usize {
        let entries = &mut *self.0.borrow_mut();
        match entries.free.pop() {
            Some(place) => {
                entries.running[place] = Some(running);
                place
            }
            None => {
                entries.running.push(Some(running));
                entries.running.len() - 1
            }
        }
    }
}

impl<T> Answers<T> for Table<T> {
    fn poll_answer(&self, place: usize, cx: &mut Context<'_>) -> Poll<Result<T, BlockError>> {
        // Not under the borrow: the device below may be an array itself.
        let running = self.0.borrow_mut().running[place].take();
        let mut running = running.expect("only its owner asks for it");
        let result = running.poll(cx);
        self.0.borrow_mut().running[place] = Some(running);
        result
    }

    fn release(&self, place: usize) {
        let over = {
            let entries = &mut *self.0.borrow_mut();
            entries.free.push(place);
            entries.running[place].take()
        };
        drop(over);
    }
}

/// What requests end with, and where those of a core are.
trait Outcome: Sized + 'static {
    fn table() -> Rc<Table<Self>>;
}

macro_rules! outcomes {
    ($($outcome:ty),+) => {
        $(impl Outcome for $outcome {
            fn table() -> Rc<Table<Self>> {
                thread_local!(static TABLE: Rc<Table<$outcome>> = Rc::default());
                TABLE.with(Rc::clone)
            }
        })+
    };
}

outcomes!(Data, (), Compared, Extent);

/// A disk whose requests end when it is revoked.
#[derive(Debug)]
pub(super) struct Revocable {
    inner: Arc<dyn BlockDevice>,
    revocation: Arc<Revocation>,
}

impl Revocable {
    pub(super) fn new(inner: Arc<dyn BlockDevice>, revocation: Arc<Revocation>) -> Self {
        Self { inner, revocation }
    }

    fn ask<T: Outcome>(&self, ask: impl FnOnce(&dyn BlockDevice) -> IoFuture<T>) -> IoFuture<T> {
        if self.revocation.is_revoked() {
            return IoFuture::ready(Err(REVOKED));
        }
        match ask(&*self.inner).into_ready() {
            Ok(result) => IoFuture::ready(result),
            Err(future) => {
                let revocation = Arc::clone(&self.revocation);
                let table = T::table();
                let place = table.begin(Running { future: Some(future), revocation, place: None });
                IoFuture::shared(table, place)
            }
        }
    }
}

impl BlockDevice for Revocable {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.ask(|disk| disk.read(at, len))
    }

    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        match self.revocation.is_revoked() {
            true => Some(Err(REVOKED)),
            false => self.inner.write_now(at, bytes, flags),
        }
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.ask(|disk| disk.write(at, data, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        self.ask(|disk| disk.flush())
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        self.ask(|disk| disk.unmap(at, len))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        self.ask(|disk| disk.write_zeroes(at, len, may_unmap, flags))
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        self.ask(|disk| disk.compare_and_write(at, compare, write, flags))
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.ask(|disk| disk.or_write(at, data, flags))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        self.ask(|disk| disk.extent(at))
    }

    /// It is revoked with this one.
    fn reopened(&self) -> Option<Arc<dyn BlockDevice>> {
        let inner = self.inner.reopened()?;
        Some(Arc::new(Self::new(inner, Arc::clone(&self.revocation))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use block::NullDisk;
    use block::testing::{Fault, FaultyDisk, Operation, Rule};

    use super::*;

    fn revocable() -> (Arc<FaultyDisk>, Arc<Revocation>, Revocable) {
        let faulty = Arc::new(FaultyDisk::new(Arc::new(NullDisk::new(4096, 16))));
        let revocation = Arc::new(Revocation::default());
        let disk = Revocable::new(Arc::clone(&faulty) as _, Arc::clone(&revocation));
        (faulty, revocation, disk)
    }

    fn on_a_core(test: impl Future<Output = ()> + 'static) {
        ring::block_on(&ring::CoreConfig::default(), test).unwrap();
    }

    #[test]
    fn who_waits_for_a_disk_that_is_revoked_is_let_go_and_so_is_who_asks_later() {
        on_a_core(async {
            let (faulty, revocation, disk) = revocable();
            for operation in [Operation::Read, Operation::Flush] {
                faulty.inject(Rule::always(operation, Fault::Hang));
            }
            let (told, heard) = ring::oneshot();
            let disk = Arc::new(disk);
            let (reader, flusher) = (Arc::clone(&disk), Arc::clone(&disk));
            ring::spawn(async move {
                let both = ring::wait::both(reader.read(0, 4096), flusher.flush()).await;
                told.send((both.0.map(|_| ()), both.1));
            });
            ring::sleep(Duration::from_millis(1)).await;
            assert_eq!(faulty.held(), 2);
            revocation.revoke();
            let heard = ring::timeout(Duration::from_secs(5), heard).await;
            assert_eq!(heard, Some(Some((Err(REVOKED), Err(REVOKED)))));
            assert!(!revocation.is_anybody_waiting());
            faulty.heal();
            assert_eq!(disk.read(0, 4096).await.map(|_| ()), Err(REVOKED));
            assert_eq!(disk.write_now(0, &[0; 4096], WriteFlags::VOLATILE), Some(Err(REVOKED)));
        });
    }

    #[test]
    fn requests_that_end_or_are_dropped_leave_nothing_behind() {
        on_a_core(async {
            let (faulty, revocation, disk) = revocable();
            faulty.inject(Rule::always(Operation::Read, Fault::HoldAnswer));
            for _ in 0..3 {
                let mut dropped = disk.read(0, 4096);
                let mut cx = Context::from_waker(Waker::noop());
                assert!(std::pin::Pin::new(&mut dropped).poll(&mut cx).is_pending());
                assert!(revocation.is_anybody_waiting());
                drop(dropped);
                assert!(!revocation.is_anybody_waiting());
                let answered = disk.read(0, 4096);
                let (answered, ()) = ring::wait::both(answered, async {
                    ring::sleep(Duration::from_millis(1)).await;
                    faulty.release();
                })
                .await;
                assert_eq!(answered.map(|data| data.len()), Ok(4096));
            }
            assert_eq!(revocation.waiting().wakers.len(), 1, "places are used again");
            let entries = Data::table();
            assert_eq!(entries.0.borrow().running.len(), 1);
        });
    }

    #[test]
    fn what_is_opened_anew_is_revoked_too() {
        on_a_core(async {
            let (_, revocation, disk) = revocable();
            let anew = disk.reopened().unwrap();
            assert_eq!(anew.flush().await, Ok(()));
            revocation.revoke();
            assert_eq!(anew.flush().await, Err(REVOKED));
        });
    }
}
