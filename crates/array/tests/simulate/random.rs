//! Chance that replays: a small generator, the same for ever, whatever happens to crates.

use std::sync::atomic::{AtomicU64, Ordering};

/// The golden ratio, the step of splitmix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers, shared by reference (splitmix64, whose state is a mere counter).
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

/// Spreads `word` over all bits.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Random {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(mix(seed ^ STEP)))
    }

    /// An independent stream for another purpose, so that one more draw here shifts nothing there.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.word())
    }

    /// Does something as if it had drawn nothing: what comes after it is what would have come without it.
    pub(crate) fn aside<T>(&self, something: impl FnOnce() -> T) -> T {
        let before = self.0.load(Ordering::Relaxed);
        let done = something();
        self.0.store(before, Ordering::Relaxed);
        done
    }

    pub(crate) fn word(&self) -> u64 {
        mix(self.0.fetch_add(STEP, Ordering::Relaxed))
    }

    /// 0 to `end - 1`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        assert!(end > 0, "there is nothing below 0");
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    pub(crate) fn index(&self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// `low` to `high`, both included.
    pub(crate) fn between(&self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        low + self.below(high - low + 1)
    }

    /// True once in `n`.
    pub(crate) fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }

    pub(crate) fn shuffle<T>(&self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.index(end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| {
            let random = Random::new(seed);
            (0..100).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|&number| number < 1000));
    }

    #[test]
    fn every_number_of_a_range_comes_up_and_no_other() {
        let random = Random::new(5);
        let mut counts = [0; 8];
        (0..800).for_each(|_| counts[random.between(3, 10) as usize - 3] += 1);
        assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut list: Vec<_> = (0..50).collect();
        Random::new(9).shuffle(&mut list);
        assert_ne!(list, (0..50).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..50).collect::<Vec<_>>());
    }
}
