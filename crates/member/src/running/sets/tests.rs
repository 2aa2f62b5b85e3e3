//! A member that takes part in sets, over an etcd that it runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use array::Level;
use array::api::VolumeSpec;
use block::WriteFlags;
use group::membership::{SetId, Verdict};
use group::ownership::MemberId;
use group::settings::{SetIntent, SetStage};

use crate::RequestError;
use crate::configuration_request::{
    ConfigurationChange, ConfigurationRequest, VolumeChange, VolumeSet,
};
use crate::events::Kind;
use crate::membership::tests::{free_at, join, make_group, start};
use crate::move_request::MoveRequest;
use crate::reply::Answer;
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::running::tests::wait_until;
use crate::set_request::{SetPlan, SetRequest};
use crate::testing::{Rig, volume};

/// A member of a group of one, with the volumes `vm` and `db`.
fn member(dir: &Path, number: u8) -> Rig {
    let rig = start(dir, "left");
    make_group(&rig, "left", free_at(number));
    for name in ["vm", "db"] {
        rig.ask(Request::Volume(VolumeRequest::Create(volume(name)))).expect("a volume");
    }
    rig
}

fn set(rig: &Rig, request: SetRequest) -> Result<Answer, RequestError> {
    rig.ask(Request::Set(request))
}

fn said(outcome: Result<Answer, RequestError>) -> String {
    outcome.expect_err("it is refused").to_string()
}

/// What the member is to take part in, which drives it, too.
fn plan(rig: &Rig, name: &str) -> SetPlan {
    let (group, me) = rig.with(async |member| {
        let membership = member.membership();
        (membership.group_id().expect("it is known"), membership.me().expect("it is one"))
    });
    SetPlan {
        id: SetId::draw().expect("randomness"),
        group: group.expect("it is in one"),
        coordinator: me,
        participants: BTreeSet::from([me]),
        volumes: vec!["vm".to_owned(), "db".to_owned()],
        name: name.to_owned(),
    }
}

fn prepared(rig: &Rig, name: &str) -> SetId {
    let plan = plan(rig, name);
    let id = plan.id.clone();
    assert_eq!(set(rig, SetRequest::Prepare { plan }).expect("it takes part"), Answer::Done);
    id
}

fn taken(rig: &Rig, name: &str) -> SetId {
    let id = prepared(rig, name);
    set(rig, SetRequest::Hold { id: id.clone() }).expect("it holds");
    let taken = set(rig, SetRequest::Take { id: id.clone() }).expect("it takes them");
    assert!(matches!(&taken, Answer::Snapshots(all) if all.len() == 2), "{taken:?}");
    id
}

fn decide(rig: &Rig, id: &SetId, verdict: Verdict) -> Answer {
    set(rig, SetRequest::Decide { id: id.clone(), verdict }).expect("the store answers")
}

fn settle(rig: &Rig, id: &SetId) -> Answer {
    set(rig, SetRequest::Settle { id: id.clone(), is_told: true }).expect("the store answers")
}

fn snapshot(rig: &Rig, name: &str) -> Result<Answer, RequestError> {
    let (volumes, name) = (vec!["vm".to_owned()], Some(name.to_owned()));
    rig.ask(Request::Snapshot(SnapshotRequest::Create { volumes, name }))
}

/// A whole configuration in which the volume is so.
fn applied(size_bytes: Option<u64>, online: Option<bool>) -> Request {
    let set = VolumeSet { online, ..VolumeSet::default() };
    let (name, read_ahead_bytes, cached) = ("vm".to_owned(), None, None);
    let volumes = vec![VolumeChange { name, size_bytes, read_ahead_bytes, cached, set }];
    let change = ConfigurationChange { volumes, ..ConfigurationChange::default() };
    Request::Configuration(ConfigurationRequest::Change(Box::new(change)))
}

