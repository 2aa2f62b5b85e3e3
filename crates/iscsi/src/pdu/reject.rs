//! Reject (RFC 7143 11.17).

use super::field::{code, pdu};

code! {
    /// Why a PDU was rejected (11.17.1).
    RejectReason {
        /// Data (payload) digest error: the PDU may be sent again.
        DATA_DIGEST_ERROR = 0x02,
        /// SNACK reject.
        SNACK_REJECT = 0x03,
        /// Protocol error, for example a SNACK for a status that was acknowledged.
        PROTOCOL_ERROR = 0x04,
        /// Command not supported.
        COMMAND_NOT_SUPPORTED = 0x05,
        /// Immediate command reject: too many immediate commands.
        IMMEDIATE_COMMAND_REJECT = 0x06,
        /// Task in progress.
        TASK_IN_PROGRESS = 0x07,
        /// Invalid data ACK.
        INVALID_DATA_ACK = 0x08,
        /// Invalid PDU field.
        INVALID_PDU_FIELD = 0x09,
        /// Long operation reject: no Target Transfer Tag is left.
        LONG_OPERATION_REJECT = 0x0a,
        /// Waiting for Logout.
        WAITING_FOR_LOGOUT = 0x0c,
    }
}

pdu! {
    /// Reject (11.17). The header of the PDU in question, with its AHS, is in the data segment. The
    /// Initiator Task Tag is always the reserved tag.
    Reject = REJECT, always 0x80 {
        /// The reason.
        reason: RejectReason = byte(2),
        /// The rejected header after this one, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Initiator Task Tag: the reserved tag.
        itt: u32 = be32(16),
        /// StatSN.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
        /// DataSN or R2TSN: the next expected one, for rejected DataACK and Data/R2T SNACKs.
        data_sn: u32 = be32(36),
    }
}
