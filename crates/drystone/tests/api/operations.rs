//! Every operation, done and refused, and each answer is as the document says.

use crate::common::member::{Home, Member, text};
use crate::document::Document;
use crate::http::{self, Reply};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

/// Calls operations one after the other.
struct Tour<'a> {
    member: &'a Member<'a>,
    document: Document,
}

impl Tour<'_> {
    /// One call, which must have this status.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "as `json!` gives it")]
    fn call(&mut self, method: &str, path: &str, body: Option<Value>, status: u16) -> Reply {
        let reply = http::ask(&self.member.home.socket(), method, path, &[], body.as_ref());
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.text());
        self.document.check(method, path, &reply);
        reply
    }

    /// One that must be refused, for this.
    #[track_caller]
    fn refused(&mut self, method: &str, path: &str, body: Option<Value>, status: u16, code: &str) {
        let reply = self.call(method, path, body, status);
        assert_eq!(reply.problem(), code, "{method} {path}: {}", reply.text());
    }
}

#[test]
fn every_operation_does_what_it_says() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    let shown = crate::ask(&member, "GET", "/v1/openapi.json", None);
    let mut tour = Tour { member: &member, document: Document::new(shown.json()) };
    tour.call("GET", "/v1/openapi.json", None, 200);
    volumes(&mut tour);
    access(&mut tour);
    policies(&mut tour);
    chap_users(&mut tour);
    logins(&mut tour);
    snapshots(&mut tour);
    schedules(&mut tour);
    destinations(&mut tour);
    configuration(&mut tour);
    group(&mut tour);
    work(&mut tour);
    disks(&mut tour);
    records(&mut tour);
    // These need parts of a volume that other members have, and a move that no group decides about: `group/spread.rs` and
    // `group/settling.rs` have them.
    let left = ["discard_slice", "rebuild_volume", "settle_transit"];
    assert_eq!(tour.document.left(), left, "they were not called");
    member.stop();
}

fn volumes(tour: &mut Tour<'_>) {
    let new = json!({"name": "a", "size_bytes": 64 << 20});
    let made = tour.call("POST", "/v1/volumes", Some(new.clone()), 201);
    assert_eq!(made.header("location"), Some("/v1/volumes/a"));
    assert_eq!((&made.json()["name"], &made.json()["block_bytes"]), (&json!("a"), &json!(512)));
    tour.refused("POST", "/v1/volumes", Some(new), 409, "name-taken");
    let bad = json!({"name": "no name", "size_bytes": 64 << 20});
    tour.refused("POST", "/v1/volumes", Some(bad), 422, "invalid");
    let unknown = json!({"name": "b", "size_bytes": 64 << 20, "colour": "red"});
    tour.refused("POST", "/v1/volumes", Some(unknown), 422, "invalid");
    let thick = json!({"name": "b", "size_bytes": 1_u64 << 40, "thick": true});
    tour.refused("POST", "/v1/volumes", Some(thick), 507, "no-space");
    assert_eq!(tour.call("GET", "/v1/volumes", None, 200).json().as_array().map(Vec::len), Some(1));
    tour.refused("GET", "/v1/volumes?colour=red", None, 400, "bad-request");
    tour.call("GET", "/v1/volumes/a", None, 200);
    tour.refused("GET", "/v1/volumes/b", None, 404, "no-such-volume");

    let change = |tour: &mut Tour<'_>, body: Value| {
        tour.call("PATCH", "/v1/volumes/a", Some(body), 200).json()
    };
    assert_eq!(change(tour, json!({"size_bytes": 128 << 20}))["size_bytes"], 128 << 20);
    assert_eq!(change(tour, json!({"read_ahead_bytes": 0}))["read_ahead_bytes"], 0);
    assert_eq!(change(tour, json!({"cached": false}))["cached"], false);
    let smaller = json!({"size_bytes": 64 << 20});
    tour.refused("PATCH", "/v1/volumes/a", Some(smaller), 409, "would-lose-data");
    let smaller = json!({"size_bytes": 64 << 20, "shrink": true});
    tour.refused("PATCH", "/v1/volumes/a", Some(smaller.clone()), 409, "in-use");
    tour.refused("PATCH", "/v1/volumes/a", Some(json!({})), 422, "invalid");
    let two = json!({"online": false, "name": "b"});
    tour.refused("PATCH", "/v1/volumes/a", Some(two), 422, "invalid");
    let renamed = tour.call("PATCH", "/v1/volumes/a", Some(json!({"name": "b"})), 200);
    assert_eq!(renamed.json()["name"], "b");
    tour.call("PATCH", "/v1/volumes/b", Some(json!({"name": "a"})), 200);

    let reservations = tour.call("GET", "/v1/volumes/a/reservations", None, 200).json();
    assert_eq!((&reservations["count"], &reservations["count_max"]), (&json!(0), &json!(512)));
    let cleared = tour.call("POST", "/v1/volumes/a/reservations/clear", None, 200).json();
    assert_eq!(cleared, reservations);
    tour.refused("GET", "/v1/volumes/x/reservations", None, 404, "no-such-volume");

    tour.refused("DELETE", "/v1/volumes/a", None, 409, "in-use");
    tour.refused("POST", "/v1/volumes/a/purge", None, 409, "not-in-recycle-bin");
    assert_eq!(change(tour, json!({"online": false}))["state"], "offline");
    tour.refused("GET", "/v1/volumes/a/reservations", None, 409, "wrong-state");
    assert_eq!(change(tour, smaller)["size_bytes"], 64 << 20);
    tour.call("DELETE", "/v1/volumes/a", None, 204);
    let online = json!({"online": true});
    tour.refused("PATCH", "/v1/volumes/a", Some(online.clone()), 409, "in-recycle-bin");
    tour.call("POST", "/v1/volumes/a/undelete", None, 200);
    tour.call("DELETE", "/v1/volumes/a", None, 204);
    tour.call("POST", "/v1/volumes/a/purge", None, 204);
    tour.refused("POST", "/v1/volumes/a/undelete", None, 404, "no-such-volume");
    crate::make(tour.member, "a");
    transits(tour);
    slices(tour);
}

/// Nothing is between two members where there is one.
fn transits(tour: &mut Tour<'_>) {
    assert_eq!(tour.call("GET", "/v1/transits", None, 200).json(), json!([]));
    tour.refused("GET", "/v1/transits?limit=0", None, 422, "invalid");
    let keep = || Some(json!({"keep": true}));
    for number in ["0".repeat(32), "7".to_owned()] {
        let path = format!("/v1/transits/{number}/settle");
        tour.refused("POST", &path, keep(), 409, "wrong-state");
        tour.refused("POST", &path, Some(json!({})), 422, "invalid");
    }
}

