//! Ready To Transfer (RFC 7143 11.8).

use super::field::pdu;

pdu! {
    /// Ready To Transfer (11.8): the target asks for part of a write's data.
    R2t = R2T, always 0x80 {
        /// Logical unit number of the command.
        lun: u64 = be64(8),
        /// Initiator Task Tag of the command.
        itt: u32 = be32(16),
        /// Target Transfer Tag: the Data-Out PDUs that answer must carry it. Never the reserved tag.
        ttt: u32 = be32(20),
        /// The next StatSN; an R2T does not consume it.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
        /// R2TSN: counts the R2Ts of the command from 0.
        r2t_sn: u32 = be32(36),
        /// Where the wanted data begins in the command's data, in bytes.
        buffer_offset_bytes: u32 = be32(40),
        /// How many bytes are wanted: 1 to MaxBurstLength.
        desired_data_transfer_len_bytes: u32 = be32(44),
    }
}
