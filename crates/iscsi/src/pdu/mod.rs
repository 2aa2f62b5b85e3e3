//! The PDUs of RFC 7143 section 11: a view of the 48-byte header, and one plain struct per PDU.
//!
//! [`Bhs`] reads single fields out of a received header at the cost of a load. Each PDU's struct holds
//! all of its fields; `parse` and `emit` are inverse to each other, so `parse(emit(x)) == x` for every
//! value. Codes that no standard assigns (a task management function, a Reject reason) are kept as they
//! are. Reserved bits are not kept: they are sent as 0 and ignored when received (11.1).

mod field;

pub mod ahs;
mod async_message;
mod command;
mod data_in;
mod data_out;
mod login;
mod logout;
mod nop;
mod r2t;
mod reject;
mod response;
mod snack;
mod task;
#[cfg(test)]
mod tests;
mod text;

pub use async_message::{AsyncEvent, AsyncMessage};
pub use command::{ScsiCommand, TaskAttribute};
pub use data_in::DataIn;
pub use data_out::DataOut;
pub use login::{Isid, LoginRequest, LoginResponse, LoginStatus, Stage};
pub use logout::{LogoutReason, LogoutRequest, LogoutResponse, LogoutResult};
pub use nop::{NopIn, NopOut};
pub use r2t::R2t;
pub use reject::{Reject, RejectReason};
pub use response::{ScsiResponse, ServiceResponse, sense_segment, split_sense_segment};
pub use snack::{Snack, SnackType};
pub use task::{TaskFunction, TaskRequest, TaskResponse, TaskResult};
pub use text::{TextRequest, TextResponse};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the Basic Header Segment in bytes (11.2.1).
pub const BHS_LEN_BYTES: usize = 48;

/// The tag value that stands for "no tag", in both the Initiator and the Target Transfer Tag (11.2.1.8).
pub const RESERVED_TAG: u32 = 0xffff_ffff;

/// Rounds a segment length up to the 4-byte boundary that it is padded to on the wire (11.2).
#[must_use]
#[inline]
pub const fn padded_len_bytes(len_bytes: usize) -> usize {
    len_bytes.next_multiple_of(4)
}

field::code! {
    /// The opcode of a PDU, six bits (11.2.1.2). Unassigned values are kept.
    Opcode {
        /// NOP-Out (11.18).
        NOP_OUT = 0x00,
        /// SCSI Command (11.3).
        SCSI_COMMAND = 0x01,
        /// SCSI Task Management Function Request (11.5).
        TASK_REQUEST = 0x02,
        /// Login Request (11.12).
        LOGIN_REQUEST = 0x03,
        /// Text Request (11.10).
        TEXT_REQUEST = 0x04,
        /// SCSI Data-Out (11.7).
        DATA_OUT = 0x05,
        /// Logout Request (11.14).
        LOGOUT_REQUEST = 0x06,
        /// SNACK Request (11.16).
        SNACK = 0x10,
        /// NOP-In (11.19).
        NOP_IN = 0x20,
        /// SCSI Response (11.4).
        SCSI_RESPONSE = 0x21,
        /// SCSI Task Management Function Response (11.6).
        TASK_RESPONSE = 0x22,
        /// Login Response (11.13).
        LOGIN_RESPONSE = 0x23,
        /// Text Response (11.11).
        TEXT_RESPONSE = 0x24,
        /// SCSI Data-In (11.7).
        DATA_IN = 0x25,
        /// Logout Response (11.15).
        LOGOUT_RESPONSE = 0x26,
        /// Ready To Transfer (11.8).
        R2T = 0x31,
        /// Asynchronous Message (11.9).
        ASYNC_MESSAGE = 0x32,
        /// Reject (11.17).
        REJECT = 0x3f,
    }
}

impl Opcode {
    /// Whether only an initiator sends this opcode: the upper half of the code space is the target's (11.2.1.2).
    #[must_use]
    #[inline]
    pub const fn is_from_initiator(self) -> bool {
        self.0 < 0x20
    }
}

/// Why a header is not the PDU it was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PduError {
    /// The header has another opcode than the struct it is parsed into.
    #[error("expected PDU {expected:?}, the header says {found:?}")]
    Opcode {
        /// The opcode of the struct.
        expected: Opcode,
        /// The opcode of the header.
        found: Opcode,
    },
    /// A SCSI Command with neither the F nor the W bit: data is said to follow for a command that writes none (11.3.1).
    #[error("a SCSI Command announces Data-Out PDUs but is no write")]
    UnsolicitedDataWithoutWrite,
    /// The additional header segments do not add up to their announced length, or one has a wrong length (11.2.2).
    #[error("malformed additional header segment")]
    Ahs,
    /// A data segment is shorter than the structure it must hold (11.4.7.2).
    #[error("the data segment is shorter than the structure in it")]
    ShortDataSegment,
}

