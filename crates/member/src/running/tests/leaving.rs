//! Volumes that leave for another member, and those that have come from one: whom they are for, what hosts know them by,
//! and who may change them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use group::membership::MoveId;
use group::ownership::MemberId;
use group::schedules::Timing;
use group::settings::{
    Adopted, Arrival, Departure, Stage, UnitKey, UnitRecord, Units, VolumeSettings,
};
use iscsi::pdu::LoginStatus;
use target::RemoteTarget;

use super::{COME_BACK, NO_SUCH_TARGET, host, iqn, wait_until};
use crate::access_request::AccessRequest;
use crate::configuration_request::{
    ConfigurationChange, ConfigurationRequest, ScheduleToDo, VolumeChange,
};
use crate::reply::{Answer, Volume};
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::running::{Member, MoveError, RequestError};
use crate::schedule_request::{NewSchedule, ScheduleChange, ScheduleRequest};
use crate::testing::{Host, Rig, Silent, volume};

const MOVED: Option<LoginStatus> = Some(LoginStatus::MOVED_TEMPORARILY);
/// These members are in none: nobody but an operator could say where it is to be.
const IN_NO_GROUP: &str = "its move was never decided, and an operator has to settle it: this member is in no group any more";
const SERIAL: &str = "FEDCBA9876543210-V7";
const PREFIX: &str = "iqn.2026-11.dev.drystone:fedcba98";

/// Stores that a volume leaves, or how far it has.
async fn depart(member: &Member, name: &str, stage: Stage) {
    let volume = member.array().volume(name).expect("it is there").id;
    let former = member.settings().departure(volume).map(|departure| departure.id);
    let departure = Departure {
        id: former.unwrap_or_else(|| MoveId::draw().expect("randomness")),
        group: "0".repeat(32).parse().expect("it is one"),
        volume,
        name: name.to_owned(),
        from: MemberId(1),
        to: MemberId(7),
        to_name: String::new(),
        serial: String::new(),
        iqns: vec![member.serving().iqn_of(name)],
        stage,
    };
    member.settings().depart(&departure).await.expect("it is stored");
}

/// The same, and has that come true.
pub(crate) fn leave(rig: &Rig, name: &'static str, stage: Stage) {
    rig.with(async move |member| {
        depart(&member, name, stage).await;
        member.settle().await;
    });
}

/// It leaves no more.
fn stay(rig: &Rig, name: &'static str) {
    rig.with(async move |member| {
        let volume = member.array().volume(name).expect("it is there").id;
        member.settings().forget_departure(volume).await.expect("it is stored");
        member.settle().await;
    });
}

/// Hosts find this target at another member, at these portals of it; without a target they find none.
fn elsewhere(rig: &Rig, target: Option<&str>, portals: &[SocketAddr]) {
    let remote = RemoteTarget { portals: portals.to_vec().into(), portal_group: 0, shown_to: None };
    let all: BTreeMap<String, RemoteTarget> =
        target.into_iter().map(|iqn| (iqn.to_owned(), remote.clone())).collect();
    rig.with(async move |member| member.serving().set_elsewhere(all));
}

fn ask(rig: &Rig, request: VolumeRequest) -> Result<Answer, RequestError> {
    rig.ask(Request::Volume(request))
}

fn snapshot(rig: &Rig, request: SnapshotRequest) -> Answer {
    rig.ask(Request::Snapshot(request)).expect("it is done")
}

fn shown(rig: &Rig, name: &str) -> Volume {
    let answer = ask(rig, VolumeRequest::Show { name: name.to_owned() }).expect("it is there");
    let Answer::Volume(volume) = answer else { panic!("{answer:?}") };
    *volume
}

/// The names of all volumes, in their order.
fn listed(rig: &Rig) -> Vec<String> {
    let answer = ask(rig, VolumeRequest::List).expect("there is a list");
    let Answer::Volumes(volumes) = answer else { panic!("{answer:?}") };
    let mut names: Vec<String> = volumes.into_iter().map(|volume| volume.info.name).collect();
    names.sort();
    names
}

/// How a host is refused, if it is.
fn refusal(portal: SocketAddr, target: &str) -> Option<LoginStatus> {
    Host::log_in(portal, &host("good"), target).err()
}

