//! Requests about what another member has.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use api::client::{ALL_OTHERS, HERE};
use api::problem::Code;
use api::types::{NewSnapshots, VolumeChange};

use crate::{Group, problem};

#[test]
fn a_volume_is_shown_and_changed_wherever_it_is() {
    let group = Group::start([("left", &["a"]), ("right", &["b"])]);
    let left = group.node("left");
    let shown = left.ask("GET", "/v1/volumes/b", &[], "");
    assert_eq!((shown.status, shown.header("drystone-member")), (200, Some("right")));
    assert_eq!(shown.json()["member"], "right");
    let tag = shown.header("etag").expect("a tag").to_owned();

    let to = r#"{"name": "bb"}"#;
    let stale = [("if-match", "\"0000\"")];
    let refused = left.ask("PATCH", "/v1/volumes/b", &stale, to);
    assert_eq!((refused.status, refused.code().as_str()), (412, "changed"));
    assert_eq!(group.node("right").has.changes(), 0);
    let renamed = left.ask("PATCH", "/v1/volumes/b", &[("if-match", tag.as_str())], to);
    assert_eq!(renamed.status, 200, "{renamed:?}");
    assert_eq!(group.node("right").has.names(), ["bb"]);
    // Nobody has heard of the new name but who has sent this on.
    let shown = left.ask("GET", "/v1/volumes/bb", &[], "");
    assert_eq!((shown.status, shown.header("drystone-member")), (200, Some("right")));
    let gone = left.ask("GET", "/v1/volumes/b", &[], "");
    assert_eq!((gone.status, gone.code().as_str()), (404, "no-such-volume"));
    // What takes no condition takes none there either.
    let path = "/v1/volumes/bb/reservations/clear";
    let refused = left.ask("POST", path, &[("if-match", tag.as_str())], "");
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid"));
    group.stop();
}

#[test]
fn what_only_its_member_knows_of_yet_is_found_by_asking_all() {
    let group = Group::start([("left", &[]), ("right", &[]), ("third", &[])]);
    group.node("third").has.make("new");
    let shown = group.node("left").client().volume("new").unwrap();
    assert_eq!(shown.member.as_deref(), Some("third"));
    assert_eq!(problem(group.node("left").client().volume("none")).code, Code::NoSuchVolume);
    group.stop();
}

#[test]
fn a_member_that_says_nothing_keeps_nobody_from_what_is_found() {
    let group = Group::start([("left", &[]), ("right", &[]), ("third", &[])]);
    group.node("right").has.make("new");
    group.node("left").has.make("own");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (third, port) = (group.node("third").number, silent.local_addr().unwrap().port());
    group.mislead("left", |roll| {
        roll.members.get_mut(&third).expect("it is there").port = port - 3;
    });
    let (client, begun) = (group.node("left").client(), Instant::now());
    assert_eq!(client.volume("new").unwrap().member.as_deref(), Some("right"));
    assert!(begun.elapsed() < Duration::from_secs(4), "nobody waits for the third one");
    let told = problem(client.volume("none"));
    assert_eq!(told.code, Code::NotReached);
    assert!(told.detail.ends_with("member 'third' cannot be asked whether it has it"), "{told}");
    assert_eq!(client.volume("own").unwrap().name, "own", "it is here");
    let told = problem(client.on(Some("third".to_owned())).volume("none"));
    assert_eq!(told.code, Code::NotReached);
    assert!(told.detail.starts_with("member 'third' says nothing: its machine took"), "{told}");
    group.stop();
}

#[test]
fn what_is_on_a_member_that_is_away_or_on_two_is_not_guessed_at() {
    let all = [("left", &[][..]), ("right", &["b", "twice"][..]), ("third", &["twice"][..])];
    let mut group = Group::start(all);
    let client = group.node("left").client();
    let offline = VolumeChange { online: Some(false), ..VolumeChange::default() };
    let told = problem(client.change_volume("twice", &offline));
    assert_eq!(told.code, Code::SeveralMembers);
    assert!(told.detail.contains("'right' and 'third'"), "{told}");
    let on = client.on(Some("third".to_owned()));
    assert_eq!(on.change_volume("twice", &offline).unwrap().member.as_deref(), Some("third"));
    group.is_away("right");
    let told = problem(client.volume("b"));
    assert_eq!(told.code, Code::NotReached);
    assert!(told.detail.starts_with("volume 'b' is on member 'right', which is away"), "{told}");
    group.stop();
}

