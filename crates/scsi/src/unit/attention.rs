//! Unit attention conditions of one I_T nexus (SAM-5 5.14).

use crate::AdditionalSense;

/// Conditions that wait at most. There are fewer kinds than this, so that nothing is lost in
/// practice, but a promise is better kept by a number.
const PENDING_MAX: usize = 16;

/// ASC of power on, reset and nexus loss, which SAM-5 5.3.3 ranks above reservation conflicts.
const RESET: u8 = 0x29;

/// The conditions to report, each kind once, resets first and otherwise in the order they arose.
#[derive(Debug, Default)]
pub(super) struct Attentions {
    pending: Vec<AdditionalSense>,
}

impl Attentions {
    /// Adds a condition. Of several resets only the most far-reaching is kept: power on stands
    /// for all (SAM-5 5.14.2), and the lower the ASCQ the more it covers.
    pub(super) fn establish(&mut self, condition: AdditionalSense) {
        if condition.asc == RESET {
            let stronger = self.pending.first().filter(|first| **first <= condition);
            if stronger.is_some_and(|first| first.asc == RESET) {
                return;
            }
            self.pending.retain(|known| known.asc != RESET);
            self.pending.insert(0, condition);
            self.pending.truncate(PENDING_MAX);
        } else if !self.pending.contains(&condition) && self.pending.len() < PENDING_MAX {
            self.pending.push(condition);
        }
    }

    /// The next condition, which is cleared by being taken.
    pub(super) fn take(&mut self) -> Option<AdditionalSense> {
        (!self.pending.is_empty()).then(|| self.pending.remove(0))
    }

    /// Takes the next condition only if it is one that goes before a reservation conflict.
    pub(super) fn take_reset(&mut self) -> Option<AdditionalSense> {
        self.pending.first().filter(|first| first.asc == RESET)?;
        self.take()
    }

    /// Clears one kind of condition that has been told in another way.
    pub(super) fn clear(&mut self, condition: AdditionalSense) {
        self.pending.retain(|known| *known != condition);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POWER_ON: AdditionalSense = AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED;
    const RESET: AdditionalSense = AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED;
    const MODE: AdditionalSense = AdditionalSense::MODE_PARAMETERS_CHANGED;
    const LUNS: AdditionalSense = AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED;

    fn drain(conditions: &[AdditionalSense]) -> Vec<AdditionalSense> {
        let mut attentions = Attentions::default();
        conditions.iter().for_each(|condition| attentions.establish(*condition));
        std::iter::from_fn(|| attentions.take()).collect()
    }

    #[test]
    fn resets_come_first_and_once() {
        assert_eq!(drain(&[MODE, LUNS, MODE, RESET]), [RESET, MODE, LUNS]);
        assert_eq!(drain(&[RESET, POWER_ON, RESET]), [POWER_ON]);
        assert_eq!(drain(&[POWER_ON, RESET]), [POWER_ON]);
    }

    #[test]
    fn the_queue_is_bounded_and_keeps_resets() {
        let many = |ascq| AdditionalSense { asc: 0x3f, ascq };
        let mut conditions: Vec<_> = (0..100).map(many).collect();
        conditions.push(RESET);
        let drained = drain(&conditions);
        assert_eq!(drained.len(), PENDING_MAX);
        assert_eq!(drained[..2], [RESET, many(0)]);
    }

    #[test]
    fn only_resets_go_before_reservation_conflicts() {
        let mut attentions = Attentions::default();
        attentions.establish(MODE);
        assert_eq!(attentions.take_reset(), None);
        attentions.establish(RESET);
        assert_eq!(attentions.take_reset(), Some(RESET));
        attentions.clear(MODE);
        assert!(attentions.is_empty());
    }
}
