//! Logout Request and Response (RFC 7143 11.14 and 11.15).

use super::field::{code, pdu};

code! {
    /// Why a Logout is asked for (11.14.1).
    LogoutReason {
        /// Close the session: all of its connections.
        CLOSE_SESSION = 0,
        /// Close the connection that CID names.
        CLOSE_CONNECTION = 1,
        /// Remove the connection that CID names, for recovery: its tasks await reassignment.
        REMOVE_CONNECTION = 2,
    }
}

code! {
    /// Response to a Logout (11.15.1).
    LogoutResult {
        /// Closed.
        SUCCESS = 0,
        /// There is no connection of this CID.
        CID_NOT_FOUND = 1,
        /// Connection recovery is not supported.
        RECOVERY_NOT_SUPPORTED = 2,
        /// Cleanup failed.
        CLEANUP_FAILED = 3,
    }
}

pdu! {
    /// Logout Request (11.14).
    LogoutRequest = LOGOUT_REQUEST, always 0x80 {
        /// Immediate delivery.
        is_immediate: bool = flag(0, 0x40),
        /// Reason code, seven bits.
        reason: LogoutReason = bits(1, 0, 0x7f),
        /// Initiator Task Tag.
        itt: u32 = be32(16),
        /// Connection ID to close; not for [`LogoutReason::CLOSE_SESSION`].
        cid: u16 = be16(20),
        /// CmdSN.
        cmd_sn: u32 = be32(24),
        /// ExpStatSN.
        exp_stat_sn: u32 = be32(28),
    }
}

pdu! {
    /// Logout Response (11.15).
    LogoutResponse = LOGOUT_RESPONSE, always 0x80 {
        /// What became of it.
        response: LogoutResult = byte(2),
        /// Initiator Task Tag of the request.
        itt: u32 = be32(16),
        /// StatSN.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
        /// Time2Wait: seconds before the initiator may try to reassign tasks.
        time2wait_s: u16 = be16(40),
        /// Time2Retain: seconds after Time2Wait for which the target keeps tasks.
        time2retain_s: u16 = be16(42),
    }
}
