//! The device over a model: it keeps the data on another device and answers when the model says.
//!
//! Calls pass their command to the model at once. One task per device, the timekeeper, sleeps until
//! the model has the next answer and wakes who waits for it; it ends when nobody waits, and the
//! next call starts another.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ring::Data;

use super::time::{RealTime, Task, Time};
use super::{Command, Drive, DriveClass, Kind, Nanos, Ticket};
use crate::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags, arguments};

/// A disk that takes the time of a class of drives, over another device that keeps its data.
///
/// Reads and writes end when such a drive would have ended them, in real time, and some tens of
/// microseconds later for the timer; several at once overlap as they would on the drive. The
/// device below works meanwhile, so it must be faster than the drive. Its errors are passed on
/// at once. Unmapped space is given back below and costs the drive next to nothing.
///
/// The model knows no bad sectors, no error recovery and no garbage collection pauses.
#[derive(Debug, Clone)]
pub struct ModelDisk {
    below: Arc<dyn BlockDevice>,
    geometry: Geometry,
    pub(super) clock: Arc<Clock>,
}

impl ModelDisk {
    /// As slow as a drive of `class` with the size of `below`. Seeks are those of a drive that
    /// has this capacity: a small disk has the whole stroke too.
    pub fn new(class: DriveClass, below: Arc<dyn BlockDevice>) -> Self {
        Self::in_time(Arc::new(RealTime), class, below)
    }

    /// The same in another time than the real one: that of a simulation.
    pub fn in_time(time: Arc<dyn Time>, class: DriveClass, below: Arc<dyn BlockDevice>) -> Self {
        let geometry = Geometry { rotational: class.is_rotational(), ..below.geometry() };
        Self {
            clock: Arc::new(Clock::new(time, Drive::new(class, geometry.size_bytes()))),
            below,
            geometry,
        }
    }

    /// Passes a command to the model. An empty one, or one that is refused without a look at the
    /// medium, is not the model's business.
    fn time(&self, kind: Kind, at: u64, len: u64) -> Answer {
        self.clock.submit(Command { kind, at, len })
    }

    /// What `work` answers, when the model has answered too.
    fn both<T: 'static>(answer: Answer, work: IoFuture<T>) -> IoFuture<T> {
        IoFuture::boxed(async move {
            let result = work.await?;
            answer.await;
            Ok(result)
        })
    }

    /// A change that reads first: as long as a read and then a write.
    fn read_then_write<T: 'static>(
        &self,
        at: u64,
        len: u64,
        flags: WriteFlags,
        work: impl FnOnce(&dyn BlockDevice) -> IoFuture<T> + 'static,
    ) -> IoFuture<T> {
        let read = self.time(Kind::Read, at, len);
        let disk = self.clone();
        IoFuture::boxed(async move {
            read.await;
            let write = disk.time(Kind::Write { durable: flags.durable }, at, len);
            let work = work(&*disk.below);
            Self::both(write, work).await
        })
    }
}

