//! Asynchronous Message (RFC 7143 11.9).

use super::field::{code, pdu};

code! {
    /// What an Asynchronous Message is about (11.9.1).
    AsyncEvent {
        /// A SCSI asynchronous event; its sense data is in the data segment.
        SCSI = 0,
        /// The target asks for Logout within `parameter3` seconds.
        LOGOUT_REQUEST = 1,
        /// The target drops, or has dropped, the connection whose CID is `parameter1`.
        CONNECTION_DROP = 2,
        /// The target drops, or has dropped, all connections of the session.
        SESSION_DROP = 3,
        /// The target asks for negotiation on this connection within `parameter3` seconds.
        NEGOTIATION_REQUEST = 4,
        /// All tasks on the logical unit were terminated.
        TASKS_TERMINATED = 5,
        /// A vendor's event: AsyncVCode says which.
        VENDOR = 255,
    }
}

pdu! {
    /// Asynchronous Message (11.9). The Initiator Task Tag is always the reserved tag.
    AsyncMessage = ASYNC_MESSAGE, always 0x80 {
        /// Sense and event data after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Logical unit number; for SCSI events.
        lun: u64 = be64(8),
        /// Initiator Task Tag: the reserved tag.
        itt: u32 = be32(16),
        /// StatSN.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
        /// The event.
        event: AsyncEvent = byte(36),
        /// AsyncVCode: a vendor's code.
        vendor_code: u8 = byte(37),
        /// Parameter1: a CID, or 0.
        parameter1: u16 = be16(38),
        /// Parameter2: Time2Wait in seconds, or 0.
        parameter2: u16 = be16(40),
        /// Parameter3: a time in seconds, or 0.
        parameter3: u16 = be16(42),
    }
}
