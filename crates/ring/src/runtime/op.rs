//! Operations that the kernel works on.
//!
//! Invariant: an operation's slot, with the buffers and the descriptor that its entry names, lives
//! until the kernel has posted the operation's last completion. The future may go earlier; the
//! operation is then cancelled and its slot becomes an orphan.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use io_uring::types::Fd;
use io_uring::{cqueue, squeue};
use slab::Slab;

use super::Core;
use super::batch::SendBatch;
use super::recv_bufs::RecvBufs;
use super::uring::IGNORED;
use crate::mem::{Buf, Data};

/// What the kernel said about an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    result: i32,
    flags: u32,
}

impl Completion {
    pub(super) fn new(result: i32, flags: u32) -> Completion {
        Completion { result, flags }
    }

    /// The count or descriptor, or the error.
    pub(crate) fn result(self) -> io::Result<usize> {
        usize::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(-self.result))
    }

    /// The provided buffer that was filled.
    pub(crate) fn buffer(self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }

    /// Whether more data waits in the socket.
    pub(crate) fn more_waits(self) -> bool {
        cqueue::sock_nonempty(self.flags)
    }

    fn is_last(self) -> bool {
        !cqueue::more(self.flags)
    }
}

/// The descriptor of an operation, kept open until the operation is over so that its number cannot
/// come to mean another file.
#[derive(Clone)]
pub(crate) enum FdRef {
    Local(Rc<OwnedFd>),
    Shared(Arc<OwnedFd>),
}

impl FdRef {
    pub(crate) fn raw(&self) -> Fd {
        match self {
            FdRef::Local(fd) => Fd(fd.as_raw_fd()),
            FdRef::Shared(fd) => Fd(fd.as_raw_fd()),
        }
    }
}

/// What an operation reads from or writes to.
pub(crate) enum Kept {
    Nothing,
    Buf(Buf),
    Batch(SendBatch),
    /// Held only for its owner's sake: the kernel reads the bytes.
    Data {
        _data: Data,
    },
    Word {
        _word: Box<u64>,
    },
    /// An accept: its results are descriptors, to be closed if nobody takes them.
    Accept,
}

enum State {
    Waiting(Option<Waker>),
    Done(Completion),
    /// Posts many completions.
    Many {
        ready: VecDeque<Completion>,
        waker: Option<Waker>,
        over: bool,
    },
    /// The future is gone.
    Orphan,
}

struct Slot {
    state: State,
    kept: Kept,
    _fd: FdRef,
}

#[derive(Default)]
pub(super) struct Ops {
    slots: RefCell<Slab<Slot>>,
    in_flight: Cell<usize>,
}

impl Ops {
    /// Operations whose last completion is outstanding.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// Gives up the memory that the kernel may still write to.
    pub(super) fn leak(&self) {
        std::mem::forget(self.slots.take());
        self.in_flight.set(0);
    }

    pub(super) fn complete(&self, user_data: u64, completion: Completion, bufs: &Rc<RecvBufs>) {
        if user_data == IGNORED {
            return;
        }
        if completion.is_last() {
            self.in_flight.set(self.in_flight.get() - 1);
        }
        if completion.buffer().is_some() {
            bufs.taken();
        }
        let key = usize::try_from(user_data).expect("user_data is a slab key");
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[key];
        let waker = match &mut slot.state {
            State::Waiting(waker) => {
                let waker = waker.take();
                slot.state = State::Done(completion);
                waker
            }
            State::Many { ready, waker, over } => {
                ready.push_back(completion);
                *over = completion.is_last();
                waker.take()
            }
            State::Done(_) => unreachable!("a single-shot operation completes once"),
            State::Orphan => {
                discard(&slot.kept, completion, bufs);
                let gone = completion.is_last().then(|| slots.remove(key));
                // What the slot kept may close a descriptor or return a buffer: not under borrow.
                drop(slots);
                drop(gone);
                return;
            }
        };
        drop(slots);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Frees what a completion that nobody takes brought along.
fn discard(kept: &Kept, completion: Completion, bufs: &Rc<RecvBufs>) {
    if let Some(buffer) = completion.buffer() {
        bufs.give_back(buffer);
    }
    if matches!(kept, Kept::Accept) && completion.result >= 0 {
        // SAFETY: a successful accept returned this descriptor and nobody else has seen it.
        drop(unsafe { OwnedFd::from_raw_fd(completion.result) });
    }
}

/// An operation under way. Dropping it cancels it, soundly: see the module's text.
pub(crate) struct Op {
    core: Rc<Core>,
    /// `None` once the slot is given up.
    key: Option<usize>,
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Op").field(&self.key).finish()
    }
}

impl Op {
    /// Queues an entry that completes once.
    ///
    /// # Safety
    /// Whatever `entry` points to must be owned by `kept`, at an address that moving `kept` does
    /// not change, or be static; its descriptor must be `fd`.
    pub(crate) unsafe fn start(entry: squeue::Entry, fd: FdRef, kept: Kept) -> Op {
        // SAFETY: passed on to the caller.
        unsafe { Op::start_as(State::Waiting(None), entry, fd, kept) }
    }

