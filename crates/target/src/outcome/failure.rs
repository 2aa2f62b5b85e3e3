//! Failures of a disk, as a host must hear of them: the only mapping to status and sense.

use block::BlockError;
use scsi::{AdditionalSense, Sense, SenseKey, Status};

use super::Outcome;
use crate::quiet::{MEDIUM, quietly};
use crate::unit::Unit;

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Reading,
    Writing,
}

/// Maps a failure to what the host must hear. Nothing that failed becomes GOOD.
pub(crate) fn failed(unit: &Unit, error: BlockError, doing: Doing) -> Outcome {
    let outcome = outcome_of(error, doing, unit.block_bytes);
    let is_trouble = matches!(
        error,
        BlockError::Medium { .. }
            | BlockError::LostWrites
            | BlockError::Unreachable
            | BlockError::InDoubt
            | BlockError::Os { .. }
    );
    if is_trouble {
        quietly!(MEDIUM, error, "{}: {error}", unit.name);
    } else if error == BlockError::NoSpace {
        quietly!(MEDIUM, warn, "{}: {error}; writes are refused until there is some", unit.name);
    }
    outcome
}

fn outcome_of(error: BlockError, doing: Doing, block_bytes: u32) -> Outcome {
    let sense = match error {
        BlockError::OutOfRange { at, .. } => Sense::lba_out_of_range(at / u64::from(block_bytes)),
        BlockError::ReadOnly => Sense::write_protected(),
        BlockError::NoSpace => Sense::space_allocation_failed(),
        BlockError::Medium { at } => {
            let lba = at / u64::from(block_bytes);
            match doing {
                Doing::Reading => Sense::medium_error_read(lba),
                Doing::Writing => Sense::write_error(lba),
            }
        }
        // What the host believes to be written may be gone: it must not go on as if nothing were.
        BlockError::LostWrites => Sense::new(SenseKey::MediumError, AdditionalSense::WRITE_ERROR),
        BlockError::NoMemory | BlockError::Busy => return Outcome::Status(Status::Busy),
        // A disk that lies elsewhere and is away may come back, and other ports may reach it: hosts
        // repeat this, and look for another path.
        BlockError::Unreachable => Sense::new(
            SenseKey::NotReady,
            AdditionalSense::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION,
        ),
        // It may have been done, so nothing that says that it was not begun. Hosts repeat what may be done twice, and
        // look at the medium before they repeat a COMPARE AND WRITE.
        BlockError::InDoubt => Sense::new(
            SenseKey::AbortedCommand,
            AdditionalSense::LOGICAL_UNIT_COMMUNICATION_TIME_OUT,
        ),
        BlockError::Reserved => return Outcome::Status(Status::ReservationConflict),
        BlockError::Unsupported => {
            Sense::new(SenseKey::IllegalRequest, AdditionalSense::INVALID_FIELD_IN_CDB)
        }
        BlockError::Unaligned { .. }
        | BlockError::TooLong { .. }
        | BlockError::PayloadMismatch
        | BlockError::Os { .. } => Sense::internal_failure(),
    };
    Outcome::Check(sense)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sense_of(error: BlockError, doing: Doing) -> Sense {
        match outcome_of(error, doing, 512) {
            Outcome::Check(sense) => sense,
            other => panic!("{error} gave {other:?}"),
        }
    }

    #[test]
    fn medium_errors_name_the_block() {
        let error = BlockError::Medium { at: 512 * 77 };
        assert_eq!(sense_of(error, Doing::Reading), Sense::medium_error_read(77));
        assert_eq!(sense_of(error, Doing::Writing), Sense::write_error(77));
    }

    #[test]
    fn a_disk_that_is_away_is_asked_for_again_and_a_reservation_is_one() {
        let sense = sense_of(BlockError::Unreachable, Doing::Reading);
        assert_eq!((sense.key, sense.additional.asc), (SenseKey::NotReady, 0x04));
        let conflict = outcome_of(BlockError::Reserved, Doing::Writing, 512);
        assert!(matches!(conflict, Outcome::Status(Status::ReservationConflict)));
    }

    #[test]
    fn a_change_that_may_have_been_done_is_not_said_to_be_untouched() {
        let sense = sense_of(BlockError::InDoubt, Doing::Writing);
        assert_eq!(sense.key, SenseKey::AbortedCommand);
        assert_eq!((sense.additional.asc, sense.additional.ascq), (0x08, 0x01));
    }

    #[test]
    fn a_full_device_is_space_allocation_failed_write_protect() {
        let sense = sense_of(BlockError::NoSpace, Doing::Writing);
        assert_eq!(sense, Sense::space_allocation_failed());
    }

    #[test]
    fn no_failure_becomes_good() {
        let errors = [
            BlockError::OutOfRange { at: 0, len: 1, size_bytes: 0 },
            BlockError::Unaligned { at: 1, len: 1, block_bytes: 512 },
            BlockError::TooLong { len: 2, max: 1 },
            BlockError::PayloadMismatch,
            BlockError::ReadOnly,
            BlockError::NoSpace,
            BlockError::Medium { at: 0 },
            BlockError::LostWrites,
            BlockError::NoMemory,
            BlockError::Busy,
            BlockError::Unsupported,
            BlockError::Unreachable,
            BlockError::InDoubt,
            BlockError::Reserved,
            BlockError::Os { errno: 5 },
        ];
        for error in errors {
            let outcome = outcome_of(error, Doing::Writing, 512);
            let bad = match outcome {
                Outcome::Check(_) => true,
                Outcome::Status(status) => status != Status::Good,
                _ => false,
            };
            assert!(bad, "{error} became {outcome:?}");
        }
    }
}
