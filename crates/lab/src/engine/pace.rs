//! When the next I/O is due.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A fixed rate: I/Os are due at equal distances, whether or not the ones before are done. An I/O that
/// is begun late, for all threads were waiting, counts from when it was due: else a target that stands
/// still would be asked nothing meanwhile, and its figures would look well (coordinated omission).
#[derive(Debug)]
pub(crate) struct Pace {
    start: Instant,
    taken: Cell<u32>,
    /// Whole seconds' worth of I/Os before `taken`, so that rounding does not add up.
    base: Cell<Duration>,
    per_base: u32,
    base_length: Duration,
    /// Taken, and not done.
    returned: Cell<u64>,
}

/// I/Os at equal distances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Missed {
    first: Instant,
    every_s: f64,
    pub(crate) count: u64,
}

impl Missed {
    /// When one of them was due.
    pub(crate) fn due(&self, index: u64) -> Instant {
        self.first + Duration::from_secs_f64(index as f64 * self.every_s)
    }
}

/// An I/O in eleven days: less is as good as none, and its time would not fit into any clock.
const SLOWEST: f64 = 1e-6;

/// A rate over all volumes, divided by their shares. Volumes take turns: were they all to begin at `start`,
/// those of equal shares would have their I/Os due at the same moments for ever, and each would wait for all others.
pub(crate) fn paces(start: Instant, per_second: f64, shares: &[f64]) -> Vec<Pace> {
    let all: f64 = shares.iter().sum();
    let pace = |(turn, share): (usize, &f64)| {
        let own = (per_second * share / all).max(SLOWEST);
        let turn = turn as f64 / shares.len() as f64;
        Pace::new(start + Duration::from_secs_f64(turn / own), own)
    };
    shares.iter().enumerate().map(pace).collect()
}

impl Pace {
    /// So many I/Os a second, from `start` on.
    pub(crate) fn new(start: Instant, per_second: f64) -> Self {
        let per_second = per_second.max(SLOWEST);
        // A base is a number of I/Os whose time is known to the nanosecond without rounding by each.
        let per_base = per_second.ceil().clamp(1.0, 1e9) as u32;
        let base_length = Duration::from_secs_f64(f64::from(per_base) / per_second);
        let (taken, base, returned) = Default::default();
        Self { start, taken, base, per_base, base_length, returned }
    }

    /// When the next I/O is due; the one after it is asked for next.
    pub(crate) fn take(&self) -> Instant {
        let (due, taken) = (self.next(), self.taken.get());
        if taken + 1 == self.per_base {
            self.taken.set(0);
            self.base.set(self.base.get() + self.base_length);
        } else {
            self.taken.set(taken + 1);
        }
        due
    }

    fn next(&self) -> Instant {
        let base_ns = self.base_length.as_nanos() as u64;
        let taken = u64::from(self.taken.get());
        let part = Duration::from_nanos(base_ns * taken / u64::from(self.per_base));
        self.start + self.base.get() + part
    }

    /// An I/O that was taken, the last or one soon before, is not done.
    pub(crate) fn give_back(&self) {
        self.returned.set(self.returned.get() + 1);
    }

    /// What was due before `end` and is not done.
    pub(crate) fn missed(&self, end: Instant) -> Missed {
        let every_s = self.base_length.as_secs_f64() / f64::from(self.per_base);
        let (next, returned) = (self.next(), self.returned.get());
        let count = (end.saturating_duration_since(next).as_secs_f64() / every_s).ceil() as u64;
        let before = Duration::from_secs_f64(returned as f64 * every_s);
        let first = next.checked_sub(before).unwrap_or(next);
        Missed { first, every_s, count: count + returned }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_next_to_nothing_is_no_panic() {
        let start = Instant::now();
        for rate in [0.0, f64::MIN_POSITIVE, 1e-30] {
            let paces = paces(start, rate, &[1.0, 1e-9]);
            let taken: Vec<Instant> = (0..3).map(|_| paces[1].take()).collect();
            assert!(taken.is_sorted() && taken[2] > start + Duration::from_secs(1 << 20));
        }
    }

    #[test]
    fn what_was_due_and_not_done_is_known() {
        let start = Instant::now();
        let pace = Pace::new(start, 10.0);
        for _ in 0..4 {
            pace.take();
        }
        assert_eq!(pace.missed(start + Duration::from_millis(400)).count, 0);
        pace.give_back();
        let missed = pace.missed(start + Duration::from_millis(950));
        assert_eq!(missed.count, 7, "from 0.3 to 0.9 s");
        for (index, expected) in [(0, 0.3), (6, 0.9)] {
            let found = (missed.due(index) - start).as_secs_f64();
            assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
        }
    }

    #[test]
    fn volumes_take_turns() {
        let start = Instant::now();
        let paces = paces(start, 300.0, &[2.0; 45]);
        let taken = paces.iter().flat_map(|pace| (0..6).map(|_| pace.take()));
        let mut due: Vec<Instant> = taken.collect();
        due.sort();
        assert_eq!(due[0], start);
        for (index, due) in due.iter().enumerate() {
            let expected = index as f64 / 300.0;
            let found = (*due - start).as_secs_f64();
            assert!((found - expected).abs() < 1e-4, "I/O {index}: {found} for {expected}");
        }
    }

    #[test]
    fn the_rate_is_met_over_any_time() {
        for rate in [0.3, 1.0, 7.0, 1000.0, 123_456.7, 3.0e6] {
            let start = Instant::now();
            let pace = Pace::new(start, rate);
            let count = 200_000_u32;
            let mut last = pace.take();
            assert_eq!(last, start);
            for _ in 0..count {
                let next = pace.take();
                assert!(next >= last);
                last = next;
            }
            let found = f64::from(count) / (last - start).as_secs_f64();
            assert!((found / rate - 1.0).abs() < 1e-3, "{found} for {rate}");
        }
    }
}
