//! Volumes that are between two members, and the operator who settles what no group decides about.

use api::problem::Code;
use api::types::TransitWay;
use group::membership::MoveId;
use member::{Transit, TransitState, Way};

use crate::{Group, problem};

fn transit(id: &MoveId, name: &str, way: Way, state: TransitState) -> Transit {
    let other = if way == Way::Leaves { "right" } else { "left" };
    Transit {
        id: id.clone(),
        name: name.to_owned(),
        way,
        other: other.to_owned(),
        state,
        why: Some("it is so".to_owned()),
    }
}

/// Three members, of which two have a part each in one move that no group decides about.
fn parted() -> (Group, MoveId) {
    let group = Group::start([("left", &[]), ("right", &[]), ("third", &[])]);
    let id = MoveId::draw().expect("randomness");
    for (name, way) in [("left", Way::Leaves), ("right", Way::Arrives)] {
        group.node(name).has.moves.stands(transit(&id, "vm", way, TransitState::Undecided));
    }
    (group, id)
}

#[test]
fn each_member_tells_of_its_own_part() {
    let (mut group, id) = parted();
    let client = group.node("third").client();
    let told = |all: Vec<api::types::Transit>| -> Vec<_> {
        assert!(all.iter().all(|it| it.id == id.to_string() && it.why.is_some()), "{all:?}");
        all.into_iter().map(|it| (it.volume, it.member.unwrap_or_default(), it.way)).collect()
    };
    let part = |member: &str, way| ("vm".to_owned(), member.to_owned(), way);
    let (left, right) = (part("left", TransitWay::Leaves), part("right", TransitWay::Arrives));
    assert_eq!(told(client.transits().unwrap()), [left.clone(), right.clone()]);
    let on_right = client.on(Some("right".to_owned())).transits().unwrap();
    assert_eq!(told(on_right), [right]);
    let page = group.node("third").ask("GET", "/v1/transits?limit=1", &[], "");
    assert_eq!(page.json().as_array().map(Vec::len), Some(1));
    assert!(page.header("link").is_some(), "one move is two things on two members: {page:?}");
    group.is_away("right");
    assert_eq!(told(client.transits().unwrap()), [left]);
    assert_eq!(client.members_missing(), ["right"]);
    group.stop();
}

#[test]
fn what_is_settled_is_the_part_of_the_member_that_is_asked() {
    let (group, id) = parted();
    let client = group.node("third").client();
    let (number, moves) = (id.to_string(), |name: &str| &group.node(name).has.moves);
    let none = problem(client.settle_transit(&number, true));
    assert_eq!(none.code, Code::WrongState, "the third one has no part in it");
    assert!(moves("left").settled().is_empty() && moves("right").settled().is_empty());

    let on = |name: &str| client.on(Some(name.to_owned()));
    on("left").settle_transit(&number, false).expect("it is deleted there");
    assert_eq!(moves("left").settled(), [(id.clone(), false)]);
    assert!(moves("right").settled().is_empty(), "that of the other one is as it was");
    on("right").settle_transit(&number, true).expect("it is kept there");
    assert_eq!(moves("right").settled(), [(id.clone(), true)]);
    assert!(client.transits().unwrap().is_empty());
    assert_eq!(problem(on("left").settle_transit(&number, true)).code, Code::WrongState);
    assert_eq!(moves("left").settled().len(), 1, "it was settled once");

    for name in ["left", "third"] {
        let audit = group.node(name).ask("GET", "/v1/audit", &[], "").json().to_string();
        assert!(audit.contains("POST /v1/transits/{id}/settle"), "{name}: {audit}");
        assert!(audit.contains(&number), "{name}: {audit}");
    }
    group.stop();
}

#[test]
fn nothing_is_settled_that_the_group_decides_or_that_is_not_said_clearly() {
    let (group, id) = parted();
    let left = group.node("left");
    let waits = MoveId::draw().expect("randomness");
    left.has.moves.stands(transit(&waits, "waits", Way::Leaves, TransitState::Waits));
    let client = left.client();
    for keep in [true, false] {
        let refused = problem(client.settle_transit(waits.as_str(), keep));
        assert_eq!(refused.code, Code::WrongState);
        assert!(refused.detail.contains("'waits'"), "{refused}");
    }
    let asked = |moves: &[&str]| moves.iter().filter(|word| **word == "settle").count();
    assert_eq!(asked(&left.has.moves.asked()), 2);
    // What is no number of a move is told as an unknown one is, and asks nobody.
    for number in ["x", &id.as_str()[1..], &id.as_str().to_uppercase()] {
        let path = format!("/v1/transits/{number}/settle");
        let refused = left.ask("POST", &path, &[], r#"{"keep": true}"#);
        assert_eq!(refused.status, 409, "{path}: {refused:?}");
    }
    let path = format!("/v1/transits/{id}/settle");
    for body in ["", "{}", r#"{"keep": 1}"#, r#"{"keep": true, "discard": true}"#] {
        let refused = left.ask("POST", &path, &[], body);
        assert_eq!((refused.status, refused.code().as_str()), (422, "invalid"), "{body}");
    }
    let refused = left.ask("POST", &path, &[("if-match", "\"x\"")], r#"{"keep": true}"#);
    assert_eq!(refused.status, 422, "it has no tag: {refused:?}");
    assert_eq!(asked(&left.has.moves.asked()), 2, "none of these came to the member");
    assert!(left.has.moves.settled().is_empty());
    group.stop();
}
