//! Names that pass from one member to another with their volumes: by one transaction, and by none that comes late.

use super::meddled::Act;
use super::names::{
    ONE, TWO, claim, claimed, claims, meddled, nothing, owned, pair, release, revision,
};
use super::*;
use crate::membership::names::name_key;
use crate::record::SettingError;
use crate::store::StoreError;

const THREE: MemberId = MemberId(3);

/// A move whose number has this digit alone.
fn id(digit: &str) -> MoveId {
    digit.repeat(32).parse().expect("it is one")
}

fn hand_over(
    membership: &Membership,
    (from, to): (MemberId, MemberId),
    name: &str,
    digit: &str,
) -> Result<HandOver, MembershipError> {
    wait(membership.hand_over(from, to, name, &id(digit)))
}

fn keep(membership: &Membership, name: &str, digit: &str) -> Result<bool, MembershipError> {
    wait(membership.keep_name(ONE, name, &id(digit)))
}

fn holder(membership: &Membership, name: &str) -> Option<Holder> {
    wait(membership.holder_of(name)).expect("it is read")
}

fn held(member: MemberId, name: &str, moved: Option<&str>) -> Option<Holder> {
    Some(Holder { member, name: name.to_owned(), moved: moved.map(id), adopted: Vec::new() })
}

/// By which moves a name has come to who has had its volume, by their digits.
fn adopted(membership: &Membership, name: &str) -> String {
    let adopted = holder(membership, name).expect("somebody has it").adopted;
    adopted.iter().map(|id| id.to_string().remove(0)).collect()
}

fn adopt(
    membership: &Membership,
    member: MemberId,
    name: &str,
    digit: &str,
) -> Result<bool, MembershipError> {
    wait(membership.adopt_name(member, name, &id(digit)))
}

/// A name that was given to member 2 by the move `a`; the server of that has joined again since, as member 3.
fn given_to_one_that_is_another_now(others: &Membership) {
    claim(others, ONE, &["VM_1"]).unwrap();
    hand_over(others, (ONE, TWO), "VM_1", "a").unwrap();
    wait(others.remove("server-2")).unwrap();
    assert_eq!(join(others, applicant(2)).unwrap().0, THREE);
}

/// Whose it is, where it is not the source's.
fn not_yours(member_name: &str) -> HandOver {
    HandOver::NotYours { member_name: member_name.to_owned() }
}

fn is_not_held(error: &MembershipError, wanted: &str) -> bool {
    matches!(error, MembershipError::NameNotHeld(name) if name == wanted)
}

#[test]
fn a_name_is_handed_over_once() {
    let (store, membership) = pair();
    claim(&membership, ONE, &["VM_1", "b"]).unwrap();
    assert_eq!(holder(&membership, "vm-1"), held(ONE, "VM_1", None));
    let before = revision(&store);
    assert_eq!(hand_over(&membership, (ONE, TWO), "vm-1", "a").unwrap(), HandOver::Done);
    assert_eq!(revision(&store), before + 1, "it is one transaction");
    assert_eq!(holder(&membership, "VM:1"), held(TWO, "VM_1", Some("a")));
    assert_eq!(claimed(&membership, ONE), owned(&["b"]));

    // Whoever has not heard the answer asks again, and nothing is written.
    assert_eq!(hand_over(&membership, (ONE, TWO), "VM_1", "a").unwrap(), HandOver::Done);
    // Another move is not told that it is done, and the name is not to be had by it.
    assert_eq!(hand_over(&membership, (ONE, TWO), "VM_1", "b").unwrap(), not_yours("server-2"));
    assert_eq!(hand_over(&membership, (ONE, TWO), "free", "a").unwrap(), not_yours(""));
    assert_eq!(revision(&store), before + 1);

    // It passes on, and back.
    assert_eq!(hand_over(&membership, (TWO, ONE), "VM_1", "c").unwrap(), HandOver::Done);
    assert_eq!(holder(&membership, "VM_1"), held(ONE, "VM_1", Some("c")));
}

