//! A value that comes later, for one task of the same core.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use ring::Notify;

/// Set once, taken once.
pub(crate) struct Answer<T> {
    value: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self { value: Cell::new(None), waker: Cell::new(None) }
    }
}

impl<T> Answer<T> {
    /// Delivers the value; a value that was not taken yet is replaced.
    pub(crate) fn set(&self, value: T) {
        self.value.set(Some(value));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<T> {
        match self.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                self.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    pub(crate) async fn wait(&self) -> T {
        poll_fn(|cx| self.poll_take(cx)).await
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

/// Waits until `ready` says so; it is asked first, and again after each notification.
pub(crate) async fn until(notify: &Notify, ready: impl Fn() -> bool) {
    while !ready() {
        notify.notified().await;
    }
}