/// The snapshots that operators see.
fn listed(rig: &Rig) -> Vec<String> {
    let list = Request::Snapshot(SnapshotRequest::List { volume: None });
    let Ok(Answer::Snapshots(all)) = rig.ask(list) else { panic!("no list") };
    all.into_iter().map(|one| format!("{}@{}", one.info.volume, one.info.name)).collect()
}

/// The snapshots that the array has of a volume.
fn count(rig: &Rig, volume: &'static str) -> usize {
    rig.with(async move |member| {
        let all = member.array().snapshots(volume).expect("it is there");
        all.iter().filter(|it| !it.deleting).count()
    })
}

#[test]
fn a_whole_set_stays_and_a_void_one_goes() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 231);
    let whole = taken(&rig, "whole");
    assert!(listed(&rig).is_empty(), "nobody knows yet whether they stay");
    assert_eq!(settle(&rig, &whole), Answer::SetSettled(false), "nothing is decided");
    assert_eq!(decide(&rig, &whole, Verdict::Whole), Answer::Decided(Verdict::Whole));
    // Who comes late hears what counts.
    assert_eq!(decide(&rig, &whole, Verdict::Void), Answer::Decided(Verdict::Whole));
    assert_eq!(settle(&rig, &whole), Answer::SetSettled(true));
    let mut stay = listed(&rig);
    stay.sort();
    assert_eq!(stay, ["db@whole", "vm@whole"]);

    let void = taken(&rig, "void");
    assert_eq!(decide(&rig, &void, Verdict::Void), Answer::Decided(Verdict::Void));
    assert_eq!(settle(&rig, &void), Answer::SetSettled(true));
    assert_eq!(listed(&rig).len(), 2);
    let take = SetRequest::Take { id: void };
    let late = said(set(&rig, take));
    assert!(late.contains("within the 2 s"), "{late}");
    rig.with(async |member| {
        assert!(member.settings().sets().is_empty(), "nothing is left of them");
    });
}

/// What is deleted when a set is void is what was taken for it: nobody else gets its names meanwhile.
#[test]
fn nobody_else_has_the_names_of_a_set_that_is_undecided() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 232);
    let id = prepared(&rig, "s");
    let refused = said(snapshot(&rig, "s"));
    assert!(refused.contains("not decided yet"), "{refused}");
    for name in ["s", "t"] {
        let again = plan(&rig, name);
        let refused = said(set(&rig, SetRequest::Prepare { plan: again }));
        assert!(refused.contains("not decided yet"), "one at a time: {refused}");
    }
    snapshot(&rig, "other").expect("it has another name");
    let (name, to) = ("vm".to_owned(), "vm2".to_owned());
    let resize = VolumeRequest::Resize { name: name.clone(), size_bytes: 32 << 20, shrink: false };
    let all = [
        Request::Volume(VolumeRequest::Rename { name: name.clone(), to }),
        Request::Volume(VolumeRequest::Delete { name: name.clone() }),
        Request::Volume(resize),
        Request::Volume(VolumeRequest::SetOnline { name: name.clone(), online: false }),
        applied(Some(32 << 20), None),
        applied(None, Some(false)),
        Request::Move(MoveRequest::Begin { name: name.clone(), to: None, pool: None }),
        Request::Snapshot(SnapshotRequest::Rollback { volume: name.clone(), name: "other".into() }),
        Request::Snapshot(SnapshotRequest::Delete { volume: name.clone(), name: "s".into() }),
        Request::Snapshot(SnapshotRequest::Clone {
            volume: name,
            name: "s".into(),
            to: "copy".into(),
        }),
    ];
    for request in all {
        let asked = format!("{request:?}");
        let refused = said(rig.ask(request));
        assert!(refused.contains("not decided yet"), "{asked}: {refused}");
    }
    // What changes nothing of it is applied all the while.
    rig.ask(applied(Some(16 << 20), Some(true))).expect("it is so already");
    decide(&rig, &id, Verdict::Void);
    assert_eq!(settle(&rig, &id), Answer::SetSettled(true));
    assert_eq!(listed(&rig), ["vm@other"]);
    rig.ask(applied(Some(32 << 20), None)).expect("nothing is undecided any more");
    snapshot(&rig, "s").expect("the name is free again");
    // A set that is settled already touches nothing.
    assert_eq!(settle(&rig, &id), Answer::SetSettled(true));
    assert_eq!(listed(&rig).len(), 2);
    let taken_name = plan(&rig, "s");
    let refused = said(set(&rig, SetRequest::Prepare { plan: taken_name }));
    assert!(refused.contains("has a snapshot \"s\" already"), "{refused}");
}

