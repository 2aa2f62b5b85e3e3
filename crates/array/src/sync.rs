//! Waiting for something that another task, maybe on another core, does.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// Something that one task at a time has, in the order in which they asked: whoever takes it again and
/// again keeps nobody from it.
#[derive(Debug, Default)]
pub(crate) struct Turn(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    /// How often it was asked for.
    asked: u64,
    /// Which asking has it.
    held: Option<u64>,
    /// Those who wait.
    waiting: VecDeque<(u64, Waker)>,
}

/// Whoever has it has the turn, or waits for it.
#[derive(Debug)]
pub(crate) struct TurnGuard<'a>(&'a Turn, u64);

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        let next = {
            let queue = &mut *self.0.queue();
            queue.held.take_if(|held| *held == self.1);
            queue.waiting.retain(|(waiting, _)| *waiting != self.1);
            let next = queue.waiting.front().filter(|_| queue.held.is_none());
            next.map(|(_, waker)| waker.clone())
        };
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl Turn {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which asking for it has the turn now, if any.
    pub(crate) fn held(&self) -> Option<u64> {
        self.queue().held
    }

    /// Waits for the turn.
    pub(crate) async fn take(&self) -> TurnGuard<'_> {
        let number = {
            let queue = &mut *self.queue();
            queue.asked += 1;
            queue.waiting.push_back((queue.asked, Waker::noop().clone()));
            queue.asked
        };
        let guard = TurnGuard(self, number);
        poll_fn(|cx| {
            let queue = &mut *self.queue();
            let is_next = queue.waiting.front().is_some_and(|(first, _)| *first == number);
            if queue.held.is_none() && is_next {
                queue.waiting.pop_front();
                queue.held = Some(number);
                return Poll::Ready(());
            }
            let mut waiting = queue.waiting.iter_mut();
            if let Some((_, waker)) = waiting.find(|(waiting, _)| *waiting == number) {
                waker.clone_from(cx.waker());
            }
            Poll::Pending
        })
        .await;
        guard
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

    #[test]
    fn a_turn_goes_to_who_has_waited_longest() {
        let turn = Turn::default();
        let mut cx = Context::from_waker(Waker::noop());
        let taken = |poll| match poll {
            Poll::Ready(guard) => guard,
            Poll::Pending => panic!("it is free"),
        };
        let first = taken(pin!(turn.take()).poll(&mut cx));
        let mut second = Box::pin(turn.take());
        let mut third = pin!(turn.take());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        assert_eq!(turn.held(), Some(1));
        drop(first);
        // Nobody has it yet, and whoever had it comes last.
        let mut again = pin!(turn.take());
        assert!(again.as_mut().poll(&mut cx).is_pending() && turn.held().is_none());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        // Who gives up keeps nobody waiting, before his turn and in it.
        drop(second);
        let third = taken(third.poll(&mut cx));
        assert!(again.as_mut().poll(&mut cx).is_pending());
        drop(third);
        drop(taken(again.poll(&mut cx)));
        drop(taken(pin!(turn.take()).poll(&mut cx)));
        assert_eq!(turn.held(), None);
    }
}
