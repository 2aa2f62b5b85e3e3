//! Waiting for something that another task, maybe on another core, does.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Rings for all who wait. Who waits takes a [`mark`](Self::mark) first, then looks at what it
/// waits for, then awaits a ring after the mark: so no ring is missed between looking and waiting.
#[derive(Debug, Default)]
pub(crate) struct Bell(Mutex<Rung>);

#[derive(Debug, Default)]
struct Rung {
    count: u64,
    waiting: Vec<Waker>,
}

impl Bell {
    fn rung(&self) -> std::sync::MutexGuard<'_, Rung> {
        // Nothing in here panics, and a count has no half-way state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ring(&self) {
        let waiting = {
            let mut rung = self.rung();
            rung.count += 1;
            std::mem::take(&mut rung.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }

    pub(crate) fn mark(&self) -> u64 {
        self.rung().count
    }

    /// Waits for a ring after `mark`.
    pub(crate) async fn after(&self, mark: u64) {
        poll_fn(|cx| {
            let mut rung = self.rung();
            if rung.count > mark {
                return Poll::Ready(());
            }
            if !rung.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                rung.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// Something that one task at a time has.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    is_taken: Mutex<bool>,
    /// How often it was taken.
    taken: AtomicU64,
    bell: Bell,
}

/// Whoever has it has the turn.
#[derive(Debug)]
pub(crate) struct TurnGuard<'a>(&'a Turn);

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        *self.0.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.bell.ring();
    }
}

impl Turn {
    /// Which taking of it has the turn now, if any.
    pub(crate) fn held(&self) -> Option<u64> {
        let is_taken = *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        is_taken.then(|| self.taken.load(Ordering::Relaxed))
    }

    /// Waits for the turn.
    pub(crate) async fn take(&self) -> TurnGuard<'_> {
        loop {
            let mark = self.bell.mark();
            let before = std::mem::replace(
                &mut *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner),
                true,
            );
            if !before {
                self.taken.fetch_add(1, Ordering::Relaxed);
                return TurnGuard(self);
            }
            self.bell.after(mark).await;
        }
    }
}

/// A result that one task leaves and another waits for.
#[derive(Debug)]
pub(crate) struct Reply<T>(Arc<(Mutex<Option<T>>, Bell)>);

impl<T> Clone for Reply<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Reply<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new((Mutex::new(None), Bell::default())))
    }

    pub(crate) fn give(&self, value: T) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.0.1.ring();
    }

    /// Waits for the value. Only one waits for it.
    pub(crate) async fn taken(self) -> T {
        loop {
            let mark = self.0.1.mark();
            if let Some(value) = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return value;
            }
            self.0.1.after(mark).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn a_ring_between_looking_and_waiting_is_not_missed() {
        let bell = Bell::default();
        let mark = bell.mark();
        bell.ring();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(bell.after(mark)).poll(&mut cx).is_ready());
        assert!(pin!(bell.after(bell.mark())).poll(&mut cx).is_pending());
    }

    #[test]
    fn a_reply_is_taken_once_it_is_given() {
        let reply = Reply::new();
        let mut cx = Context::from_waker(Waker::noop());
        let mut taken = pin!(reply.clone().taken());
        assert!(taken.as_mut().poll(&mut cx).is_pending());
        reply.give(7);
        assert_eq!(taken.poll(&mut cx), Poll::Ready(7));
    }
}
