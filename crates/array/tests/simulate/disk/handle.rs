//! The handle that one boot of a machine has on a drive.

use std::cell::{OnceCell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use array::Env;
use block::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, WriteFlags,
};
use ring::{Buf, Data, Region};

use super::media::Write;
use super::page::{Bytes, PAGE_BYTES};
use super::{Condition, Drive, State, TELLING_END};
use crate::memory::enough;
use crate::random::Random;
use crate::trace::{Kind, Step};

/// A handle on a drive.
#[derive(Debug)]
pub(crate) struct SimDisk {
    pub(super) drive: Drive,
    pub(super) plug: u64,
}

/// How often a drive that has fallen silent is asked whether it still is.
const SILENCE: Duration = Duration::from_millis(500);

/// A kernel waits so long for the answer of a drive, and makes it an error then.
const PATIENCE: Duration = Duration::from_secs(180);

/// What an operation is, for the trace and the latency.
#[derive(Debug, Clone, Copy)]
struct Operation {
    kind: Kind,
    at: u64,
    len: u64,
}

impl Drive {
    /// `None`: within the call.
    fn latency(&self, kind: Kind) -> Option<Duration> {
        let random = &self.0.random;
        let Condition { slow, silent, .. } = self.state().condition;
        if random.one_in(self.0.immediate_one_in) && !slow && !silent {
            return None;
        }
        let micros = match (kind, random.below(64)) {
            (_, 0) => random.between(1_000, 20_000),
            (Kind::Flush, _) => random.between(50, 2_000),
            _ => random.between(10, 300),
        };
        Some(Duration::from_micros(micros * if slow { 100 } else { 1 }))
    }

    /// Whether a request of this handle has to wait for its answer.
    fn is_silent(&self, plug: u64) -> bool {
        let state = self.state();
        state.plug == plug && state.condition.silent
    }

    fn trace(&self, kind: Kind, at: u64, len: u64, phase: &'static str) {
        self.0.env.step(Step { disk: self.0.number, kind, at, len, phase });
    }
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
            let answers = !state.condition.unreachable && !state.condition.silent;
            let there = state.plug == plug && answers && !state.fails(kind);
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
        let (drive, plug) = (self.drive.clone(), self.plug);
        env.clone().spawn(Box::pin(async move {
            env.sleep(latency).await;
            let late = env.now() + PATIENCE;
            while drive.is_silent(plug) && env.now() < late {
                env.sleep(SILENCE).await;
            }
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
    /// Whether a read or a flush is one of those that fail.
    fn fails(&mut self, kind: Kind) -> bool {
        let left = match kind {
            Kind::Read => &mut self.condition.failing_reads,
            Kind::Flush => &mut self.condition.failing_flushes,
            _ => return false,
        };
        let fails = *left > 0;
        *left -= u32::from(fails);
        fails
    }

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

/// Longest run of zeroes that is lent out instead of made.
const HOLES_BYTES: usize = 1 << 20;

thread_local! {
    static HOLES: OnceCell<Option<Data>> = const { OnceCell::new() };
}

/// Makes what a read returns; sometimes as memory that cannot be borrowed, which devices may lend.
fn data_of(pages: &[Bytes], random: &Random) -> Result<Data, BlockError> {
    let len = pages.len() * PAGE_BYTES;
    if len <= HOLES_BYTES && pages.iter().all(Option::is_none) {
        // Openings read whole rings that hold nothing.
        return HOLES.with(|holes| {
            holes
                .get_or_init(|| enough(|| Buf::zeroed(HOLES_BYTES)).map(Buf::freeze))
                .as_ref()
                .map(|holes| holes.slice(0..len))
                .ok_or(BlockError::NoMemory)
        });
    }
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