fn purge(rig: &Rig, name: &str) {
    let name = || name.to_owned();
    for request in [
        VolumeRequest::SetOnline { name: name(), online: false },
        VolumeRequest::Delete { name: name() },
        VolumeRequest::Purge { name: name() },
    ] {
        ask(rig, request).expect("it is done");
    }
}

#[test]
fn a_volume_that_leaves_is_served_to_nobody_in_whatever_life() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let (rig, portal) = Rig::start_for_all(home.path(), &data, None);
    ["vm", "other"].iter().for_each(|name| rig.create(name));
    let target = iqn(&rig, "vm");
    assert_eq!(refusal(portal, &target), None);
    leave(&rig, "vm", Stage::Leaving);
    assert_eq!(refusal(portal, &target), COME_BACK);
    let why = Some(IN_NO_GROUP.to_owned());
    assert_eq!(shown(&rig, "vm").not_served, why);
    drop(rig);
    let (rig, portal) = Rig::start_for_all(home.path(), &data, None);
    assert_eq!(refusal(portal, &target), COME_BACK);
    assert_eq!((shown(&rig, "vm").not_served, listed(&rig).len()), (why, 2));
    assert_eq!(refusal(portal, &iqn(&rig, "other")), None);
    stay(&rig, "vm");
    assert_eq!(refusal(portal, &target), None);
    assert_eq!(shown(&rig, "vm").not_served, None);
    rig.stop();
}

/// A member that has given a volume away, and was started since; and the portal at which it tells hosts so.
fn left(home: &Path) -> (Rig, SocketAddr, String) {
    let data = home.join("data");
    let rig = Rig::start(home, &data);
    rig.create("vm");
    let target = iqn(&rig, "vm");
    leave(&rig, "vm", Stage::Leaving);
    leave(&rig, "vm", Stage::Gone);
    drop(rig);
    let (rig, portal) = Rig::start_for_all(home, &data, None);
    (rig, portal, target)
}

#[test]
fn a_volume_that_has_left_is_not_here() {
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal, target) = left(home.path());
    assert_eq!(listed(&rig), Vec::<String>::new());
    let name = || "vm".to_owned();
    for request in [
        Request::Volume(VolumeRequest::Show { name: name() }),
        Request::Volume(VolumeRequest::SetOnline { name: name(), online: true }),
        Request::Snapshot(SnapshotRequest::List { volume: Some(name()) }),
        Request::Snapshot(SnapshotRequest::Diff { volume: name(), from: None, to: None }),
        Request::Access(AccessRequest::List { volume: name() }),
    ] {
        let asked = format!("{request:?}");
        let refused = rig.ask(request);
        assert!(
            matches!(refused, Err(RequestError::Move(MoveError::NotDecided { .. }))),
            "{asked}: {refused:?}"
        );
    }
    let second = ask(&rig, VolumeRequest::Create(volume("vm")));
    assert!(matches!(second, Err(RequestError::Move(MoveError::NotDecided { .. }))), "{second:?}");
    rig.with(async |member| {
        let volume = member.array().volume("vm").expect("it is there").id;
        member.array().set_volume_online("vm", false).await.expect("it is there");
        member.array().delete_volume("vm").await.expect("it is there");
        member.settle().await;
        assert!(member.volumes().is_empty(), "nor is it in the recycle bin");
        member.array().purge_volume("vm").await.expect("it is deleted");
        member.settings().forget_departure(volume).await.expect("it is stored");
        member.settle().await;
    });
    assert_eq!(refusal(portal, &target), NO_SUCH_TARGET);
    rig.create("vm");
    assert_eq!(refusal(portal, &target), None);
    rig.stop();
}

#[test]
fn hosts_of_a_volume_that_has_left_come_back_until_they_can_be_sent_to_it() {
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal, target) = left(home.path());
    let there = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    assert_eq!(refusal(portal, &target), COME_BACK, "nobody has told where it is");
    elsewhere(&rig, Some(&target), &[]);
    assert_eq!(refusal(portal, &target), COME_BACK, "who has it is away");
    elsewhere(&rig, Some(&target), &[there]);
    assert_eq!(refusal(portal, &target), MOVED);
    rig.with(async |member| member.settle().await);
    assert_eq!(refusal(portal, &target), MOVED, "it stays so");
    elsewhere(&rig, Some(&target), &[]);
    assert_eq!(refusal(portal, &target), COME_BACK, "who has it is away again");
    elsewhere(&rig, None, &[]);
    rig.with(async |member| member.settle().await);
    assert_eq!(refusal(portal, &target), COME_BACK, "who had it tells of it no more");
    rig.stop();
}

