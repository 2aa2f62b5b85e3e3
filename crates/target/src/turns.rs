//! One at a time, from any core, in the order of asking; where there are keys these have turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::OneshotSender;

use crate::share::FairQueue;

/// What one holds and others wait for. Whoever asks again and again has no advantage over who asks
/// once: a fence must not wait for all that others have to register. Keys have turns, those who wait at one
/// stand in the order of asking, and who is gone is passed over.
#[derive(Debug)]
pub(crate) struct Turns<Key>(Arc<Mutex<Queue<Key>>>);

/// Invariant: nobody waits while it is free.
#[derive(Debug)]
struct Queue<Key> {
    is_taken: bool,
    waiting: FairQueue<Key, OneshotSender<Turn<Key>>>,
}

impl<Key> Default for Turns<Key> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Queue { is_taken: false, waiting: FairQueue::default() })))
    }
}

fn lock<Key>(queue: &Mutex<Queue<Key>>) -> MutexGuard<'_, Queue<Key>> {
    // Nothing panics while it is locked, and each change is one step.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Key: Eq + Send> Turns<Key> {
    /// Waits for the turn of the caller.
    pub(crate) async fn take(&self, key: Key) -> Turn<Key> {
        let turn = {
            let mut queue = lock(&self.0);
            if !queue.is_taken {
                queue.is_taken = true;
                return Turn(self.0.clone());
            }
            let (give, turn) = ring::oneshot();
            queue.waiting.enter(key, give);
            turn
        };
        turn.await.expect("a turn is handed on, not dropped")
    }
}

/// The turn of somebody. It is handed to the next when it goes, and passed on by who is gone.
#[derive(Debug)]
pub(crate) struct Turn<Key>(Arc<Mutex<Queue<Key>>>);

impl<Key> Drop for Turn<Key> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        debug_assert!(queue.is_taken, "this is what was taken");
        match queue.waiting.leave() {
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
        let turns = Turns::<()>::default();
        let first = turns.take(()).now_or_never().expect("it is free");
        let mut second = pin!(turns.take(()));
        let mut gone = Box::pin(turns.take(()));
        let mut third = pin!(turns.take(()));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(gone.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(turns.take(()).now_or_never().is_none(), "nobody overtakes");
        assert!(third.as_mut().now_or_never().is_none());
        let second = second.now_or_never().expect("its turn");
        drop(gone);
        drop(second);
        drop(third.now_or_never().expect("its turn"));
        assert!(turns.take(()).now_or_never().is_some(), "free again");
    }

    #[test]
    fn keys_have_turns_too() {
        let turns = Turns::default();
        let [a, b] = ['a', 'b'];
        let first = turns.take(a).now_or_never().expect("it is free");
        let mut second = pin!(turns.take(a));
        let mut gone = Box::pin(turns.take(a));
        let mut third = pin!(turns.take(a));
        let mut other = pin!(turns.take(b));
        assert!(second.as_mut().now_or_never().is_none() && gone.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        drop(first);
        assert!(other.as_mut().now_or_never().is_none(), "it came later");
        let second = second.now_or_never().expect("its turn");
        drop(second);
        assert!(third.as_mut().now_or_never().is_none(), "the other key is next");
        let other = other.now_or_never().expect("its turn");
        drop(gone);
        drop(other);
        drop(third.now_or_never().expect("its turn"));
        assert!(turns.take(b).now_or_never().is_some(), "free again");
    }
}
