//! How a command ended, and the one place where failures become status and sense.

mod failure;

use ring::Data;
use scsi::reservation::Refusal;
use scsi::{Sense, SenseKey, Status};

pub(crate) use failure::{Doing, failed};

/// How a command ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// GOOD without Data-In; `moved` bytes of Data-Out were wanted.
    Good { moved: u64 },
    /// GOOD with parameter data.
    Parameters(Vec<u8>),
    /// GOOD with all data of a read.
    Data(Data),
    /// Data-In PDUs have been sent, `pdus` of them; the read was for `moved` bytes.
    Streamed { pdus: u32, moved: u64 },
    /// CHECK CONDITION.
    Check(Sense),
    /// The same for a command that would move so many bytes, of which fewer were announced.
    Short { sense: Sense, moved: u64 },
    /// Another status without data.
    Status(Status),
    /// No answer.
    Aborted,
}

impl Outcome {
    /// Bytes of data that were moved, or would have been if as many had been announced.
    pub(crate) fn moved_bytes(&self) -> u64 {
        match self {
            Self::Good { moved } | Self::Streamed { moved, .. } => *moved,
            Self::Parameters(bytes) => bytes.len() as u64,
            Self::Data(data) => data.len() as u64,
            Self::Check(_) | Self::Short { .. } | Self::Status(_) | Self::Aborted => 0,
        }
    }

    /// The command has failed. A unit attention is no failure: the host hears news and asks again.
    pub(crate) fn is_error(&self) -> bool {
        match self {
            Self::Check(sense) => sense.key != SenseKey::UnitAttention,
            Self::Short { .. } | Self::Status(_) => true,
            Self::Good { .. }
            | Self::Parameters(_)
            | Self::Data(_)
            | Self::Streamed { .. }
            | Self::Aborted => false,
        }
    }
}

/// A command that may not run.
pub(crate) fn refused(refusal: Refusal) -> Outcome {
    match refusal {
        Refusal::Check(sense) => Outcome::Check(sense),
        Refusal::Conflict => Outcome::Status(Status::ReservationConflict),
    }
}
