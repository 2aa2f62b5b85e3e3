//! Why there is no answer.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::problem::Problem;

/// How long a member may give no sign of life.
pub const SILENCE: Duration = Duration::from_secs(20);

/// Why a call has no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The member refused it, or failed: its own sentence.
    #[error(transparent)]
    Problem(Box<Problem>),
    /// Nobody listens.
    #[error("no member answers at '{}'", .0.display())]
    Nobody(PathBuf),
    /// The socket is not for this user.
    #[error("you may not use the member at '{}'", .0.display())]
    Denied(PathBuf),
    /// The socket cannot be used.
    #[error("cannot reach a member at '{}': {source}", path.display())]
    Unreachable {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It hung up.
    #[error("the member at '{}' ended before it had answered", .0.display())]
    Ended(PathBuf),
    /// It says nothing.
    #[error(
        "the member at '{}' has said nothing for {} seconds: it hangs or was halted, its log may say why",
        .0.display(), SILENCE.as_secs()
    )]
    Silent(PathBuf),
    /// It says something else than it should.
    #[error("the member at '{}' cannot be understood: {what}", path.display())]
    Strange {
        /// Where.
        path: PathBuf,
        /// What was heard.
        what: String,
    },
    /// What is asked cannot be written.
    #[error("the request cannot be written: {0}")]
    Request(#[from] serde_json::Error),
}

impl ClientError {
    /// Why nobody could be reached.
    pub(super) fn reaching(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Self::Nobody(path),
            ErrorKind::PermissionDenied => Self::Denied(path),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Silent(path),
            _ => Self::Unreachable { path, source },
        }
    }

    pub(super) fn strange(path: &Path, what: &str) -> Self {
        Self::Strange { path: path.to_owned(), what: what.to_owned() }
    }

    /// Why an answer broke off.
    pub(super) fn hearing(path: &Path, error: &hyper::Error) -> Self {
        if error.is_parse() {
            return Self::strange(path, &error.to_string());
        }
        Self::Ended(path.to_owned())
    }
}
