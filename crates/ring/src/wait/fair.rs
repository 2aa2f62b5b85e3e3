//! An order in which nobody has an advantage from asking more often.

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

    /// Those who wait, at one key after the other.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiter> {
        self.0.iter_mut().flat_map(|(_, waiters)| waiters)
    }

    /// Lets go of all that are not to be kept. The others stay where they are.
    pub fn retain(&mut self, is_kept: impl Fn(&Waiter) -> bool) {
        self.0.retain_mut(|(_, waiters)| {
            waiters.retain(&is_kept);
            !waiters.is_empty()
        });
    }
}
