//! What one task waits for in a queue that its owner keeps in an order of his own.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

use super::OneWaker;

/// Where a [`Grant`] stands.
///
/// ```text
/// Waited ── give ──> Given
///    └──── leave ──────┴──> Left
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrantState {
    /// Somebody waits for it.
    #[default]
    Waited,
    /// It has been given, and not yet taken.
    Given,
    /// Nobody waits for it any more: it was taken, or given up.
    Left,
}

/// Stands in a queue for a task of the same core, which holds it too.
///
/// Invariant: what was given is taken once. The task that waits [leaves](Self::leave) in any case, when it
/// has taken it and when it is dropped; what it finds then tells whether something is to be given back,
/// or whether those behind it have a turn now.
#[derive(Debug, Default)]
pub struct Grant {
    state: Cell<GrantState>,
    waiting: OneWaker,
}

impl Grant {
    /// Where it stands.
    pub fn state(&self) -> GrantState {
        self.state.get()
    }

    /// Gives it to who waits.
    pub fn give(&self) {
        debug_assert_eq!(self.state.get(), GrantState::Waited, "it is given to one who waits");
        self.state.set(GrantState::Given);
        self.waiting.wake();
    }

    /// Waits until it is given.
    pub async fn given(&self) {
        poll_fn(|cx| match self.state.get() {
            GrantState::Given => Poll::Ready(()),
            GrantState::Waited | GrantState::Left => {
                self.waiting.enlist(cx.waker());
                Poll::Pending
            }
        })
        .await;
    }

    /// Ends the waiting; where it stood before.
    pub fn leave(&self) -> GrantState {
        self.state.replace(GrantState::Left)
    }
}
