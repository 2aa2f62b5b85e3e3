//! The limits on connections: who changes them, what they leave to a member, and that members keep to them.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::connections::{Bound, ConnectionLimit, ConnectionLimits, GroupLimit};

const ONE: MemberId = MemberId(1);
const TWO: MemberId = MemberId(2);
const THREE: MemberId = MemberId(3);

fn limit(number: u32) -> ConnectionLimit {
    number.try_into().expect("it is one")
}

/// Members 1 to 3, with so many connections; the third is in the pool 'fast'.
fn roll(counts: [u32; 3], (group, pool): (u32, u32)) -> Roll {
    let mut roll = Roll::default();
    for (number, count) in (1..).map(MemberId).zip(counts) {
        let record = MemberRecord {
            name: format!("m{}", number.0),
            address: [10, 0, 0, 1].into(),
            port: 3262,
            certificate_sha256: String::new(),
            array: number.0.to_string(),
            version: "1".to_owned(),
            joined_unix_seconds: 0,
            incarnation: 7,
        };
        roll.members.insert(number, record);
        roll.present.insert(number, 7);
        roll.connections.insert(number, count);
    }
    roll.pools.insert("fast".to_owned(), Pool { members: [THREE].into() });
    let (group, pool) = (Some(limit(group)), Some(limit(pool)));
    roll.limits = ConnectionLimits { group, pool, pools: BTreeMap::new() };
    roll
}

#[test]
fn a_member_may_have_what_the_others_leave() {
    let mut roll = roll([5, 20, 40], (100, 50));
    let allowance = roll.allowance_of(ONE);
    assert_eq!((allowance.pool.others, allowance.group.others), (20, 60));
    assert_eq!(allowance.own_max(), Some(30), "the pool has less room than the group");
    assert_eq!(allowance.bound(), Some((Bound::Pool("default".to_owned()), 50)));
    assert_eq!(roll.allowance_of(THREE).own_max(), Some(50), "it is alone in its pool");

    roll.limits.group = Some(limit(70));
    let allowance = roll.allowance_of(ONE);
    assert_eq!((allowance.own_max(), allowance.bound()), (Some(10), Some((Bound::Group, 70))));
    roll.limits.pools.insert("default".to_owned(), limit(25));
    assert_eq!(roll.allowance_of(ONE).own_max(), Some(5));
    roll.limits.pools.insert("default".to_owned(), limit(10));
    assert_eq!(roll.allowance_of(ONE).own_max(), Some(0), "the others have more than there may be");

    roll.present.remove(&TWO);
    assert_eq!(
        roll.allowance_of(ONE).own_max(),
        Some(10),
        "what somebody told who is away is over"
    );
    roll.connections.remove(&THREE);
    assert_eq!(roll.allowance_of(ONE).group.others, 0, "an earlier version tells nothing");

    roll.limits.pools.clear();
    roll.limits.pool = None;
    assert_eq!(roll.allowance_of(ONE).own_max(), Some(70), "the group has one");
    roll.limits.group = None;
    assert_eq!(roll.allowance_of(ONE).own_max(), None);
}

#[test]
fn the_first_that_is_present_tells() {
    let mut roll = roll([0; 3], (10, 10));
    let fast = Bound::Pool("fast".to_owned());
    let default = Bound::Pool(DEFAULT_POOL.to_owned());
    let telling = |roll: &Roll, bound: &Bound| {
        [ONE, TWO, THREE].into_iter().filter(|id| roll.tells_of(*id, bound)).collect::<Vec<_>>()
    };
    assert_eq!(telling(&roll, &Bound::Group), [ONE]);
    assert_eq!(telling(&roll, &default), [ONE]);
    assert!(roll.tells_of(THREE, &fast));
    roll.present.remove(&ONE);
    assert_eq!(telling(&roll, &Bound::Group), [ONE, TWO], "one that hears nothing tells as well");
    roll.present.insert(ONE, 7);
    roll.connections.remove(&ONE);
    assert!(roll.tells_of(TWO, &Bound::Group), "an earlier version tells nothing");
    assert!(!roll.tells_of(THREE, &Bound::Group));
}

