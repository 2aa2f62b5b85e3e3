//! What is decided about sets of snapshots: once, and as long as somebody has to settle it.

use std::collections::BTreeSet;

use super::*;
use crate::membership::{SetId, SetRecord, Verdict};
use crate::store::Transaction;

const ONE: MemberId = MemberId(1);
const TWO: MemberId = MemberId(2);
const THREE: MemberId = MemberId(3);

fn id(digit: &str) -> SetId {
    digit.repeat(32).parse().expect("it is one")
}

fn record(verdict: Verdict, unsettled: &[MemberId]) -> SetRecord {
    SetRecord { verdict, coordinator: ONE, unsettled: unsettled.iter().copied().collect() }
}

/// Three members.
fn three() -> (Arc<dyn Store>, Membership) {
    let store = store();
    let membership = group(&store);
    for number in [2, 3] {
        join(&membership, applicant(number)).expect("there is room");
    }
    (store, membership)
}

fn decide(membership: &Membership, me: MemberId, verdict: Verdict) -> Verdict {
    let all = record(verdict, &[ONE, TWO, THREE]);
    wait(membership.decide_set(me, &id("a"), &all)).expect("the store answers")
}

fn unsettled(membership: &Membership) -> Option<BTreeSet<MemberId>> {
    let found = wait(membership.set_record(&id("a"))).expect("it reads");
    found.map(|record| record.unsettled)
}

#[test]
fn the_first_decision_counts_until_all_have_settled_it() {
    let (_, membership) = three();
    assert_eq!(unsettled(&membership), None);
    assert_eq!(decide(&membership, TWO, Verdict::Void), Verdict::Void);
    // The coordinator comes too late, and hears so.
    assert_eq!(decide(&membership, ONE, Verdict::Whole), Verdict::Void);
    for member in [TWO, THREE, THREE] {
        wait(membership.leave_set(member, &id("a"))).unwrap();
        assert_eq!(decide(&membership, ONE, Verdict::Whole), Verdict::Void);
    }
    assert_eq!(unsettled(&membership), Some(BTreeSet::from([ONE])));
    wait(membership.leave_set(ONE, &id("a"))).unwrap();
    assert_eq!(unsettled(&membership), None);
    // Whoever has not heard that asks again.
    wait(membership.leave_set(ONE, &id("a"))).unwrap();
}

#[test]
fn who_is_no_member_decides_nothing_and_is_not_waited_for() {
    let (store, membership) = three();
    wait(membership.remove("server-3")).unwrap();
    let void = record(Verdict::Void, &[ONE, THREE]);
    let refused = wait(membership.decide_set(THREE, &id("a"), &void));
    assert!(matches!(refused, Err(MembershipError::Removed)), "{refused:?}");
    assert_eq!(unsettled(&membership), None);
    assert_eq!(decide(&membership, TWO, Verdict::Whole), Verdict::Whole);
    wait(membership.leave_set(ONE, &id("a"))).unwrap();
    assert_eq!(unsettled(&membership), Some(BTreeSet::from([TWO])));
    wait(membership.leave_set(TWO, &id("a"))).unwrap();
    assert_eq!(unsettled(&membership), None);
    // It is no part of what a group is.
    assert_eq!(decide(&membership, TWO, Verdict::Whole), Verdict::Whole);
    read(&membership);
    wait(membership.remove("server-2")).unwrap();
    wait(membership.delete()).unwrap();
    let left = wait(store.range(Selection::prefix("group/sets/"))).unwrap();
    assert_eq!(left.kvs, [], "the next group begins without it");
}

#[test]
fn who_knows_nothing_of_a_set_is_done_with_it_behind_its_coordinator() {
    let (store, membership) = three();
    decide(&membership, TWO, Verdict::Whole);
    let later = br#"{"version":2,"value":{}}"#;
    let key = format!("group/sets/{}", "b".repeat(32));
    wait(store.commit(Transaction::always(vec![Op::put(key, later)]))).unwrap();
    let left = |me| wait(membership.sets_left(me)).expect("the store answers");
    assert_eq!(left(ONE), [id("a")], "it has driven it");
    assert_eq!(left(TWO), [], "what the coordinator has sent may come yet");
    wait(membership.leave_set(ONE, &id("a"))).unwrap();
    assert_eq!(left(ONE), []);
    assert_eq!(left(TWO), [id("a")]);
    wait(membership.leave_set(TWO, &id("a"))).unwrap();
    wait(membership.remove("server-3")).unwrap();
    // Nobody is left who would take it away.
    assert_eq!(left(ONE), [id("a")]);
    wait(membership.leave_set(ONE, &id("a"))).unwrap();
    assert_eq!(unsettled(&membership), None);
}
