//! A clone is for nobody before the access list of its source is stored for it, and a new volume of a file before its
//! own is, also where volumes without a list are for everybody; what a cut leaves half made is completed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use array::api::{VolumeInfo, VolumeState};
use group::access::{Entry, Scope};
use group::settings::{Intent, ListChange, VolumeStep};
use iscsi::pdu::LoginStatus;
use ring::wait::Guard;

use super::{NO_SUCH_TARGET, NOT_LET_IN, host, iqn, let_in};
use crate::configuration_request::{
    ConfigurationChange, ConfigurationRequest, NewVolume as NewConfiguredVolume, VolumeSet,
};
use crate::events::Kind;
use crate::reply::Answer;
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::running::RequestError;
use crate::settings::Hosts;
use crate::testing::{Host, Rig, Silent, volume};

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

/// Whether hosts may have it, as far as the array knows; `None` if it is not there.
fn is_online(rig: &Rig, volume: &'static str) -> Option<bool> {
    rig.with(async move |member| {
        let volumes = member.volumes();
        let found = volumes.iter().find(|info| info.name == volume);
        found.map(|info| info.state == VolumeState::Online)
    })
}

/// The volumes that are half made.
fn intended(rig: &Rig) -> Vec<String> {
    rig.with(async |member| member.settings().intended())
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
        let first = member.settings().hold().await;
        let asked = member.clone();
        ring::spawn(async move {
            // A member that ends meanwhile tells nobody.
            drop(told.send(asked.answer(request, &Silent).await));
        });
        ring::sleep(Duration::from_millis(20)).await;
        // What stores the intent has waited for longer.
        drop(first);
        let held = member.settings().hold().await;
        let is_online = |info: &VolumeInfo| info.name == "b" && info.state == VolumeState::Online;
        // Where nothing is stored before, it does not get there.
        for _ in 0..400 {
            if member.volumes().iter().any(is_online) {
                break;
            }
            ring::sleep(Duration::from_millis(5)).await;
        }
        held
    });
    (held, answer)
}

/// A file that has new volumes for the host "good".
fn apply(names: &[&str]) -> Request {
    let new = |name: &&str| {
        let spec = volume(name);
        let record = Entry::Record(format!("iqn={}", host("good")).parse().expect("a record"));
        let access = Some(ListChange::Listed(vec![record]));
        NewConfiguredVolume { spec, set: VolumeSet { access, ..VolumeSet::default() } }
    };
    let new_volumes = names.iter().map(new).collect();
    let change = ConfigurationChange { new_volumes, ..ConfigurationChange::default() };
    Request::Configuration(ConfigurationRequest::Change(Box::new(change)))
}

/// "b" is as its making was to end.
fn check_complete(rig: &Rig, portal: SocketAddr) {
    assert_eq!(is_online(rig, "b"), Some(true));
    assert_eq!(refusal(rig, portal, "bad", "b"), NOT_LET_IN);
    assert_eq!(refusal(rig, portal, "good", "b"), None);
    assert_eq!(intended(rig), [""; 0]);
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
fn a_clone_that_a_cut_leaves_without_its_list_has_it_after_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (rig, portal) = begin(dir.path(), &data);
    let (held, answer) = begin_clone(&rig);
    assert_eq!(refusal(&rig, portal, "bad", "b"), NO_SUCH_TARGET);
    assert_eq!(intended(&rig), ["b"]);
    drop(rig);
    drop(held);
    assert!(answer.try_recv().is_err(), "nobody was told that there is a clone");
    let (rig, portal) = Rig::start_for_all(dir.path(), &data, None);
    check_complete(&rig, portal);
    rig.stop();
}

