//! What an answer says besides how its command fared.

use scsi::{AdditionalSense, Sense, SenseKey};

/// What was heard; several things at once, and none of them is forgotten for another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Paths may have changed their ALUA states, or pages their owners.
    pub(super) access: bool,
    /// The unit may have become another one, or larger, or smaller, or have other settings.
    pub(super) unit: bool,
    /// The unit has lost what its volatile cache held.
    pub(super) power: bool,
    /// It may have, as far as this nexus has been there for less long than what was written.
    pub(super) maybe_power: bool,
    /// Writes that were answered have failed since.
    pub(super) lost_writes: bool,
    /// Commands that were sent on this nexus may have ended without an answer.
    pub(super) cleared: bool,
    /// Another nexus was told something that this one should ask for.
    pub(super) poke: bool,
}

impl News {
    pub(super) const NONE: Self = Self {
        access: false,
        unit: false,
        power: false,
        maybe_power: false,
        lost_writes: false,
        cleared: false,
        poke: false,
    };

    pub(super) fn with(self, other: Self) -> Self {
        Self {
            access: self.access || other.access,
            unit: self.unit || other.unit,
            power: self.power || other.power,
            maybe_power: self.maybe_power || other.maybe_power,
            lost_writes: self.lost_writes || other.lost_writes,
            cleared: self.cleared || other.cleared,
            poke: self.poke || other.poke,
        }
    }

    /// What sense data tells.
    pub(super) fn of(sense: &Sense) -> Self {
        type Code = AdditionalSense;
        if sense.deferred {
            return Self { lost_writes: true, ..Self::NONE };
        }
        if sense.additional == Code::INSPECT_REFERRALS_SENSE_DESCRIPTORS {
            return Self { access: true, ..Self::NONE };
        }
        if sense.key != SenseKey::UnitAttention {
            return Self::NONE;
        }
        match sense.additional {
            Code::ASYMMETRIC_ACCESS_STATE_CHANGED => Self { access: true, ..Self::NONE },
            Code::CAPACITY_DATA_HAS_CHANGED
            | Code::INQUIRY_DATA_HAS_CHANGED
            | Code::MODE_PARAMETERS_CHANGED
            | Code::REPORTED_LUNS_DATA_HAS_CHANGED => Self { unit: true, ..Self::NONE },
            Code::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR => Self { cleared: true, ..Self::NONE },
            other => Self::of_reset(other),
        }
    }

    /// 29h (SAM-5 6.2): a reset ends commands, only the loss of power ends caches, and connections
    /// with them. Old targets say no more than that it was one of them.
    fn of_reset(code: AdditionalSense) -> Self {
        const RESET: u8 = 0x29;
        match code {
            AdditionalSense { asc: RESET, ascq: 0x00 } => {
                Self { maybe_power: true, cleared: true, ..Self::NONE }
            }
            AdditionalSense { asc: RESET, ascq: 0x01 } => Self { power: true, ..Self::NONE },
            AdditionalSense { asc: RESET, ascq: 0x02 | 0x03 } => {
                Self { cleared: true, ..Self::NONE }
            }
            // DEVICE INTERNAL RESET.
            AdditionalSense { asc: RESET, ascq: 0x04 } => {
                Self { power: true, cleared: true, ..Self::NONE }
            }
            _ => Self::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_a_cache_says_so() {
        let of = |ascq| News::of(&Sense::unit_attention(AdditionalSense { asc: 0x29, ascq }));
        for (ascq, power, cleared) in [
            (0, false, true),
            (1, true, false),
            (2, false, true),
            (3, false, true),
            (4, true, true),
            (7, false, false),
        ] {
            assert_eq!(of(ascq).maybe_power, ascq == 0);
            assert_eq!((of(ascq).power, of(ascq).cleared), (power, cleared), "29h/{ascq:02}h");
        }
        // The same code with another key is no news.
        let code = AdditionalSense { asc: 0x29, ascq: 1 };
        assert_eq!(News::of(&Sense::new(SenseKey::AbortedCommand, code)), News::NONE);
    }

    #[test]
    fn one_thing_is_not_forgotten_for_another() {
        let unit = News { unit: true, ..News::NONE };
        let access = News { access: true, ..News::NONE };
        assert_eq!(unit.with(access), News { unit: true, access: true, ..News::NONE });
        assert_eq!(access.with(News::NONE), access);
    }
}
