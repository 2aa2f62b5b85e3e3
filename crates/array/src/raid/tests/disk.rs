//! A disk in memory that dies, loses power, refuses sectors and flips bits.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use block::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, RamDisk, WriteFlags};
use ring::Data;

use crate::raid::Layout;

/// Lets other futures of the task run once.
pub(super) async fn turn() {
    let mut is_first = true;
    poll_fn(|cx| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// What happens when so many writes have been done, on all disks together.
#[derive(Debug, Default)]
enum Plan {
    #[default]
    Nothing,
    /// The next write is torn after its first block, and nothing is written afterwards.
    Cut { writes: u64 },
    /// This disk dies before the next write.
    Kill { writes: u64, disk: TestDisk },
}

/// Counts the writes of all disks.
#[derive(Debug, Default)]
pub(super) struct Fuse {
    done: AtomicU64,
    plan: Mutex<Plan>,
}

enum Fate {
    Done,
    Torn,
    Lost,
}

impl Fuse {
    pub(super) fn cut_after(&self, writes: u64) {
        self.done.store(0, Ordering::SeqCst);
        *self.plan.lock().unwrap() = Plan::Cut { writes };
    }

    pub(super) fn kill_after(&self, writes: u64, disk: &TestDisk) {
        self.done.store(0, Ordering::SeqCst);
        *self.plan.lock().unwrap() = Plan::Kill { writes, disk: disk.clone() };
    }

    pub(super) fn mend(&self) {
        *self.plan.lock().unwrap() = Plan::Nothing;
    }

    /// Whether what was planned has happened.
    pub(super) fn is_blown(&self) -> bool {
        let done = self.done.load(Ordering::SeqCst);
        match &*self.plan.lock().unwrap() {
            Plan::Nothing => false,
            Plan::Cut { writes } | Plan::Kill { writes, .. } => done > *writes,
        }
    }

    fn next(&self) -> Fate {
        let done = self.done.fetch_add(1, Ordering::SeqCst);
        match &*self.plan.lock().unwrap() {
            Plan::Cut { writes } if done == *writes => Fate::Torn,
            Plan::Cut { writes } if done > *writes => Fate::Lost,
            Plan::Kill { writes, disk } if done == *writes => {
                disk.kill();
                Fate::Done
            }
            _ => Fate::Done,
        }
    }
}

#[derive(Debug)]
struct State {
    ram: RamDisk,
    fuse: Arc<Fuse>,
    is_dead: AtomicBool,
    is_slow: AtomicBool,
    refused: Mutex<Vec<Range<u64>>>,
    /// Reads that fail before the disk thinks better of it.
    busy: AtomicU64,
    reads: AtomicU64,
    /// Reads that are right yet, and the byte that has rotted afterwards.
    rots: Mutex<Option<(u64, u64)>>,
    /// What blocks held at the last flush that were written since.
    unflushed: Mutex<BTreeMap<u64, Vec<u8>>>,
}

#[derive(Debug, Clone)]
pub(super) struct TestDisk(Arc<State>);

const ERROR: BlockError = BlockError::Medium { at: 0 };

impl TestDisk {
    pub(super) fn new(fuse: &Arc<Fuse>, layout: Layout, chunks: u64) -> Self {
        let blocks = (layout.data_start + chunks * layout.chunk_bytes) / 4096;
        Self(Arc::new(State {
            ram: RamDisk::new(4096, blocks).unwrap(),
            fuse: Arc::clone(fuse),
            is_dead: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            refused: Mutex::default(),
            busy: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            rots: Mutex::default(),
            unflushed: Mutex::default(),
        }))
    }

    pub(super) fn kill(&self) {
        self.0.is_dead.store(true, Ordering::SeqCst);
    }

    pub(super) fn revive(&self) {
        self.0.is_dead.store(false, Ordering::SeqCst);
    }

    /// From now on answers come later than the call.
    pub(super) fn slow_down(&self) {
        self.0.is_slow.store(true, Ordering::SeqCst);
    }

    /// The next operations end with a passing error.
    pub(super) fn be_busy(&self, times: u64) {
        self.0.busy.store(times, Ordering::SeqCst);
    }

    /// Reads of these bytes fail until they are written.
    pub(super) fn refuse(&self, bytes: Range<u64>) {
        self.0.refused.lock().unwrap().push(bytes);
    }

    /// All reads are answered again.
    pub(super) fn answer(&self) {
        self.0.refused.lock().unwrap().clear();
    }

    /// Makes a block zeroes behind everybody's back.
    pub(super) fn blank(&self, at: u64) {
        self.put(at, &[0; 4096]);
    }

    /// Overwrites a block behind everybody's back.
    pub(super) fn put(&self, at: u64, block: &[u8]) {
        self.0.ram.write_now(at, block, WriteFlags::VOLATILE).unwrap().unwrap();
    }

    /// Changes a bit behind everybody's back.
    pub(super) fn flip(&self, at: u64) {
        let start = at / 4096 * 4096;
        let mut bytes = self.held(start);
        bytes[(at - start) as usize] ^= 1;
        self.0.ram.write_now(start, &bytes, WriteFlags::VOLATILE).unwrap().unwrap();
    }

    /// Changes a bit after so many further reads.
    pub(super) fn flip_after(&self, reads: u64, at: u64) {
        *self.0.rots.lock().unwrap() = Some((reads, at));
    }

    /// Its power fails: of what was not flushed the first `bytes` of each block are left.
    pub(super) fn lose_power(&self, bytes: usize) {
        for (at, mut before) in std::mem::take(&mut *self.0.unflushed.lock().unwrap()) {
            before[..bytes].copy_from_slice(&self.held(at)[..bytes]);
            self.0.ram.write_now(at, &before, WriteFlags::VOLATILE).unwrap().unwrap();
        }
    }

    /// The block at `at`, as it is.
    pub(super) fn held(&self, at: u64) -> Vec<u8> {
        let data = self.0.ram.read(at, 4096).into_ready().unwrap().unwrap();
        data.to_buf().unwrap().to_vec()
    }

    pub(super) fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::SeqCst)
    }

    fn is_busy(&self) -> bool {
        let take = |left: u64| left.checked_sub(1);
        self.0.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    fn do_read(&self, at: u64, len: usize) -> Result<Data, BlockError> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        let rots = self.0.rots.lock().unwrap().take();
        match rots {
            Some((0, at)) => self.flip(at),
            left => *self.0.rots.lock().unwrap() = left.map(|(reads, at)| (reads - 1, at)),
        }
        if self.is_busy() {
            return Err(BlockError::Busy);
        }
        let end = at + len as u64;
        let refused = self.0.refused.lock().unwrap();
        let meets = refused.iter().any(|bytes| bytes.start < end && at < bytes.end);
        if meets || self.0.is_dead.load(Ordering::SeqCst) {
            return Err(ERROR);
        }
        self.0.ram.read(at, len).into_ready().unwrap()
    }

    fn do_write(&self, at: u64, data: &Data) -> Result<(), BlockError> {
        if self.is_busy() {
            return Err(BlockError::Busy);
        }
        let fate = self.0.fuse.next();
        if self.0.is_dead.load(Ordering::SeqCst) {
            return Err(ERROR);
        }
        let data = match fate {
            Fate::Done => data.clone(),
            Fate::Torn => data.slice(0..4096),
            Fate::Lost => return Err(ERROR),
        };
        let end = at + data.len() as u64;
        self.0.refused.lock().unwrap().retain(|bytes| bytes.end <= at || end <= bytes.start);
        let mut unflushed = self.0.unflushed.lock().unwrap();
        for block in (at..end).step_by(4096) {
            unflushed.entry(block).or_insert_with(|| self.held(block));
        }
        self.0.ram.write(at, data, WriteFlags::VOLATILE).into_ready().unwrap()?;
        if matches!(fate, Fate::Torn) { Err(ERROR) } else { Ok(()) }
    }

    fn run<T: 'static>(
        &self,
        operation: impl FnOnce(&Self) -> Result<T, BlockError> + 'static,
    ) -> IoFuture<T> {
        if !self.0.is_slow.load(Ordering::SeqCst) {
            return IoFuture::ready(operation(self));
        }
        let disk = self.clone();
        IoFuture::boxed(async move {
            turn().await;
            let result = operation(&disk);
            turn().await;
            result
        })
    }
}

impl BlockDevice for TestDisk {
    fn geometry(&self) -> Geometry {
        self.0.ram.geometry()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.run(move |disk| disk.do_read(at, len))
    }

    fn write_now(&self, _: u64, _: &[u8], _: WriteFlags) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, _: WriteFlags) -> IoFuture<()> {
        self.run(move |disk| disk.do_write(at, &data))
    }

    fn flush(&self) -> IoFuture<()> {
        let is_dead = self.0.is_dead.load(Ordering::SeqCst);
        self.run(move |disk| {
            if is_dead {
                return Err(BlockError::LostWrites);
            }
            disk.0.unflushed.lock().unwrap().clear();
            Ok(())
        })
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
