//! What a login settles, and what this side brings to it (RFC 7143 section 13).

/// What holds for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionParams {
    /// CRC32C over each header (13.1).
    pub header_digest: bool,
    /// CRC32C over each data segment (13.1).
    pub data_digest: bool,
    /// MaxRecvDataSegmentLength that we declared: the longest data segment the peer may send (13.12).
    pub max_recv_data_segment_local_bytes: u32,
    /// MaxRecvDataSegmentLength that the peer declared: the longest data segment we may send (13.12).
    pub max_recv_data_segment_peer_bytes: u32,
}

impl Default for ConnectionParams {
    /// What holds before anything is negotiated.
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            max_recv_data_segment_local_bytes: DEFAULT_MAX_RECV_DATA_SEGMENT_BYTES,
            max_recv_data_segment_peer_bytes: DEFAULT_MAX_RECV_DATA_SEGMENT_BYTES,
        }
    }
}

/// MaxRecvDataSegmentLength of a side that has not declared one, and the longest login text segment (13.12).
pub const DEFAULT_MAX_RECV_DATA_SEGMENT_BYTES: u32 = 8192;

/// What holds for all connections of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionParams {
    /// The initiator must wait for an R2T before it sends Data-Out PDUs (13.10).
    pub initial_r2t: bool,
    /// Data may come with the SCSI Command itself (13.11).
    pub immediate_data: bool,
    /// Longest sequence of Data-In, or of Data-Out for one R2T (13.13).
    pub max_burst_len_bytes: u32,
    /// Most data of one command that may come unsolicited, immediate data included (13.14).
    pub first_burst_len_bytes: u32,
    /// R2Ts that may be outstanding for one command (13.17).
    pub max_outstanding_r2t: u32,
    /// Connections of the session at one time (13.2).
    pub max_connections: u32,
    /// Seconds to wait after a connection ended before its tasks are reassigned (13.15).
    pub default_time2wait_s: u32,
    /// Seconds after that for which tasks are kept (13.16).
    pub default_time2retain_s: u32,
    /// Data PDUs of a sequence come at rising offsets without gaps (13.18).
    pub data_pdu_in_order: bool,
    /// Sequences of a command come at rising offsets (13.19).
    pub data_sequence_in_order: bool,
    /// ErrorRecoveryLevel (13.20).
    pub error_recovery_level: u32,
    /// TaskReporting (13.23).
    pub task_reporting: TaskReporting,
    /// iSCSIProtocolLevel (RFC 7144 7.1.1): 1 is RFC 7143, 2 adds the functions of RFC 7144.
    pub protocol_level: u32,
}

impl Default for SessionParams {
    /// What holds for keys that nobody names.
    fn default() -> Self {
        Self {
            initial_r2t: true,
            immediate_data: true,
            max_burst_len_bytes: 262_144,
            first_burst_len_bytes: 65_536,
            max_outstanding_r2t: 1,
            max_connections: 1,
            default_time2wait_s: 2,
            default_time2retain_s: 20,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
            task_reporting: TaskReporting::Rfc3720,
            protocol_level: 1,
        }
    }
}

/// How the end of tasks that another session aborted is reported (13.23). Each way includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskReporting {
    /// As RFC 3720 has it: affected tasks end without a response.
    Rfc3720,
    /// Every task that ended gets a response.
    ResponseFence,
    /// As `ResponseFence`, and tasks are cleared fast (4.2.3.4).
    FastAbort,
}

/// What this side brings to a login. A key that is boolean here is our wish; the rule of the key and the
/// peer's wish decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalLimits {
    /// CRC32C over headers.
    pub header_digest: DigestPolicy,
    /// CRC32C over data segments.
    pub data_digest: DigestPolicy,
    /// The longest data segment we take: 512 to 2^24 - 1.
    pub max_recv_data_segment_len_bytes: u32,
    /// The longest burst we offer: 512 to 2^24 - 1.
    pub max_burst_len_bytes: u32,
    /// The most unsolicited data we offer: 512 to 2^24 - 1, not above `max_burst_len_bytes`.
    pub first_burst_len_bytes: u32,
    /// Whether unsolicited Data-Out PDUs must wait for an R2T.
    pub initial_r2t: bool,
    /// Whether immediate data is allowed.
    pub immediate_data: bool,
    /// R2Ts for one command: 1 to 65535.
    pub max_outstanding_r2t: u32,
    /// Connections for one session: 1 to 65535.
    pub max_connections: u32,
    /// Seconds, 0 to 3600; the higher of both sides counts.
    pub default_time2wait_s: u32,
    /// Seconds, 0 to 3600; the lower of both sides counts.
    pub default_time2retain_s: u32,
    /// 0 to 2; the lower of both sides counts.
    pub error_recovery_level: u32,
    /// The most elaborate way of TaskReporting that we have.
    pub task_reporting: TaskReporting,
    /// Highest iSCSIProtocolLevel; 2 once the functions of RFC 7144 are there.
    pub protocol_level: u32,
}

impl Default for LocalLimits {
    /// Fit for a target on a fast network: bursts long enough that a round trip per R2T does not count,
    /// segments short enough that one connection cannot hold the others up.
    fn default() -> Self {
        Self {
            header_digest: DigestPolicy::Allow,
            data_digest: DigestPolicy::Allow,
            max_recv_data_segment_len_bytes: 256 << 10,
            max_burst_len_bytes: 1 << 20,
            first_burst_len_bytes: 256 << 10,
            initial_r2t: false,
            immediate_data: true,
            max_outstanding_r2t: 8,
            max_connections: 8,
            // Whoever logs in again may do so at once: that login ends what is left of the session.
            default_time2wait_s: 0,
            default_time2retain_s: 0,
            error_recovery_level: 0,
            task_reporting: TaskReporting::Rfc3720,
            protocol_level: 2,
        }
    }
}

/// What we say about a digest (13.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestPolicy {
    /// Never: offer and accept `None` only.
    Refuse,
    /// If the peer prefers it: offer `None,CRC32C`, accept the first one the peer lists.
    Allow,
    /// If the peer can: offer `CRC32C,None`, choose CRC32C from any list that has it.
    Prefer,
    /// Always: offer and accept `CRC32C` only.
    Require,
}
