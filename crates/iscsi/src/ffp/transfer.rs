//! The data of one write command on its way in: immediate, unsolicited, then solicited by R2T
//! (RFC 7143 §4.2.5.2, §11.7, §11.8).
//!
//! The target always answers DataPDUInOrder=Yes and DataSequenceInOrder=Yes, which by their OR
//! rule settles both (RFC 7143 §13.18, §13.19), so data must arrive strictly in order and a single
//! offset says what is there.
//!
//! A command may announce more data than it needs (EDTL above what the CDB says). Such data is
//! taken where it comes unasked, and never asked for.
//!
//! Invariant: `received <= requested <= announced`, and R2Ts never reach beyond `wanted`. Bytes
//! below `received` have come; bytes between `received` and `requested` were asked for.

use thiserror::Error;

/// What was negotiated, as far as writes need it; all in bytes but the last.
#[derive(Clone, Copy, Debug)]
pub struct TransferLimits {
    /// InitialR2T=Yes forbids unsolicited Data-Out PDUs.
    pub initial_r2t: bool,
    /// ImmediateData=Yes allows data in the command PDU.
    pub immediate_data: bool,
    /// FirstBurstLength.
    pub first_burst_len_bytes: u32,
    /// MaxBurstLength.
    pub max_burst_len_bytes: u32,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u16,
}

/// Fields of a Data-Out header that matter to a transfer.
#[derive(Clone, Copy, Debug)]
pub struct DataOutHeader {
    /// Target Transfer Tag as received; `0xffff_ffff` marks unsolicited data.
    pub ttt: u32,
    /// DataSN.
    pub data_sn: u32,
    /// Buffer Offset in bytes.
    pub offset: u32,
    /// Data segment length in bytes.
    pub len: u32,
    /// F bit.
    pub is_final: bool,
}

/// An R2T to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct R2tRequest {
    /// R2TSN.
    pub r2t_sn: u32,
    /// Buffer Offset in bytes.
    pub offset: u32,
    /// Desired Data Transfer Length in bytes.
    pub len: u32,
}

/// Why a PDU cannot belong to this transfer. All are protocol errors of the initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TransferError {
    /// Immediate data although ImmediateData=No.
    #[error("immediate data was negotiated away")]
    ImmediateForbidden,
    /// Unsolicited Data-Out although InitialR2T=Yes, or after the unsolicited burst ended.
    #[error("unsolicited data that nobody may send")]
    UnsolicitedForbidden,
    /// More unsolicited data than FirstBurstLength.
    #[error("unsolicited data beyond FirstBurstLength")]
    FirstBurstExceeded,
    /// More data than the command announced.
    #[error("data beyond the expected data transfer length")]
    BeyondExpectedLength,
    /// Buffer Offset out of order.
    #[error("buffer offset out of order")]
    Offset,
    /// More data than the R2T asked for, or the F bit at the wrong place.
    #[error("the burst's length or F bit does not match what was asked for")]
    Burst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Unsolicited Data-Out PDUs may still come (F was 0).
    Unsolicited,
    /// Only R2T data.
    Solicited,
}

/// One solicited burst that was asked for and has not ended.
#[derive(Clone, Copy, Debug)]
struct Burst {
    end: u32,
}

/// The inbound data of one write command.
#[derive(Debug)]
pub struct WriteTransfer {
    wanted: u32,
    announced: u32,
    received: u32,
    requested: u32,
    first_burst_end: u32,
    phase: Phase,
    next_data_sn: u32,
    next_r2t_sn: u32,
    bursts: [Burst; MAX_OUTSTANDING],
    burst_count: usize,
    max_burst: u32,
    max_outstanding: usize,
    spoiled: bool,
}

/// The most R2Ts one command has outstanding, whatever was negotiated.
pub const MAX_OUTSTANDING: usize = 8;

impl WriteTransfer {
    /// Starts the transfer for a command that announced `announced` bytes (its Expected Data
    /// Transfer Length) and needs `wanted` of them (at most `announced`); `immediate` bytes came
    /// with the command, and `command_final` is its F bit: without it, unsolicited Data-Out PDUs
    /// follow.
    ///
    /// # Errors
    /// When the immediate data or the missing F bit break what was negotiated.
    pub fn start(
        limits: &TransferLimits,
        announced: u32,
        wanted: u32,
        immediate: u32,
        command_final: bool,
    ) -> Result<Self, TransferError> {
        assert!(wanted <= announced, "the caller cuts what it wants to what was announced");
        if immediate > 0 && !limits.immediate_data {
            return Err(TransferError::ImmediateForbidden);
        }
        if immediate > limits.first_burst_len_bytes {
            return Err(TransferError::FirstBurstExceeded);
        }
        if immediate > announced {
            return Err(TransferError::BeyondExpectedLength);
        }
        if !command_final && limits.initial_r2t {
            return Err(TransferError::UnsolicitedForbidden);
        }
        let first_burst_end = limits.first_burst_len_bytes.min(announced);
        let phase = if command_final { Phase::Solicited } else { Phase::Unsolicited };
        Ok(Self {
            wanted,
            announced,
            received: immediate,
            requested: immediate,
            first_burst_end,
            phase,
            next_data_sn: 0,
            next_r2t_sn: 0,
            bursts: [Burst { end: 0 }; MAX_OUTSTANDING],
            burst_count: 0,
            max_burst: limits.max_burst_len_bytes,
            max_outstanding: usize::from(limits.max_outstanding_r2t).clamp(1, MAX_OUTSTANDING),
            spoiled: false,
        })
    }

