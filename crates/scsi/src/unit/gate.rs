//! The summary word of an I_T nexus: zero if nothing stands in the way of any command.
//!
//! Every change of state recomputes the word of every nexus under the unit's lock, so the path of
//! a command needs one atomic load. The word says enough to judge a command without the lock;
//! only taking a unit attention condition off its queue needs more.

use crate::alua::AccessState;
use crate::reservation::Access;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gate(pub(super) u32);

impl Gate {
    pub(super) const ATTENTION: u32 = 1 << 0;
    pub(super) const PROTECTED: u32 = 1 << 1;
    pub(super) const SANITIZING: u32 = 1 << 3;
    pub(super) const SANITIZE_FAILED: u32 = 1 << 4;
    const RESERVATION_SHIFT: u32 = 8;
    const ALUA_SHIFT: u32 = 16;

    pub(super) fn has(self, bits: u32) -> bool {
        self.0 & bits != 0
    }

    pub(super) fn with(self, bits: u32, set: bool) -> Self {
        Self(if set { self.0 | bits } else { self.0 })
    }

    pub(super) fn with_reservation(self, access: Access) -> Self {
        let code = match access {
            Access::Full => 0,
            Access::WriteExclusiveOfOthers => 1,
            Access::ExclusiveAccessOfOthers => 2,
            Access::ReservedByOther => 3,
        };
        Self(self.0 | code << Self::RESERVATION_SHIFT)
    }

    pub(super) fn reservation(self) -> Access {
        match self.0 >> Self::RESERVATION_SHIFT & 0xff {
            0 => Access::Full,
            1 => Access::WriteExclusiveOfOthers,
            2 => Access::ExclusiveAccessOfOthers,
            _ => Access::ReservedByOther,
        }
    }

    /// The two active states are one here: both admit every command, and the word stays zero.
    pub(super) fn with_alua(self, state: AccessState) -> Self {
        let code = match state {
            AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => 0,
            AccessState::Standby => 1,
            AccessState::Unavailable => 2,
            AccessState::Offline => 3,
            AccessState::Transitioning => 4,
        };
        Self(self.0 | code << Self::ALUA_SHIFT)
    }

    pub(super) fn alua(self) -> AccessState {
        match self.0 >> Self::ALUA_SHIFT & 0xff {
            0 => AccessState::ActiveOptimized,
            1 => AccessState::Standby,
            2 => AccessState::Unavailable,
            3 => AccessState::Offline,
            _ => AccessState::Transitioning,
        }
    }
}
