//! Those who wait, as the pieces of this module keep them.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::task::Waker;

/// The waker of one task of this core, if it waits.
///
/// Invariant: it is that of the last poll, or none after a [`wake`](Self::wake).
#[derive(Default)]
pub struct OneWaker(Cell<Option<Waker>>);

impl OneWaker {
    /// Remembers who waits; who was remembered before waits no more.
    #[inline]
    pub fn enlist(&self, waker: &Waker) {
        let known = self.0.take().filter(|known| known.will_wake(waker));
        self.0.set(Some(known.unwrap_or_else(|| waker.clone())));
    }

    /// Wakes who waits, once.
    #[inline]
    pub fn wake(&self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

impl fmt::Debug for OneWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneWaker")
    }
}

/// The wakers of any number of tasks, to be kept under the lock or cell of what they wait for.
///
/// Invariants: each task is in it once, and there are no others without a first. The first needs no
/// memory of its own, because mostly one task waits.
#[derive(Debug, Default)]
pub struct Wakers {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wakers {
    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        debug_assert!(self.first.is_some() || self.others.is_empty(), "there is a first");
        self.first.is_none()
    }

    /// Remembers one more who waits.
    pub fn enlist(&mut self, waker: &Waker) {
        match &self.first {
            None => self.first = Some(waker.clone()),
            Some(first) if first.will_wake(waker) => {}
            Some(_) if self.others.iter().any(|other| other.will_wake(waker)) => {}
            Some(_) => self.others.push(waker.clone()),
        }
    }

    /// Wakes all, in the order of coming, and forgets them. The memory stays.
    pub fn wake(&mut self) {
        self.first.take().into_iter().chain(self.others.drain(..)).for_each(Waker::wake);
    }
}

/// [`Wakers`] of one core.
#[derive(Debug, Default)]
pub(super) struct LocalWakers(RefCell<Wakers>);

impl LocalWakers {
    #[inline]
    pub(super) fn enlist(&self, waker: &Waker) {
        self.0.borrow_mut().enlist(waker);
    }

    /// A waker of another executor may come back to this within the call.
    #[inline]
    pub(super) fn wake(&self) {
        if self.0.borrow().is_empty() {
            return;
        }
        let mut woken = self.0.take();
        woken.wake();
        let mut waiting = self.0.borrow_mut();
        if waiting.is_empty() {
            // Keeps the memory: a sender is woken once per turn.
            *waiting = woken;
        }
    }
}
