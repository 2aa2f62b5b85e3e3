//! Reads that are sent on a second path.

use std::time::Duration;

use scsi::alua::AccessState::ActiveOptimized;

use super::super::{
    Action, OpId, PathId, PathState, Policy, Router, RouterOptions, Shape, Verdict,
};
use super::ms;

const A: PathId = PathId(0);
const B: PathId = PathId(1);

fn router(paths: usize) -> Router {
    let mut router = Router::new(RouterOptions {
        policy: Policy::Failover,
        hedge_after: Some(ms(400)),
        ..RouterOptions::default()
    });
    for _ in 0..paths {
        router.add_path(ActiveOptimized);
    }
    router
}

fn read() -> Shape {
    Shape { changes: None, len_bytes: 4096, at: Some(0) }
}

fn actions(router: &mut Router) -> Vec<Action> {
    std::iter::from_fn(|| router.poll_action()).collect()
}

/// Sends one on A.
fn send(router: &mut Router, shape: Shape, now: Duration) -> OpId {
    let op = router.submit(shape, now);
    assert_eq!(actions(router), [Action::Send { op, path: A }]);
    op
}

/// Lets time pass as its caller does.
fn pass(router: &mut Router, until: Duration) {
    while let Some(next) = router.next_deadline().filter(|&next| next <= until) {
        router.tick(next);
    }
    router.tick(until);
}

fn in_flight(router: &Router) -> [u32; 2] {
    [A, B].map(|path| router.status(path).in_flight)
}

/// A read on A that was sent on B as well.
fn hedged() -> (Router, OpId) {
    let mut router = router(2);
    let op = send(&mut router, read(), ms(0));
    pass(&mut router, ms(399));
    assert_eq!(actions(&mut router), [], "it may still be in time");
    pass(&mut router, ms(500));
    assert_eq!(actions(&mut router), [Action::Hedge { op, path: B }]);
    pass(&mut router, ms(2000));
    assert_eq!(actions(&mut router), [], "twice is enough");
    assert_eq!(in_flight(&router), [1, 1]);
    assert_eq!(router.paths().map(|path| path.retries).collect::<Vec<_>>(), [1, 0]);
    (router, op)
}

#[test]
fn the_first_answer_counts_and_the_other_path_stays_busy_until_it_is_over() {
    let (mut router, op) = hedged();
    router.tried_beside(op, Verdict::Done, ms(2001));
    assert_eq!(in_flight(&router), [1, 0]);
    assert!(router.is_quiet(A) && router.is_quiet(B), "the command is over");
    router.straggler_over(A, ms(3000));
    assert_eq!(in_flight(&router), [0, 0]);
    let (mut router, op) = hedged();
    router.tried(op, Verdict::Done, ms(2001));
    assert_eq!(in_flight(&router), [0, 1]);
    router.straggler_over(B, ms(3000));
    assert_eq!((in_flight(&router), router.status(B).commands), ([0, 0], 0));
}

#[test]
fn one_that_fails_leaves_the_other() {
    let (mut router, op) = hedged();
    assert!(!router.is_quiet(B));
    router.tried(op, Verdict::InDoubt { loss: 1 }, ms(2001));
    assert_eq!(actions(&mut router), [], "it is under way on B");
    assert_eq!((router.status(A).state, in_flight(&router)), (PathState::Failed, [0, 1]));
    router.tried(op, Verdict::Done, ms(2002));
    assert_eq!(in_flight(&router), [0, 0]);
    let (mut router, op) = hedged();
    router.tried_beside(op, Verdict::NotSent, ms(2001));
    assert_eq!((router.status(B).state, in_flight(&router)), (PathState::Failed, [1, 0]));
    router.tried(op, Verdict::InDoubt { loss: 1 }, ms(2002));
    assert_eq!(actions(&mut router), [], "there is no path any more");
    router.returned(B, ms(2003));
    assert_eq!(actions(&mut router), [Action::Send { op, path: B }]);
}

#[test]
fn changes_and_flushes_are_never_sent_twice() {
    let mut router = router(2);
    let write = Shape { changes: Some(0..512), len_bytes: 512, at: Some(0) };
    let flush = Shape { changes: None, len_bytes: 0, at: None };
    let ops = [send(&mut router, write, ms(0)), send(&mut router, flush, ms(0))];
    // Something to look at.
    let seen = send(&mut router, read(), ms(0));
    pass(&mut router, ms(5000));
    assert_eq!(actions(&mut router), [Action::Hedge { op: seen, path: B }]);
    for op in ops {
        router.tried(op, Verdict::Done, ms(5001));
    }
}

#[test]
fn others_go_where_they_went_and_a_path_in_trouble_gets_none() {
    let (mut router, _) = hedged();
    send(&mut router, read(), ms(2001));
    let mut router = self::router(2);
    router.lost(B);
    router.returned(B, ms(0));
    send(&mut router, read(), ms(0));
    pass(&mut router, ms(3000));
    assert_eq!(actions(&mut router), [], "B has to show first that it works");
    assert_eq!(in_flight(&router), [1, 0]);
    let mut alone = self::router(1);
    send(&mut alone, read(), ms(0));
    pass(&mut alone, ms(3000));
    assert_eq!(actions(&mut alone), []);
}

#[test]
fn what_is_slow_for_everybody_is_not_sent_twice_at_once() {
    let mut router = router(2);
    // A read takes 300 ms here.
    for n in 0..100 {
        let op = send(&mut router, read(), ms(n * 300));
        router.tried(op, Verdict::Done, ms((n + 1) * 300));
    }
    let now = 40_000;
    let ops: Vec<OpId> = (0..200).map(|_| send(&mut router, read(), ms(now))).collect();
    pass(&mut router, ms(now + 1100));
    assert_eq!(actions(&mut router), [], "four times what it takes is not over");
    pass(&mut router, ms(now + 1400));
    assert_eq!(actions(&mut router).len(), 64, "and there is a limit");
    for op in &ops[..10] {
        router.tried_beside(*op, Verdict::Done, ms(now + 1401));
    }
    pass(&mut router, ms(now + 1600));
    assert_eq!(actions(&mut router).len(), 10);
}

/// Without reads nobody is woken.
#[test]
fn there_is_nothing_to_look_at_without_reads() {
    let mut router = router(2);
    assert_eq!(router.next_deadline(), None);
    let op = send(&mut router, read(), ms(0));
    assert_eq!(router.next_deadline(), Some(ms(100)));
    router.tried(op, Verdict::Done, ms(1));
    pass(&mut router, ms(100));
    assert_eq!(router.next_deadline(), None);
}
