//! A value that comes later, for one task of the same core.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use super::OneWaker;

/// A value that one task sets and another takes, as often as they like; it needs no memory but its own,
/// so that it can stand in whatever is kept of a command.
///
/// Invariant: who waits is woken by each value, and each value is taken once or replaced.
pub struct Answer<T> {
    value: Cell<Option<T>>,
    waiting: OneWaker,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self { value: Cell::new(None), waiting: OneWaker::default() }
    }
}

impl<T> Answer<T> {
    /// Delivers the value; a value that was not taken yet is replaced.
    #[inline]
    pub fn set(&self, value: T) {
        self.value.set(Some(value));
        self.waiting.wake();
    }

    /// The value, once it is there. Only the task that polled last is woken.
    #[inline]
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<T> {
        match self.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                self.waiting.enlist(cx.waker());
                Poll::Pending
            }
        }
    }

    /// Waits for the value.
    pub async fn wait(&self) -> T {
        poll_fn(|cx| self.poll_take(cx)).await
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}
