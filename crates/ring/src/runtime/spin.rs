//! Waiting for the next event: spinning when it is about to come, sleeping otherwise.
//!
//! A sleep and wake-up costs 15 to 20 us of processor time on a virtual machine, so spinning for
//! an event that comes within that time is free, and saves its latency. Whether it will is learned
//! from the gaps so far. A core whose events are far apart never spins, an idle one sleeps.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::uring::Uring;

/// How much processor time a core may spend to answer faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpinPolicy {
    /// Spin while events come within 100 us of each other.
    Latency,
    /// Spin while events come within 40 us of each other, which costs little more than sleeping.
    #[default]
    Balanced,
    /// Never spin.
    Efficient,
}

/// Longest spin.
const SPIN: Duration = Duration::from_micros(50);
/// Longer gaps count as this long, so that a pause is soon forgotten.
const GAP_NS_MAX: u64 = 160_000;
/// One part in this many of each new gap goes into the average.
const GAP_WEIGHT: u64 = 8;

pub(super) struct Spin {
    /// Spin while the expected gap is below this.
    below_ns: Cell<u64>,
    gap_ns: Cell<u64>,
}

impl Spin {
    pub(super) fn new(policy: SpinPolicy) -> Spin {
        let spin = Spin { below_ns: Cell::default(), gap_ns: Cell::new(GAP_NS_MAX) };
        spin.set(policy);
        spin
    }

    /// What was learned of the gaps stays.
    pub(super) fn set(&self, policy: SpinPolicy) {
        self.below_ns.set(match policy {
            SpinPolicy::Latency => 100_000,
            SpinPolicy::Balanced => 40_000,
            SpinPolicy::Efficient => 0,
        });
    }

    /// Submits what is queued and returns when there are completions or `deadline` has come (it may
    /// return earlier).
    pub(super) fn wait(&self, uring: &Uring, deadline: Option<Instant>) {
        if self.below_ns.get() == 0 {
            return sleep(uring, deadline);
        }
        let start = Instant::now();
        let spins = self.gap_ns.get() < self.below_ns.get();
        if !(spins && spin(uring, deadline, start)) {
            sleep(uring, deadline);
        }
        self.learn(start.elapsed());
    }

    fn learn(&self, gap: Duration) {
        let new_ns = u64::try_from(gap.as_nanos()).unwrap_or(GAP_NS_MAX).min(GAP_NS_MAX);
        self.gap_ns.set((self.gap_ns.get() * (GAP_WEIGHT - 1) + new_ns) / GAP_WEIGHT);
    }
}

fn sleep(uring: &Uring, deadline: Option<Instant>) {
    let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    uring.enter(1, timeout);
}

/// What a spin looks at.
trait Watched {
    fn has_queued(&self) -> bool;
    fn has_completions(&self) -> bool;
    fn has_deferred_work(&self) -> bool;
    /// Submits, and does deferred work.
    fn enter(&self);
}

impl Watched for Uring {
    fn has_queued(&self) -> bool {
        self.queued() > 0
    }

    fn has_completions(&self) -> bool {
        self.has_completions()
    }

    fn has_deferred_work(&self) -> bool {
        self.has_deferred_work()
    }

    fn enter(&self) {
        self.enter(0, None);
    }
}

/// Watches the ring without system calls; whether something came.
fn spin(ring: &impl Watched, deadline: Option<Instant>, start: Instant) -> bool {
    if ring.has_queued() {
        ring.enter();
    }
    let until = deadline.map_or(start + SPIN, |deadline| deadline.min(start + SPIN));
    loop {
        if ring.has_completions() {
            return true;
        }
        // Before anything else: the kernel may announce work that it has done already, and takes that
        // back no sooner than with the next work, which may be long in coming.
        if Instant::now() >= until {
            return false;
        }
        match ring.has_deferred_work() {
            true => ring.enter(),
            false => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spins(spin: &Spin) -> bool {
        spin.gap_ns.get() < spin.below_ns.get()
    }

    #[test]
    fn spins_while_events_are_close_and_stops_when_they_are_not() {
        let spin = Spin::new(SpinPolicy::Balanced);
        assert!(!spins(&spin), "a new core sleeps");
        for _ in 0..30 {
            spin.learn(Duration::from_micros(15));
        }
        assert!(spins(&spin));
        spin.learn(Duration::from_secs(60));
        assert!(spins(&spin), "one pause does not unlearn a busy core");
        for _ in 0..3 {
            spin.learn(Duration::from_secs(1));
        }
        assert!(!spins(&spin), "a few do");
    }

    /// A ring that announces work which it does not have.
    #[derive(Default)]
    struct Stale {
        entered: Cell<u32>,
    }

    impl Watched for Stale {
        fn has_queued(&self) -> bool {
            false
        }

        fn has_completions(&self) -> bool {
            // A test that hangs tells less than one that fails.
            assert!(self.entered.get() < 10_000_000, "it spins for ever");
            false
        }

        fn has_deferred_work(&self) -> bool {
            true
        }

        fn enter(&self) {
            self.entered.set(self.entered.get() + 1);
        }
    }

    #[test]
    fn work_that_is_announced_and_not_there_ends_no_sleep_for_good() {
        let (ring, start) = (Stale::default(), Instant::now());
        assert!(!spin(&ring, None, start));
        assert!(start.elapsed() >= SPIN && ring.entered.get() > 0);
        assert!(!spin(&ring, Some(start), Instant::now()), "its time is over");
    }

    #[test]
    fn another_policy_holds_at_once_and_keeps_what_was_learned() {
        let spin = Spin::new(SpinPolicy::Balanced);
        for _ in 0..30 {
            spin.learn(Duration::from_micros(60));
        }
        assert!(!spins(&spin));
        spin.set(SpinPolicy::Latency);
        assert!(spins(&spin));
        spin.set(SpinPolicy::Efficient);
        assert!(!spins(&spin));
    }

    #[test]
    fn the_efficient_policy_never_spins() {
        let spin = Spin::new(SpinPolicy::Efficient);
        for _ in 0..100 {
            spin.learn(Duration::ZERO);
        }
        assert!(!spins(&spin));
    }
}
