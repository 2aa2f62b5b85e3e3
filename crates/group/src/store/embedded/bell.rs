//! How watches hear of new revisions.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::store::types::Revision;

/// Wakes those who wait when the store has a new revision, or is closed.
#[derive(Debug, Default)]
pub(super) struct Bell {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    revision: Revision,
    is_closed: bool,
    next_id: u64,
    /// Those who wait, at most one waker each.
    wakers: HashMap<u64, Waker>,
}

impl Bell {
    /// The store is at this revision.
    pub(super) fn ring(&self, revision: Revision) {
        let mut state = self.lock();
        state.revision = state.revision.max(revision);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_values().for_each(Waker::wake);
    }

    /// There will be no other revision.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.ring(0);
    }

    /// One more who may wait.
    pub(super) fn enter(&self) -> u64 {
        let mut state = self.lock();
        state.next_id += 1;
        state.next_id
    }

    /// `id` waits no longer.
    pub(super) fn leave(&self, id: u64) {
        self.lock().wakers.remove(&id);
    }

    /// Ready when there is a revision at or above `wanted`, or the store is closed.
    pub(super) fn poll_at(&self, id: u64, wanted: Revision, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.is_closed || state.revision >= wanted {
            return Poll::Ready(());
        }
        state.wakers.insert(id, context.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
