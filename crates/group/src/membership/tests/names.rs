//! Names of volumes: whoever claims one has it alone, whatever comes between.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use proptest::prelude::*;

use super::meddled::{Act, Meddled};
use super::*;
use crate::membership::names::{NAMES_AT_ONCE_MAX, NameClaim, name_key};
use crate::record::SettingError;
use crate::store::StoreError;

pub(super) const ONE: MemberId = MemberId(1);
pub(super) const TWO: MemberId = MemberId(2);

/// A group of the members 1 and 2.
pub(super) fn pair() -> (Arc<dyn Store>, Membership) {
    let store = store();
    let membership = group(&store);
    join(&membership, applicant(2)).expect("there is room");
    (store, membership)
}

pub(super) fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

pub(super) fn claim(
    membership: &Membership,
    member: MemberId,
    names: &[&str],
) -> Result<Vec<String>, MembershipError> {
    wait(membership.claim_names(member, &owned(names)))
}

pub(super) fn release(membership: &Membership, member: MemberId, names: &[&str]) {
    wait(membership.release_names(member, &owned(names))).expect("it is written");
}

pub(super) fn claimed(membership: &Membership, member: MemberId) -> Vec<String> {
    wait(membership.claimed_by(member)).expect("it is read")
}

/// The name as its member writes it, and the name of the member.
fn taken(error: MembershipError) -> (String, String) {
    match error {
        MembershipError::VolumeNameTaken { name, member_name } => (name, member_name),
        other => panic!("{other}"),
    }
}

pub(super) fn revision(store: &Arc<dyn Store>) -> Revision {
    wait(store.range(Selection::key("names"))).expect("it is read").revision
}

#[test]
fn a_name_is_that_of_one_member() {
    let (store, membership) = pair();
    assert_eq!(claim(&membership, ONE, &["VM_1", "db"]).unwrap(), owned(&["VM_1", "db"]));
    for other in ["VM_1", "vm-1", "Vm:1"] {
        let error = claim(&membership, TWO, &[other]).unwrap_err();
        let said = error.to_string();
        let begin = "the name 'VM_1' is that of a volume on the member 'server-1'";
        assert!(said.starts_with(begin), "{said}");
        assert_eq!(taken(error), ("VM_1".to_owned(), "server-1".to_owned()));
    }
    // All or none.
    let before = revision(&store);
    let error = claim(&membership, TWO, &["a", "db", "z"]).unwrap_err();
    assert_eq!(taken(error).0, "db");
    assert_eq!((revision(&store), claimed(&membership, TWO)), (before, vec![]));
    assert_eq!(claim(&membership, TWO, &["a", "vm.1", "z"]).unwrap(), owned(&["a", "vm.1", "z"]));
    assert_eq!(claimed(&membership, ONE), owned(&["db", "VM_1"]));
    assert_eq!(claimed(&membership, TWO), owned(&["a", "vm.1", "z"]));
    assert_eq!(read(&membership).members.len(), 2, "the roll knows nothing of it");
}

#[test]
fn what_a_member_has_it_keeps() {
    let (store, membership) = pair();
    claim(&membership, ONE, &["a", "b"]).unwrap();
    let before = revision(&store);
    assert_eq!(claim(&membership, ONE, &["a", "b", "a"]).unwrap(), owned(&[]), "none is new");
    assert_eq!(revision(&store), before + 1, "they are written anew, in one transaction");
    assert_eq!(claim(&membership, ONE, &["b", "c"]).unwrap(), owned(&["c"]));
    assert_eq!(claim(&membership, ONE, &[]).unwrap(), owned(&[]));
    assert_eq!(claimed(&membership, ONE), owned(&["a", "b", "c"]));
}

/// Who gives a volume the same name in other letters releases the former one after it.
#[test]
fn a_name_that_is_written_anew_stays() {
    let (_, membership) = pair();
    claim(&membership, ONE, &["VM_1"]).unwrap();
    assert_eq!(claim(&membership, ONE, &["vm-1"]).unwrap(), owned(&[]));
    release(&membership, ONE, &["VM_1"]);
    assert_eq!(claimed(&membership, ONE), owned(&["vm-1"]));
    let error = claim(&membership, TWO, &["VM_1"]).unwrap_err();
    assert_eq!(taken(error).0, "vm-1");
    release(&membership, ONE, &["VM_1", "vm-1"]);
    claim(&membership, TWO, &["VM_1"]).unwrap();
}

