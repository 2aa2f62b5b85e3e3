//! Answers, grants and channels: what is given is taken once.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use proptest::prelude::*;

use super::{Task, now};
use crate::wait::{Answer, Grant, GrantState, oneshot};

#[test]
fn an_answer_is_taken_once_and_then_waited_for_again() {
    let answer = Answer::default();
    assert!(now(answer.wait()).is_none());
    answer.set(1);
    answer.set(2);
    assert_eq!(now(answer.wait()), Some(2));
    let (task, mut waiting) = (Task::new(), Box::pin(answer.wait()));
    assert!(task.take_woken() && task.poll(&mut waiting).is_none());
    answer.set(3);
    assert!(task.take_woken());
    assert_eq!(task.poll(&mut waiting), Some(3));
}

#[test]
fn an_answer_wakes_the_task_that_polled_last() {
    let answer = Answer::default();
    let (before, now) = (Task::new(), Task::new());
    let mut waiting = Box::pin(answer.wait());
    for task in [&before, &now, &now] {
        task.take_woken();
        assert!(task.poll(&mut waiting).is_none());
    }
    answer.set(());
    assert!(now.is_woken() && !before.is_woken());
}

#[test]
fn a_channel_ends_with_its_sender_whether_something_was_sent_or_not() {
    let task = Task::new();
    let (sender, receiver) = oneshot();
    let mut receiver = Box::pin(receiver);
    assert!(task.take_woken() && task.poll(&mut receiver).is_none());
    sender.send(5);
    assert!(task.take_woken());
    assert_eq!(task.poll(&mut receiver), Some(Some(5)));
    let (sender, receiver) = oneshot::<u8>();
    drop(sender);
    assert_eq!(now(receiver), Some(None));
    let (sender, receiver) = oneshot();
    drop(receiver);
    sender.send(5);
}

/// Places that are given in the order of asking, as owners of grants do.
#[derive(Default)]
struct Places {
    free: Cell<usize>,
    queue: RefCell<VecDeque<Rc<Grant>>>,
}

impl Places {
    fn serve(&self) {
        let mut queue = self.queue.borrow_mut();
        while let Some(first) = queue.front() {
            match first.state() {
                GrantState::Waited if self.free.get() == 0 => return,
                GrantState::Waited => {
                    self.free.set(self.free.get() - 1);
                    first.give();
                }
                GrantState::Given | GrantState::Left => {}
            }
            queue.pop_front();
        }
    }

    fn put_back(&self) {
        self.free.set(self.free.get() + 1);
        self.serve();
    }

    async fn take(&self) -> Place<'_> {
        let grant = Rc::new(Grant::default());
        self.queue.borrow_mut().push_back(grant.clone());
        self.serve();
        let waiting = Waiting { places: self, grant };
        waiting.grant.given().await;
        waiting.grant.leave();
        Place(self)
    }
}

struct Waiting<'a> {
    places: &'a Places,
    grant: Rc<Grant>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        match self.grant.leave() {
            GrantState::Given => self.places.put_back(),
            GrantState::Waited => self.places.serve(),
            GrantState::Left => {}
        }
    }
}

struct Place<'a>(&'a Places);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.put_back();
    }
}

proptest! {
    #[test]
    fn what_is_granted_to_who_goes_is_given_to_the_next(
        places in 1_usize..4,
        steps in prop::collection::vec((0_u8..3, any::<prop::sample::Index>()), 0..60),
    ) {
        let all = Places { free: Cell::new(places), ..Places::default() };
        let (mut waiting, mut held) = (Vec::new(), Vec::new());
        for (what, which) in steps {
            match what {
                0 => waiting.push((Task::new(), Box::pin(all.take()))),
                1 if !waiting.is_empty() => drop(waiting.remove(which.index(waiting.len()))),
                _ if !held.is_empty() => drop(held.remove(which.index(held.len()))),
                _ => {}
            }
            // All but the last run, which so may be dropped before it has begun, or with a grant.
            let count = waiting.len();
            let mut at = 0;
            waiting.retain_mut(|(task, future)| {
                at += 1;
                let taken = (at < count && task.take_woken()).then(|| task.poll(future)).flatten();
                let is_over = taken.is_some();
                held.extend(taken);
                !is_over
            });
            prop_assert!(held.len() + all.free.get() <= places, "no place is given twice");
        }
        drop(held);
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain_mut(|(task, future)| {
                !task.take_woken() || task.poll(future).is_none()
            });
            prop_assert!(waiting.len() < before, "places are free and nobody is woken");
        }
        prop_assert_eq!(all.free.get(), places, "none is lost");
    }
}
