//! A small world: disks that complete writes when told to and tear those that a crash meets, and
//! an executor that polls only who was woken, so that a lost wake-up is a test that hangs.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use block::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags};
use ring::{Buf, Data};

use super::super::{Holder, HolderFailed};
use crate::label::Layout;
use crate::{DiskId, Task};

pub(super) const SIZE: u64 = 16 << 20;

pub(super) fn layout() -> Layout {
    Layout::choose(&[SIZE], None).unwrap()
}

/// A disk of which only the journal is stored.
#[derive(Debug, Clone)]
pub(super) struct TestDisk(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    bytes: Vec<u8>,
    /// What a loss of power leaves at least, but for what is written again.
    durable: Vec<u8>,
    /// Completed, and not durable; the oldest first.
    volatile: Vec<Pending>,
    pending: Vec<Pending>,
    next_id: u64,
    /// Writes wait for [`TestDisk::complete`].
    slow: bool,
    failing: bool,
    /// Writes for which there is no memory.
    scarce: u32,
    unreadable: Vec<u64>,
}

#[derive(Debug)]
struct Pending {
    id: u64,
    at: usize,
    bytes: Vec<u8>,
    /// Of a flush: how many of the volatile writes it covers.
    flushes: Option<usize>,
    is_durable: bool,
    waker: Option<Waker>,
}

impl Pending {
    fn new(at: usize, bytes: Vec<u8>, is_durable: bool) -> Self {
        Self { id: 0, at, bytes, flushes: None, is_durable, waker: None }
    }

    fn put(&self, len: usize, into: &mut [u8]) {
        into[self.at..][..len].copy_from_slice(&self.bytes[..len]);
    }
}

impl Inner {
    /// It is done, and what it promises holds.
    fn complete(&mut self, pending: Pending) {
        if let Some(count) = pending.flushes {
            // Another one may have ended first.
            for write in self.volatile.drain(..count.min(self.volatile.len())) {
                write.put(write.bytes.len(), &mut self.durable);
            }
            return;
        }
        pending.put(pending.bytes.len(), &mut self.bytes);
        if pending.is_durable {
            pending.put(pending.bytes.len(), &mut self.durable);
            return;
        }
        self.volatile.push(pending);
    }

    fn begin(&mut self, pending: Pending) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.push(Pending { id, ..pending });
        id
    }
}

impl TestDisk {
    pub(super) fn new() -> Self {
        Self::with(vec![0; layout().journal_bytes as usize])
    }

