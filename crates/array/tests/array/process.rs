//! Disks as one process has them: when it ends it does nothing more to them.
//!
//! An array that is dropped goes on for as long as its core does, and would write its labels over
//! those of the next one.

use std::cell::Cell;
use std::sync::Arc;

use block::testing::FaultyDisk;
use block::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags};
use ring::Data;

thread_local! {
    /// How many processes of this test have ended.
    static ENDED: Cell<u64> = const { Cell::new(0) };
}

/// Whoever has a disk now gets no answer from it any more.
pub(crate) fn end() {
    ENDED.with(|ended| ended.set(ended.get() + 1));
}

/// A disk, in the hands of the process that there is now.
#[derive(Debug)]
pub(crate) struct Held {
    disk: Arc<dyn BlockDevice>,
    process: u64,
}

impl Held {
    pub(crate) fn new(disk: &Arc<FaultyDisk>) -> Self {
        let disk: Arc<dyn BlockDevice> = disk.clone();
        Self { disk, process: ENDED.with(Cell::get) }
    }

    fn is_dead(&self) -> bool {
        self.process < ENDED.with(Cell::get)
    }

    fn ask<T: 'static>(&self, ask: impl FnOnce(&dyn BlockDevice) -> IoFuture<T>) -> IoFuture<T> {
        if self.is_dead() { IoFuture::boxed(std::future::pending()) } else { ask(&*self.disk) }
    }
}

impl BlockDevice for Held {
    fn reopened(&self) -> Option<Arc<dyn BlockDevice>> {
        let disk = self.disk.reopened()?;
        Some(Arc::new(Self { disk, process: self.process }))
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.ask(|disk| disk.read(at, len))
    }

    fn write_now(&self, at: u64, data: &[u8], flags: WriteFlags) -> Option<Result<(), BlockError>> {
        if self.is_dead() { None } else { self.disk.write_now(at, data, flags) }
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
}
