//! Buffers from a pool per thread, in size classes, under a budget.
//!
//! A `Slot` is one piece of a mapping together with its reference count. Slots are made once and
//! recycled with their `Rc`, so that taking, sharing and giving back a buffer never allocates.
//!
//! Invariant: `mapped_bytes` is the sum of the capacities of all slots, in use or cached, and
//! never exceeds `budget_bytes`; buffers take more than `budget_bytes - reserve_bytes` only in
//! futures [`with_reserve`].

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut, Range};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use super::{Data, Map, PAGE_BYTES};

const CLASS_BYTES_MAX: usize = 1 << 20;
const CLASSES: usize = (CLASS_BYTES_MAX / PAGE_BYTES).ilog2() as usize + 1;
/// Of larger buffers, each a mapping of its own, so many are kept for others of the same size: whoever
/// reads a journal or moves large blocks uses one after the other, and the kernel takes longer to map
/// and clear a megabyte than a disk of memory to read it.
const LARGE_KEPT_MAX: usize = 4;
/// Slots are cut from mappings of this size.
const CHUNK_BYTES: usize = 4 << 20;
const BUDGET_BYTES_DEFAULT: usize = 256 << 20;

thread_local! {
    static POOL: Rc<Pool> = Rc::new(Pool::new());
}

struct Pool {
    /// Unused slots by class; the one freed last is still in the cache and goes out first.
    free: RefCell<[Vec<Rc<Slot>>; CLASSES]>,
    /// Unused slots above the largest class, the one freed last at the end.
    large: RefCell<Vec<Rc<Slot>>>,
    /// The mapping that new slots are cut from, and how much of it is taken.
    chunk: RefCell<Option<(Rc<Map>, usize)>>,
    budget_bytes: Cell<usize>,
    /// Of the budget, for those who give memory back to all others.
    reserve_bytes: Cell<usize>,
    /// Whether the future that is polled now may take the reserve.
    may_use_reserve: Cell<bool>,
    mapped_bytes: Cell<usize>,
    used_bytes: Cell<usize>,
    /// One in so many requests is refused; 0 refuses none.
    refuse_one_in: Cell<u32>,
    chance: Cell<u64>,
}

struct Slot {
    ptr: NonNull<u8>,
    cap: usize,
    /// Where `ptr` lies in `map`.
    at: usize,
    map: Rc<Map>,
    pool: Weak<Pool>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.map.release(self.at, self.cap);
        if let Some(pool) = self.pool.upgrade() {
            pool.mapped_bytes.set(pool.mapped_bytes.get() - self.cap);
        }
    }
}

fn class_of(cap: usize) -> usize {
    (cap / PAGE_BYTES).ilog2() as usize
}

/// What a buffer of some bytes takes.
fn capacity_of(len: usize) -> Option<usize> {
    match len {
        0..=CLASS_BYTES_MAX => Some(len.max(PAGE_BYTES).next_power_of_two()),
        _ => len.checked_next_multiple_of(PAGE_BYTES),
    }
}

impl Pool {
    fn new() -> Pool {
        Pool {
            free: RefCell::default(),
            large: RefCell::default(),
            chunk: RefCell::new(None),
            budget_bytes: Cell::new(BUDGET_BYTES_DEFAULT),
            reserve_bytes: Cell::new(0),
            may_use_reserve: Cell::new(false),
            mapped_bytes: Cell::new(0),
            used_bytes: Cell::new(0),
            refuse_one_in: Cell::new(0),
            chance: Cell::new(1),
        }
    }

    /// Memory fails because a test wants it to: by chance, so that whoever tries again gets it, and
    /// in the same way each time.
    fn is_refused(&self) -> bool {
        let one_in = self.refuse_one_in.get();
        one_in > 0 && {
            // The multiplier of MMIX; the low bits of such numbers are poor.
            let next = self.chance.get().wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            self.chance.set(next);
            (next >> 33).is_multiple_of(u64::from(one_in))
        }
    }

    fn take(self: &Rc<Pool>, len: usize) -> Option<SlotRef> {
        let cap = capacity_of(len)?;
        if self.is_refused() {
            return None;
        }
        let limit_bytes = match self.may_use_reserve.get() {
            true => self.budget_bytes.get(),
            false => self.open_bytes(),
        };
        if cap > limit_bytes.saturating_sub(self.used_bytes.get()) {
            return None;
        }
        let slot = match self.cached(cap) {
            Some(slot) => slot,
            None => self.make(cap)?,
        };
        self.used_bytes.set(self.used_bytes.get() + cap);
        Some(SlotRef(Some(slot)))
    }

