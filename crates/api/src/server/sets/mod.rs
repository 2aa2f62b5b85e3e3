//! Snapshots of one moment of volumes of several members: the coordinator's side, and what looks after what is left.
//!
//! ```text
//!  POST /v1/snapshots ─▶ driver ─▶ member: what this one has of it (Prepare, Hold, Take, Decide, Settle)
//!                          │
//!                          ╰────▶ remote ══ TLS ══▶ routes::sets ─▶ member: what another one has
//!
//!  janitor, at all members: what a driver has left behind that was cut off
//! ```
//!
//! Nothing here decides whether a set is whole: that the store of the group does, and each member does by itself what it
//! says. What is done here may break off anywhere.
//!
//! 1. Whoever prepares has answered before anybody holds, and whoever holds before anybody takes. At the moment in which
//!    the first one is asked to take, all hold: that is the one moment of the snapshots.
//! 2. Whole is asked for when all have answered that they have taken, and never behind void.

mod driver;
mod janitor;
mod remote;
pub(super) mod words;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use group::membership::SetId;
use member::{Request, SetRequest};

pub(super) use driver::{Spread, take};
pub(super) use janitor::look_after;

use super::app::App;
use crate::problem::Problem;
use crate::types::OfAnswer;

/// The sets that are driven here.
#[derive(Debug, Default)]
pub(super) struct Driven(Mutex<BTreeSet<SetId>>);

impl Driven {
    fn has(&self, id: &SetId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

/// A set is driven as long as this is there.
struct Driving(Arc<App>, SetId);

impl Driving {
    fn of(app: &Arc<App>, id: &SetId) -> Self {
        let mut all = app.sets.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(id.clone());
        Self(app.clone(), id.clone())
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.sets.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

/// Has this member do its part.
async fn here<T: OfAnswer>(app: &App, request: SetRequest) -> Result<T, Problem> {
    let (_, coming) = app.begin(Request::Set(request));
    app.outcome(coming).await
}
