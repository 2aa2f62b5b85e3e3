//! An order in which nobody has an advantage from asking more often.

use std::cmp::Ordering;
use std::collections::VecDeque;

/// Those who wait, by keys that have turns; those at one key stand in the order of asking.
///
/// Invariant: no key without somebody who waits.
#[derive(Debug)]
pub struct FairQueue<Key, Waiter>(VecDeque<(Key, VecDeque<Waiter>)>);

impl<Key, Waiter> Default for FairQueue<Key, Waiter> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<Key, Waiter> FairQueue<Key, Waiter> {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Comes last at its key; a new key comes last of all.
    pub fn enter(&mut self, key: Key, waiter: Waiter)
    where
        Key: Eq,
    {
        match self.0.iter_mut().find(|(other, _)| *other == key) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => self.0.push_back((key, VecDeque::from([waiter]))),
        }
    }

    /// The next one. Its key goes to the end.
    pub fn leave(&mut self) -> Option<Waiter> {
        let (key, mut waiters) = self.0.pop_front()?;
        let waiter = waiters.pop_front();
        debug_assert!(waiter.is_some(), "somebody waits at each key");
        if !waiters.is_empty() {
            self.0.push_back((key, waiters));
        }
        waiter
    }

    /// One of those who wait: `order` compares with it, and those at one key stand in that order. Costs
    /// little however many wait.
    pub fn find(&mut self, order: impl Fn(&Waiter) -> Ordering) -> Option<&mut Waiter> {
        self.0.iter_mut().find_map(|(_, waiters)| {
            let at = waiters.binary_search_by(&order).ok()?;
            waiters.get_mut(at)
        })
    }

    /// Lets one of them go, who is found as by [`find`](Self::find). The others stay where they are.
    pub fn remove(&mut self, order: impl Fn(&Waiter) -> Ordering) -> Option<Waiter> {
        let mut found = self.0.iter().enumerate().filter_map(|(key, (_, waiters))| {
            let at = waiters.binary_search_by(&order).ok()?;
            Some((key, at))
        });
        let (key, at) = found.next()?;
        let waiters = &mut self.0[key].1;
        let waiter = waiters.remove(at);
        if waiters.is_empty() {
            self.0.remove(key);
        }
        waiter
    }
}
