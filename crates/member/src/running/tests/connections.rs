//! Hosts at members of a group that takes so many connections: over the wire.

use std::net::SocketAddr;
use std::path::Path;

use group::connections::GroupLimit;
use iscsi::pdu::LoginStatus;

use super::{host, iqn, let_in, wait_until};
use crate::events::Kind;
use crate::group_request::{GroupRequest, GroupShown, GroupState};
use crate::membership::tests::{free_at, join, make_group};
use crate::move_request::MoveRequest;
use crate::reply::Answer;
use crate::request::{Request, VolumeRequest};
use crate::testing::{Host, Rig};

/// A member with a volume for these hosts, where they find it, and the name of its target.
fn member(dir: &Path, name: &'static str, hosts: &[&str]) -> (Rig, SocketAddr, String) {
    let home = dir.join(name);
    let (rig, portal) = Rig::start_for_all(&home, &home.join("data"), None);
    rig.watch();
    rig.create(name);
    let shared = VolumeRequest::SetShared { name: name.to_owned(), shared: true };
    rig.ask(Request::Volume(shared)).expect("nobody is there");
    hosts.iter().for_each(|host| let_in(&rig, name, host));
    let target = iqn(&rig, name);
    (rig, portal, target)
}

const HOSTS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn state(rig: &Rig) -> GroupState {
    let shown = rig.ask(Request::Group(GroupRequest::Show));
    let Ok(Answer::Group(GroupShown::In(state))) = shown else { panic!("{shown:?}") };
    *state
}

fn taken(rig: &Rig) -> Option<u64> {
    state(rig).connections.map(|connections| connections.now.taken)
}

fn limit(rig: &Rig, number: u32) {
    let limit = GroupLimit::Number(number.try_into().expect("it is one"));
    rig.ask(Request::Group(GroupRequest::SetConnections { limit })).expect("the group does it");
}

#[test]
fn a_host_beyond_the_limit_of_the_group_is_refused_at_each_member_and_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let (left, at_left, on_left) = member(dir.path(), "left", &HOSTS);
    let (right, at_right, on_right) = member(dir.path(), "right", &HOSTS);
    make_group(&left, "left", free_at(106));
    join(&right, "right", free_at(107), (&left, false));
    let log_in = |portal, name: &str, target: &str| Host::log_in(portal, &host(name), target);
    let mut hosts = vec![log_in(at_left, "a", &on_left).expect("there is room")];
    hosts.push(log_in(at_left, "b", &on_left).expect("there is room"));
    wait_until("the other hears of it", || taken(&right) == Some(2));
    limit(&left, 3);
    wait_until("it hears of the limit", || {
        state(&right).connections.is_some_and(|connections| connections.now.limit == Some(3))
    });
    // Until its target has been told.
    std::thread::sleep(std::time::Duration::from_secs(2));
    hosts.push(log_in(at_right, "c", &on_right).expect("that is the third"));
    let full = Some(LoginStatus::OUT_OF_RESOURCES);
    assert_eq!(log_in(at_right, "d", &on_right).err(), full);
    wait_until("the first member hears of it", || taken(&left) == Some(3));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(log_in(at_left, "d", &on_left).err(), full);
    assert_eq!(log_in(at_left, "d", &on_left).err(), full);
    hosts[0] = log_in(at_left, "a", &on_left).expect("it comes back to its session");

    let told = |rig: &Rig| rig.told(Kind::ConnectionsRefused);
    wait_until("both tell of it", || !told(&left).is_empty() && !told(&right).is_empty());
    let said = told(&right).remove(0);
    let from = format!("{} at 127.0.0.1:", host("d"));
    assert!(said.starts_with(&from), "{said}");
    let what = format!("was refused at volume 'right' ({on_right}): the group 'lab' takes 3");
    assert!(said.contains(&what), "{said}");
    assert!(told(&left)[0].starts_with(&from) && told(&left)[0].contains("volume 'left'"));
    wait_until("one of them tells that most are taken", || {
        left.told(Kind::ConnectionsHigh).len() == 1
    });
    assert_eq!(right.told(Kind::ConnectionsHigh), [""; 0], "the first one does");

    hosts.truncate(1);
    wait_until("it has eased", || left.told(Kind::ConnectionsEased).len() == 1);
    wait_until("there is room again", || log_in(at_right, "e", &on_right).is_ok());
    right.stop();
    left.stop();
}