/// Nothing lies on several members where there is one.
fn slices(tour: &mut Tour<'_>) {
    assert_eq!(tour.call("GET", "/v1/slices", None, 200).json(), json!([]));
    tour.refused("GET", "/v1/slices?limit=0", None, 422, "invalid");
    tour.refused("DELETE", &format!("/v1/slices/{}", "0".repeat(32)), None, 404, "no-such-slice");
    let new =
        |members: u8| Some(json!({"name": "big", "size_bytes": 2_u64 << 30, "spread": members}));
    tour.refused("POST", "/v1/volumes", new(3), 404, "no-group");
    tour.call("POST", "/v1/volumes", new(1), 201);
    tour.call("PATCH", "/v1/volumes/big", Some(json!({"online": false})), 200);
    tour.call("DELETE", "/v1/volumes/big", None, 204);
    tour.call("POST", "/v1/volumes/big/purge", None, 204);
}

fn access(tour: &mut Tour<'_>) {
    let path = "/v1/volumes/a/access";
    let none = tour.call("GET", path, None, 200).json();
    assert_eq!(none, json!({"volume": "a", "entries": null, "shared": false, "hosts": "loopback"}));
    tour.refused("GET", "/v1/volumes/x/access", None, 404, "no-such-volume");
    let hosts = |record: Value| Some(json!({"record": record}));
    let web = json!({"iqn": "iqn.2026-11.com.example:web", "address": "10.1.*.*"});
    let list = tour.call("POST", path, hosts(web.clone()), 201).json();
    let told = json!({"iqn": "iqn.2026-11.com.example:web", "address": "10.1.*.*", "for": "both"});
    assert_eq!(list["entries"], json!([{"number": 1, "record": told}]));
    tour.refused("POST", path, hosts(web), 409, "already-there");
    let of_nobody = json!({"chap": "nobody"});
    tour.refused("POST", path, hosts(of_nobody), 404, "no-such-user");
    let everybody = json!({"for": "volume"});
    tour.refused("POST", path, hosts(everybody), 422, "invalid");
    let unclear = json!({"address": "10.1.2.3/16"});
    tour.refused("POST", path, hosts(unclear), 422, "invalid");
    tour.refused("POST", path, Some(json!({})), 422, "invalid");
    let of_none = json!({"policy": {"name": "rack1"}});
    tour.refused("POST", path, Some(of_none), 404, "no-such-policy");
    let other = json!({"iqn": "iqn.2026-11.com.example:db"});
    tour.refused("POST", "/v1/volumes/x/access", hosts(other), 404, "no-such-volume");
    tour.refused("GET", "/v1/volumes/.drystone-settings/access", None, 422, "invalid");

    let shared = tour.call("PATCH", "/v1/volumes/a", Some(json!({"shared": true})), 200).json();
    assert_eq!(shared["shared"], true);
    assert_eq!(tour.call("GET", path, None, 200).json()["shared"], true);
    tour.call("PATCH", "/v1/volumes/a", Some(json!({"shared": false})), 200);

    tour.refused("DELETE", &format!("{path}/2"), None, 404, "no-such-entry");
    tour.refused("DELETE", &format!("{path}/first"), None, 404, "no-such-path");
    let empty = tour.call("DELETE", &format!("{path}/1"), None, 200).json();
    assert_eq!(empty["entries"], json!([]), "it lets nobody in");
    assert_eq!(tour.call("DELETE", path, None, 200).json()["entries"], Value::Null);
}

fn policies(tour: &mut Tour<'_>) {
    let new = json!({"name": "rack1"});
    let made = tour.call("POST", "/v1/policies", Some(new.clone()), 201);
    assert_eq!(made.header("location"), Some("/v1/policies/rack1"));
    assert_eq!(made.json(), json!({"name": "rack1", "records": []}));
    tour.refused("POST", "/v1/policies", Some(new), 409, "name-taken");
    tour.refused("POST", "/v1/policies", Some(json!({"name": "no name"})), 422, "invalid");
    let record = json!({"address": "10.1.0.0/24"});
    let path = "/v1/policies/rack1/records";
    let added = tour.call("POST", path, Some(record.clone()), 201).json();
    let told = json!([{"number": 1, "address": "10.1.0.0/24", "for": "both"}]);
    assert_eq!(added["records"], told);
    tour.refused("POST", path, Some(record.clone()), 409, "already-there");
    tour.refused("POST", path, Some(json!({})), 422, "invalid");
    tour.refused("POST", "/v1/policies/rack2/records", Some(record), 404, "no-such-policy");
    assert_eq!(tour.call("GET", "/v1/policies", None, 200).json(), json!([added]));
    assert_eq!(tour.call("GET", "/v1/policies/rack1", None, 200).json(), added);
    tour.refused("GET", "/v1/policies/rack2", None, 404, "no-such-policy");

    let entry = json!({"policy": {"name": "rack1", "for": "snapshot"}});
    let list = tour.call("POST", "/v1/volumes/a/access", Some(entry.clone()), 201).json();
    assert_eq!(list["entries"][0]["policy"], entry["policy"], "{list}");
    tour.refused("DELETE", "/v1/policies/rack1", None, 409, "in-use");
    tour.call("DELETE", "/v1/volumes/a/access", None, 200);
    tour.refused("DELETE", &format!("{path}/7"), None, 404, "no-such-entry");
    let left = tour.call("DELETE", &format!("{path}/1"), None, 200).json();
    assert_eq!(left["records"], json!([]));
    tour.call("DELETE", "/v1/policies/rack1", None, 204);
    tour.refused("DELETE", "/v1/policies/rack1", None, 404, "no-such-policy");
}

fn chap_users(tour: &mut Tour<'_>) {
    let login = |user: &str, secret: &str| Some(json!({"user": user, "secret": secret}));
    let new = |secret: &str| Some(json!({ "secret": secret }));
    let long = "hush-hush-hush";
    tour.call("POST", "/v1/chap", login("al", long), 204);
    tour.refused("POST", "/v1/chap", login("al", long), 409, "name-taken");
    tour.refused("POST", "/v1/chap", login("bo", "hush"), 422, "invalid");
    tour.refused("POST", "/v1/chap", login("no name", long), 422, "invalid");
    let refused = tour.call("POST", "/v1/chap", Some(json!({"user": "bo", "secret": [long]})), 422);
    assert!(!refused.text().contains(long), "{}", refused.text());
    tour.call("PUT", "/v1/chap/al", new("another-secret"), 204);
    tour.refused("PUT", "/v1/chap/bo", new(long), 404, "no-such-user");
    tour.refused("PUT", "/v1/chap/al", new("hush"), 422, "invalid");
    tour.call("PUT", "/v1/chap-mutual", login("array", "one-more-secret"), 204);
    tour.refused("PUT", "/v1/chap-mutual", login("array", "hush"), 422, "invalid");
    let known = tour.call("GET", "/v1/chap", None, 200).json();
    let user = |name: &str| json!({"user": name, "usable": true});
    assert_eq!(known, json!({"users": [user("al")], "mutual": user("array")}), "and no secret");
    assert_eq!(tour.call("GET", "/v1/chap/al", None, 200).json(), user("al"));
    tour.refused("GET", "/v1/chap/bo", None, 404, "no-such-user");
    tour.call("DELETE", "/v1/chap-mutual", None, 204);

    let entry = json!({"record": {"chap": "al"}});
    tour.call("POST", "/v1/volumes/a/access", Some(entry), 201);
    tour.refused("DELETE", "/v1/chap/al", None, 409, "in-use");
    tour.call("DELETE", "/v1/volumes/a/access", None, 200);
    tour.call("DELETE", "/v1/chap/al", None, 204);
    tour.refused("DELETE", "/v1/chap/al", None, 404, "no-such-user");
    let known = tour.call("GET", "/v1/chap", None, 200).json();
    assert_eq!(known, json!({"users": [], "mutual": null}));
}

