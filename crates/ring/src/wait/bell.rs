//! Something that happens again and again.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use super::Wakers;
use super::waker::LocalWakers;

/// Lets tasks of one core look again at something that they share.
///
/// Invariant: whoever waits has been woken for each ring since it began to. One ring is remembered
/// while nobody waits, for the next one who does: with a single listener none is missed. Where there are
/// several, each must look at what is shared before it waits: that is [`until`](Self::until).
#[derive(Debug, Default)]
pub struct Bell {
    rings: Cell<u64>,
    /// The last ring that somebody took notice of.
    heard: Cell<u64>,
    waiting: LocalWakers,
}

impl Bell {
    /// Lets all who wait look again.
    #[inline]
    pub fn ring(&self) {
        self.rings.set(self.rings.get() + 1);
        self.waiting.wake();
    }

    fn hear(&self) {
        self.heard.set(self.rings.get());
    }

    /// Waits for a ring that nobody has taken notice of.
    pub async fn rung(&self) {
        // Others may hear the ring that ends this, so later polls ask for one after this mark, too.
        let mark = self.heard.get();
        poll_fn(|cx| {
            if self.rings.get() != mark {
                self.hear();
                return Poll::Ready(());
            }
            self.waiting.enlist(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Waits until `ready` says so; it is asked first, and whenever this may have rung.
    pub async fn until(&self, ready: impl Fn() -> bool) {
        if ready() {
            return;
        }
        poll_fn(|cx| {
            self.hear();
            if ready() {
                return Poll::Ready(());
            }
            self.waiting.enlist(cx.waker());
            Poll::Pending
        })
        .await;
    }
}

/// Lets tasks of any thread look again at something that they share.
///
/// Who waits takes a [`mark`](Self::mark) first, then looks at what it waits for, then awaits a ring
/// [`after`](Self::after) the mark: so no ring is missed between looking and waiting.
///
/// Invariant: whoever waits has a mark of the last ring.
#[derive(Debug, Default)]
pub struct SharedBell(Mutex<Rings>);

#[derive(Debug, Default)]
struct Rings {
    count: u64,
    waiting: Wakers,
}

impl SharedBell {
    fn rings(&self) -> MutexGuard<'_, Rings> {
        // Nothing in here panics, and a count has no half-way state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets all who wait look again.
    pub fn ring(&self) {
        let mut woken = {
            let mut rings = self.rings();
            rings.count += 1;
            std::mem::take(&mut rings.waiting)
        };
        // Without the lock: a waker of another executor may run what waits.
        woken.wake();
    }

    /// How often it has rung.
    pub fn mark(&self) -> u64 {
        self.rings().count
    }

    /// Waits for a ring after `mark`.
    pub async fn after(&self, mark: u64) {
        poll_fn(|cx| {
            let mut rings = self.rings();
            debug_assert!(mark <= rings.count, "a mark is of the past");
            if rings.count > mark {
                return Poll::Ready(());
            }
            rings.waiting.enlist(cx.waker());
            Poll::Pending
        })
        .await;
    }
}