/// It would be found out when all have stored something, and again and again.
#[test]
fn a_name_that_cannot_be_one_is_refused_before_anything_is_stored() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 235);
    // Also by a coordinator that has no volume of the set.
    for volumes in [vec!["vm".to_owned()], Vec::new()] {
        let plan = SetPlan { volumes, ..plan(&rig, "no/name") };
        let refused = said(set(&rig, SetRequest::Prepare { plan }));
        assert!(refused.contains("no/name"), "{refused}");
    }
    rig.with(async |member| assert!(member.settings().sets().is_empty(), "nothing is stored"));
}

/// Its snapshot may be among those of a set of which nobody knows here.
#[test]
fn what_may_be_of_a_set_that_does_not_read_stays_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 236);
    let id = taken(&rig, "s");
    let misread = id.clone();
    // Before each request anew: the member reads its settings beside it, too.
    let misread = || {
        let id = misread.clone();
        rig.with(async move |member| member.settings().misread_set(&id));
    };
    let vm = || "vm".to_owned();
    let changes = || {
        let volume = [
            VolumeRequest::Rename { name: vm(), to: "vm2".to_owned() },
            VolumeRequest::Delete { name: vm() },
        ];
        let (one, name) = (vm, || "s".to_owned());
        let snapshot = [
            SnapshotRequest::Rollback { volume: one(), name: name() },
            SnapshotRequest::Create { volumes: vec![one()], name: Some("u".into()) },
            // Hosts would write to it, or have a clone of it, and it goes.
            SnapshotRequest::SetWritable { volume: one(), name: name(), fresh: false },
            SnapshotRequest::SetOnline { volume: one(), name: name(), online: true },
            SnapshotRequest::Clone { volume: one(), name: name(), to: "copy".into() },
            SnapshotRequest::Delete { volume: one(), name: name() },
        ];
        volume.map(Request::Volume).into_iter().chain(snapshot.map(Request::Snapshot))
    };
    let check = |why: &str, spoil: &dyn Fn()| {
        for request in changes() {
            let asked = format!("{request:?}");
            spoil();
            let refused = said(rig.ask(request));
            assert!(refused.contains(why), "{asked}: {refused}");
        }
        spoil();
        assert_eq!(settle(&rig, &id), Answer::SetSettled(false), "nobody knows what it is");
    };
    check("stored in version 2", &misread);
    let unnamed = SnapshotRequest::Create { volumes: vec![vm()], name: None };
    rig.ask(Request::Snapshot(unnamed)).expect("the array knows a name that nobody has");
    rig.with(async |member| member.settings().read_again().await);
    assert_eq!(settle(&rig, &id), Answer::SetSettled(false), "it is undecided");
    let fail = || {
        rig.with(async |member| {
            let _turn = member.settings().hold().await;
            member.settings().fail_unread().await;
        });
    };
    check("as the test wants it", &fail);
    assert_eq!(count(&rig, "vm"), 2, "both are there");
}

