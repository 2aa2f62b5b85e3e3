//! A value from any thread, for one task.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A channel for one value, from any thread to a task.
///
/// Invariant: the receiver ends, with a value if one was sent, as soon as the sender is gone, and who
/// sends never waits.
pub fn oneshot<T: Send>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let shared = Arc::new(Mutex::new(Shot { value: None, waker: None, sender_gone: false }));
    (OneshotSender(shared.clone()), OneshotReceiver(shared))
}

#[derive(Debug)]
struct Shot<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
}

fn lock<T>(shot: &Mutex<Shot<T>>) -> MutexGuard<'_, Shot<T>> {
    shot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sending end of [`oneshot`].
#[derive(Debug)]
pub struct OneshotSender<T>(Arc<Mutex<Shot<T>>>);

impl<T> OneshotSender<T> {
    /// Delivers the value.
    pub fn send(self, value: T) {
        lock(&self.0).value = Some(value);
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut shot = lock(&self.0);
            shot.sender_gone = true;
            shot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The receiving end of [`oneshot`]: a future of the value, or `None` when the sender was dropped
/// without sending.
#[derive(Debug)]
pub struct OneshotReceiver<T>(Arc<Mutex<Shot<T>>>);

impl<T> Future for OneshotReceiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut shot = lock(&self.0);
        if shot.sender_gone {
            return Poll::Ready(shot.value.take());
        }
        shot.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