    /// Queues an entry that completes many times.
    ///
    /// # Safety
    /// As for `start`.
    pub(crate) unsafe fn start_many(entry: squeue::Entry, fd: FdRef, kept: Kept) -> Op {
        let state = State::Many { ready: VecDeque::new(), waker: None, over: false };
        // SAFETY: passed on to the caller.
        unsafe { Op::start_as(state, entry, fd, kept) }
    }

    /// # Safety
    /// As for `start`.
    unsafe fn start_as(state: State, entry: squeue::Entry, fd: FdRef, kept: Kept) -> Op {
        let core = Core::current();
        let key = core.ops.slots.borrow_mut().insert(Slot { state, kept, _fd: fd });
        core.ops.in_flight.set(core.ops.in_flight.get() + 1);
        // SAFETY: the slot keeps what the entry points to until the last completion was taken.
        unsafe { core.uring.push(&entry.user_data(key as u64)) };
        Op { core, key: Some(key) }
    }

    /// The result and what was kept.
    ///
    /// # Panics
    /// When polled again after that.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Completion, Kept)> {
        let key = self.key.expect("polled after completion");
        let mut slots = self.core.ops.slots.borrow_mut();
        match &mut slots[key].state {
            State::Done(completion) => {
                let completion = *completion;
                let slot = slots.remove(key);
                drop(slots);
                self.key = None;
                Poll::Ready((completion, slot.kept))
            }
            State::Waiting(waker) => {
                store(waker, cx);
                Poll::Pending
            }
            State::Many { .. } | State::Orphan => {
                unreachable!("poll is for single-shot operations")
            }
        }
    }

    /// The next completion of an operation that posts many; `None` after the last one.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Completion>> {
        let Some(key) = self.key else { return Poll::Ready(None) };
        let mut slots = self.core.ops.slots.borrow_mut();
        let State::Many { ready, waker, over } = &mut slots[key].state else {
            unreachable!("poll_next is for operations that post many completions");
        };
        match ready.pop_front() {
            Some(completion) => Poll::Ready(Some(completion)),
            None if *over => {
                let slot = slots.remove(key);
                drop(slots);
                drop(slot);
                self.key = None;
                Poll::Ready(None)
            }
            None => {
                store(waker, cx);
                Poll::Pending
            }
        }
    }
}

fn store(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut slots = self.core.ops.slots.borrow_mut();
        let Some(slot) = slots.get_mut(key) else { return }; // leaked at shutdown
        let bufs = &self.core.recv_bufs;
        let over = match std::mem::replace(&mut slot.state, State::Orphan) {
            State::Done(completion) => {
                discard(&slot.kept, completion, bufs);
                true
            }
            State::Many { ready, over, .. } => {
                for completion in ready {
                    discard(&slot.kept, completion, bufs);
                }
                over
            }
            State::Waiting(_) | State::Orphan => false,
        };
        let gone = over.then(|| slots.remove(key));
        drop(slots);
        drop(gone);
        if !over {
            self.core.uring.cancel(key as u64);
        }
    }
}
