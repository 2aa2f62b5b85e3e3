//! Requests that depend on what was before: tags, keys and pages.

use crate::common::member::{Home, Member};
use crate::http::{self, Reply};
use crate::{ask, make};
use serde_json::{Value, json};
use std::path::Path;
use std::thread;

/// The path and query of the next page.
fn next(reply: &Reply) -> Option<String> {
    let link = reply.header("link")?;
    let (path, rest) = link.strip_prefix('<')?.split_once('>')?;
    assert_eq!(rest, "; rel=\"next\"");
    Some(path.to_owned())
}

#[test]
fn a_change_is_refused_when_the_thing_has_changed() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    let tag = make(&member, "a").header("etag").expect("a tag").to_owned();
    let shown = ask(&member, "GET", "/v1/volumes/a", None);
    assert_eq!(shown.header("etag"), Some(tag.as_str()), "nothing was changed");
    let grow = |tag: &str, size: u64| {
        let body = json!({"size_bytes": size});
        let tag = format!("if-match: {tag}");
        http::ask(&socket, "PATCH", "/v1/volumes/a", &[&tag], Some(&body))
    };
    let grown = grow(&tag, 128 << 20);
    assert_eq!(grown.status, 200);
    let refused = grow(&tag, 256 << 20);
    assert_eq!((refused.status, refused.problem().as_str()), (412, "changed"));
    assert_eq!(ask(&member, "GET", "/v1/volumes/a", None).json()["size_bytes"], 128 << 20);
    let newer = grown.header("etag").expect("a tag").to_owned();
    assert_eq!(grow(&format!("\"other\", {newer}"), 256 << 20).status, 200);
    assert_eq!(grow("*", 512 << 20).status, 200);
    let none = http::ask(&socket, "DELETE", "/v1/volumes/none", &["if-match: *"], None);
    assert_eq!(none.problem(), "no-such-volume");

    // Of many who read the same, one changes it.
    let tag = ask(&member, "GET", "/v1/array", None).header("etag").expect("a tag").to_owned();
    let change = |days: u16| {
        let tag = format!("if-match: {tag}");
        http::ask(&socket, "PATCH", "/v1/array", &[&tag], Some(&json!({"scrub_days": days}))).status
    };
    let statuses: Vec<u16> = thread::scope(|scope| {
        let all: Vec<_> = (1..=8).map(|days| scope.spawn(move || change(days))).collect();
        all.into_iter().map(|one| one.join().expect("it asks")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 7, "{statuses:?}");

    ask(&member, "POST", "/v1/snapshots", Some(&json!({"volumes": ["a"], "name": "s"})));
    let stale = ["if-match: \"stale\""];
    let refused = http::ask(&socket, "DELETE", "/v1/snapshots/a/s", &stale, None);
    assert_eq!(refused.status, 412);
    let tag =
        ask(&member, "GET", "/v1/snapshots/a/s", None).header("etag").expect("one").to_owned();
    let fitting = [format!("if-match: {tag}")];
    let fitting: Vec<&str> = fitting.iter().map(String::as_str).collect();
    let deleted = http::ask(&socket, "DELETE", "/v1/snapshots/a/s", &fitting, None);
    assert_eq!(deleted.status, 204, "{}", deleted.text());
    member.stop();
}

#[test]
fn a_schedule_is_made_once_and_changed_as_it_was_read() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    make(&member, "a");
    let create = |name: &str| {
        let when = json!({"every": {"seconds": 86_400}});
        let body = json!({"name": name, "volumes": ["a"], "when": when, "keep": 2});
        http::ask(&socket, "POST", "/v1/schedules", &["idempotency-key: k"], Some(&body))
    };
    let first = create("one");
    assert_eq!(first.status, 201, "{}", first.text());
    assert_eq!(create("one").text(), first.text(), "it is the same request");
    assert_eq!(create("two").problem(), "key-reused");
    let set = |tag: &str, keep: u32| {
        let tag = format!("if-match: {tag}");
        http::ask(&socket, "PATCH", "/v1/schedules/one", &[&tag], Some(&json!({"keep": keep})))
    };
    let tag = first.header("etag").expect("a tag").to_owned();
    let shown = ask(&member, "GET", "/v1/schedules/one", None);
    assert_eq!(shown.header("etag"), Some(tag.as_str()));
    let changed = set(&tag, 3);
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(set(&tag, 4).problem(), "changed");
    let stale = [format!("if-match: {tag}")];
    let stale: Vec<&str> = stale.iter().map(String::as_str).collect();
    let refused = http::ask(&socket, "DELETE", "/v1/schedules/one", &stale, None);
    assert_eq!(refused.problem(), "changed");
    make_schedule(&socket, "two");
    let page = ask(&member, "GET", "/v1/schedules?limit=1", None);
    assert_eq!(page.json()[0]["name"], "one");
    let rest = ask(&member, "GET", &next(&page).expect("there is more"), None);
    assert_eq!((rest.json()[0]["name"].as_str(), next(&rest)), (Some("two"), None));
    member.stop();
}

