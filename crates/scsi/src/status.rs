//! SCSI status codes (SAM-5 5.3).

/// How a task ended. The discriminants are the wire values of SAM-5 table 28.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done without error.
    Good = 0x00,
    /// Sense data says what happened.
    CheckCondition = 0x02,
    /// PRE-FETCH: everything asked for fits in the cache.
    ConditionMet = 0x04,
    /// The logical unit cannot take the command now.
    Busy = 0x08,
    /// A reservation of another I_T nexus is in the way.
    ReservationConflict = 0x18,
    /// The task set has no room for the command.
    TaskSetFull = 0x28,
    /// An auto contingent allegiance of another I_T nexus is in the way.
    AcaActive = 0x30,
    /// Aborted by another I_T nexus (control mode page, TAS = 1).
    TaskAborted = 0x40,
}

impl Status {
    /// The status with the wire value `code`, if SAM-5 defines it.
    pub fn from_code(code: u8) -> Option<Self> {
        use Status::*;
        [
            Good,
            CheckCondition,
            ConditionMet,
            Busy,
            ReservationConflict,
            TaskSetFull,
            AcaActive,
            TaskAborted,
        ]
        .into_iter()
        .find(|status| status.code() == code)
    }

    /// The wire value.
    pub fn code(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_either_unknown_or_names_itself() {
        let known: Vec<u8> =
            (0..=255).filter_map(|code| Status::from_code(code).map(Status::code)).collect();
        assert_eq!(known, [0x00, 0x02, 0x04, 0x08, 0x18, 0x28, 0x30, 0x40]);
    }
}
