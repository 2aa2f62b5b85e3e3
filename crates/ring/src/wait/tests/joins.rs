//! Several futures in one task.

use std::cell::Cell;
use std::future::{pending, poll_fn, ready};
use std::marker::PhantomPinned;
use std::task::Poll;

use proptest::prelude::*;

use super::{Task, now};
use crate::wait::{Answer, Either, both, first, join_all};

/// Ends with the poll of that number.
fn slow(polls: usize) -> impl Future<Output = usize> {
    let mut left = polls;
    poll_fn(move |_| {
        left = left.saturating_sub(1);
        if left == 0 { Poll::Ready(polls) } else { Poll::Pending }
    })
}

#[test]
fn results_come_in_order_whoever_ends_first() {
    let mut all = Box::pin(join_all::<_, Vec<_>>([slow(3), slow(1), slow(2)]));
    let task = Task::new();
    assert!(task.poll(&mut all).is_none() && task.poll(&mut all).is_none());
    assert_eq!(task.poll(&mut all), Some(vec![3, 1, 2]));
    assert_eq!(now(join_all(Vec::<std::future::Ready<u8>>::new())), Some(Vec::new()));
}

#[test]
fn the_first_error_counts_and_the_others_run_to_their_end() {
    let ended = Cell::new(0);
    let run = |polls, result: Result<u8, u8>| {
        let ended = &ended;
        async move {
            let _pinned = PhantomPinned;
            slow(polls).await;
            ended.set(ended.get() + 1);
            result
        }
    };
    let futures = [run(1, Ok(1)), run(3, Err(2)), run(1, Err(3))];
    let mut all = Box::pin(join_all::<_, Result<Vec<_>, _>>(futures));
    let task = Task::new();
    assert!(task.poll(&mut all).is_none() && task.poll(&mut all).is_none());
    assert_eq!(task.poll(&mut all), Some(Err(2)));
    assert_eq!(ended.get(), 3);
}

#[test]
fn of_two_the_first_one_counts_if_both_are_over() {
    assert_eq!(now(first(ready(1), ready(2))), Some(Either::Left(1)));
    assert_eq!(now(first(pending::<u8>(), ready(2))), Some(Either::Right(2)));
    assert_eq!(now(first(pending::<u8>(), pending::<u8>())), None);
    assert_eq!(now(both(ready(1), ready('b'))), Some((1, 'b')));
    let mut two = Box::pin(both(slow(1), slow(2)));
    assert_eq!(Task::new().poll(&mut two), None);
    assert_eq!(Task::new().poll(&mut two), Some((1, 2)));
}

proptest! {
    #[test]
    fn however_they_end_all_results_are_in_their_places(
        order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let answers: Vec<Answer<usize>> = order.iter().map(|_| Answer::default()).collect();
        let mut all = Box::pin(join_all::<_, Vec<_>>(answers.iter().map(Answer::wait)));
        let task = Task::new();
        let mut result = None;
        for &next in &order {
            prop_assert!(result.is_none());
            prop_assert!(task.take_woken(), "each of them wakes the task");
            result = task.poll(&mut all);
            prop_assert!(result.is_none());
            answers[next].set(next);
        }
        prop_assert!(task.take_woken());
        prop_assert_eq!(task.poll(&mut all), Some((0..order.len()).collect()));
    }
}