/// What it was read as: of a volume, a snapshot or a disk.
fn tag_of(member: &Member<'_>, path: &str) -> String {
    ask(member, "GET", path, None).header("etag").expect("a tag").to_owned()
}

/// Asks for what cannot be undone, of a thing as somebody read it.
fn post_if(member: &Member<'_>, path: &str, tag: &str, body: Option<&Value>) -> Reply {
    http::ask(&member.home.socket(), "POST", path, &[&format!("if-match: {tag}")], body)
}

#[test]
fn what_cannot_be_undone_is_done_to_what_was_read() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    let refused = |path: &str, tag: &str, body: Option<&Value>| {
        let reply = post_if(&member, path, tag, body);
        assert_eq!((reply.status, reply.problem().as_str()), (412, "changed"), "{path}");
    };
    let served = tag_of_made(&member, "a");
    assert_eq!(offline(&member, "a").status, 200);
    assert_eq!(ask(&member, "DELETE", "/v1/volumes/a", None).status, 204);
    refused("/v1/volumes/a/undelete", &served, None);
    refused("/v1/volumes/a/purge", &served, None);
    let deleted = tag_of(&member, "/v1/volumes/a");
    let back = post_if(&member, "/v1/volumes/a/undelete", &deleted, None);
    assert_eq!(back.status, 200, "{}", back.text());
    // Somebody has taken it back since: this is another's volume again, whatever is in the recycle bin next.
    refused("/v1/volumes/a/purge", &deleted, None);
    assert_eq!(post_if(&member, "/v1/volumes/a/purge", "*", None).problem(), "not-in-recycle-bin");
    assert_eq!(ask(&member, "DELETE", "/v1/volumes/a", None).status, 204);
    assert_eq!(post_if(&member, "/v1/volumes/a/purge", &deleted, None).status, 204);

    // The snapshot of this name is another one by now.
    make(&member, "b");
    let take = || {
        let taken = json!({"volumes": ["b"], "name": "s"});
        assert_eq!(ask(&member, "POST", "/v1/snapshots", Some(&taken)).status, 201);
        tag_of(&member, "/v1/snapshots/b/s")
    };
    let first = take();
    assert_eq!(ask(&member, "DELETE", "/v1/snapshots/b/s", None).status, 204);
    settled(&member);
    let second = take();
    assert_eq!(offline(&member, "b").status, 200);
    refused("/v1/snapshots/b/s/rollback", &first, None);
    assert_eq!(post_if(&member, "/v1/snapshots/b/s/rollback", &second, None).status, 204);
    disks_as_read(&member);
    member.stop();
}

fn tag_of_made(member: &Member<'_>, name: &str) -> String {
    make(member, name).header("etag").expect("a tag").to_owned()
}

