//! One task at a time for each stripe, whichever core it runs on.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crate::SetId;

/// A stripe of a set.
type Key = (SetId, u32);

/// The stripes that are held, each with those that wait for it.
///
/// Contention is rare (a repair beside a change), so a release wakes everyone who waits and the
/// first to come takes it: no queue to keep right when a waiting future is dropped.
#[derive(Debug, Default)]
pub(super) struct StripeLocks(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    stripes: HashMap<Key, Holding>,
    /// How many were ever held.
    count: u64,
}

/// A stripe that is held.
#[derive(Debug)]
struct Holding {
    number: u64,
    waiting: Vec<Waker>,
}

impl StripeLocks {
    /// Waits until nobody else holds the stripe.
    pub(super) async fn lock(&self, set: SetId, stripe: u32) -> StripeGuard<'_> {
        let key = (set, stripe);
        poll_fn(|cx| {
            let held = &mut *self.held();
            match held.stripes.get_mut(&key) {
                None => {
                    held.count += 1;
                    let holding = Holding { number: held.count, waiting: Vec::new() };
                    held.stripes.insert(key, holding);
                    Poll::Ready(())
                }
                Some(Holding { waiting, .. }) => {
                    if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                        waiting.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await;
        StripeGuard { locks: self, key }
    }

    /// Stripes that somebody waits for, each with a number that no other holding has.
    pub(super) fn contended(&self) -> Vec<(Key, u64)> {
        let held = self.held();
        let contended = held.stripes.iter().filter(|(_, holding)| !holding.waiting.is_empty());
        contended.map(|(key, holding)| (*key, holding.number)).collect()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().expect("nothing panics while it holds the table")
    }
}

/// Holds a stripe until it is dropped.
#[derive(Debug)]
pub(super) struct StripeGuard<'a> {
    locks: &'a StripeLocks,
    key: Key,
}

impl Drop for StripeGuard<'_> {
    fn drop(&mut self) {
        let holding = self.locks.held().stripes.remove(&self.key);
        for waker in holding.expect("a guard's stripe is held").waiting {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_stripe_is_held_once_and_others_are_free() {
        let locks = StripeLocks::default();
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let mut take = |stripe| Box::pin(locks.lock(SetId(1), stripe)).as_mut().poll(&mut cx);
        let Poll::Ready(first) = take(0) else { panic!("free") };
        assert!(take(0).is_pending());
        assert!(take(1).is_ready());
        let contended = locks.contended();
        assert_eq!(contended.len(), 1, "stripe 1 is held, and nobody waits for it");
        assert_eq!(contended[0].0, (SetId(1), 0));
        drop(first);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert!(take(0).is_ready());
    }

    #[test]
    fn a_waiting_future_that_is_dropped_blocks_nobody() {
        let locks = StripeLocks::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Box::pin(locks.lock(SetId(1), 0));
        let Poll::Ready(guard) = first.as_mut().poll(&mut cx) else { panic!("free") };
        {
            let mut gone = pin!(locks.lock(SetId(1), 0));
            assert!(gone.as_mut().poll(&mut cx).is_pending());
        }
        let mut next = pin!(locks.lock(SetId(1), 0));
        assert!(next.as_mut().poll(&mut cx).is_pending());
        drop(guard);
        assert!(next.as_mut().poll(&mut cx).is_ready());
        assert!(locks.held().stripes.is_empty(), "a free stripe takes no memory");
    }
}
