//! The rules of the router, one at a time.

use std::time::Duration;

use scsi::alua::AccessState::{ActiveOptimized, Standby};

use super::super::{
    Action, Failure, OpId, PageMap, PathId, PathState, Policy, Router, RouterOptions, Shape,
    Verdict,
};
use super::ms;

const A: PathId = PathId(0);
const B: PathId = PathId(1);

fn router(paths: usize) -> Router {
    let mut router = Router::new(RouterOptions {
        policy: Policy::Failover,
        limit: Duration::from_secs(30),
        probation: Duration::from_secs(4),
        reinstate_wait: Duration::from_secs(5),
        retries_max: 3,
        hedge_after: None,
    });
    for _ in 0..paths {
        router.add_path(ActiveOptimized);
    }
    router
}

fn read() -> Shape {
    Shape { changes: None, len_bytes: 4096, at: None }
}

fn write(at: u64, len: u32) -> Shape {
    Shape { changes: Some(at..at + u64::from(len)), len_bytes: len, at: Some(at) }
}

fn actions(router: &mut Router) -> Vec<Action> {
    std::iter::from_fn(|| router.poll_action()).collect()
}

/// The one thing to do is to send this op on this path.
#[track_caller]
fn sends(router: &mut Router, op: OpId, path: PathId) {
    assert_eq!(actions(router), [Action::Send { op, path }]);
}

#[test]
fn a_read_goes_to_another_path_at_once() {
    let mut router = router(2);
    let op = router.submit(read(), ms(0));
    sends(&mut router, op, A);
    router.tried(op, Verdict::InDoubt { loss: 1 }, ms(10));
    sends(&mut router, op, B);
    router.tried(op, Verdict::Done, ms(20));
    assert_eq!(actions(&mut router), []);
    let states: Vec<PathState> = router.paths().map(|path| path.state).collect();
    assert_eq!(states, [PathState::Failed, PathState::Active]);
    assert_eq!(router.next_deadline(), None);
}

#[test]
fn what_is_sent_again_counts_on_the_path_that_had_it() {
    let mut router = router(2);
    let retries = |router: &Router| router.paths().map(|path| path.retries).collect::<Vec<_>>();
    let op = router.submit(read(), ms(0));
    sends(&mut router, op, A);
    router.tried(op, Verdict::NotSent, ms(1));
    sends(&mut router, op, B);
    assert_eq!(retries(&router), [0, 0], "it was never sent on the first");
    for at in 2..5 {
        router.tried(op, Verdict::Again, ms(at));
        sends(&mut router, op, B);
    }
    router.tried(op, Verdict::Again, ms(5));
    assert!(matches!(actions(&mut router)[..], [Action::Fail { .. }]));
    assert_eq!(retries(&router), [0, 3], "the last one failed");
    let op = router.submit(write(0, 512), ms(6));
    sends(&mut router, op, B);
    router.tried(op, Verdict::InDoubt { loss: 1 }, ms(7));
    assert_eq!(retries(&router), [0, 4], "it waits for its fence");
    router.tick(ms(40_000));
    assert_eq!(retries(&router), [0, 4]);
}

/// It is left at once, and gone only when nothing of it can come any more.
#[test]
fn a_retired_path_keeps_its_doubts_until_it_is_released() {
    let mut router = router(2);
    let op = router.submit(write(0, 4096), ms(0));
    sends(&mut router, op, A);
    router.retire(A);
    let other = router.submit(read(), ms(1));
    sends(&mut router, other, B);
    assert!(!router.is_quiet(A));
    router.tried(op, Verdict::InDoubt { loss: 1 }, ms(10));
    assert_eq!(actions(&mut router), []);
    assert!(!router.is_quiet(A), "its write is in doubt");
    router.fenced(A, 1, ms(20));
    sends(&mut router, op, B);
    assert!(router.is_quiet(A) && !router.is_quiet(B));
    router.release(A);
    let reused = router.add_path(ActiveOptimized);
    assert_eq!(reused.slot(), A.slot(), "the slot is used again");
    assert_ne!(reused, A, "the id is not");
    assert_eq!(router.add_path(ActiveOptimized), PathId(2));
    // The losses of the new path are counted from the beginning.
    let op = router.submit(write(8192, 4096), ms(30));
    sends(&mut router, op, B);
    router.lost(B);
    let op = router.submit(write(16384, 4096), ms(30));
    sends(&mut router, op, reused);
    // A fence of the earlier path comes late: it says nothing of this one.
    router.fenced(A, 3, ms(35));
    router.lost(A);
    router.suspend(A);
    assert_eq!(router.status(reused).state, PathState::Active);
    router.tried(op, Verdict::InDoubt { loss: 1 }, ms(40));
    assert_eq!(actions(&mut router), [], "its first copy may yet be done");
    assert_eq!(router.doubts(), [(reused, 1)]);
}

