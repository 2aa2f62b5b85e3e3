//! A volume that two hosts use does not become one for a single host.

use std::sync::mpsc;
use std::time::Duration;

use group::access::Entry;
use group::settings::ListChange;

use super::{COME_BACK, NOT_LET_IN, host, iqn, let_in};
use crate::access_request::AccessRequest;
use crate::configuration_request::{
    ConfigurationChange, ConfigurationRequest, VolumeChange, VolumeSet,
};
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::running::RequestError;
use crate::testing::{Host, Rig, Silent};

fn set_shared(rig: &Rig, shared: bool) -> Result<(), RequestError> {
    rig.ask(Request::Volume(VolumeRequest::SetShared { name: "w".into(), shared })).map(drop)
}

fn change(rig: &Rig, set: VolumeSet) -> Result<(), RequestError> {
    let volumes = vec![VolumeChange { name: "w".to_owned(), set, ..VolumeChange::default() }];
    let change = Box::new(ConfigurationChange { volumes, ..ConfigurationChange::default() });
    rig.ask(Request::Configuration(ConfigurationRequest::Change(change))).map(drop)
}

fn hosts_named(refused: Result<(), RequestError>) -> Vec<String> {
    match refused {
        Err(RequestError::SeveralHosts { name, snapshot: None, hosts }) if name == "w" => hosts,
        other => panic!("{other:?}"),
    }
}

fn entry(name: &str) -> Entry {
    Entry::Record(format!("iqn={}", host(name)).parse().expect("a record"))
}

#[test]
fn a_volume_that_two_hosts_use_stays_shared() {
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal) = Rig::start_for_all(home.path(), &home.path().join("data"), None);
    rig.create("w");
    set_shared(&rig, true).expect("nobody is there");
    let both = ["a", "b"].map(|name| {
        let_in(&rig, "w", name);
        host(name)
    });
    let target = iqn(&rig, "w");
    let mut there =
        both.clone().map(|name| Host::log_in(portal, &name, &target).expect("it is shared"));
    assert_eq!(hosts_named(set_shared(&rig, false)), both);
    let alone = |access| VolumeSet { shared: Some(false), access, ..VolumeSet::default() };
    assert_eq!(hosts_named(change(&rig, alone(None))), both);
    let listed = ListChange::Listed(vec![entry("b"), entry("c"), entry("a")]);
    assert_eq!(hosts_named(change(&rig, alone(Some(listed)))), both);
    assert!(there.iter_mut().all(|host| host.test() == Some(0)), "nothing was changed");
    // Where the list leaves one, or the volume goes offline, there are not two any more.
    let listed = ListChange::Listed(vec![entry("b"), entry("c")]);
    change(&rig, alone(Some(listed))).expect("one goes");
    let [a, b] = &mut there;
    assert_eq!((a.test(), b.test()), (None, Some(0)));
    set_shared(&rig, true).expect("one is there");
    rig.ask(Request::Access(AccessRequest::Add { volume: "w".into(), entry: entry("a") }))
        .expect("it is shared");
    let again = Host::log_in(portal, &both[0], &target).expect("it is on the list again");
    assert_eq!(hosts_named(set_shared(&rig, false)), both);
    change(&rig, VolumeSet { online: Some(false), ..alone(None) }).expect("it goes offline");
    drop(again);
    rig.stop();
}

/// A snapshot that hosts write to is for whom its volume is for, and as many of them.
#[test]
fn a_snapshot_that_two_hosts_write_to_keeps_its_volume_shared() {
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal) = Rig::start_for_all(home.path(), &home.path().join("data"), None);
    rig.create("w");
    let ask = |request| rig.ask(Request::Snapshot(request)).expect("it is done");
    let (volume, name) = (|| "w".to_owned(), || "s".to_owned());
    ask(SnapshotRequest::Create { volumes: vec![volume()], name: Some(name()) });
    ask(SnapshotRequest::SetWritable { volume: volume(), name: name(), fresh: false });
    let target = rig.with(async move |member| member.serving().iqn_of_snapshot("w", "s"));
    let both = ["a", "b"].map(host);
    let log_in = |name: &String| Host::log_in(portal, name, &target);
    let of_snapshot = |refused: Result<(), RequestError>| match refused {
        Err(RequestError::SeveralHosts { name, snapshot: Some(snapshot), hosts }) => {
            assert_eq!((name, snapshot), (volume(), "s".to_owned()));
            hosts
        }
        other => panic!("{other:?}"),
    };
    let add = |words: &str| {
        let entry = Entry::Record(words.parse().expect("a record"));
        rig.ask(Request::Access(AccessRequest::Add { volume: volume(), entry })).map(drop)
    };
    set_shared(&rig, true).expect("nobody is there");
    add("ip=127.0.0.1 for=both").expect("it is shared");
    let mut hosts = both.clone().map(|name| log_in(&name).expect("all are let in"));
    assert_eq!(of_snapshot(set_shared(&rig, false)), both);
    let alone = |access| VolumeSet { shared: Some(false), access, ..VolumeSet::default() };
    assert_eq!(of_snapshot(change(&rig, alone(None))), both);
    let offline = VolumeSet { online: Some(false), ..alone(None) };
    assert_eq!(of_snapshot(change(&rig, offline)), both, "the snapshot stays online");
    assert!(hosts.iter_mut().all(|host| host.test() == Some(0)), "nothing was changed");
    change(&rig, alone(Some(ListChange::Listed(vec![entry("b")])))).expect("one goes");
    let [a, b] = &mut hosts;
    assert_eq!((a.test(), b.test()), (None, Some(0)));
    rig.stop();
}

/// The check has seen one host, and the rule is not stored yet.
#[test]
fn a_second_host_that_comes_before_the_rule_does_not_stay() {
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal) = Rig::start_for_all(home.path(), &home.path().join("data"), None);
    rig.create("w");
    set_shared(&rig, true).expect("nobody is there");
    for name in ["a", "b"] {
        let_in(&rig, "w", name);
    }
    let target = iqn(&rig, "w");
    let log_in = |name: &str| Host::log_in(portal, &host(name), &target);
    let mut first = log_in("a").expect("it is shared");
    let (told, answer) = mpsc::channel();
    let held = rig.with(async move |member| {
        let held = member.settings().hold().await;
        let asked = member.clone();
        ring::spawn(async move {
            let set = VolumeRequest::SetShared { name: "w".into(), shared: false };
            drop(told.send(asked.answer(Request::Volume(set), &Silent).await));
        });
        // It looks who is there, and then waits for what is held.
        ring::sleep(Duration::from_millis(300)).await;
        held
    });
    let second = log_in("b");
    assert_eq!(second.err(), COME_BACK, "it may be let in, and nobody knows yet");
    let again = log_in("a").expect("who is there may come back");
    rig.with(async move |_| drop(held));
    answer.recv().expect("an answer").expect("one host is there");
    assert_eq!(log_in("b").err(), NOT_LET_IN);
    assert_eq!(first.test(), None, "it came back");
    drop(again);
    // Where the rule is refused, others come as before.
    set_shared(&rig, true).expect("one is there");
    let both = ["a", "b"].map(|name| log_in(name).expect("it is shared"));
    assert_eq!(hosts_named(set_shared(&rig, false)).len(), 2);
    log_in("a").expect("it is as it was");
    drop(both);
    rig.stop();
}
