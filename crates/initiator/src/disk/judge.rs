//! What an answer means: for the path, for the command, and in the words of [`BlockError`].

use std::time::Duration;

use block::BlockError;
use scsi::alua::AccessState;
use scsi::{AdditionalSense, Sense, SenseKey, Status};

use crate::paths::{Failure, Verdict};
use crate::session::{CommandError, Reply};

/// BUSY: the target has too much to do.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// TASK SET FULL: others' commands end soon.
const FULL_PAUSE: Duration = Duration::from_millis(10);
/// No buffer of our own.
const MEMORY_PAUSE: Duration = Duration::from_millis(2);
/// Becoming ready, or in transition between ALUA states.
const READY_PAUSE: Duration = Duration::from_millis(250);

/// What an answer says besides how the command fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum News {
    #[default]
    None,
    /// Paths may have changed their ALUA states, or pages their owners.
    Access,
    /// The unit may have become another one, or larger, or smaller.
    Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) news: News,
}

pub(super) fn judge(result: &Result<Reply, CommandError>) -> Judgement {
    let plain = |verdict| Judgement { verdict, news: News::None };
    match result {
        Err(error) => plain(match *error {
            CommandError::NotSent | CommandError::Closed => Verdict::NotSent,
            CommandError::InDoubt { loss } => Verdict::InDoubt { loss },
            CommandError::Aborted => Verdict::Aborted,
            CommandError::TargetFailure => Verdict::Again,
            CommandError::NoMemory => Verdict::Later { pause: MEMORY_PAUSE },
        }),
        Ok(reply) => match reply.status {
            Status::Good | Status::ConditionMet | Status::ReservationConflict => {
                plain(Verdict::Done)
            }
            Status::Busy | Status::AcaActive => plain(Verdict::Later { pause: BUSY_PAUSE }),
            Status::TaskSetFull => plain(Verdict::Later { pause: FULL_PAUSE }),
            Status::TaskAborted => plain(Verdict::Again),
            Status::CheckCondition => match &reply.sense {
                Some(sense) => by_sense(sense),
                // Nothing is known but that it failed.
                None => plain(Verdict::Again),
            },
        },
    }
}

fn by_sense(sense: &Sense) -> Judgement {
    type Code = AdditionalSense;
    // The blocks are reached through other port groups (SBC-4 4.26.3). Which ones the sense data may
    // tell, of these blocks; REPORT REFERRALS, which is asked for then, tells of all.
    let is_referral = sense.additional == Code::INSPECT_REFERRALS_SENSE_DESCRIPTORS;
    let verdict = match sense.key {
        SenseKey::AbortedCommand if is_referral => Verdict::Elsewhere,
        SenseKey::UnitAttention | SenseKey::AbortedCommand => Verdict::Again,
        SenseKey::NotReady => match sense.additional {
            Code::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE => {
                Verdict::Inaccessible { access: AccessState::Standby }
            }
            Code::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE => {
                Verdict::Inaccessible { access: AccessState::Unavailable }
            }
            Code::LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY
            | Code::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION => {
                Verdict::Later { pause: READY_PAUSE }
            }
            _ => Verdict::Done,
        },
        SenseKey::IllegalRequest if sense.additional == Code::INSUFFICIENT_RESOURCES => {
            Verdict::Later { pause: BUSY_PAUSE }
        }
        _ => Verdict::Done,
    };
    let is_attention = sense.key == SenseKey::UnitAttention;
    let news = match sense.additional {
        Code::INSPECT_REFERRALS_SENSE_DESCRIPTORS => News::Access,
        _ if !is_attention => News::None,
        Code::ASYMMETRIC_ACCESS_STATE_CHANGED => News::Access,
        Code::CAPACITY_DATA_HAS_CHANGED
        | Code::INQUIRY_DATA_HAS_CHANGED
        | Code::REPORTED_LUNS_DATA_HAS_CHANGED => News::Unit,
        _ => News::None,
    };
    Judgement { verdict, news }
}

