//! Striped try-locks: what makes compare-and-write, or-write and atomic writes atomic against
//! plain writes without a queue or a kernel lock.
//!
//! The device is cut into stripes of a power of two; stripe `n` is guarded by word `n mod words`.
//! A plain change holds its stripes shared, an atomic operation exclusively. Nobody blocks: who
//! finds a stripe taken lets go of what it has and tries again at the next turn of its core, later
//! after short sleeps, so a slow holder costs no CPU. An exclusive waiter registers in
//! the words first; new shared holders stay away from a registered word, so a stream of writes
//! cannot starve it. Words are always taken in ascending order, so of two exclusive holders that
//! overlap one gets through.
//!
//! Uncontended, a plain 4 KiB write pays two atomic instructions on a line of its own.

use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Bytes per stripe: most requests touch one or two words, and a hot metadata block
/// does not hold up its whole neighbourhood.
pub(crate) const STRIPE_BYTES: u64 = 256 << 10;
/// Words per device, a power of two: 64 KiB of memory. A request of `WORDS * STRIPE_BYTES` (256 MiB) or more takes
/// all of them, that is the whole device.
const WORDS: usize = 1024;

const SHARED_ONE: u64 = 1;
const SHARED_MASK: u64 = (1 << 24) - 1;
const WAITER_ONE: u64 = 1 << 24;
const WAITER_MASK: u64 = ((1 << 16) - 1) << 24;
const EXCLUSIVE: u64 = 1 << 40;
/// Set by the first exclusive holder and never cleared, see [`StripeLocks::is_marked`].
const MARKED: u64 = 1 << 41;

/// A lock word on a cache line of its own, so that cores do not share lines by accident.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Word(AtomicU64);

/// How an operation holds its stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Beside other plain operations.
    Shared,
    /// Alone.
    Exclusive,
}

/// The lock words of one device.
#[derive(Debug)]
pub(crate) struct StripeLocks {
    words: Box<[Word]>,
}

impl Default for StripeLocks {
    fn default() -> Self {
        Self { words: (0..WORDS).map(|_| Word::default()).collect() }
    }
}

/// The words of a byte range: `count` from `first` on, wrapping around the table. Small, since
/// every guard carries one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: u16,
    count: u16,
}

impl Span {
    fn new(at: u64, len: u64) -> Self {
        let first = at / STRIPE_BYTES;
        let count = (at + len.max(1)).div_ceil(STRIPE_BYTES) - first;
        if count >= WORDS as u64 {
            return Self { first: 0, count: WORDS as u16 };
        }
        // Both fit: `first` is reduced below WORDS, `count` is below it.
        Self { first: (first % WORDS as u64) as u16, count: count as u16 }
    }

    /// The indices in ascending order: what wrapped around comes first.
    fn indices(self) -> impl Iterator<Item = usize> {
        let first = usize::from(self.first);
        let end = first + usize::from(self.count);
        (0..end.saturating_sub(WORDS)).chain(first..end.min(WORDS))
    }
}

impl Word {
    fn try_shared(&self) -> bool {
        self.0
            .try_update(Ordering::Acquire, Ordering::Relaxed, |word| {
                (word & (EXCLUSIVE | WAITER_MASK) == 0).then_some(word + SHARED_ONE)
            })
            .is_ok()
    }

    /// `registered`: the caller is among the waiters; others queue behind the waiters.
    fn try_exclusive(&self, registered: bool) -> bool {
        self.0
            .try_update(Ordering::Acquire, Ordering::Relaxed, |word| {
                let held = word & (EXCLUSIVE | SHARED_MASK) != 0;
                let queue = word & WAITER_MASK != 0 && !registered;
                (!held && !queue).then_some(word | EXCLUSIVE | MARKED)
            })
            .is_ok()
    }

    fn release(&self, access: Access) {
        match access {
            Access::Shared => {
                let before = self.0.fetch_sub(SHARED_ONE, Ordering::Release);
                debug_assert!(before & SHARED_MASK != 0, "released a share that nobody held");
            }
            Access::Exclusive => {
                let before = self.0.fetch_and(!EXCLUSIVE, Ordering::Release);
                debug_assert!(before & EXCLUSIVE != 0, "released a lock that nobody held");
            }
        }
    }
}

