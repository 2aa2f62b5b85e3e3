//! Room for what operators set is there before hosts can fill the array, or no volume is.

use std::path::Path;

use array::Level;
use array::api::{Cache, VolumeSpec};

use super::let_in;
use crate::access_request::PolicyRequest;
use crate::events::Kind;
use crate::reply::Answer;
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::running::{Member, RequestError};
use crate::settings::hidden;
use crate::testing::Rig;

const MIB: u64 = 1 << 20;

fn thick(name: &str, size_bytes: u64) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        size_bytes,
        level: None,
        thick: true,
        block_bytes: 512,
        cache: Cache::Durable,
        read_ahead_bytes: None,
        cached: true,
    }
}

/// What volumes can still store.
fn free_bytes(member: &Member) -> u64 {
    let free = member.array().info().free_by_level.into_iter();
    free.filter(|space| space.raid == Level::Raid10).map(|space| space.free_bytes).sum()
}

fn is_made(rig: &Rig) -> bool {
    rig.with(async |member| hidden::find(member.array()).is_some())
}

fn create(rig: &Rig, spec: VolumeSpec) -> Result<Answer, RequestError> {
    rig.ask(Request::Volume(VolumeRequest::Create(spec)))
}

fn set_something(rig: &Rig, name: &str) -> Result<Answer, RequestError> {
    rig.ask(Request::Policy(PolicyRequest::Create { name: name.to_owned() }))
}

/// An array as an earlier version left it: with a volume and without one of settings. `left_bytes` are free beside it.
fn of_earlier(home: &Path, data: &Path, left_bytes: Option<u64>) {
    let rig = Rig::start(home, data);
    rig.with(async move |member| {
        let size_bytes = left_bytes.map_or(16 * MIB, |left| free_bytes(&member) - left);
        member.array().create_volume(thick("old", size_bytes)).await.expect("a volume");
    });
    assert!(!is_made(&rig));
    rig.stop();
}

#[test]
fn room_for_settings_is_made_with_the_first_volume() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    assert!(!is_made(&rig), "there is nothing that hosts could fill");
    rig.create("a");
    assert!(is_made(&rig));
    let taken = rig.with(async |member| {
        let rest = free_bytes(&member);
        member.array().create_volume(thick("rest", rest)).await.map(drop)
    });
    taken.expect("all that is left");
    let_in(&rig, "a", "good");
    set_something(&rig, "p").expect("it has its room");
    rig.stop();
}

/// It takes all that there is, so that nothing could be set. The room for that stays, for the next one.
#[test]
fn a_first_volume_that_leaves_no_room_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    let free = rig.with(async |member| free_bytes(&member));
    let refused = create(&rig, thick("a", free - 31 * MIB)).expect_err("no room").to_string();
    let wanted = "'a' is not made, as the settings of the array take 32 MiB beside it, and there is room for 31 MiB: \
                  add a disk, or delete volumes or snapshots";
    assert_eq!(refused, wanted);
    let left = rig.with(async |member| member.array().volumes().len());
    assert_eq!((left, is_made(&rig)), (1, true), "only that of the settings");
    // Chunks that each of them fills in part are not for both.
    create(&rig, thick("a", free - 48 * MIB)).expect("there is room for both");
    assert!(is_made(&rig));
    rig.stop();
}

#[test]
fn an_array_of_an_earlier_version_gets_room_for_settings_at_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    of_earlier(dir.path(), &data, Some(40 * MIB));
    let rig = Rig::start(dir.path(), &data);
    assert!(is_made(&rig));
    assert_eq!(rig.told(Kind::SettingsNotMade), [""; 0]);
    let_in(&rig, "old", "good");
    rig.stop();
}

/// The start is as before, and says it; what is asked for later finds the room that there is by then.
#[test]
fn an_array_of_an_earlier_version_that_is_full_starts_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    of_earlier(dir.path(), &data, Some(3 * MIB));
    let rig = Rig::start(dir.path(), &data);
    let why = "no settings can be stored, as the volume for them takes 32 MiB, and there is room for 3 MiB: add a disk, \
               or delete volumes or snapshots";
    assert_eq!(rig.told(Kind::SettingsNotMade), [why]);
    assert_eq!(set_something(&rig, "p").expect_err("no room").to_string(), why);
    let thin = VolumeSpec { thick: false, ..thick("thin", 16 * MIB) };
    let refused = create(&rig, thin.clone()).expect_err("no room").to_string();
    assert!(refused.starts_with("'thin' is not made"), "{refused}");
    let (volumes, name) = (vec!["old".to_owned()], Some("s".to_owned()));
    rig.ask(Request::Snapshot(SnapshotRequest::Create { volumes, name })).expect("it is taken");
    let clone = SnapshotRequest::Clone { volume: "old".into(), name: "s".into(), to: "c".into() };
    let refused = rig.ask(Request::Snapshot(clone)).expect_err("no room").to_string();
    assert!(refused.starts_with("'c' is not made"), "{refused}");
    let names: Vec<_> =
        rig.with(async |member| member.volumes()).into_iter().map(|v| v.name).collect();
    assert_eq!(names, ["old"]);
    rig.ask(Request::Volume(VolumeRequest::SetOnline { name: "old".into(), online: false }))
        .expect("it is done");
    rig.ask(Request::Volume(VolumeRequest::Resize {
        name: "old".into(),
        size_bytes: 16 * MIB,
        shrink: true,
    }))
    .expect("it is done");
    create(&rig, thin).expect("there is room now");
    assert!(is_made(&rig));
    set_something(&rig, "p").expect("it has its room");
    assert_eq!(rig.told(Kind::SettingsNotMade).len(), 1, "once for a start");
    rig.stop();
}
