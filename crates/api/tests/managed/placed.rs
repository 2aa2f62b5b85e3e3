//! New volumes, and on which member they are made.

use std::sync::Arc;

use api::problem::Code;
use group::membership::Pool;

use crate::{Group, problem};

const NEW: &str = r#"{"name": "new", "size_bytes": 1048576}"#;

#[test]
fn a_volume_is_made_on_the_member_with_most_room_and_is_there_at_once() {
    let group = Group::start([("left", &[]), ("right", &[])]);
    let left = group.node("left");
    let made = left.ask("POST", "/v1/volumes", &[], NEW);
    assert_eq!((made.status, made.header("drystone-member")), (201, Some("right")));
    assert_eq!(made.header("location"), Some("/v1/volumes/new"));
    assert_eq!(made.json()["member"], "right");
    assert_eq!(group.node("right").has.names(), ["new"]);
    assert!(left.has.names().is_empty());
    // The others have heard of nothing yet.
    assert_eq!(left.client().volume("new").unwrap().member.as_deref(), Some("right"));
    group.stop();
}

#[test]
fn asked_again_with_the_same_key_it_is_made_once_and_answered_as_before() {
    let group = Group::start([("left", &[]), ("right", &[])]);
    let key = [("idempotency-key", "7f3a")];
    let first = group.node("left").ask("POST", "/v1/volumes", &key, NEW);
    assert_eq!(first.status, 201, "{first:?}");
    // Meanwhile the other one has most room.
    let left = group.node("left").number;
    group.mislead("left", |roll| {
        let inventory = roll.inventories.get_mut(&left).expect("it has said something");
        Arc::make_mut(inventory).free_bytes = 1 << 50;
    });
    let again = group.node("left").ask("POST", "/v1/volumes", &key, NEW);
    assert_eq!((again.status, again.json()), (201, first.json()));
    assert_eq!(group.node("right").has.changes(), 1);
    let other = r#"{"name": "new", "size_bytes": 2097152}"#;
    let refused = group.node("left").ask("POST", "/v1/volumes", &key, other);
    assert_eq!((refused.status, refused.code().as_str()), (422, "key-reused"));
    // Without it the name is taken, as the member says that has it.
    let taken = group.node("left").ask("POST", "/v1/volumes", &[], NEW);
    assert_eq!((taken.status, taken.code().as_str()), (409, "name-taken"));
    assert_eq!(taken.header("drystone-member"), Some("right"));
    assert!(group.node("left").has.names().is_empty());
    group.stop();
}

#[test]
fn a_member_or_a_pool_that_is_named_gets_it() {
    let mut group = Group::start([("left", &[]), ("right", &[]), ("third", &[])]);
    let members = [group.node("left").number].into_iter().collect();
    group.roll.pools.insert("ssd".to_owned(), Pool { members });
    group.tell();
    let make = |name: &str, pool: Option<&str>, member: Option<&str>| {
        let mut body = serde_json::json!({"name": name, "size_bytes": 1 << 20});
        if let Some(pool) = pool {
            body["pool"] = pool.into();
        }
        let on = member.map(|member| ("drystone-member", member));
        let headers: Vec<_> = on.into_iter().collect();
        group.node("right").ask("POST", "/v1/volumes", &headers, &body.to_string())
    };
    for (name, pool, member, on) in [
        ("a", None, None, "third"),
        ("b", Some("ssd"), None, "left"),
        ("c", Some("default"), None, "third"),
        ("d", None, Some("left"), "left"),
        ("e", Some("ssd"), Some("left"), "left"),
        ("f", None, Some("right"), "right"),
    ] {
        let made = make(name, pool, member);
        assert_eq!((made.status, made.header("drystone-member")), (201, Some(on)), "{name}");
        assert!(group.node(on).has.names().contains(&name.to_owned()), "{name}");
    }
    let refused = make("g", Some("ssd"), Some("third"));
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid"));
    let refused = make("g", Some("tape"), None);
    assert_eq!((refused.status, refused.code().as_str()), (404, "no-such-pool"));
    let refused = make("g", None, Some("nobody"));
    assert_eq!((refused.status, refused.code().as_str()), (404, "no-such-member"));
    group.stop();
}

#[test]
fn a_new_volume_whose_member_cannot_be_reached_is_made_on_the_next_one() {
    let mut group = Group::start([("left", &[]), ("right", &[]), ("third", &[])]);
    group.kill("third");
    let made = group.node("left").ask("POST", "/v1/volumes", &[], NEW);
    assert_eq!((made.status, made.header("drystone-member")), (201, Some("right")));
    assert_eq!(group.node("right").has.names(), ["new"]);
    // Where there are two and none of them can be reached, both are named.
    let members = ["right", "third"].map(|name| group.roll.find(name).expect("it is there").0);
    group.roll.pools.insert("ssd".to_owned(), Pool { members: members.into_iter().collect() });
    group.kill("right");
    group.tell();
    let of_pool = r#"{"name": "more", "size_bytes": 1048576, "pool": "ssd"}"#;
    let refused = group.node("left").ask("POST", "/v1/volumes", &[], of_pool);
    assert_eq!((refused.status, refused.code().as_str()), (503, "not-reached"));
    let told = refused.json()["detail"].to_string();
    assert!(told.contains("member 'third' cannot be") && told.contains("'right' cannot"), "{told}");
    assert!(group.node("left").has.names().is_empty());
    group.stop();
}

#[test]
fn where_no_member_has_room_or_the_one_that_is_chosen_is_gone_nothing_is_made() {
    let mut group = Group::start([("left", &[]), ("right", &[])]);
    let thick = r#"{"name": "new", "size_bytes": 1099511627776, "thick": true}"#;
    let refused = group.node("left").ask("POST", "/v1/volumes", &[], thick);
    assert_eq!((refused.status, refused.code().as_str()), (507, "no-space"));
    let client = group.node("left").client();
    group.kill("right");
    let there = [("drystone-member", "right")];
    let refused = group.node("left").ask("POST", "/v1/volumes", &there, NEW);
    assert_eq!((refused.status, refused.code().as_str()), (503, "not-reached"));
    assert!(group.node("left").has.names().is_empty());
    // It is looked for on a member that does not answer, which may have it.
    let told = problem(client.volume("new"));
    assert_eq!(told.code, Code::NotReached);
    assert!(told.detail.ends_with("member 'right' cannot be asked whether it has it"), "{told}");
    group.is_away("right");
    let made = group.node("left").ask("POST", "/v1/volumes", &[], NEW);
    assert_eq!((made.status, made.header("drystone-member")), (201, Some("left")));
    group.stop();
}