/// No set of a group deletes anything of it.
#[test]
fn a_member_of_no_group_changes_its_snapshots_although_its_settings_do_not_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = start(dir.path(), "alone");
    rig.create("vm");
    snapshot(&rig, "s").expect("it is its own");
    rig.with(async |member| {
        let _turn = member.settings().hold().await;
        member.settings().fail_unread().await;
    });
    let (vm, s) = (|| "vm".to_owned(), || "s".to_owned());
    let changes = [
        SnapshotRequest::SetWritable { volume: vm(), name: s(), fresh: false },
        SnapshotRequest::SetOnline { volume: vm(), name: s(), online: false },
        SnapshotRequest::Delete { volume: vm(), name: s() },
    ];
    for change in changes {
        rig.ask(Request::Snapshot(change)).expect("it is an ordinary one");
    }
    assert_eq!(count(&rig, "vm"), 0);
}

/// What is taken behind it nobody would delete.
#[test]
fn a_set_is_settled_behind_snapshots_that_are_being_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 237);
    let id = taken(&rig, "s");
    decide(&rig, &id, Verdict::Void);
    rig.with(async move |member| {
        let alone = member.taking.take().await;
        let mut settling = Box::pin(member.settle_set(&id, true));
        let early = ring::timeout(Duration::from_secs(1), &mut settling).await;
        assert!(early.is_none(), "somebody takes snapshots");
        let kept = member.settings().set(&id).expect("it is stored");
        assert_eq!(kept.stage, SetStage::Undecided);
        drop(alone);
        assert!(settling.await.expect("the store answers"), "it is settled");
    });
    assert!(listed(&rig).is_empty());
}

/// What has been given back of a set meanwhile is not its any more.
#[test]
fn a_void_set_deletes_nothing_of_volumes_that_it_has_let_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 244);
    let id = taken(&rig, "s");
    decide(&rig, &id, Verdict::Void);
    rig.with(async move |member| {
        let alone = member.taking.take().await;
        let mut settling = Box::pin(member.settle_set(&id, true));
        let early = ring::timeout(Duration::from_secs(1), &mut settling).await;
        assert!(early.is_none(), "somebody takes snapshots");
        let db = member.find("db").expect("it is there").id;
        member.settings().narrow_set(&id, vec![db]).await.expect("it is stored");
        drop(alone);
        assert!(settling.await.expect("the store answers"), "it is settled");
    });
    assert_eq!(listed(&rig), ["vm@s"]);
}

#[test]
fn a_hold_that_is_released_takes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 238);
    let id = prepared(&rig, "s");
    set(&rig, SetRequest::Hold { id: id.clone() }).expect("it holds");
    set(&rig, SetRequest::Release { id: id.clone() }).expect("hosts go on");
    let late = said(set(&rig, SetRequest::Take { id: id.clone() }));
    assert!(late.contains("within the 2 s"), "{late}");
    // Who asks again, and who never held, hears the same.
    set(&rig, SetRequest::Release { id: id.clone() }).expect("there is none");
    decide(&rig, &id, Verdict::Void);
    assert_eq!(settle(&rig, &id), Answer::SetSettled(true));
}

/// Snapshots that are being taken keep both waiting, and whoever comes first may come to its turn last.
#[test]
fn a_hold_whose_turn_comes_behind_its_release_holds_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 240);
    let id = prepared(&rig, "s");
    let asked = id.clone();
    let late = rig.with(async move |member| {
        let alone = member.taking.take().await;
        let mut holding = Box::pin(member.hold_set(&asked));
        let early = ring::timeout(Duration::from_millis(100), &mut holding).await;
        assert!(early.is_none(), "snapshots are being taken");
        let release = SetRequest::Release { id: asked.clone() };
        member.snapshot_set(release).await.expect("it needs no turn");
        drop(alone);
        said(holding.await.map(|()| Answer::Done))
    });
    assert!(late.contains("within the 2 s"), "{late}");
    let again = said(set(&rig, SetRequest::Hold { id: id.clone() }));
    assert!(again.contains("within the 2 s"), "{again}");
    decide(&rig, &id, Verdict::Void);
    assert_eq!(settle(&rig, &id), Answer::SetSettled(true));
    rig.with(async |member| {
        assert!(member.sets.released.borrow().is_empty(), "it is forgotten with its set");
    });
    // Of a set that is not known nothing is kept, and the next one is held.
    set(&rig, SetRequest::Release { id }).expect("there is none");
    rig.with(async |member| assert!(member.sets.released.borrow().is_empty()));
    taken(&rig, "t");
}

