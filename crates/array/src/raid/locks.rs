//! One task at a time for each stripe, whichever core it runs on.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Poll, Waker};

use crate::SetId;
use crate::mutants::{Mutant, is};

use super::record::Seat;
use super::set::Set;

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
    pub(super) async fn lock(&self, set: &Set, stripe: u32) -> StripeGuard<'_> {
        let key = (set.id(), stripe);
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
        StripeGuard { locks: self, key, _user: set.join() }
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

/// Holds a stripe until it is dropped, and for so long all chunks that the set has now: nobody else
/// gets one that it leaves meanwhile.
#[derive(Debug)]
pub(super) struct StripeGuard<'a> {
    locks: &'a StripeLocks,
    key: Key,
    _user: User,
}

/// Held by everybody who may be reading or writing the chunks that a set has.
pub(super) type User = Arc<()>;

/// Those who are at work on a set, by the chunks that it had when they began.
#[derive(Debug, Default)]
pub(super) struct Users {
    now: User,
    /// Of times before a chunk left, as long as there are any.
    earlier: Vec<Weak<()>>,
}

impl Users {
    /// One more.
    pub(super) fn join(&self) -> User {
        Arc::clone(&self.now)
    }

    /// Who comes from now on does not know this chunk.
    pub(super) fn leave(&mut self, seat: Seat) -> Left {
        self.earlier.retain(|users| users.strong_count() > 0);
        self.earlier.push(Arc::downgrade(&std::mem::take(&mut self.now)));
        Left { seat, users: self.earlier.clone() }
    }
}

/// A chunk that a set has left, and those who may still be reading or writing it: a request that a
/// disk takes seconds for would come down on what its next owner has put there.
#[derive(Debug)]
pub struct Left {
    /// The chunk.
    pub seat: Seat,
    users: Vec<Weak<()>>,
}

impl Left {
    /// Of a set that nobody has at hand.
    #[must_use]
    pub fn unused(seat: Seat) -> Self {
        Self { seat, users: Vec::new() }
    }

    /// Whether nobody uses it any more. Nobody new comes.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        let is_used = self.users.iter().any(|users| users.strong_count() > 0);
        // What they did comes before what the next owner does.
        fence(Ordering::Acquire);
        !is_used || is(Mutant::EarlyLeave)
    }
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
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake};

    use crate::raid::Layout;
    use crate::{CLUSTER_BYTES, DiskId, Level};

    fn set() -> Set {
        let seats = (0..2).map(|disk| Seat { disk: DiskId(disk), chunk: 7 }).collect();
        let layout = Layout { data_start: 0, chunk_bytes: 2 * CLUSTER_BYTES as u64 };
        Set::empty(SetId(1), Some(Level::Raid1), seats, layout).expect("a mirror")
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_stripe_is_held_once_and_others_are_free() {
        let (locks, set) = (StripeLocks::default(), set());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let mut take = |stripe| Box::pin(locks.lock(&set, stripe)).as_mut().poll(&mut cx);
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
        let (locks, set) = (StripeLocks::default(), set());
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Box::pin(locks.lock(&set, 0));
        let Poll::Ready(guard) = first.as_mut().poll(&mut cx) else { panic!("free") };
        {
            let mut gone = pin!(locks.lock(&set, 0));
            assert!(gone.as_mut().poll(&mut cx).is_pending());
        }
        let mut next = pin!(locks.lock(&set, 0));
        assert!(next.as_mut().poll(&mut cx).is_pending());
        drop(guard);
        assert!(next.as_mut().poll(&mut cx).is_ready());
        assert!(locks.held().stripes.is_empty(), "a free stripe takes no memory");
    }

    /// The record without its replacement is durable.
    fn drop_replacement(set: &Set, disk: u16) -> Left {
        set.set_replacement(1, Seat { disk: DiskId(disk), chunk: 0 }).expect("another disk");
        assert!(set.drop_replacement());
        let _ = set.record();
        set.recorded().expect("a chunk is free")
    }

    #[test]
    fn a_chunk_that_was_left_is_in_use_until_all_are_done_who_may_know_it() {
        let (locks, set) = (StripeLocks::default(), set());
        let lock = |stripe| {
            let mut cx = Context::from_waker(Waker::noop());
            match Box::pin(locks.lock(&set, stripe)).as_mut().poll(&mut cx) {
                Poll::Ready(guard) => guard,
                Poll::Pending => panic!("free"),
            }
        };
        assert!(drop_replacement(&set, 7).is_unused(), "nobody was at work");
        let first = lock(0);
        let early = drop_replacement(&set, 8);
        let second = lock(1);
        let late = drop_replacement(&set, 9);
        assert!(!early.is_unused() && !late.is_unused());
        drop(second);
        assert!(!late.is_unused(), "the first one knows both");
        drop(first);
        let _third = lock(0);
        assert!(early.is_unused() && late.is_unused(), "who came later knows neither");
    }
}
