//! What is set on a member, as it shows it: each thing by its path.

use crate::common::member::Member;
use crate::http;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Things by the ends of their paths at the interface: `policies/NAME` and so on.
pub(crate) type Things = BTreeMap<String, Value>;

/// The tag of a thing whose secret was set and not looked at since.
pub(crate) const ANY_TAG: &str = "?";

/// Kinds of things whose secrets are known by their tags alone.
const WITH_SECRETS: [&str; 2] = ["accounts/", "chap/"];

/// What is there, for whom nobody kills meanwhile.
fn show(socket: &Path, path: &str) -> http::Reply {
    let reply = http::ask(socket, "GET", path, &[], None);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().expect("a list").iter()
}

fn word<'a>(thing: &'a Value, key: &str) -> &'a str {
    thing[key].as_str().unwrap_or_else(|| panic!("no {key}: {thing}"))
}

/// A record of hosts, or the use of a policy, in a word: numbers are not of what was asked for.
fn entry(entry: &Value) -> String {
    match entry.get("policy") {
        Some(policy) => policy_entry(word(policy, "name")),
        None => host_entry(entry.get("record").unwrap_or(entry)),
    }
}

pub(crate) fn policy_entry(policy: &str) -> String {
    format!("policy {policy}")
}

pub(crate) fn host_entry(record: &Value) -> String {
    format!("chap {} iqn {} for {}", record["chap"], record["iqn"], record["for"])
}

/// In an order of their own.
pub(crate) fn sorted(mut entries: Vec<String>) -> Value {
    entries.sort();
    json!(entries)
}

fn entries(list: &Value) -> Value {
    sorted(items(list).map(entry).collect())
}

/// All that is set.
pub(crate) fn all(socket: &Path) -> Things {
    let shown = show(socket, "/v1/configuration").json();
    let mut things = Things::new();
    for (volume, access) in items(&shown["volumes"]).zip(items(&shown["access"])) {
        let name = word(volume, "name");
        assert_eq!(word(access, "volume"), name, "volumes and who may use them go side by side");
        let list = access.get("entries").filter(|list| !list.is_null());
        let thing = json!({
            "size_bytes": volume["size_bytes"],
            "state": volume["state"],
            "read_ahead_bytes": volume["read_ahead_bytes"],
            "shared": access["shared"],
            "list": list.map_or(Value::Null, entries),
        });
        things.insert(format!("volumes/{name}"), thing);
    }
    for policy in items(&shown["policies"]) {
        things.insert(format!("policies/{}", word(policy, "name")), entries(&policy["records"]));
    }
    for user in items(&shown["chap"]["users"]) {
        things.insert(format!("chap/{}", word(user, "user")), json!({"usable": user["usable"]}));
    }
    if let Some(mutual) = shown["chap"].get("mutual").filter(|mutual| !mutual.is_null()) {
        let thing = json!({"user": mutual["user"], "usable": mutual["usable"]});
        things.insert("chap-mutual".to_owned(), thing);
    }
    let kinds: [(&str, &[&str]); 3] = [
        ("accounts", &["role", "disabled"]),
        ("schedules", &["volumes", "when", "keep", "paused"]),
        ("destinations", &["severity", "fold_seconds", "paused"]),
    ];
    for (kind, keys) in kinds {
        things.extend(items(&shown[kind]).map(|thing| of(kind, thing, keys)));
    }
    let tokens = show(socket, "/v1/tokens").json();
    things.extend(items(&tokens).map(|token| of("tokens", token, &["role"])));
    let array = show(socket, "/v1/array").json();
    things.insert("array".to_owned(), parts(&array, &["scrub_days", "rebuild_share_percent"]));
    for (path, thing) in &mut things {
        if has_secret(path) {
            thing["tag"] = json!(show(socket, &format!("/v1/{path}")).header("etag"));
        }
    }
    things
}

fn parts(thing: &Value, keys: &[&str]) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), thing[*key].clone())).collect()
}

