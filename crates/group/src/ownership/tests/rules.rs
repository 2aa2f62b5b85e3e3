//! Single rules of a member's standing, each as a short story.

use std::collections::BTreeSet;

use super::super::{Barrier, MemberId, Moment, PageMove, Refusal, Stage, Standing, Timing};

fn members(count: u16) -> BTreeSet<MemberId> {
    (0..count).map(MemberId).collect()
}

/// Member 0 of so many, entered in revision 7.
fn entered(count: u16) -> Standing {
    let timing = Timing::with_lease_ms(1_000);
    let mut standing = Standing::started(MemberId(0), members(count), 7, timing);
    standing.entered(7);
    standing
}

#[test]
fn who_has_not_been_entered_serves_nothing_whatever_the_store_says() {
    let timing = Timing::with_lease_ms(1_000);
    let mut standing = Standing::started(MemberId(0), members(1), 7, timing);
    standing.store_said(Moment(5), 7);
    assert!(!standing.may_act(Moment(6)), "a change of its former life may be done yet");
    assert_eq!(standing.begin_change(false), Err(Refusal::Outside));
    assert_eq!(standing.vouch(7), Err(Refusal::Outside));
    standing.hear(8, members(1));
    standing.entered(8);
    assert!(standing.may_act(Moment(6)));
}

#[test]
fn a_proof_counts_from_when_it_was_asked_for_and_ends() {
    let mut standing = entered(3);
    assert!(!standing.may_act(Moment(0)), "nobody has said anything");
    standing.store_said(Moment(100), 7);
    assert!(standing.may_act(Moment(1_099)) && !standing.may_act(Moment(1_100)));
    standing.store_said(Moment(50), 7);
    assert_eq!(standing.proven_until(), Some(Moment(1_100)), "an older one takes nothing away");
}

#[test]
fn what_is_newer_proves_once_it_is_applied() {
    let mut standing = entered(3);
    standing.store_said(Moment(100), 8);
    assert_eq!(standing.proven_until(), None);
    standing.hear(8, members(3));
    assert_eq!(standing.proven_until(), None, "heard, and requests of before are under way");
    standing.apply(8);
    assert_eq!(standing.proven_until(), Some(Moment(1_100)));
}

#[test]
fn without_the_store_all_others_have_to_vouch() {
    let mut standing = entered(3);
    assert_eq!(standing.ask_others(Moment(40)), Ok(7));
    standing.vouched_by(MemberId(1), Moment(40));
    standing.vouched_by(MemberId(1), Moment(40));
    standing.vouched_by(MemberId(2), Moment(39));
    assert_eq!(standing.proven_until(), None, "one is missing, and one spoke of another round");
    standing.vouched_by(MemberId(2), Moment(40));
    assert_eq!(standing.proven_until(), Some(Moment(1_040)));
    // One alone vouches for itself.
    let mut alone = entered(1);
    alone.ask_others(Moment(3)).unwrap();
    assert!(alone.may_act(Moment(1_002)));
}

#[test]
fn who_joins_meanwhile_has_to_vouch_too() {
    let mut standing = entered(2);
    standing.ask_others(Moment(40)).unwrap();
    standing.hear(8, members(3));
    standing.vouched_by(MemberId(1), Moment(40));
    assert_eq!(standing.proven_until(), None);
}

#[test]
fn who_knows_of_a_change_does_not_vouch_for_what_was_before() {
    let mut standing = entered(3);
    standing.begin_change(false).unwrap();
    assert_eq!(standing.begin_change(false), Err(Refusal::Changing));
    assert_eq!(standing.vouch(7), Ok(()), "whether it is done is not known to anybody");
    standing.change_ended(Some(8));
    assert_eq!(standing.vouch(7), Err(Refusal::Newer { known: 8 }), "committed, and not heard yet");
    standing.begin_change(false).unwrap();
    standing.change_lost();
    assert_eq!(standing.begin_change(false), Err(Refusal::Changing), "it may be done yet");
    assert!(standing.must_enter());
    standing.hear(9, members(3));
    standing.entered(9);
    assert_eq!(standing.begin_change(false), Ok(()));
}

#[test]
fn nobody_vouches_beside_a_change_that_adds_a_member() {
    let mut standing = entered(2);
    standing.begin_change(true).unwrap();
    assert_eq!(standing.vouch(7), Err(Refusal::Changing), "the new one would have to be asked");
    assert_eq!(standing.ask_others(Moment(3)), Err(Refusal::Changing));
    standing.change_lost();
    assert_eq!(standing.vouch(7), Err(Refusal::Changing));
    standing.hear(8, members(3));
    standing.hear(9, members(3));
    standing.entered(9);
    standing.apply(9);
    assert_eq!(standing.vouch(9), Ok(()));
}

#[test]
fn a_member_that_is_behind_all_the_time_gets_proofs() {
    let mut standing = entered(3);
    standing.store_said(Moment(100), 8);
    standing.store_said(Moment(200), 9);
    standing.store_said(Moment(300), 10);
    standing.hear(8, members(3));
    standing.apply(8);
    assert_eq!(standing.proven_until(), Some(Moment(1_100)));
    standing.hear(10, members(3));
    standing.apply(10);
    assert_eq!(standing.proven_until(), Some(Moment(1_300)));
}

#[test]
fn a_barrier_ends_with_the_last_member_or_with_time() {
    let timing = Timing::with_lease_ms(1_600);
    let mut barrier = Barrier::new(9, members(2), Moment(50), timing);
    barrier.applied_by(MemberId(1), 8);
    barrier.applied_by(MemberId(0), 9);
    assert_eq!(barrier.waits_for(), &BTreeSet::from([MemberId(1)]));
    // A sixteenth more than the lease, for clocks that differ.
    assert_eq!(barrier.until(), Moment(50 + 1_600 + 100 + 1));
    assert!(!barrier.is_over(Moment(1_750)) && barrier.is_over(Moment(1_751)));
    barrier.applied_by(MemberId(1), 10);
    assert!(barrier.is_over(Moment(50)));
}

#[test]
fn a_page_that_may_have_another_owner_is_not_taken_back() {
    let mut way = PageMove::to(MemberId(1));
    assert!(way.lets_in(), "hosts use it while it is copied");
    way.copied();
    way.drained();
    way.durable(4);
    assert_eq!(way.sent(), 4);
    assert!(!way.lets_in());
    let mut other = way.clone();
    assert!(std::panic::catch_unwind(move || other.give_up()).is_err());
    way.settled(MemberId(0));
    assert_eq!(way.stage(), Stage::Kept);
    assert!(way.lets_in());
}
