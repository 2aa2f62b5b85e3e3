//! What is set on one member of a group is set on all: members with arrays, over an etcd that they run.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use group::access::{Entry, Parts, Scope};
use group::membership::NamesUsed;

use super::node::{free_at, remove};
use crate::access_request::{AccessRequest, ChapRequest, PolicyRequest, SecretText};
use crate::events::Kind;
use crate::group_request::{GroupRequest, GroupShown, GroupState, SecretWord};
use crate::reply::Answer;
use crate::request::Request;
use crate::running::tests::wait_until;
use crate::testing::Rig;

pub(crate) fn start(dir: &Path, name: &str) -> Rig {
    let home = dir.join(name);
    let rig = Rig::start(&home, &home.join("data"));
    rig.watch();
    rig
}

fn asked(rig: &Rig, request: GroupRequest) -> Result<Answer, String> {
    rig.ask(Request::Group(request)).map_err(|error| error.to_string())
}

/// The group that a member is in; `None` in none.
fn shown(rig: &Rig) -> Option<GroupState> {
    match asked(rig, GroupRequest::Show).expect("it is shown") {
        Answer::Group(GroupShown::In(state)) => Some(*state),
        Answer::Group(GroupShown::None) => None,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn make_group(rig: &Rig, member: &str, listen: SocketAddr) {
    let (name, member) = ("lab".to_owned(), Some(member.to_owned()));
    asked(rig, GroupRequest::Create { name, member, listen, address: None }).expect("a group");
}

/// What the interface does at both ends.
pub(crate) fn join(
    rig: &Rig,
    member: &str,
    listen: SocketAddr,
    (at, replace_settings): (&Rig, bool),
) {
    let prepare = GroupRequest::Prepare { member: Some(member.to_owned()), listen };
    let prepared = asked(rig, prepare).expect("it can join");
    let Answer::Applicant(applicant) = prepared else { panic!("{prepared:?}") };
    let lifetime = Duration::from_secs(3600);
    let made = asked(at, GroupRequest::CreateTicket { lifetime }).expect("a ticket");
    let Answer::JoinTicket(ticket) = made else { panic!("{made:?}") };
    let (id, secret) = (ticket.ticket.id, SecretWord(ticket.ticket.secret));
    let admit = GroupRequest::Admit { id, secret, applicant: applicant.clone() };
    let admitted = asked(at, admit).expect("it is let in");
    let Answer::Admission(admission) = admitted else { panic!("{admitted:?}") };
    asked(rig, GroupRequest::Join { applicant, admission, replace_settings }).expect("it joins");
}

pub(super) fn policy(rig: &Rig, request: PolicyRequest) -> Result<Answer, String> {
    rig.ask(Request::Policy(request)).map_err(|error| error.to_string())
}

pub(super) fn create(rig: &Rig, name: &str) -> Result<(), String> {
    policy(rig, PolicyRequest::Create { name: name.to_owned() }).map(drop)
}

/// The names of the policies of a member.
fn policies(rig: &Rig) -> Vec<String> {
    match policy(rig, PolicyRequest::List) {
        Ok(Answer::Policies(all)) => all.into_iter().map(|policy| policy.name).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_share_what_is_set_from_the_moment_they_join_and_after_each_start() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (start(dir.path(), "left"), start(dir.path(), "right"));
    create(&left, "esx").unwrap();
    create(&right, "hyperv").unwrap();
    make_group(&left, "left", free_at(101));
    join(&right, "right", free_at(102), (&left, false));
    let state = shown(&right).expect("it is in one");
    assert!(state.shares && state.settings_differ.is_empty(), "{state:?}");
    assert_eq!(policies(&right), ["esx", "hyperv"]);
    wait_until("the first hears of it", || policies(&left) == ["esx", "hyperv"]);
    create(&left, "kvm").unwrap();
    wait_until("the second hears of it", || policies(&right) == ["esx", "hyperv", "kvm"]);

    // The group's settings name no volumes: the members say what theirs name.
    right.create("vm");
    let entry = Entry::Policy { name: "kvm".to_owned(), scope: Scope::Both };
    let list = AccessRequest::Add { volume: "vm".to_owned(), entry };
    right.ask(Request::Access(list)).expect("it is listed");
    wait_until("the first hears of that", || {
        left.with(async |member| {
            let uses_it = |uses: &NamesUsed| uses.policies.contains("kvm");
            member.membership().named_on_another(uses_it).is_some()
        })
    });
    let refused = policy(&left, PolicyRequest::Delete { name: "kvm".to_owned() }).unwrap_err();
    let why = "policy 'kvm' is on access lists of volumes of the member 'right', be it one of its own \
               where it keeps settings of its own: remove it there first";
    assert_eq!(refused, why);

    // Its next start follows the group before the store has answered: nothing is set on it alone.
    right.stop();
    let right = start(dir.path(), "right");
    let mut refused = Vec::new();
    wait_until("the store answers", || match create(&right, "xen") {
        Ok(()) => true,
        Err(why) => {
            refused.push(why);
            false
        }
    });
    let is_silent = |why: &String| why.starts_with("nothing was changed, as this is set for all");
    assert!(refused.iter().all(is_silent), "{refused:?}");
    let all = ["esx", "hyperv", "kvm", "xen"];
    wait_until("the first hears of it", || policies(&left) == all);

    // The store goes with the first of two.
    left.stop();
    let refused = create(&right, "late").unwrap_err();
    assert!(is_silent(&refused), "{refused}");
    assert_eq!(policies(&right), all, "what was set holds");
    right.stop();
}

/// Its directory says that it shares the group's settings, and its array is another one: what is set there must not be
/// written over.
#[test]
fn the_settings_of_another_array_are_not_those_of_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (start(dir.path(), "left"), start(dir.path(), "right"));
    create(&left, "esx").unwrap();
    make_group(&left, "left", free_at(105));
    join(&right, "right", free_at(106), (&left, false));
    right.stop();
    let alone = start(dir.path(), "other");
    create(&alone, "mine").unwrap();
    alone.stop();
    let of_group = |name: &str| dir.path().join(name).join("data").join("group");
    fs::rename(of_group("right"), of_group("other")).expect("it is moved");
    let right = start(dir.path(), "other");
    wait_until("it is told", || right.told(Kind::SettingsNotShared).len() == 1);
    let told = right.told(Kind::SettingsNotShared);
    assert!(told[0].ends_with("its array is not the one that it joined with"), "{told:?}");
    assert_eq!(policies(&right), ["mine"]);
    let refused = create(&right, "late").unwrap_err();
    assert!(refused.starts_with("nothing was changed"), "{refused}");
    assert_eq!(policies(&left), ["esx"]);
    right.stop();
    left.stop();
}

#[test]
fn a_member_whose_settings_differ_says_so_and_takes_the_groups_when_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (start(dir.path(), "left"), start(dir.path(), "right"));
    for rig in [&left, &right] {
        create(rig, "esx").unwrap();
    }
    let record = Parts { iqn: Some("iqn.2026-11.a:b".to_owned()), ..Parts::default() };
    policy(&right, PolicyRequest::Add { name: "esx".to_owned(), record }).unwrap();
    make_group(&left, "left", free_at(103));
    join(&right, "right", free_at(104), (&left, false));
    let state = shown(&right).expect("it is in one");
    assert_eq!((state.shares, state.settings_differ), (false, vec!["policy 'esx'".to_owned()]));
    let refused = asked(&right, GroupRequest::Share { replace: false }).unwrap_err();
    let why = "this member keeps settings of its own, as they differ from those of the group in policy 'esx'";
    assert_eq!(refused, why);
    let told = right.told(Kind::SettingsDiffer);
    assert!(told.len() == 1 && told[0].contains("differ in policy 'esx'"), "once: {told:?}");
    create(&right, "mine").expect("it sets its own");
    right.create("vm");
    let entry = Entry::Policy { name: "mine".to_owned(), scope: Scope::Both };
    let list = AccessRequest::Add { volume: "vm".to_owned(), entry };
    right.ask(Request::Access(list)).expect("it is listed");
    create(&right, "unused").expect("it sets its own");
    asked(&right, GroupRequest::Share { replace: true }).expect("it takes the group's");
    let state = shown(&right).expect("it is in one");
    assert!(state.shares && state.settings_differ.is_empty(), "{state:?}");
    let shown_policy = policy(&right, PolicyRequest::Show { name: "esx".to_owned() });
    let Ok(Answer::Policy(esx)) = shown_policy else { panic!("{shown_policy:?}") };
    assert!(esx.records.is_empty(), "that of the group");
    wait_until("the first has what it lacked", || policies(&left) == ["esx", "mine"]);

    // Who leaves keeps what there was, and is alone with what he sets.
    asked(&left, remove("right")).expect("it is removed");
    wait_until("it has left", || shown(&right).is_none());
    create(&right, "alone").unwrap();
    assert_eq!(policies(&right), ["alone", "esx", "mine"]);
    assert_eq!(policies(&left), ["esx", "mine"]);

    // One that is told so when it joins takes the group's at once.
    policy(&right, PolicyRequest::Delete { name: "esx".to_owned() }).unwrap();
    create(&right, "esx").unwrap();
    let record = Parts { iqn: Some("iqn.2026-11.a:c".to_owned()), ..Parts::default() };
    policy(&right, PolicyRequest::Add { name: "esx".to_owned(), record }).unwrap();
    join(&right, "right", free_at(104), (&left, true));
    let state = shown(&right).expect("it is in one");
    assert!(state.shares && state.settings_differ.is_empty(), "{state:?}");
    right.stop();
    left.stop();
}

fn chap(rig: &Rig, request: ChapRequest) -> Result<(), String> {
    rig.ask(Request::Chap(request)).map(drop).map_err(|error| error.to_string())
}

/// The names of the CHAP users of a member.
fn users(rig: &Rig) -> Vec<String> {
    match rig.ask(Request::Chap(ChapRequest::List)) {
        Ok(Answer::ChapUsers(all)) => all.users.into_iter().map(|user| user.user).collect(),
        other => panic!("{other:?}"),
    }
}

/// It missed that somebody was taken away: that is nothing that differs, and he must not come back for all.
#[test]
fn a_member_that_comes_back_to_the_group_brings_nobody_back() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (start(dir.path(), "left"), start(dir.path(), "right"));
    let (user, secret) = ("eve".to_owned(), SecretText("0123456789abcdef".to_owned()));
    chap(&right, ChapRequest::Add { user, secret }).unwrap();
    make_group(&left, "left", free_at(107));
    join(&right, "right", free_at(108), (&left, false));
    wait_until("the first hears of her", || users(&left) == ["eve"]);
    let told = right.told(Kind::SettingsShared);
    assert!(told.iter().any(|text| text.contains("CHAP user 'eve'")), "{told:?}");
    asked(&left, remove("right")).expect("it is removed");
    wait_until("it has left", || shown(&right).is_none());
    chap(&left, ChapRequest::Delete { user: "eve".to_owned() }).unwrap();

    join(&right, "right", free_at(108), (&left, false));
    let state = shown(&right).expect("it is in one");
    let differ = "CHAP user 'eve', which the group does not have".to_owned();
    assert_eq!((state.shares, state.settings_differ), (false, vec![differ]));
    assert!(users(&left).is_empty() && users(&right) == ["eve"]);
    asked(&right, GroupRequest::Share { replace: true }).expect("it takes the group's");
    assert!(users(&left).is_empty() && users(&right).is_empty());
    right.stop();
    left.stop();
}

/// The settings are not the group's then, whatever its files say.
#[test]
fn a_member_that_cannot_take_over_what_is_set_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let left = start(dir.path(), "left");
    make_group(&left, "left", free_at(109));
    assert_eq!(shown(&left).map(|state| (state.shares, state.settings_fault)), Some((true, None)));
    left.with(async |member| member.membership().note_fault("there is no room"));
    let state = shown(&left).expect("it is in one");
    assert_eq!((state.shares, state.settings_fault.as_deref()), (false, Some("there is no room")));
    create(&left, "esx").expect("it is tried again after each change");
    wait_until("it is taken over", || shown(&left).is_some_and(|state| state.shares));
    left.stop();
}
