//! Why there is no answer.

use std::io::{self, ErrorKind};
use std::time::Duration;

use thiserror::Error;

use super::way::Way;
use crate::problem::Problem;

/// How long a member may give no sign of life.
pub const SILENCE: Duration = Duration::from_secs(20);

/// Why a call has no answer. Places are paths of sockets, or URLs.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The member refused it, or failed: its own sentence.
    #[error(transparent)]
    Problem(Box<Problem>),
    /// Nobody listens.
    #[error("no member answers at '{0}'")]
    Nobody(String),
    /// The socket is not for this user.
    #[error("you may not use the member at '{0}'")]
    Denied(String),
    /// It cannot be connected to.
    #[error("cannot reach a member at '{place}': {source}")]
    Unreachable {
        /// Where.
        place: String,
        /// What the system says.
        source: io::Error,
    },
    /// It cannot be told from somebody else who answers in its place.
    #[error("the certificate of the member at '{place}' is not trusted: {why}")]
    Untrusted {
        /// Where.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// What should be a token holds what cannot be sent.
    #[error("the token cannot be one: it holds more than letters, digits and '_'")]
    Token,
    /// What should be the name of a member holds what cannot be sent.
    #[error(
        "the name of the member cannot be one: it holds more than letters, digits, '-', '.' and '_'"
    )]
    Member,
    /// It hung up.
    #[error("the member at '{0}' ended before it had answered")]
    Ended(String),
    /// It says nothing.
    #[error(
        "the member at '{}' has said nothing for {} seconds: it hangs or was halted, its log may say why",
        .0, SILENCE.as_secs()
    )]
    Silent(String),
    /// It says something else than it should.
    #[error("the member at '{place}' cannot be understood: {what}")]
    Strange {
        /// Where.
        place: String,
        /// What was heard.
        what: String,
    },
    /// What is asked cannot be written.
    #[error("the request cannot be written: {0}")]
    Request(#[from] serde_json::Error),
}

impl ClientError {
    /// Why nobody could be reached at a socket.
    pub(super) fn reaching(way: &Way, source: io::Error) -> Self {
        let place = way.to_string();
        match source.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Self::Nobody(place),
            ErrorKind::PermissionDenied => Self::Denied(place),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Silent(place),
            _ => Self::Unreachable { place, source },
        }
    }

    pub(super) fn strange(way: &Way, what: &str) -> Self {
        Self::Strange { place: way.to_string(), what: what.to_owned() }
    }

    /// Why an answer broke off.
    pub(super) fn hearing(way: &Way, error: &hyper::Error) -> Self {
        if error.is_parse() {
            return Self::strange(way, &error.to_string());
        }
        Self::Ended(way.to_string())
    }
}