/// What is to be copied to another member would be looked at for the set, too.
#[test]
fn a_volume_that_begins_to_move_while_it_is_prepared_takes_no_part() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 241);
    let right = start(dir.path(), "right");
    join(&right, "right", free_at(242), (&rig, false));
    // What the other one has is known soon: until then none begins.
    let plan = plan(&rig, "s");
    let id = plan.id.clone();
    let refused = rig.with(async move |member| {
        let turn = member.settings().hold().await;
        let mut preparing = Box::pin(member.prepare_set(plan));
        let early = ring::timeout(Duration::from_secs(1), &mut preparing).await;
        assert!(early.is_none(), "it is being stored");
        let begin = || MoveRequest::Begin { name: "vm".to_owned(), to: None, pool: None };
        while let Err(error) = member.moves(begin()).await {
            tracing::info!("not yet: {error}");
            ring::sleep(Duration::from_millis(100)).await;
        }
        drop(turn);
        said(preparing.await.map(|()| Answer::Done))
    });
    assert!(refused.contains("'vm' moves to member 'right'"), "{refused}");
    // The coordinator hears of it, and has it void.
    assert_eq!(decide(&rig, &id, Verdict::Void), Answer::Decided(Verdict::Void));
    assert_eq!(settle(&rig, &id), Answer::SetSettled(true));
    right.stop();
    rig.stop();
}

/// Who is there tells whoever has asked it; all others would tell the same once more.
#[test]
fn that_a_set_is_void_tells_who_took_part_only_where_its_coordinator_is_away() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 243);
    let right = start(dir.path(), "right");
    join(&right, "right", free_at(244), (&rig, false));
    right.create("far");
    let coordinator = rig.with(async |member| member.membership().me().expect("it is one"));
    wait_until("the coordinator is seen", || {
        right.with(async move |member| {
            member.membership().roll_now().is_ok_and(|roll| roll.is_present(coordinator))
        })
    });
    let told = || right.told(Kind::SnapshotsNotWhole);
    for (name, driven_by, events) in [("seen", coordinator, 0), ("away", MemberId(99), 1)] {
        let plan = plan(&right, name);
        let id = plan.id.clone();
        let plan = SetPlan { coordinator: driven_by, volumes: vec!["far".to_owned()], ..plan };
        set(&right, SetRequest::Prepare { plan }).expect("it takes part");
        decide(&right, &id, Verdict::Void);
        let settle = SetRequest::Settle { id, is_told: false };
        assert_eq!(set(&right, settle).expect("it is done"), Answer::SetSettled(true));
        assert_eq!(told().len(), events, "{name}: {:?}", told());
    }
    right.stop();
    rig.stop();
}

