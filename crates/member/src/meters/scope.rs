//! Which changes of disks a piece of work has under way itself, so that it can be left off between two of them.
//!
//! A future of the array that is dropped while a disk has not answered a change it asked for gives up the locks
//! that keep others away from that place, and the change still comes down: on what others have written there by
//! then. The same for a flush: who asks for the next one would not wait for it. So whoever drops such a future
//! looks here first.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
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
    /// Writes that a disk has refused, and not taken since.
    refused: RefCell<BTreeSet<Place>>,
    /// A change that was not a write was refused, or one was given up: no other makes up for it.
    has_lost: Cell<bool>,
}

/// What a write is to change: so many bytes from there on, of the disk with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) disk: usize,
    pub(super) at: u64,
    pub(super) len: u64,
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
    /// might be about to make known. A write that was refused and then taken is as good as any.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.under_way.get() == 0 && !self.has_lost.get() && self.refused.borrow().is_empty()
    }
}

/// How a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Refused,
    /// The disk has not answered, and what it was asked for may still come.
    GivenUp,
}

/// A change that a disk was asked for.
#[derive(Debug)]
pub(super) struct Change {
    scope: Rc<Scope>,
    /// What a write is to change; `None` for all other changes and flushes.
    place: Option<Place>,
    end: End,
}

impl Change {
    /// One that the work which is being polled asks for, if it is watched.
    pub(super) fn begin(place: Option<Place>) -> Option<Self> {
        let scope = CURRENT.with_borrow(Clone::clone)?;
        scope.under_way.set(scope.under_way.get() + 1);
        Some(Self { scope, place, end: End::GivenUp })
    }

    /// The disk has answered.
    pub(super) fn end(mut self, is_done: bool) {
        self.end = if is_done { End::Done } else { End::Refused };
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let under_way = self.scope.under_way.get();
        debug_assert!(under_way > 0, "it was counted");
        self.scope.under_way.set(under_way - 1);
        match (self.end, self.place) {
            (End::Done, Some(place)) => _ = self.scope.refused.borrow_mut().remove(&place),
            (End::Done, None) => {}
            (End::Refused, Some(place)) => _ = self.scope.refused.borrow_mut().insert(place),
            (End::Refused, None) | (End::GivenUp, _) => self.scope.has_lost.set(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_while_the_work_is_polled_counts_until_it_is_answered() {
        let scope = Rc::new(Scope::default());
        let begin = || Change::begin(None);
        assert!(begin().is_none() && scope.is_at_rest());
        let change = scope.poll(begin).expect("it is watched");
        assert!(!scope.is_at_rest());
        change.end(true);
        assert!(scope.is_at_rest());
        let inner = Rc::new(Scope::default());
        let both = scope.poll(|| (inner.poll(begin), begin()));
        assert!(!scope.is_at_rest() && !inner.is_at_rest());
        both.0.expect("of the inner one").end(true);
        assert!(inner.is_at_rest() && !scope.is_at_rest());
        drop(both.1);
        assert!(!scope.is_at_rest(), "what was not answered may still come");
    }

    #[test]
    fn what_was_refused_is_made_up_for_by_the_same_write_alone() {
        let place = |at| Place { disk: 1, at, len: 4096 };
        let ends = |scope: &Rc<Scope>, place, is_done| {
            scope.poll(|| Change::begin(place)).expect("it is watched").end(is_done);
        };
        let scope = Rc::new(Scope::default());
        ends(&scope, Some(place(0)), false);
        for other in [place(4096), Place { disk: 2, ..place(0) }, Place { len: 512, ..place(0) }] {
            ends(&scope, Some(other), true);
        }
        ends(&scope, None, true);
        assert!(!scope.is_at_rest(), "another write is another one");
        ends(&scope, Some(place(0)), true);
        assert!(scope.is_at_rest());
        ends(&scope, None, false);
        ends(&scope, None, true);
        assert!(!scope.is_at_rest(), "a flush that failed is not made up for by the next");
        let scope = Rc::new(Scope::default());
        drop(scope.poll(|| Change::begin(Some(place(0)))));
        ends(&scope, Some(place(0)), true);
        assert!(!scope.is_at_rest(), "what was given up may come down on it");
    }
}
