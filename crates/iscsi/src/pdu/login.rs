//! Login Request and Response (RFC 7143 11.12 and 11.13).

use super::field::{code, pdu};

/// Initiator Session ID, six bytes: with the initiator's name it names a session (11.12.5).
pub type Isid = [u8; 6];

code! {
    /// A stage of the Login Phase, two bits (11.12.3).
    Stage {
        /// SecurityNegotiation.
        SECURITY = 0,
        /// LoginOperationalNegotiation.
        OPERATIONAL = 1,
        /// FullFeaturePhase.
        FULL_FEATURE = 3,
    }
}

/// Status-Class and Status-Detail of a Login Response, class in the high byte (11.13.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginStatus(pub u16);

impl LoginStatus {
    /// Login proceeds.
    pub const SUCCESS: Self = Self(0x0000);
    /// The target moved for now, to the TargetAddress that is given.
    pub const MOVED_TEMPORARILY: Self = Self(0x0101);
    /// The target moved for good, to the TargetAddress that is given.
    pub const MOVED_PERMANENTLY: Self = Self(0x0102);
    /// Initiator error that nothing else describes.
    pub const INITIATOR_ERROR: Self = Self(0x0200);
    /// Authentication failed.
    pub const AUTHENTICATION_FAILURE: Self = Self(0x0201);
    /// The initiator is not allowed to use the target.
    pub const AUTHORIZATION_FAILURE: Self = Self(0x0202);
    /// There is no such target here.
    pub const NOT_FOUND: Self = Self(0x0203);
    /// The target was removed and there is no new address.
    pub const TARGET_REMOVED: Self = Self(0x0204);
    /// The version range is not supported.
    pub const UNSUPPORTED_VERSION: Self = Self(0x0205);
    /// Too many connections on the session.
    pub const TOO_MANY_CONNECTIONS: Self = Self(0x0206);
    /// A key that must be given was not, for example InitiatorName.
    pub const MISSING_PARAMETER: Self = Self(0x0207);
    /// The connection cannot join the session.
    pub const CANT_INCLUDE_IN_SESSION: Self = Self(0x0208);
    /// The session type is not supported.
    pub const SESSION_TYPE_NOT_SUPPORTED: Self = Self(0x0209);
    /// There is no session of this TSIH.
    pub const SESSION_DOES_NOT_EXIST: Self = Self(0x020a);
    /// The request is not valid during login.
    pub const INVALID_DURING_LOGIN: Self = Self(0x020b);
    /// Target error that nothing else describes.
    pub const TARGET_ERROR: Self = Self(0x0300);
    /// The service is not available now.
    pub const SERVICE_UNAVAILABLE: Self = Self(0x0301);
    /// The target has no resources for another session or connection.
    pub const OUT_OF_RESOURCES: Self = Self(0x0302);

    /// Status-Class: 0 success, 1 redirection, 2 initiator error, 3 target error.
    #[must_use]
    pub const fn class(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Status-Detail within the class.
    #[must_use]
    pub const fn detail(self) -> u8 {
        self.0 as u8
    }

    /// Whether login proceeds.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.class() == 0
    }
}

impl From<u16> for LoginStatus {
    fn from(value: u16) -> Self {
        Self(value)
    }
}

impl From<LoginStatus> for u16 {
    fn from(value: LoginStatus) -> u16 {
        value.0
    }
}

impl std::fmt::Debug for LoginStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoginStatus({:04x})", self.0)
    }
}

impl std::fmt::Display for LoginStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match *self {
            Self::SUCCESS => "success",
            Self::MOVED_TEMPORARILY => "target moved temporarily",
            Self::MOVED_PERMANENTLY => "target moved permanently",
            Self::INITIATOR_ERROR => "initiator error",
            Self::AUTHENTICATION_FAILURE => "authentication failure",
            Self::AUTHORIZATION_FAILURE => "authorization failure",
            Self::NOT_FOUND => "target not found",
            Self::TARGET_REMOVED => "target removed",
            Self::UNSUPPORTED_VERSION => "unsupported version",
            Self::TOO_MANY_CONNECTIONS => "too many connections",
            Self::MISSING_PARAMETER => "missing parameter",
            Self::CANT_INCLUDE_IN_SESSION => "can't include in session",
            Self::SESSION_TYPE_NOT_SUPPORTED => "session type not supported",
            Self::SESSION_DOES_NOT_EXIST => "session does not exist",
            Self::INVALID_DURING_LOGIN => "invalid during login",
            Self::TARGET_ERROR => "target error",
            Self::SERVICE_UNAVAILABLE => "service unavailable",
            Self::OUT_OF_RESOURCES => "out of resources",
            _ => "unassigned status",
        };
        write!(f, "{text} ({:04x})", self.0)
    }
}

pdu! {
    /// Login Request (11.12), always immediate; the text is in the data segment.
    LoginRequest = LOGIN_REQUEST, always 0 {
        /// I: always 1 in a proper Login Request.
        is_immediate: bool = flag(0, 0x40),
        /// T: the initiator is ready to go on to `next_stage`.
        is_transit: bool = flag(1, 0x80),
        /// C: the text goes on in the next request; never with `is_transit`.
        is_continued: bool = flag(1, 0x40),
        /// CSG: the stage that this request belongs to.
        stage: Stage = bits(1, 2, 3),
        /// NSG: the stage to go on to, only with `is_transit`.
        next_stage: Stage = bits(1, 0, 3),
        /// Highest version the initiator supports.
        version_max: u8 = byte(2),
        /// Lowest version the initiator supports.
        version_min: u8 = byte(3),
        /// Additional header segments after the header, in 4-byte words: none is defined for this PDU.
        total_ahs_words: u8 = byte(4),
        /// Text after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Initiator Session ID.
        isid: Isid = bytes(8),
        /// Target Session Identifying Handle: 0 for a new session.
        tsih: u16 = be16(14),
        /// Initiator Task Tag: the same for the whole login.
        itt: u32 = be32(16),
        /// Connection ID.
        cid: u16 = be16(20),
        /// CmdSN: on a new session its first one.
        cmd_sn: u32 = be32(24),
        /// ExpStatSN: in the first request the last StatSN of the connection that this one replaces.
        exp_stat_sn: u32 = be32(28),
    }
}

pdu! {
    /// Login Response (11.13); the text is in the data segment.
    LoginResponse = LOGIN_RESPONSE, always 0 {
        /// T: login goes on to `next_stage`; only in answer to T.
        is_transit: bool = flag(1, 0x80),
        /// C: the text goes on in the next response; never with `is_transit`.
        is_continued: bool = flag(1, 0x40),
        /// CSG: the stage that this response belongs to.
        stage: Stage = bits(1, 2, 3),
        /// NSG: the stage to go on to, only with `is_transit`.
        next_stage: Stage = bits(1, 0, 3),
        /// Highest version the target supports.
        version_max: u8 = byte(2),
        /// The version in use.
        version_active: u8 = byte(3),
        /// Text after the header, in bytes.
        data_segment_len_bytes: u32 = u24(5),
        /// Initiator Session ID of the request.
        isid: Isid = bytes(8),
        /// Target Session Identifying Handle: the target's in the last response, before that the request's.
        tsih: u16 = be16(14),
        /// Initiator Task Tag of the request.
        itt: u32 = be32(16),
        /// StatSN; only with success.
        stat_sn: u32 = be32(24),
        /// ExpCmdSN.
        exp_cmd_sn: u32 = be32(28),
        /// MaxCmdSN.
        max_cmd_sn: u32 = be32(32),
        /// Status-Class and Status-Detail.
        status: LoginStatus = be16(36),
    }
}
