//! A store that fails while it makes a change: what was made is not made twice, and what is not known is said to be so.

use super::meddled::{Act, Meddled, Work};
use super::*;
use crate::store::StoreError;

/// A group, and a store that fails below the first of the two.
fn failing() -> (Arc<Meddled>, Membership, Membership) {
    let store = store();
    let others = group(&store);
    let meddled = Meddled::with(&store);
    let membership = meddled.membership();
    (meddled, membership, others)
}

fn nothing() -> Work {
    Box::new(|| {})
}

#[test]
fn what_was_made_and_not_answered_is_made_once() {
    let (meddled, membership, others) = failing();
    let (id, secret) = token(&membership);
    let before = read(&others).revision;
    meddled.plan(Act::Unheard(nothing()));
    let admitted = wait(membership.admit(&id, secret.as_str(), applicant(2), NOW)).unwrap();
    let roll = read(&others);
    assert_eq!(roll.revision, before + 1, "one revision was made");
    assert_eq!(names(&roll), [(1, "server-1"), (2, "server-2")]);
    assert_eq!(admitted, (MemberId(2), roll));

    meddled.plan(Act::Unheard(nothing()));
    let (id, secret) = token(&membership);
    let tokens = read(&others).tokens;
    assert_eq!(tokens.keys().collect::<Vec<_>>(), [&id], "one token was made");
    assert_eq!(tokens[&id].hash, TokenHash::of(secret.as_str()));
    meddled.plan(Act::Unheard(nothing()));
    wait(membership.revoke_token(&id)).unwrap();
    meddled.plan(Act::Unheard(nothing()));
    assert_eq!(wait(membership.remove("server-2")).unwrap(), MemberId(2));
    meddled.plan(Act::Unheard(nothing()));
    wait(membership.delete()).unwrap();
    assert_eq!(read(&others).about, None);
}

/// Whoever looks at the guard alone would take the change of others for a refusal of its own.
#[test]
fn what_was_made_is_found_behind_what_others_have_made_since() {
    let (meddled, membership, others) = failing();
    let (id, secret) = token(&membership);
    let renames = {
        let others = others.clone();
        move || {
            for turn in 0..20 {
                wait(others.rename(&format!("lab-{turn}"))).expect("it is a name");
            }
        }
    };
    meddled.plan(Act::Unheard(Box::new(renames)));
    let (number, roll) =
        wait(membership.admit(&id, secret.as_str(), applicant(2), NOW)).expect("it was made");
    assert_eq!((number, roll), (MemberId(2), read(&others)));
}

#[test]
fn what_was_lost_is_made_when_it_is_tried_again() {
    let (meddled, membership, others) = failing();
    let (id, secret) = token(&membership);
    meddled.plan(Act::Lost);
    let admitted = wait(membership.admit(&id, secret.as_str(), applicant(2), NOW)).unwrap();
    assert_eq!(admitted, (MemberId(2), read(&others)));
}

#[test]
fn what_comes_late_is_not_made_beside_the_second_try() {
    // Before the second try: it is the change, and that is answered.
    let (meddled, membership, others) = failing();
    let (id, secret) = token(&membership);
    meddled.plan(Act::Late);
    let delivers = {
        let meddled = meddled.clone();
        move || assert!(meddled.deliver(), "it is as good as ever")
    };
    meddled.plan(Act::After(Box::new(delivers)));
    let admitted = wait(membership.admit(&id, secret.as_str(), applicant(2), NOW)).unwrap();
    assert_eq!(admitted, (MemberId(2), read(&others)));

    // Behind it: it finds another guard.
    let (id, secret) = token(&membership);
    meddled.plan(Act::Late);
    let admitted = wait(membership.admit(&id, secret.as_str(), applicant(3), NOW)).unwrap();
    let roll = read(&others);
    assert!(!meddled.deliver(), "it was made already");
    assert_eq!(read(&others), roll);
    assert_eq!(admitted, (MemberId(3), roll));
}

#[test]
fn a_store_that_goes_on_failing_is_not_asked_for_ever() {
    let (meddled, membership, others) = failing();
    let before = read(&others);
    meddled.plan(Act::Lost);
    meddled.plan(Act::Lost);
    let unknown = wait(membership.rename("mine")).unwrap_err();
    assert!(matches!(unknown, MembershipError::Unknown(StoreError::Failed(_))), "{unknown}");
    assert!(unknown.to_string().contains("the answer was lost"), "{unknown}");
    assert_eq!(read(&others), before);
    wait(membership.rename("mine")).expect("no third is planned");
}

#[test]
fn who_cannot_look_whether_it_was_made_says_so() {
    let (meddled, membership, others) = failing();
    let (id, secret) = token(&membership);
    let deafens = {
        let meddled = meddled.clone();
        move || meddled.deafen(true)
    };
    meddled.plan(Act::Unheard(Box::new(deafens)));
    let unknown =
        wait(membership.admit(&id, secret.as_str(), applicant(2), NOW)).expect_err("none is heard");
    assert!(matches!(unknown, MembershipError::Unknown(_)), "{unknown}");
    let silent = wait(membership.read()).unwrap_err();
    assert!(matches!(silent, MembershipError::Store(StoreError::Failed(_))), "{silent}");
    meddled.deafen(false);
    assert_eq!(names(&read(&others)), [(1, "server-1"), (2, "server-2")], "it was made");

    // The server has heard nothing, and comes with another token.
    let (number, roll) = join(&membership, applicant(2)).unwrap();
    assert_eq!(number, MemberId(3));
    assert_eq!(names(&roll), [(1, "server-1"), (3, "server-2")]);
}

#[test]
fn signs_of_life_are_given_again_by_who_gives_them() {
    let (meddled, membership, others) = failing();
    wait(membership.enter(MemberId(1), 7, "0.1.0")).unwrap();
    let lease = wait(others.store.grant(Duration::from_secs(10))).unwrap();
    let inventory = Inventory { snapshots: vec!["iqn.a".to_owned()], ..Inventory::default() };
    for act in [Act::Lost, Act::Unheard(nothing())] {
        meddled.plan(act);
        let failed = wait(membership.appear(MemberId(1), 7, lease)).unwrap_err();
        assert!(matches!(failed, MembershipError::Store(StoreError::Failed(_))), "{failed}");
    }
    wait(membership.appear(MemberId(1), 7, lease)).unwrap();
    meddled.plan(Act::Unheard(nothing()));
    let failed = wait(membership.publish(MemberId(1), &inventory)).unwrap_err();
    assert!(matches!(failed, MembershipError::Store(StoreError::Failed(_))), "{failed}");
    wait(membership.publish(MemberId(1), &inventory)).unwrap();
    let roll = read(&others);
    assert!(roll.is_present(MemberId(1)));
    assert_eq!(*roll.inventories[&MemberId(1)], inventory);
}