/// Perhaps none of its snapshots can be deleted: the others are, and the set is settled when it is gone.
#[test]
fn a_volume_that_is_lost_can_be_deleted_although_its_set_is_undecided() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 239);
    let bare = VolumeSpec { level: Some(Level::Raid0), ..volume("bare") };
    rig.ask(Request::Volume(VolumeRequest::Create(bare))).expect("a volume");
    rig.with(async |member| {
        let device = member.array().device("bare").expect("it is there");
        let data: Arc<[u8]> = vec![1; 1 << 20].into();
        device.write(0, data.into(), WriteFlags::default()).await.expect("it is written");
        member.array().checkpoint().await.expect("it is in its place");
    });
    let volumes = vec!["bare".to_owned(), "vm".to_owned()];
    let plan = SetPlan { volumes, ..plan(&rig, "s") };
    let id = plan.id.clone();
    set(&rig, SetRequest::Prepare { plan }).expect("it takes part");
    set(&rig, SetRequest::Hold { id: id.clone() }).expect("it holds");
    set(&rig, SetRequest::Take { id: id.clone() }).expect("it takes them");
    rig.with(async |member| {
        let disk = member.array().disks().remove(0).name;
        member.array().fail_disk(&disk, true).await.expect("it is declared failed");
    });
    let healthy = VolumeRequest::Delete { name: "vm".into() };
    let refused = said(rig.ask(Request::Volume(healthy)));
    assert!(refused.contains("not decided yet"), "{refused}");
    let offline = VolumeRequest::SetOnline { name: "bare".into(), online: false };
    rig.ask(Request::Volume(offline)).expect("no host can use it");
    rig.ask(Request::Volume(VolumeRequest::Delete { name: "bare".into() })).expect("it is lost");
    decide(&rig, &id, Verdict::Void);
    let in_bin = said(set(&rig, SetRequest::Settle { id: id.clone(), is_told: true }));
    assert!(in_bin.contains("recycle bin"), "it may come back: {in_bin}");
    assert_eq!(count(&rig, "vm"), 0, "the others are deleted");
    // Nothing of the others waits for the one that is lost.
    let kept = id.clone();
    rig.with(async move |member| {
        let bare = member.volumes().into_iter().find(|it| it.name == "bare").expect("it is there");
        let left = member.settings().set(&kept).expect("it is not settled");
        assert_eq!((left.volumes, left.stage), (vec![bare.id], SetStage::Undecided));
    });
    rig.ask(applied(Some(32 << 20), None)).expect("it is as any other");
    snapshot(&rig, "s").expect("the name is free");
    assert_eq!(listed(&rig), ["vm@s"]);
    rig.ask(Request::Volume(VolumeRequest::Purge { name: "bare".into() })).expect("it goes");
    assert_eq!(settle(&rig, &id), Answer::SetSettled(true));
    assert_eq!(listed(&rig), ["vm@s"], "that one is not of the set");
}

#[test]
fn a_hold_that_has_ended_takes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 233);
    let id = prepared(&rig, "s");
    let early = said(set(&rig, SetRequest::Take { id: id.clone() }));
    assert!(early.contains("within the 2 s"), "{early}");
    set(&rig, SetRequest::Hold { id: id.clone() }).expect("it holds");
    std::thread::sleep(super::HOLD_TIME + Duration::from_millis(200));
    let late = said(set(&rig, SetRequest::Take { id: id.clone() }));
    assert!(late.contains("within the 2 s"), "{late}");
    decide(&rig, &id, Verdict::Void);
    settle(&rig, &id);
    snapshot(&rig, "s").expect("nothing was taken");
}

/// Its number in the group, or the group, is another one by now.
#[test]
fn who_is_another_member_now_keeps_what_it_has_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = member(dir.path(), 234);
    snapshot(&rig, "kept").expect("it is taken");
    let intent = |plan: SetPlan, volume: u32| SetIntent {
        id: plan.id,
        group: "f".repeat(32).parse().expect("it is one"),
        me: MemberId(7),
        coordinator: MemberId(1),
        participants: BTreeSet::from([MemberId(7)]),
        volumes: vec![volume],
        name: "kept".to_owned(),
        stage: SetStage::Undecided,
    };
    let plan = plan(&rig, "kept");
    let id = plan.id.clone();
    rig.with(async move |member| {
        let volume = member.array().volume("vm").expect("it is there").id;
        member.settings().prepare_set(&intent(plan, volume)).await.expect("it is stored");
    });
    assert!(listed(&rig).is_empty());
    assert_eq!(settle(&rig, &id), Answer::SetSettled(true));
    assert_eq!(listed(&rig), ["vm@kept"]);
}
