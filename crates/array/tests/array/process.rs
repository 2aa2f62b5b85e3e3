//! Disks as one process has them: when it ends it does nothing more to them.
//!
//! An array that is dropped goes on for as long as its core does, and would write its labels over
//! those of the next one, and what its checkpoint has left to do over what the next one has put there.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use block::testing::FaultyDisk;
use block::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags};
use ring::Data;

thread_local! {
    /// How many processes of this test have ended.
    static ENDED: Cell<u64> = const { Cell::new(0) };
    /// How often a disk was taken in hand.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    /// The last of those who took a disk and wrote to it, by where the disk lies in memory.
    static LAST: RefCell<HashMap<usize, u64>> = RefCell::new(HashMap::new());
}

/// Whoever has a disk now gets no answer from it any more.
pub(crate) fn end() {
    ENDED.with(|ended| ended.set(ended.get() + 1));
}

/// The process ends with all that this is, and nothing of it comes to the disks any more.
pub(crate) fn crash<T>(held: T) {
    end();
    drop(held);
}

/// A disk, in the hands of the process that there is now.
#[derive(Debug)]
pub(crate) struct Held {
    disk: Arc<dyn BlockDevice>,
    process: u64,
    /// One that is opened once more is the same disk. It is kept, as another disk may lie where one was that nobody has.
    first: Arc<FaultyDisk>,
    /// Later than those who have had the disk before.
    taken: u64,
}

impl Held {
    pub(crate) fn new(disk: &Arc<FaultyDisk>) -> Self {
        let first = Arc::clone(disk);
        let disk: Arc<dyn BlockDevice> = disk.clone();
        let taken = TAKEN.with(|taken| taken.replace(taken.get() + 1));
        Self { disk, process: ENDED.with(Cell::get), first, taken }
    }

    fn is_dead(&self) -> bool {
        self.process < ENDED.with(Cell::get)
    }

    /// # Panics
    /// Where somebody has written who took the disk later: two arrays have it.
    fn writes(&self) {
        if self.is_dead() {
            return;
        }
        let last = LAST.with_borrow_mut(|last| {
            let last = last.entry(Arc::as_ptr(&self.first).addr()).or_default();
            *last = self.taken.max(*last);
            *last
        });
        assert!(last == self.taken, "an array that was dropped writes: the test has to crash it");
    }

    fn ask<T: 'static>(&self, ask: impl FnOnce(&dyn BlockDevice) -> IoFuture<T>) -> IoFuture<T> {
        if self.is_dead() { IoFuture::boxed(std::future::pending()) } else { ask(&*self.disk) }
    }
}

impl BlockDevice for Held {
    fn reopened(&self) -> Option<Arc<dyn BlockDevice>> {
        let disk = self.disk.reopened()?;
        Some(Arc::new(Self { disk, first: Arc::clone(&self.first), ..*self }))
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.ask(|disk| disk.read(at, len))
    }

    fn write_now(&self, at: u64, data: &[u8], flags: WriteFlags) -> Option<Result<(), BlockError>> {
        self.writes();
        if self.is_dead() { None } else { self.disk.write_now(at, data, flags) }
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.writes();
        self.ask(|disk| disk.write(at, data, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        self.ask(|disk| disk.flush())
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        self.writes();
        self.ask(|disk| disk.unmap(at, len))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        self.writes();
        self.ask(|disk| disk.write_zeroes(at, len, may_unmap, flags))
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        self.writes();
        self.ask(|disk| disk.compare_and_write(at, compare, write, flags))
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.writes();
        self.ask(|disk| disk.or_write(at, data, flags))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        self.ask(|disk| disk.extent(at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::{Either, select};

    use super::*;
    use crate::common::{Shelf, bytes, data, run, write};

    /// One disk, as an array has it and then as the next one has it.
    fn twice() -> [Arc<dyn BlockDevice>; 2] {
        let shelf = Shelf::new(1, 1);
        [(); 2].map(|()| shelf.members().remove(0).device)
    }

    #[test]
    #[should_panic(expected = "the test has to crash it")]
    fn two_arrays_do_not_write_to_one_disk() {
        run(async {
            let [first, second] = twice();
            write(&first, 0, &bytes(4096, 1)).await;
            write(&second, 0, &bytes(4096, 2)).await;
            write(&first, 0, &bytes(4096, 3)).await;
        });
    }

    #[test]
    fn the_next_process_has_the_disk_for_itself() {
        run(async {
            let [first, _] = twice();
            write(&first, 0, &bytes(4096, 1)).await;
            crash(first.clone());
            let late = first.write(0, data(&bytes(4096, 3)), WriteFlags::DURABLE);
            let ended = select(late, ring::sleep(Duration::from_millis(5))).await;
            assert!(matches!(ended, Either::Right(_)), "it is answered");
        });
    }
}
