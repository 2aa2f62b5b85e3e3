//! A simulated disk: a cache that a loss of power empties, and faults on order.
//!
//! A [`Drive`] is the hardware, which outlives the machine that uses it; a [`SimDisk`] is the
//! handle that one boot of the machine has on it, and is dead once the drive was unplugged.

mod media;
mod page;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt;
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use array::Env;
use block::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, WriteFlags,
};
use ring::{Buf, Data, Region};

use crate::env::SimEnv;
use crate::random::Random;
use crate::trace::{Kind, Step};
use media::{Media, Write};
use page::{Bytes, PAGE_BYTES};

pub(crate) use media::Mishap;

/// How a drive does, apart from its contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Nothing gets through, in either direction; the drive keeps its power.
    pub(crate) unreachable: bool,
    /// Everything takes a hundred times as long.
    pub(crate) slow: bool,
    /// There is no room for pages that hold nothing yet.
    pub(crate) full: bool,
    /// So many of the next writes fail.
    pub(crate) failing_writes: u32,
}

#[derive(Debug)]
struct State {
    media: Media,
    condition: Condition,
    /// Counts how often the drive was unplugged: handles of before are dead.
    plug: u64,
    /// Counts how often another drive took its place.
    swaps: u64,
    /// It is in the machine, not on the shelf.
    installed: bool,
}

/// The hardware. Clones are the same drive.
#[derive(Clone)]
pub(crate) struct Drive(Arc<Inner>);

struct Inner {
    env: SimEnv,
    number: usize,
    geometry: Geometry,
    random: Random,
    /// One operation in so many ends within its call.
    immediate_one_in: u64,
    state: Mutex<State>,
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk {}", self.0.number)
    }
}

impl Drive {
    /// A blank drive of `size_bytes`.
    pub(crate) fn new(env: &SimEnv, number: usize, size_bytes: u64) -> Self {
        assert!(size_bytes.is_multiple_of(PAGE_BYTES as u64), "a drive has whole pages");
        let random = env.fork_random();
        let block_bytes = *random.pick(&[512_u32, 4096]);
        let geometry = Geometry {
            physical_block_bytes: *random.pick(&[block_bytes, 4096]),
            ..Geometry::new(block_bytes, size_bytes / u64::from(block_bytes))
        };
        let media = Media::new((size_bytes / PAGE_BYTES as u64) as usize);
        let state =
            State { media, condition: Condition::default(), plug: 0, swaps: 0, installed: true };
        Self(Arc::new(Inner {
            env: env.clone(),
            number,
            geometry,
            immediate_one_in: *random.pick(&[2, 8, 64]),
            random,
            state: Mutex::new(state),
        }))
    }

    pub(crate) fn number(&self) -> usize {
        self.0.number
    }

    /// A name as an operator would see it; another one after each swap.
    pub(crate) fn name(&self) -> String {
        format!("disk{}.{}", self.0.number, self.state().swaps)
    }

    /// Whether it is in the machine.
    pub(crate) fn is_installed(&self) -> bool {
        self.state().installed
    }

