//! A disk whose requests are counted and timed on their way to it.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use block::{Answers, BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags};
use ring::Data;

use super::meter::{Meter, Request, Work};
use super::scope::{Change, Place};

/// A disk under a meter. It answers as the disk itself does.
#[derive(Debug)]
pub(crate) struct Metered {
    inner: Arc<dyn BlockDevice>,
    meter: Arc<Meter>,
}

/// A request under way.
#[derive(Debug)]
struct Running<T> {
    future: IoFuture<T>,
    request: Request,
    change: Option<Change>,
}

impl<T> Running<T> {
    fn end(self, is_done: bool) {
        self.request.end(is_done, ring::now());
        self.change.into_iter().for_each(|change| change.end(is_done));
    }
}

/// The requests of one core that disks have not answered, so that none of them allocates.
///
/// Invariant: a place is either free or of one request; it is empty while that is polled, and once it is over.
#[derive(Debug)]
struct Table<T>(RefCell<Places<T>>);

#[derive(Debug)]
struct Places<T> {
    running: Vec<Option<Running<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(RefCell::new(Places { running: Vec::new(), free: Vec::new() }))
    }
}

impl<T> Table<T> {
    fn begin(&self, running: Running<T>) -> usize {
        let places = &mut *self.0.borrow_mut();
        let place = places.free.pop().unwrap_or(places.running.len());
        match places.running.get_mut(place) {
            Some(empty) => *empty = Some(running),
            None => places.running.push(Some(running)),
        }
        place
    }
}

impl<T> Answers<T> for Table<T> {
    fn poll_answer(&self, place: usize, cx: &mut Context<'_>) -> Poll<Result<T, BlockError>> {
        // Not under the borrow: the disk below may be metered itself.
        let running = self.0.borrow_mut().running[place].take();
        let mut running = running.expect("it is not asked after its end");
        let result = Pin::new(&mut running.future).poll(cx);
        match &result {
            Poll::Ready(result) => running.end(result.is_ok()),
            Poll::Pending => self.0.borrow_mut().running[place] = Some(running),
        }
        result
    }

    fn release(&self, place: usize) {
        let given_up = {
            let places = &mut *self.0.borrow_mut();
            places.free.push(place);
            places.running[place].take()
        };
        drop(given_up);
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

outcomes!(Data, (), Compared);

impl Metered {
    pub(crate) fn new(inner: Arc<dyn BlockDevice>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }

    fn count<T: Outcome>(
        &self,
        work: Work,
        bytes: u64,
        ask: impl FnOnce(&dyn BlockDevice) -> IoFuture<T>,
    ) -> IoFuture<T> {
        let change = if work == Work::Read { None } else { Change::begin(None) };
        self.count_change((work, change), bytes, ask)
    }

    fn count_change<T: Outcome>(
        &self,
        (work, change): (Work, Option<Change>),
        bytes: u64,
        ask: impl FnOnce(&dyn BlockDevice) -> IoFuture<T>,
    ) -> IoFuture<T> {
        let request = Request::begin(&self.meter, work, bytes, ring::now());
        match ask(&*self.inner).into_ready() {
            Ok(result) => {
                request.end(result.is_ok(), ring::now());
                change.into_iter().for_each(|change| change.end(result.is_ok()));
                IoFuture::ready(result)
            }
            Err(future) => {
                let table = T::table();
                let place = table.begin(Running { future, request, change });
                IoFuture::shared(table, place)
            }
        }
    }
}

impl Metered {
    /// A write that the work which is being polled asks for, if that is watched.
    fn begin_write(&self, at: u64, len: u64) -> Option<Change> {
        Change::begin(Some(Place { disk: Arc::as_ptr(&self.meter).addr(), at, len }))
    }
}

impl BlockDevice for Metered {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.count(Work::Read, len as u64, |disk| disk.read(at, len))
    }

    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        let result = self.inner.write_now(at, bytes, flags)?;
        let len = bytes.len() as u64;
        let now = ring::now();
        Request::begin(&self.meter, Work::Write, len, now).end(result.is_ok(), now);
        self.begin_write(at, len).into_iter().for_each(|change| change.end(result.is_ok()));
        Some(result)
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let len = data.len() as u64;
        let change = self.begin_write(at, len);
        self.count_change((Work::Write, change), len, |disk| disk.write(at, data, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        self.count(Work::Flush, 0, |disk| disk.flush())
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        self.count(Work::Write, 0, |disk| disk.unmap(at, len))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        self.count(Work::Write, 0, |disk| disk.write_zeroes(at, len, may_unmap, flags))
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let bytes = write.len() as u64;
        self.count(Work::Write, bytes, |disk| disk.compare_and_write(at, compare, write, flags))
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.count(Work::Write, data.len() as u64, |disk| disk.or_write(at, data, flags))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        self.inner.extent(at)
    }

    /// Its requests go on to be counted.
    fn reopened(&self) -> Option<Arc<dyn BlockDevice>> {
        let inner = self.inner.reopened()?;
        Some(Arc::new(Self::new(inner, Arc::clone(&self.meter))))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use block::testing::{Fault, FaultyDisk, Operation, Rule};
    use block::{NullDisk, RamDisk};

    use super::super::scope::Scope;
    use super::*;

    fn on_a_core(test: impl Future<Output = ()> + 'static) {
        ring::block_on(&ring::CoreConfig::default(), test).unwrap();
    }

    #[test]
    fn a_metered_disk_is_a_disk() {
        let disk = |inner: Arc<dyn BlockDevice>| -> Arc<dyn BlockDevice> {
            Arc::new(Metered::new(inner, Arc::default()))
        };
        on_a_core(async move {
            let ram = RamDisk::new(512, 4096).expect("there is memory");
            block::testing::check_device(disk(Arc::new(ram)), 7).await;
        });
    }

    #[test]
    fn what_waits_is_the_queue_and_what_is_given_up_is_no_answer() {
        on_a_core(async {
            let faulty = Arc::new(FaultyDisk::new(Arc::new(NullDisk::new(4096, 16))));
            let meter = Arc::<Meter>::default();
            let disk = Metered::new(Arc::clone(&faulty) as _, Arc::clone(&meter));
            for operation in [Operation::Read, Operation::Flush] {
                faulty.inject(Rule::always(operation, Fault::Hang));
            }
            let scope = Rc::new(Scope::default());
            let (mut read, mut flush) = scope.poll(|| (disk.read(0, 4096), disk.flush()));
            let soon = ring::timeout(Duration::from_millis(5), &mut read).await;
            assert!(soon.is_none() && meter.counted().waiting == 2);
            let soon = ring::timeout(Duration::from_millis(5), &mut flush).await;
            assert!(soon.is_none());
            drop(read);
            assert_eq!((meter.counted().waiting, meter.counted().reads.aborted), (1, 1));
            assert!(!scope.is_at_rest(), "the flush is under way");
            faulty.release();
            (&mut flush).await.expect("it is well again");
            drop(flush);
            let counted = meter.counted();
            assert_eq!((counted.waiting, counted.flushes.latency.count()), (0, 1));
            assert!(counted.flushes.latency.sum_ns >= 5_000_000, "{counted:?}");
            assert!(scope.is_at_rest());
        });
    }
}
