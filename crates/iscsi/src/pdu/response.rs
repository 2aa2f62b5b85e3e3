//! SCSI Response (RFC 7143 11.4).

use super::PduError;
use super::field::{code, pdu};

code! {
    /// The iSCSI service response of a SCSI Response (11.4.3).
    ServiceResponse {
        /// Command completed at target: the SCSI status counts.
        COMPLETED = 0,
        /// Target failure: there is no SCSI status.
        TARGET_FAILURE = 1,
    }
}

pdu! {
    /// SCSI Response (11.4). Sense data is in the data segment, behind its length ([`sense_segment`]).
    ScsiResponse = SCSI_RESPONSE, always 0x80 {
        /// o: more data than expected would have been read by a bidirectional command.
        is_bidirectional_overflow: bool = flag(1, 0x10),
        /// u: less data than expected was read by a bidirectional command.
        is_bidirectional_underflow: bool = flag(1, 0x08),
        /// O: `residual_bytes` could not be transferred, for the initiator expected less.
        is_overflow: bool = flag(1, 0x04),
        /// U: `residual_bytes` of what the initiator expected were not transferred.
        is_underflow: bool = flag(1, 0x02),
        /// iSCSI service response.
        response: ServiceResponse = byte(2),
        /// SCSI status (SAM-5 5.3.1); 0 unless `response` is COMPLETED.
        status: u8 = byte(3),
        /// Sense and response data after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Initiator Task Tag of the command.
        itt: u32 = be32(16),
        /// SNACK Tag, 0 at ErrorRecoveryLevel 0 (11.4.6).
        snack_tag: u32 = be32(20),
        /// StatSN.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
        /// How many Data-In (read) or R2T (write) PDUs the command had (11.4.8).
        exp_data_sn: u32 = be32(36),
        /// Residual of the read part of a bidirectional command.
        bidirectional_residual_bytes: u32 = be32(40),
        /// Residual, see `is_overflow` and `is_underflow`.
        residual_bytes: u32 = be32(44),
    }
}

impl ScsiResponse {
    /// Sets O or U and the residual from what the initiator expected and what the command has (11.4.5).
    #[must_use]
    #[inline]
    pub const fn with_residual(mut self, expected_bytes: u32, actual_bytes: u64) -> Self {
        let expected = expected_bytes as u64;
        self.is_overflow = actual_bytes > expected;
        self.is_underflow = actual_bytes < expected;
        let residual = actual_bytes.abs_diff(expected);
        self.residual_bytes = if residual > u32::MAX as u64 { u32::MAX } else { residual as u32 };
        self
    }
}

/// Appends the data segment that carries `sense`: its length in two bytes, then the sense data (11.4.7.2).
/// Padding is the sender's, as for every data segment.
pub fn sense_segment(sense: &[u8], out: &mut Vec<u8>) {
    let len_bytes =
        u16::try_from(sense.len()).expect("sense data is at most 252 bytes (SPC-5 4.4.3)");
    out.extend_from_slice(&len_bytes.to_be_bytes());
    out.extend_from_slice(sense);
}

/// The sense data and the response data in the data segment of a SCSI Response; an empty segment has neither.
///
/// # Errors
/// [`PduError::ShortDataSegment`] if SenseLength reaches over the end.
pub fn split_sense_segment(data: &[u8]) -> Result<(&[u8], &[u8]), PduError> {
    if data.is_empty() {
        return Ok((&[], &[]));
    }
    let (len, rest) = data.split_first_chunk().ok_or(PduError::ShortDataSegment)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len))).ok_or(PduError::ShortDataSegment)
}
