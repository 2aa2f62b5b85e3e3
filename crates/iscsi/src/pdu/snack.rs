//! SNACK Request (RFC 7143 11.16).

use super::field::{code, pdu};

code! {
    /// What a SNACK asks for, four bits (11.16.1).
    SnackType {
        /// Data or R2T PDUs again.
        DATA_OR_R2T = 0,
        /// Status PDUs again.
        STATUS = 1,
        /// Data-In PDUs were received.
        DATA_ACK = 2,
        /// Data again, under another segment length.
        R_DATA = 3,
    }
}

pdu! {
    /// SNACK Request (11.16): only at ErrorRecoveryLevel above 0; at 0 it is answered with Reject.
    Snack = SNACK, always 0x80 {
        /// What is asked for.
        kind: SnackType = bits(1, 0, 0x0f),
        /// Logical unit number; for DataACK.
        lun: u64 = be64(8),
        /// Initiator Task Tag, or the reserved tag.
        itt: u32 = be32(16),
        /// Target Transfer Tag or SNACK Tag.
        ttt: u32 = be32(20),
        /// ExpStatSN.
        exp_stat_sn: u32 = be32(28),
        /// BegRun: the first number that is missing, or the next expected one.
        begin_run: u32 = be32(40),
        /// RunLength: how many are missing; 0 is all from `begin_run` on.
        run_length: u32 = be32(44),
    }
}