/// A thing by its path, with these parts of it.
fn of(kind: &str, thing: &Value, keys: &[&str]) -> (String, Value) {
    (format!("{kind}/{}", word(thing, "name")), parts(thing, keys))
}

pub(crate) fn has_secret(path: &str) -> bool {
    WITH_SECRETS.iter().any(|kind| path.starts_with(kind))
}

/// Whether a thing is as it should be. Any tag will do where none is known.
pub(crate) fn fits(wanted: &Value, found: &Value) -> bool {
    let mut wanted = wanted.clone();
    if wanted.get("tag").is_some_and(|tag| tag == ANY_TAG) {
        wanted["tag"] = found["tag"].clone();
    }
    wanted == *found
}

/// What is named is there: policies, CHAP users and volumes. Not policies and users that the list of one of these volumes
/// names: their making was cut off.
pub(crate) fn check_names(things: &Things, cut_off: &BTreeSet<String>) -> Result<(), String> {
    let is_there = |kind: &str, name: &str| things.contains_key(&format!("{kind}/{name}"));
    for (path, thing) in things {
        let list = thing.get("list").unwrap_or(thing);
        let entries = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        for entry in entries.filter(|_| !cut_off.contains(path)) {
            let named = match entry.strip_prefix("policy ") {
                Some(policy) => is_there("policies", policy),
                None => user_of(entry).is_none_or(|user| is_there("chap", user)),
            };
            if !named {
                return Err(format!("{path} names what is not there: {entry}"));
            }
        }
        let volumes = thing.get("volumes").and_then(Value::as_array).into_iter().flatten();
        if let Some(gone) = volumes.into_iter().find(|volume| volume["gone"] != false) {
            return Err(format!("{path} names a volume that is not there: {gone}"));
        }
    }
    Ok(())
}

/// The CHAP user that a record names.
fn user_of(entry: &str) -> Option<&str> {
    entry.strip_prefix("chap \"")?.split('"').next()
}

/// Changes in the audit log behind this number: the number, method, and path of each.
pub(crate) fn audited(socket: &Path, behind: u64) -> Vec<(u64, String, String)> {
    let mut found = Vec::new();
    let mut next = Some("/v1/audit?done=true&limit=1000".to_owned());
    while let Some(path) = next {
        let page = show(socket, &path);
        for entry in items(&page.json()).filter(|entry| entry["action"] == "change") {
            let method = word(entry, "operation").split(' ').next().unwrap_or_default().to_owned();
            let number = entry["number"].as_u64().expect("a number");
            if number > behind {
                found.push((number, method, word(entry, "object").to_owned()));
            }
        }
        let link = page.header("link").and_then(|link| link.strip_prefix('<')?.split_once('>'));
        next = link.map(|(path, _)| path.to_owned());
    }
    found
}

/// The number of the last record of the audit log.
pub(crate) fn last_audited(member: &Member<'_>) -> u64 {
    let page = show(&member.home.socket(), "/v1/audit?last=1").json();
    page[0]["number"].as_u64().unwrap_or(0)
}

#[test]
fn what_is_named_and_not_there_is_found() {
    let none = BTreeSet::new();
    let list = |entry: String| json!({"list": [entry]});
    let record = |chap: Value| host_entry(&json!({"chap": chap, "iqn": "iqn.a", "for": "both"}));
    let volume = "volumes/v".to_owned();
    let with = |thing: Value| Things::from([(volume.clone(), thing)]);
    assert_eq!(check_names(&with(list(record(Value::Null))), &none), Ok(()));
    for entry in [policy_entry("p"), record(json!("u"))] {
        let things = with(list(entry));
        assert!(check_names(&things, &none).is_err());
        assert_eq!(check_names(&things, &BTreeSet::from([volume.clone()])), Ok(()));
        let mut whole = things.clone();
        whole.insert("policies/p".to_owned(), json!([]));
        whole.insert("chap/u".to_owned(), json!({}));
        assert_eq!(check_names(&whole, &none), Ok(()));
    }
    let gone = json!({"volumes": [{"name": "v", "gone": true}]});
    assert!(check_names(&with(gone), &none).is_err());
}
