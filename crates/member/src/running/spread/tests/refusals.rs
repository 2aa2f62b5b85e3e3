//! What is not there for volumes that lie on several members.

use group::access::Entry;
use group::schedules::Timing;

use super::*;
use crate::access_request::AccessRequest;
use crate::configuration_request::{
    ConfigurationChange, ConfigurationRequest, VolumeChange, VolumeSet,
};
use crate::move_request::MoveRequest;
use crate::request::SnapshotRequest;
use crate::schedule_request::{NewSchedule, ScheduleRequest};

fn vm() -> String {
    "vm".to_owned()
}

#[test]
fn what_only_other_volumes_can_is_refused_by_name() {
    let lab = Lab::new(1, 190);
    let plan = lab.make("vm");
    write(lab.home(), &plan.id, 0..1, 1);
    let schedule = NewSchedule {
        name: "daily".to_owned(),
        volumes: vec![vm()],
        timing: Timing::Every { seconds: 24 * 60 * 60 },
        keep: 3,
        paused: true,
    };
    let larger = VolumeChange {
        name: vm(),
        set: VolumeSet::default(),
        size_bytes: Some(9 * PAGE),
        read_ahead_bytes: None,
        cached: None,
    };
    let larger = ConfigurationChange { volumes: vec![larger], ..Default::default() };
    let (volume, name) = (vm, || "s".to_owned());
    let all = [
        Request::Volume(VolumeRequest::Rename { name: vm(), to: "vm2".to_owned() }),
        Request::Volume(VolumeRequest::Resize { name: vm(), size_bytes: 1, shrink: true }),
        Request::Volume(VolumeRequest::SetReadAhead { name: vm(), bytes: 0 }),
        Request::Volume(VolumeRequest::SetCached { name: vm(), cached: false }),
        Request::Volume(VolumeRequest::Delete { name: vm() }),
        Request::Volume(VolumeRequest::Undelete { name: vm() }),
        Request::Volume(VolumeRequest::Purge { name: vm() }),
        Request::Snapshot(SnapshotRequest::Create { volumes: vec![vm()], name: None }),
        Request::Snapshot(SnapshotRequest::Rollback { volume: volume(), name: name() }),
        Request::Snapshot(SnapshotRequest::Clone { volume: vm(), name: name(), to: name() }),
        Request::Schedule(ScheduleRequest::Create(schedule)),
        Request::Move(MoveRequest::Begin { name: vm(), to: None, pool: None }),
        Request::Configuration(ConfigurationRequest::Change(Box::new(larger))),
    ];
    for request in all {
        let asked = format!("{request:?}");
        let why = lab.home().ask(request).expect_err(&asked).to_string();
        assert!(why.contains("'vm' is spread over several members"), "{asked}: {why}");
    }
    // All that is set by its number works.
    let record = "iqn=iqn.2026-11.example:host".parse().expect("a record");
    let add = AccessRequest::Add { volume: vm(), entry: Entry::Record(record) };
    lab.home().ask(Request::Access(add)).expect("it is stored");
    let shared = VolumeRequest::SetShared { name: vm(), shared: true };
    volume_of(lab.home(), shared).expect("it is stored");
    set_online(lab.home(), "vm", false);
    set_online(lab.home(), "vm", true);
    let reserved = VolumeRequest::Reservations { name: vm() };
    volume_of(lab.home(), reserved).expect("it is served");
    check(lab.home(), &plan.id, 0..1, 1);
    // Nobody names a slice, nor makes a volume of its name.
    let hidden = hidden_name(&plan.id);
    let show = VolumeRequest::Show { name: hidden };
    let why = volume_of(lab.home(), show).expect_err("it is hidden").to_string();
    assert!(why.contains("keeps for itself"), "{why}");
    for name in ["vm", "VM"] {
        let create = VolumeRequest::Create(super::volume(name));
        volume_of(lab.home(), create).expect_err("its name is taken");
    }
    assert_eq!(listed(lab.home()), [("vm".to_owned(), PAGES * PAGE)]);
    lab.end();
}

/// It asks again and again: each of these would wait for as long as a disk hangs.
#[test]
fn who_asks_for_a_slice_that_is_being_changed_waits_for_a_while() {
    let lab = Lab::new(2, 124);
    let plan = lab.make("vm");
    let (home, slice) = (lab.members[0], plan.seats[1].slice.clone());
    let refused = lab.rig(1).with(async move |member| {
        let _changing = member.slice_turn(&slice).await.expect("nobody has it");
        let begun = member.begin_slice(home, &slice, Openings::default()).await;
        begun.expect_err("somebody has it").to_string()
    });
    assert!(refused.contains("is being changed"), "{refused}");
    lab.end();
}