fn logins(tour: &mut Tour<'_>) {
    let shown = tour.call("GET", "/v1/interface", None, 200);
    assert_eq!(
        shown.json(),
        json!({
            "addresses": [], "certificate_sha256": null, "not_over_tls": null, "logs_not_written": []
        })
    );
    let password = "correct horse battery";
    let ada = json!({"name": "ada", "role": "read-only", "password": password});
    let made = tour.call("POST", "/v1/accounts", Some(ada.clone()), 201);
    assert_eq!(made.header("location"), Some("/v1/accounts/ada"));
    assert!(!made.text().contains("horse"), "{}", made.text());
    tour.refused("POST", "/v1/accounts", Some(ada), 409, "name-taken");
    let short = json!({"name": "bob", "role": "operator", "password": "hush-hush"});
    tour.refused("POST", "/v1/accounts", Some(short), 422, "invalid");
    let unread = json!({"name": "bob", "role": "root", "password": password});
    tour.refused("POST", "/v1/accounts", Some(unread), 422, "invalid");
    let off = json!({"disabled": true, "password": "another horse battery"});
    let changed = tour.call("PATCH", "/v1/accounts/ada", Some(off.clone()), 200).json();
    assert_eq!((&changed["disabled"], &changed["role"]), (&json!(true), &json!("read-only")));
    tour.refused("PATCH", "/v1/accounts/bob", Some(off), 404, "no-such-account");
    assert_eq!(tour.call("GET", "/v1/accounts", None, 200).json()[0]["name"], "ada");
    let shown = tour.call("GET", "/v1/accounts/ada", None, 200);
    assert!(shown.json() == changed && shown.header("etag").is_some());
    tour.refused("GET", "/v1/accounts/bob", None, 404, "no-such-account");
    tour.call("DELETE", "/v1/accounts/ada", None, 204);
    tour.refused("DELETE", "/v1/accounts/ada", None, 404, "no-such-account");
    let ci = json!({"name": "ci", "role": "operator"});
    let made = tour.call("POST", "/v1/tokens", Some(ci.clone()), 201);
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let token = made.json()["token"].as_str().expect("what it is").to_owned();
    tour.refused("POST", "/v1/tokens", Some(ci), 409, "name-taken");
    let late = json!({"name": "late", "role": "operator", "expires_unix_seconds": 5});
    tour.refused("POST", "/v1/tokens", Some(late), 422, "invalid");
    let listed = tour.call("GET", "/v1/tokens", None, 200);
    assert!(listed.text().contains("ci") && !listed.text().contains(&token), "{}", listed.text());
    let shown = tour.call("GET", "/v1/tokens/ci", None, 200);
    assert!(shown.json() == listed.json()[0] && shown.header("etag").is_some());
    tour.call("DELETE", "/v1/tokens/ci", None, 204);
    tour.refused("GET", "/v1/tokens/ci", None, 404, "no-such-token");
    tour.refused("DELETE", "/v1/tokens/ci", None, 404, "no-such-token");
}

fn snapshots(tour: &mut Tour<'_>) {
    let new = json!({"volumes": ["a"], "name": "s"});
    let taken = tour.call("POST", "/v1/snapshots", Some(new.clone()), 201).json();
    assert_eq!((&taken[0]["volume"], &taken[0]["name"]), (&json!("a"), &json!("s")));
    tour.refused("POST", "/v1/snapshots", Some(new), 409, "name-taken");
    tour.refused("POST", "/v1/snapshots", Some(json!({"volumes": []})), 422, "invalid");
    let twice = json!({"volumes": ["a", "a"]});
    tour.refused("POST", "/v1/snapshots", Some(twice), 422, "invalid");
    let of_none = json!({"volumes": ["x"]});
    tour.refused("POST", "/v1/snapshots", Some(of_none), 404, "no-such-volume");
    let listed = tour.call("GET", "/v1/snapshots?volume=a&space=true", None, 200).json();
    assert!(listed[0]["space"]["unique_bytes"].is_u64(), "{listed}");
    tour.call("GET", "/v1/snapshots", None, 200);
    tour.refused("GET", "/v1/snapshots?volume=x", None, 404, "no-such-volume");
    tour.call("GET", "/v1/snapshots/a/s", None, 200);
    tour.refused("GET", "/v1/snapshots/a/t", None, 404, "no-such-snapshot");
    tour.call("GET", "/v1/volumes/a/changes?from=s", None, 200);
    tour.refused("GET", "/v1/volumes/a/changes?from=t", None, 404, "no-such-snapshot");

    let change = |tour: &mut Tour<'_>, body: Value| {
        tour.call("PATCH", "/v1/snapshots/a/s", Some(body), 200).json()
    };
    assert_eq!(change(tour, json!({"online": true}))["access"], "read-only");
    tour.refused("DELETE", "/v1/snapshots/a/s", None, 409, "in-use");
    let reserved = tour.call("GET", "/v1/snapshots/a/s/reservations", None, 200).json();
    assert_eq!((&reserved["snapshot"], &reserved["count"]), (&json!("s"), &json!(0)));
    let cleared = tour.call("POST", "/v1/snapshots/a/s/reservations/clear", None, 200).json();
    assert_eq!(cleared, reserved);
    let offline = json!({"online": false});
    assert_eq!(change(tour, offline.clone())["iqn"], Value::Null);
    tour.refused("GET", "/v1/snapshots/a/s/reservations", None, 409, "wrong-state");
    let writable = json!({"online": true, "access": "read-write"});
    assert_eq!(change(tour, writable)["access"], "read-write");
    assert_eq!(change(tour, offline)["online"], false);
    let fresh = json!({"online": false, "fresh": true});
    tour.refused("PATCH", "/v1/snapshots/a/s", Some(fresh), 422, "invalid");

    let cloned = tour.call("POST", "/v1/snapshots/a/s/clone", Some(json!({"to": "c"})), 201);
    assert_eq!(cloned.json()["origin"], "a@s");
    let taken = json!({"to": "c"});
    tour.refused("POST", "/v1/snapshots/a/s/clone", Some(taken), 409, "name-taken");
    tour.refused("POST", "/v1/snapshots/a/s/rollback", None, 409, "in-use");
    tour.call("PATCH", "/v1/volumes/a", Some(json!({"online": false})), 200);
    tour.call("POST", "/v1/snapshots/a/s/rollback", None, 204);
    tour.call("PATCH", "/v1/volumes/a", Some(json!({"online": true})), 200);
    let second = json!({"volumes": ["a", "c"], "name": "t"});
    tour.call("POST", "/v1/snapshots", Some(second), 201);
    tour.call("DELETE", "/v1/snapshots/a/t", None, 204);
    tour.refused("DELETE", "/v1/snapshots/x/t", None, 404, "no-such-volume");
}