/// The session is back, in another portal group, and cannot fence its loss: another path is asked at
/// once, once, and where there is no other, this one.
#[test]
fn a_session_that_moved_has_its_loss_fenced_by_a_reset() {
    let mut router = router(2);
    let op = router.submit(write(0, 4096), ms(0));
    sends(&mut router, op, A);
    router.tried(op, Verdict::InDoubt { loss: 1 }, ms(10));
    router.returned(A, ms(20));
    assert!(router.is_in_doubt(A));
    router.needs_reset(A, ms(20));
    assert_eq!(actions(&mut router), [Action::Fence { via: B }]);
    router.needs_reset(A, ms(30));
    assert_eq!(actions(&mut router), [], "one at a time");
    router.fence_ended(ms(40));
    router.lost(B);
    router.needs_reset(A, ms(50));
    assert_eq!(actions(&mut router), [Action::Fence { via: A }]);
    router.fenced(A, 1, ms(60));
    router.fence_ended(ms(60));
    sends(&mut router, op, A);
    assert!(!router.is_in_doubt(A));
}

#[test]
fn blocks_that_are_elsewhere_are_looked_for_there() {
    let mut router = router(2);
    let op = router.submit(read(), ms(0));
    sends(&mut router, op, A);
    router.tried(op, Verdict::Elsewhere, ms(10));
    sends(&mut router, op, B);
    router.lost(A);
    router.tried(op, Verdict::Elsewhere, ms(20));
    sends(&mut router, op, B);
}

/// The policy is not `routed`: of the map only what was told at the refusal counts, and only then.
#[test]
fn a_refusal_that_tells_where_the_blocks_are_is_followed() {
    let mut router = router(3);
    for (path, group) in [(A, 1), (B, 2), (PathId(2), 3)] {
        router.set_group(path, Some(group));
    }
    let op = router.submit(write(4096, 512), ms(0));
    sends(&mut router, op, A);
    router.set_map(PageMap::new(1 << 20));
    router.learn(vec![(0..8192, vec![3])]);
    router.tried(op, Verdict::Elsewhere, ms(10));
    sends(&mut router, op, PathId(2));
}

#[test]
fn a_write_in_doubt_waits_until_its_first_copy_is_dead() {
    let mut router = router(2);
    let op = router.submit(write(0, 4096), ms(0));
    sends(&mut router, op, A);
    router.tried(op, Verdict::InDoubt { loss: 1 }, ms(10));
    assert_eq!(actions(&mut router), []);
    router.fenced(A, 0, ms(20));
    assert_eq!(actions(&mut router), [], "that was an earlier loss");
    router.fenced(A, 1, ms(30));
    sends(&mut router, op, B);
}

#[test]
fn a_write_that_was_not_sent_or_is_known_to_be_over_needs_no_fence() {
    for verdict in [Verdict::NotSent, Verdict::Aborted, Verdict::Again] {
        let mut router = router(2);
        let op = router.submit(write(0, 4096), ms(0));
        sends(&mut router, op, A);
        router.tried(op, verdict, ms(10));
        let sent = actions(&mut router);
        assert!(matches!(sent[..], [Action::Send { op: again, .. }] if again == op), "{verdict:?}");
    }
}

#[test]
fn a_later_write_to_the_same_blocks_waits_for_the_repeated_one() {
    let mut router = router(2);
    let first = router.submit(write(0, 8192), ms(0));
    sends(&mut router, first, A);
    router.tried(first, Verdict::InDoubt { loss: 1 }, ms(10));
    let second = router.submit(write(4096, 4096), ms(20));
    let elsewhere = router.submit(write(8192, 4096), ms(20));
    sends(&mut router, elsewhere, B);
    router.fenced(A, 1, ms(30));
    sends(&mut router, first, B);
    router.tried(first, Verdict::Done, ms(40));
    sends(&mut router, second, B);
}