impl BlockDevice for ModelDisk {
    /// The drive goes on as it is: only what keeps its data is opened anew.
    fn reopened(&self) -> Option<Arc<dyn BlockDevice>> {
        let below = self.below.reopened()?;
        Some(Arc::new(Self { below, geometry: self.geometry, clock: Arc::clone(&self.clock) }))
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Some(answer) = arguments::read(&self.geometry, at, len) {
            return IoFuture::ready(answer);
        }
        Self::both(self.time(Kind::Read, at, len as u64), self.below.read(at, len))
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
        if let Some(answer) = arguments::write(&self.geometry, at, data.len(), flags) {
            return IoFuture::ready(answer);
        }
        let time = self.time(Kind::Write { durable: flags.durable }, at, data.len() as u64);
        Self::both(time, self.below.write(at, data, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        Self::both(self.time(Kind::Flush, 0, 0), self.below.flush())
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        if let Some(answer) = arguments::unmap(&self.geometry, at, len) {
            return IoFuture::ready(answer);
        }
        Self::both(self.time(Kind::Trim, at, len), self.below.unmap(at, len))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write_zeroes(&self.geometry, at, len, flags) {
            return IoFuture::ready(answer);
        }
        let kind = match may_unmap {
            true => Kind::Trim,
            false => Kind::Write { durable: flags.durable },
        };
        let time = self.time(kind, at, len);
        Self::both(time, self.below.write_zeroes(at, len, may_unmap, flags))
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let answer = arguments::compare_and_write(&self.geometry, at, &compare, &write);
        if let Some(answer) = answer {
            return IoFuture::ready(answer);
        }
        self.read_then_write(at, write.len() as u64, flags, move |below| {
            below.compare_and_write(at, compare, write, flags)
        })
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::or_write(&self.geometry, at, data.len()) {
            return IoFuture::ready(answer);
        }
        self.read_then_write(at, data.len() as u64, flags, move |below| {
            below.or_write(at, data, flags)
        })
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        self.below.extent(at)
    }
}

/// A model in the time that its callers live in.
#[derive(Debug)]
pub(super) struct Clock {
    time: Arc<dyn Time>,
    /// When the drive was switched on.
    start: Duration,
    /// Held for one step of the model, never across an await.
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    drive: Drive,
    next_ticket: Ticket,
    /// Who waits, until the model has answered.
    pub(super) waiting: HashMap<Ticket, Option<Waker>>,
    /// The model's answers of one step, kept for its memory.
    done: Vec<Ticket>,
    pub(super) keeper: Keeper,
}

/// The timekeeper.
#[derive(Debug)]
pub(super) enum Keeper {
    None,
    /// It runs and has not slept yet.
    Starting,
    /// It sleeps until then.
    Until(Nanos, Waker),
}

impl Clock {
    fn new(time: Arc<dyn Time>, drive: Drive) -> Self {
        let state = State {
            drive,
            next_ticket: 0,
            waiting: HashMap::new(),
            done: Vec::new(),
            keeper: Keeper::None,
        };
        Self { start: time.now(), time, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a model")
    }

    /// Since the drive was switched on.
    fn nanos(&self) -> Nanos {
        self.time.now().saturating_sub(self.start).as_nanos() as Nanos
    }

    fn submit(self: &Arc<Self>, command: Command) -> Answer {
        let mut state = self.state();
        // Not that of the turn: an answer must not come early.
        let now = self.nanos();
        state.advance(now);
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.drive.submit(now, ticket, command);
        state.waiting.insert(ticket, None);
        self.see_to_time(state);
        Answer { clock: Arc::clone(self), ticket }
    }

    /// Sees that a timekeeper runs and sleeps no longer than to the next answer.
    fn see_to_time(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        match &state.keeper {
            Keeper::None => {
                state.keeper = Keeper::Starting;
                drop(state);
                let keeper = Timekeeper { clock: Arc::clone(self), sleep: None, ended: false };
                self.time.spawn(Box::pin(keeper));
            }
            Keeper::Until(until, waker) if state.drive.next().is_some_and(|next| next < *until) => {
                waker.wake_by_ref();
            }
            Keeper::Starting | Keeper::Until(..) => {}
        }
    }
}

impl State {
    /// Lets time pass and wakes who has an answer.
    fn advance(&mut self, now: Nanos) {
        let mut done = std::mem::take(&mut self.done);
        self.drive.advance(now, &mut done);
        for ticket in done.drain(..) {
            // Who waited may be gone: the drive did its work all the same.
            if let Some(Some(waker)) = self.waiting.remove(&ticket) {
                waker.wake();
            }
        }
        self.done = done;
    }
}

/// The model's answer to one command. Dropped, it is not waited for any more; the drive goes on.
struct Answer {
    clock: Arc<Clock>,
    ticket: Ticket,
}

impl Future for Answer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.state();
        match state.waiting.get_mut(&self.ticket) {
            None => return Poll::Ready(()),
            Some(Some(waker)) => waker.clone_from(cx.waker()),
            Some(waker) => *waker = Some(cx.waker().clone()),
        }
        // The timekeeper may have gone with its core.
        self.clock.see_to_time(state);
        Poll::Pending
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.clock.state().waiting.remove(&self.ticket);
    }
}

/// The task that keeps the time of a model.
struct Timekeeper {
    clock: Arc<Clock>,
    sleep: Option<(Nanos, Task)>,
    /// It has said that it is no more.
    ended: bool,
}

impl Future for Timekeeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let mut state = this.clock.state();
            state.advance(this.clock.nanos());
            let next = state.drive.next().filter(|_| !state.waiting.is_empty());
            let Some(next) = next else {
                state.keeper = Keeper::None;
                this.ended = true;
                return Poll::Ready(());
            };
            state.keeper = Keeper::Until(next, cx.waker().clone());
            drop(state);
            if this.sleep.as_ref().is_none_or(|(until, _)| *until != next) {
                let until = this.clock.start + Duration::from_nanos(next);
                this.sleep = Some((next, this.clock.time.sleep_until(until)));
            }
            let (_, sleep) = this.sleep.as_mut().expect("set above");
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.sleep = None;
        }
    }
}

impl Drop for Timekeeper {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Its core is gone: whoever waits on another one starts the next timekeeper there.
        let mut state = self.clock.state();
        state.keeper = Keeper::None;
        for waker in state.waiting.values().flatten() {
            waker.wake_by_ref();
        }
    }
}

impl fmt::Debug for Timekeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timekeeper")
    }
}