fn schedules(tour: &mut Tour<'_>) {
    let path = "/v1/schedules";
    let daily = json!({"daily": {"at": "03:00"}});
    let new = |name: &str, volumes: Value, keep: u32| {
        Some(json!({"name": name, "volumes": volumes, "when": daily, "keep": keep}))
    };
    assert_eq!(tour.call("GET", path, None, 200).json(), json!([]));
    let made = tour.call("POST", path, new("nightly", json!(["a", "c"]), 7), 201);
    assert_eq!(made.header("location"), Some("/v1/schedules/nightly"));
    let shown = made.json();
    let volumes = json!([{"name": "a", "gone": false}, {"name": "c", "gone": false}]);
    assert_eq!((&shown["volumes"], &shown["when"]), (&volumes, &daily), "{shown}");
    let next = shown["next_unix_seconds"].as_u64().expect("it is due");
    assert_eq!(next % 86_400, 3 * 3600);
    assert_eq!((&shown["last"], &shown["snapshots"]), (&Value::Null, &json!(0)));
    tour.refused("POST", path, new("nightly", json!(["a"]), 7), 409, "name-taken");
    tour.refused("POST", path, new("no name", json!(["a"]), 7), 422, "invalid");
    tour.refused("POST", path, new("x", json!(["a", "a"]), 7), 422, "invalid");
    tour.refused("POST", path, new("x", json!([]), 7), 422, "invalid");
    tour.refused("POST", path, new("x", json!(["a"]), 0), 422, "invalid");
    tour.refused("POST", path, new("x", json!(["x"]), 7), 404, "no-such-volume");
    let wrong =
        json!({"name": "x", "volumes": ["a"], "when": {"daily": {"at": "24:00"}}, "keep": 7});
    tour.refused("POST", path, Some(wrong), 422, "invalid");

    let path = "/v1/schedules/nightly";
    tour.call("GET", path, None, 200);
    tour.refused("GET", "/v1/schedules/x", None, 404, "no-such-schedule");
    let weekly = json!({"weekly": {"day": "sunday", "at": "04:30"}});
    let change = json!({"when": weekly, "keep": 3, "paused": true, "volumes": ["a"]});
    let changed = tour.call("PATCH", path, Some(change), 200).json();
    assert_eq!((&changed["when"], &changed["keep"]), (&weekly, &json!(3)), "{changed}");
    assert_eq!((&changed["next_unix_seconds"], &changed["paused"]), (&Value::Null, &json!(true)));
    tour.refused("PATCH", path, Some(json!({})), 422, "invalid");
    let often = json!({"when": {"every": {"seconds": 5}}});
    tour.refused("PATCH", path, Some(often), 422, "invalid");
    let paused = Some(json!({"paused": true}));
    tour.refused("PATCH", "/v1/schedules/x", paused, 404, "no-such-schedule");
    tour.call("DELETE", path, None, 204);
    tour.refused("DELETE", path, None, 404, "no-such-schedule");
}

fn destinations(tour: &mut Tour<'_>) {
    let path = "/v1/destinations";
    assert_eq!(tour.call("GET", path, None, 200).json(), json!([]));
    let hook =
        json!({"webhook": {"url": "https://127.0.0.1:9/p4th", "secret": "hush", "token": "hush"}});
    let new = |name: &str, to: &Value| Some(json!({"name": name, "to": to, "severity": "error"}));
    let made = tour.call("POST", path, new("ops", &hook), 201);
    assert_eq!(made.header("location"), Some("/v1/destinations/ops"));
    let shown = made.json();
    assert_eq!((&shown["severity"], &shown["fold_seconds"]), (&json!("error"), &json!(300)));
    assert_eq!(shown["to"]["webhook"]["server"], "https://127.0.0.1:9", "{shown}");
    tour.refused("POST", path, new("ops", &hook), 409, "name-taken");
    tour.refused("POST", path, new("no name", &hook), 422, "invalid");
    for bad in [
        json!({"webhook": {"url": "http://127.0.0.1/x", "token": "hush"}}),
        json!({"webhook": {"url": "https://h/x\r\nX: y"}}),
        json!({"syslog": {"server": "a b"}}),
        json!({"email": {"to": ["a@x\r\nBcc: b@y"], "from": "a@x", "smtp": "h"}}),
        json!({"email": {"to": [], "from": "a@x", "smtp": "h"}}),
    ] {
        tour.refused("POST", path, new("x", &bad), 422, "invalid");
    }
    let path = "/v1/destinations/ops";
    let shown = tour.call("GET", path, None, 200);
    tour.refused("GET", "/v1/destinations/x", None, 404, "no-such-destination");
    let test = tour.call("POST", "/v1/destinations/ops/test", None, 200).json();
    assert_eq!(test["taken"], json!(false), "nobody listens there: {test}");
    assert!(!shown.text().contains("hush") && !test.to_string().contains("p4th"), "{test}");
    tour.refused("POST", "/v1/destinations/x/test", None, 404, "no-such-destination");
    // Whoever may try it out makes the member send no mail without end.
    (0..5).for_each(|_| _ = tour.call("POST", "/v1/destinations/ops/test", None, 200));
    let late = tour.call("POST", "/v1/destinations/ops/test", None, 429);
    assert_eq!(late.problem(), "too-often", "{}", late.text());
    let seconds: u64 = late.header("retry-after").and_then(|it| it.parse().ok()).expect("a number");
    assert!((1..=60).contains(&seconds), "{seconds}");
    let syslog = json!({"syslog": {"server": "127.0.0.1:9", "audit": true}});
    let made = tour.call("POST", "/v1/destinations", new("siem", &syslog), 201).json();
    assert_eq!(made["to"]["syslog"]["audit"], json!(true), "{made}");
    tour.call("DELETE", "/v1/destinations/siem", None, 204);
    tour.call("PATCH", path, Some(json!({"paused": true, "fold_seconds": 60})), 200);
    tour.refused("PATCH", path, Some(json!({})), 422, "invalid");
    tour.refused("PATCH", path, Some(json!({"fold_seconds": 0})), 422, "invalid");
    let tag = format!("if-match: {}", shown.header("etag").expect("it has a tag"));
    let socket = tour.member.home.socket();
    let stale = http::ask(&socket, "DELETE", path, &[&tag], None);
    assert_eq!((stale.status, stale.problem().as_str()), (412, "changed"));
    tour.call("DELETE", path, None, 204);
    tour.refused("DELETE", path, None, 404, "no-such-destination");
}

