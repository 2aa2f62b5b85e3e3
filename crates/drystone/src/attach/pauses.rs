//! How long to wait before a volume is tried to be attached again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// After the first failure.
const FIRST: Duration = Duration::from_secs(1);

/// After many: soon enough for what waits for the disk, and little work for both sides.
const LONGEST: Duration = Duration::from_secs(10);

/// While a setting is wrong: each login is a line in the target's log.
const WRONG_SETTING: Duration = Duration::from_secs(60);

/// The pause after `failures` others; half of it is at random, since all hosts of a room may have
/// started at the same moment.
pub(crate) fn pause(failures: u32, is_final: bool) -> Duration {
    let full = full(failures, is_final);
    // A hasher is the source of random numbers that the standard library has.
    let random = RandomState::new().hash_one(failures) % 1000;
    full / 2 + full.mul_f64(random as f64 / 2000.0)
}

fn full(failures: u32, is_final: bool) -> Duration {
    if is_final {
        return WRONG_SETTING;
    }
    FIRST.saturating_mul(1 << failures.min(16)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        let seconds: Vec<u64> = (0..6).map(|n| full(n, false).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 10, 10]);
        assert_eq!(full(u32::MAX, false), LONGEST);
        assert_eq!(full(0, true), WRONG_SETTING);
        let some: Vec<Duration> = (0..50).map(|_| pause(9, false)).collect();
        assert!(some.iter().all(|pause| (LONGEST / 2..=LONGEST).contains(pause)), "{some:?}");
        assert!(some.iter().any(|pause| *pause != some[0]));
    }
}