/// A final answer that is not GOOD, to a command on bytes from `at` on.
pub(super) fn error_of(reply: &Reply, at: u64, block_bytes: u32) -> Option<BlockError> {
    type Code = AdditionalSense;
    if reply.is_good() {
        return None;
    }
    if reply.status == Status::ReservationConflict {
        return Some(BlockError::Reserved);
    }
    let Some(sense) = reply.sense else { return Some(BlockError::Os { errno: libc::EIO }) };
    let block_bytes = u64::from(block_bytes);
    Some(match (sense.key, sense.additional) {
        (SenseKey::NoSense | SenseKey::RecoveredError, _) => return None,
        (SenseKey::MediumError, _) => BlockError::Medium {
            at: sense.information.map_or(at, |lba| lba.saturating_mul(block_bytes)),
        },
        (SenseKey::IllegalRequest, Code::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE) => {
            let at = sense.information.map_or(at, |lba| lba.saturating_mul(block_bytes));
            // The unit has become smaller than it was when it was attached.
            BlockError::OutOfRange { at, len: block_bytes, size_bytes: at }
        }
        (SenseKey::IllegalRequest, Code::INVALID_COMMAND_OPERATION_CODE) => BlockError::Unsupported,
        (SenseKey::IllegalRequest, Code::INVALID_FIELD_IN_CDB) => BlockError::Unsupported,
        (SenseKey::DataProtect, Code::SPACE_ALLOCATION_FAILED_WRITE_PROTECT) => BlockError::NoSpace,
        (SenseKey::DataProtect, _) => BlockError::ReadOnly,
        _ => BlockError::Os { errno: libc::EIO },
    })
}

/// A command that never got its answer. The log says more.
pub(super) fn failure_of(failure: Failure) -> BlockError {
    match failure {
        Failure::Unreachable => BlockError::Unreachable,
        Failure::TooManyRetries => BlockError::Os { errno: libc::EIO },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::Data;

    fn reply(status: Status, sense: Option<Sense>) -> Reply {
        Reply { status, sense, referrals: Vec::new(), data: Data::default() }
    }

    fn check(sense: Sense) -> Reply {
        reply(Status::CheckCondition, Some(sense))
    }

    #[test]
    fn only_a_change_that_may_happen_yet_is_in_doubt() {
        let verdict = |error| judge(&Err(error)).verdict;
        assert_eq!(verdict(CommandError::NotSent), Verdict::NotSent);
        assert_eq!(verdict(CommandError::InDoubt { loss: 3 }), Verdict::InDoubt { loss: 3 });
        assert_eq!(verdict(CommandError::Aborted), Verdict::Aborted);
        assert!(matches!(verdict(CommandError::NoMemory), Verdict::Later { .. }));
    }

    #[test]
    fn a_busy_target_is_asked_later_and_attention_is_taken_at_once() {
        for status in [Status::Busy, Status::TaskSetFull] {
            let verdict = judge(&Ok(reply(status, None))).verdict;
            assert!(matches!(verdict, Verdict::Later { .. }), "{status:?}");
        }
        let attention = |code| judge(&Ok(check(Sense::unit_attention(code))));
        let reset = attention(AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
        assert_eq!(reset, Judgement { verdict: Verdict::Again, news: News::None });
        let capacity = attention(AdditionalSense::CAPACITY_DATA_HAS_CHANGED);
        assert_eq!(capacity, Judgement { verdict: Verdict::Again, news: News::Unit });
        let access = attention(AdditionalSense::ASYMMETRIC_ACCESS_STATE_CHANGED);
        assert_eq!(access.news, News::Access);
        let elsewhere = AdditionalSense::INSPECT_REFERRALS_SENSE_DESCRIPTORS;
        let elsewhere = judge(&Ok(check(Sense::new(SenseKey::AbortedCommand, elsewhere))));
        let expected = Judgement { verdict: Verdict::Elsewhere, news: News::Access };
        assert_eq!(elsewhere, expected);
    }

    #[test]
    fn a_standby_path_is_left_alone() {
        let standby = AdditionalSense::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE;
        let verdict = judge(&Ok(check(Sense::new(SenseKey::NotReady, standby)))).verdict;
        assert_eq!(verdict, Verdict::Inaccessible { access: AccessState::Standby });
    }

    #[test]
    fn errors_keep_their_meaning() {
        let error = |sense| error_of(&check(sense), 8192, 512);
        assert_eq!(error(Sense::medium_error_read(9)), Some(BlockError::Medium { at: 9 * 512 }));
        assert_eq!(error(Sense::space_allocation_failed()), Some(BlockError::NoSpace));
        assert_eq!(error(Sense::write_protected()), Some(BlockError::ReadOnly));
        assert_eq!(error(Sense::invalid_opcode()), Some(BlockError::Unsupported));
        assert_eq!(error(Sense::internal_failure()), Some(BlockError::Os { errno: libc::EIO }));
        let conflict = error_of(&reply(Status::ReservationConflict, None), 0, 512);
        assert_eq!(conflict, Some(BlockError::Reserved));
        assert_eq!(error_of(&reply(Status::Good, None), 0, 512), None);
        let recovered = Sense::new(SenseKey::RecoveredError, AdditionalSense::NO_ADDITIONAL_SENSE);
        assert_eq!(error(recovered), None);
    }
}
