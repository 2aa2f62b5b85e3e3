//! How long things took, counted in classes.

use std::array;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The upper bounds of the classes in which [`Latency`] counts, but for the last one, which has none.
pub const LATENCY_BOUNDS: [Duration; 14] = [
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_millis(2500),
    Duration::from_secs(10),
];

/// How many classes there are.
pub const LATENCY_CLASSES: usize = LATENCY_BOUNDS.len() + 1;

/// How long each of many things took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Their numbers by [`LATENCY_BOUNDS`]: those that took no longer than each bound, and longer than the one
    /// before it; in the end those that took longer than all.
    pub counts: [u64; LATENCY_CLASSES],
    /// All their times together, in nanoseconds.
    pub sum_ns: u64,
}

impl Latency {
    /// How many they were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The class in which something counts that took so long.
    #[inline]
    #[must_use]
    pub fn class(time: Duration) -> usize {
        // Mostly the first class, and seldom one of the last.
        LATENCY_BOUNDS.iter().position(|bound| time <= *bound).unwrap_or(LATENCY_BOUNDS.len())
    }
}

impl AddAssign for Latency {
    fn add_assign(&mut self, other: Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_ns += other.sum_ns;
    }
}

/// Counts [`Latency`] on all cores. There is no lock in it.
#[derive(Debug, Default)]
pub struct SharedLatency {
    counts: [AtomicU64; LATENCY_CLASSES],
    sum_ns: AtomicU64,
}

impl SharedLatency {
    /// Something has taken so long.
    #[inline]
    pub fn count(&self, time: Duration) {
        self.counts[Latency::class(time)].fetch_add(1, Relaxed);
        if !time.is_zero() {
            self.sum_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// What was counted. Each number is right by itself; they are not of one moment.
    #[must_use]
    pub fn counted(&self) -> Latency {
        let counts = array::from_fn(|class| self.counts[class].load(Relaxed));
        Latency { counts, sum_ns: self.sum_ns.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_up_to_and_with_each_bound() {
        let shared = SharedLatency::default();
        let us = Duration::from_micros;
        for time in [us(0), us(50), us(51), us(10_000_000), us(10_000_001)] {
            shared.count(time);
        }
        let latency = shared.counted();
        let counted = |class: usize| latency.counts[class];
        assert_eq!((counted(0), counted(1), counted(13), counted(14)), (2, 1, 1, 1));
        assert_eq!(latency.count(), 5);
        assert_eq!(latency.sum_ns, (50 + 51 + 10_000_000 + 10_000_001) * 1000);
        assert!(LATENCY_BOUNDS.is_sorted());
    }
}
