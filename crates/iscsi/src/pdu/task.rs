//! Task management function request and response (RFC 7143 11.5 and 11.6, RFC 7144 4).

use super::field::{code, pdu};

code! {
    /// Task management function (11.5.1; 9 to 12: RFC 7144 4.2).
    TaskFunction {
        /// ABORT TASK: the task that `referenced_task_tag` names.
        ABORT_TASK = 1,
        /// ABORT TASK SET: all tasks of this session on the logical unit.
        ABORT_TASK_SET = 2,
        /// CLEAR ACA.
        CLEAR_ACA = 3,
        /// CLEAR TASK SET: all tasks on the logical unit, as the control mode page's TST says.
        CLEAR_TASK_SET = 4,
        /// LOGICAL UNIT RESET.
        LOGICAL_UNIT_RESET = 5,
        /// TARGET WARM RESET.
        TARGET_WARM_RESET = 6,
        /// TARGET COLD RESET: as warm, and all sessions end.
        TARGET_COLD_RESET = 7,
        /// TASK REASSIGN: needs ErrorRecoveryLevel 2.
        TASK_REASSIGN = 8,
        /// QUERY TASK (RFC 7144).
        QUERY_TASK = 9,
        /// QUERY TASK SET (RFC 7144).
        QUERY_TASK_SET = 10,
        /// I_T NEXUS RESET (RFC 7144).
        I_T_NEXUS_RESET = 11,
        /// QUERY ASYNCHRONOUS EVENT (RFC 7144).
        QUERY_ASYNCHRONOUS_EVENT = 12,
    }
}

code! {
    /// Response of a task management function (11.6.1; 7: RFC 7144 4.3).
    TaskResult {
        /// Function complete.
        COMPLETE = 0,
        /// Task does not exist.
        TASK_DOES_NOT_EXIST = 1,
        /// LUN does not exist.
        LUN_DOES_NOT_EXIST = 2,
        /// Task still allegiant.
        TASK_STILL_ALLEGIANT = 3,
        /// Task allegiance reassignment not supported.
        REASSIGN_NOT_SUPPORTED = 4,
        /// Task management function not supported.
        NOT_SUPPORTED = 5,
        /// Function authorization failed.
        AUTHORIZATION_FAILED = 6,
        /// Function succeeded: a query found something (RFC 7144).
        SUCCEEDED = 7,
        /// Function rejected.
        REJECTED = 255,
    }
}

pdu! {
    /// Task Management Function Request (11.5).
    TaskRequest = TASK_REQUEST, always 0x80 {
        /// Immediate delivery.
        is_immediate: bool = flag(0, 0x40),
        /// The function, seven bits.
        function: TaskFunction = bits(1, 0, 0x7f),
        /// Logical unit number, eight bytes.
        lun: u64 = be64(8),
        /// Initiator Task Tag of this request.
        itt: u32 = be32(16),
        /// Referenced Task Tag: the Initiator Task Tag of the task to act on.
        referenced_task_tag: u32 = be32(20),
        /// CmdSN.
        cmd_sn: u32 = be32(24),
        /// ExpStatSN.
        exp_stat_sn: u32 = be32(28),
        /// RefCmdSN: the CmdSN of the task to abort.
        ref_cmd_sn: u32 = be32(32),
        /// ExpDataSN: for TASK REASSIGN.
        exp_data_sn: u32 = be32(36),
    }
}

pdu! {
    /// Task Management Function Response (11.6).
    TaskResponse = TASK_RESPONSE, always 0x80 {
        /// What became of the function.
        response: TaskResult = byte(2),
        /// Initiator Task Tag of the request.
        itt: u32 = be32(16),
        /// StatSN.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
        /// Additional Response Information of a query (RFC 7144 5.2), three bytes; otherwise 0.
        additional_response: u32 = u24(36),
    }
}
