//! The ring itself: queueing entries, entering the kernel, taking completions.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::op::Completion;
use super::probe;

const SQ_ENTRIES: u32 = 1024;
const CQ_ENTRIES: u32 = 8192;
/// `user_data` of entries whose completion nobody waits for.
pub(super) const IGNORED: u64 = u64::MAX;

pub(crate) struct Uring {
    ring: RefCell<IoUring>,
    /// Completions being handed out; kept for its capacity.
    batch: Cell<Vec<cqueue::Entry>>,
}

impl Uring {
    /// A ring whose deferred work runs only when this thread asks for it, so that completions come
    /// in batches and no interrupt of the thread is needed.
    pub(super) fn new() -> io::Result<Uring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(CQ_ENTRIES)
            .dontfork()
            .build(SQ_ENTRIES)
            .map_err(|error| probe::explain(&error))?;
        Ok(Uring { ring: RefCell::new(ring), batch: Cell::default() })
    }

    /// Queues `entry`; it reaches the kernel at the next `enter`, at the latest at the end of the
    /// turn.
    ///
    /// # Safety
    /// What `entry` points to must stay valid until its completion was taken.
    pub(super) unsafe fn push(&self, entry: &squeue::Entry) {
        loop {
            // SAFETY: passed on to the caller.
            if unsafe { self.ring.borrow_mut().submission().push(entry) }.is_ok() {
                return;
            }
            self.enter(0, None);
        }
    }

    /// Asks the kernel to cancel the operation with this `user_data`.
    pub(super) fn cancel(&self, user_data: u64) {
        let entry = opcode::AsyncCancel::new(user_data).build();
        // SAFETY: a cancellation points to nothing.
        unsafe { self.push(&quiet(entry)) };
    }

    pub(super) fn cancel_all(&self) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        // SAFETY: a cancellation points to nothing.
        unsafe { self.push(&quiet(entry)) };
    }

    /// Submits what is queued and runs deferred work; with `want` > 0 waits for that many
    /// completions, `timeout` at most.
    pub(super) fn enter(&self, want: usize, timeout: Option<Duration>) {
        let ring = self.ring.borrow();
        let submitter = ring.submitter();
        let result = match timeout {
            None => {
                // SAFETY: the queue's state is read while nobody changes it: this thread alone
                // pushes, and no mutable borrow is out while `ring` is borrowed.
                let len = unsafe { ring.submission_shared() }.len();
                let getevents = io_uring::EnterFlags::GETEVENTS.bits();
                let len = u32::try_from(len).expect("the queue has SQ_ENTRIES at most");
                let want = u32::try_from(want).expect("callers wait for a handful");
                // SAFETY: without an argument there is no memory that the kernel could misuse;
                // the entries themselves are vouched for by `push`.
                unsafe { submitter.enter::<libc::sigset_t>(len, want, getevents, None) }
            }
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                submitter.submit_with_args(want, &SubmitArgs::new().timespec(&timespec))
            }
        };
        let Err(error) = result else { return };
        match error.raw_os_error() {
            // Interrupted, timed out, or the completion queue must be drained first: the caller's
            // loop does what is needed.
            Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => {}
            _ => panic!("io_uring_enter failed, the ring is unusable: {error}"),
        }
    }

    /// Entries queued but not yet submitted.
    pub(super) fn queued(&self) -> usize {
        self.ring.borrow_mut().submission().len()
    }

    /// Whether completions are there to be taken.
    pub(super) fn has_completions(&self) -> bool {
        !self.ring.borrow_mut().completion().is_empty()
    }

    /// Whether an `enter` would produce completions from work that is due.
    pub(super) fn has_deferred_work(&self) -> bool {
        self.ring.borrow_mut().submission().taskrun()
    }

    /// Takes all completions. `each` may queue new entries.
    pub(super) fn drain(&self, mut each: impl FnMut(u64, Completion)) {
        let mut batch = self.batch.take();
        batch.extend(self.ring.borrow_mut().completion());
        for entry in batch.drain(..) {
            each(entry.user_data(), Completion::new(entry.result(), entry.flags()));
        }
        self.batch.set(batch);
    }

    /// Registers a ring of provided buffers as group 0.
    ///
    /// # Safety
    /// `ring` must point to `entries` entries (a power of two) that stay mapped while `self` lives.
    pub(crate) unsafe fn register_bufs(
        &self,
        ring: *mut BufRingEntry,
        entries: u16,
    ) -> io::Result<()> {
        // SAFETY: passed on to the caller.
        unsafe {
            self.ring.borrow().submitter().register_buf_ring_with_flags(
                ring.addr() as u64,
                entries,
                0,
                0,
            )
        }
    }
}

fn quiet(entry: squeue::Entry) -> squeue::Entry {
    entry.user_data(IGNORED).flags(squeue::Flags::SKIP_SUCCESS)
}