#[test]
fn only_who_has_a_name_releases_it() {
    let (store, membership) = pair();
    claim(&membership, ONE, &["a", "b"]).unwrap();
    let before = revision(&store);
    release(&membership, TWO, &["a", "b"]);
    release(&membership, ONE, &["c", "", "no name"]);
    assert_eq!((revision(&store), claimed(&membership, ONE)), (before, owned(&["a", "b"])));
    release(&membership, ONE, &["a", "c"]);
    assert_eq!(claimed(&membership, ONE), owned(&["b"]));
    assert_eq!(claim(&membership, TWO, &["a"]).unwrap(), owned(&["a"]));
}

#[test]
fn a_name_that_no_volume_can_have_is_refused() {
    let (store, membership) = pair();
    let before = revision(&store);
    for bad in ["", "a b", "a/b", "ä", "a\n", &"a".repeat(64)] {
        let error = claim(&membership, ONE, &["good", bad]).unwrap_err();
        assert!(matches!(&error, MembershipError::VolumeName(name) if name == bad), "{error}");
        assert!(error.to_string().contains("take 1 to 63 letters"), "{error}");
    }
    assert_eq!(revision(&store), before);
    claim(&membership, ONE, &[&"Z".repeat(63)]).expect("it is the longest");
}

#[test]
fn a_name_is_found_whatever_it_begins_with() {
    let (_, membership) = pair();
    let belongs = |c: &char| c.is_ascii_alphanumeric() || "-._:".contains(*c);
    let names: Vec<String> = ('\0'..='\x7f').filter(belongs).map(String::from).collect();
    assert_eq!(names.len(), 26 + 26 + 10 + 4);
    wait(membership.claim_names(ONE, &names)).unwrap();
    // Of two letters that differ in their case one is left, and `-` of `-`, `_` and `:`.
    assert_eq!(claimed(&membership, ONE).len(), 26 + 10 + 2);
}

#[test]
fn who_is_no_member_claims_nothing() {
    let (store, membership) = pair();
    wait(membership.remove("server-2")).unwrap();
    let before = revision(&store);
    let removed = claim(&membership, TWO, &["a"]).unwrap_err();
    assert!(matches!(removed, MembershipError::Removed), "{removed}");
    assert_eq!(revision(&store), before);
    let nowhere = claim(&Membership::new(super::store()), ONE, &["a"]).unwrap_err();
    assert!(matches!(nowhere, MembershipError::NoGroup), "{nowhere}");
}

#[test]
fn names_of_who_is_no_member_any_more_are_taken_over() {
    let (_, membership) = pair();
    claim(&membership, TWO, &["A", "b", "c"]).unwrap();
    wait(membership.remove("server-2")).unwrap();
    assert_eq!(claim(&membership, ONE, &["a", "d"]).unwrap(), owned(&["a", "d"]));
    assert_eq!(claimed(&membership, ONE), owned(&["a", "d"]));
    // Its server joins again: it is another member, which claims what it has and nobody took.
    let (number, _) = join(&membership, applicant(2)).unwrap();
    let error = claim(&membership, number, &["A", "b", "c"]).unwrap_err();
    assert_eq!(taken(error), ("a".to_owned(), "server-1".to_owned()));
    assert_eq!(claim(&membership, number, &["b", "c"]).unwrap(), owned(&["b", "c"]));
    assert_eq!((claimed(&membership, TWO), claimed(&membership, number).len()), (vec![], 2));
}

#[test]
fn names_end_with_the_group() {
    let store = store();
    let membership = group(&store);
    claim(&membership, ONE, &["a"]).unwrap();
    wait(membership.delete()).unwrap();
    let left = wait(store.range(Selection::prefix("names/"))).unwrap();
    assert!(left.kvs.is_empty(), "{left:?}");
}

