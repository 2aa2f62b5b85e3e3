//! Bells and events: each ring reaches all who wait, and a ring that nobody heard the next one.

use std::cell::Cell;
use std::pin::Pin;

use proptest::prelude::*;

use super::{Task, now};
use crate::wait::{Bell, Event, SharedBell};

#[test]
fn a_ring_is_remembered_for_one_and_not_for_those_who_were_never_rung() {
    let bell = Bell::default();
    bell.ring();
    bell.ring();
    assert!(now(bell.rung()).is_some());
    assert!(now(bell.rung()).is_none(), "it was heard");
    // Polled again without a ring, as a timeout does at its end.
    let (task, mut waiting) = (Task::new(), Box::pin(bell.rung()));
    assert!(task.poll(&mut waiting).is_none() && task.poll(&mut waiting).is_none());
}

#[test]
fn a_ring_that_is_given_to_who_is_dropped_is_there_for_the_next() {
    let bell = Bell::default();
    let (task, mut gone) = (Task::new(), Box::pin(bell.rung()));
    assert!(task.poll(&mut gone).is_none());
    bell.ring();
    drop(gone);
    assert!(now(bell.rung()).is_some());
}

#[test]
fn a_task_that_waits_again_and_again_is_kept_once() {
    let bell = Bell::default();
    let (one, other) = (Task::new(), Task::new());
    for _ in 0..10 {
        for task in [&one, &other] {
            assert!(task.poll(&mut Box::pin(bell.rung())).is_none());
            task.take_woken();
        }
    }
    let shown = format!("{bell:?}");
    assert_eq!(shown.matches("Waker {").count(), 2, "{shown}");
    bell.ring();
    assert!(one.is_woken() && other.is_woken());
}

#[test]
fn an_event_wakes_all_once_and_is_over_for_those_who_come_later() {
    let event = Event::default();
    let tasks = [Task::new(), Task::new()];
    let mut waiting = [Box::pin(event.wait()), Box::pin(event.wait())];
    for (task, waiting) in tasks.iter().zip(&mut waiting) {
        assert!(task.take_woken() && task.poll(waiting).is_none());
    }
    assert_eq!(now(event.or(async { 7 })), Some(Some(7)));
    event.set();
    event.set();
    assert!(event.has_happened() && tasks.iter().all(Task::take_woken));
    for (task, waiting) in tasks.iter().zip(&mut waiting) {
        assert!(task.poll(waiting).is_some());
    }
    assert!(now(event.wait()).is_some());
    assert_eq!(now(event.or(async { 7 })), Some(None), "what has happened comes first");
}

#[test]
fn a_ring_between_looking_and_waiting_is_not_missed() {
    let bell = SharedBell::default();
    let mark = bell.mark();
    bell.ring();
    assert!(now(bell.after(mark)).is_some());
    assert!(now(bell.after(bell.mark())).is_none());
}

/// Futures of two neighbours stand in one task, as those of a `select` do.
const WAITERS: usize = 6;

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(usize),
    Drop(usize),
    /// Both futures of a task are polled, if it was woken.
    Run(usize),
    PollIdly(usize),
    Ring,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..WAITERS).prop_map(Step::Wait),
        2 => (0..WAITERS).prop_map(Step::Drop),
        4 => (0..WAITERS / 2).prop_map(Step::Run),
        1 => (0..WAITERS).prop_map(Step::PollIdly),
        2 => Just(Step::Ring),
    ]
}

/// What waits, and how often it had rung when it began to.
type Waiting<'a> = Option<(Pin<Box<dyn Future<Output = ()> + 'a>>, u64)>;

/// A bell, and what is known of it.
struct World<'a> {
    tasks: Vec<Task>,
    waiting: Vec<Waiting<'a>>,
    rings: u64,
    heard: u64,
}

impl<'a> World<'a> {
    fn begin(&mut self, at: usize, bell: &'a Bell) -> Result<(), TestCaseError> {
        let mut future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(bell.rung());
        let is_over = self.tasks[at / 2].poll(&mut future).is_some();
        prop_assert_eq!(is_over, self.rings != self.heard);
        self.heard = self.rings;
        self.waiting[at] = (!is_over).then_some((future, self.rings));
        Ok(())
    }

    fn poll(&mut self, at: usize) -> Result<(), TestCaseError> {
        let Some((future, since)) = &mut self.waiting[at] else { return Ok(()) };
        let has_rung = self.rings != *since;
        prop_assert_eq!(self.tasks[at / 2].poll(future).is_some(), has_rung);
        if has_rung {
            self.waiting[at] = None;
            self.heard = self.rings;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (at, waiting) in self.waiting.iter().enumerate() {
            let is_due = waiting.as_ref().is_some_and(|(_, since)| *since != self.rings);
            prop_assert!(!is_due || self.tasks[at / 2].is_woken(), "{} is not woken", at);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn each_ring_wakes_all_who_wait_whoever_else_goes(
        steps in prop::collection::vec(step(), 0..80)
    ) {
        let bell = Bell::default();
        let tasks = std::iter::repeat_with(Task::new).take(WAITERS / 2).collect();
        let waiting = std::iter::repeat_with(|| None).take(WAITERS).collect();
        let mut world = World { tasks, waiting, rings: 0, heard: 0 };
        for step in steps {
            match step {
                Step::Wait(at) => world.begin(at, &bell)?,
                Step::Drop(at) => world.waiting[at] = None,
                Step::Run(task) if world.tasks[task].take_woken() => {
                    world.poll(2 * task)?;
                    world.poll(2 * task + 1)?;
                }
                Step::Run(_) => {}
                Step::PollIdly(at) => world.poll(at)?,
                Step::Ring => {
                    bell.ring();
                    world.rings += 1;
                }
            }
            world.check()?;
        }
    }

    #[test]
    fn whoever_waits_until_something_is_so_ends_when_it_is(
        levels in prop::collection::vec(0_u32..6, 1..8),
        changes in prop::collection::vec(any::<bool>(), 0..8),
        gone in any::<prop::sample::Index>(),
    ) {
        let (bell, level) = (Bell::default(), Cell::new(0));
        let mut all: Vec<_> = levels
            .iter()
            .map(|&wanted| {
                let level = &level;
                (wanted, Task::new(), Box::pin(bell.until(move || level.get() >= wanted)))
            })
            .collect();
        for is_change in changes {
            all.retain_mut(|(_, task, future)| !task.take_woken() || task.poll(future).is_none());
            if is_change {
                level.set(level.get() + 1);
                bell.ring();
            } else if !all.is_empty() {
                drop(all.remove(gone.index(all.len())));
            }
        }
        all.retain_mut(|(_, task, future)| !task.take_woken() || task.poll(future).is_none());
        prop_assert!(all.iter().all(|(wanted, ..)| *wanted > level.get()));
    }
}
