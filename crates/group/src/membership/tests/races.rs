//! What others do between a look at the group and the commit of what was decided on it.

use std::thread;

use super::meddled::{Act, Meddled, Work};
use super::*;
use crate::store::StoreError;

/// A group and a store that is meddled with, and whoever meddles, over the same store.
fn meddled() -> (Arc<Meddled>, Membership, Membership) {
    let store = store();
    let others = group(&store);
    let meddled = Meddled::with(&store);
    let membership = meddled.membership();
    (meddled, membership, others)
}

/// Another server joins by then, with a token that it has already.
fn joins(others: &Membership, applicant: Applicant) -> Work {
    let (id, secret) = token(others);
    let others = others.clone();
    Box::new(move || {
        wait(others.admit(&id, secret.as_str(), applicant, NOW)).expect("it comes first");
    })
}

/// A member goes by then.
fn goes(others: &Membership, name: &'static str) -> Work {
    let others = others.clone();
    Box::new(move || {
        wait(others.remove(name)).expect("it is there");
    })
}

#[test]
fn two_that_join_at_the_same_moment_get_two_numbers() {
    let (meddled, membership, others) = meddled();
    let (id, secret) = token(&membership);
    meddled.plan(Act::After(joins(&others, applicant(2))));
    let admitted = wait(membership.admit(&id, secret.as_str(), applicant(3), NOW)).unwrap();
    let roll = read(&others);
    assert_eq!(names(&roll), [(1, "server-1"), (2, "server-2"), (3, "server-3")]);
    assert_eq!(admitted, (MemberId(3), roll));
}

#[test]
fn what_was_decided_is_decided_anew_where_others_have_changed_the_group() {
    let refused = |mine: Applicant, theirs: Applicant| {
        let (meddled, membership, others) = meddled();
        let (id, secret) = token(&membership);
        wait(membership.judge(&id, secret.as_str(), &mine, NOW)).expect("it could join");
        meddled.plan(Act::After(joins(&others, theirs)));
        let result = wait(membership.admit(&id, secret.as_str(), mine, NOW));
        let roll = read(&others);
        assert_eq!(roll.members.len(), 2);
        assert!(roll.tokens.contains_key(&id), "who is refused keeps the token");
        result.unwrap_err()
    };
    let name = refused(applicant(3), Applicant { name: "Server-3".to_owned(), ..applicant(2) });
    assert!(matches!(&name, MembershipError::NameTaken(name) if name == "Server-3"), "{name}");
    let beside = Applicant { address: applicant(3).address, port: PORT + 2, ..applicant(2) };
    let place = refused(applicant(3), beside);
    assert!(matches!(place, MembershipError::AddressTaken { .. }), "{place}");
    let copy = refused(applicant(3), Applicant { array: applicant(3).array, ..applicant(2) });
    let MembershipError::ArrayKnown { member } = copy else { panic!("{copy}") };
    assert_eq!(member, "server-2");
}

#[test]
fn one_token_that_two_show_at_the_same_moment_lets_in_one() {
    let (meddled, membership, others) = meddled();
    let (id, secret) = token(&membership);
    let first = {
        let (others, id, secret) = (others.clone(), id.clone(), secret.clone());
        move || {
            wait(others.admit(&id, secret.as_str(), applicant(2), NOW)).expect("it is good once");
        }
    };
    meddled.plan(Act::After(Box::new(first)));
    let second = wait(membership.admit(&id, secret.as_str(), applicant(3), NOW)).unwrap_err();
    assert!(matches!(second, MembershipError::Token), "{second}");
    assert_eq!(names(&read(&others)), [(1, "server-1"), (2, "server-2")]);
}