fn offline(member: &Member<'_>, name: &str) -> Reply {
    let offline = json!({"online": false});
    ask(member, "PATCH", &format!("/v1/volumes/{name}"), Some(&offline))
}

/// Waits for the end of what goes on by itself.
fn settled(member: &Member<'_>) {
    let jobs = ask(member, "GET", "/v1/jobs/stream", None);
    assert!(jobs.text().contains("event: done"), "{}", jobs.text());
}

/// A disk goes by its number or its name, and has one tag.
fn disks_as_read(member: &Member<'_>) {
    settled(member);
    let by = json!({"by": format!("{}:256M", member.home.path("new").display())});
    for (path, body) in [
        ("/v1/disks/disk-1/fail", None),
        ("/v1/disks/1/retire", None),
        ("/v1/disks/1/replace", Some(by.clone())),
    ] {
        let refused = post_if(member, path, "\"stale\"", body.as_ref());
        assert_eq!((refused.status, refused.problem().as_str()), (412, "changed"), "{path}");
    }
    let none = post_if(member, "/v1/disks/none/fail", "*", None);
    assert_eq!(none.problem(), "no-such-disk");
    let online = tag_of(member, "/v1/disks/1");
    assert_eq!(tag_of(member, "/v1/disks/disk-1"), online);
    let tag = tag_of(member, "/v1/disks/0");
    let replaced = post_if(member, "/v1/disks/disk-0/replace", &tag, Some(&by));
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    settled(member);
    let failed = post_if(member, "/v1/disks/disk-1/fail", &online, None);
    assert_eq!(failed.status, 200, "{}", failed.text());
    // Whoever read that it works does not retire what has failed since. What it had may be on other disks by now, so that
    // it has left.
    let refused = post_if(member, "/v1/disks/1/retire", &online, None);
    let is_refused = ["changed", "no-such-disk"].contains(&refused.problem().as_str());
    assert!(is_refused, "{}", refused.text());
    assert_eq!(post_if(member, "/v1/disks/2/clear", "*", None).problem(), "invalid");
}

/// It would be done whatever the thing is now.
#[test]
fn a_condition_that_is_not_looked_at_is_refused() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    make(&member, "a");
    let tag = ["if-match: \"stale\""];
    for (path, body) in [
        ("/v1/volumes", Some(json!({"name": "b", "size_bytes": 1 << 20}))),
        ("/v1/volumes/a/reservations/clear", None),
        ("/v1/array/scrub", None),
    ] {
        let refused = http::ask(&socket, "POST", path, &tag, body.as_ref());
        assert_eq!(refused.problem(), "invalid", "{path}");
        assert_eq!(refused.status, 422);
        let told = format!("POST {path} takes no If-Match").replace("/a/", "/{name}/");
        assert!(refused.text().contains(&told), "{}", refused.text());
    }
    let none = ask(&member, "GET", "/v1/volumes/b", None);
    assert_eq!(none.problem(), "no-such-volume", "it was not made");
    // The same key does it when the condition is left out.
    let keyed = ["idempotency-key: k", tag[0]];
    let make = |headers: &[&str]| {
        let body = json!({"name": "b", "size_bytes": 1 << 20});
        http::ask(&socket, "POST", "/v1/volumes", headers, Some(&body)).status
    };
    assert_eq!((make(&keyed), make(&keyed[..1])), (422, 201));
    // Who only asks is answered, and a method that there is not is told as one.
    assert_eq!(http::ask(&socket, "GET", "/v1/volumes", &tag, None).status, 200);
    assert_eq!(http::ask(&socket, "PUT", "/v1/volumes", &tag, None).status, 405);
    member.stop();
}

fn make_schedule(socket: &Path, name: &str) {
    let when = json!({"daily": {"at": "03:00"}});
    let body = json!({"name": name, "volumes": ["a"], "when": when, "keep": 2});
    assert_eq!(http::ask(socket, "POST", "/v1/schedules", &[], Some(&body)).status, 201);
}

