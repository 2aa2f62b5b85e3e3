//! What an answer means: for the path, for the command, and in the words of [`BlockError`].

use std::time::Duration;

use block::BlockError;
use scsi::alua::AccessState;
use scsi::{AdditionalSense, Sense, SenseKey, Status};

use super::news::News;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) news: News,
    /// The target has not begun with the command.
    pub(super) is_untouched: bool,
}

pub(super) fn judge(result: &Result<Reply, CommandError>) -> Judgement {
    let of = |verdict, is_untouched| Judgement { verdict, news: News::NONE, is_untouched };
    let (plain, untouched) = (|verdict| of(verdict, false), |verdict| of(verdict, true));
    match result {
        Err(error) => match *error {
            CommandError::NotSent | CommandError::Closed => untouched(Verdict::NotSent),
            CommandError::Crowded => untouched(Verdict::Later { pause: FULL_PAUSE }),
            CommandError::InDoubt { loss } => plain(Verdict::InDoubt { loss }),
            CommandError::Aborted => plain(Verdict::Aborted),
            CommandError::Ended => plain(Verdict::Repeat),
            CommandError::Abandoned => plain(Verdict::Abandoned),
            CommandError::TargetFailure => plain(Verdict::Again),
            CommandError::NoMemory => untouched(Verdict::Later { pause: MEMORY_PAUSE }),
        },
        Ok(reply) => match reply.status {
            Status::Good | Status::ConditionMet | Status::ReservationConflict => {
                plain(Verdict::Done)
            }
            Status::Busy | Status::AcaActive => untouched(Verdict::Later { pause: BUSY_PAUSE }),
            Status::TaskSetFull => untouched(Verdict::Later { pause: FULL_PAUSE }),
            Status::TaskAborted => plain(Verdict::Repeat),
            Status::CheckCondition => match &reply.sense {
                Some(sense) => by_sense(sense),
                // Nothing is known but that it failed.
                None => plain(Verdict::Again),
            },
        },
    }
}

fn by_sense(sense: &Sense) -> Judgement {
    let verdict = verdict_of(sense);
    // What the sense key says was found before anything was done; a deferred error is about an
    // earlier command, and this one was not begun (SPC-5 4.4.7).
    let is_untouched = sense.deferred
        || matches!(sense.key, SenseKey::UnitAttention | SenseKey::NotReady)
        || verdict == Verdict::Elsewhere;
    Judgement { verdict, news: News::of(sense), is_untouched }
}

fn verdict_of(sense: &Sense) -> Verdict {
    type Code = AdditionalSense;
    /// LOGICAL UNIT NOT READY and its like: the unit is there, and will be ready.
    const NOT_READY: u8 = 0x04;
    // The blocks are reached through other port groups (SBC-4 4.26.3). Which ones the sense data may
    // tell, of these blocks; REPORT REFERRALS, which is asked for then, tells of all.
    let is_referral = sense.additional == Code::INSPECT_REFERRALS_SENSE_DESCRIPTORS;
    match sense.key {
        _ if sense.deferred => Verdict::Repeat,
        SenseKey::AbortedCommand if is_referral => Verdict::Elsewhere,
        SenseKey::UnitAttention => Verdict::Repeat,
        SenseKey::AbortedCommand => Verdict::Again,
        SenseKey::NotReady => match sense.additional {
            Code::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE => {
                Verdict::Inaccessible { access: AccessState::Standby }
            }
            Code::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE => {
                Verdict::Inaccessible { access: AccessState::Unavailable }
            }
            // Becoming ready, in transition, or a member that is away: elsewhere first, then later.
            AdditionalSense { asc: NOT_READY, .. } => Verdict::NotReady { pause: READY_PAUSE },
            _ => Verdict::Done,
        },
        SenseKey::IllegalRequest if sense.additional == Code::INSUFFICIENT_RESOURCES => {
            Verdict::Later { pause: BUSY_PAUSE }
        }
        _ => Verdict::Done,
    }
}

/// Whether a comparison has found something else.
pub(super) fn is_miscompare(reply: &Reply) -> bool {
    reply.sense.is_some_and(|sense| sense.key == SenseKey::Miscompare)
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
        assert_eq!(reset.verdict, Verdict::Repeat);
        assert!(reset.is_untouched && reset.news.cleared && !reset.news.power);
        assert!(attention(AdditionalSense::POWER_ON_OCCURRED).news.power);
        assert!(attention(AdditionalSense::CAPACITY_DATA_HAS_CHANGED).news.unit);
        assert!(attention(AdditionalSense::ASYMMETRIC_ACCESS_STATE_CHANGED).news.access);
        let elsewhere = AdditionalSense::INSPECT_REFERRALS_SENSE_DESCRIPTORS;
        let elsewhere = judge(&Ok(check(Sense::new(SenseKey::AbortedCommand, elsewhere))));
        assert_eq!(elsewhere.verdict, Verdict::Elsewhere);
        assert!(elsewhere.news.access && elsewhere.is_untouched);
    }

    /// Whether a command that must be repeated may have done its work already.
    #[test]
    fn what_was_ended_may_have_been_done() {
        for error in [
            CommandError::InDoubt { loss: 1 },
            CommandError::Aborted,
            CommandError::Ended,
            CommandError::TargetFailure,
        ] {
            assert!(!judge(&Err(error)).is_untouched, "{error}");
        }
        assert!(!judge(&Ok(reply(Status::TaskAborted, None))).is_untouched);
        let aborted = Sense::new(SenseKey::AbortedCommand, AdditionalSense::ABORTED_COMMAND);
        assert!(!judge(&Ok(check(aborted))).is_untouched);
        for status in [Status::Busy, Status::TaskSetFull] {
            assert!(judge(&Ok(reply(status, None))).is_untouched);
        }
    }

    /// It tells of an earlier write, and this command was not done.
    #[test]
    fn a_deferred_error_is_news_and_no_answer() {
        let sense = Sense { deferred: true, ..Sense::medium_error_read(9) };
        let judgement = judge(&Ok(check(sense)));
        assert_eq!(judgement.verdict, Verdict::Repeat);
        assert!(judgement.news.lost_writes && judgement.is_untouched);
    }

    #[test]
    fn every_kind_of_not_ready_is_waited_for() {
        for ascq in [0x00, 0x01, 0x03, 0x0a, 0x12, 0x14] {
            let code = AdditionalSense { asc: 0x04, ascq };
            let verdict = judge(&Ok(check(Sense::new(SenseKey::NotReady, code)))).verdict;
            assert!(matches!(verdict, Verdict::NotReady { .. }), "04h/{ascq:02x}h: {verdict:?}");
        }
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
