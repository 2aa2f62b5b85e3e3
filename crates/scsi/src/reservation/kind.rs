//! Reservation types, what a nexus may do under one, and what a service action leads to.

use crate::cdb::AccessClass;
use crate::nexus::NexusKey;
use crate::sense::{AdditionalSense, Sense};

/// TYPE of a persistent reservation (SPC-4 6.15.3.4). The discriminants are the wire values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum ReservationType {
    WriteExclusive = 0x1,
    ExclusiveAccess = 0x3,
    WriteExclusiveRegistrantsOnly = 0x5,
    ExclusiveAccessRegistrantsOnly = 0x6,
    WriteExclusiveAllRegistrants = 0x7,
    ExclusiveAccessAllRegistrants = 0x8,
}

impl ReservationType {
    /// All six.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrantsOnly,
        Self::ExclusiveAccessRegistrantsOnly,
        Self::WriteExclusiveAllRegistrants,
        Self::ExclusiveAccessAllRegistrants,
    ];

    /// The type with the wire value `code`; `None` for obsolete and reserved ones.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == code)
    }

    /// Every registrant is a holder (SPC-4 5.13.10).
    pub fn is_all_registrants(self) -> bool {
        matches!(self, Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants)
    }

    /// Every registrant may use the medium: the registrants only and all registrants types.
    pub fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Others may still read.
    pub(super) fn admits_readers(self) -> bool {
        matches!(
            self,
            Self::WriteExclusive
                | Self::WriteExclusiveRegistrantsOnly
                | Self::WriteExclusiveAllRegistrants
        )
    }
}

/// What the present reservation leaves to one nexus: a column of SPC-4 table 65 and SBC-4 table 13.
///
/// It changes only when [`Reservations::revision`](super::Reservations::revision) does, so a
/// session may keep it and test each command without looking the nexus up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// No reservation, or one that admits this nexus.
    Full,
    /// A write exclusive reservation of others.
    WriteExclusiveOfOthers,
    /// An exclusive access reservation of others.
    ExclusiveAccessOfOthers,
    /// Another nexus holds the unit by RESERVE(6) or RESERVE(10) (SPC-2 5.5.1).
    ReservedByOther,
}

impl Access {
    /// Whether a command of `class` may run. The reservation commands decide for themselves.
    pub fn allows(self, class: AccessClass) -> bool {
        use AccessClass::*;
        match self {
            Self::Full => true,
            Self::WriteExclusiveOfOthers => class != Write,
            Self::ExclusiveAccessOfOthers => !matches!(class, Read | Write),
            Self::ReservedByOther => matches!(class, Always | Reservation),
        }
    }
}

/// Why a reservation command was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// RESERVATION CONFLICT status.
    #[error("reservation conflict")]
    Conflict,
    /// CHECK CONDITION status with this sense data.
    #[error("check condition: {0:?}")]
    Check(Sense),
}

impl From<Sense> for Refusal {
    fn from(sense: Sense) -> Self {
        Self::Check(sense)
    }
}

/// What the caller has to do after a service action that ended with GOOD status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Effects {
    /// Unit attention conditions to establish, each for one nexus.
    pub attentions: Vec<(NexusKey, AdditionalSense)>,
    /// PREEMPT AND ABORT: the nexuses whose tasks (except this command), copy operations and
    /// PREVENT conditions end (SPC-4 5.13.11.2.6).
    pub aborted: Vec<NexusKey>,
    /// Registrations, reservation or generation changed: a group shares the new state.
    pub changed: bool,
    /// The image on stable storage must be replaced by
    /// [`Reservations::to_bytes`](super::Reservations::to_bytes) before the command is answered.
    pub save: bool,
}

impl Effects {
    pub(super) fn attend(&mut self, nexus: &NexusKey, condition: AdditionalSense) {
        self.attentions.push((nexus.clone(), condition));
    }
}