#[test]
fn lists_of_hosts_have_tags_and_a_user_is_added_once() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    make(&member, "a");
    let path = "/v1/volumes/a/access";
    let add = |tag: &str, iqn: &str| {
        let body = json!({"record": {"iqn": iqn}});
        http::ask(&socket, "POST", path, &[&format!("if-match: {tag}")], Some(&body))
    };
    let tag = ask(&member, "GET", path, None).header("etag").expect("a tag").to_owned();
    let added = add(&tag, "iqn.2026-11.com.example:a");
    assert_eq!(added.status, 201, "{}", added.text());
    assert_eq!(add(&tag, "iqn.2026-11.com.example:b").problem(), "changed");
    let newer = added.header("etag").expect("a tag").to_owned();
    assert_eq!(ask(&member, "GET", path, None).header("etag"), Some(newer.as_str()));
    let shown = ask(&member, "GET", "/v1/volumes/a", None);
    let tag = format!("if-match: {}", shown.header("etag").expect("a tag"));
    let share = json!({"shared": true});
    let shared = || http::ask(&socket, "PATCH", "/v1/volumes/a", &[&tag], Some(&share)).status;
    assert_eq!((shared(), shared()), (200, 412), "it is a part of the tag");

    let user = |secret: &str| {
        let body = json!({"user": "al", "secret": secret});
        http::ask(&socket, "POST", "/v1/chap", &["idempotency-key: k"], Some(&body))
    };
    let first = user("hush-hush-hush");
    assert_eq!(first.status, 204, "{}", first.text());
    assert_eq!(user("hush-hush-hush").status, 204, "it is the same request");
    let other = user("other-hush-hush");
    assert_eq!(other.problem(), "key-reused");
    assert!(!other.text().contains("hush") && !member.log().contains("hush"));
    member.stop();
}

/// Takes snapshots of `a`, under a name that is made from the time unless one is given.
fn take(socket: &Path, key: &str, name: Option<&str>) -> Reply {
    let body = json!({"volumes": ["a"], "name": name});
    let key = format!("idempotency-key: {key}");
    http::ask(socket, "POST", "/v1/snapshots", &[&key], Some(&body))
}

/// It may make volumes and accounts, which are there when it comes again.
#[test]
fn a_change_of_the_configuration_that_is_sent_again_is_done_once() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    let path = "/v1/configuration";
    let tag = format!("if-match: {}", tag_of(&member, path));
    let change = |name: &str, headers: &[&str]| {
        let volume = json!({"name": name, "size_bytes": 1 << 20});
        let body = json!({"new_volumes": [{"volume": volume}]});
        http::ask(&socket, "PATCH", path, headers, Some(&body))
    };
    let keyed = [tag.as_str(), "idempotency-key: k"];
    let first = change("a", &keyed);
    assert_eq!(first.status, 204, "{}", first.text());
    assert_eq!(change("a", &keyed).status, 204, "it is the same request");
    assert_eq!(change("b", &keyed).problem(), "key-reused");
    assert_eq!(change("a", &keyed[..1]).problem(), "changed");
    assert_eq!(change("a", &[]).problem(), "name-taken");
    // Other changes know no key: they are the same again by themselves, or their tag is another one.
    make(&member, "c");
    let share = |shared: bool| {
        let body = json!({ "shared": shared });
        let reply = http::ask(&socket, "PATCH", "/v1/volumes/c", &keyed[1..], Some(&body));
        reply.json()["shared"] == json!(shared)
    };
    assert!(share(true) && share(false));
    member.stop();
}