    pub(super) fn with(bytes: Vec<u8>) -> Self {
        let inner = Inner {
            durable: bytes.clone(),
            bytes,
            volatile: vec![],
            pending: vec![],
            next_id: 0,
            slow: false,
            failing: false,
            scarce: 0,
            unreadable: vec![],
        };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(super) fn set_slow(&self, slow: bool) {
        self.lock().slow = slow;
    }

    pub(super) fn set_failing(&self) {
        self.lock().failing = true;
    }

    pub(super) fn set_scarce(&self, writes: u32) {
        self.lock().scarce = writes;
    }

    pub(super) fn make_unreadable(&self, block: u64) {
        self.lock().unreadable.push(block);
    }

    pub(super) fn pending(&self) -> usize {
        self.lock().pending.len()
    }

    /// Of those pending, the flushes.
    pub(super) fn flushes(&self) -> usize {
        self.lock().pending.iter().filter(|pending| pending.flushes.is_some()).count()
    }

    /// Ends the oldest pending write, if there is one, and no flush.
    pub(super) fn complete_write(&self) -> bool {
        let write = self.lock().pending.iter().position(|pending| pending.flushes.is_none());
        write.into_iter().for_each(|index| self.complete(index));
        write.is_some()
    }

    /// Ends one of the pending writes or flushes.
    pub(super) fn complete(&self, index: usize) {
        let waker = {
            let mut inner = self.lock();
            let mut pending = inner.pending.remove(index);
            let waker = pending.waker.take();
            inner.complete(pending);
            waker
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// What is on the medium when the power fails now: of each write that is pending, or not
    /// durable, the first `sectors(of how many)`.
    pub(super) fn crash(&self, sectors: &mut dyn FnMut(usize) -> usize) -> Vec<u8> {
        let inner = self.lock();
        let mut bytes = inner.durable.clone();
        for lost in inner.volatile.iter().chain(&inner.pending) {
            lost.put(sectors(lost.bytes.len() / 512) * 512, &mut bytes);
        }
        bytes
    }

    /// The process ended: its writes may be done in part, and the caches stay.
    pub(super) fn release(&self, sectors: &mut dyn FnMut(usize) -> usize) -> Self {
        let mut inner = self.lock();
        for mut pending in std::mem::take(&mut inner.pending) {
            let len = sectors(pending.bytes.len() / 512) * 512;
            pending.bytes.truncate(len);
            if pending.flushes.is_none() {
                inner.complete(Pending { is_durable: false, ..pending });
            }
        }
        inner.slow = false;
        self.clone()
    }

    fn do_or_wait(&self, inner: &mut Inner, pending: Pending) -> IoFuture<()> {
        if !inner.slow {
            inner.complete(pending);
            return IoFuture::ready(Ok(()));
        }
        let (id, disk) = (inner.begin(pending), self.clone());
        IoFuture::boxed(poll_fn(move |cx| {
            let mut inner = disk.lock();
            match inner.pending.iter_mut().find(|pending| pending.id == id) {
                Some(pending) => {
                    pending.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(Ok(())),
            }
        }))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }
}

fn offset(at: u64) -> usize {
    usize::try_from(at - layout().journal_at()).unwrap()
}

impl BlockDevice for TestDisk {
    fn geometry(&self) -> Geometry {
        Geometry::new(512, SIZE / 512)
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        let inner = self.lock();
        let at = offset(at);
        let blocks = (at / 4096) as u64..((at + len) / 4096) as u64;
        if inner.unreadable.iter().any(|block| blocks.contains(block)) {
            return IoFuture::ready(Err(BlockError::Medium { at: 0 }));
        }
        let mut buf = Buf::alloc(len).unwrap();
        buf.copy_from_slice(&inner.bytes[at..at + len]);
        IoFuture::ready(Ok(buf.freeze()))
    }

    fn write_now(&self, _: u64, _: &[u8], _: WriteFlags) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let mut inner = self.lock();
        if inner.failing {
            return IoFuture::ready(Err(BlockError::Medium { at }));
        }
        if inner.scarce > 0 {
            inner.scarce -= 1;
            return IoFuture::ready(Err(BlockError::NoMemory));
        }
        // A sector that is written is well again.
        let written = (offset(at) / 4096) as u64..((offset(at) + data.len()) / 4096) as u64;
        inner.unreadable.retain(|block| !written.contains(block));
        let mut bytes = vec![0; data.len()];
        data.copy_to(0, &mut bytes);
        let pending = Pending::new(offset(at), bytes, flags.durable);
        self.do_or_wait(&mut inner, pending)
    }

    fn flush(&self) -> IoFuture<()> {
        let mut inner = self.lock();
        if inner.failing {
            return IoFuture::ready(Err(BlockError::LostWrites));
        }
        let flushes = Some(inner.volatile.len());
        let pending = Pending { flushes, ..Pending::new(0, vec![], true) };
        self.do_or_wait(&mut inner, pending)
    }

    fn unmap(&self, _: u64, _: u64) -> IoFuture<()> {
        IoFuture::ready(Err(BlockError::Unsupported))
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool, _: WriteFlags) -> IoFuture<()> {
        IoFuture::ready(Err(BlockError::Unsupported))
    }

    fn compare_and_write(&self, _: u64, _: Data, _: Data, _: WriteFlags) -> IoFuture<Compared> {
        IoFuture::ready(Err(BlockError::Unsupported))
    }

    fn or_write(&self, _: u64, _: Data, _: WriteFlags) -> IoFuture<()> {
        IoFuture::ready(Err(BlockError::Unsupported))
    }

    fn extent(&self, _: u64) -> IoFuture<Extent> {
        IoFuture::ready(Err(BlockError::Unsupported))
    }
}

pub(super) fn holders(disks: &[TestDisk]) -> Vec<Holder> {
    let holder = |(number, disk): (usize, &TestDisk)| Holder {
        disk: DiskId(number as u16),
        device: Arc::new(disk.clone()),
    };
    disks.iter().enumerate().map(holder).collect()
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs tasks on this thread; poll order is spawn order.
#[derive(Default)]
pub(super) struct Executor(Vec<(Option<Task>, Arc<Flag>)>);

impl Executor {
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + 'static) -> usize {
        self.0.push((Some(Box::pin(task)), Arc::new(Flag(AtomicBool::new(true)))));
        self.0.len() - 1
    }

    /// Polls until nobody was woken.
    pub(super) fn turn(&mut self) {
        while self.0.iter().any(|(task, flag)| task.is_some() && flag.0.load(Ordering::Relaxed)) {
            for (slot, flag) in &mut self.0 {
                let Some(task) = slot else { continue };
                if flag.0.swap(false, Ordering::Relaxed) {
                    let waker = Waker::from(Arc::clone(flag));
                    if Pin::new(task).poll(&mut Context::from_waker(&waker)).is_ready() {
                        *slot = None;
                    }
                }
            }
        }
    }

    pub(super) fn is_done(&self, task: usize) -> bool {
        self.0[task].0.is_none()
    }
}

/// Remembers failed holders, and lets the writer wait until it is told to go on.
#[derive(Default)]
pub(super) struct Hook {
    pub(super) failed: Mutex<Vec<DiskId>>,
    /// Who takes the journal over, and who did.
    pub(super) successors: Mutex<Vec<Holder>>,
    pub(super) moved: Mutex<Vec<DiskId>>,
    /// Whose flush failed, in the moment when it did.
    pub(super) unflushed: Mutex<Vec<DiskId>>,
    pub(super) held: Arc<AtomicBool>,
    pub(super) waker: Arc<Mutex<Option<Waker>>>,
}

impl Hook {
    pub(super) fn go_on(&self) {
        self.held.store(false, Ordering::Relaxed);
        self.waker.lock().unwrap().take().into_iter().for_each(Waker::wake);
    }
}

impl HolderFailed for Hook {
    fn holder_failed(&self, disk: DiskId, _error: BlockError) -> Task {
        self.failed.lock().unwrap().push(disk);
        let (held, waker) = (Arc::clone(&self.held), Arc::clone(&self.waker));
        Box::pin(poll_fn(move |cx| {
            *waker.lock().unwrap() = Some(cx.waker().clone());
            if held.load(Ordering::Relaxed) { Poll::Pending } else { Poll::Ready(()) }
        }))
    }

    fn flush_failed(&self, disk: DiskId, _error: BlockError) {
        self.unflushed.lock().unwrap().push(disk);
    }

    fn pause(&self) -> Task {
        Box::pin(std::future::ready(()))
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn successors(&self, failed: &[DiskId]) -> Vec<Holder> {
        let all = self.successors.lock().unwrap().clone();
        all.into_iter().filter(|holder| !failed.contains(&holder.disk)).collect()
    }

    fn moved(&self, to: Vec<DiskId>) -> Pin<Box<dyn Future<Output = bool>>> {
        self.moved.lock().unwrap().extend(to);
        Box::pin(std::future::ready(true))
    }
}