fn configuration(tour: &mut Tour<'_>) {
    let path = "/v1/configuration";
    let shown = tour.call("GET", path, None, 200);
    let before = shown.json();
    let policies = json!({
        "policies": [{"name": "all", "hosts": [{"address": "10.0.0.0/8"}]}],
        "volumes": [{"name": "a", "access": {"listed": [{"policy": {"name": "all"}}]}}],
    });
    tour.call("PATCH", path, Some(policies.clone()), 204);
    let tag = format!("if-match: {}", shown.header("etag").expect("it has a tag"));
    let socket = tour.member.home.socket();
    let stale = http::ask(&socket, "PATCH", path, &[&tag], Some(&policies));
    assert_eq!((stale.status, stale.problem().as_str()), (412, "changed"));
    let back = json!({
        "delete_policies": ["all"], "volumes": [{"name": "a", "access": "unlisted"}],
    });
    tour.call("PATCH", path, Some(back), 204);
    assert_eq!(tour.call("GET", path, None, 200).json()["policies"], before["policies"]);
    for (change, status, code) in [
        (json!({"delete_policies": ["all"]}), 404, "no-such-policy"),
        (json!({"volumes": [{"name": "a", "size_bytes": 1}]}), 409, "would-lose-data"),
        (json!({"volumes": [{"name": "x"}]}), 404, "no-such-volume"),
        (json!({"volumes": [{"name": "a"}, {"name": "a"}]}), 422, "invalid"),
        (
            json!({"volumes": [{"name": "a", "access": {"listed": [{"record": {}}]}}]}),
            422,
            "invalid",
        ),
        (json!({"colour": "red"}), 422, "invalid"),
        (json!({"remove_accounts": ["x"]}), 404, "no-such-account"),
    ] {
        tour.refused("PATCH", path, Some(change), status, code);
    }
}

/// The names and the data of events.
fn events(reply: &Reply) -> Vec<(String, Value)> {
    let text = reply.text();
    let event = |part: &str| {
        let line = |key: &str| part.lines().find_map(|line| line.strip_prefix(key));
        let data = serde_json::from_str(line("data: ")?).expect("data is JSON");
        Some((line("event: ")?.to_owned(), data))
    };
    text.split("\n\n").filter_map(event).collect()
}

fn work(tour: &mut Tour<'_>) {
    tour.call("GET", "/v1/jobs", None, 200);
    let stream = tour.call("GET", "/v1/jobs/stream?kinds=delete,rebuild", None, 200);
    assert_eq!(events(&stream).last().expect("an end").0, "done");
    tour.refused("GET", "/v1/jobs/stream?kinds=other", None, 422, "invalid");
    for kind in ["scrub", "check", "rebalance"] {
        let run = tour.call("POST", &format!("/v1/array/{kind}"), None, 202);
        let place = run.header("location").expect("a place").to_owned();
        assert_eq!((&run.json()["kind"], &run.json()["state"]), (&json!(kind), &json!("running")));
        let stream = tour.call("GET", &format!("{place}/stream"), None, 200);
        let (last, ended) = events(&stream).pop().expect("an end");
        assert_eq!((last.as_str(), &ended["state"]), ("done", &json!("done")), "{ended}");
        let shown = tour.call("GET", &place, None, 200).json();
        assert_eq!(shown, ended);
        assert!(ended["ended_unix_seconds"].is_u64(), "{ended}");
        tour.refused("POST", &format!("{place}/cancel"), None, 409, "wrong-state");
        let is_well = ended["report"]["problems"] == json!([]);
        assert!(is_well || kind == "rebalance" && ended["report"].is_null(), "{ended}");
    }
    assert_eq!(tour.call("GET", "/v1/runs", None, 200).json().as_array().map(Vec::len), Some(4));
    tour.refused("GET", "/v1/runs/7", None, 404, "no-such-run");
    tour.refused("POST", "/v1/runs/7/cancel", None, 404, "no-such-run");
    cancel(tour);
    tour.call("GET", "/v1/connections", None, 200);

    tour.call("GET", "/v1/array", None, 200);
    let set = tour.call("PATCH", "/v1/array", Some(json!({"scrub_days": 7})), 200).json();
    assert_eq!(set["scrub_days"], 7);
    let too_much = json!({"rebuild_share_percent": 101});
    tour.refused("PATCH", "/v1/array", Some(too_much), 422, "invalid");
    let cache = json!({"cache_memory_bytes": 32 << 20});
    let set = tour.call("PATCH", "/v1/array", Some(cache), 200).json();
    assert_eq!(set["cache_memory"]["bytes_max"], 32 << 20);
    tour.call("PATCH", "/v1/array", Some(json!({"cache_memory_bytes": 0})), 200);
    let too_little = json!({"cache_memory_bytes": 1, "scrub_days": 9});
    tour.refused("PATCH", "/v1/array", Some(too_little), 422, "invalid");
    assert_eq!(tour.call("GET", "/v1/array", None, 200).json()["scrub_days"], 7, "nothing is set");

    tour.call("GET", "/v1/figures", None, 200);
    for (query, status, code) in [
        ("interval_seconds=0", 422, "invalid"),
        ("interval_seconds=3601", 422, "invalid"),
        ("interval_seconds=0.5", 400, "bad-request"),
        ("interval=1", 400, "bad-request"),
    ] {
        tour.refused("GET", &format!("/v1/figures/stream?{query}"), None, status, code);
    }
    let told = followed(tour, "/v1/figures/stream?interval_seconds=1", |heard| {
        heard.matches("}\n\n").count() >= 2
    });
    let mut told = events(&told).into_iter();
    let (name, first) = told.next().expect("the first come at once");
    assert_eq!((name.as_str(), &first["volumes"][0]["volume"]), ("figures", &json!("a")));
    let cpu = |figures: &Value| figures["cores"][0]["cpu_us"].as_u64().expect("a number");
    let (_, second) = told.next().expect("and others");
    assert!(cpu(&second) > cpu(&first), "{second}");
    let figures = tour.call("GET", "/metrics", None, 200).text();
    for line in [
        "# TYPE drystone_array_size_bytes gauge",
        "# TYPE drystone_volume_commands_total counter",
        "# TYPE drystone_volume_latency_seconds histogram",
        "drystone_volume_size_bytes{volume=\"a\"} 67108864",
        "drystone_volume_state{volume=\"a\",state=\"online\"} 1",
        "drystone_array_disks_online 4",
        "drystone_jobs{kind=\"scrub\"} 0",
        "drystone_array_sets_degraded{raid=\"metadata\"} 0",
        "# TYPE drystone_disk_latency_seconds histogram",
        "drystone_disk_requests_failed_total{disk=\"1\",",
    ] {
        assert!(figures.lines().any(|told| told.starts_with(line)), "{line}\n{figures}");
    }
}