#[test]
fn snapshots_of_one_moment_are_taken_on_one_member() {
    let group = Group::start([("left", &["a"]), ("right", &["b", "c"])]);
    let client = group.node("left").client();
    let new = |volumes: &[&str]| NewSnapshots {
        volumes: volumes.iter().map(|name| (*name).to_owned()).collect(),
        name: None,
    };
    let taken = client.create_snapshots(&new(&["b", "c"])).unwrap();
    assert!(taken.iter().all(|it| it.member.as_deref() == Some("right")), "{taken:?}");
    assert_eq!(taken.len(), 2);
    assert_eq!(client.answered_by().as_deref(), Some("right"));
    // Those of several members are taken with the group's store, which these members have not.
    let told = problem(client.create_snapshots(&new(&["a", "b"])));
    assert_eq!(told.code, Code::NoGroup);
    assert_eq!(group.node("left").has.changes(), 0);
    assert_eq!(group.node("right").has.changes(), 1);
    group.stop();
}

#[test]
fn what_is_carried_is_done_where_it_comes_and_goes_no_further() {
    let group = Group::start([("left", &[]), ("right", &[]), ("third", &["b"])]);
    let (right, third) = (group.node("right").number, group.node("third").number);
    // Left takes it to be on right; right knows that it is on third.
    group.mislead("left", |roll| {
        let listed = roll.inventories.remove(&third).expect("it has said something");
        roll.inventories.insert(right, listed);
    });
    let told = group.node("left").ask("GET", "/v1/volumes/b", &[], "");
    assert_eq!((told.status, told.code().as_str()), (404, "no-such-volume"));
    assert_eq!(told.header("drystone-member"), Some("right"));
    // Asked itself, it sends it on.
    let told = group.node("right").ask("GET", "/v1/volumes/b", &[], "");
    assert_eq!((told.status, told.header("drystone-member")), (200, Some("third")));
    group.stop();
}

#[test]
fn a_member_that_has_heard_nothing_of_its_group_says_so() {
    let group = Group::start([("left", &["a"]), ("right", &["b"])]);
    group.node("left").roll.replace(None);
    let client = group.node("left").client();
    assert_eq!(client.volumes().unwrap().len(), 1);
    assert_eq!(client.members_missing(), [ALL_OTHERS]);
    for told in [problem(client.volume("b")), problem(client.snapshots(Some("b"), false))] {
        assert_eq!(told.code, Code::Unavailable);
        assert!(told.detail.contains("has heard nothing of its group since"), "{told}");
    }
    assert_eq!(client.volume("a").unwrap().name, "a");
    // Whoever means this member hears what it has.
    let here = client.on(Some(HERE.to_owned()));
    assert_eq!(here.volumes().unwrap().len(), 1);
    assert!(here.members_missing().is_empty());
    assert_eq!(problem(here.volume("b")).code, Code::NoSuchVolume);
    group.stop();
}

#[test]
fn a_member_in_no_group_asks_nobody_and_says_nothing_of_members() {
    let group = Group::start([("left", &["a"]), ("right", &["b"])]);
    let left = group.node("left");
    left.roll.replace(None);
    left.door.replace(None);
    let listed = left.ask("GET", "/v1/volumes", &[], "");
    assert_eq!(listed.header("drystone-member"), None);
    let all = listed.json();
    assert_eq!((all.as_array().map(Vec::len), all[0].get("member")), (Some(1), None));
    assert_eq!(left.ask("GET", "/v1/volumes/b", &[], "").code(), "no-such-volume");
    let other = left.ask("GET", "/v1/volumes", &[("drystone-member", "right")], "");
    assert_eq!((other.status, other.code().as_str()), (404, "no-group"));
    let here = left.ask("GET", "/v1/volumes", &[("drystone-member", HERE)], "");
    assert_eq!(here.status, 200, "{here:?}");
    let pool = r#"{"name": "n", "size_bytes": 1048576, "pool": "default"}"#;
    assert_eq!(left.ask("POST", "/v1/volumes", &[], pool).code(), "no-group");
    group.stop();
}
