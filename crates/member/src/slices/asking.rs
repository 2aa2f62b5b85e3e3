//! How a home asks for an opening.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, LocalBoxFuture};
use initiator::{Opened, Opener, PortalAddress, TargetAddress};
use iscsi::chap::InitiatorChap;
use iscsi::text::IscsiName;

use super::Opening;
use super::reach::Reach;

/// An answer to a question that takes longer is not waited for: a member that ends the opening before may take
/// [`FENCE_LIMIT`](super::FENCE_LIMIT), and the question takes its way there.
const ASK_TIME: Duration = Duration::from_secs(30);
const _: () = assert!(super::FENCE_LIMIT.as_secs() + 5 <= ASK_TIME.as_secs());

/// Why there is no opening, as it is told.
pub type AskError = Box<dyn Error + Send + Sync>;

/// Asks the member that holds a slice to open it for this home.
pub trait SliceOpener: fmt::Debug + Send + Sync {
    /// Asks once. An answer must be one to this question: nothing that was sent through an earlier opening may be done after
    /// it.
    fn open(&self) -> BoxFuture<'_, Result<Opening, AskError>>;
}

/// How the initiator asks, and who hears of it.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) opener: Arc<dyn SliceOpener>,
    pub(super) reach: Arc<Reach>,
    /// What the log calls the slice.
    pub(super) name: String,
}

impl Opener for Asking {
    fn open(&self) -> LocalBoxFuture<'_, Result<Opened, AskError>> {
        async {
            let answer = ring::timeout(ASK_TIME, self.opener.open()).await;
            opened(&answer.ok_or("the member that holds the slice does not answer")??)
        }
        .boxed_local()
    }

    fn heard(&self, works: bool) {
        let was_down = self.reach.down_for();
        self.reach.set(works);
        match (works, was_down) {
            (true, Some(time)) => tracing::info!("{} works, after {time:?}", self.name),
            (false, None) => tracing::warn!("{} cannot be reached", self.name),
            _ => {}
        }
    }

    fn failed(&self, why: &dyn fmt::Display) {
        if self.reach.note(why.to_string()) {
            tracing::warn!("{} is not reached: {why}", self.name);
        }
    }
}

/// Where the slice is, in the words of the initiator.
fn opened(opening: &Opening) -> Result<Opened, AskError> {
    let portal = PortalAddress {
        host: opening.portal.ip().to_string(),
        port: opening.portal.port(),
        group_tag: None,
    };
    let name = IscsiName::parse(&opening.target)
        .map_err(|error| format!("{:?} is not the name of a target: {error}", opening.target))?;
    let chap = InitiatorChap::new(opening.credentials()?, Some(opening.mutual()?))?;
    Ok(Opened { address: TargetAddress::new(portal, name), chap })
}
