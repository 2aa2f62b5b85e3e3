//! Volumes of two members of a group: each way to a name asks the group for it, and each way from one gives it back.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use group::membership::MembershipError;

use crate::configuration_request::{
    ConfigurationChange, ConfigurationRequest, NewVolume, VolumeSet,
};
use crate::group_request::{GroupRequest, SecretWord};
use crate::membership::GroupError;
use crate::membership::tests::free_at;
use crate::reply::Answer;
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::running::RequestError;
use crate::testing::{Rig, volume};

/// A member at this address, and where it is to answer others.
fn member(home: &Path, name: &str, number: u8) -> (Rig, SocketAddr) {
    let home = home.join(name);
    std::fs::create_dir_all(&home).expect("a directory");
    let rig = Rig::start(&home, &home.join("data"));
    rig.watch();
    (rig, free_at(number))
}

fn of_group(rig: &Rig, request: GroupRequest) -> Answer {
    rig.ask(Request::Group(request)).expect("the group does it")
}

/// Two members of one group.
fn pair(home: &Path, numbers: [u8; 2]) -> [Rig; 2] {
    let (left, listen) = member(home, "left", numbers[0]);
    let (name, named) = ("lab".to_owned(), Some("left".to_owned()));
    of_group(&left, GroupRequest::Create { name, member: named, listen, address: None });
    let (right, listen) = member(home, "right", numbers[1]);
    let lifetime = Duration::from_secs(3600);
    let made = of_group(&left, GroupRequest::CreateTicket { lifetime });
    let Answer::JoinTicket(made) = made else { panic!("{made:?}") };
    let prepare = GroupRequest::Prepare { member: Some("right".to_owned()), listen };
    let prepared = of_group(&right, prepare);
    let Answer::Applicant(applicant) = prepared else { panic!("{prepared:?}") };
    let (id, secret) = (made.ticket.id, SecretWord(made.ticket.secret));
    let admit = GroupRequest::Admit { id, secret, applicant: applicant.clone() };
    let admitted = of_group(&left, admit);
    let Answer::Admission(admission) = admitted else { panic!("{admitted:?}") };
    of_group(&right, GroupRequest::Join { applicant, admission, replace_settings: false });
    [left, right]
}

fn ask(rig: &Rig, request: VolumeRequest) -> Result<Answer, RequestError> {
    rig.ask(Request::Volume(request))
}

fn create(rig: &Rig, name: &str) -> Result<Answer, RequestError> {
    ask(rig, VolumeRequest::Create(volume(name)))
}

/// The member that has the name.
fn taken(refused: Result<Answer, RequestError>) -> String {
    match refused {
        Err(RequestError::Group(GroupError::Membership(MembershipError::VolumeNameTaken {
            member_name,
            ..
        }))) => member_name,
        other => panic!("{other:?}"),
    }
}

/// Tries until it is done: a name is given back soon behind the request that has left it.
fn soon(mut request: impl FnMut() -> Result<Answer, RequestError>) {
    let begun = Instant::now();
    while let Err(error) = request() {
        assert!(begun.elapsed() < Duration::from_secs(60), "in vain: {error}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn each_way_to_a_name_asks_the_group_and_each_way_from_it_gives_it_back() {
    let home = tempfile::tempdir().expect("a directory");
    let [left, right] = pair(home.path(), [97, 98]);
    create(&left, "vm").expect("nobody has it");
    create(&right, "other").expect("nobody has it");
    assert_eq!(taken(create(&right, "VM")), "left");
    let rename = |name: &str, to: &str| {
        let (name, to) = (name.to_owned(), to.to_owned());
        VolumeRequest::Rename { name, to }
    };
    assert_eq!(taken(ask(&right, rename("other", "vm"))), "left");
    let snapshot = |request| right.ask(Request::Snapshot(request));
    let (volumes, name) = (vec!["other".to_owned()], Some("s".to_owned()));
    snapshot(SnapshotRequest::Create { volumes, name }).expect("a snapshot");
    let clone = |to: &str| {
        let (volume, name) = ("other".to_owned(), "s".to_owned());
        snapshot(SnapshotRequest::Clone { volume, name, to: to.to_owned() })
    };
    assert_eq!(taken(clone("vm")), "left");
    let configure = |names: [&str; 2]| {
        let set = VolumeSet::default();
        let new = names.map(|name| NewVolume { spec: volume(name), set: set.clone() });
        let change = ConfigurationChange { new_volumes: new.into(), ..Default::default() };
        right.ask(Request::Configuration(ConfigurationRequest::Change(Box::new(change))))
    };
    assert_eq!(taken(configure(["free", "vm"])), "left");
    let Ok(Answer::Volumes(all)) = ask(&right, VolumeRequest::List) else { panic!("no list") };
    assert_eq!(all.len(), 1, "nothing was made: {all:?}");

    // What was refused has kept none of its names, and a rename leaves the one before.
    soon(|| create(&left, "free"));
    ask(&left, rename("vm", "vm2")).expect("nobody has it");
    soon(|| clone("vm"));
    assert_eq!(taken(create(&left, "Vm")), "right");
    // One in the recycle bin comes back by its name.
    let offline = VolumeRequest::SetOnline { name: "vm".to_owned(), online: false };
    ask(&right, offline).expect("it is there");
    ask(&right, VolumeRequest::Delete { name: "vm".to_owned() }).expect("it is there");
    assert_eq!(taken(create(&left, "vm")), "right");
    ask(&right, VolumeRequest::Purge { name: "vm".to_owned() }).expect("it is in the bin");
    soon(|| create(&left, "vm"));
    assert_eq!(taken(configure(["a", "vm2"])), "left");
    // One who asks while the name is here, and makes a volume when that is purged, has it.
    left.with(async |member| {
        let claim = member.claim(vec!["vm".to_owned()]).await.expect("it is here");
        ring::spawn(async move {
            ring::sleep(Duration::from_secs(600)).await;
            drop(claim);
        });
    });
    let offline = VolumeRequest::SetOnline { name: "vm".to_owned(), online: false };
    ask(&left, offline).expect("it is there");
    ask(&left, VolumeRequest::Delete { name: "vm".to_owned() }).expect("it is there");
    ask(&left, VolumeRequest::Purge { name: "vm".to_owned() }).expect("it is in the bin");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(taken(create(&right, "vm")), "left");
    configure(["a", "b"]).expect("nobody has these");
    assert_eq!(taken(create(&left, "a")), "right");
    right.stop();
    left.stop();
}
