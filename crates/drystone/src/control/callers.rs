//! Who is connected to the control socket: so many that others find room, and none without limit.

use ring::{OneshotReceiver, OneshotSender, oneshot};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The connections of one socket.
///
/// Invariant: `silent` and `answering` together are all that are open; whoever has asked is never
/// put out to make room for another.
#[derive(Debug)]
pub(super) struct Callers {
    max: usize,
    next: Cell<u64>,
    /// Those that have not asked yet, oldest first, and the way to put each out.
    silent: RefCell<BTreeMap<u64, OneshotSender<()>>>,
    answering: Cell<usize>,
    is_ending: Cell<bool>,
}

impl Callers {
    pub(super) fn new(max: usize) -> Callers {
        assert!(max > 0, "somebody must be able to ask");
        Callers {
            max,
            next: Cell::new(0),
            silent: RefCell::default(),
            answering: Cell::new(0),
            is_ending: Cell::new(false),
        }
    }

    /// Lets one in, and puts out the one that has been silent for longest if there is no room. The
    /// receiver ends when the new one is put out itself. `None` if all others are being answered.
    pub(super) fn enter(&self) -> Option<(u64, OneshotReceiver<()>)> {
        let mut silent = self.silent.borrow_mut();
        if silent.len() + self.answering.get() >= self.max {
            let (_, oldest) = silent.pop_first()?;
            oldest.send(());
        }
        let number = self.next.get();
        self.next.set(number + 1);
        let (out, is_out) = oneshot();
        silent.insert(number, out);
        Some((number, is_out))
    }

    /// It has asked; false if it was put out just now.
    pub(super) fn has_asked(&self, number: u64) -> bool {
        let was_in = self.silent.borrow_mut().remove(&number).is_some();
        self.answering.set(self.answering.get() + usize::from(was_in));
        was_in
    }

    /// It has its answer.
    pub(super) fn is_answered(&self) {
        let answering = self.answering.get();
        assert!(answering > 0, "only who has asked is answered");
        self.answering.set(answering - 1);
    }

    /// It went away without a question.
    pub(super) fn leave(&self, number: u64) {
        self.silent.borrow_mut().remove(&number);
    }

    pub(super) fn answering(&self) -> usize {
        self.answering.get()
    }

    /// Nothing more is begun.
    pub(super) fn end(&self) {
        self.is_ending.set(true);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_silent_one_makes_room_and_no_other() {
        let callers = Callers::new(3);
        let (first, _first_out) = callers.enter().unwrap();
        let (second, _second_out) = callers.enter().unwrap();
        assert!(callers.has_asked(first));
        let (_third, _third_out) = callers.enter().unwrap();
        let (fourth, _fourth_out) = callers.enter().unwrap();
        assert!(!callers.has_asked(second), "it was put out");
        callers.leave(second);
        assert!(callers.has_asked(fourth));
        let (fifth, _fifth_out) = callers.enter().unwrap();
        assert!(callers.has_asked(fifth));
        assert!(callers.enter().is_none(), "all are being answered");
        callers.is_answered();
        assert!(callers.enter().is_some());
        assert_eq!(callers.answering(), 2);
    }
}
