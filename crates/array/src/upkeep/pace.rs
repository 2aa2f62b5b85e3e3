//! How work in the background leaves hosts their share of the disks' time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::Core;

/// How long a step is to take while hosts do I/O: who shares disks that seek with it has them back before he notices.
const STEP_TIME: Duration = Duration::from_secs(1);
/// Pieces of work in a step: while nobody else wants the disks, at most and at least while hosts do.
const PIECES_ALONE: usize = 8 * PIECES_MAX;
const PIECES_MAX: usize = 24;
const PIECES_MIN: usize = 2;

/// Work that is done in steps, with a rest after each as long as hosts do I/O.
#[derive(Debug)]
pub(super) struct Pace {
    began: Duration,
    host_ops: u64,
    are_hosts_busy: bool,
    /// Pieces that a step may have while hosts do I/O.
    pieces: usize,
}

impl Pace {
    /// Whether hosts are busy nobody has looked: the first step is one beside them.
    fn new(now: Duration, host_ops: u64) -> Self {
        Self { began: now, host_ops, are_hosts_busy: true, pieces: PIECES_MAX }
    }

    /// How many pieces of its work the next step is to have, and no more at the same time.
    pub(super) fn pieces(&self) -> usize {
        if self.are_hosts_busy { self.pieces } else { PIECES_ALONE }
    }

    /// Whether hosts did anything during the last step.
    pub(super) fn are_hosts_busy(&self) -> bool {
        self.are_hosts_busy
    }

    /// A step has ended: how long to rest, so that the work takes `share_percent` of the time.
    fn rest_after(&mut self, now: Duration, host_ops: u64, share_percent: u8) -> Duration {
        let worked = now.saturating_sub(self.began);
        let pieces = self.pieces();
        self.are_hosts_busy = host_ops != self.host_ops;
        if !self.are_hosts_busy {
            return Duration::ZERO;
        }
        let fit = pieces as u128 * STEP_TIME.as_nanos() / worked.as_nanos().max(1);
        let fit = usize::try_from(fit).unwrap_or(PIECES_MAX);
        self.pieces = fit.min(2 * self.pieces).clamp(PIECES_MIN, PIECES_MAX);
        let share = u32::from(share_percent.clamp(1, 100));
        worked * (100 - share) / share
    }
}

impl Core {
    /// Work in the background begins.
    pub(super) fn pace(&self) -> Pace {
        Pace::new(self.env.now(), self.host_ops.load(Ordering::Relaxed))
    }

    /// Rests after a step of it; what hosts do meanwhile does not count for the next one.
    pub(super) async fn rest(&self, pace: &mut Pace) {
        let share = self.lock().tables.settings.rebuild_share_percent;
        let host_ops = self.host_ops.load(Ordering::Relaxed);
        let rest = pace.rest_after(self.env.now(), host_ops, share);
        if !rest.is_zero() {
            self.env.sleep(rest).await;
        }
        pace.began = self.env.now();
        pace.host_ops = self.host_ops.load(Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_rests_by_its_share_while_hosts_are_busy_and_never_else() {
        let ms = Duration::from_millis;
        let mut pace = Pace::new(ms(100), 7);
        assert_eq!(pace.rest_after(ms(160), 7, 20), Duration::ZERO, "no host did anything");
        assert!(!pace.are_hosts_busy());
        assert_eq!(pace.rest_after(ms(160), 8, 50), ms(60));
        assert_eq!(pace.rest_after(ms(160), 8, 20), ms(240));
        assert_eq!(pace.rest_after(ms(160), 8, 100), Duration::ZERO);
        assert!(pace.are_hosts_busy());
    }

    #[test]
    fn a_step_beside_hosts_is_as_long_as_slow_disks_let_it_be() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(seconds(0), 0);
        assert_eq!(pace.pieces(), PIECES_MAX, "nobody knows whether hosts are there");
        let step = |pace: &mut Pace, per_piece: Duration| {
            pace.rest_after(per_piece * u32::try_from(pace.pieces()).unwrap(), 1, 50);
            pace.pieces()
        };
        assert_eq!(step(&mut pace, seconds(1) / 4), 4, "each piece takes a quarter of a second");
        assert_eq!(step(&mut pace, seconds(1)), PIECES_MIN);
        assert_eq!(step(&mut pace, seconds(0)), 2 * PIECES_MIN, "not much more at once");
        assert_eq!(pace.rest_after(seconds(9), 0, 50), Duration::ZERO, "hosts have gone");
        assert_eq!(pace.pieces(), PIECES_ALONE);
        assert_eq!(step(&mut pace, seconds(1)), PIECES_MIN, "and are back");
    }
}
