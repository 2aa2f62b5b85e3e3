//! Something that happens once on this core, and those who wait for it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Set once, waited for by any number of futures of the same core.
#[derive(Debug, Default)]
pub(crate) struct Event {
    happened: Cell<bool>,
    waiters: RefCell<Vec<Waker>>,
}

impl Event {
    pub(crate) fn has_happened(&self) -> bool {
        self.happened.get()
    }

    pub(crate) fn set(&self) {
        if !self.happened.replace(true) {
            self.wake_all();
        }
    }

    pub(crate) async fn wait(&self) {
        poll_fn(|context| {
            if self.happened.get() {
                return Poll::Ready(());
            }
            self.enlist(context.waker());
            Poll::Pending
        })
        .await;
    }

    fn enlist(&self, waker: &Waker) {
        let mut waiters = self.waiters.borrow_mut();
        if !waiters.iter().any(|known| known.will_wake(waker)) {
            waiters.push(waker.clone());
        }
    }

    fn wake_all(&self) {
        for waiter in self.waiters.take() {
            waiter.wake();
        }
    }
}

/// A condition that comes and goes: waiters look again after each `ring`.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    waiters: RefCell<Vec<Waker>>,
}

impl Bell {
    /// Lets everyone who waits look again.
    pub(crate) fn ring(&self) {
        if self.waiters.borrow().is_empty() {
            return;
        }
        let mut woken = self.waiters.take();
        for waiter in woken.drain(..) {
            waiter.wake();
        }
        // Keeps the allocation: a sender rings once per turn.
        let mut waiters = self.waiters.borrow_mut();
        if waiters.is_empty() {
            *waiters = woken;
        }
    }

    /// Waits until `ready` says so; it is asked first and after each ring.
    pub(crate) async fn until(&self, ready: impl Fn() -> bool) {
        poll_fn(|context| {
            if ready() {
                return Poll::Ready(());
            }
            let mut waiters = self.waiters.borrow_mut();
            if !waiters.iter().any(|known| known.will_wake(context.waker())) {
                waiters.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