fn schedule(name: &str) -> NewSchedule {
    NewSchedule {
        name: name.to_owned(),
        volumes: vec!["vm".to_owned()],
        timing: Timing::Every { seconds: 24 * 60 * 60 },
        keep: 3,
        paused: true,
    }
}

/// What a request may change of a volume: what was sent of it before would not be what operators were answered.
fn changes() -> Vec<Request> {
    let name = || "vm".to_owned();
    let volumes = [
        VolumeRequest::Create(volume("vm")),
        VolumeRequest::Resize { name: name(), size_bytes: 32 << 20, shrink: false },
        VolumeRequest::Rename { name: name(), to: "free".to_owned() },
        VolumeRequest::Rename { name: "other".to_owned(), to: name() },
        VolumeRequest::SetOnline { name: name(), online: true },
        VolumeRequest::SetOnline { name: name(), online: false },
        VolumeRequest::SetReadAhead { name: name(), bytes: 0 },
        VolumeRequest::SetShared { name: name(), shared: true },
        VolumeRequest::SetCached { name: name(), cached: false },
        VolumeRequest::Delete { name: name() },
        VolumeRequest::Undelete { name: name() },
        VolumeRequest::Purge { name: name() },
    ];
    let s = || "s".to_owned();
    let snapshots = [
        SnapshotRequest::Create { volumes: vec!["other".to_owned(), name()], name: None },
        SnapshotRequest::Rollback { volume: name(), name: s() },
        SnapshotRequest::Clone { volume: name(), name: s(), to: "free".to_owned() },
        SnapshotRequest::Delete { volume: name(), name: s() },
        SnapshotRequest::SetOnline { volume: name(), name: s(), online: true },
        SnapshotRequest::SetWritable { volume: name(), name: s(), fresh: false },
    ];
    let daily = || "daily".to_owned();
    let change = ScheduleChange { paused: Some(true), ..ScheduleChange::default() };
    let schedules = [
        ScheduleRequest::Set { name: daily(), change },
        ScheduleRequest::Delete { name: daily() },
        ScheduleRequest::Create(schedule("weekly")),
    ];
    let set = VolumeChange { name: name(), cached: Some(false), ..VolumeChange::default() };
    let configurations = [
        ConfigurationChange { volumes: vec![set], ..ConfigurationChange::default() },
        ConfigurationChange {
            schedules: vec![ScheduleToDo::Delete { name: daily() }],
            ..ConfigurationChange::default()
        },
    ];
    let mut all: Vec<Request> = volumes.into_iter().map(Request::Volume).collect();
    all.extend(snapshots.into_iter().map(Request::Snapshot));
    all.extend(schedules.into_iter().map(Request::Schedule));
    all.push(Request::Access(AccessRequest::Clear { volume: name() }));
    let change = |change| ConfigurationRequest::Change(Box::new(change));
    all.extend(configurations.into_iter().map(change).map(Request::Configuration));
    all
}

/// A member whose volume `vm` has a snapshot `s` and a schedule `daily`.
fn begin(home: &Path) -> Rig {
    let rig = Rig::start(home, &home.join("data"));
    ["vm", "other"].iter().for_each(|name| rig.create(name));
    let (volumes, name) = (vec!["vm".to_owned()], Some("s".to_owned()));
    snapshot(&rig, SnapshotRequest::Create { volumes, name });
    let create = ScheduleRequest::Create(schedule("daily"));
    rig.ask(Request::Schedule(create)).expect("a schedule");
    rig
}

