//! A small world: disks that complete writes when told to and tear those that a crash meets, and
//! an executor that polls only who was woken, so that a lost wake-up is a test that hangs.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

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
    pending: Vec<Pending>,
    next_id: u64,
    /// Writes wait for [`TestDisk::complete`].
    slow: bool,
    failing: bool,
    unreadable: Vec<u64>,
}

#[derive(Debug)]
struct Pending {
    id: u64,
    at: usize,
    bytes: Vec<u8>,
    waker: Option<Waker>,
}

impl TestDisk {
    pub(super) fn new() -> Self {
        Self::with(vec![0; layout().journal_bytes as usize])
    }

    pub(super) fn with(bytes: Vec<u8>) -> Self {
        let inner = Inner {
            bytes,
            pending: vec![],
            next_id: 0,
            slow: false,
            failing: false,
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

    pub(super) fn make_unreadable(&self, block: u64) {
        self.lock().unreadable.push(block);
    }

    pub(super) fn pending(&self) -> usize {
        self.lock().pending.len()
    }

    /// Ends one of the pending writes.
    pub(super) fn complete(&self, index: usize) {
        let pending = {
            let mut inner = self.lock();
            let pending = inner.pending.remove(index);
            inner.bytes[pending.at..][..pending.bytes.len()].copy_from_slice(&pending.bytes);
            pending.waker
        };
        pending.into_iter().for_each(Waker::wake);
    }

    /// What is on the medium when the power fails now: of each write that is pending the
    /// first `sectors(of how many)`.
    pub(super) fn crash(&self, sectors: &mut dyn FnMut(usize) -> usize) -> Vec<u8> {
        let inner = self.lock();
        let mut bytes = inner.bytes.clone();
        for pending in &inner.pending {
            let len = sectors(pending.bytes.len() / 512) * 512;
            bytes[pending.at..][..len].copy_from_slice(&pending.bytes[..len]);
        }
        bytes
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

    fn write(&self, at: u64, data: Data, _flags: WriteFlags) -> IoFuture<()> {
        let mut inner = self.lock();
        if inner.failing {
            return IoFuture::ready(Err(BlockError::Medium { at }));
        }
        let mut bytes = vec![0; data.len()];
        data.copy_to(0, &mut bytes);
        let at = offset(at);
        if !inner.slow {
            inner.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
            return IoFuture::ready(Ok(()));
        }
        let id = inner.next_id;
        inner.next_id += 1;
        inner.pending.push(Pending { id, at, bytes, waker: None });
        let disk = self.clone();
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

    fn flush(&self) -> IoFuture<()> {
        IoFuture::ready(Ok(()))
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
}
