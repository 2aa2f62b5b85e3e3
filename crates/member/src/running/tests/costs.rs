//! What a change of settings costs: counted in targets, not in time.

use group::access::{Entry, Scope};

use crate::access_request::{AccessRequest, ChapRequest, PolicyRequest, SecretText};
use crate::request::Request;
use crate::testing::Rig;

fn record(text: &str) -> Entry {
    Entry::Record(text.parse().expect("a record"))
}

/// How many targets a change touches: it is stored as an operator's is, and then the targets get their rules.
fn touched(rig: &Rig, request: Request) -> u64 {
    let before = rig.with(async |member| member.serving().rules_given());
    rig.ask(request).expect("it is done");
    rig.with(async |member| member.serving().rules_given()) - before
}

#[test]
fn a_change_touches_the_targets_that_it_is_about() {
    const VOLUMES: u64 = 24;
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    for number in 0..VOLUMES {
        rig.create(&format!("v{number}"));
    }
    let volume = |number: u64| format!("v{number}");
    let add = |number, entry| Request::Access(AccessRequest::Add { volume: volume(number), entry });
    let (policy, chap) = (Request::Policy, Request::Chap);
    assert_eq!(touched(&rig, add(5, record("ip=10.0.0.1"))), 1, "one record is of one volume");
    let removal = AccessRequest::Remove { volume: volume(5), number: 1 };
    assert_eq!(touched(&rig, Request::Access(removal)), 1);
    let clear = AccessRequest::Clear { volume: volume(5) };
    assert_eq!(touched(&rig, Request::Access(clear)), 1);

    let name = || "hosts".to_owned();
    let of_policy = || Entry::Policy { name: name(), scope: Scope::Both };
    assert_eq!(
        touched(&rig, policy(PolicyRequest::Create { name: name() })),
        0,
        "nobody uses it yet"
    );
    for number in 0..3 {
        assert_eq!(touched(&rig, add(number, of_policy())), 1);
    }
    let parts = group::access::Parts { iqn: Some("iqn.2026-11.a:b".into()), ..Default::default() };
    let added = PolicyRequest::Add { name: name(), record: parts };
    assert_eq!(touched(&rig, policy(added)), 3, "its users");

    let (user, secret) = ("al".to_owned(), SecretText("twelve-bytes-1".to_owned()));
    let other = SecretText("twelve-bytes-2".to_owned());
    let added = ChapRequest::Add { user: user.clone(), secret };
    assert_eq!(touched(&rig, chap(added)), 0, "no record names the user yet");
    assert_eq!(touched(&rig, add(7, record("chap=al"))), 1);
    let set = ChapRequest::Set { user: user.clone(), secret: other.clone() };
    assert_eq!(touched(&rig, chap(set)), 1, "a secret concerns those who let its user in");
    let refused = ChapRequest::SetMutual { user: "disk".to_owned(), secret: other };
    rig.ask(chap(refused)).unwrap_err();
    let mutual = SecretText("twelve-bytes-3".to_owned());
    let mutual = ChapRequest::SetMutual { user: "disk".to_owned(), secret: mutual };
    assert_eq!(touched(&rig, chap(mutual)), VOLUMES, "what all prove concerns all, once");
    rig.stop();
}