#[test]
fn what_leaves_can_be_looked_at_and_not_changed() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = begin(home.path());
    leave(&rig, "vm", Stage::Leaving);
    let before = shown(&rig, "vm");
    let clear = VolumeRequest::ClearReservations { name: "vm".to_owned() };
    for request in changes().into_iter().chain([Request::Volume(clear)]) {
        let asked = format!("{request:?}");
        let refused = rig.ask(request);
        let is_refused = matches!(
            &refused,
            Err(RequestError::Move(MoveError::NotDecided { name, .. })) if name == "vm"
        );
        assert!(is_refused, "{asked}: {refused:?}");
    }
    assert_eq!(shown(&rig, "vm"), before);
    let volume = Some("vm".to_owned());
    let Answer::Snapshots(all) = snapshot(&rig, SnapshotRequest::List { volume }) else {
        panic!("no snapshots")
    };
    assert_eq!(all.len(), 1);
    let show = ScheduleRequest::Show { name: "daily".to_owned() };
    rig.ask(Request::Schedule(show)).expect("it is there");
    let (name, to) = ("other".to_owned(), "another".to_owned());
    ask(&rig, VolumeRequest::Rename { name, to }).expect("it stays");
    rig.stop();
}

/// Whoever has waited behind the end of a move's copy would change what was sent, and nobody would see that.
#[test]
fn a_change_that_has_waited_while_a_volume_began_to_leave_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = begin(home.path());
    for request in changes() {
        let asked = format!("{request:?}");
        let refused = rig.with(async move |member| {
            let alone = member.taking.take().await;
            let turn = member.turn.take().await;
            let (done, answer) = ring::oneshot();
            let asker = member.clone();
            ring::spawn(async move {
                done.send(asker.answer(request, &Silent).await);
            });
            ring::sleep(Duration::from_millis(20)).await;
            depart(&member, "vm", Stage::Leaving).await;
            drop((alone, turn));
            answer.await
        });
        let is_refused =
            matches!(refused, Some(Err(RequestError::Move(MoveError::NotDecided { .. }))));
        assert!(is_refused, "{asked}: {refused:?}");
        stay(&rig, "vm");
    }
    assert_eq!(listed(&rig), ["other", "vm"]);
    rig.stop();
}

/// Has a volume come from another array: all is stored of it, and it is not yet this member's.
fn arrive(rig: &Rig, name: &'static str) -> MoveId {
    rig.with(async move |member| {
        let volume = member.array().volume(name).expect("it is there").id;
        let id = MoveId::draw().expect("randomness");
        let arrival = Arrival {
            id: id.clone(),
            group: "0".repeat(32).parse().expect("it is one"),
            volume,
            name: name.to_owned(),
            from: MemberId(7),
            from_name: String::new(),
            serial: String::new(),
            online: true,
        };
        let adopted = Adopted { prefix: PREFIX.to_owned(), serial: SERIAL.to_owned() };
        let (settings, units) = (VolumeSettings::default(), Units::from([(reservations(), None)]));
        let arrived = member.settings().arrive(&arrival, &settings, &adopted, &units).await;
        arrived.expect("it is stored");
        member.settle().await;
        id
    })
}

/// It is this member's.
fn adopt(rig: &Rig, id: MoveId) {
    rig.with(async move |member| {
        member.settings().forget_arrival(&id).await.expect("it is stored");
        member.settle().await;
    });
}

fn reservations() -> UnitKey {
    UnitKey { serial: SERIAL.to_owned(), record: UnitRecord::Reservations }
}

#[test]
fn a_volume_of_another_array_is_for_nobody_before_it_is_this_members() {
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal) = Rig::start_for_all(home.path(), &home.path().join("data"), None);
    rig.create("vm");
    let (own, target) = (iqn(&rig, "vm"), format!("{PREFIX}:vm"));
    let id = arrive(&rig, "vm");
    assert_eq!(refusal(portal, &target), COME_BACK, "whose it is is not known yet");
    assert_eq!(refusal(portal, &own), NO_SUCH_TARGET);
    let why = shown(&rig, "vm").not_served;
    assert_eq!(why.as_deref(), Some(IN_NO_GROUP));
    let early = ask(&rig, VolumeRequest::Delete { name: "vm".to_owned() });
    assert!(matches!(early, Err(RequestError::Move(MoveError::NotDecided { .. }))), "{early:?}");
    adopt(&rig, id);
    assert_eq!(refusal(portal, &target), None);
    assert_eq!(shown(&rig, "vm").not_served, None);
    rig.stop();
}

