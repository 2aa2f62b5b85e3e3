//! What a home is given to reach a slice, until it asks again.

use std::net::SocketAddr;

use group::ownership::MemberId;
use iscsi::chap::{Credentials, CredentialsError};
use serde::{Deserialize, Serialize};
use target::{Access, AccessRule, TargetError};

use crate::access_request::SecretText;
use crate::mutants::{self, Mutant};

use super::SliceId;
use super::digits::draw_digits;

/// Random bytes of a secret: more than the 128 bits that RFC 7143 §9.2.1 asks for where nothing else protects a login.
const SECRET_BYTES: usize = 24;

/// Random bytes of what tells an opening from all others of its slice, also of another life of this member.
const NUMBER_BYTES: usize = 8;

/// Where a slice is, and what both sides prove there. It is worth something until the next opening of the slice, and its
/// secrets are not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Where the member serves slices.
    pub portal: SocketAddr,
    /// The name of the target of this opening; the slice is its LUN 0.
    pub target: String,
    /// The CHAP user that the home is to be.
    pub user: String,
    /// What the home proves.
    #[serde(with = "secret")]
    pub secret: SecretText,
    /// The CHAP user that the member says that it is.
    pub mutual_user: String,
    /// What the member proves.
    #[serde(with = "secret")]
    pub mutual_secret: SecretText,
}

/// Secrets go to the home over the members' TLS, and nowhere else.
mod secret {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::access_request::SecretText;

    pub(super) fn serialize<S: Serializer>(secret: &SecretText, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&secret.0)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<SecretText, D::Error> {
        String::deserialize(from).map(SecretText)
    }
}

impl Opening {
    /// Draws one.
    pub(super) fn draw(
        portal: SocketAddr,
        prefix: &str,
        slice: &SliceId,
        life: u64,
    ) -> Result<Self, getrandom::Error> {
        let draw = |bytes| match mutants::is(Mutant::OldSecrets) {
            true => Ok(format!("{bytes:02x}").repeat(bytes)),
            false => draw_digits(bytes),
        };
        let number = draw(NUMBER_BYTES)?;
        Ok(Self {
            portal,
            target: format!("{prefix}:slice-{slice}-{number}"),
            user: format!("home-{life:016x}-{number}"),
            secret: SecretText(draw(SECRET_BYTES)?),
            mutual_user: format!("slice-{number}"),
            mutual_secret: SecretText(draw(SECRET_BYTES + 1)?),
        })
    }

    /// What the home proves.
    pub(super) fn credentials(&self) -> Result<Credentials, CredentialsError> {
        Credentials::new(self.user.as_str(), self.secret.0.as_bytes())
    }

    /// What the member proves.
    pub(super) fn mutual(&self) -> Result<Credentials, CredentialsError> {
        Credentials::new(self.mutual_user.as_str(), self.mutual_secret.0.as_bytes())
    }

    /// Whom its target lets in.
    pub(super) fn access(&self) -> Result<Access, CredentialsError> {
        Ok(Access {
            rules: vec![AccessRule::user(self.user.as_str())],
            users: vec![self.credentials()?],
            mutual: Some(self.mutual()?),
            shared: false,
        })
    }
}

/// Why a slice is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such slice, or it is being withdrawn.
    #[error("this member holds no slice {0}")]
    Unknown(SliceId),
    /// Whoever asks is not the home of the volume.
    #[error("slice {slice} is opened for the home of its volume only, and {caller} is not")]
    NotHome {
        /// The slice.
        slice: SliceId,
        /// Who asked.
        caller: MemberId,
    },
    /// Another life of the home has opened it since.
    #[error(
        "slice {0} is not opened for a life of its home that another one has replaced: two processes run as one member"
    )]
    FormerLife(SliceId),
    /// What was asked for before is not over.
    #[error(
        "slice {0} is not opened: the disks of this member still work on what was asked of it before, and that opening has \
         ended"
    )]
    Busy(SliceId),
    /// Its target cannot be served.
    #[error(transparent)]
    Target(TargetError),
    /// Nothing can be drawn.
    #[error("this member cannot draw secrets: {0}")]
    Random(#[from] getrandom::Error),
    /// What was drawn cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The portal ends.
    #[error("this member is stopping")]
    Stopping,
}

/// Why a slice is not withdrawn yet. It is not opened any more; to be asked for again.
#[derive(Debug, thiserror::Error)]
pub enum WithdrawError {
    /// What was asked for is not over.
    #[error("the disks of this member still work on what was asked of slice {0}")]
    Busy(SliceId),
    /// The portal ends.
    #[error("this member is stopping")]
    Stopping,
}