    /// An unused slot of exactly this capacity.
    fn cached(&self, cap: usize) -> Option<Rc<Slot>> {
        if cap <= CLASS_BYTES_MAX {
            return self.free.borrow_mut()[class_of(cap)].pop();
        }
        let mut large = self.large.borrow_mut();
        let at = large.iter().rposition(|slot| slot.cap == cap)?;
        Some(large.remove(at))
    }

    /// What all may use: at least half of the budget, however much is asked to be reserved.
    fn open_bytes(&self) -> usize {
        let budget_bytes = self.budget_bytes.get();
        budget_bytes - self.reserve_bytes.get().min(budget_bytes / 2)
    }

    fn make(self: &Rc<Pool>, cap: usize) -> Option<Rc<Slot>> {
        if !self.make_room(cap) {
            return None;
        }
        let (map, at) = if cap > CLASS_BYTES_MAX {
            (Rc::new(Map::anonymous(cap).ok()?), 0)
        } else {
            self.cut(cap)?
        };
        self.mapped_bytes.set(self.mapped_bytes.get() + cap);
        // SAFETY: `at + cap` is within the mapping, by `cut` or because the map is `cap` long.
        let ptr = unsafe { map.ptr().add(at) };
        Some(Rc::new(Slot { ptr, cap, at, map, pool: Rc::downgrade(self) }))
    }

    /// Drops cached slots, the largest first, until `cap` more bytes fit into the budget.
    fn make_room(&self, cap: usize) -> bool {
        let fits = || cap <= self.budget_bytes.get().saturating_sub(self.mapped_bytes.get());
        let (mut free, mut large) = (self.free.borrow_mut(), self.large.borrow_mut());
        for class in std::iter::once(&mut *large).chain(free.iter_mut().rev()) {
            while !fits() && class.pop().is_some() {}
        }
        fits()
    }

    fn cut(&self, cap: usize) -> Option<(Rc<Map>, usize)> {
        let mut chunk = self.chunk.borrow_mut();
        let (map, taken) = match chunk.take() {
            Some((map, taken)) if taken + cap <= CHUNK_BYTES => (map, taken),
            _ => (Rc::new(Map::anonymous(CHUNK_BYTES).ok()?), 0),
        };
        *chunk = Some((map.clone(), taken + cap));
        Some((map, taken))
    }

    fn give_back(&self, slot: Rc<Slot>) {
        self.used_bytes.set(self.used_bytes.get() - slot.cap);
        if slot.cap <= CLASS_BYTES_MAX {
            return self.free.borrow_mut()[class_of(slot.cap)].push(slot);
        }
        let mut large = self.large.borrow_mut();
        large.push(slot);
        if large.len() > LARGE_KEPT_MAX {
            large.remove(0);
        }
    }
}

/// A counted reference to a slot; the last one returns it to its pool. `None` for no bytes, and during
/// drop.
pub(super) struct SlotRef(Option<Rc<Slot>>);

impl SlotRef {
    fn slot(&self) -> &Rc<Slot> {
        self.0.as_ref().expect("it was taken for some bytes")
    }
}

impl Clone for SlotRef {
    fn clone(&self) -> SlotRef {
        SlotRef(self.0.clone())
    }
}

impl Drop for SlotRef {
    fn drop(&mut self) {
        let Some(slot) = self.0.take() else { return };
        if Rc::strong_count(&slot) == 1
            && let Some(pool) = slot.pool.upgrade()
        {
            pool.give_back(slot);
        }
    }
}

/// Refuses one in so many requests for a buffer of this thread, for tests; 0 refuses none. Which ones
/// follows from `seed`, where there is one, else from those before.
pub fn refuse_one_in(requests: u32, seed: Option<u64>) {
    POOL.with(|pool| {
        pool.refuse_one_in.set(requests);
        pool.chance.set(seed.unwrap_or(pool.chance.get()));
    });
}

/// Sets how many bytes this thread's buffers may take, in use and cached together. A core does so
/// when it begins; tests do, to let memory run out and come back.
pub fn set_pool_budget(bytes: usize) {
    POOL.with(|pool| pool.budget_bytes.set(bytes));
}

/// Keeps so much of this thread's budget, half of it at most, for futures [`with_reserve`].
pub fn keep_pool_reserve(bytes: usize) {
    POOL.with(|pool| pool.reserve_bytes.set(bytes));
}

