//! Pools: each member is in one, whatever happens to it or to them.

use futures_util::StreamExt;

use super::meddled::{Act, Meddled};
use super::*;

/// A group of the members 1 to 3 with the pools `fast` and `slow`.
fn pooled() -> (Arc<dyn Store>, Membership) {
    let store = store();
    let membership = group(&store);
    for number in [2, 3] {
        join(&membership, applicant(number)).expect("there is room");
    }
    for pool in ["fast", "slow"] {
        wait(membership.create_pool(pool)).expect("there is none");
    }
    (store, membership)
}

/// Who is in which pool.
fn pools(roll: &Roll) -> Vec<(&str, Vec<u16>)> {
    let members = |name: &str| {
        let members = roll.members_of_pool(name).expect("it is there");
        members.into_iter().map(|number| number.0).collect::<Vec<_>>()
    };
    roll.pool_names().into_iter().map(|name| (name, members(name))).collect()
}

/// A change is refused in this way, and changes nothing.
fn refused(membership: &Membership, result: Result<(), MembershipError>, before: &Roll) -> String {
    assert_eq!(read(membership), *before);
    said(result)
}

#[test]
fn a_member_goes_from_pool_to_pool() {
    let (_, membership) = pooled();
    let moved = |name: &str, pool: &str| wait(membership.move_member(name, pool)).unwrap();
    let all = || -> Vec<(String, Vec<u16>)> {
        let roll = read(&membership);
        pools(&roll).into_iter().map(|(name, members)| (name.to_owned(), members)).collect()
    };
    let are = |default: &[u16], fast: &[u16], slow: &[u16]| -> Vec<(String, Vec<u16>)> {
        let all = [("default", default), ("fast", fast), ("slow", slow)];
        all.map(|(name, members)| (name.to_owned(), members.to_vec())).into()
    };
    assert_eq!(all(), are(&[1, 2, 3], &[], &[]), "who is in none is in the default one");
    for name in ["server-2", "server-3", "server-2"] {
        moved(name, "fast");
    }
    assert_eq!(all(), are(&[1], &[2, 3], &[]));
    moved("server-2", "slow");
    assert_eq!(all(), are(&[1], &[3], &[2]));
    assert_eq!(read(&membership).pool_of(MemberId(2)), "slow");
    moved("server-2", "default");
    assert_eq!(all(), are(&[1, 2], &[3], &[]));
    let before = read(&membership);
    moved("server-2", "default");
    assert_eq!(read(&membership), before, "it is there already");
    assert_eq!((before.pool_of(MemberId(2)), before.pool_of(MemberId(3))), ("default", "fast"));
    assert_eq!(before.members_of_pool("Fast"), None);
}

#[test]
fn a_move_to_nowhere_is_refused() {
    let (_, membership) = pooled();
    let before = read(&membership);
    let no_pool = wait(membership.move_member("server-2", "huge"));
    assert_eq!(refused(&membership, no_pool, &before), "the group has no pool 'huge'");
    let nobody = wait(membership.move_member("server-9", "fast"));
    assert_eq!(refused(&membership, nobody, &before), "the group has no member 'server-9'");
}

#[test]
fn names_of_pools_are_plain_and_differ() {
    let (_, membership) = pooled();
    let before = read(&membership);
    for taken in ["fast", "FAST", "default", "Default"] {
        let error = wait(membership.create_pool(taken)).unwrap_err();
        let there = taken.to_ascii_lowercase();
        assert!(matches!(&error, MembershipError::PoolTaken(name) if *name == there), "{error}");
    }
    for bad in ["", ".", "a b", "a/b", "ä", &"a".repeat(64)] {
        let error = wait(membership.create_pool(bad)).unwrap_err();
        assert!(matches!(&error, MembershipError::Name(name) if name == bad), "{error}");
        assert!(error.to_string().contains("of a group, a member or a pool"), "{error}");
    }
    assert_eq!(read(&membership), before);
}

#[test]
fn there_are_so_many_pools_and_no_more() {
    let (_, membership) = pooled();
    for number in 2..POOLS_MAX {
        wait(membership.create_pool(&format!("pool-{number}"))).unwrap();
    }
    let full = wait(membership.create_pool("more")).unwrap_err();
    assert!(matches!(full, MembershipError::TooManyPools), "{full}");
    assert!(full.to_string().starts_with("the group has 64 pools beside 'default'"), "{full}");
    wait(membership.delete_pool("slow")).unwrap();
    wait(membership.create_pool("more")).unwrap();
    assert_eq!(read(&membership).pool_names().len(), POOLS_MAX + 1);
}

#[test]
fn only_an_empty_pool_is_deleted_and_never_the_default_one() {
    let (_, membership) = pooled();
    wait(membership.move_member("server-2", "fast")).unwrap();
    let before = read(&membership);
    let full = refused(&membership, wait(membership.delete_pool("fast")), &before);
    assert!(full.starts_with("the pool 'fast' has 1 member: move them"), "{full}");
    let default = wait(membership.delete_pool("default")).unwrap_err();
    assert!(matches!(default, MembershipError::DefaultPool), "{default}");
    let none = wait(membership.delete_pool("huge")).unwrap_err();
    assert!(matches!(&none, MembershipError::NoSuchPool(name) if name == "huge"), "{none}");
    assert_eq!(read(&membership), before);
    wait(membership.move_member("server-2", "slow")).unwrap();
    wait(membership.delete_pool("fast")).unwrap();
    assert_eq!(pools(&read(&membership)), [("default", vec![1, 3]), ("slow", vec![2])]);
}

