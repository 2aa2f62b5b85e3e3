//! SCSI Data-In (RFC 7143 11.7).

use super::field::pdu;

pdu! {
    /// SCSI Data-In (11.7): part of the data of a read, with the command's status in the last one if it is GOOD
    /// or needs no sense data.
    DataIn = DATA_IN, always 0 {
        /// Last PDU of a sequence (a MaxBurstLength of data).
        is_final: bool = flag(1, 0x80),
        /// A: asks for a DataACK SNACK; only at ErrorRecoveryLevel above 0.
        is_ack_wanted: bool = flag(1, 0x40),
        /// O, only with `has_status`: the initiator expected less than the command has.
        is_overflow: bool = flag(1, 0x04),
        /// U, only with `has_status`: the initiator expected more than the command has.
        is_underflow: bool = flag(1, 0x02),
        /// S: `status`, `stat_sn` and `residual_bytes` count, and the command is done; only with `is_final`.
        has_status: bool = flag(1, 0x01),
        /// SCSI status, only with `has_status`.
        status: u8 = byte(3),
        /// Data after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Logical unit number; only with `is_ack_wanted`, otherwise 0.
        lun: u64 = be64(8),
        /// Initiator Task Tag of the command.
        itt: u32 = be32(16),
        /// Target Transfer Tag: the reserved tag unless `is_ack_wanted`.
        ttt: u32 = be32(20),
        /// StatSN, only with `has_status`, otherwise 0.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
        /// DataSN: counts the PDUs of the command from 0.
        data_sn: u32 = be32(36),
        /// Where the data lies in the command's data, in bytes.
        buffer_offset_bytes: u32 = be32(40),
        /// Residual, only with `has_status`.
        residual_bytes: u32 = be32(44),
    }
}