/// What of this thread's budget is kept for futures [`with_reserve`].
pub fn pool_reserve() -> usize {
    POOL.with(|pool| pool.budget_bytes.get() - pool.open_bytes())
}

/// Lets `future` take what is kept of the pool when all else is used up: for work that others wait
/// for with their buffers in hand, which would wait for them in turn. It must give back what it
/// takes without waiting for anybody who is not `with_reserve` too.
pub fn with_reserve<F: Future>(future: F) -> impl Future<Output = F::Output> {
    WithReserve(Box::pin(future))
}

struct WithReserve<F>(Pin<Box<F>>);

impl<F: Future> Future for WithReserve<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        /// What may be taken is as it was, whatever happens while the future is polled.
        struct Before(bool);
        impl Drop for Before {
            fn drop(&mut self) {
                POOL.with(|pool| pool.may_use_reserve.set(self.0));
            }
        }
        let _before = Before(POOL.with(|pool| pool.may_use_reserve.replace(true)));
        self.0.as_mut().poll(cx)
    }
}

/// How full this thread's pool is, for flow control: close the window before `used` meets `budget`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUsage {
    /// Bytes in buffers that somebody holds, rounded up to their size classes.
    pub used_bytes: usize,
    /// What all buffers of this thread together may take, without what is kept in reserve.
    pub budget_bytes: usize,
}

/// The state of this thread's pool.
pub fn pool_usage() -> PoolUsage {
    POOL.with(|pool| PoolUsage {
        used_bytes: pool.used_bytes.get(),
        budget_bytes: pool.open_bytes(),
    })
}

/// An owned buffer of this thread's pool: 4096-aligned, its contents initialized but arbitrary
/// (whatever its last user left).
pub struct Buf {
    slot: SlotRef,
    ptr: NonNull<u8>,
    len: usize,
}

impl Buf {
    /// A buffer of `len` bytes, or `None` when that would exceed the budget of this thread's pool
    /// (`CoreConfig::buf_budget_bytes`). Capacity is rounded up: to a power of two from 4 KiB to
    /// 1 MiB, above that to whole pages that are mapped for this buffer alone. Nothing takes nothing:
    /// see [`empty`](Self::empty).
    pub fn alloc(len: usize) -> Option<Buf> {
        if len == 0 {
            return Some(Buf::empty());
        }
        let slot = POOL.try_with(|pool| pool.take(len)).ok()??;
        let ptr = slot.slot().ptr;
        Some(Buf { slot, ptr, len })
    }

    /// Bytes of the pool that a buffer of `len` bytes takes: none for none, else its size class.
    #[must_use]
    pub fn capacity_of(len: usize) -> usize {
        if len == 0 { 0 } else { capacity_of(len).unwrap_or(usize::MAX) }
    }

    /// A buffer of no bytes and no memory, which there is however full the pool is.
    #[must_use]
    pub fn empty() -> Buf {
        let at = std::ptr::without_provenance_mut(PAGE_BYTES);
        Buf { slot: SlotRef(None), ptr: NonNull::new(at).expect("no null"), len: 0 }
    }

    /// Like [`Buf::alloc`], filled with zeroes.
    pub fn zeroed(len: usize) -> Option<Buf> {
        let mut buf = Buf::alloc(len)?;
        buf.fill(0);
        Some(buf)
    }

    /// Shortens the buffer to `len` bytes; no effect when it is shorter already.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// This buffer as shared, read-only data.
    pub fn freeze(self) -> Data {
        let Buf { slot, ptr, len } = self;
        Data::of_slot(slot, ptr, len)
    }

    /// The address of `range`, for the kernel to read or fill.
    pub(crate) fn part(&mut self, range: &Range<usize>) -> (*mut u8, u32) {
        assert!(range.start <= range.end && range.end <= self.len, "range outside the buffer");
        let len = u32::try_from(range.end - range.start).expect("one I/O is below 4 GiB");
        // SAFETY: `range.start` is inside the buffer, checked above.
        (unsafe { self.ptr.as_ptr().add(range.start) }, len)
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slot holds `len` initialized bytes at `ptr` (fresh mappings are zero), and
        // this `Buf` is its only user.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cap = self.slot.0.as_ref().map_or(0, |slot| slot.cap);
        f.debug_struct("Buf").field("len", &self.len).field("cap", &cap).finish()
    }
}