    /// All data is here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.spoiled && self.received >= self.wanted && self.is_settled()
    }

    /// A part of the data was lost, so that the command cannot run any more. What is under way
    /// still comes, and only its bounds matter; nothing else is asked for (RFC 7143 §7.8).
    pub fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// A part of the data was lost.
    #[must_use]
    pub fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// No data is on its way: none that came unasked is still to come, none that was asked for.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.phase == Phase::Solicited && self.burst_count == 0
    }

    /// Bytes that are still to come for the command; at least one as long as anything is.
    #[must_use]
    pub fn missing_bytes(&self) -> u32 {
        let missing = self.wanted.saturating_sub(self.received);
        match (self.is_settled(), self.spoiled) {
            (true, true) => 0,
            (true, false) => missing,
            (false, _) => missing.max(1),
        }
    }

    /// Bytes that have come; what lies beyond the wanted length is of no use to the command.
    #[must_use]
    pub fn received_bytes(&self) -> u32 {
        self.received
    }

    /// The next R2T to send, if one is due now: call until `None`, at the start and after each
    /// accepted Data-Out PDU.
    pub fn next_r2t(&mut self) -> Option<R2tRequest> {
        if self.spoiled
            || self.phase == Phase::Unsolicited
            || self.requested >= self.wanted
            || self.burst_count == self.max_outstanding
        {
            return None;
        }
        let offset = self.requested;
        let len = (self.wanted - offset).min(self.max_burst);
        self.requested += len;
        self.bursts[self.burst_count] = Burst { end: self.requested };
        self.burst_count += 1;
        let r2t_sn = self.next_r2t_sn;
        self.next_r2t_sn += 1;
        Some(R2tRequest { r2t_sn, offset, len })
    }

    /// Checks a Data-Out header before its payload is taken, and counts the payload as received.
    ///
    /// A DataSN out of sequence means that a PDU before this one was lost: it spoils the transfer
    /// as a wrong digest does, and is no error of protocol (RFC 7143 §7.9).
    ///
    /// # Errors
    /// A protocol error; the transfer is unchanged and can only be given up.
    pub fn data_out(&mut self, pdu: &DataOutHeader) -> Result<(), TransferError> {
        let unsolicited = pdu.ttt == u32::MAX;
        if unsolicited != (self.phase == Phase::Unsolicited) {
            return Err(TransferError::UnsolicitedForbidden);
        }
        let lost = pdu.data_sn != self.next_data_sn;
        if !lost && !self.spoiled && pdu.offset != self.received {
            return Err(TransferError::Offset);
        }
        let end = pdu.offset.checked_add(pdu.len).ok_or(TransferError::BeyondExpectedLength)?;
        if unsolicited {
            self.unsolicited(end, pdu.is_final)?;
        } else {
            self.solicited(end, pdu.is_final, lost)?;
        }
        self.spoiled |= lost;
        self.received = if self.spoiled { self.received.max(end) } else { end };
        self.requested = self.requested.max(end);
        debug_assert!(self.received <= self.requested && self.requested <= self.announced);
        Ok(())
    }

    fn unsolicited(&mut self, end: u32, is_final: bool) -> Result<(), TransferError> {
        if end > self.announced {
            return Err(TransferError::BeyondExpectedLength);
        }
        if end > self.first_burst_end {
            return Err(TransferError::FirstBurstExceeded);
        }
        if is_final {
            self.phase = Phase::Solicited;
            self.next_data_sn = 0;
        } else {
            self.next_data_sn += 1;
        }
        Ok(())
    }

    fn solicited(&mut self, end: u32, is_final: bool, lost: bool) -> Result<(), TransferError> {
        if self.burst_count == 0 {
            return Err(TransferError::UnsolicitedForbidden);
        }
        let burst_end = self.bursts[0].end;
        let ends_early = is_final != (end == burst_end);
        if end > burst_end || ends_early && !lost && !self.spoiled {
            return Err(TransferError::Burst);
        }
        if is_final {
            // DataSN starts anew with each burst (RFC 7143 11.7.5).
            self.next_data_sn = 0;
            self.bursts.copy_within(1..self.burst_count, 0);
            self.burst_count -= 1;
        } else {
            self.next_data_sn += 1;
        }
        Ok(())
    }
}