/// Also where targets are brought in line in the middle of it, as nobody does now.
#[test]
fn a_half_made_volume_is_for_nobody_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal) = begin(dir.path(), &dir.path().join("data"));
    let (held, answer) = begin_clone(&rig);
    rig.with(async |member| member.serving().settle().await);
    for name in ["bad", "good"] {
        assert_eq!(refusal(&rig, portal, name, "b"), NOT_LET_IN, "{name}");
    }
    let shown = rig.ask(Request::Volume(VolumeRequest::Show { name: "b".to_owned() }));
    let Ok(Answer::Volume(shown)) = shown else { panic!("it is shown") };
    let why = "it is half made: who may use it is not stored yet";
    assert_eq!((shown.not_served.as_deref(), shown.hosts), (Some(why), Hosts::Nobody));
    drop(held);
    answer.recv().expect("an answer").expect("it is made");
    check_complete(&rig, portal);
    rig.stop();
}

/// What a cut leaves at each step.
#[test]
fn a_start_completes_what_was_made_and_forgets_what_was_not() {
    for (made, online) in [(false, false), (true, false), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let (rig, _) = begin(dir.path(), &data);
        rig.with(async move |member| {
            let state = member.settings().state().expect("they are read");
            let a = member.array().volume("a").expect("it is there");
            let settings = state.volumes[&a.id].clone().expect("it reads");
            let intent = Intent { settings, online: true };
            let intents = BTreeMap::from([("b".to_owned(), intent)]);
            member.settings().intend(intents).await.expect("it is stored");
            let array = member.array();
            if made {
                array.clone_snapshot("a", "s", "b", online).await.expect("it is made");
                // Its source is gone by the time of the start, and nothing of its list with it.
                array.set_volume_online("a", false).await.expect("it is offline");
                array.delete_volume("a").await.expect("it is in the bin");
                array.purge_volume("a").await.expect("it is gone");
            }
        });
        drop(rig);
        let (rig, portal) = Rig::start_for_all(dir.path(), &data, None);
        if made {
            let told = rig.told(Kind::VolumeCompleted);
            assert_eq!(
                told,
                ["the making of volume b was cut off: it is complete now, with its access list"]
            );
            check_complete(&rig, portal);
        } else {
            assert_eq!((is_online(&rig, "b"), intended(&rig)), (None, Vec::new()));
            rig.create("b");
            assert_eq!(refusal(&rig, portal, "bad", "b"), None, "another volume of the name");
        }
        rig.stop();
    }
}

/// What was to be stored beside it is not there after a cut.
#[test]
fn a_completed_volume_whose_list_names_what_is_not_there_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    rig.create("a");
    rig.with(async |member| {
        let record = Entry::Record("chap=al".parse().expect("a record"));
        let policy = Entry::Policy { name: "web".to_owned(), scope: Scope::Both };
        let access = Some(ListChange::Listed(vec![record, policy]));
        let step = VolumeStep { access, shared: None };
        let intents =
            BTreeMap::from([("b".to_owned(), Intent::new(&step, true).expect("it can be"))]);
        member.settings().intend(intents).await.expect("it is stored");
        member.array().create_volume_offline(volume("b")).await.expect("it is made");
    });
    drop(rig);
    let rig = Rig::start(dir.path(), &data);
    let told = rig.told(Kind::VolumeCompleted);
    let wanted = "it is complete now, with its access list, which names what is not there and lets nobody in by it: policy \
                  'web', CHAP user 'al'";
    assert!(told.len() == 1 && told[0].ends_with(wanted), "{told:?}");
    let show = VolumeRequest::Show { name: "b".to_owned() };
    let Ok(Answer::Volume(shown)) = rig.ask(Request::Volume(show)) else { panic!("it is shown") };
    let names = |name: &str| std::collections::BTreeSet::from([name.to_owned()]);
    assert_eq!((&shown.not_there.policies, &shown.not_there.users), (&names("web"), &names("al")));
    rig.stop();
}