#[test]
fn a_pool_is_merged_into_another_one() {
    let (_, membership) = pooled();
    for (name, pool) in [("server-1", "fast"), ("server-2", "fast"), ("server-3", "slow")] {
        wait(membership.move_member(name, pool)).unwrap();
    }
    let before = read(&membership);
    let merge = |from, into| refused(&membership, wait(membership.merge_pool(from, into)), &before);
    assert_eq!(merge("fast", "huge"), "the group has no pool 'huge'");
    assert_eq!(merge("huge", "fast"), "the group has no pool 'huge'");
    assert!(merge("fast", "fast").starts_with("'fast' cannot be merged into itself"));
    assert!(merge("default", "default").starts_with("'default' cannot be merged into itself"));
    assert!(merge("default", "fast").starts_with("the pool 'default' is that of all members"));
    wait(membership.merge_pool("fast", "slow")).unwrap();
    let merged = [("default", vec![]), ("slow", vec![1, 2, 3])];
    assert_eq!(pools(&read(&membership)), merged);
    wait(membership.merge_pool("slow", "default")).unwrap();
    assert_eq!(pools(&read(&membership)), [("default", vec![1, 2, 3])]);
}

#[test]
fn who_is_removed_is_in_no_pool_any_more() {
    let (store, membership) = pooled();
    wait(membership.move_member("server-2", "fast")).unwrap();
    wait(membership.remove("server-2")).unwrap();
    let roll = read(&membership);
    assert_eq!(pools(&roll), [("default", vec![1, 3]), ("fast", vec![]), ("slow", vec![])]);
    let kept = wait(store.range(Selection::key("group/pools/fast"))).unwrap();
    assert_eq!(Pool::decode(&kept.kvs[0].value).unwrap(), Pool::default());
    // It joins again under another number, and is where all are that nobody has moved.
    let (number, roll) = join(&membership, applicant(2)).unwrap();
    assert_eq!((number, roll.pool_of(number)), (MemberId(4), "default"));
}

/// Of an earlier version, which knows no pools.
#[test]
fn who_was_removed_by_a_member_that_knows_no_pools_is_passed_by() {
    let (store, membership) = pooled();
    for name in ["server-2", "server-3"] {
        wait(membership.move_member(name, "fast")).unwrap();
    }
    let mut heard = read(&membership);
    let mut watch = membership.watch(heard.revision + 1);
    let gone = Op::Delete(Selection::key("group/members/00002"));
    let revision = wait(store.commit(Transaction::always(vec![gone]))).unwrap().revision;
    let batch = wait(watch.next()).unwrap().unwrap();
    heard.hear(&batch).unwrap();
    let now = read(&membership);
    assert_eq!((&heard, now.revision), (&now, revision));
    assert_eq!(now.members_of_pool("fast"), Some(vec![MemberId(3)]));
    wait(membership.merge_pool("fast", "slow")).unwrap();
    assert_eq!(read(&membership).members_of_pool("slow"), Some(vec![MemberId(3)]));
}

#[test]
fn a_member_does_not_go_to_a_pool_that_others_delete() {
    let (store, others) = pooled();
    let meddled = Meddled::with(&store);
    let membership = meddled.membership();
    let deletes = {
        let others = others.clone();
        move || wait(others.delete_pool("fast")).expect("nobody is in it")
    };
    meddled.plan(Act::After(Box::new(deletes)));
    let late = wait(membership.move_member("server-2", "fast")).unwrap_err();
    assert!(matches!(&late, MembershipError::NoSuchPool(name) if name == "fast"), "{late}");
    assert_eq!(read(&others).pool_of(MemberId(2)), "default");
}

#[test]
fn pools_end_with_the_group() {
    let membership = group(&store());
    wait(membership.create_pool("fast")).unwrap();
    wait(membership.move_member("server-1", "fast")).unwrap();
    wait(membership.delete()).unwrap();
    assert!(read(&membership).pools.is_empty());
    for result in [
        wait(membership.create_pool("fast")),
        wait(membership.delete_pool("fast")),
        wait(membership.merge_pool("fast", "default")),
        wait(membership.move_member("server-1", "default")),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, MembershipError::NoGroup), "{error}");
    }
}

/// Each of what always holds of pools, broken.
#[test]
fn pools_that_cannot_be_are_found() {
    type Breaks = fn(&mut Roll);
    let breaks: [(&str, Breaks); 7] = [
        ("limits or an address, and no group", |roll| {
            *roll = Roll::default();
            put(roll, "fast", &[]);
        }),
        ("it has 65 pools", |roll| {
            for number in 0..63 {
                put(roll, &format!("pool-{number}"), &[]);
            }
        }),
        ("'a b' cannot be the name", |roll| put(roll, "a b", &[])),
        ("two pools are called 'fast'", |roll| put(roll, "FAST", &[])),
        ("two pools are called 'Default'", |roll| put(roll, "Default", &[2])),
        ("the pool 'fast' has member 9, who is none", |roll| put(roll, "fast", &[9])),
        ("member 2 is in two pools", |roll| {
            put(roll, "fast", &[1, 2]);
            put(roll, "slow", &[2]);
        }),
    ];
    let (_, membership) = pooled();
    let sound = read(&membership);
    for (what, broken) in breaks {
        let mut roll = sound.clone();
        broken(&mut roll);
        let why = roll.sound().expect_err(what);
        assert!(why.contains(what), "{why}");
        let checked = std::panic::catch_unwind(|| roll.check());
        assert!(checked.is_err(), "{what}: the assertion does not see it");
    }
}

fn put(roll: &mut Roll, name: &str, members: &[u16]) {
    let members = members.iter().map(|number| MemberId(*number)).collect();
    roll.pools.insert(name.to_owned(), Pool { members });
}