/// Cancels a scrub, which may be quicker: then another one.
fn cancel(tour: &mut Tour<'_>) {
    let socket = tour.member.home.socket();
    let was_cancelled = (0..50).any(|_| {
        let run = tour.call("POST", "/v1/array/scrub", None, 202);
        let place = run.header("location").expect("a place").to_owned();
        let path = format!("{place}/cancel");
        let reply = http::ask(&socket, "POST", &path, &[], None);
        tour.document.check("POST", &path, &reply);
        let stream = tour.call("GET", &format!("{place}/stream"), None, 200);
        let (last, ended) = events(&stream).pop().expect("an end");
        assert_eq!(last, "done", "{ended}");
        reply.status == 202
    });
    assert!(was_cancelled, "each of them was quicker");
}

/// An address for the group.
fn address(text: &str) -> Option<Value> {
    Some(json!({"address": text}))
}

/// What a member that is in no group says of one.
fn no_group(tour: &mut Tour<'_>) {
    for path in [
        "/v1/group",
        "/v1/group/certificate",
        "/v1/group/tokens",
        "/v1/group/volumes",
        "/v1/members",
        "/v1/members/san1",
    ] {
        tour.refused("GET", path, None, 404, "no-group");
    }
    tour.refused("POST", "/v1/group/tokens", None, 404, "no-group");
    tour.refused("DELETE", "/v1/group/tokens/00c0ffee", None, 404, "no-group");
    tour.refused("PATCH", "/v1/group", Some(json!({"name": "lab"})), 404, "no-group");
    tour.refused("DELETE", "/v1/group", None, 404, "no-group");
    tour.refused("PUT", "/v1/group/address", address("127.77.0.1/8"), 404, "no-group");
    tour.refused("DELETE", "/v1/group/address", None, 404, "no-group");
    let limit = || Some(json!({"limit": 9}));
    tour.refused("PUT", "/v1/group/connections", limit(), 404, "no-group");
    tour.refused("PUT", "/v1/pools/default/connections", limit(), 404, "no-group");
    tour.refused("GET", "/v1/pools", None, 404, "no-group");
    tour.refused("GET", "/v1/pools/default", None, 404, "no-group");
    tour.refused("POST", "/v1/pools", Some(json!({"name": "ssd"})), 404, "no-group");
    tour.refused("PATCH", "/v1/members/san1", Some(json!({"pool": "ssd"})), 404, "no-group");
    tour.refused("POST", "/v1/group/share", None, 404, "no-group");
    tour.refused("POST", "/v1/volumes/a/move", None, 404, "no-group");
}

/// A group of two, the other one of which joins and is removed again.
fn group(tour: &mut Tour<'_>) {
    no_group(tour);
    let new = |name: &str, listen: String| {
        Some(json!({"name": name, "member": "san1", "listen": listen}))
    };
    tour.refused("POST", "/v1/group", new("lab", "san1".to_owned()), 422, "invalid");
    tour.refused("POST", "/v1/group", new("no name", four_ports()), 422, "invalid");
    let door = four_ports();
    let made = tour.call("POST", "/v1/group", new("lab", door.clone()), 201).json();
    assert_eq!((&made["name"], &made["door"]), (&json!("lab"), &json!(door)));
    tour.refused("POST", "/v1/group", new("more", four_ports()), 409, "wrong-state");
    tour.call("GET", "/v1/group", None, 200);
    let known = tour.call("GET", "/v1/group/certificate", None, 200).json();
    let pem = known["certificate"].as_str().expect("a certificate");
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n") && !pem.contains("PRIVATE"), "{pem}");
    let renamed = tour.call("PATCH", "/v1/group", Some(json!({"name": "yard"})), 200);
    assert_eq!(renamed.json()["id"], made["id"]);
    let set = tour.call("PUT", "/v1/group/address", address("127.77.0.1/8"), 200).json();
    assert_eq!(set["address"], "127.77.0.1/8");
    tour.refused("PUT", "/v1/group/address", address("127.77.0.1"), 422, "invalid");
    tour.refused("PUT", "/v1/group/address", address("203.0.113.100/24"), 422, "invalid");
    let own = door.rsplit_once(':').expect("an address with its port").0;
    tour.refused("PUT", "/v1/group/address", address(&format!("{own}/8")), 409, "in-use");
    tour.call("DELETE", "/v1/group/address", None, 204);
    assert_eq!(tour.call("GET", "/v1/group", None, 200).json()["address"], Value::Null);

    connections(tour);

    pools(tour);
    tokens_to_join(tour);
    let token = tour.call("POST", "/v1/group/tokens", None, 201);
    assert_eq!(token.header("cache-control"), Some("no-store"));
    let other = Home::files(2, "256M");
    let second = other.start(&["--raid", "raid1"]);
    let join = json!({
        "group": door, "token": token.json()["token"], "member": "san2", "listen": four_ports(),
    });
    let join = || http::ask(&other.socket(), "POST", "/v1/group/join", &[], Some(&join));
    let joined = join();
    assert_eq!(joined.status, 200, "{}", joined.text());
    tour.document.check("POST", "/v1/group/join", &joined);
    assert_eq!(join().problem(), "wrong-state", "it is in one");
    for path in ["/v1/members/san2", "/v1/members", "/v1/group/volumes"] {
        soon(tour, path);
    }
    moves(tour);
    tour.refused("GET", "/v1/members/san3", None, 404, "no-such-member");
    tour.refused("DELETE", "/v1/members/san3", None, 404, "no-such-member");
    tour.refused("DELETE", "/v1/group", None, 409, "wrong-state");
    tour.call("DELETE", "/v1/members/san2", None, 204);
    tour.refused("DELETE", "/v1/members/san1", None, 409, "wrong-state");
    tour.call("DELETE", "/v1/group", None, 204);
    tour.refused("GET", "/v1/group", None, 404, "no-group");
    second.stop();
}

/// How many connections a group takes.
fn connections(tour: &mut Tour<'_>) {
    let connections = |limit: u32| Some(json!({"limit": limit}));
    let limits = |group: Value| {
        [group["connections_limit"].clone(), group["pool_connections_limit"].clone()]
    };
    let small = Some(json!({"profile": "small"}));
    let set = tour.call("PUT", "/v1/group/connections", small, 200).json();
    assert_eq!(limits(set), [512, 256]);
    let set = tour.call("PUT", "/v1/group/connections", connections(9000), 200).json();
    assert_eq!(limits(set), [9000, 256]);
    let none = Some(json!({"profile": "none"}));
    let set = tour.call("PUT", "/v1/group/connections", none, 200).json();
    assert_eq!(limits(set), [Value::Null, Value::Null]);
    let small = Some(json!({"profile": "small"}));
    tour.call("PUT", "/v1/group/connections", small, 200);
    tour.refused("PUT", "/v1/group/connections", Some(json!({})), 422, "invalid");
    tour.refused("PUT", "/v1/group/connections", connections(0), 422, "invalid");
    let both = Some(json!({"limit": 9, "profile": "small"}));
    tour.refused("PUT", "/v1/group/connections", both, 422, "invalid");
}

