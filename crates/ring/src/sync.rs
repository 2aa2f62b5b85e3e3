//! Small things that tasks wait for.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Lets tasks of one core wait for a change of something they share. Each `notify` wakes all that
/// wait at that moment; if none does, the next one to wait passes at once.
#[derive(Debug, Default)]
pub struct Notify {
    pending: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Notify {
    /// Without a notification pending.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes all that wait.
    pub fn notify(&self) {
        self.pending.set(true);
        // Swapped back below so that its capacity stays: a waker runs no code of ours here.
        let mut waiting = self.waiting.take();
        waiting.drain(..).for_each(Waker::wake);
        let mut new = self.waiting.borrow_mut();
        if new.is_empty() {
            *new = waiting;
        }
    }

    /// Waits for a notification. Wake-ups are hints: check the shared state and wait again.
    pub async fn notified(&self) {
        let mut registered = false;
        poll_fn(|cx| {
            if registered || self.pending.replace(false) {
                self.pending.set(false);
                return Poll::Ready(());
            }
            registered = true;
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A channel for one value, from any thread to a task.
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
