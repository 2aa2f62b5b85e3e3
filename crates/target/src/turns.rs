//! One at a time, in the order of asking, from any core.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::OneshotSender;

/// What one holds and others wait for. Whoever asks again and again has no advantage over who asks
/// once: a fence must not wait for all that others have to register.
#[derive(Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<Queue>>);

/// Invariant: nobody waits while it is free.
#[derive(Debug, Default)]
struct Queue {
    is_taken: bool,
    waiting: VecDeque<OneshotSender<Turn>>,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // Nothing panics while it is locked, and each change is one step.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Waits for the turn of the caller.
    pub(crate) async fn take(&self) -> Turn {
        let turn = {
            let mut queue = lock(&self.0);
            if !queue.is_taken {
                queue.is_taken = true;
                return Turn(self.0.clone());
            }
            let (give, turn) = ring::oneshot();
            queue.waiting.push_back(give);
            turn
        };
        turn.await.expect("a turn is handed on, not dropped")
    }
}

/// The turn of somebody. It is handed to the next when it goes, and passed on by who is gone.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Mutex<Queue>>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        debug_assert!(queue.is_taken, "this is what was taken");
        match queue.waiting.pop_front() {
            Some(next) => {
                drop(queue);
                next.send(Turn(self.0.clone()));
            }
            None => queue.is_taken = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn turns_come_in_the_order_of_asking_and_those_who_are_gone_are_passed_over() {
        let turns = Turns::default();
        let first = turns.take().now_or_never().expect("it is free");
        let mut second = pin!(turns.take());
        let mut gone = Box::pin(turns.take());
        let mut third = pin!(turns.take());
        assert!(second.as_mut().now_or_never().is_none());
        assert!(gone.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(turns.take().now_or_never().is_none(), "nobody overtakes");
        assert!(third.as_mut().now_or_never().is_none());
        let second = second.now_or_never().expect("its turn");
        drop(gone);
        drop(second);
        drop(third.now_or_never().expect("its turn"));
        assert!(turns.take().now_or_never().is_some(), "free again");
    }
}
