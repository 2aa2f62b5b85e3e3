//! SCSI Data-Out (RFC 7143 11.7).

use super::field::pdu;

pdu! {
    /// SCSI Data-Out (11.7): part of the data of a write.
    DataOut = DATA_OUT, always 0 {
        /// Last PDU of a sequence: of the unsolicited data, or of what one R2T asked for.
        is_final: bool = flag(1, 0x80),
        /// Data after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Logical unit number; 0 for unsolicited data.
        lun: u64 = be64(8),
        /// Initiator Task Tag of the command.
        itt: u32 = be32(16),
        /// Target Transfer Tag of the R2T, or the reserved tag for unsolicited data.
        ttt: u32 = be32(20),
        /// ExpStatSN.
        exp_stat_sn: u32 = be32(28),
        /// DataSN: counts the PDUs of a sequence from 0.
        data_sn: u32 = be32(36),
        /// Where the data lies in the command's data, in bytes.
        buffer_offset_bytes: u32 = be32(40),
    }
}
