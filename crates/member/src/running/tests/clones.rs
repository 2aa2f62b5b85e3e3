//! A clone is for nobody before the access list of its source is stored for it, and a new volume of a file before its
//! own is, also where volumes without a list are for everybody.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use array::api::{Cache, VolumeSpec, VolumeState};
use group::access::Entry;
use group::settings::ListChange;
use iscsi::pdu::LoginStatus;
use ring::wait::Guard;

use super::{COME_BACK, NO_SUCH_TARGET, NOT_LET_IN, host, iqn, let_in};
use crate::configuration_request::{
    ConfigurationChange, ConfigurationRequest, NewVolume as NewConfiguredVolume, VolumeSet,
};
use crate::reply::Answer;
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::running::RequestError;
use crate::testing::{Host, Rig, Silent};

/// A member whose volume "a", which has a snapshot "s", is for the host "good", and whose volume "open" for all.
fn begin(home: &Path, data: &Path) -> (Rig, SocketAddr) {
    let (rig, portal) = Rig::start_for_all(home, data, None);
    for name in ["a", "open"] {
        rig.create(name);
        let (volumes, name) = (vec![name.to_owned()], Some("s".to_owned()));
        rig.ask(Request::Snapshot(SnapshotRequest::Create { volumes, name })).expect("it is taken");
    }
    let_in(&rig, "a", "good");
    (rig, portal)
}

fn clone(volume: &str, to: &str) -> Request {
    let (volume, name, to) = (volume.to_owned(), "s".to_owned(), to.to_owned());
    Request::Snapshot(SnapshotRequest::Clone { volume, name, to })
}

/// How the login of a host to a volume is refused, if it is.
fn refusal(rig: &Rig, portal: SocketAddr, name: &str, volume: &'static str) -> Option<LoginStatus> {
    Host::log_in(portal, &host(name), &iqn(rig, volume)).err()
}

fn state(rig: &Rig, volume: &'static str) -> VolumeState {
    rig.with(async move |member| {
        let volumes = member.volumes();
        volumes.iter().find(|info| info.name == volume).expect("it is there").state
    })
}

/// Clones "a" as "b", up to where its list is to be stored, which waits for the guard.
fn begin_clone(rig: &Rig) -> (Guard<()>, Receiver<Result<Answer, RequestError>>) {
    begin_change(rig, clone("a", "b"))
}

/// Asks for what makes a volume "b", up to where its list is to be stored.
fn begin_change(
    rig: &Rig,
    request: Request,
) -> (Guard<()>, Receiver<Result<Answer, RequestError>>) {
    let (told, answer) = mpsc::channel();
    let held = rig.with(async move |member| {
        let held = member.settings().hold().await;
        let asked = member.clone();
        ring::spawn(async move {
            // A member that ends meanwhile tells nobody.
            drop(told.send(asked.answer(request, &Silent).await));
        });
        while !member.volumes().iter().any(|info| info.name == "b") {
            ring::sleep(Duration::from_millis(5)).await;
        }
        held
    });
    (held, answer)
}

#[test]
fn a_clone_is_for_those_that_its_source_is_for() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal) = begin(dir.path(), &dir.path().join("data"));
    rig.ask(clone("a", "b")).expect("it is made");
    rig.ask(clone("open", "c")).expect("it is made");
    let refusal = |name, volume| refusal(&rig, portal, name, volume);
    assert_eq!(refusal("bad", "b"), NOT_LET_IN);
    assert_eq!((refusal("good", "b"), refusal("bad", "c")), (None, None));
    rig.stop();
}

