//! SCSI Command (RFC 7143 11.3).

use super::field::{code, pdu};
use super::{PduError, ahs};

code! {
    /// Task attribute of a SCSI Command (11.3.1).
    TaskAttribute {
        /// Untagged: treated as SIMPLE.
        UNTAGGED = 0,
        /// SIMPLE.
        SIMPLE = 1,
        /// ORDERED.
        ORDERED = 2,
        /// HEAD OF QUEUE.
        HEAD_OF_QUEUE = 3,
        /// ACA.
        ACA = 4,
    }
}

pdu! {
    /// SCSI Command (11.3). Immediate data follows in the data segment; a CDB of more than 16 bytes and
    /// the read length of a bidirectional command follow in additional header segments ([`ahs`]).
    ScsiCommand = SCSI_COMMAND, always 0, check check {
        /// Immediate delivery: CmdSN is not advanced (4.2.2.1).
        is_immediate: bool = flag(0, 0x40),
        /// No unsolicited Data-Out PDUs follow.
        is_final: bool = flag(1, 0x80),
        /// Data is expected to flow to the initiator.
        is_read: bool = flag(1, 0x40),
        /// Data is expected to flow to the target.
        is_write: bool = flag(1, 0x20),
        /// Task attribute, three bits.
        attribute: TaskAttribute = bits(1, 0, 7),
        /// Additional header segments after the header, in 4-byte words.
        total_ahs_words: u8 = byte(4),
        /// Immediate data after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Logical unit number, eight bytes.
        lun: u64 = be64(8),
        /// Initiator Task Tag: unique in the session while the task lives.
        itt: u32 = be32(16),
        /// Expected Data Transfer Length; of the write for a bidirectional command.
        expected_data_transfer_len_bytes: u32 = be32(20),
        /// CmdSN.
        cmd_sn: u32 = be32(24),
        /// ExpStatSN.
        exp_stat_sn: u32 = be32(28),
        /// The first 16 bytes of the CDB, 0 after the end of a shorter one.
        cdb: [u8; 16] = bytes(32),
    }
}

impl ScsiCommand {
    /// Neither F nor W: Data-Out PDUs would follow a command that writes nothing (11.3.1).
    #[inline]
    const fn check(&self) -> Result<(), PduError> {
        if self.is_final || self.is_write {
            Ok(())
        } else {
            Err(PduError::UnsolicitedDataWithoutWrite)
        }
    }

    /// What the additional header segments of this command hold; `ahs` is all of them, padding included.
    ///
    /// # Errors
    /// [`PduError::Ahs`] if they are malformed.
    pub fn parse_ahs<'a>(&self, ahs: &'a [u8]) -> Result<ahs::CommandAhs<'a>, PduError> {
        ahs::CommandAhs::parse(ahs)
    }
}
