//! Receive buffers that the kernel chooses from when data is there, so that an idle connection
//! holds none.
//!
//! Invariant: each buffer is either in the ring shared with the kernel, or in a completion not yet
//! taken, or in one `RecvBuf`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::Waker;

use io_uring::types::BufRingEntry;

use crate::mem::Map;
use crate::runtime::Uring;

pub(crate) struct RecvBufs {
    ring: Map,
    bufs: Map,
    count: u16,
    buf_bytes: usize,
    tail: Cell<u16>,
    /// Streams that found no buffer, the longest waiting first.
    waiting: RefCell<VecDeque<Waker>>,
}

impl RecvBufs {
    /// Registers `count` buffers (a power of two) with the ring of this core.
    pub(crate) fn new(uring: &Uring, count: u16, buf_bytes: usize) -> io::Result<Rc<RecvBufs>> {
        assert!(count.is_power_of_two(), "recv_bufs must be a power of two");
        let buf_bytes = buf_bytes.max(1);
        let ring = Map::anonymous(usize::from(count) * size_of::<BufRingEntry>())?;
        let bufs = Map::anonymous(usize::from(count) * buf_bytes)?;
        // SAFETY: `ring` is page-aligned and holds `count` entries. It is unmapped with the last
        // `RecvBuf` or the core, and the core keeps it until its operations have ended, after which
        // the kernel only holds on to the pages, not to the address.
        unsafe { uring.register_bufs(ring.ptr().as_ptr().cast(), count)? };
        let (tail, waiting) = (Cell::new(0), RecvBufs::no_waiters());
        let this = Rc::new(RecvBufs { ring, bufs, count, buf_bytes, tail, waiting });
        for buffer in 0..count {
            this.provide(buffer);
        }
        Ok(this)
    }

    fn no_waiters() -> RefCell<VecDeque<Waker>> {
        RefCell::default()
    }

    /// Hands a buffer to the kernel.
    fn provide(&self, buffer: u16) {
        let tail = self.tail.get();
        let index = usize::from(tail & (self.count - 1));
        let len = u32::try_from(self.buf_bytes).expect("a receive buffer is below 4 GiB");
        let base: *mut BufRingEntry = self.ring.ptr().as_ptr().cast();
        // SAFETY: `index` is below `count`, so the entry is inside the ring's mapping, which starts
        // zeroed and so holds valid entries. The kernel does not look at it before the tail passes
        // it. Only this thread makes references into the ring, one at a time. The tail field lies
        // in the first entry, two-byte aligned, and is shared with the kernel, hence atomic.
        unsafe {
            let entry = &mut *base.add(index);
            entry.set_addr(self.address(buffer).addr() as u64);
            entry.set_len(len);
            entry.set_bid(buffer);
            let shared_tail = AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut());
            shared_tail.store(tail.wrapping_add(1), Ordering::Release);
        }
        self.tail.set(tail.wrapping_add(1));
    }

    fn address(&self, buffer: u16) -> *mut u8 {
        // SAFETY: `buffer` is below `count`, so this is inside the mapping of the buffers.
        unsafe { self.bufs.ptr().as_ptr().add(usize::from(buffer) * self.buf_bytes) }
    }

    /// Returns a buffer to the kernel, and lets one waiting stream try again.
    pub(crate) fn give_back(&self, buffer: u16) {
        self.provide(buffer);
        self.wake_next();
    }

    /// Puts a stream at the end of the queue.
    pub(super) fn wait(&self, waker: Waker) {
        self.waiting.borrow_mut().push_back(waker);
    }

    /// Lets one waiting stream try. Whoever was woken and then took no buffer must call this, or
    /// the others would wait although there is one.
    pub(super) fn wake_next(&self) {
        let next = self.waiting.borrow_mut().pop_front();
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

/// Received bytes, in a buffer of the core that goes back when this is dropped. Holding on to many
/// starves the other connections: copy what must stay.
pub struct RecvBuf {
    /// `None` for the end of the stream.
    source: Option<(Rc<RecvBufs>, u16)>,
    len: usize,
}

impl RecvBuf {
    pub(super) fn new(bufs: Rc<RecvBufs>, buffer: u16, len: usize) -> RecvBuf {
        assert!(buffer < bufs.count && len <= bufs.buf_bytes, "the kernel filled a foreign buffer");
        RecvBuf { source: Some((bufs, buffer)), len }
    }

    pub(super) fn end_of_stream() -> RecvBuf {
        RecvBuf { source: None, len: 0 }
    }
}

impl Deref for RecvBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.source {
            // SAFETY: the buffer belongs to this `RecvBuf` alone until it is given back; the
            // kernel filled `len` bytes of it, and fresh mappings are initialized anyway.
            Some((bufs, buffer)) => unsafe {
                std::slice::from_raw_parts(bufs.address(*buffer), self.len)
            },
            None => &[],
        }
    }
}

impl Drop for RecvBuf {
    fn drop(&mut self) {
        if let Some((bufs, buffer)) = &self.source {
            bufs.give_back(*buffer);
        }
    }
}

impl fmt::Debug for RecvBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBuf").field("len", &self.len).finish()
    }
}
