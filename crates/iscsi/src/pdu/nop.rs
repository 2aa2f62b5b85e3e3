//! NOP-Out and NOP-In (RFC 7143 11.18 and 11.19).

use super::field::pdu;

pdu! {
    /// NOP-Out (11.18): a ping of the initiator's, or its answer to the target's.
    NopOut = NOP_OUT, always 0x80 {
        /// Immediate delivery.
        is_immediate: bool = flag(0, 0x40),
        /// Ping data after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Logical unit number: that of the NOP-In this answers, otherwise 0.
        lun: u64 = be64(8),
        /// Initiator Task Tag: the reserved tag if no answer is wanted.
        itt: u32 = be32(16),
        /// Target Transfer Tag: that of the NOP-In this answers, otherwise the reserved tag.
        ttt: u32 = be32(20),
        /// CmdSN.
        cmd_sn: u32 = be32(24),
        /// ExpStatSN.
        exp_stat_sn: u32 = be32(28),
    }
}

pdu! {
    /// NOP-In (11.19): a ping of the target's, its answer to the initiator's, or news of the sequence numbers.
    NopIn = NOP_IN, always 0x80 {
        /// Ping data after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Logical unit number: the target's choice if it wants an answer, otherwise 0.
        lun: u64 = be64(8),
        /// Initiator Task Tag: that of the NOP-Out this answers, otherwise the reserved tag.
        itt: u32 = be32(16),
        /// Target Transfer Tag: the reserved tag if no answer is wanted.
        ttt: u32 = be32(20),
        /// StatSN: consumed only in answer to a NOP-Out.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
    }
}