#[test]
fn a_volume_of_another_array_is_to_hosts_what_it_was_there() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let (rig, portal) = Rig::start_for_all(home.path(), &data, None);
    ["vm", "other"].iter().for_each(|name| rig.create(name));
    let id = arrive(&rig, "vm");
    adopt(&rig, id);
    let target = format!("{PREFIX}:vm");
    assert_eq!(shown(&rig, "vm").iqn, target);
    let (volume, name) = (|| "vm".to_owned(), || "s".to_owned());
    snapshot(&rig, SnapshotRequest::Create { volumes: vec![volume()], name: Some(name()) });
    let online = |online| {
        let (volume, name) = (volume(), name());
        snapshot(&rig, SnapshotRequest::SetOnline { volume, name, online })
    };
    let Answer::Snapshot(served) = online(true) else { panic!("no snapshot") };
    assert_eq!(served.iqn, Some(format!("{target}:s")));
    assert_eq!(refusal(portal, &format!("{target}:s")), None);
    online(false);
    purge(&rig, "other");
    assert!(rig.units().knows(&reservations()), "what its unit keeps goes with nobody else");
    drop(rig);

    let (rig, portal) = Rig::start_for_all(home.path(), &data, None);
    assert_eq!(refusal(portal, &target), None);
    let [serial, of_view] = rig.with(async |member| {
        let info = member.array().volume("vm").expect("it is there");
        let names = member.serving().names();
        [names.volume_serial(&info), names.serial_of(info.id)]
    });
    assert_eq!(serial, SERIAL);
    assert_ne!(of_view, SERIAL);
    let second = ask(&rig, VolumeRequest::Create(crate::testing::volume("VM")));
    assert!(matches!(second, Err(RequestError::SameTarget { .. })), "{second:?}");
    let rename = || VolumeRequest::Rename { name: volume(), to: "VM_2".to_owned() };
    wait_until("its hosts have gone", || ask(&rig, rename()).is_ok());
    assert_eq!(shown(&rig, "VM_2").iqn, format!("{PREFIX}:vm-2"));
    assert_eq!(refusal(portal, &format!("{PREFIX}:vm-2")), None);
    assert_eq!(refusal(portal, &target), NO_SUCH_TARGET);
    purge(&rig, "VM_2");
    assert!(!rig.units().knows(&reservations()), "it goes with the volume");
    rig.stop();
}

/// By a name and a serial number of this array it would be another disk to its hosts.
#[test]
fn a_volume_is_for_nobody_while_it_is_not_known_what_hosts_know_it_by() {
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal) = Rig::start_for_all(home.path(), &home.path().join("data"), None);
    rig.create("vm");
    let own = iqn(&rig, "vm");
    let id = arrive(&rig, "vm");
    adopt(&rig, id);
    rig.with(async |member| {
        let volume = member.array().volume("vm").expect("it is there").id;
        member.settings().spoil_adopted(volume);
        member.settle().await;
        member.forget_units().await;
    });
    for target in [own, format!("{PREFIX}:vm")] {
        assert_ne!(refusal(portal, &target), None, "{target}");
    }
    let why = shown(&rig, "vm").not_served.expect("it is not served");
    assert!(why.contains("was stored in version 2"), "{why}");
    assert!(rig.units().knows(&reservations()), "whose that is is not known");
    rig.stop();
}

#[test]
fn what_arrives_is_seen_by_nobody() {
    const HIDDEN: &str = ".arriving-0123456789abcdef";
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal) = Rig::start_for_all(home.path(), &home.path().join("data"), None);
    rig.create("vm");
    rig.with(async |member| {
        member.array().create_volume(volume(HIDDEN)).await.expect("there is room");
        member.array().snapshot(&[(HIDDEN, Some("s"))]).await.expect("it is there");
        member.settle().await;
        assert!(member.find(HIDDEN).is_err());
    });
    assert_eq!(listed(&rig), ["vm"]);
    let Answer::Snapshots(all) = snapshot(&rig, SnapshotRequest::List { volume: None }) else {
        panic!("no list")
    };
    assert!(all.is_empty(), "{all:?}");
    assert_eq!(refusal(portal, &iqn(&rig, HIDDEN)), NO_SUCH_TARGET);
    let name = || HIDDEN.to_owned();
    for request in [
        VolumeRequest::Show { name: name() },
        VolumeRequest::Delete { name: name() },
        VolumeRequest::Create(volume(HIDDEN)),
        VolumeRequest::Rename { name: "vm".to_owned(), to: name() },
    ] {
        let refused = ask(&rig, request);
        assert!(matches!(refused, Err(RequestError::Reserved(_))), "{refused:?}");
    }
    rig.stop();
}