#[test]
fn many_that_join_at_the_same_moment_all_do() {
    const SERVERS: u8 = 8;
    let store = store();
    let membership = group(&store);
    let tokens: Vec<_> = (0..SERVERS).map(|_| token(&membership)).collect();
    let mut numbers: Vec<u16> = thread::scope(|scope| {
        let joins = tokens.iter().zip(2_u8..).map(|((id, secret), number)| {
            let membership = membership.clone();
            scope.spawn(move || {
                let admitted = membership.admit(id, secret.as_str(), applicant(number), NOW);
                let (number, roll) = wait(admitted).expect("there is room for all");
                roll.check();
                number.0
            })
        });
        let joins: Vec<_> = joins.collect();
        joins.into_iter().map(|join| join.join().expect("it ends")).collect()
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (2..2 + u16::from(SERVERS)).collect::<Vec<_>>());
    let roll = read(&membership);
    assert_eq!((roll.members.len(), roll.tokens.len()), (1 + usize::from(SERVERS), 0));
}

#[test]
fn who_is_always_too_late_says_so_and_changes_nothing() {
    let (meddled, membership, others) = meddled();
    for turn in 0..TRIES {
        let others = others.clone();
        meddled.plan(Act::After(Box::new(move || {
            wait(others.rename(&format!("lab-{turn}"))).expect("it is a name");
        })));
    }
    let late = wait(membership.rename("mine")).unwrap_err();
    assert!(matches!(late, MembershipError::Contended), "{late}");
    assert_eq!(read(&others).about.unwrap().name, format!("lab-{}", TRIES - 1));
    wait(membership.rename("mine")).unwrap();
    assert_eq!(read(&others).about.unwrap().name, "mine");
}

#[test]
fn two_groups_are_not_made_in_one_store() {
    let store = store();
    let meddled = Meddled::with(&store);
    let others = store.clone();
    meddled.plan(Act::After(Box::new(move || {
        group(&others);
    })));
    let found = meddled.membership();
    let id = GroupId::draw().unwrap();
    let late = wait(found.found("other", id, applicant(2), NOW)).unwrap_err();
    assert!(matches!(&late, MembershipError::GroupExists(name) if name == "lab"), "{late}");
    assert_eq!(names(&read(&found)), [(1, "server-1")]);
}

#[test]
fn of_two_members_that_remove_each_other_one_stays() {
    let (meddled, membership, others) = meddled();
    join(&others, applicant(2)).unwrap();
    meddled.plan(Act::After(goes(&others, "server-1")));
    let last = wait(membership.remove("server-2")).unwrap_err();
    assert!(matches!(&last, MembershipError::LastMember(name) if name == "server-2"), "{last}");
    assert_eq!(names(&read(&others)), [(2, "server-2")]);
}

#[test]
fn a_group_that_somebody_joins_is_not_deleted() {
    let (meddled, membership, others) = meddled();
    meddled.plan(Act::After(joins(&others, applicant(2))));
    let refused = wait(membership.delete()).unwrap_err();
    assert!(matches!(refused, MembershipError::NotAlone(1)), "{refused}");
    assert_eq!(read(&others).members.len(), 2);
}

/// A request of the member is under way when others remove it.
#[test]
fn who_is_removed_does_not_appear_again() {
    let (meddled, membership, others) = meddled();
    let (number, _) = join(&others, applicant(2)).unwrap();
    wait(membership.enter(number, 7, "0.1.0")).unwrap();
    let lease = wait(others.store.grant(Duration::from_secs(10))).unwrap();
    meddled.plan(Act::After(goes(&others, "server-2")));
    let removed = wait(membership.appear(number, 7, lease)).unwrap_err();
    assert!(matches!(removed, MembershipError::Removed), "{removed}");
    let inventory = Inventory::default();
    let removed = wait(membership.publish(number, &inventory)).unwrap_err();
    assert!(matches!(removed, MembershipError::Removed), "{removed}");
    let removed = wait(membership.enter(number, 8, "0.1.0")).unwrap_err();
    assert!(matches!(removed, MembershipError::Removed), "{removed}");
    let roll = read(&others);
    assert_eq!((names(&roll), roll.present.len()), (vec![(1, "server-1")], 0));
    assert_eq!(roll.inventories.len(), 0);

    let (number, _) = join(&others, applicant(2)).unwrap();
    meddled.plan(Act::After(goes(&others, "server-2")));
    let removed = wait(membership.publish(number, &inventory)).unwrap_err();
    assert!(matches!(removed, MembershipError::Removed), "{removed}");
    assert_eq!(read(&others).inventories.len(), 0);
}

/// No guard protects what members say of themselves: it comes between, and does not hinder who removes them.
#[test]
fn what_a_member_says_while_it_is_removed_goes_with_it() {
    let (meddled, membership, others) = meddled();
    let (number, _) = join(&others, applicant(2)).unwrap();
    wait(others.enter(number, 7, "0.1.0")).unwrap();
    let lease = wait(others.store.grant(Duration::from_secs(10))).unwrap();
    let says = {
        let others = others.clone();
        move || {
            wait(others.appear(number, 7, lease)).expect("it is a member");
            wait(others.publish(number, &Inventory::default())).expect("it is a member");
            assert!(read(&others).is_present(number));
        }
    };
    meddled.plan(Act::After(Box::new(says)));
    assert_eq!(wait(membership.remove("server-2")).unwrap(), number);
    let roll = read(&others);
    assert_eq!((roll.present.len(), roll.inventories.len()), (0, 0));
}

#[test]
fn a_former_start_does_not_speak_for_a_member() {
    let (meddled, membership, others) = meddled();
    let founder = MemberId(1);
    wait(others.enter(founder, 7, "0.1.0")).unwrap();
    let lease = wait(others.store.grant(Duration::from_secs(10))).unwrap();
    let enters = {
        let others = others.clone();
        move || {
            wait(others.enter(founder, 8, "0.1.0")).expect("it is a member");
            wait(others.appear(founder, 8, lease)).expect("it was entered");
        }
    };
    meddled.plan(Act::After(Box::new(enters)));
    let late = wait(membership.appear(founder, 7, lease)).unwrap_err();
    assert!(matches!(late, MembershipError::OtherLife), "{late}");
    let roll = read(&others);
    assert_eq!(roll.present[&founder], 8);
    assert!(roll.is_present(founder));
}

#[test]
fn a_sign_of_life_under_a_lease_that_ended_is_none() {
    let (_, membership, others) = meddled();
    wait(others.enter(MemberId(1), 7, "0.1.0")).unwrap();
    let lease = wait(others.store.grant(Duration::from_secs(10))).unwrap();
    wait(others.store.revoke(lease)).unwrap();
    let refused = wait(membership.appear(MemberId(1), 7, lease)).unwrap_err();
    let MembershipError::Store(StoreError::NoLease(ended)) = refused else { panic!("{refused}") };
    assert_eq!(ended, lease);
    assert!(!read(&others).is_present(MemberId(1)));
}