impl StripeLocks {
    /// Takes the stripes of `len` bytes at `at` if all are free now.
    #[inline]
    pub(crate) fn try_lock(
        &self,
        at: u64,
        len: u64,
        access: Access,
    ) -> Option<StripeGuard<&StripeLocks>> {
        StripeGuard::acquire(self, Span::new(at, len), access, false)
    }

    /// As [`try_lock`](Self::try_lock), with a guard that a future can keep.
    pub(crate) fn try_lock_owned(
        self: &Arc<Self>,
        at: u64,
        len: u64,
        access: Access,
    ) -> Option<StripeGuard<Arc<StripeLocks>>> {
        StripeGuard::acquire(Arc::clone(self), Span::new(at, len), access, false)
    }

    /// Waits for the stripes of `len` bytes at `at`. Dropping the future gives up the wait.
    pub(crate) async fn lock(
        self: Arc<Self>,
        at: u64,
        len: u64,
        access: Access,
    ) -> StripeGuard<Arc<StripeLocks>> {
        if let Some(guard) = self.try_lock_owned(at, len, access) {
            return guard;
        }
        let span = Span::new(at, len);
        let exclusive = access == Access::Exclusive;
        let _registered = exclusive.then(|| Registration::new(&self, span));
        let mut pause = Duration::from_micros(20);
        // Holders in memory are gone within the turn; one that waits for a disk is met again
        // after sleeps that grow to a millisecond, the time of one flush.
        ring::turn_end().await;
        loop {
            let locks = Arc::clone(&self);
            if let Some(guard) = StripeGuard::acquire(locks, span, access, exclusive) {
                return guard;
            }
            ring::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }

    /// Whether an exclusive holder was ever on one of these stripes. Until then a reader can
    /// trust that nobody changes more than independent blocks there, and may lend memory.
    #[inline]
    pub(crate) fn is_marked(&self, at: u64, len: u64) -> bool {
        Span::new(at, len)
            .indices()
            .any(|index| self.words[index].0.load(Ordering::Acquire) & MARKED != 0)
    }
}

/// An exclusive waiter's claim on its words, withdrawn on drop.
#[derive(Debug)]
struct Registration<'a> {
    locks: &'a StripeLocks,
    span: Span,
}

impl<'a> Registration<'a> {
    fn new(locks: &'a StripeLocks, span: Span) -> Self {
        for index in span.indices() {
            let before = locks.words[index].0.fetch_add(WAITER_ONE, Ordering::Relaxed);
            debug_assert!(before & WAITER_MASK != WAITER_MASK, "65535 waiters on one stripe");
        }
        Self { locks, span }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        for index in self.span.indices() {
            self.locks.words[index].0.fetch_sub(WAITER_ONE, Ordering::Relaxed);
        }
    }
}

/// Stripes held by one operation, released on drop.
#[derive(Debug)]
pub(crate) struct StripeGuard<L: Deref<Target = StripeLocks>> {
    locks: L,
    span: Span,
    access: Access,
}

impl<L: Deref<Target = StripeLocks>> StripeGuard<L> {
    #[inline]
    fn acquire(locks: L, span: Span, access: Access, registered: bool) -> Option<Self> {
        for (taken, index) in span.indices().enumerate() {
            let word = &locks.words[index];
            let free = match access {
                Access::Shared => word.try_shared(),
                Access::Exclusive => word.try_exclusive(registered),
            };
            if !free {
                for index in span.indices().take(taken) {
                    locks.words[index].release(access);
                }
                return None;
            }
        }
        Some(Self { locks, span, access })
    }
}

impl StripeGuard<&StripeLocks> {
    /// The same hold, never let go in between, for a future to keep.
    pub(crate) fn into_owned(self, locks: &Arc<StripeLocks>) -> StripeGuard<Arc<StripeLocks>> {
        assert!(std::ptr::eq(self.locks, &raw const **locks), "a guard stays with its locks");
        let kept = StripeGuard { locks: Arc::clone(locks), span: self.span, access: self.access };
        mem::forget(self);
        kept
    }
}

impl<L: Deref<Target = StripeLocks>> Drop for StripeGuard<L> {
    #[inline]
    fn drop(&mut self) {
        for index in self.span.indices() {
            self.locks.words[index].release(self.access);
        }
    }
}
