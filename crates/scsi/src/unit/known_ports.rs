//! Which nexuses have heard that the unit started, and so what a new one is told first.
//!
//! POWER ON OCCURRED means that a volatile cache may be lost (SBC-4 4.15); I_T NEXUS LOSS OCCURRED
//! that only the commands of the nexus are. Whoever was not told the first must not be told the second.

use crate::AdditionalSense;
use crate::nexus::NexusKey;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Nexuses that are remembered at most: 32 KiB for each unit. None is forgotten for another one, so
/// that no host can make the others forgotten.
const KNOWN_MAX: usize = 4096;

/// See the module's page. Names are kept as hashes under a secret: their length is up to hosts.
#[derive(Debug, Default)]
pub(super) struct KnownPorts {
    hasher: RandomState,
    known: HashSet<u64>,
}

impl KnownPorts {
    /// What a nexus that begins now is told: that it is back (SAM-5 6.3.4), that the unit started
    /// before it came for the first time (SAM-5 6.3.1), or, when it may be one of those for whom
    /// there was no room, that it is one of the two.
    pub(super) fn greeting(&self, key: &NexusKey) -> AdditionalSense {
        if self.known.contains(&self.hasher.hash_one(key)) {
            AdditionalSense::I_T_NEXUS_LOSS_OCCURRED
        } else if self.known.len() < KNOWN_MAX {
            AdditionalSense::POWER_ON_OCCURRED
        } else {
            AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED
        }
    }

    /// The nexus has heard its greeting.
    pub(super) fn remember(&mut self, key: &NexusKey) {
        if self.known.len() < KNOWN_MAX {
            self.known.insert(self.hasher.hash_one(key));
        }
        debug_assert!(self.known.len() <= KNOWN_MAX, "the memory of the unit is bounded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> NexusKey {
        NexusKey::new(&format!("iqn.x:{number}"), [0; 6], 1)
    }

    #[test]
    fn who_comes_back_is_told_so_and_for_whom_there_is_no_room_hears_of_both() {
        let mut ports = KnownPorts::default();
        for number in 0..KNOWN_MAX {
            assert_eq!(ports.greeting(&key(number)), AdditionalSense::POWER_ON_OCCURRED);
            ports.remember(&key(number));
        }
        let either = AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED;
        for _ in 0..2 {
            assert_eq!(ports.greeting(&key(KNOWN_MAX)), either);
            ports.remember(&key(KNOWN_MAX));
        }
        let returns = (0..KNOWN_MAX).map(|number| ports.greeting(&key(number)));
        assert!(returns.into_iter().all(|told| told == AdditionalSense::I_T_NEXUS_LOSS_OCCURRED));
    }
}
