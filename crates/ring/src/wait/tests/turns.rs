//! Turns: one has it, in order, whoever goes.

use std::pin::Pin;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{Task, now};
use crate::wait::{Guard, Turn, Turns};

#[test]
fn turns_come_in_the_order_of_asking_and_those_who_are_gone_are_passed_over() {
    let turn = Turn::default();
    let task = Task::new();
    let first = now(turn.take()).expect("it is free");
    assert_eq!(turn.held(), Some(1));
    let mut second = Box::pin(turn.take());
    let mut gone = Box::pin(turn.take());
    let mut third = Box::pin(turn.take());
    for waiting in [&mut second, &mut gone, &mut third] {
        assert!(task.poll(waiting).is_none());
    }
    drop(first);
    assert!(now(turn.take()).is_none(), "nobody overtakes");
    assert_eq!(turn.held(), Some(2), "it is handed on, taken or not");
    assert!(task.poll(&mut third).is_none());
    let second = task.poll(&mut second).expect("its turn");
    drop(gone);
    drop(second);
    drop(task.poll(&mut third).expect("its turn"));
    assert_eq!(turn.held(), None);
    assert!(now(turn.take()).is_some(), "free again");
}

#[test]
fn keys_have_turns_too() {
    let turns = Turns::default();
    let task = Task::new();
    let [a, b] = ['a', 'b'];
    let first = now(turns.take(a)).expect("it is free");
    let mut second = Box::pin(turns.take(a));
    let mut gone = Box::pin(turns.take(a));
    let mut third = Box::pin(turns.take(a));
    let mut other = Box::pin(turns.take(b));
    for waiting in [&mut second, &mut gone, &mut third, &mut other] {
        assert!(task.poll(waiting).is_none());
    }
    drop(first);
    assert!(task.poll(&mut other).is_none(), "it came later");
    drop(task.poll(&mut second).expect("its turn"));
    assert!(task.poll(&mut third).is_none(), "the other key is next");
    let other = task.poll(&mut other).expect("its turn");
    drop(gone);
    drop(other);
    drop(task.poll(&mut third).expect("its turn"));
    assert!(now(turns.take(b)).is_some(), "free again");
}

/// A host can have a hundred thousand commands wait for one unit, and take them all back at once, while
/// other cores ask for the same turn.
#[test]
fn many_who_wait_and_go_cost_little_each() {
    let (turns, task) = (Turns::default(), Task::new());
    let held = now(turns.take(0)).expect("it is free");
    let begun = Instant::now();
    let mut all: Vec<_> = (0..200_000).map(|at| Box::pin(turns.take(at % 2))).collect();
    for waiting in &mut all {
        assert!(task.poll(waiting).is_none());
    }
    let last = all.split_off(199_999);
    drop(all);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "each looked at all others: {took:?}");
    drop(held);
    for mut waiting in last {
        assert!(task.poll(&mut waiting).is_some(), "nobody else is left");
    }
}

#[test]
fn a_turn_that_was_handed_to_who_is_dropped_goes_on_to_the_next() {
    let turn = Turn::default();
    let first = now(turn.take()).expect("it is free");
    let (gone_task, next_task) = (Task::new(), Task::new());
    let (mut gone, mut next) = (Box::pin(turn.take()), Box::pin(turn.take()));
    assert!(gone_task.poll(&mut gone).is_none() && next_task.poll(&mut next).is_none());
    next_task.take_woken();
    drop(first);
    assert!(!next_task.is_woken());
    drop(gone);
    assert!(next_task.is_woken());
    assert!(next_task.poll(&mut next).is_some());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u8),
    /// One of those that were woken is polled.
    Run(usize),
    /// One that waits, or has it, goes.
    Drop(usize),
    /// One that waits is polled although nobody woke it.
    PollIdly(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u8..3).prop_map(Step::Ask),
        4 => any::<usize>().prop_map(Step::Run),
        3 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::PollIdly),
    ]
}

struct Asker<'a> {
    key: u8,
    task: Task,
    future: Option<Pin<Box<dyn Future<Output = Guard<u8>> + 'a>>>,
    guard: Option<Guard<u8>>,
}

impl Asker<'_> {
    fn poll(&mut self) {
        self.task.take_woken();
        let Some(future) = &mut self.future else { return };
        if let Some(guard) = self.task.poll(future) {
            (self.guard, self.future) = (Some(guard), None);
        }
    }
}

/// The askers in the order of asking.
fn check(turns: &Turns<u8>, askers: &[Asker<'_>]) -> Result<(), TestCaseError> {
    let holders = askers.iter().filter(|asker| asker.guard.is_some()).count();
    prop_assert!(holders <= 1);
    prop_assert_eq!(turns.held().is_some(), !askers.is_empty(), "held while somebody wants it");
    let handed = |asker: &&Asker<'_>| asker.guard.is_some() || asker.task.is_woken();
    prop_assert!(askers.is_empty() || askers.iter().any(|asker| handed(&asker)), "nobody is woken");
    for (at, asker) in askers.iter().enumerate().filter(|(_, asker)| asker.guard.is_some()) {
        let is_before = |other: &&Asker<'_>| other.key == asker.key;
        prop_assert!(!askers[..at].iter().any(|other| is_before(&other)), "it was overtaken");
    }
    Ok(())
}

proptest! {
    #[test]
    fn whoever_goes_the_next_is_woken_and_nobody_is_overtaken(
        steps in prop::collection::vec(step(), 0..60)
    ) {
        let turns = Turns::<u8>::default();
        let mut askers: Vec<Asker<'_>> = Vec::new();
        for step in steps {
            let count = askers.len();
            match step {
                Step::Ask(key) => {
                    let future: Pin<Box<dyn Future<Output = _>>> = Box::pin(turns.take(key));
                    askers.push(Asker { key, task: Task::new(), future: Some(future), guard: None });
                    askers[count].poll();
                }
                Step::Run(which) => {
                    let mut woken = askers.iter_mut().filter(|asker| asker.task.is_woken());
                    if let Some(asker) = woken.nth(which % count.max(1)) {
                        asker.poll();
                    }
                }
                Step::Drop(which) if count > 0 => drop(askers.remove(which % count)),
                Step::PollIdly(which) if count > 0 => {
                    let asker = &mut askers[which % count];
                    let was_woken = asker.task.is_woken();
                    let had = asker.guard.is_some();
                    asker.poll();
                    prop_assert!(was_woken || had || asker.guard.is_none(), "it was handed in silence");
                }
                Step::Drop(_) | Step::PollIdly(_) => {}
            }
            check(&turns, &askers)?;
        }
        // Whoever is left gets it, one after the other, polled only when woken.
        while !askers.is_empty() {
            askers.iter_mut().filter(|asker| asker.task.is_woken()).for_each(Asker::poll);
            let before = askers.len();
            askers.retain(|asker| asker.guard.is_none());
            prop_assert_eq!(askers.len(), before - 1, "one gets it");
        }
        prop_assert_eq!(turns.held(), None);
    }
}