#[test]
fn a_request_that_is_sent_again_is_done_once() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let socket = home.socket();
    make(&member, "a");
    let first = take(&socket, "k1", None);
    assert_eq!(first.status, 201, "{}", first.text());
    let again = take(&socket, "k1", None);
    assert_eq!((again.status, again.json()), (201, first.json()));
    let other = take(&socket, "k1", Some("other"));
    assert_eq!((other.status, other.problem().as_str()), (422, "key-reused"));
    let listed = |count: usize| {
        let listed = ask(&member, "GET", "/v1/snapshots", None).json();
        assert_eq!(listed.as_array().map(Vec::len), Some(count), "{listed}");
    };
    listed(1);
    // A refusal is an answer too.
    let refused = take(&socket, "k2", Some("no name"));
    assert_eq!(
        (refused.status, take(&socket, "k2", Some("no name")).json()),
        (422, refused.json())
    );
    // Side by side, the second waits for the answer of the first.
    let answers: Vec<Value> = thread::scope(|scope| {
        let socket = &socket;
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| take(socket, "k3", Some("s")))).collect();
        all.into_iter().map(|one| one.join().expect("it asks").json()).collect()
    });
    assert!(answers.iter().all(|answer| answer[0]["name"] == "s"), "{answers:?}");
    listed(2);
    assert_eq!(take(&socket, "", Some("x")).problem(), "bad-request");
    listed(2);

    // A run is begun once, and its place is told again.
    let scrub = || http::ask(&socket, "POST", "/v1/array/scrub", &["idempotency-key: k4"], None);
    let place = scrub().header("location").expect("a place").to_owned();
    assert_eq!(scrub().header("location"), Some(place.as_str()));
    assert_eq!(ask(&member, "GET", "/v1/runs", None).json().as_array().map(Vec::len), Some(1));
    member.stop();
}

/// Each page tells what volumes prove, and has the tag of all.
fn pages_of_users(member: &Member<'_>) {
    for user in ["al", "bo", "cy"] {
        let body = json!({"user": user, "secret": "hush-hush-hush"});
        assert_eq!(ask(member, "POST", "/v1/chap", Some(&body)).status, 204);
    }
    let mutual = json!({"user": "array", "secret": "one-more-secret"});
    assert_eq!(ask(member, "PUT", "/v1/chap-mutual", Some(&mutual)).status, 204);
    let whole = ask(member, "GET", "/v1/chap", None);
    assert_eq!(next(&whole), None);
    let (mut users, mut path) = (Vec::new(), Some("/v1/chap?limit=2".to_owned()));
    while let Some(page) = path {
        let reply = ask(member, "GET", &page, None);
        let shown = reply.json();
        assert_eq!(shown["mutual"]["user"], "array", "{shown}");
        assert_eq!(reply.header("etag"), whole.header("etag"));
        let on_it = shown["users"].as_array().expect("a list");
        assert!((1..=2).contains(&on_it.len()), "{shown}");
        users.extend(on_it.clone());
        path = next(&reply);
    }
    assert_eq!(Value::from(users), whole.json()["users"]);
    assert_eq!(ask(member, "GET", "/v1/chap?limit=0", None).problem(), "invalid");
}

#[test]
fn long_lists_come_in_pages() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    for name in ["a", "b", "c", "d", "e"] {
        make(&member, name);
    }
    let mut names = Vec::new();
    let mut path = Some("/v1/volumes?limit=2".to_owned());
    while let Some(page) = path {
        let reply = ask(&member, "GET", &page, None);
        let all = reply.json();
        let all = all.as_array().expect("a list");
        assert!((1..=2).contains(&all.len()), "{all:?}");
        names.extend(all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()));
        path = next(&reply);
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert_eq!(next(&ask(&member, "GET", "/v1/volumes", None)), None);
    pages_of_users(&member);
    for (query, code) in [
        ("limit=0", "invalid"),
        ("limit=1001", "invalid"),
        ("limit=x", "bad-request"),
        ("page=x", "bad-request"),
        ("page=3-0", "page-gone"),
    ] {
        let refused = ask(&member, "GET", &format!("/v1/volumes?{query}"), None);
        assert_eq!(refused.problem(), code, "{query}");
    }
    member.stop();
}
