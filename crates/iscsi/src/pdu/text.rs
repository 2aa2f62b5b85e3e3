//! Text Request and Response (RFC 7143 11.10 and 11.11).

use super::field::pdu;

pdu! {
    /// Text Request (11.10); the text is in the data segment.
    TextRequest = TEXT_REQUEST, always 0 {
        /// Immediate delivery.
        is_immediate: bool = flag(0, 0x40),
        /// F: the initiator has nothing more to negotiate.
        is_final: bool = flag(1, 0x80),
        /// C: the text goes on in the next request; never with `is_final`.
        is_continued: bool = flag(1, 0x40),
        /// Text after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Logical unit number: 0, or that of the response this goes on from.
        lun: u64 = be64(8),
        /// Initiator Task Tag: the same for a whole negotiation.
        itt: u32 = be32(16),
        /// Target Transfer Tag: the reserved tag to begin a negotiation, then that of the last response.
        ttt: u32 = be32(20),
        /// CmdSN.
        cmd_sn: u32 = be32(24),
        /// ExpStatSN.
        exp_stat_sn: u32 = be32(28),
    }
}

pdu! {
    /// Text Response (11.11); the text is in the data segment.
    TextResponse = TEXT_RESPONSE, always 0 {
        /// F: the negotiation is over; only in answer to F.
        is_final: bool = flag(1, 0x80),
        /// C: the text goes on in the next response; never with `is_final`.
        is_continued: bool = flag(1, 0x40),
        /// Text after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Logical unit number: the target's choice; initiators send it back.
        lun: u64 = be64(8),
        /// Initiator Task Tag of the request.
        itt: u32 = be32(16),
        /// Target Transfer Tag: the reserved tag with `is_final`, otherwise the negotiation's.
        ttt: u32 = be32(20),
        /// StatSN.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
    }
}
