//! What is known of one copy operation, and how RECEIVE COPY commands tell it.

use super::token::RodToken;
use crate::sense::Sense;
use crate::status::Status;

/// COPY OPERATION STATUS (SPC-4 table 249). The discriminants are the wire values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum OperationStatus {
    /// All is copied.
    Completed = 0x01,
    /// Ended by an error.
    CompletedWithErrors = 0x02,
    /// A token command stopped before the end of its ranges, without another error.
    CompletedPartially = 0x03,
    /// The command has not been answered yet.
    InForeground = 0x11,
    /// The command was answered (IMMED), the copy goes on.
    InBackground = 0x12,
    /// Ended from outside: PREEMPT AND ABORT, ABORT TASK and the like.
    Terminated = 0x60,
}

impl OperationStatus {
    /// Still under way.
    pub fn is_in_progress(self) -> bool {
        matches!(self, Self::InForeground | Self::InBackground)
    }

    fn is_without_errors(self) -> bool {
        matches!(self, Self::Completed | Self::CompletedPartially)
    }
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// SEGMENTS PROCESSED, the current one included; zero for token commands.
    pub segments: u16,
    /// What was copied without a gap from the start on: bytes for EXTENDED COPY, logical blocks
    /// for token commands.
    pub transferred: u64,
    /// OPERATION COUNTER: reads and writes done.
    pub operations: u16,
}

/// How a copy ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOutcome {
    /// Not one of the states in progress.
    pub status: OperationStatus,
    /// Sense data, if the copy failed or fell short.
    pub sense: Option<Sense>,
    /// POPULATE TOKEN: the token.
    pub token: Option<RodToken>,
}

/// Everything about one copy operation.
#[derive(Debug, Clone)]
pub(super) struct CopyRecord {
    pub status: OperationStatus,
    pub progress: CopyProgress,
    pub sense: Option<Sense>,
    pub token: Option<RodToken>,
    /// The failed segment details have been fetched.
    pub details_told: bool,
}

/// ESTIMATED STATUS UPDATE DELAY of an operation that has ended.
const DELAY_NONE: u32 = 0xffff_fffe;
/// The same while it is under way, in milliseconds.
const DELAY_IN_PROGRESS_MS: u32 = 100;
/// TRANSFER COUNT UNITS: logical blocks of the destination.
const UNITS_BLOCKS: u8 = 0xf1;

impl CopyRecord {
    /// The status byte of the original command (SPC-4 table 250).
    fn completion(&self) -> u8 {
        match self.status {
            OperationStatus::InForeground | OperationStatus::InBackground => 0,
            OperationStatus::Terminated => Status::TaskAborted.code(),
            _ if self.sense.is_some() => Status::CheckCondition.code(),
            _ => Status::Good.code(),
        }
    }

    /// RECEIVE COPY STATUS(LID1) (SPC-4 table 253).
    pub(super) fn status_lid1(&self) -> Vec<u8> {
        let status = match self.status {
            status if status.is_in_progress() => 0x00,
            OperationStatus::Completed => 0x01,
            _ => 0x02,
        };
        let mut units = 0;
        let mut count = self.progress.transferred;
        while count > u64::from(u32::MAX) {
            count >>= 10;
            units += 1; // kibi, mebi, gibi ...
        }
        let mut data = vec![0, 0, 0, 8, status];
        data.extend(self.progress.segments.to_be_bytes());
        data.push(units);
        data.extend((count as u32).to_be_bytes());
        data
    }

    /// RECEIVE COPY FAILURE DETAILS(LID1) (SPC-4 table 246), empty if it did not fail.
    pub(super) fn failure_details(&self, descriptor_format: bool) -> Vec<u8> {
        let Some(sense) = self.sense.filter(|_| !self.details_told) else { return vec![0; 4] };
        let sense = sense.to_bytes(descriptor_format);
        let mut data = vec![0; 60];
        data[56] = self.completion();
        data[58..60].copy_from_slice(&(sense.len() as u16).to_be_bytes());
        data.extend(&*sense);
        with_available(data)
    }

    /// RECEIVE COPY STATUS(LID4) (SPC-4 table 248) of a command with service action `action`.
    pub(super) fn status_lid4(&self, action: u8, descriptor_format: bool) -> Vec<u8> {
        with_available(self.common(action, descriptor_format))
    }

    /// RECEIVE ROD TOKEN INFORMATION (SPC-4 table 256, SBC-4 5.25).
    pub(super) fn token_information(&self, action: u8, descriptor_format: bool) -> Vec<u8> {
        let mut data = self.common(action, descriptor_format);
        match self.token.as_ref().filter(|_| self.status.is_without_errors()) {
            None => data.extend([0; 4]),
            Some(token) => {
                data.extend((2 + token.bytes().len() as u32).to_be_bytes());
                data.extend([0, 0]);
                data.extend(token.bytes());
            }
        }
        with_available(data)
    }

    /// Bytes 0 to x that both have in common, without AVAILABLE DATA.
    fn common(&self, action: u8, descriptor_format: bool) -> Vec<u8> {
        let in_progress = self.status.is_in_progress();
        let sense =
            self.sense.filter(|_| !in_progress && self.status != OperationStatus::Terminated);
        let sense = sense.map(|sense| sense.to_bytes(descriptor_format));
        let sense: &[u8] = sense.as_deref().unwrap_or_default();
        let field_bytes = sense.len().next_multiple_of(4);
        let delay = if in_progress { DELAY_IN_PROGRESS_MS } else { DELAY_NONE };
        let units = if action == 0 { 0 } else { UNITS_BLOCKS };
        let mut data = vec![0, 0, 0, 0, action, self.status as u8];
        data.extend(self.progress.operations.to_be_bytes());
        data.extend(delay.to_be_bytes());
        data.extend([self.completion(), field_bytes as u8, sense.len() as u8, units]);
        data.extend(self.progress.transferred.to_be_bytes());
        data.extend(self.progress.segments.to_be_bytes());
        data.extend([0; 6]);
        data.extend(sense);
        data.resize(32 + field_bytes, 0);
        data
    }
}

/// Fills AVAILABLE DATA, the number of bytes after it.
fn with_available(mut data: Vec<u8>) -> Vec<u8> {
    let available = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&available.to_be_bytes());
    data
}