/// One that an operator deleted meanwhile stays where it is, and has its list when it comes back.
#[test]
fn a_half_made_volume_in_the_recycle_bin_is_given_its_list() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (rig, _) = begin(dir.path(), &data);
    let (held, _answer) = begin_clone(&rig);
    rig.with(async |member| {
        let array = member.array();
        array.set_volume_online("b", false).await.expect("it is offline");
        array.delete_volume("b").await.expect("it is in the bin");
    });
    drop(rig);
    drop(held);
    let (rig, portal) = Rig::start_for_all(dir.path(), &data, None);
    assert_eq!(is_online(&rig, "b"), Some(false));
    let ask = |request| rig.ask(Request::Volume(request)).expect("it is done");
    ask(VolumeRequest::Undelete { name: "b".to_owned() });
    ask(VolumeRequest::SetOnline { name: "b".to_owned(), online: true });
    check_complete(&rig, portal);
    rig.stop();
}

/// The list cannot be stored.
#[test]
fn a_clone_whose_list_is_not_stored_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal) = begin(dir.path(), &dir.path().join("data"));
    let (held, answer) = begin_clone(&rig);
    rig.with(async |member| member.settings().fail().await);
    drop(held);
    let refused = answer.recv().expect("an answer").expect_err("nothing is stored").to_string();
    assert!(refused.contains("not available"), "{refused}");
    assert_eq!(is_online(&rig, "b"), None);
    rig.with(async |member| member.settle().await);
    assert_eq!(intended(&rig), [""; 0], "the settings are there again");
    assert_eq!(refusal(&rig, portal, "good", "a"), None);
    rig.ask(clone("a", "b")).expect("it is made");
    check_complete(&rig, portal);
    rig.stop();
}

/// Nothing is made of which it cannot be stored what it is to become.
#[test]
fn nothing_with_a_list_is_made_while_settings_are_not_available() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, _) = begin(dir.path(), &dir.path().join("data"));
    rig.with(async |member| member.settings().fail().await);
    for request in [clone("a", "b"), apply(&["b"])] {
        let refused = rig.ask(request).expect_err("nothing is stored").to_string();
        assert!(refused.contains("not available"), "{refused}");
        assert_eq!(is_online(&rig, "b"), None);
    }
    rig.stop();
}

/// The volume that has the name is not the one that was to be made.
#[test]
fn what_is_refused_leaves_no_intent() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal) = begin(dir.path(), &dir.path().join("data"));
    for (request, why) in [
        (clone("a", "open"), "there is a volume \"open\" already"),
        (apply(&["b", "open"]), "there is a volume \"open\" already"),
        (apply(&["b", "no name"]), "no name"),
    ] {
        let refused = rig.ask(request).expect_err("it cannot be").to_string();
        assert!(refused.contains(why), "{refused}");
        assert_eq!((is_online(&rig, "b"), intended(&rig)), (None, Vec::new()));
    }
    assert_eq!(refusal(&rig, portal, "bad", "open"), None, "it is for all, as before");
    rig.stop();
}

/// The process ends between new volumes of a file of settings and their lists.
#[test]
fn new_volumes_that_a_cut_leaves_without_their_lists_have_them_after_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (rig, portal) = begin(dir.path(), &data);
    let (held, _answer) = begin_change(&rig, apply(&["c", "d", "b"]));
    assert_eq!(refusal(&rig, portal, "bad", "b"), NO_SUCH_TARGET);
    drop(rig);
    drop(held);
    let (rig, portal) = Rig::start_for_all(dir.path(), &data, None);
    for volume in ["c", "d"] {
        assert_eq!(is_online(&rig, volume), Some(true));
        assert_eq!(refusal(&rig, portal, "bad", volume), NOT_LET_IN);
        assert_eq!(refusal(&rig, portal, "good", volume), None);
    }
    check_complete(&rig, portal);
    rig.stop();
}

#[test]
fn new_volumes_of_a_file_are_for_those_on_their_lists() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal) = Rig::start_for_all(dir.path(), &dir.path().join("data"), None);
    rig.ask(apply(&["b"])).expect("it is made");
    check_complete(&rig, portal);
    rig.stop();
}
