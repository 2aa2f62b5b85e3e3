//! A watch of the embedded store: a place in the history that only moves forward.
//!
//! Nothing is queued for a watch. It reads the history in the database from its place on, and waits for
//! the bell when there is no more; so a slow one costs no memory, and none can miss or repeat a revision.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use futures_util::stream;

use super::Shared;
use super::bell::Bell;
use crate::store::Watch;
use crate::store::error::StoreError;
use crate::store::types::{Batch, Revision, Selection};

/// Events that are read at once.
const EVENTS_AT_ONCE: usize = 256;

struct Place {
    shared: Weak<Shared>,
    bell: Arc<Bell>,
    id: u64,
    selection: Selection,
    /// The first revision that was not looked at.
    next: Revision,
    /// What was read and not said yet.
    read: VecDeque<Batch>,
    has_failed: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.bell.leave(self.id);
    }
}

impl Place {
    /// What is said next, `None` after an error and when the store is closed.
    async fn next(&mut self) -> Option<Result<Batch, StoreError>> {
        loop {
            if let Some(batch) = self.read.pop_front() {
                return Some(Ok(batch));
            }
            if self.has_failed {
                return None;
            }
            if let Err(error) = self.read_on()? {
                self.has_failed = true;
                return Some(Err(error));
            }
            if self.read.is_empty() {
                poll_fn(|context| self.bell.poll_at(self.id, self.next, context)).await;
            }
        }
    }

    /// Reads from the place on; `None` if the store is closed.
    fn read_on(&mut self) -> Option<Result<(), StoreError>> {
        let shared = self.shared.upgrade()?;
        let (changes, reached) = match shared.changes(self.next, EVENTS_AT_ONCE) {
            Ok(read) => read,
            Err(error) => return Some(Err(error)),
        };
        for (revision, event) in changes {
            debug_assert!((self.next..=reached).contains(&revision), "history is read forward");
            if !self.selection.includes(event.key()) {
                continue;
            }
            match self.read.back_mut() {
                Some(batch) if batch.revision == revision => batch.events.push(event),
                _ => self.read.push_back(Batch { revision, events: vec![event] }),
            }
        }
        self.next = self.next.max(reached + 1);
        Some(Ok(()))
    }
}

/// Begins to watch.
pub(super) fn watch(shared: &Arc<Shared>, selection: Selection, from: Revision) -> Watch {
    let bell = shared.bell.clone();
    let place = Place {
        shared: Arc::downgrade(shared),
        id: bell.enter(),
        bell,
        selection,
        next: from,
        read: VecDeque::new(),
        has_failed: false,
    };
    stream::unfold(place, |mut place| async move {
        let said = place.next().await?;
        Some((said, place))
    })
    .boxed()
}
