//! The pieces are polled by hand: a task only when it was woken, as an executor does, so that whatever
//! depends on a lost wake-up stands still.

mod bells;
mod joins;
mod threads;
mod turns;
mod values;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Whether a task is to be polled.
#[derive(Debug)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What an executor keeps of a task, which may consist of several futures.
#[derive(Clone)]
struct Task(Arc<Flag>);

impl Task {
    /// A new one is to be polled.
    fn new() -> Self {
        Self(Arc::new(Flag(AtomicBool::new(true))))
    }

    fn is_woken(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Whether it was woken since it was last polled.
    fn take_woken(&self) -> bool {
        self.0.0.swap(false, Ordering::Relaxed)
    }

    fn poll<F: Future + ?Sized>(&self, future: &mut Pin<Box<F>>) -> Option<F::Output> {
        let waker = Waker::from(Arc::clone(&self.0));
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}

/// What a future gives that is polled once.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    Task::new().poll(&mut Box::pin(future))
}