/// The Basic Header Segment: the first 48 bytes of every PDU (11.2.1), owned or, through
/// [`Bhs::from_ref`], as a view of received bytes.
///
/// Every accessor is a load and a byte swap. Accessors of fields that exist only in some PDUs say so; on
/// other PDUs they return whatever these bytes mean there.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct Bhs([u8; BHS_LEN_BYTES]);

impl Bhs {
    /// Takes 48 bytes as a header.
    #[must_use]
    #[inline]
    pub const fn new(bytes: [u8; BHS_LEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// Views 48 received bytes as a header, without a copy.
    #[must_use]
    #[inline]
    pub fn from_ref(bytes: &[u8; BHS_LEN_BYTES]) -> &Self {
        zerocopy::transmute_ref!(bytes)
    }

    /// Views the start of received bytes as a header; `None` if there are fewer than 48.
    #[must_use]
    #[inline]
    pub fn from_prefix(bytes: &[u8]) -> Option<&Self> {
        bytes.first_chunk().map(Self::from_ref)
    }

    /// The header's bytes.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> &[u8; BHS_LEN_BYTES] {
        &self.0
    }

    /// The opcode, assigned or not (11.2.1.2).
    #[must_use]
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        Opcode(self.0[0] & 0x3f)
    }

    /// The I bit: immediate delivery. Meaningful in requests only (11.2.1.1).
    #[must_use]
    #[inline]
    pub const fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// The F bit: the final PDU of a sequence (11.2.1.3). In Login PDUs this bit is T (transit).
    #[must_use]
    #[inline]
    pub const fn is_final(&self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// Length of all additional header segments together, in bytes: 0 to 1020 (11.2.1.5).
    #[must_use]
    #[inline]
    pub const fn total_ahs_len_bytes(&self) -> usize {
        self.0[4] as usize * 4
    }

    /// Length of the data segment in bytes, without padding and digest: 0 to 2^24 - 1 (11.2.1.6).
    #[must_use]
    #[inline]
    pub const fn data_segment_len_bytes(&self) -> usize {
        field::u24::get(&self.0, 5) as usize
    }

    /// The eight bytes of the Logical Unit Number, most significant first (11.2.1.7).
    #[must_use]
    #[inline]
    pub const fn lun_raw(&self) -> u64 {
        field::be64::get(&self.0, 8)
    }

    /// Initiator Task Tag (11.2.1.8).
    #[must_use]
    #[inline]
    pub const fn itt(&self) -> u32 {
        field::be32::get(&self.0, 16)
    }

    /// Target Transfer Tag: Data-In, Data-Out, R2T, Text, NOP and SNACK PDUs.
    #[must_use]
    #[inline]
    pub const fn ttt(&self) -> u32 {
        field::be32::get(&self.0, 20)
    }

    /// CmdSN: all requests but Data-Out and SNACK.
    #[must_use]
    #[inline]
    pub const fn cmd_sn(&self) -> u32 {
        field::be32::get(&self.0, 24)
    }

    /// ExpStatSN: all requests.
    #[must_use]
    #[inline]
    pub const fn exp_stat_sn(&self) -> u32 {
        field::be32::get(&self.0, 28)
    }

    /// StatSN: all responses; in Data-In only with the S bit.
    #[must_use]
    #[inline]
    pub const fn stat_sn(&self) -> u32 {
        field::be32::get(&self.0, 24)
    }

    /// ExpCmdSN: all responses.
    #[must_use]
    #[inline]
    pub const fn exp_cmd_sn(&self) -> u32 {
        field::be32::get(&self.0, 28)
    }

    /// MaxCmdSN: all responses.
    #[must_use]
    #[inline]
    pub const fn max_cmd_sn(&self) -> u32 {
        field::be32::get(&self.0, 32)
    }
}

impl From<[u8; BHS_LEN_BYTES]> for Bhs {
    #[inline]
    fn from(bytes: [u8; BHS_LEN_BYTES]) -> Self {
        Self(bytes)
    }
}

impl std::fmt::Debug for Bhs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bhs")
            .field("opcode", &self.opcode())
            .field("flags", &format_args!("{:#04x}", self.0[1]))
            .field("itt", &format_args!("{:#010x}", self.itt()))
            .field("ahs_len_bytes", &self.total_ahs_len_bytes())
            .field("data_segment_len_bytes", &self.data_segment_len_bytes())
            .finish()
    }
}
