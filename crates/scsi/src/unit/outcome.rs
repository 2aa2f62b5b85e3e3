//! What a command leads to.

use crate::nexus::NexusKey;
use crate::param::Overwrite;
use crate::reservation::Refusal;
use crate::{Sense, Status};

/// The answer to a command, and what the caller has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    /// SCSI status.
    pub status: Status,
    /// Sense data, with CHECK CONDITION.
    pub sense: Option<Sense>,
    /// Data-In, cut to the allocation length.
    pub data_in: Vec<u8>,
    /// To be done in this order, before the answer is sent unless the effect says otherwise.
    pub effects: Vec<Effect>,
}

/// Something that only the caller can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// PREEMPT AND ABORT: abort the tasks of this nexus, except the command itself.
    AbortTasks {
        /// The preempted nexus.
        of: NexusKey,
    },
    /// Make everything in the volatile cache durable. If that fails, the command fails.
    SynchronizeCache,
    /// Sanitize the medium; call [`LogicalUnit::sanitize_progress`](super::LogicalUnit::sanitize_progress)
    /// now and then and [`LogicalUnit::sanitize_end`](super::LogicalUnit::sanitize_end) at the end. That
    /// it has not ended well is put on stable storage before it begins, for
    /// [`LogicalUnit::sanitize_was_cut_off`](super::LogicalUnit::sanitize_was_cut_off).
    Sanitize {
        /// How.
        method: SanitizeMethod,
        /// IMMED: answer first.
        immediate: bool,
        /// AUSE: EXIT FAILURE MODE is allowed if it fails.
        unrestricted_exit: bool,
    },
    /// A host has set or cleared SWP of the control mode page, which holds for all hosts: tell the operator.
    WriteProtection {
        /// It is set now.
        on: bool,
    },
    /// EXIT FAILURE MODE: what was put on stable storage for [`Effect::Sanitize`] is void.
    ForgetSanitize,
}

/// How to make the user data irretrievable (SBC-4 4.11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SanitizeMethod {
    /// Write a pattern over every block.
    Overwrite(Overwrite),
    /// Deallocate every block, so that all read as zeroes.
    BlockErase,
}

impl Outcome {
    /// GOOD without data.
    pub fn good() -> Self {
        Self::data(Vec::new())
    }

    /// GOOD with data, already cut to size.
    pub fn data(data_in: Vec<u8>) -> Self {
        Self { status: Status::Good, sense: None, data_in, effects: Vec::new() }
    }

    /// CHECK CONDITION with this sense data.
    pub fn check(sense: Sense) -> Self {
        Self { status: Status::CheckCondition, sense: Some(sense), ..Self::good() }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict => Self { status: Status::ReservationConflict, ..Self::good() },
            Refusal::Check(sense) => Self::check(sense),
        }
    }
}

/// What the steps of [`LogicalUnit::execute`](super::LogicalUnit::execute) produce.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) data_in: Vec<u8>,
    pub(super) effects: Vec<Effect>,
}

impl Reply {
    /// Data cut to the allocation length (SPC-5 4.2.5.6).
    pub(super) fn cut(mut data_in: Vec<u8>, allocation_bytes: u32) -> Self {
        data_in.truncate(allocation_bytes as usize);
        Self { data_in, effects: Vec::new() }
    }

    pub(super) fn effects(effects: Vec<Effect>) -> Self {
        Self { data_in: Vec::new(), effects }
    }
}
