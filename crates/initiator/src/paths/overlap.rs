//! Changes of the same blocks happen one after the other.
//!
//! Invariant: of two changes that overlap, the later one is not sent before the earlier one is over.
//! So while a change may have to be repeated, nothing that came after it on the same blocks has
//! happened; repeating it can undo nothing.

use std::ops::Range;

/// One change that is not over.
#[derive(Debug)]
struct Change<K> {
    key: K,
    bytes: Range<u64>,
    /// Earlier changes that overlap and are not over.
    blockers: u32,
}

/// The changes that are not over, in the order in which they came.
#[derive(Debug)]
pub(super) struct Overlaps<K> {
    changes: Vec<Change<K>>,
}

impl<K: Copy + PartialEq> Overlaps<K> {
    pub(super) const fn new() -> Self {
        Self { changes: Vec::new() }
    }

    /// Enters a change; whether it may start at once.
    pub(super) fn enter(&mut self, key: K, bytes: Range<u64>) -> bool {
        let before = self.changes.iter().filter(|change| overlap(&change.bytes, &bytes)).count();
        let blockers = u32::try_from(before).expect("commands are bounded by memory");
        self.changes.push(Change { key, bytes, blockers });
        blockers == 0
    }

    /// A change is over; `starts` gets those that may start now.
    pub(super) fn leave(&mut self, key: K, mut starts: impl FnMut(K)) {
        let Some(at) = self.changes.iter().position(|change| change.key == key) else { return };
        let gone = self.changes.remove(at);
        for later in self.changes[at..].iter_mut().filter(|it| overlap(&it.bytes, &gone.bytes)) {
            later.blockers -= 1;
            if later.blockers == 0 {
                starts(later.key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_do_not_wait_for_each_other() {
        let mut overlaps = Overlaps::new();
        assert!(overlaps.enter(1, 0..4096));
        assert!(overlaps.enter(2, 4096..8192));
        assert!(!overlaps.enter(3, 4095..4097));
        let mut started = Vec::new();
        overlaps.leave(1, |key| started.push(key));
        assert!(started.is_empty());
        overlaps.leave(2, |key| started.push(key));
        assert_eq!(started, [3]);
    }

    proptest! {
        /// Whatever ends when: of two that run together none overlap, all get their turn, and
        /// overlapping ones run in the order in which they came.
        #[test]
        fn overlapping_changes_run_in_order(
            ranges in proptest::collection::vec((0_u64..40, 1_u64..10), 1..40),
            picks in proptest::collection::vec(any::<proptest::sample::Index>(), 40),
        ) {
            let mut overlaps = Overlaps::new();
            let mut running: Vec<usize> = Vec::new();
            let mut order = Vec::new();
            let bytes = |n: usize| ranges[n].0..ranges[n].0 + ranges[n].1;
            for n in 0..ranges.len() {
                if overlaps.enter(n, bytes(n)) {
                    running.push(n);
                }
            }
            for pick in picks {
                if running.is_empty() {
                    break;
                }
                for (i, &a) in running.iter().enumerate() {
                    prop_assert!(running[i + 1..].iter().all(|&b| !overlap(&bytes(a), &bytes(b))));
                }
                let over = running.swap_remove(pick.index(running.len()));
                order.push(over);
                overlaps.leave(over, |key| running.push(key));
            }
            prop_assert_eq!(order.len(), ranges.len());
            prop_assert_eq!(overlaps.len(), 0);
            for (i, &a) in order.iter().enumerate() {
                prop_assert!(order[..i].iter().all(|&b| b < a || !overlap(&bytes(a), &bytes(b))));
            }
        }
    }
}
