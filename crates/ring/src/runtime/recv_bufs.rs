//! Receive buffers that the kernel chooses from when data is there, so that an idle connection
//! holds none.
//!
//! Only as many buffers as were lately in use at once are offered to the kernel; the others are
//! spare. The kernel takes buffers in turn, so that a few of them stay in the processor's cache,
//! where all of them would not: about 5 % less processor time for a stream of 4 KiB writes.
//!
//! Invariant: each buffer is either offered (in the ring shared with the kernel), or out (in a
//! completion not yet taken, or in one `RecvBuf`), or spare.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::Waker;

use io_uring::types::BufRingEntry;

use super::uring::Uring;
use crate::mem::Map;

pub(crate) struct RecvBufs {
    ring: Map,
    bufs: Map,
    count: u16,
    buf_bytes: usize,
    tail: Cell<u16>,
    demand: Demand,
    /// Buffers that are not offered, the one used last on top.
    spare: RefCell<Vec<u16>>,
    /// Streams that found no buffer, the longest waiting first.
    waiting: RefCell<VecDeque<Waker>>,
}

/// Fewest buffers on offer.
const OFFER_MIN: u16 = 2;
/// Buffers given back between two looks at how many are needed.
const LOOK_EVERY: u16 = 256;

/// How many buffers are where.
struct Demand {
    offered: Cell<u16>,
    out: Cell<u16>,
    /// Most that were out at once since the last look.
    out_max: Cell<u16>,
    /// How many to offer.
    wanted: Cell<u16>,
    until_look: Cell<u16>,
}

impl Demand {
    pub(crate) fn new() -> Demand {
        Demand {
            offered: Cell::new(0),
            out: Cell::new(0),
            out_max: Cell::new(0),
            wanted: Cell::new(OFFER_MIN),
            until_look: Cell::new(LOOK_EVERY),
        }
    }

    fn offer(&self) {
        self.offered.set(self.offered.get() + 1);
    }

    fn take(&self) {
        self.offered.set(self.offered.get() - 1);
        self.out.set(self.out.get() + 1);
        self.out_max.set(self.out_max.get().max(self.out.get()));
    }

    /// One has come back; now and then the offer follows what was needed.
    fn give_back(&self, count: u16) {
        self.out.set(self.out.get() - 1);
        self.until_look.set(self.until_look.get() - 1);
        if self.until_look.get() == 0 {
            self.until_look.set(LOOK_EVERY);
            self.wanted.set((self.out_max.get() + 1).clamp(OFFER_MIN.min(count), count));
            self.out_max.set(self.out.get());
        }
    }
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
        let this = Rc::new(RecvBufs {
            ring,
            bufs,
            count,
            buf_bytes,
            tail: Cell::new(0),
            demand: Demand::new(),
            spare: RefCell::new((0..count).rev().collect()),
            waiting: RefCell::default(),
        });
        this.fill_offer();
        Ok(this)
    }

    /// Offers spare buffers until as many are on offer as wanted; whether there were any.
    fn fill_offer(&self) -> bool {
        let mut any = false;
        while self.demand.offered.get() < self.demand.wanted.get() {
            let Some(buffer) = self.spare.borrow_mut().pop() else { break };
            self.provide(buffer);
            any = true;
        }
        any
    }

    /// A receive found no buffer: offers twice as many from now on. Whether there are some now.
    pub(crate) fn widen(&self) -> bool {
        self.demand.wanted.set(self.demand.wanted.get().saturating_mul(2).min(self.count));
        self.fill_offer()
    }

    /// The kernel has taken a buffer for a receive.
    pub(crate) fn taken(&self) {
        self.demand.take();
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
        self.demand.offer();
    }

    fn address(&self, buffer: u16) -> *mut u8 {
        // SAFETY: `buffer` is below `count`, so this is inside the mapping of the buffers.
        unsafe { self.bufs.ptr().as_ptr().add(usize::from(buffer) * self.buf_bytes) }
    }

    /// Takes a buffer back, and lets one waiting stream try again.
    pub(crate) fn give_back(&self, buffer: u16) {
        self.demand.give_back(self.count);
        self.spare.borrow_mut().push(buffer);
        self.fill_offer();
        self.wake_next();
    }

    /// Puts a stream at the end of the queue.
    pub(crate) fn wait(&self, waker: Waker) {
        self.waiting.borrow_mut().push_back(waker);
    }

    /// Lets one waiting stream try. Whoever was woken and then took no buffer must call this, or
    /// the others would wait although there is one.
    pub(crate) fn wake_next(&self) {
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
    pub(crate) fn new(bufs: Rc<RecvBufs>, buffer: u16, len: usize) -> RecvBuf {
        assert!(buffer < bufs.count && len <= bufs.buf_bytes, "the kernel filled a foreign buffer");
        RecvBuf { source: Some((bufs, buffer)), len }
    }

    pub(crate) fn end_of_stream() -> RecvBuf {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_follows_what_is_out_at_once() {
        let demand = Demand::new();
        for _ in 0..64 {
            demand.offer();
        }
        let round = |at_once: u16| {
            for _ in 0..at_once {
                demand.take();
            }
            for _ in 0..at_once {
                demand.give_back(64);
                demand.offer();
            }
        };
        for _ in 0..LOOK_EVERY {
            round(40);
        }
        assert_eq!(demand.wanted.get(), 41, "forty were out at once, and one is to spare");
        for _ in 0..2 * LOOK_EVERY {
            round(1);
        }
        assert_eq!(demand.wanted.get(), OFFER_MIN, "a single stream goes round in few buffers");
    }
}