#[test]
fn limits_are_changed_for_all_and_for_a_pool() {
    let store = store();
    let membership = Membership::new(store.clone());
    let none = said(wait(membership.set_connections(GroupLimit::Small)));
    assert!(none.contains("no group"), "{none}");
    let membership = group(&store);
    let now = || {
        let limits = read(&membership).limits;
        let number = |limit: Option<ConnectionLimit>| limit.map_or(0, ConnectionLimit::get);
        (number(limits.group), number(limits.pool), limits.pools.len())
    };
    assert_eq!(now(), (4096, 1024, 0), "a new group has those");
    wait(membership.set_connections(GroupLimit::Small)).expect("there is a group");
    assert_eq!(now(), (512, 256, 0));
    wait(membership.set_connections(GroupLimit::Number(limit(70_000)))).expect("there is a group");
    assert_eq!(now(), (70_000, 256, 0), "pools keep theirs");
    for pool in ["fast", "spare"] {
        wait(membership.create_pool(pool)).expect("a new name");
        wait(membership.set_pool_connections(pool, Some(limit(9)))).expect("it is there");
    }
    wait(membership.set_pool_connections(DEFAULT_POOL, Some(limit(8)))).expect("it always is");
    let unknown = said(wait(membership.set_pool_connections("none", Some(limit(9)))));
    assert!(unknown.contains("'none'"), "{unknown}");
    let roll = read(&membership);
    assert_eq!(roll.limit_of_pool("fast"), Some((Some(limit(9)), true)));
    assert_eq!(roll.limit_of_pool(DEFAULT_POOL), Some((Some(limit(8)), true)));
    assert_eq!(roll.limit_of_pool("none"), None);

    // What goes takes its limit along: the next one of its name has none.
    wait(membership.delete_pool("spare")).expect("it is empty");
    wait(membership.merge_pool("fast", DEFAULT_POOL)).expect("both are there");
    wait(membership.create_pool("fast")).expect("a new name");
    assert_eq!(read(&membership).limit_of_pool("fast"), Some((Some(limit(256)), false)));
    wait(membership.set_pool_connections(DEFAULT_POOL, None)).expect("it is there");
    wait(membership.set_connections(GroupLimit::Usual)).expect("there is a group");
    assert_eq!(now(), (4096, 1024, 0));
    let lies = || wait(store.range(Selection::key("group/limits"))).expect("it answers").kvs;
    assert_eq!(
        lies().len(),
        1,
        "they are those of the group, whatever a later version has for usual ones"
    );
    wait(membership.set_connections(GroupLimit::None)).expect("there is a group");
    assert_eq!((now(), lies().len()), ((0, 0, 0), 0), "no limit is as if there was never one");
    wait(membership.set_connections(GroupLimit::Small)).expect("there is a group");
    wait(membership.delete_pool("fast")).expect("it is empty");
    wait(membership.delete()).expect("one member is left");
    assert_eq!(read(&membership).limits, ConnectionLimits::default());
}

#[test]
fn what_a_member_tells_goes_with_its_lease_and_with_its_membership() {
    let store = store();
    let membership = group(&store);
    join(&membership, applicant(2)).expect("there is room");
    let lease = wait(store.grant(Duration::from_secs(10))).expect("it answers");
    wait(membership.tell_connections(ONE, 5, lease)).expect("it is a member");
    wait(membership.tell_connections(TWO, 7, lease)).expect("it is a member");
    assert_eq!(read(&membership).connections, [(ONE, 5), (TWO, 7)].into());
    wait(membership.remove("server-2")).expect("it is a member");
    assert_eq!(read(&membership).connections, [(ONE, 5)].into());
    let removed = wait(membership.tell_connections(TWO, 8, lease));
    assert!(matches!(removed, Err(MembershipError::Removed)), "{removed:?}");
    // What a later version tells is passed by, and not taken for what was told before.
    let rubbish = Op::put("group/connections/00001", b"rubbish".to_vec());
    wait(store.commit(Transaction::when(Vec::new(), vec![rubbish]))).expect("it answers");
    assert_eq!(read(&membership).connections, BTreeMap::new());
    wait(membership.tell_connections(ONE, 6, lease)).expect("it is a member");
    wait(store.revoke(lease)).expect("it answers");
    assert_eq!(read(&membership).connections, BTreeMap::new());
    let late = wait(membership.tell_connections(ONE, 9, lease));
    assert!(late.is_err(), "a former life does not speak for the member");
}

