//! A disk that notes how long it took.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;
use block::{Compared, Extent, Geometry, IoFuture, WriteFlags};
use ring::Data;

/// Takes a time for each I/O, and notes what it really took.
#[derive(Debug)]
pub(super) struct TimedDisk {
    inner: Arc<dyn BlockDevice>,
    time: Duration,
    ios: AtomicU64,
    pause: Mutex<(u64, Duration)>,
    until: Arc<Mutex<Option<Instant>>>,
    took: Arc<Mutex<Vec<Duration>>>,
    places: Mutex<Vec<u64>>,
}

impl TimedDisk {
    pub(super) fn new(inner: Arc<dyn BlockDevice>, time: Duration) -> Self {
        let pause = Mutex::new((u64::MAX, Duration::ZERO));
        let (until, took, places) = Default::default();
        Self { inner, time, ios: AtomicU64::new(0), pause, until, took, places }
    }

    /// From this I/O on nothing ends for so long.
    pub(super) fn pause_at(&self, io: u64, length: Duration) {
        *self.pause.lock().unwrap() = (io, length);
    }

    /// What all I/Os took, the shortest first.
    pub(super) fn took(&self) -> Vec<Duration> {
        let mut took = self.took.lock().unwrap().clone();
        took.sort();
        took
    }

    /// Where reads began, in the order in which they were asked for.
    pub(super) fn places(&self) -> Vec<u64> {
        self.places.lock().unwrap().clone()
    }

    fn timed<T: 'static>(&self, begin: impl FnOnce() -> IoFuture<T>) -> IoFuture<T> {
        let began = Instant::now();
        let (at, length) = *self.pause.lock().unwrap();
        if self.ios.fetch_add(1, Ordering::Relaxed) == at {
            *self.until.lock().unwrap() = Some(began + length);
        }
        let (work, time) = (begin(), self.time);
        let (until, took) = (self.until.clone(), self.took.clone());
        IoFuture::boxed(async move {
            if !time.is_zero() {
                ring::sleep(time).await;
            }
            let until = *until.lock().unwrap();
            if let Some(until) = until.filter(|until| *until > Instant::now()) {
                ring::sleep_until(until).await;
            }
            let outcome = work.await;
            took.lock().unwrap().push(began.elapsed());
            outcome
        })
    }
}

impl BlockDevice for TimedDisk {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.places.lock().unwrap().push(at);
        self.timed(|| self.inner.read(at, len))
    }

    fn write_now(&self, _: u64, _: &[u8], _: WriteFlags) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.timed(|| self.inner.write(at, data, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        self.inner.flush()
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        self.inner.unmap(at, len)
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        self.inner.write_zeroes(at, len, may_unmap, flags)
    }

    fn compare_and_write(
        &self,
        at: u64,
        a: Data,
        b: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        self.inner.compare_and_write(at, a, b, flags)
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.inner.or_write(at, data, flags)
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        self.inner.extent(at)
    }
}
