//! Task attributes within one I_T_L nexus (SAM-5 §8.9): SIMPLE tasks run in any order, an ORDERED
//! task runs after all older ones and before all younger ones, HEAD OF QUEUE runs at once.
//!
//! The queue is a list of epochs. SIMPLE tasks that no ORDERED task separates share an epoch; an
//! ORDERED task is an epoch of its own. Only the front epoch runs.
//!
//! Invariant: no epoch is empty, and two SIMPLE epochs are never neighbours.

use std::collections::VecDeque;

#[derive(Debug)]
struct Epoch<T> {
    ordered: bool,
    unfinished: u32,
    waiting: Vec<T>,
}

/// Which epoch a task belongs to; given back at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The order of tasks of one nexus. `T` is what wakes a waiting task.
#[derive(Debug)]
pub(crate) struct TaskOrder<T> {
    epochs: VecDeque<Epoch<T>>,
    first: u64,
}

impl<T> TaskOrder<T> {
    pub(crate) fn new() -> Self {
        Self { epochs: VecDeque::new(), first: 0 }
    }

    /// A SIMPLE task that ends before anything else happens may run without being entered.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        match self.epochs.front() {
            None => true,
            Some(front) => !front.ordered && self.epochs.len() == 1,
        }
    }

    /// Enters a task in order of arrival.
    pub(crate) fn enter(&mut self, ordered: bool) -> Ticket {
        let joins = !ordered && self.epochs.back().is_some_and(|epoch| !epoch.ordered);
        if !joins {
            self.epochs.push_back(Epoch { ordered, unfinished: 0, waiting: Vec::new() });
        }
        let back = self.epochs.back_mut().expect("an epoch was just made or found");
        back.unfinished += 1;
        Ticket(self.first + self.epochs.len() as u64 - 1)
    }

    /// The task may run now; otherwise `waiter` is given back by the `leave` that makes it so.
    pub(crate) fn may_run(&mut self, ticket: Ticket, waiter: impl FnOnce() -> T) -> bool {
        let index = self.index(ticket);
        if index > 0 {
            self.epochs[index].waiting.push(waiter());
        }
        index == 0
    }

    /// The task has ended, run or not. Returns those that may run now.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Vec<T> {
        let index = self.index(ticket);
        let epoch = &mut self.epochs[index];
        assert!(epoch.unfinished > 0, "a task leaves its epoch once");
        epoch.unfinished -= 1;
        if self.epochs.iter().take(1).all(|front| front.unfinished > 0) {
            return Vec::new();
        }
        while self.epochs.front().is_some_and(|front| front.unfinished == 0) {
            self.epochs.pop_front();
            self.first += 1;
        }
        self.epochs.front_mut().map(|front| std::mem::take(&mut front.waiting)).unwrap_or_default()
    }

    fn index(&self, ticket: Ticket) -> usize {
        usize::try_from(ticket.0 - self.first).expect("an epoch outlives its tasks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_tasks_share_and_ordered_tasks_separate() {
        let mut order = TaskOrder::new();
        let first = order.enter(false);
        let second = order.enter(false);
        assert!(order.is_open());
        let barrier = order.enter(true);
        assert!(!order.is_open());
        let after = order.enter(false);
        assert!(order.may_run(first, || "first") && order.may_run(second, || "second"));
        assert!(!order.may_run(barrier, || "barrier"));
        assert!(!order.may_run(after, || "after"));
        assert!(order.leave(second).is_empty());
        assert_eq!(order.leave(first), ["barrier"]);
        assert!(order.may_run(barrier, || "barrier"));
        assert_eq!(order.leave(barrier), ["after"]);
        assert!(order.is_open());
        assert!(order.leave(after).is_empty());
        assert!(order.is_open());
    }

    #[test]
    fn an_aborted_barrier_lets_the_younger_pass() {
        let mut order = TaskOrder::new();
        let running = order.enter(false);
        let barrier = order.enter(true);
        let after = order.enter(false);
        assert!(!order.may_run(after, || "after"));
        assert!(order.leave(barrier).is_empty(), "the older one still runs");
        assert_eq!(order.leave(running), ["after"]);
        assert!(order.leave(after).is_empty());
    }
}