#[test]
fn hosts_of_a_volume_that_goes_to_another_pool_find_what_is_left_there() {
    let mut roll = roll([5, 20, 40], (100, 50));
    assert_eq!(roll.room_for_hosts(ONE, TWO), None, "it is the same pool");
    assert_eq!(roll.room_for_hosts(ONE, THREE), Some(("fast", 50, 10)));
    assert_eq!(
        roll.room_for_hosts(THREE, TWO),
        Some((DEFAULT_POOL, 50, 25)),
        "of all members there"
    );
    roll.limits.pools.insert("fast".to_owned(), limit(30));
    assert_eq!(roll.room_for_hosts(ONE, THREE), Some(("fast", 30, 0)));
    roll.limits = ConnectionLimits::default();
    assert_eq!(roll.room_for_hosts(ONE, THREE), None, "there is no limit");
}

/// An upgrade shuts out no host that the version before let in: nobody has said how many there may be.
#[test]
fn a_group_that_was_founded_before_there_were_limits_has_none() {
    let store = store();
    let membership = group(&store);
    let lies = || wait(store.range(Selection::key("group/limits"))).expect("it answers").kvs;
    assert_eq!(lies().len(), 1, "a new group has limits");
    let before = Op::Delete(Selection::key("group/limits"));
    wait(store.commit(Transaction::when(Vec::new(), vec![before]))).expect("it answers");
    let mut roll = read(&membership);
    roll.connections.insert(ONE, 3000);
    assert_eq!(roll.allowance_of(ONE).own_max(), None);
    assert_eq!(roll.limit_of_pool(DEFAULT_POOL), Some((None, false)));
    // Another change of the group gives it none, nor does a member that joins.
    join(&membership, applicant(2)).expect("there is room");
    wait(membership.create_pool("fast")).expect("a new name");
    assert_eq!(read(&membership).allowance_of(TWO).own_max(), None);
    wait(membership.set_pool_connections("fast", Some(limit(9)))).expect("it is there");
    let roll = read(&membership);
    assert_eq!((roll.limits.group, roll.limits.of_pool("fast")), (None, Some(limit(9))));
    assert_eq!(roll.allowance_of(ONE).own_max(), None, "another pool has one");
}

proptest! {
    /// Members that let in what they may, each told of the others by turns, are never more than the limit apart from
    /// what was let in since they told: with everybody told after each login, never.
    #[test]
    fn members_that_hear_of_each_other_keep_to_the_limits(
        logins in vec((1u16..4, any::<bool>()), 1..200),
        (group, pool) in (1u32..30, 1u32..20),
    ) {
        let mut roll = roll([0; 3], (group, pool));
        for (member, is_login) in logins {
            let me = MemberId(member);
            let own = roll.connections[&me];
            let may = roll.allowance_of(me).own_max().is_some_and(|most| own < most);
            match is_login {
                true if may => _ = roll.connections.insert(me, own + 1),
                false => _ = roll.connections.insert(me, own.saturating_sub(1)),
                true => {}
            }
            let of = |ids: &[MemberId]| ids.iter().map(|id| roll.connections[id]).sum::<u32>();
            prop_assert!(of(&[ONE, TWO, THREE]) <= group);
            prop_assert!(of(&[ONE, TWO]) <= pool && of(&[THREE]) <= pool);
            let is_full = of(&[ONE, TWO, THREE]) == group;
            prop_assert!(!is_full || roll.allowance_of(me).own_max() <= Some(roll.connections[&me]));
        }
    }
}