/// Whoever may log in somewhere would else keep all others out, under names that it claims.
#[test]
fn one_address_has_half_of_a_limit_and_each_host_that_is_refused_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let (rig, portal, target) = member(dir.path(), "alone", &HOSTS);
    make_group(&rig, "alone", free_at(173));
    limit(&rig, 4);
    // Until its target has been told.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let log_in = |name: &str| Host::log_in(portal, &host(name), &target);
    let _hosts = ["a", "b"].map(|name| log_in(name).expect("there is room"));
    for name in ["c", "d"] {
        assert_eq!(log_in(name).err(), Some(LoginStatus::OUT_OF_RESOURCES), "{name}");
    }
    let _again = log_in("a").expect("it comes back to its session");
    let told = || rig.told(Kind::ConnectionsRefused);
    wait_until("both are named", || told().len() == 2);
    for name in ["c", "d"] {
        let from = format!("{} at 127.0.0.1:", host(name));
        let why = "this host has that many itself: from one address a member takes 2 connections";
        let is_named = |said: &String| said.starts_with(&from) && said.ends_with(why);
        assert!(told().iter().any(is_named), "{:?}", told());
    }
    rig.stop();
}

/// Hosts of a volume would lose it: they log in anew at the destination, where they are refused.
#[test]
fn a_volume_does_not_move_into_a_pool_that_takes_fewer_than_its_hosts_have() {
    let dir = tempfile::tempdir().expect("a directory");
    let (left, at_left, on_left) = member(dir.path(), "left", &HOSTS);
    let (right, _, _) = member(dir.path(), "right", &HOSTS);
    make_group(&left, "left", free_at(170));
    join(&right, "right", free_at(171), (&left, false));
    let group = |request| left.ask(Request::Group(request)).expect("the group does it");
    group(GroupRequest::CreatePool { name: "fast".to_owned() });
    let limit_of_fast = |number: u32| {
        let limit = Some(number.try_into().expect("it is one"));
        group(GroupRequest::SetPoolConnections { name: "fast".to_owned(), limit });
    };
    limit_of_fast(1);
    group(GroupRequest::MoveMember { member: "right".to_owned(), pool: "fast".to_owned() });
    let log_in = |name: &str| Host::log_in(at_left, &host(name), &on_left).expect("there is room");
    let _hosts = ["a", "b"].map(log_in);
    let begin = || {
        let (name, pool) = ("left".to_owned(), Some("fast".to_owned()));
        left.ask(Request::Move(MoveRequest::Begin { name, to: None, pool }))
    };
    let mut said = String::new();
    wait_until("the other member has told what it is", || {
        said = begin().expect_err("there is no room for both").to_string();
        said.contains("connections")
    });
    let wanted = "'left' cannot move into the pool 'fast': hosts have 2 connections to it, and of the 1 that the pool \
                  takes 1 are free";
    assert!(said.starts_with(wanted), "{said}");
    limit_of_fast(2);
    begin().expect("there is room for both");
    right.stop();
    left.stop();
}

/// Until a start has heard the group, and from its first host on.
#[test]
fn a_member_that_starts_goes_by_the_limit_that_it_knew_from_its_first_host_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let (rig, _, _) = member(dir.path(), "alone", &HOSTS);
    make_group(&rig, "alone", free_at(172));
    limit(&rig, 1);
    let home = dir.path().join("alone");
    let kept = || std::fs::read_to_string(home.join("data/group/membership.json"));
    wait_until("the limit is kept", || kept().is_ok_and(|text| text.contains("\"group\": 1,")));
    rig.stop();
    // Nobody looks at connections yet, nor at the group.
    let (rig, portal) = Rig::start_for_all(&home, &home.join("data"), None);
    let target = iqn(&rig, "alone");
    let _first = Host::log_in(portal, &host("a"), &target).expect("there is room for one");
    let second = Host::log_in(portal, &host("b"), &target).err();
    assert_eq!(second, Some(LoginStatus::OUT_OF_RESOURCES));
    rig.stop();
}

/// As it was before there were limits: what a member bears alone is said when it is started.
#[test]
fn a_member_in_no_group_refuses_nobody_for_a_limit() {
    let dir = tempfile::tempdir().expect("a directory");
    let (rig, portal, target) = member(dir.path(), "alone", &HOSTS);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let hosts = HOSTS.map(|name| Host::log_in(portal, &host(name), &target).expect("it is let in"));
    let (taken, is_limited) = rig.with(async |member| {
        let taken = member.serving().targets().connections_taken();
        (taken, member.membership.allowance().is_some())
    });
    assert_eq!((taken, is_limited), (hosts.len(), false));
    assert_eq!(rig.told(Kind::ConnectionsRefused), [""; 0]);
    rig.stop();
}
