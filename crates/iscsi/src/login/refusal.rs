//! Why a target refuses a login, and the one mapping from that to the status on the wire (RFC 7143 11.13.5).

use crate::pdu::{LoginStatus, Opcode};
use crate::text::{NameError, NegotiationError, TextError};

/// Why a login was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    /// Another PDU than a Login Request.
    #[error("{0:?} came instead of a Login Request")]
    NotALogin(Opcode),
    /// No version in common.
    #[error("the initiator wants at least version {0}")]
    Version(u8),
    /// A stage that does not follow, or T and C together (6.3.3).
    #[error("the stage bits of the Login Request are wrong")]
    Stage,
    /// ISID, TSIH, CID or Initiator Task Tag changed within one login (11.12).
    #[error("the Login Request belongs to another login")]
    Changed,
    /// More requests or more text than a login may take.
    #[error("the login takes too many requests or too much text")]
    TooLong,
    /// Malformed text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A key that cannot be settled.
    #[error(transparent)]
    Negotiation(#[from] NegotiationError),
    /// A key that must come was not there.
    #[error("the initiator did not give {0}")]
    Missing(&'static str),
    /// Not an iSCSI name.
    #[error("{key} is not a name: {error}")]
    Name {
        /// The key.
        key: &'static str,
        /// What is wrong with its value.
        error: NameError,
    },
    /// Neither Normal nor Discovery.
    #[error("the session type is not supported")]
    SessionType,
    /// No such target.
    #[error("there is no such target")]
    TargetNotFound,
    /// The target was removed.
    #[error("the target was removed")]
    TargetRemoved,
    /// The target is not served now.
    #[error("the target is offline")]
    TargetOffline,
    /// The target is elsewhere: a redirection.
    #[error("the target is at {address}")]
    Moved {
        /// The TargetAddress that the response carries.
        address: String,
        /// Whether the old address will serve again.
        is_temporary: bool,
    },
    /// The initiator may not use the target.
    #[error("the initiator is not allowed to use the target")]
    NotAuthorized,
    /// Authentication failed.
    #[error(transparent)]
    Authentication(#[from] AuthRefusal),
    /// No place in a session.
    #[error("no place in a session: {0}")]
    Session(LoginStatus),
}

/// Why authentication failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthRefusal {
    /// The initiator skipped authentication.
    #[error("authentication is required, but the initiator skipped it")]
    Skipped,
    /// No method in common.
    #[error("no authentication method in common")]
    Method,
    /// No CHAP algorithm in common.
    #[error("no CHAP algorithm in common")]
    Algorithm,
    /// Keys are missing, malformed, or come when they should not.
    #[error("the CHAP exchange is malformed")]
    Malformed,
    /// User or secret is wrong.
    #[error("the CHAP response is wrong")]
    Response,
    /// A challenge of ours came back as the initiator's, of this connection or another.
    #[error("the initiator sent a CHAP challenge of ours back")]
    Reflected,
    /// The initiator wants the target to authenticate, but it has no credentials.
    #[error("the initiator wants mutual CHAP, which is not configured")]
    NoMutual,
}

impl LoginRefusal {
    /// Status-Class and Status-Detail of the Login Response.
    #[must_use]
    pub const fn status(&self) -> LoginStatus {
        match self {
            Self::NotALogin(_) => LoginStatus::INVALID_DURING_LOGIN,
            Self::Version(_) => LoginStatus::UNSUPPORTED_VERSION,
            Self::Stage
            | Self::Changed
            | Self::TooLong
            | Self::Text(_)
            | Self::Negotiation(_)
            | Self::Name { .. } => LoginStatus::INITIATOR_ERROR,
            Self::Missing(_) => LoginStatus::MISSING_PARAMETER,
            Self::SessionType => LoginStatus::SESSION_TYPE_NOT_SUPPORTED,
            Self::TargetNotFound => LoginStatus::NOT_FOUND,
            Self::TargetRemoved => LoginStatus::TARGET_REMOVED,
            Self::TargetOffline => LoginStatus::SERVICE_UNAVAILABLE,
            Self::Moved { is_temporary: true, .. } => LoginStatus::MOVED_TEMPORARILY,
            Self::Moved { .. } => LoginStatus::MOVED_PERMANENTLY,
            Self::NotAuthorized => LoginStatus::AUTHORIZATION_FAILURE,
            Self::Authentication(_) => LoginStatus::AUTHENTICATION_FAILURE,
            Self::Session(status) => *status,
        }
    }
}
