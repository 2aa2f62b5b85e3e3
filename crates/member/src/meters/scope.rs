//! Which changes of disks a piece of work has under way itself, so that it can be left off between two of them.
//!
//! A future of the array that is dropped while a disk has not answered a change it asked for gives up the locks
//! that keep others away from that place, and the change still comes down: on what others have written there by
//! then. The same for a flush: who asks for the next one would not wait for it. So whoever drops such a future
//! looks here first.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

thread_local! {
    /// The work that is being polled on this core.
    static CURRENT: RefCell<Option<Rc<Scope>>> = const { RefCell::new(None) };
}

/// Changes and flushes that one piece of work waits for. Those of tasks that it has begun are not among them:
/// they go on without it.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    under_way: Cell<usize>,
    is_refused: Cell<bool>,
}

impl Scope {
    /// Polls the work.
    pub(crate) fn poll<T>(self: &Rc<Self>, work: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some(Rc::clone(self)));
        let result = work();
        CURRENT.set(before);
        result
    }

    /// Whether nothing is half done: no change is under way, and no disk has refused one, which the work
    /// might be about to make known.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.under_way.get() == 0 && !self.is_refused.get()
    }
}

/// A change that a disk was asked for.
#[derive(Debug)]
pub(super) struct Change {
    scope: Rc<Scope>,
    is_done: bool,
}

impl Change {
    /// One that the work which is being polled asks for, if it is watched.
    pub(super) fn begin() -> Option<Self> {
        let scope = CURRENT.with_borrow(Clone::clone)?;
        scope.under_way.set(scope.under_way.get() + 1);
        Some(Self { scope, is_done: false })
    }

    /// The disk has answered.
    pub(super) fn end(mut self, is_done: bool) {
        self.is_done = is_done;
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let under_way = self.scope.under_way.get();
        debug_assert!(under_way > 0, "it was counted");
        self.scope.under_way.set(under_way - 1);
        // Given up before it was answered is as good as refused.
        if !self.is_done {
            self.scope.is_refused.set(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_while_the_work_is_polled_counts_until_it_is_answered() {
        let scope = Rc::new(Scope::default());
        assert!(Change::begin().is_none() && scope.is_at_rest());
        let change = scope.poll(Change::begin).expect("it is watched");
        assert!(!scope.is_at_rest());
        change.end(true);
        assert!(scope.is_at_rest());
        let inner = Rc::new(Scope::default());
        let both = scope.poll(|| (inner.poll(Change::begin), Change::begin()));
        assert!(!scope.is_at_rest() && !inner.is_at_rest());
        both.0.expect("of the inner one").end(true);
        assert!(inner.is_at_rest() && !scope.is_at_rest());
        drop(both.1);
        assert!(!scope.is_at_rest(), "what was not answered may still come");
    }
}