/// A source that was away looks late, when the destination has claimed all that it has, as it does after each start.
#[test]
fn what_was_given_is_known_by_its_move_as_long_as_it_is_there() {
    let (store, membership) = pair();
    claim(&membership, ONE, &["a"]).unwrap();
    hand_over(&membership, (ONE, TWO), "a", "a").unwrap();
    claim(&membership, TWO, &["A"]).unwrap();
    assert_eq!(holder(&membership, "a"), held(TWO, "A", Some("a")));
    assert!(!keep(&membership, "a", "a").unwrap(), "it was given away");
    let found = wait(store.range(Selection::key(name_key("a")))).unwrap();
    let digits = "a".repeat(32);
    let wanted = format!(r#"{{"version":1,"value":{{"member":2,"name":"A","moved":"{digits}"}}}}"#);
    assert_eq!(String::from_utf8_lossy(&found.kvs[0].value), wanted);

    release(&membership, TWO, &["A"]);
    assert_eq!(holder(&membership, "a"), None);
    claim(&membership, TWO, &["a"]).unwrap();
    assert_eq!(holder(&membership, "a"), held(TWO, "a", None));
    let found = wait(store.range(Selection::key(name_key("a")))).unwrap();
    let wanted = br#"{"version":1,"value":{"member":2,"name":"a"}}"#;
    assert_eq!(found.kvs[0].value, wanted, "as earlier versions write it");
}

/// A volume of that name is gone, as its disks are, and its claim is still there when somebody makes another one.
#[test]
fn a_volume_that_is_made_anew_has_not_come_by_the_move_of_another_one() {
    let (_, membership) = pair();
    claim(&membership, ONE, &["vm"]).unwrap();
    hand_over(&membership, (ONE, TWO), "vm", "a").unwrap();
    assert!(adopt(&membership, TWO, "vm", "a").unwrap());
    claim(&membership, TWO, &["VM"]).unwrap();
    let has_come = Holder { adopted: vec![id("a")], ..held(TWO, "VM", Some("a")).unwrap() };
    assert_eq!(holder(&membership, "vm"), Some(has_come), "it is the same volume");
    let new = wait(membership.claim_names_anew(TWO, &owned(&["vm"]))).unwrap();
    assert_eq!(new, owned(&[]), "the name is its own");
    assert_eq!(holder(&membership, "vm"), held(TWO, "vm", None));
    assert!(wait(membership.claim_names_anew(ONE, &owned(&["vm"]))).is_err());
}

#[test]
fn a_name_that_passes_on_meanwhile_is_not_given_away() {
    let (meddled, membership, others) = meddled();
    assert_eq!(join(&others, applicant(3)).unwrap().0, THREE);
    claim(&others, ONE, &["a"]).unwrap();
    let changes_hands = {
        let others = others.clone();
        move || {
            release(&others, ONE, &["a"]);
            claim(&others, TWO, &["a"]).expect("it is free");
        }
    };
    meddled.plan(Act::After(Box::new(changes_hands)));
    let refused = hand_over(&membership, (ONE, THREE), "a", "a").unwrap();
    assert_eq!(refused, not_yours("server-2"));
    assert_eq!(holder(&others, "a"), held(TWO, "a", None));
}

#[test]
fn a_claim_that_is_written_anew_meanwhile_is_given_all_the_same() {
    let (meddled, membership, others) = meddled();
    claim(&others, ONE, &["a"]).unwrap();
    meddled.plan(claims(&others, ONE, &["A"]));
    assert_eq!(hand_over(&membership, (ONE, TWO), "a", "a").unwrap(), HandOver::Done);
    assert_eq!(holder(&others, "a"), held(TWO, "A", Some("a")));
}

#[test]
fn a_hand_over_that_comes_late_finds_the_claim_written_anew() {
    let (meddled, membership, others) = meddled();
    claim(&others, ONE, &["a"]).unwrap();
    for _ in 0..2 {
        meddled.plan(Act::Late);
        let unheard = hand_over(&membership, (ONE, TWO), "a", "a").unwrap_err();
        assert!(matches!(unheard, MembershipError::Store(StoreError::Failed(_))), "{unheard}");
    }
    assert!(keep(&membership, "a", "a").unwrap(), "it stays");
    assert!(!meddled.deliver(), "it would be served by both");
    assert_eq!(holder(&others, "a"), held(ONE, "a", None));
}

#[test]
fn a_hand_over_that_comes_before_the_claim_is_written_anew_counts() {
    let (meddled, membership, others) = meddled();
    claim(&others, ONE, &["a"]).unwrap();
    meddled.plan(Act::Late);
    hand_over(&membership, (ONE, TWO), "a", "a").unwrap_err();
    // The claim is read, and then what was late comes.
    let delivers = {
        let meddled = meddled.clone();
        move || assert!(meddled.deliver(), "it is as good as ever")
    };
    meddled.plan(Act::After(Box::new(delivers)));
    assert!(!keep(&membership, "a", "a").unwrap(), "it is given away");
    assert_eq!(holder(&others, "a"), held(TWO, "a", Some("a")));
    assert_eq!(hand_over(&membership, (ONE, TWO), "a", "a").unwrap(), HandOver::Done);
}

#[test]
fn while_the_store_fails_nothing_is_certain() {
    let (meddled, membership, others) = meddled();
    claim(&others, ONE, &["a"]).unwrap();
    for act in [Act::Lost, nothing()] {
        meddled.plan(act);
        let failed = keep(&membership, "a", "a").unwrap_err();
        assert!(matches!(failed, MembershipError::Store(StoreError::Failed(_))), "{failed}");
    }
    assert!(keep(&membership, "a", "a").unwrap(), "it may be asked again");
    // It was made, and nobody has said so.
    meddled.plan(nothing());
    hand_over(&membership, (ONE, TWO), "a", "a").unwrap_err();
    meddled.deafen(true);
    assert!(wait(membership.holder_of("a")).is_err());
    assert!(keep(&membership, "a", "a").is_err());
    meddled.deafen(false);
    assert!(!keep(&membership, "a", "a").unwrap());
    assert_eq!(holder(&others, "a"), held(TWO, "a", Some("a")));
}

#[test]
fn who_is_no_member_gives_nothing_and_is_given_nothing() {
    let (meddled, membership, others) = meddled();
    claim(&others, ONE, &["a"]).unwrap();
    claim(&others, TWO, &["b"]).unwrap();
    let removes = {
        let others = others.clone();
        move || {
            wait(others.remove("server-2")).expect("it is there");
        }
    };
    meddled.plan(Act::After(Box::new(removes)));
    let outcome = hand_over(&membership, (ONE, TWO), "a", "a").unwrap();
    assert_eq!(outcome, HandOver::NoMember);
    let outcome = hand_over(&membership, (TWO, ONE), "b", "b").unwrap();
    assert_eq!(outcome, HandOver::NoMember);
    assert_eq!(holder(&others, "a"), held(ONE, "a", None));
    assert_eq!(holder(&others, "b"), held(TWO, "b", None));
    let removed = wait(membership.keep_name(TWO, "b", &id("b"))).unwrap_err();
    assert!(matches!(removed, MembershipError::Removed), "{removed}");
}

/// Whoever took the name of a volume that was to move while its member was no member has another volume: what the
/// member has is then the only copy, or is elsewhere by another name. Nothing follows from the name.
#[test]
fn a_name_that_is_not_held_is_neither_kept_nor_given_away() {
    let (store, membership) = pair();
    claim(&membership, TWO, &["b"]).unwrap();
    let before = revision(&store);
    for name in ["b", "free"] {
        let refused = keep(&membership, name, "a").unwrap_err();
        assert!(is_not_held(&refused, name), "{refused}");
        let said = refused.to_string();
        assert!(said.starts_with(&format!("the name '{name}' is not this member's")), "{said}");
    }
    assert_eq!(revision(&store), before);
}

/// The server of a member that was removed joins again, with the volume that it was about to give away.
#[test]
fn the_claim_of_who_is_a_member_by_another_number_now_is_kept() {
    let (_, membership) = pair();
    claim(&membership, TWO, &["a", "b"]).unwrap();
    hand_over(&membership, (TWO, ONE), "b", "b").unwrap();
    wait(membership.remove("server-2")).unwrap();
    assert_eq!(join(&membership, applicant(2)).unwrap().0, THREE);
    assert!(wait(membership.keep_name(THREE, "a", &id("a"))).unwrap());
    assert_eq!(holder(&membership, "a"), held(THREE, "a", None));
    assert!(!wait(membership.keep_name(THREE, "b", &id("b"))).unwrap(), "it was given away");
}

#[test]
fn what_a_later_version_wrote_is_neither_given_nor_kept() {
    let (store, membership) = pair();
    let later = Op::put(name_key("a"), &br#"{"version":9,"value":{}}"#[..]);
    wait(store.commit(Transaction::always(vec![later]))).unwrap();
    let before = revision(&store);
    let refused = [
        hand_over(&membership, (ONE, TWO), "a", "a").map(drop),
        keep(&membership, "a", "a").map(drop),
        wait(membership.holder_of("a")).map(drop),
    ];
    for refused in refused.map(Result::unwrap_err) {
        let MembershipError::Setting(SettingError::Later { .. }) = refused else {
            panic!("{refused}")
        };
    }
    assert_eq!(revision(&store), before);
}

/// An operator settles at the source that the volume stays there, while its destination, which is another member by
/// now, adopts it: whichever comes first, the other one does not serve it.
#[test]
fn a_name_that_is_taken_while_its_volume_is_adopted_is_one_members() {
    // Before the destination looks, and between its look and what it writes.
    for is_between in [false, true] {
        let (meddled, membership, others) = meddled();
        given_to_one_that_is_another_now(&others);
        let keeps = {
            let others = others.clone();
            move || drop(claim(&others, ONE, &["VM_1"]).expect("who had it is no member"))
        };
        match is_between {
            true => meddled.plan(Act::After(Box::new(keeps))),
            false => keeps(),
        }
        assert!(!adopt(&membership, THREE, "vm-1", "a").unwrap(), "between: {is_between}");
        assert_eq!(holder(&others, "VM_1"), held(ONE, "VM_1", None));
    }
    // Before the source looks, and between its look and what it writes.
    for is_between in [false, true] {
        let (meddled, membership, others) = meddled();
        given_to_one_that_is_another_now(&others);
        let adopts = {
            let others = others.clone();
            move || assert!(adopt(&others, THREE, "vm-1", "a").expect("it is given"))
        };
        match is_between {
            true => meddled.plan(Act::After(Box::new(adopts))),
            false => adopts(),
        }
        let kept = claim(&membership, ONE, &["VM_1"]).unwrap_err();
        let MembershipError::VolumeNameTaken { member_name, .. } = kept else { panic!("{kept}") };
        assert_eq!(member_name, "server-2");
        let wanted =
            held(THREE, "VM_1", Some("a")).map(|it| Holder { adopted: vec![id("a")], ..it });
        assert_eq!(holder(&others, "VM_1"), wanted);
    }
}

/// What was not answered is not relied on: it may be done late, or never.
#[test]
fn an_adoption_that_was_not_answered_is_asked_for_again_and_comes_too_late_once_the_name_is_taken()
{
    let (store, membership, others) = meddled();
    given_to_one_that_is_another_now(&others);
    for act in [Act::Lost, nothing()] {
        store.plan(act);
        let unheard = adopt(&membership, THREE, "VM_1", "a").unwrap_err();
        assert!(matches!(unheard, MembershipError::Store(StoreError::Failed(_))), "{unheard}");
    }
    assert!(adopt(&membership, THREE, "VM_1", "a").unwrap(), "it was made");
    assert_eq!(adopted(&others, "VM_1"), "a", "once");

    let (meddled, membership, others) = meddled();
    given_to_one_that_is_another_now(&others);
    meddled.plan(Act::Late);
    adopt(&membership, THREE, "VM_1", "a").unwrap_err();
    claim(&others, ONE, &["VM_1"]).expect("who had it is no member");
    assert!(!meddled.deliver(), "it is served at the source by now");
    assert_eq!(holder(&others, "VM_1"), held(ONE, "VM_1", None));
}

#[test]
fn a_name_is_adopted_by_a_member_and_only_by_the_move_that_gave_it() {
    let (_, membership) = pair();
    claim(&membership, ONE, &["a", "b"]).unwrap();
    hand_over(&membership, (ONE, TWO), "a", "a").unwrap();
    assert!(!adopt(&membership, TWO, "free", "a").unwrap());
    assert!(!adopt(&membership, TWO, "a", "b").unwrap(), "another move");
    assert!(!adopt(&membership, ONE, "b", "a").unwrap(), "it was given by none");
    // Two servers have stored that it has come to them: the disks of one were copied.
    assert_eq!(join(&membership, applicant(3)).unwrap().0, THREE);
    let taken = adopt(&membership, THREE, "a", "a").unwrap_err();
    let MembershipError::VolumeNameTaken { member_name, .. } = taken else { panic!("{taken}") };
    assert_eq!(member_name, "server-2");
    wait(membership.remove("server-2")).unwrap();
    let removed = adopt(&membership, TWO, "a", "a").unwrap_err();
    assert!(matches!(removed, MembershipError::Removed), "{removed}");
    assert_eq!(adopted(&membership, "a"), "");
}

/// Who has a name by another move has not got the volume by that: the one before may have made another of the name.
#[test]
fn a_name_says_which_destinations_have_had_its_volume() {
    let (_, membership) = pair();
    claim(&membership, ONE, &["a", "b"]).unwrap();
    hand_over(&membership, (ONE, TWO), "a", "a").unwrap();
    hand_over(&membership, (ONE, TWO), "b", "b").unwrap();
    assert!(adopt(&membership, TWO, "a", "a").unwrap());
    // As after each start, and for a new volume.
    claim(&membership, TWO, &["A", "b"]).unwrap();
    for name in ["a", "b"] {
        assert_eq!(hand_over(&membership, (TWO, ONE), name, "c").unwrap(), HandOver::Done);
        assert!(adopt(&membership, ONE, name, "c").unwrap());
    }
    assert_eq!((adopted(&membership, "a"), adopted(&membership, "b")), ("ac".into(), "c".into()));
    let holder = holder(&membership, "b").expect("somebody has it");
    assert!(holder.was_adopted_by(&id("c")) && !holder.was_adopted_by(&id("b")));
    assert!(holder.is_given_by(&id("c")) && !holder.is_given_by(&id("b")));
    for digit in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        let (from, to) =
            if digit.parse::<u8>().unwrap() % 2 == 1 { (ONE, TWO) } else { (TWO, ONE) };
        hand_over(&membership, (from, to), "a", digit).unwrap();
        assert!(adopt(&membership, to, "a", digit).unwrap());
    }
    assert_eq!(adopted(&membership, "a"), "12345678", "it does not grow for ever");
    release(&membership, ONE, &["A", "a"]);
    claim(&membership, ONE, &["a"]).unwrap();
    assert_eq!(adopted(&membership, "a"), "", "another volume");
}