/// The process ends between the clone and its list.
#[test]
fn a_clone_that_a_cut_leaves_without_its_list_is_offline() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (rig, portal) = begin(dir.path(), &data);
    let (held, answer) = begin_clone(&rig);
    assert_eq!(refusal(&rig, portal, "bad", "b"), NO_SUCH_TARGET);
    drop(rig);
    drop(held);
    assert!(answer.try_recv().is_err(), "nobody was told that there is a clone");
    let (rig, portal) = Rig::start_for_all(dir.path(), &data, None);
    assert_eq!(state(&rig, "b"), VolumeState::Offline);
    for name in ["bad", "good"] {
        assert_eq!(refusal(&rig, portal, name, "b"), COME_BACK, "{name}");
    }
    assert_eq!(refusal(&rig, portal, "good", "a"), None);
    // It is given the list before it goes online.
    let online = VolumeRequest::SetOnline { name: "b".to_owned(), online: true };
    rig.ask(Request::Volume(online)).expect("it is done");
    assert_eq!(refusal(&rig, portal, "bad", "b"), NOT_LET_IN);
    assert_eq!(refusal(&rig, portal, "good", "b"), None);
    rig.stop();
}

/// The list cannot be stored.
#[test]
fn a_clone_whose_list_is_not_stored_is_offline() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal) = begin(dir.path(), &dir.path().join("data"));
    let (held, answer) = begin_clone(&rig);
    rig.with(async |member| member.settings().fail().await);
    drop(held);
    let refused = answer.recv().expect("an answer").expect_err("nothing is stored").to_string();
    assert!(refused.contains("not available"), "{refused}");
    assert_eq!(state(&rig, "b"), VolumeState::Offline);
    for name in ["bad", "good"] {
        assert_ne!(refusal(&rig, portal, name, "b"), None, "{name}");
    }
    rig.with(async |member| member.settle().await);
    for name in ["bad", "good"] {
        assert_eq!(refusal(&rig, portal, name, "b"), COME_BACK, "{name}");
    }
    assert_eq!(refusal(&rig, portal, "good", "a"), None, "the settings are there again");
    rig.stop();
}

/// The process ends between a new volume of a file of settings and its list.
#[test]
fn a_new_volume_that_a_cut_leaves_without_its_list_is_offline() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (rig, _) = begin(dir.path(), &data);
    let spec = VolumeSpec {
        name: "b".to_owned(),
        size_bytes: 16 << 20,
        level: None,
        thick: false,
        block_bytes: 512,
        cache: Cache::Durable,
        read_ahead_bytes: None,
    };
    let record = Entry::Record(format!("iqn={}", host("good")).parse().expect("a record"));
    let access = Some(ListChange::Listed(vec![record]));
    let set = VolumeSet { access, ..VolumeSet::default() };
    let new_volumes = vec![NewConfiguredVolume { spec, set }];
    let change = ConfigurationChange { new_volumes, ..ConfigurationChange::default() };
    let change = Request::Configuration(ConfigurationRequest::Change(Box::new(change)));
    let (held, _answer) = begin_change(&rig, change);
    drop(rig);
    drop(held);
    let (rig, portal) = Rig::start_for_all(dir.path(), &data, None);
    assert_eq!(state(&rig, "b"), VolumeState::Offline);
    assert_eq!(refusal(&rig, portal, "bad", "b"), COME_BACK);
    rig.stop();
}

/// The source has another name by now, and another volume has its name: the hosts of that are strangers.
#[test]
fn a_clone_has_nothing_of_a_volume_that_only_has_the_name_of_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal) = begin(dir.path(), &dir.path().join("data"));
    rig.ask(clone("open", "c")).expect("it is made");
    let ask = |request| rig.ask(Request::Volume(request)).expect("it is done");
    ask(VolumeRequest::SetOnline { name: "c".to_owned(), online: false });
    ask(VolumeRequest::Rename { name: "open".to_owned(), to: "old".to_owned() });
    // When volumes were made is known to the second.
    std::thread::sleep(Duration::from_millis(1100));
    rig.create("open");
    let_in(&rig, "open", "good");
    ask(VolumeRequest::SetOnline { name: "c".to_owned(), online: true });
    assert_eq!(refusal(&rig, portal, "bad", "open"), NOT_LET_IN);
    assert_eq!(refusal(&rig, portal, "bad", "c"), None, "it has no list");
    rig.stop();
}