/// A volume goes to the other member of a group.
fn moves(tour: &mut Tour<'_>) {
    let (socket, path) = (tour.member.home.socket(), "/v1/volumes/goes/move");
    let new = json!({"name": "goes", "size_bytes": 16 << 20, "raid": "raid1"});
    let here = ["drystone-member: @here"];
    let made = http::ask(&socket, "POST", "/v1/volumes", &here, Some(&new));
    assert_eq!(made.status, 201, "{}", made.text());
    let to = |member: &str| Some(json!({"to": member}));
    tour.refused("POST", path, to("san1"), 409, "wrong-state");
    tour.refused("POST", path, to("san3"), 404, "no-such-member");
    let both = json!({"to": "san2", "pool": "default"});
    tour.refused("POST", path, Some(both), 422, "invalid");
    tour.refused("POST", "/v1/volumes/nothing/move", None, 404, "no-such-volume");
    // As soon as the member has heard that the other one is there, and shares the settings of the group.
    let end = Instant::now() + Duration::from_secs(20);
    let begun = loop {
        let reply = http::ask(&socket, "POST", path, &[], to("san2").as_ref());
        tour.document.check("POST", path, &reply);
        if reply.status == 202 {
            break reply;
        }
        assert!(Instant::now() < end, "{}", reply.text());
        thread::sleep(Duration::from_millis(100));
    };
    let run = begun.json();
    assert_eq!((&run["kind"], &run["volume"]), (&json!("move"), &json!("goes")));
    assert_eq!(run["to"], "san2");
    let place = begun.header("location").expect("a place").to_owned();
    let stream = tour.call("GET", &format!("{place}/stream"), None, 200);
    let (last, ended) = events(&stream).pop().expect("an end");
    assert_eq!((last.as_str(), &ended["state"]), ("done", &json!("done")), "{ended}");
    let shown = tour.call("GET", "/v1/volumes/goes", None, 200).json();
    assert_eq!(shown["member"], "san2");
}

/// Pools of the one member of a group, and the settings that it shares with nobody.
fn pools(tour: &mut Tour<'_>) {
    let pool = |name: &str| Some(json!({"name": name}));
    let made = tour.call("POST", "/v1/pools", pool("ssd"), 201);
    assert_eq!(made.header("location"), Some("/v1/pools/ssd"));
    tour.call("POST", "/v1/pools", pool("disk"), 201);
    tour.refused("POST", "/v1/pools", pool("SSD"), 409, "name-taken");
    tour.refused("POST", "/v1/pools", pool("no name"), 422, "invalid");
    tour.refused("GET", "/v1/pools/tape", None, 404, "no-such-pool");
    let to = |pool: &str| Some(json!({"pool": pool}));
    let moved = tour.call("PATCH", "/v1/members/san1", to("ssd"), 200).json();
    assert_eq!(moved["pool"], "ssd");
    tour.refused("PATCH", "/v1/members/san1", to("tape"), 404, "no-such-pool");
    tour.refused("PATCH", "/v1/members/san3", to("ssd"), 404, "no-such-member");
    let limit = |limit: Option<u32>| Some(json!({"limit": limit}));
    let set = tour.call("PUT", "/v1/pools/ssd/connections", limit(Some(77)), 200).json();
    let own =
        |pool: &Value| (pool["connections_limit"].as_u64(), pool["own_connections_limit"] == true);
    assert_eq!(own(&set), (Some(77), true));
    let set = tour.call("PUT", "/v1/pools/ssd/connections", limit(None), 200).json();
    assert_eq!(own(&set), (Some(256), false));
    tour.refused("PUT", "/v1/pools/ssd/connections", limit(Some(0)), 422, "invalid");
    tour.refused("PUT", "/v1/pools/ssd/connections", Some(json!({})), 422, "invalid");
    tour.refused("PUT", "/v1/pools/tape/connections", limit(Some(7)), 404, "no-such-pool");
    let shown = tour.call("GET", "/v1/pools/ssd", None, 200).json();
    assert_eq!(shown["members"], json!(["san1"]));
    tour.refused("DELETE", "/v1/pools/ssd", None, 409, "in-use");
    let into = Some(json!({"into": "disk"}));
    let merged = tour.call("POST", "/v1/pools/ssd/merge", into, 200).json();
    assert_eq!((&merged["name"], &merged["members"]), (&json!("disk"), &json!(["san1"])));
    tour.call("PATCH", "/v1/members/san1", to("default"), 200);
    tour.call("DELETE", "/v1/pools/disk", None, 204);
    tour.refused("DELETE", "/v1/pools/default", None, 422, "invalid");
    let all = tour.call("GET", "/v1/pools", None, 200).json();
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
    let shared = tour.call("POST", "/v1/group/share", Some(json!({"replace": true})), 200).json();
    assert_eq!(shared["shares"], true);
}

/// Tokens that let nobody in.
fn tokens_to_join(tour: &mut Tour<'_>) {
    for seconds in [0, 604_801] {
        let wrong = json!({"expires_seconds": seconds});
        tour.refused("POST", "/v1/group/tokens", Some(wrong), 422, "invalid");
    }
    assert_eq!(tour.call("GET", "/v1/group/tokens", None, 200).json(), json!([]));
    let made =
        [60, 604_800].map(|seconds| Some(json!({"expires_seconds": seconds}))).map(|asked| {
            let made = tour.call("POST", "/v1/group/tokens", asked, 201).json();
            (made["id"].as_str().expect("a text").to_owned(), made)
        });
    let kept = tour.call("GET", "/v1/group/tokens", None, 200).json();
    assert_eq!(kept.as_array().map(Vec::len), Some(2), "{kept}");
    for (id, made) in &made {
        let token = kept.as_array().into_iter().flatten().find(|token| token["id"] == **id);
        let token = token.unwrap_or_else(|| panic!("{id} is missing: {kept}"));
        assert_eq!(token["expires_unix_seconds"], made["expires_unix_seconds"]);
        assert_eq!(token["token"], Value::Null, "what it is comes once");
        tour.call("DELETE", &format!("/v1/group/tokens/{id}"), None, 204);
        tour.refused("DELETE", &format!("/v1/group/tokens/{id}"), None, 404, "no-such-token");
    }
    assert_eq!(tour.call("GET", "/v1/group/tokens", None, 200).json(), json!([]));
}

