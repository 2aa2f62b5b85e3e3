//! How work in the background leaves hosts their share of the disks' time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::Core;

/// Work that is done in steps, with a rest after each as long as hosts do I/O.
#[derive(Debug)]
pub(super) struct Pace {
    began: Duration,
    host_ops: u64,
    are_hosts_busy: bool,
}

impl Pace {
    fn new(now: Duration, host_ops: u64) -> Self {
        Self { began: now, host_ops, are_hosts_busy: false }
    }

    /// Whether hosts did anything during the last step.
    pub(super) fn are_hosts_busy(&self) -> bool {
        self.are_hosts_busy
    }

    /// A step has ended: how long to rest, so that the work takes `share_percent` of the time.
    fn rest_after(&mut self, now: Duration, host_ops: u64, share_percent: u8) -> Duration {
        let worked = now.saturating_sub(self.began);
        self.are_hosts_busy = host_ops != self.host_ops;
        let share = u32::from(share_percent.clamp(1, 100));
        if self.are_hosts_busy { worked * (100 - share) / share } else { Duration::ZERO }
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
}
