//! How slices are opened that wait for whoever knows how.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use group::membership::SliceId;
use group::ownership::MemberId;

use crate::slices::{AskError, Opening, SliceOpener};
use crate::spread_request::SliceOpeners;

/// How slices of other members are reached, once somebody has said so, in this life of the member.
#[derive(Debug, Clone)]
pub(super) struct Openers {
    given: Arc<Mutex<Option<Arc<dyn SliceOpeners>>>>,
    /// By which members tell the lives of this one apart in what they log.
    life: u64,
}

impl Openers {
    pub(super) fn new() -> Self {
        // Nothing rests on it.
        Self { given: Arc::default(), life: getrandom::u64().unwrap_or_default() }
    }

    pub(super) fn set(&self, openers: Arc<dyn SliceOpeners>) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(openers);
    }

    /// What opens this slice of this member.
    pub(super) fn opener(&self, to: MemberId, slice: SliceId) -> Arc<dyn SliceOpener> {
        Arc::new(Waiting { openers: self.clone(), to, slice })
    }
}

#[derive(Debug)]
struct Waiting {
    openers: Openers,
    to: MemberId,
    slice: SliceId,
}

impl SliceOpener for Waiting {
    fn open(&self) -> BoxFuture<'_, Result<Opening, AskError>> {
        let given = self.openers.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        async move {
            let openers = given.ok_or("this member is starting")?;
            let opener = openers.opener(self.to, &self.slice, self.openers.life);
            opener.open().await
        }
        .boxed()
    }
}
