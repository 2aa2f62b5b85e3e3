//! One at a time, in the order of asking.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::FairQueue;

/// What one task at a time has, and others wait for, on whichever cores they run. Whoever takes it again
/// and again keeps nobody from it.
///
/// Its invariants are those of [`Turns`]; all who ask are of one key.
#[derive(Debug, Default)]
pub struct Turn(Turns<()>);

impl Turn {
    /// Waits for the turn of the caller, which ends with the guard.
    pub async fn take(&self) -> Guard<()> {
        self.0.take(()).await
    }

    /// As [`Turns::held`].
    pub fn held(&self) -> Option<u64> {
        self.0.held()
    }
}

/// What one task at a time has, and others wait for. Keys have turns, so that whoever asks often under one
/// has no advantage over who asks once under another; those who wait at one key stand in the order of asking.
///
/// Invariants: one asking has it at most; nobody waits while it is free; who has it or waits for it
/// holds a [`Guard`], which hands it on, or leaves the queue.
#[derive(Debug)]
pub struct Turns<Key>(Arc<Mutex<Line<Key>>>);

#[derive(Debug)]
struct Line<Key> {
    /// How often it was asked for. Each asking has its number.
    asked: u64,
    /// Which asking has it.
    held: Option<u64>,
    waiting: FairQueue<Key, Asking>,
}

#[derive(Debug)]
struct Asking {
    number: u64,
    waker: Waker,
}

impl<Key> Default for Turns<Key> {
    fn default() -> Self {
        let line = Line { asked: 0, held: None, waiting: FairQueue::default() };
        Self(Arc::new(Mutex::new(line)))
    }
}

fn lock<Key>(line: &Mutex<Line<Key>>) -> MutexGuard<'_, Line<Key>> {
    // Nothing panics while it is locked, and each change is one step.
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Key: Eq> Turns<Key> {
    /// Waits for the turn of the caller, which ends with the guard.
    pub async fn take(&self, key: Key) -> Guard<Key> {
        let (number, is_first) = lock(&self.0).ask(key);
        // From here on: who is dropped while waiting leaves.
        let guard = Guard { line: Arc::clone(&self.0), number };
        if !is_first {
            poll_fn(|cx| lock(&guard.line).poll(number, cx)).await;
        }
        guard
    }
}

impl<Key> Turns<Key> {
    /// Which asking has the turn now, if any: who sees the same one again and again sees that it goes
    /// on for long.
    pub fn held(&self) -> Option<u64> {
        lock(&self.0).held
    }
}

impl<Key> Line<Key> {
    /// The number of this asking, and whether it has the turn already.
    fn ask(&mut self, key: Key) -> (u64, bool)
    where
        Key: Eq,
    {
        self.asked += 1;
        let number = self.asked;
        let is_first = self.held.is_none();
        match is_first {
            true => self.held = Some(number),
            false => self.waiting.enter(key, Asking { number, waker: Waker::noop().clone() }),
        }
        (number, is_first)
    }

    fn poll(&mut self, number: u64, cx: &Context<'_>) -> Poll<()> {
        if self.held == Some(number) {
            return Poll::Ready(());
        }
        // Numbers grow, so at each key they stand in their order.
        let asking = self.waiting.find(|asking| asking.number.cmp(&number));
        let asking = asking.expect("who has no turn waits for it");
        asking.waker.clone_from(cx.waker());
        Poll::Pending
    }

    /// An asking is over. If it had the turn the next one has it, and is to be woken.
    fn leave(&mut self, number: u64) -> Option<Waker> {
        if self.held != Some(number) {
            self.waiting.remove(|asking| asking.number.cmp(&number));
            return None;
        }
        let next = self.waiting.leave();
        self.held = next.as_ref().map(|asking| asking.number);
        debug_assert!(self.held.is_some() || self.waiting.is_empty(), "free, and nobody waits");
        next.map(|asking| asking.waker)
    }
}

/// The turn of somebody, or the place of who waits for it.
#[derive(Debug)]
#[must_use = "the turn ends with the guard"]
pub struct Guard<Key> {
    line: Arc<Mutex<Line<Key>>>,
    number: u64,
}

impl<Key> Drop for Guard<Key> {
    fn drop(&mut self) {
        let next = lock(&self.line).leave(self.number);
        // Without the lock: a waker of another executor may run what waits.
        if let Some(next) = next {
            next.wake();
        }
    }
}