/// What happened, and who did what.
fn records(tour: &mut Tour<'_>) {
    let all = tour.call("GET", "/v1/events", None, 200).json();
    let all = all.as_array().expect("a list");
    assert!(all.iter().any(|event| event["kind"] == "disk_failed"), "{all:#?}");
    let errors = tour.call("GET", "/v1/events?severity=error&object=disk-1", None, 200).json();
    assert_eq!(errors[0]["kind"], "disk_failed", "{errors}");
    assert_eq!(tour.call("GET", "/v1/events?since=9999999999", None, 200).json(), json!([]));
    let page = tour.call("GET", "/v1/events?limit=2", None, 200);
    assert!(page.json().as_array().map(Vec::len) == Some(2) && page.header("link").is_some());
    tour.refused("GET", "/v1/events?severity=loud", None, 422, "invalid");
    tour.refused("GET", "/v1/events?last=0", None, 422, "invalid");
    tour.refused("GET", "/v1/events?since=yesterday", None, 400, "bad-request");
    let lately = tour.call("GET", "/v1/events?seconds_ago=3600", None, 200).json();
    assert!(lately.as_array().is_some_and(|all| !all.is_empty()), "{lately}");
    for path in ["/v1/events?since=1&seconds_ago=1", "/v1/audit?since=1&seconds_ago=1"] {
        tour.refused("GET", path, None, 422, "invalid");
    }
    tour.refused("GET", "/v1/events/stream?severity=loud", None, 422, "invalid");
    follow(tour, &all[1..]);

    let entries = tour.call("GET", "/v1/audit", None, 200).json();
    let entries = entries.as_array().expect("a list");
    let mine = |entry: &&Value| entry["who"]["pid"] == std::process::id();
    let made = entries.iter().filter(mine).find(|entry| entry["operation"] == "POST /v1/volumes");
    assert_eq!(made.map(|entry| &entry["done"]), Some(&json!(true)), "{entries:#?}");
    let refused = tour.call("GET", "/v1/audit?done=false&last=1", None, 200).json();
    assert!(refused[0]["outcome"].as_str().expect("a text").starts_with('4'), "{refused}");
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let reply = http::ask(&tour.member.home.socket(), method, "/v1/audit", &[], None);
        assert_eq!(reply.problem(), "method-not-allowed");
    }
}

/// What is there as soon as the member has heard of it from another one.
fn soon(tour: &mut Tour<'_>, path: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    let is_there = || http::ask(&tour.member.home.socket(), "GET", path, &[], None).status == 200;
    while !is_there() {
        assert!(Instant::now() < end, "{path} is not there");
        thread::sleep(Duration::from_millis(50));
    }
    tour.call("GET", path, None, 200);
}

/// An address with a port that is free, and three more behind it.
fn four_ports() -> String {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Below those that the system gives away by itself (ip_local_port_range of ip(7)).
    let mut first = (20_000..32_000_u16).step_by(4);
    let mut rng = fastrand::Rng::new();
    let skipped = rng.usize(..first.len() / 2);
    let found = first.by_ref().skip(skipped).find(|port| (*port..port + 4).all(is_free));
    format!("127.0.0.1:{}", found.expect("four ports in a row are free"))
}

/// Events from a number on, as far as they are there; then the connection is closed.
fn follow(tour: &mut Tour<'_>, wanted: &[Value]) {
    let path = format!("/v1/events/stream?from={}", wanted[0]["number"]);
    let ids = |heard: &str| heard.lines().filter(|line| line.starts_with("id: ")).count();
    let heard = followed(tour, &path, |heard| ids(heard) >= wanted.len()).text();
    for event in wanted {
        assert!(heard.contains(&format!("\nid: {}\n", event["number"])), "{event} {heard}");
    }
}

/// What is told of a stream that has no end, up to where it `is_enough`; then the connection is closed.
fn followed(tour: &mut Tour<'_>, path: &str, is_enough: impl Fn(&str) -> bool) -> Reply {
    let mut stream = http::connect(&tour.member.home.socket());
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it is taken");
    let mut heard = String::new();
    let mut bytes = [0; 4096];
    while !is_enough(&heard) {
        let len = stream.read(&mut bytes).expect("it goes on");
        assert!(len > 0, "it has ended: {heard}");
        heard.push_str(&String::from_utf8_lossy(&bytes[..len]));
    }
    let (head, body) = heard.split_once("\r\n\r\n").expect("a head");
    let reply = Reply::of(head, body);
    tour.document.check("GET", path, &reply);
    reply
}

fn disks(tour: &mut Tour<'_>) {
    let file = |tour: &Tour<'_>, name: &str| text(&tour.member.home.path(name));
    tour.call("GET", "/v1/disks", None, 200);
    let whole = file(tour, "disk-1").replace('/', "%2F");
    let found = tour.call("GET", &format!("/v1/disks?disk={whole}"), None, 200).json();
    assert_eq!(found[0]["id"], 1);
    tour.refused("GET", "/v1/disks?disk=none", None, 404, "no-such-disk");
    tour.call("GET", "/v1/disks/1", None, 200);
    tour.call("GET", "/v1/disks/disk-1", None, 200);
    tour.refused("GET", "/v1/disks/none", None, 404, "no-such-disk");
    let new = json!({"disk": format!("{}:256M", file(tour, "new"))});
    assert_eq!(tour.call("POST", "/v1/disks", Some(new.clone()), 201).json()[4]["role"], "data");
    tour.refused("POST", "/v1/disks", Some(new), 409, "in-use");
    let missing = json!({"disk": "/nonexistent/disk"});
    tour.refused("POST", "/v1/disks", Some(missing), 422, "invalid");
    tour.call("POST", "/v1/disks/new/clear", None, 200);
    tour.refused("POST", "/v1/disks/new/cancel-retire", None, 409, "wrong-state");
    tour.refused("POST", "/v1/disks/none/retire", None, 404, "no-such-disk");
    // A disk that holds little may be gone before it can stay: then the next one is tried.
    crate::fill(tour.member, "a");
    let has_stayed = (2..4).any(|number| {
        tour.call("POST", &format!("/v1/disks/disk-{number}/retire"), None, 200);
        let path = format!("/v1/disks/disk-{number}/cancel-retire");
        let reply = http::ask(&tour.member.home.socket(), "POST", &path, &[], None);
        if reply.status == 200 {
            tour.document.check("POST", &path, &reply);
        }
        reply.status == 200
    });
    assert!(has_stayed, "both were empty at once");
    let by = json!({"by": format!("{}:256M", file(tour, "other"))});
    tour.call("POST", "/v1/disks/disk-0/replace", Some(by), 200);
    let rest = tour.call("GET", "/v1/jobs/stream", None, 200);
    assert_eq!(events(&rest).last().expect("an end").0, "done");
    let failed = tour.call("POST", "/v1/disks/disk-1/fail", None, 200).json();
    let state = failed.as_array().into_iter().flatten().find(|disk| disk["id"] == 1);
    assert_eq!(state.map(|disk| &disk["state"]), Some(&json!("failed")), "{failed}");
    tour.refused("POST", "/v1/disks/none/fail", Some(json!({})), 404, "no-such-disk");
}
