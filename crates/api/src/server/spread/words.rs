//! What members say to each other of volumes that lie on several of them: on which paths, and in which words. All bodies
//! are JSON.
//!
//! ```text
//!  the home of a volume                            a member that has a slice of it, or is to have one
//!  POST /v1/slices/letters      an order    ─▶  makes the slice, makes it larger, or deletes it
//!  POST /v1/slices/{id}/begin   openings    ─▶  stores that one is begun, or says that the home is not what it was
//!  POST /v1/slices/{id}/open    who it is   ─▶  opens the slice, and answers with what that takes
//!  POST /v1/slices/{id}/record              ─▶  tells what it has stored of the volume of this slice
//!
//!  a member that has a slice                       the home of its volume
//!  POST /v1/slices/says         a question  ─▶  says whether it has the volume still
//! ```

use std::net::SocketAddr;

use group::spread::{HomeSays, SliceRecord};
use member::SecretText;
use member::slices::Opening;
use serde::{Deserialize, Serialize};

/// An order of a home.
pub(in crate::server) const LETTERS_PATH: &str = "/v1/slices/letters";

/// An opening of a slice begins.
pub(in crate::server) const BEGIN_PATH: &str = "/v1/slices/{id}/begin";

/// A slice is to be opened.
pub(in crate::server) const OPEN_PATH: &str = "/v1/slices/{id}/open";

/// What is stored of the volume of a slice, its home asks that has lost it.
pub(in crate::server) const RECORD_PATH: &str = "/v1/slices/{id}/record";

/// What of a slice, a home is asked.
pub(in crate::server) const SAYS_PATH: &str = "/v1/slices/says";

/// What a home says of a slice.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::server) struct Said {
    /// That.
    pub(in crate::server) says: HomeSays,
}

/// What a member tells a home of the slice that it has.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::server) struct Recorded {
    /// What is stored of it; nothing of one that is not there.
    pub(in crate::server) record: Option<Box<SliceRecord>>,
}

/// An opening, with its secrets: it goes over the members' own TLS alone.
#[derive(Serialize, Deserialize)]
pub(in crate::server) struct Opened {
    portal: SocketAddr,
    target: String,
    user: String,
    secret: String,
    mutual_user: String,
    mutual_secret: String,
}

impl From<Opening> for Opened {
    fn from(opening: Opening) -> Self {
        let Opening { portal, target, user, secret, mutual_user, mutual_secret } = opening;
        let (secret, mutual_secret) = (secret.0, mutual_secret.0);
        Self { portal, target, user, secret, mutual_user, mutual_secret }
    }
}

impl From<Opened> for Opening {
    fn from(opened: Opened) -> Self {
        let Opened { portal, target, user, secret, mutual_user, mutual_secret } = opened;
        let (secret, mutual_secret) = (SecretText(secret), SecretText(mutual_secret));
        Self { portal, target, user, secret, mutual_user, mutual_secret }
    }
}
