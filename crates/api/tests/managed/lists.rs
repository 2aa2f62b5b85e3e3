//! Lists of the whole group.

use api::client::HERE;
use api::problem::Code;

use crate::{Group, problem};

const MISSING: &str = "drystone-members-missing";

/// What a list has, each with its member.
fn names(json: &serde_json::Value, by: &str) -> Vec<String> {
    let all = json.as_array().expect("a list").iter();
    let word = |item: &serde_json::Value, field: &str| item[field].as_str().map(str::to_owned);
    let named = all.map(|item| {
        let member = word(item, "member").unwrap_or_default();
        format!("{}@{member}", word(item, by).expect("a name"))
    });
    named.collect()
}

#[test]
fn lists_are_of_all_members_whichever_is_asked() {
    let mut group = Group::start([("left", &["c", "a"]), ("right", &["b", "a"])]);
    group.node("right").has.schedule("nightly");
    group.hear();
    for node in &group.nodes {
        for (path, by, wanted) in [
            ("/v1/volumes", "name", &["a@left", "a@right", "b@right", "c@left"][..]),
            ("/v1/snapshots", "volume", &["a@left", "a@right", "b@right", "c@left"][..]),
            ("/v1/jobs", "subject", &["a@left", "a@right", "b@right", "c@left"][..]),
            ("/v1/schedules", "name", &["nightly@right"][..]),
            ("/v1/connections", "iqn", &[][..]),
        ] {
            let reply = node.ask("GET", path, &[], "");
            assert_eq!(reply.status, 200, "{path} at {}: {reply:?}", node.name);
            assert_eq!(names(&reply.json(), by), wanted, "{path} at {}", node.name);
            assert_eq!(reply.header(MISSING), None, "{path} at {}", node.name);
            assert_eq!(reply.header("drystone-member"), Some(node.name));
        }
    }
    group.stop();
}

#[test]
fn pages_are_cut_of_the_list_of_all() {
    let group = Group::start([("left", &["c", "a"]), ("right", &["b", "a"])]);
    let node = group.node("left");
    let (mut path, mut heard) = (Some("/v1/volumes?limit=1".to_owned()), Vec::new());
    while let Some(page) = path.take() {
        let reply = node.ask("GET", &page, &[], "");
        assert_eq!(reply.status, 200, "{reply:?}");
        heard.extend(names(&reply.json(), "name"));
        let link = reply.header("link").and_then(|link| link.strip_prefix('<'));
        path = link.and_then(|link| link.split_once('>')).map(|(path, _)| path.to_owned());
    }
    // All have one number on their members: they are told apart all the same.
    assert_eq!(heard, ["a@left", "a@right", "b@right", "c@left"]);
    group.stop();
}

#[test]
fn what_snapshots_hold_is_counted_where_they_are() {
    let group = Group::start([("left", &["a"]), ("right", &["b"])]);
    let counted = group.node("left").client().snapshots(None, true).unwrap();
    let told = counted.iter().map(|it| (it.volume.as_str(), it.space.map(|it| it.unique_bytes)));
    assert_eq!(told.collect::<Vec<_>>(), [("a", Some(7)), ("b", Some(7))]);
    let one = group.node("left").client().snapshots(Some("b"), true).unwrap();
    assert_eq!(one.len(), 1, "{one:?}");
    assert_eq!((one[0].member.as_deref(), one[0].space.is_some()), (Some("right"), true));
    let none = group.node("left").client().snapshots(Some("c"), false);
    assert_eq!(problem(none).code, Code::NoSuchVolume);
    group.stop();
}

#[test]
fn who_is_away_or_does_not_answer_is_named_and_the_rest_is_listed() {
    let mut group =
        Group::start([("left", &["a"]), ("right", &["b"]), ("third", &["c"]), ("fourth", &["d"])]);
    let client = group.node("left").client();
    group.is_away("third");
    let names = |all: Vec<api::types::Volume>| -> Vec<String> {
        all.into_iter().map(|volume| volume.name).collect()
    };
    assert_eq!(names(client.volumes().unwrap()), ["a", "b", "d"]);
    assert_eq!(client.members_missing(), ["third"]);
    // It is gone, and nobody has heard of that.
    group.kill("fourth");
    assert_eq!(names(client.volumes().unwrap()), ["a", "b"]);
    assert_eq!(client.members_missing(), ["fourth", "third"]);
    // What is said of the last list is of no other one.
    assert_eq!(names(client.on(Some("right".to_owned())).volumes().unwrap()), ["b"]);
    client.members().unwrap_err();
    assert!(client.members_missing().is_empty());
    group.stop();
}

#[test]
fn a_member_that_is_named_lists_what_it_has_alone() {
    let group = Group::start([("left", &["a"]), ("right", &["b"])]);
    let client = group.node("left").client();
    for (member, wanted) in [("left", "a@left"), ("RIGHT", "b@right"), (HERE, "a@left")] {
        for (path, by) in [("/v1/volumes", "name"), ("/v1/jobs", "subject")] {
            let headers = [("drystone-member", member)];
            let reply = group.node("left").ask("GET", path, &headers, "");
            assert_eq!(names(&reply.json(), by), [wanted], "{path} on {member}");
            assert_eq!(reply.header(MISSING), None);
        }
        let on = client.on(Some(member.to_owned()));
        assert_eq!(on.volumes().unwrap().len(), 1);
        let answered = wanted.split_once('@').map(|(_, member)| member.to_owned());
        assert_eq!(on.answered_by(), answered);
        assert_eq!(on.on(None).volumes().unwrap().len(), 2, "it means the group again");
    }
    let nobody = client.on(Some("nobody".to_owned())).volumes();
    assert_eq!(problem(nobody).code, Code::NoSuchMember);
    group.stop();
}