#[test]
fn a_path_that_stays_away_is_fenced_through_another() {
    let mut router = router(2);
    let op = router.submit(write(0, 4096), ms(0));
    sends(&mut router, op, A);
    router.tried(op, Verdict::InDoubt { loss: 1 }, ms(0));
    assert_eq!(router.next_deadline(), Some(ms(5000)));
    router.tick(ms(4999));
    assert_eq!(actions(&mut router), []);
    router.tick(ms(5000));
    let fence = Action::Fence { via: B };
    assert_eq!(actions(&mut router), [fence]);
    assert_eq!(router.doubts(), [(A, 1)]);
    router.tick(ms(10_000));
    assert_eq!(actions(&mut router), [], "one at a time");
    router.fence_ended(ms(10_500));
    router.tick(ms(15_000));
    assert_eq!(actions(&mut router), [], "the target may still be at it");
    router.tick(ms(15_500));
    assert_eq!(actions(&mut router), [fence], "asked for again until it is done");
    router.fenced(A, 1, ms(16_000));
    sends(&mut router, op, B);
    assert_eq!(router.paths().map(|path| path.in_flight).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_failed_write_in_doubt_keeps_its_blocks_closed() {
    let mut router = router(1);
    let ghost = router.submit(write(0, 4096), ms(0));
    sends(&mut router, ghost, A);
    router.tried(ghost, Verdict::InDoubt { loss: 1 }, ms(0));
    router.tick(ms(30_000));
    let failure = Failure::Unreachable;
    assert_eq!(actions(&mut router), [Action::Fail { op: ghost, failure }]);
    router.returned(A, ms(31_000));
    let later = router.submit(write(0, 4096), ms(32_000));
    assert_eq!(actions(&mut router), [], "the ghost could overwrite it");
    router.fenced(A, 1, ms(33_000));
    sends(&mut router, later, A);
}

#[test]
fn without_a_path_commands_wait_and_then_fail() {
    let mut router = router(1);
    router.lost(A);
    let one = router.submit(read(), ms(0));
    let two = router.submit(write(0, 512), ms(10_000));
    assert_eq!(actions(&mut router), []);
    assert_eq!(router.next_deadline(), Some(ms(30_000)));
    router.tick(ms(30_000));
    let failure = Failure::Unreachable;
    assert_eq!(actions(&mut router), [Action::Fail { op: one, failure }]);
    router.returned(A, ms(35_000));
    sends(&mut router, two, A);
    router.tried(two, Verdict::Done, ms(35_001));
    router.tick(ms(90_000));
    assert_eq!(actions(&mut router), []);
}

#[test]
fn commands_that_waited_go_in_the_order_in_which_they_came() {
    let mut router = router(1);
    router.lost(A);
    let ops: Vec<OpId> = (0..5).map(|n| router.submit(write(n * 512, 512), ms(n))).collect();
    router.returned(A, ms(100));
    let sent: Vec<Action> = ops.iter().map(|&op| Action::Send { op, path: A }).collect();
    assert_eq!(actions(&mut router), sent);
}

#[test]
fn busy_is_tried_later_and_attention_only_so_often() {
    let mut router = router(1);
    let op = router.submit(read(), ms(0));
    sends(&mut router, op, A);
    router.tried(op, Verdict::Later { pause: ms(50) }, ms(0));
    assert_eq!(router.next_deadline(), Some(ms(50)));
    router.tick(ms(50));
    sends(&mut router, op, A);
    for _ in 0..3 {
        router.tried(op, Verdict::Again, ms(60));
        sends(&mut router, op, A);
    }
    router.tried(op, Verdict::Again, ms(60));
    let failure = Failure::TooManyRetries;
    assert_eq!(actions(&mut router), [Action::Fail { op, failure }]);
}

/// Every session has its own attentions: seventeen paths can tell seventeen of the same event.
#[test]
fn attentions_do_not_count_and_end_with_the_limit() {
    let mut router = router(1);
    let op = router.submit(read(), ms(0));
    sends(&mut router, op, A);
    for n in 0..1000 {
        router.tried(op, Verdict::Repeat, ms(n));
        router.tick(ms(n + 50));
        sends(&mut router, op, A);
    }
    router.tried(op, Verdict::Repeat, ms(30_000));
    let failure = Failure::Unreachable;
    assert_eq!(actions(&mut router), [Action::Fail { op, failure }]);
}

/// The limit bounds a command that is sent, and aborted, again and again.
#[test]
fn a_command_that_hangs_everywhere_fails_at_the_limit() {
    let mut router = router(2);
    let op = router.submit(read(), ms(0));
    sends(&mut router, op, A);
    assert_eq!(router.time_left(op, ms(0)), ms(30_000));
    router.tried(op, Verdict::Aborted, ms(20_000));
    sends(&mut router, op, B);
    assert_eq!(router.time_left(op, ms(20_000)), ms(10_000));
    router.tried(op, Verdict::Aborted, ms(30_000));
    let failure = Failure::Unreachable;
    assert_eq!(actions(&mut router), [Action::Fail { op, failure }]);
}

#[test]
fn a_unit_that_is_not_ready_is_tried_elsewhere_first() {
    let mut router = router(2);
    let op = router.submit(read(), ms(0));
    sends(&mut router, op, A);
    let not_ready = Verdict::NotReady { pause: ms(250) };
    router.tried(op, not_ready, ms(0));
    sends(&mut router, op, B);
    router.tried(op, not_ready, ms(1));
    assert_eq!(actions(&mut router), [], "nowhere: later");
    assert_eq!(router.next_deadline(), Some(ms(251)));
    router.tick(ms(251));
    assert!(matches!(actions(&mut router)[..], [Action::Send { .. }]));
}

#[test]
fn a_suspended_path_takes_nothing_before_it_was_looked_at() {
    let mut router = router(1);
    router.suspend(A);
    let op = router.submit(read(), ms(0));
    assert_eq!(actions(&mut router), []);
    router.returned(A, ms(10));
    sends(&mut router, op, A);
    assert_eq!(router.paths().next().expect("it is there").state, PathState::Active);
}

#[test]
fn a_silent_path_is_used_where_no_other_is_left() {
    let mut router = router(2);
    let op = router.submit(read(), ms(0));
    sends(&mut router, op, A);
    assert!(router.set_silent(A, true), "there is another");
    router.tried(op, Verdict::Abandoned, ms(10));
    sends(&mut router, op, B);
    assert!(!router.set_silent(B, true), "there is none");
    let other = router.submit(read(), ms(20));
    assert!(matches!(actions(&mut router)[..], [Action::Send { op, .. }] if op == other));
    router.set_silent(A, false);
    let third = router.submit(read(), ms(30));
    sends(&mut router, third, A);
}

/// Losses that come while a reset is under way are for the next one.
#[test]
fn one_reset_covers_all_losses_that_are_known() {
    let mut router = router(3);
    for n in 0..2 {
        let op = router.submit(write(n * 4096, 4096), ms(0));
        let path = PathId(n as usize);
        sends(&mut router, op, path);
        router.tried(op, Verdict::InDoubt { loss: 1 }, ms(0));
    }
    router.tick(ms(5000));
    assert_eq!(actions(&mut router), [Action::Fence { via: PathId(2) }]);
    assert_eq!(router.doubts(), [(A, 1), (B, 1)]);
    assert_eq!(router.next_deadline(), Some(ms(30_000)), "the commands' own limit");
}

#[test]
fn a_standby_path_is_not_asked_again_until_it_changes() {
    let mut router = router(2);
    let op = router.submit(read(), ms(0));
    sends(&mut router, op, A);
    router.tried(op, Verdict::Inaccessible { access: Standby }, ms(0));
    sends(&mut router, op, B);
    router.tried(op, Verdict::Inaccessible { access: Standby }, ms(0));
    assert_eq!(actions(&mut router), []);
    router.set_access(A, ActiveOptimized, ms(1000));
    sends(&mut router, op, A);
}

/// Nobody has looked yet at what is behind it.
#[test]
fn a_path_that_is_not_to_be_used_is_not_when_a_command_is_aborted_there() {
    for leave in [Router::suspend, Router::lost] {
        let mut router = router(1);
        let op = router.submit(read(), ms(0));
        sends(&mut router, op, A);
        leave(&mut router, A);
        let state = router.status(A).state;
        router.tried(op, Verdict::Aborted, ms(10));
        assert_eq!(actions(&mut router), []);
        assert_eq!(router.status(A).state, state);
        router.returned(A, ms(20));
        sends(&mut router, op, A);
    }
}
