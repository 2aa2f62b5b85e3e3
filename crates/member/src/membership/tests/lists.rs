//! Lists of volumes, which are a member's own, and policies, which are the group's: changed at about the same time.

use array::api::VolumeSpec;
use group::access::{Entry, Record, Scope};
use group::settings::ListChange;

use super::node::free_at;
use super::sharing::{create, join, make_group, policy, start};
use crate::access_request::{AccessRequest, PolicyRequest};
use crate::configuration_request::{
    ConfigurationChange, ConfigurationRequest, NewVolume, VolumeChange, VolumeSet,
};
use crate::reply::Answer;
use crate::request::Request;
use crate::testing::volume;

/// The member that has the volume has not heard yet of the policy that was made for it.
#[test]
fn a_list_names_what_was_made_on_another_member_a_moment_ago() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (start(dir.path(), "left"), start(dir.path(), "right"));
    make_group(&left, "left", free_at(110));
    join(&right, "right", free_at(111), (&left, false));
    right.create("vm");
    for number in 0..12 {
        let name = format!("p{number}");
        create(&left, &name).unwrap();
        let entry = Entry::Policy { name: name.clone(), scope: Scope::Both };
        let list = AccessRequest::Add { volume: "vm".to_owned(), entry };
        right.ask(Request::Access(list)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let entry = Entry::Policy { name: "none".to_owned(), scope: Scope::Both };
    let list = AccessRequest::Add { volume: "vm".to_owned(), entry };
    let refused = right.ask(Request::Access(list)).unwrap_err().to_string();
    assert!(refused.contains("there is no policy 'none'"), "{refused}");
    right.stop();
    left.stop();
}

/// A volume leaves a policy, or goes offline, by the same change by which that gets a host; and the part that the
/// member has of it is refused.
#[test]
fn what_fails_half_way_lets_no_host_in_to_what_it_was_not_for() {
    let dir = tempfile::tempdir().unwrap();
    let rig = start(dir.path(), "left");
    make_group(&rig, "left", free_at(112));
    let record = |host: &str| -> Record { format!("iqn=iqn.2026-11.a:{host}").parse().unwrap() };
    for name in ["old", "new"] {
        create(&rig, name).unwrap();
    }
    let parts = record("good").parts().clone();
    policy(&rig, PolicyRequest::Add { name: "old".to_owned(), record: parts }).unwrap();
    rig.create("vm");
    let entry = |name: &str| Entry::Policy { name: name.to_owned(), scope: Scope::Both };
    let list = AccessRequest::Add { volume: "vm".to_owned(), entry: entry("old") };
    rig.ask(Request::Access(list)).expect("it is listed");
    let moves =
        VolumeSet { access: Some(ListChange::Listed(vec![entry("new")])), ..VolumeSet::default() };
    let goes = VolumeSet { online: Some(false), ..VolumeSet::default() };
    let mut hosts = vec![record("good")];
    for (set, host) in [(moves, "evil"), (goes, "worse")] {
        let before = hosts.len();
        hosts.push(record(host));
        let change = |new_volumes: Vec<NewVolume>| {
            let policies = vec![("old".to_owned(), Some(hosts.clone()))];
            let (name, set) = ("vm".to_owned(), set.clone());
            let volumes = vec![VolumeChange { name, set, ..VolumeChange::default() }];
            let change =
                ConfigurationChange { new_volumes, volumes, policies, ..Default::default() };
            rig.ask(Request::Configuration(ConfigurationRequest::Change(Box::new(change))))
        };
        let count = || {
            let shown = policy(&rig, PolicyRequest::Show { name: "old".to_owned() });
            let Ok(Answer::Policy(old)) = shown else { panic!("{shown:?}") };
            old.records.len()
        };
        let spec = VolumeSpec { size_bytes: 1 << 40, thick: true, ..volume("large") };
        let too_large = NewVolume { spec, set: VolumeSet::default() };
        change(vec![too_large]).expect_err("there is no room");
        assert_eq!(count(), before, "{set:?}");
        change(Vec::new()).expect("there is nothing to refuse");
        assert_eq!(count(), hosts.len(), "{set:?}");
    }
    rig.stop();
}