#[test]
fn many_names_are_claimed_piece_by_piece() {
    let (store, membership) = pair();
    let names: Vec<String> = (0..250).map(|number| format!("vm-{number:03}")).collect();
    let all = || wait(membership.claim_names(TWO, &names));
    claim(&membership, ONE, &["vm-249"]).unwrap();
    let error = all().unwrap_err();
    assert_eq!(taken(error).0, "vm-249");
    assert!(claimed(&membership, TWO).is_empty(), "what went before is released");
    release(&membership, ONE, &["vm-249"]);
    let before = revision(&store);
    assert_eq!(all().unwrap(), names);
    let pieces = names.len().div_ceil(NAMES_AT_ONCE_MAX);
    assert_eq!(revision(&store) - before, u64::try_from(pieces).unwrap());
    assert_eq!(claimed(&membership, TWO), names);
    wait(membership.release_names(TWO, &names)).unwrap();
    assert!(claimed(&membership, TWO).is_empty());
}

#[test]
fn what_a_later_version_wrote_is_left_alone() {
    let (store, membership) = pair();
    let later = Op::put(name_key("a"), &br#"{"version":9,"value":{}}"#[..]);
    wait(store.commit(Transaction::always(vec![later]))).unwrap();
    let before = revision(&store);
    let error = claim(&membership, ONE, &["a", "b"]).unwrap_err();
    assert!(matches!(error, MembershipError::Setting(SettingError::Later { .. })), "{error}");
    release(&membership, ONE, &["a"]);
    assert_eq!((revision(&store), claimed(&membership, ONE)), (before, vec![]));
}

/// A group of two, and a store that is meddled with between it and the first of the two that are returned.
pub(super) fn meddled() -> (Arc<Meddled>, Membership, Membership) {
    let (store, others) = pair();
    let meddled = Meddled::with(&store);
    let membership = meddled.membership();
    (meddled, membership, others)
}

/// Another member claims it by then, or the same one.
pub(super) fn claims(others: &Membership, member: MemberId, names: &[&str]) -> Act {
    let (others, names) = (others.clone(), owned(names));
    Act::After(Box::new(move || {
        wait(others.claim_names(member, &names)).expect("it comes first");
    }))
}

pub(super) fn nothing() -> Act {
    Act::Unheard(Box::new(|| {}))
}

#[test]
fn of_two_that_claim_a_name_at_the_same_moment_one_has_it() {
    let (meddled, membership, others) = meddled();
    meddled.plan(claims(&others, TWO, &["b"]));
    let error = claim(&membership, ONE, &["a", "b"]).unwrap_err();
    assert_eq!(taken(error), ("b".to_owned(), "server-2".to_owned()));
    assert_eq!((claimed(&others, ONE), claimed(&others, TWO)), (vec![], owned(&["b"])));

    // Two requests of one member: the second one has not claimed it, and does not release it if it fails.
    meddled.plan(claims(&others, ONE, &["c"]));
    assert_eq!(claim(&membership, ONE, &["c", "d"]).unwrap(), owned(&["d"]));
}

#[test]
fn who_takes_a_name_over_is_alone_as_well() {
    let (meddled, membership, others) = meddled();
    let (third, _) = join(&others, applicant(3)).unwrap();
    claim(&others, third, &["a"]).unwrap();
    wait(others.remove("server-3")).unwrap();
    // The first commit finds the claim, the second would take it over.
    meddled.plan(Act::After(Box::new(|| {})));
    meddled.plan(claims(&others, TWO, &["a"]));
    let error = claim(&membership, ONE, &["a"]).unwrap_err();
    assert_eq!(taken(error), ("a".to_owned(), "server-2".to_owned()));
    assert_eq!((claimed(&others, ONE), claimed(&others, TWO)), (vec![], owned(&["a"])));
}

#[test]
fn who_is_removed_meanwhile_claims_nothing() {
    let (meddled, membership, others) = meddled();
    let removes = {
        let others = others.clone();
        move || {
            wait(others.remove("server-2")).expect("it is there");
        }
    };
    meddled.plan(Act::After(Box::new(removes)));
    let removed = claim(&membership, TWO, &["a"]).unwrap_err();
    assert!(matches!(removed, MembershipError::Removed), "{removed}");
    assert!(claimed(&others, TWO).is_empty());
}

#[test]
fn who_releases_a_name_does_not_take_it_from_who_claims_it_meanwhile() {
    let (meddled, membership, others) = meddled();
    claim(&others, ONE, &["a", "b"]).unwrap();
    let changes_hands = {
        let others = others.clone();
        move || {
            release(&others, ONE, &["a"]);
            claim(&others, TWO, &["a"]).expect("it is free");
        }
    };
    // The first commit looks, the second one deletes.
    meddled.plan(Act::After(Box::new(|| {})));
    meddled.plan(Act::After(Box::new(changes_hands)));
    release(&membership, ONE, &["a", "b"]);
    assert_eq!((claimed(&others, ONE), claimed(&others, TWO)), (vec![], owned(&["a"])));
}

/// The name of a volume that was purged is used again before what was to release it has come.
#[test]
fn a_release_that_comes_late_does_not_take_what_was_claimed_after_it() {
    let (meddled, membership, others) = meddled();
    claim(&others, ONE, &["a", "b"]).unwrap();
    // The first commit looks, the second one deletes.
    meddled.plan(Act::After(Box::new(|| {})));
    meddled.plan(Act::Late);
    let unheard = wait(membership.release_names(ONE, &owned(&["a"]))).unwrap_err();
    assert!(matches!(unheard, MembershipError::Store(_)), "{unheard}");
    assert_eq!(claim(&membership, ONE, &["a"]).unwrap(), owned(&[]), "it is still its own");
    assert!(!meddled.deliver(), "it was claimed after that");
    assert_eq!(claimed(&others, ONE), owned(&["a", "b"]));
}

#[test]
fn a_store_that_fails_once_is_asked_once_more() {
    let (meddled, membership, others) = meddled();
    meddled.plan(Act::Lost);
    assert_eq!(claim(&membership, ONE, &["a"]).unwrap(), owned(&["a"]));
    meddled.plan(nothing());
    claim(&membership, ONE, &["b"]).expect("it was made");
    assert_eq!(claimed(&others, ONE), owned(&["a", "b"]));

    // What comes late finds what was made instead of it, or by others.
    meddled.plan(Act::Late);
    claim(&membership, ONE, &["c"]).unwrap();
    assert!(!meddled.deliver(), "it was made already");
    assert_eq!(claimed(&others, ONE), owned(&["a", "b", "c"]));
}

#[test]
fn a_store_that_goes_on_failing_is_said_to_and_not_asked_for_ever() {
    let (meddled, membership, others) = meddled();
    for acts in [[Act::Lost, Act::Lost], [nothing(), Act::Lost]] {
        for act in acts {
            meddled.plan(act);
        }
        let failed = claim(&membership, ONE, &["a"]).unwrap_err();
        let MembershipError::Store(StoreError::Failed(_)) = &failed else { panic!("{failed}") };
    }
    // It may have been made, and is found by who looks.
    assert_eq!(claimed(&others, ONE), owned(&["a"]));
    meddled.plan(Act::Lost);
    let failed = wait(membership.release_names(ONE, &owned(&["a"]))).unwrap_err();
    assert!(matches!(failed, MembershipError::Store(_)), "{failed}");
    meddled.deafen(true);
    let deaf = wait(membership.claimed_by(ONE)).unwrap_err();
    assert!(matches!(deaf, MembershipError::Store(_)), "{deaf}");
}

#[test]
fn of_many_that_claim_the_same_names_one_has_each() {
    const NAMES_COUNT: usize = 20;
    let store = store();
    let membership = group(&store);
    let mut members = vec![ONE];
    for number in 2..=4 {
        members.push(join(&membership, applicant(number)).unwrap().0);
    }
    thread::scope(|scope| {
        for member in &members {
            let membership = membership.clone();
            scope.spawn(move || {
                for number in 0..NAMES_COUNT {
                    // Who is refused goes on with the next one.
                    drop(claim(&membership, *member, &[&format!("vm-{number}")]));
                }
            });
        }
    });
    let claims: Vec<Vec<String>> = members.iter().map(|it| claimed(&membership, *it)).collect();
    let all: BTreeSet<&String> = claims.iter().flatten().collect();
    assert_eq!((claims.iter().map(Vec::len).sum::<usize>(), all.len()), (NAMES_COUNT, NAMES_COUNT));
}

#[derive(Debug, Clone)]
enum Request {
    Claim(MemberId, Vec<&'static str>),
    Release(MemberId, Vec<&'static str>),
    Remove,
    Join,
}

fn request() -> impl Strategy<Value = Request> {
    // Numbers of members that are, were and never are; names of which several are one.
    let member = || (1_u16..5).prop_map(MemberId);
    let names = || {
        let name = proptest::sample::select(vec!["a", "A", "b-c", "b_c", "B:C", "d", "e"]);
        proptest::collection::vec(name, 0..4)
    };
    prop_oneof![
        6 => (member(), names()).prop_map(|(member, names)| Request::Claim(member, names)),
        3 => (member(), names()).prop_map(|(member, names)| Request::Release(member, names)),
        1 => Just(Request::Remove),
        1 => Just(Request::Join),
    ]
}

/// Who has which name, by what it folds to.
type Model = BTreeMap<String, (MemberId, String)>;

/// What a claim makes of the model, and the names that are new; `None` where it is refused.
fn model_claim(
    model: &mut Model,
    members: &[MemberId],
    member: MemberId,
    names: &[&str],
) -> Option<Vec<String>> {
    let wanted: BTreeMap<String, &str> = names.iter().map(|&name| (folded(name), name)).collect();
    let is_free = |key: &String| {
        model.get(key).is_none_or(|(owner, _)| *owner == member || !members.contains(owner))
    };
    // A claim of nothing is refused to nobody.
    let is_member = members.contains(&member) || wanted.is_empty();
    if !is_member || !wanted.keys().all(is_free) {
        return None;
    }
    let mut new = Vec::new();
    for (key, name) in wanted {
        let former = model.insert(key, (member, name.to_owned()));
        if former.is_none_or(|(owner, _)| owner != member) {
            new.push(name.to_owned());
        }
    }
    new.sort();
    Some(new)
}

/// All claims that lie in the store.
fn claims_in(store: &Arc<dyn Store>) -> Model {
    let found = wait(store.range(Selection::prefix("names/"))).expect("it is read");
    let read = found.kvs.iter().map(|kv| {
        let claim = NameClaim::decode(&kv.value).expect("it was written here");
        assert_eq!(kv.key, name_key(&claim.name).into_bytes(), "each lies where it is looked for");
        (folded(&claim.name), (claim.member, claim.name))
    });
    read.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_history_of_names_is_that_of_the_model(
        requests in proptest::collection::vec(request(), 1..40),
    ) {
        let (store, membership) = pair();
        let mut model = Model::new();
        for request in requests {
            let members: Vec<MemberId> = read(&membership).members.keys().copied().collect();
            match request {
                Request::Claim(member, names) => {
                    let expected = model_claim(&mut model, &members, member, &names);
                    prop_assert_eq!(claim(&membership, member, &names).ok(), expected);
                }
                Request::Release(member, names) => {
                    release(&membership, member, &names);
                    model.retain(|_, (owner, name)| {
                        *owner != member || !names.contains(&name.as_str())
                    });
                }
                Request::Remove => drop(wait(membership.remove("server-2"))),
                Request::Join => drop(join(&membership, applicant(2))),
            }
            prop_assert_eq!(&claims_in(&store), &model);
        }
        for member in (1..5).map(MemberId) {
            let own = model.values().filter(|(owner, _)| *owner == member);
            let own: Vec<String> = own.map(|(_, name)| name.clone()).collect();
            prop_assert_eq!(claimed(&membership, member), own);
        }
    }
}