    pub(crate) fn set_installed(&self, installed: bool) {
        self.0.env.note(format!("{self:?} is installed: {installed}"));
        self.state().installed = installed;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A handle for the machine, good until the drive loses its power.
    pub(crate) fn plug(&self) -> Arc<SimDisk> {
        Arc::new(SimDisk { drive: self.clone(), plug: self.state().plug })
    }

    /// The drive loses its power: all handles are dead, what was not durable may be gone.
    pub(crate) fn unplug(&self) {
        let mut state = self.state();
        state.plug += 1;
        state.media.power_cut(&self.0.random);
    }

    /// The process that used the drive ends; the drive keeps its power and its cache.
    pub(crate) fn release(&self) {
        let mut state = self.state();
        state.plug += 1;
        state.media.process_ends(&self.0.random);
    }

    pub(crate) fn condition(&self) -> Condition {
        self.state().condition
    }

    pub(crate) fn set_condition(&self, condition: Condition) {
        self.0.env.note(format!("{self:?} {condition:?}"));
        self.state().condition = condition;
    }

    /// Pages become unreadable until they are written. False if none was found.
    pub(crate) fn latent_error(&self) -> bool {
        let page = self.state().media.latent_error(&self.0.random);
        self.0.env.note(format!("{self:?} cannot read page {page:x?}"));
        page.is_some()
    }

    /// A stored bit turns over. False if nothing is stored.
    pub(crate) fn flip_bit(&self) -> bool {
        let page = self.state().media.flip_bit(&self.0.random);
        self.0.env.note(format!("{self:?} flips a bit of page {page:x?}"));
        page.is_some()
    }

    /// The next write is acknowledged and does not arrive.
    pub(crate) fn lose_write(&self) {
        self.0.env.note(format!("{self:?} will lose a write"));
        self.state().media.arm(Some(Mishap::Lost));
    }

    /// The next write lands at another place of this drive.
    pub(crate) fn misdirect_write(&self) {
        let mut state = self.state();
        let page = self.0.random.below(state.media.pages());
        self.0.env.note(format!("{self:?} will misdirect a write to page {page:#x}"));
        state.media.arm(Some(Mishap::Misdirected(page)));
    }

    /// No mishap is to come any more.
    pub(crate) fn disarm(&self) {
        self.state().media.arm(None);
    }

    /// How many pages are not what was written.
    pub(crate) fn damaged(&self) -> usize {
        self.state().media.damaged()
    }

    /// Undoes all damage: right only once nobody refers to the damaged pages.
    pub(crate) fn forgive(&self) {
        self.state().media.forgive();
    }

    /// Another drive of the same make stands in its place.
    pub(crate) fn wipe(&self) {
        let mut state = self.state();
        state.plug += 1;
        state.swaps += 1;
        state.media.wipe();
        state.condition = Condition::default();
    }

    /// `None`: within the call.
    fn latency(&self, kind: Kind) -> Option<Duration> {
        let random = &self.0.random;
        let slow = self.state().condition.slow;
        if random.one_in(self.0.immediate_one_in) && !slow {
            return None;
        }
        let micros = match (kind, random.below(64)) {
            (_, 0) => random.between(1_000, 20_000),
            (Kind::Flush, _) => random.between(50, 2_000),
            _ => random.between(10, 300),
        };
        Some(Duration::from_micros(micros * if slow { 100 } else { 1 }))
    }

    fn trace(&self, kind: Kind, at: u64, len: u64, phase: &'static str) {
        self.0.env.step(Step { disk: self.0.number, kind, at, len, phase });
    }
}

/// A handle on a drive.
#[derive(Debug)]
pub(crate) struct SimDisk {
    drive: Drive,
    plug: u64,
}

/// Labels, checkpoints and the redo area end here on the small disks of a simulation.
const TELLING_END: u64 = 0x21_0000;

/// What an operation is, for the trace and the latency.
#[derive(Debug, Clone, Copy)]
struct Operation {
    kind: Kind,
    at: u64,
    len: u64,
}

impl SimDisk {
    /// Runs `end` when the operation has taken its time, even if nobody waits for it: a drive does
    /// not know that its machine has lost interest. `end` is told whether the drive is there.
    fn submit<T: 'static>(
        &self,
        operation: Operation,
        end: impl FnOnce(&mut State, &Random, Result<(), BlockError>) -> Result<T, BlockError> + 'static,
    ) -> IoFuture<T> {
        let Operation { kind, at, len } = operation;
        let env = self.drive.0.env.clone();
        if env.is_dead() {
            return IoFuture::boxed(pending());
        }
        if matches!(kind, Kind::Write | Kind::WriteDurable) && at < TELLING_END {
            env.telling_write();
        }
        let (drive, plug) = (self.drive.clone(), self.plug);
        let finish = move || {
            let mut state = drive.state();
            let there = state.plug == plug && !state.condition.unreachable;
            let there = if there { Ok(()) } else { Err(BlockError::Medium { at }) };
            let result = end(&mut state, &drive.0.random, there);
            drop(state);
            drive.trace(kind, at, len, if result.is_ok() { "done" } else { "failed" });
            result
        };
        let Some(latency) = self.drive.latency(kind) else { return IoFuture::ready(finish()) };
        self.drive.trace(kind, at, len, "begins");
        let answer = Rc::new(RefCell::new((None, None::<Waker>)));
        let sender = Rc::clone(&answer);
        env.clone().spawn(Box::pin(async move {
            env.sleep(latency).await;
            let result = finish();
            let waker = {
                let mut answer = sender.borrow_mut();
                answer.0 = Some(result);
                answer.1.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
        IoFuture::boxed(poll_fn(move |cx| {
            let mut answer = answer.borrow_mut();
            match answer.0.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    answer.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }

    /// Refuses what an array must never ask of a disk.
    fn check(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let aligned = (at | len).is_multiple_of(PAGE_BYTES as u64);
        assert!(aligned, "an array works in blocks of 4 KiB, not on {at:#x}+{len:#x}");
        self.drive.0.geometry.check(at, len)
    }

    fn change(
        &self,
        operation: Operation,
        pages: Vec<Bytes>,
        durable: bool,
        data: Option<Data>,
    ) -> IoFuture<()> {
        let Operation { at, len, .. } = operation;
        if let Err(error) = self.check(at, len) {
            return IoFuture::ready(Err(error));
        }
        if len == 0 {
            return IoFuture::ready(Ok(()));
        }
        let write = Write { page: at / PAGE_BYTES as u64, pages, durable };
        let mut state = self.drive.state();
        if self.drive.0.env.is_dead() || state.plug != self.plug || state.condition.unreachable {
            drop(state);
            return self.submit(operation, move |_, _, _| Err(BlockError::Medium { at }));
        }
        let number = state.media.begin(write);
        drop(state);
        self.submit(operation, move |state, random, there| {
            // Memory that may change is read at any moment while the write runs.
            if let Some(data) = data
                && random.one_in(2)
            {
                state.media.refresh(number, pages_of(&data));
            }
            match there.and_then(|()| state.accepts(operation)) {
                Ok(()) => state.media.complete(number).ok_or(BlockError::Medium { at }),
                Err(error) => {
                    state.media.fail(number, random);
                    Err(error)
                }
            }
        })
    }
}

impl State {
    /// Whether a change can be made; if not, any part of it may have been.
    fn accepts(&mut self, Operation { at, len, .. }: Operation) -> Result<(), BlockError> {
        let (first, pages) = (at / PAGE_BYTES as u64, len / PAGE_BYTES as u64);
        if self.condition.full && (first..first + pages).any(|page| !self.media.holds(page)) {
            return Err(BlockError::NoSpace);
        }
        if self.condition.failing_writes > 0 {
            self.condition.failing_writes -= 1;
            return Err(BlockError::Medium { at });
        }
        Ok(())
    }
}

/// The contents of `data` as pages, zeroes as holes no less than other bytes.
fn pages_of(data: &Data) -> Vec<Bytes> {
    let page = |at| {
        let mut bytes = [0; PAGE_BYTES];
        data.copy_to(at, &mut bytes);
        Some(Arc::new(bytes))
    };
    (0..data.len()).step_by(PAGE_BYTES).map(page).collect()
}

/// Makes what a read returns; sometimes as memory that cannot be borrowed, which devices may lend.
fn data_of(pages: &[Bytes], random: &Random) -> Result<Data, BlockError> {
    let len = pages.len() * PAGE_BYTES;
    if random.one_in(16) {
        let region = Region::new(len).map_err(|_| BlockError::NoMemory)?;
        for (at, page) in pages.iter().enumerate() {
            if let Some(bytes) = page {
                region.write(at * PAGE_BYTES, &bytes[..]);
            }
        }
        return Ok(region.slice(0, len));
    }
    let mut buf = Buf::alloc(len).ok_or(BlockError::NoMemory)?;
    for (to, page) in buf.chunks_mut(PAGE_BYTES).zip(pages) {
        match page {
            Some(bytes) => to.copy_from_slice(&bytes[..]),
            None => to.fill(0),
        }
    }
    Ok(buf.freeze())
}

impl BlockDevice for SimDisk {
    fn geometry(&self) -> Geometry {
        self.drive.0.geometry
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Err(error) = self.check(at, len as u64) {
            return IoFuture::ready(Err(error));
        }
        let operation = Operation { kind: Kind::Read, at, len: len as u64 };
        self.submit(operation, move |state, random, there| {
            there?;
            let first = at / PAGE_BYTES as u64;
            let pages = first..first + (len / PAGE_BYTES) as u64;
            let pages: Result<Vec<_>, _> =
                pages.map(|page| state.media.read(page, random)).collect();
            data_of(&pages?, random)
        })
    }

    fn write_now(
        &self,
        _at: u64,
        _bytes: &[u8],
        _flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let kind = if flags.durable { Kind::WriteDurable } else { Kind::Write };
        let operation = Operation { kind, at, len: data.len() as u64 };
        let pages = pages_of(&data);
        let moving = data.as_slice().is_none().then_some(data);
        self.change(operation, pages, flags.durable, moving)
    }

    fn flush(&self) -> IoFuture<()> {
        let operation = Operation { kind: Kind::Flush, at: 0, len: 0 };
        let until = self.drive.state().media.flush_begins();
        self.submit(operation, move |state, _, there| {
            there?;
            state.media.flush_ends(until);
            Ok(())
        })
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        let pages = vec![None; (len / PAGE_BYTES as u64) as usize];
        self.change(Operation { kind: Kind::Unmap, at, len }, pages, false, None)
    }

    fn write_zeroes(&self, at: u64, len: u64, _unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        let kind = if flags.durable { Kind::ZeroDurable } else { Kind::Zero };
        let pages = vec![None; (len / PAGE_BYTES as u64) as usize];
        self.change(Operation { kind, at, len }, pages, flags.durable, None)
    }

    fn compare_and_write(&self, _: u64, _: Data, _: Data, _: WriteFlags) -> IoFuture<Compared> {
        IoFuture::ready(Err(BlockError::Unsupported))
    }

    fn or_write(&self, _: u64, _: Data, _: WriteFlags) -> IoFuture<()> {
        IoFuture::ready(Err(BlockError::Unsupported))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        let size_bytes = self.drive.0.geometry.size_bytes();
        if at >= size_bytes {
            return IoFuture::ready(Err(BlockError::OutOfRange { at, len: 0, size_bytes }));
        }
        let held = self.drive.state().media.holds(at / PAGE_BYTES as u64);
        let state = if held { ExtentState::Mapped } else { ExtentState::Deallocated };
        let len_bytes = PAGE_BYTES as u64 - at % PAGE_BYTES as u64;
        IoFuture::ready(Ok(Extent { len_bytes, state }))
    }
}
