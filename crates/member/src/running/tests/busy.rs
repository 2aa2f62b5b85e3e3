//! A host that must go is slow to leave, as its disk still works for it.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use group::access::{Entry, Parts, Scope};
use group::settings::Settings;

use super::{NOT_LET_IN, host, iqn, let_in, wait_until};
use crate::access_request::{AccessRequest, PolicyRequest};
use crate::events::Kind;
use crate::request::{Request, VolumeRequest};
use crate::testing::{Host, Rig};

/// Longer than anybody waits for what a host has at the disk.
const DISK_WAIT: Duration = Duration::from_secs(10);

const POLICY: &str = "hosts";

/// Two volumes for the hosts "stays" and "later", and for "slow" by a policy.
fn prepare(rig: &Rig) {
    let name = || POLICY.to_owned();
    let record = Parts { iqn: Some(host("slow")), ..Parts::default() };
    for request in
        [PolicyRequest::Create { name: name() }, PolicyRequest::Add { name: name(), record }]
    {
        rig.ask(Request::Policy(request)).expect("it is stored");
    }
    for volume in ["a", "b"] {
        rig.create(volume);
        let entry = Entry::Policy { name: name(), scope: Scope::Both };
        let add = AccessRequest::Add { volume: volume.to_owned(), entry };
        rig.ask(Request::Access(add)).expect("it is stored");
        let_in(rig, volume, "stays");
        let_in(rig, volume, "later");
        let shared = VolumeRequest::SetShared { name: volume.to_owned(), shared: true };
        rig.ask(Request::Volume(shared)).expect("it is stored");
    }
}

/// The others stay, and may come anew, then and later: nothing closes the target to all. Other targets that the change
/// is about have it at once.
#[test]
fn who_is_slow_to_leave_takes_nobody_along() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal) = Rig::start_for_all(dir.path(), &dir.path().join("data"), None);
    prepare(&rig);
    let (target, other) = (iqn(&rig, "a"), iqn(&rig, "b"));
    let log_in = |name: &str| Host::log_in(portal, &host(name), &target);
    let mut slow = log_in("slow").expect("it is let in");
    let mut stays = log_in("stays").expect("it is let in");
    let mut elsewhere = Host::log_in(portal, &host("slow"), &other).expect("it is let in");

    // What it registers is being saved, for as long as nobody else changes what is stored: the change of access is
    // stored before, and comes to the targets meanwhile.
    let held = rig.with(async |member| {
        let remove =
            async |settings: &mut Settings| settings.remove_from_policy(POLICY, 1).await.map(drop);
        member.settings().change(remove).await.expect("it is stored");
        member.settings().hold().await
    });
    slow.register(7);
    wait_until("it is to be saved", || rig.with(async |member| member.settings().is_to_save()));
    let begun = Instant::now();
    let (told, is_applied) = mpsc::channel();
    rig.with(async move |member| {
        ring::spawn(async move {
            member.serving().apply_access().await;
            told.send(()).expect("it is waited for");
        });
    });
    assert_eq!(elsewhere.test(), None, "it is not connected any more");
    assert_eq!(Host::log_in(portal, &host("slow"), &other).err(), NOT_LET_IN);
    assert_eq!(slow.answer(), None, "it is not connected any more");
    assert_eq!(log_in("slow").err(), NOT_LET_IN);
    assert!(
        begun.elapsed() < DISK_WAIT && is_applied.try_recv().is_err(),
        "its task is waited for"
    );
    is_applied.recv().expect("it is told");
    assert!(begun.elapsed() >= DISK_WAIT);
    let told = rig.told(Kind::SessionsEnded);
    let busy = format!("who may use {target} has changed, and ");
    assert!(told.iter().any(|text| text.starts_with(&busy)), "{told:?}");
    assert!(rig.told(Kind::VolumeNotServed).is_empty());

    assert_eq!(log_in("slow").err(), NOT_LET_IN);
    assert_eq!(stays.test(), Some(0));
    let mut later = log_in("later").expect("it is let in");
    drop(held);
    wait_until("it is saved", || !rig.with(async |member| member.settings().is_to_save()));
    rig.with(async |member| member.settle().await);
    for host in [&mut stays, &mut later] {
        assert_eq!(host.test(), Some(0));
    }
    drop(later);
    log_in("later").expect("it is let in");
    assert_eq!(log_in("slow").err(), NOT_LET_IN);
    rig.stop();
}
