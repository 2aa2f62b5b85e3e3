//! Something that happens once.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::task::Poll;

use super::waker::LocalWakers;
use super::{Either, first};

/// Happens once, for any number of futures of the same core.
///
/// Invariant: once it has happened nobody is waiting, and nobody waits any more.
#[derive(Debug, Default)]
pub struct Event {
    has_happened: Cell<bool>,
    waiting: LocalWakers,
}

impl Event {
    /// Whether it has.
    #[inline]
    pub fn has_happened(&self) -> bool {
        self.has_happened.get()
    }

    /// Lets it happen. Only the first call counts.
    #[inline]
    pub fn set(&self) {
        if !self.has_happened.replace(true) {
            self.waiting.wake();
        }
    }

    /// Waits until it has happened.
    pub async fn wait(&self) {
        poll_fn(|cx| {
            if self.has_happened.get() {
                return Poll::Ready(());
            }
            self.waiting.enlist(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// What `future` gives, or `None` when this happens before.
    pub async fn or<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        match first(self.wait(), future).await {
            Either::Left(()) => None,
            Either::Right(value) => Some(value),
        }
    }
}
