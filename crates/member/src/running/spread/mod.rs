//! Volumes that lie on several members of the group.

use std::cell::RefCell;
use std::sync::Arc;

use super::{Member, RequestError, SpreadRefusal};
use crate::reply::Answer;
use crate::spread_request::{SliceOpeners, SpreadRequest};

/// The volumes that lie on several members, in this life of the member.
#[derive(Debug, Default)]
pub(super) struct Spreads {
    /// How slices of other members are reached.
    openers: RefCell<Option<Arc<dyn SliceOpeners>>>,
}

impl Member {
    /// Slices of other members are reached by these.
    pub(crate) fn open_slices_by(&self, openers: Arc<dyn SliceOpeners>) {
        self.spreads.openers.replace(Some(openers));
    }

    /// Carries out what is asked about volumes that lie on several members.
    #[expect(clippy::unused_async, reason = "it is a stub")]
    pub(super) async fn spread(&self, request: SpreadRequest) -> Result<Answer, RequestError> {
        tracing::debug!("{request:?} is refused");
        Err(SpreadRefusal::NotYet.into())
    }
}
