//! A client that changes settings as fast as it can, one after the other: all that has its number in the name is its own.

use super::ledger::{Change, Ended, Ledger};
use super::things::{ANY_TAG, Things, has_secret, host_entry, policy_entry, sorted};
use crate::http::{Reply, ask, ask_mortal};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A policy that the first client makes and deletes over and over, and others name.
const COMMON: &str = "c0-common";
/// Records of a policy that is set as a whole: the history of the store is cut every few changes of that size.
const LONG_LIST: usize = 200;
const MIB: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Client {
    number: usize,
    pub(crate) ledger: Ledger,
    /// The last request that made something and may be sent again, and the names that it drew.
    made: Option<Change>,
    drawn: u64,
    /// Tokens as they are sent: those that are good by their things, and those that were revoked.
    pub(crate) tokens: Vec<(String, String)>,
    pub(crate) revoked: Vec<String>,
    pub(crate) counts: Counts,
}

/// What was done in all rounds.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) changes: usize,
    pub(crate) transactions: usize,
    pub(crate) repeats: usize,
    pub(crate) conflicts: usize,
    /// Changes under way at a crash that were made, and that were not.
    pub(crate) cut_off: [usize; 2],
    pub(crate) completed: usize,
}

impl Client {
    pub(crate) fn new(number: usize) -> Self {
        Self { number, ..Self::default() }
    }

    fn name(&self, what: &str) -> String {
        format!("c{}-{what}", self.number)
    }

    /// Whether a thing is of this client.
    fn is_own(&self, path: &str) -> bool {
        let name = path.split('/').nth(1);
        let is_of_all = self.number == 0 && matches!(path, "array" | "chap-mutual");
        is_of_all || name.is_some_and(|name| name.starts_with(&self.name("")))
    }

    fn told(&self, thing: &str) -> Option<&Value> {
        self.ledger.told.get(thing)
    }

    /// A word that was never drawn before.
    fn draw(&mut self) -> String {
        self.drawn += 1;
        format!("{}n{}", self.number, self.drawn)
    }

    fn key(&mut self) -> Option<String> {
        Some(format!("key-{}", self.draw()))
    }

    fn record(&mut self) -> Value {
        json!({"iqn": format!("iqn.2026-11.com.example:{}", self.draw()), "for": "both"})
    }

    /// Makes a thing by a request to the list of all of its kind.
    fn create(&mut self, thing: &str, body: Value, is: Value) -> Change {
        let kind = thing.split('/').next().expect("a kind");
        let change = Change::new("POST", format!("/v1/{kind}"), Some(body)).makes(thing, Some(is));
        Change { key: self.key(), ..change }
    }

    /// Sets one part of a thing.
    fn set(&self, thing: &str, part: &str, to: Value) -> Change {
        let mut is = self.told(thing).cloned().expect("it is there");
        let body = Some(json!({part: &to}));
        is[part] = to;
        Change::new("PATCH", format!("/v1/{thing}"), body).makes(thing, Some(is))
    }

    fn delete(&self, thing: &str) -> Change {
        Change::new("DELETE", format!("/v1/{thing}"), None).makes(thing, None)
    }

    /// Whether a list of one of its volumes or policies has this in it.
    fn is_named(&self, entry: &str) -> bool {
        let lists = self.ledger.told.values().map(|thing| thing.get("list").unwrap_or(thing));
        let entries = lists.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        entries.into_iter().any(|named| named.starts_with(entry))
    }

    /// A list with one more entry.
    fn longer(list: Option<&Value>, entry: String) -> Value {
        let entries = list.and_then(Value::as_array).into_iter().flatten();
        let entries = entries.filter_map(Value::as_str).map(str::to_owned);
        sorted(entries.chain([entry]).collect())
    }

    fn policy(&mut self) -> Change {
        let is_common = self.number == 0 && fastrand::bool();
        let name = if is_common { COMMON.to_owned() } else { self.name("p") };
        let thing = format!("policies/{name}");
        let Some(list) = self.told(&thing).cloned() else {
            return self.create(&thing, json!({"name": name}), json!([]));
        };
        let is_free = !self.is_named(&policy_entry(&name));
        let is_full = list.as_array().is_some_and(|list| list.len() > LONG_LIST);
        if is_free && (is_full || fastrand::u8(..3) == 0) {
            // Others name that one.
            return Change { may_be_refused: is_common.then_some(409), ..self.delete(&thing) };
        }
        if is_full {
            return self.transaction();
        }
        let record = self.record();
        let is = Self::longer(Some(&list), host_entry(&record));
        let change = Change::new("POST", format!("/v1/{thing}/records"), Some(record));
        Change { key: self.key(), ..change.makes(&thing, Some(is)) }
    }

    fn user(&mut self) -> Change {
        let name = self.name("u");
        let thing = format!("chap/{name}");
        let secret = format!("secret-of-{}", self.draw());
        let is = json!({"usable": true, "tag": ANY_TAG});
        if self.told(&thing).is_none() {
            return self.create(&thing, json!({"user": name, "secret": secret}), is);
        }
        if fastrand::u8(..3) == 0 && !self.is_named(&format!("chap {}", json!(name))) {
            return self.delete(&thing);
        }
        let body = Some(json!({"secret": secret}));
        Change::new("PUT", format!("/v1/{thing}"), body).makes(&thing, Some(is))
    }

    fn mutual(&mut self) -> Change {
        let thing = "chap-mutual";
        if self.told(thing).is_some() && fastrand::bool() {
            return self.delete(thing);
        }
        let user = self.draw();
        let body = json!({"user": user, "secret": format!("mutual-of-{user}")});
        let change = Change::new("PUT", format!("/v1/{thing}"), Some(body));
        change.makes(thing, Some(json!({"user": user, "usable": true})))
    }

    fn volume(&mut self) -> Change {
        let name = self.name("v");
        let thing = format!("volumes/{name}");
        let Some(volume) = self.told(&thing).cloned() else {
            return self.create(&thing, new_volume(&name), made(false, &Value::Null));
        };
        let state = volume["state"].as_str().expect("a state").to_owned();
        let becomes = |change: Change, state: &str| {
            let mut is = volume.clone();
            is["state"] = json!(state);
            change.makes(&thing, Some(is))
        };
        let patch = |body| Change::new("PATCH", format!("/v1/{thing}"), Some(body));
        let mut post = |what: &str| {
            let change = Change::new("POST", format!("/v1/{thing}/{what}"), None);
            Change { key: self.key(), ..change }
        };
        match (state.as_str(), fastrand::u8(..4)) {
            ("deleted", 0) => becomes(post("undelete"), "offline"),
            ("deleted", _) => post("purge").makes(&thing, None),
            ("offline", 0) => becomes(patch(json!({"online": true})), "online"),
            ("offline", _) => becomes(self.delete(&thing), "deleted"),
            (_, 0) => becomes(patch(json!({"online": false})), "offline"),
            (_, 1) => self.set(&thing, "shared", json!(volume["shared"] != true)),
            (_, 2) if volume["read_ahead_bytes"] == 0 => {
                self.set(&thing, "read_ahead_bytes", json!(MIB))
            }
            (_, 2) => self.set(&thing, "read_ahead_bytes", json!(0)),
            _ => {
                let size = volume["size_bytes"].as_u64().expect("a size");
                self.set(&thing, "size_bytes", json!(size + MIB))
            }
        }
    }

    fn list(&mut self) -> Change {
        let thing = format!("volumes/{}", self.name("v"));
        let Some(volume) = self.told(&thing).filter(|volume| volume["state"] != "deleted").cloned()
        else {
            return self.volume();
        };
        let path = format!("/v1/{thing}/access");
        let len = volume["list"].as_array().map_or(0, Vec::len);
        let becomes = |change: Change, list: Value| {
            let mut is = volume.clone();
            is["list"] = list;
            change.makes(&thing, Some(is))
        };
        if len > 10 || len > 0 && fastrand::u8(..4) == 0 {
            return becomes(Change::new("DELETE", path, None), Value::Null);
        }
        let policy = if fastrand::bool() { COMMON.to_owned() } else { self.name("p") };
        let is_there = self.number > 0 && policy == COMMON
            || self.told(&format!("policies/{policy}")).is_some();
        let is_new = !volume["list"].to_string().contains(&policy_entry(&policy));
        let by_policy = is_there && is_new && fastrand::bool();
        let (entry, word) = match by_policy {
            true => (json!({"policy": {"name": policy}}), policy_entry(&policy)),
            false => {
                let mut record = self.record();
                let user = self.name("u");
                if self.told(&format!("chap/{user}")).is_some() && fastrand::bool() {
                    record["chap"] = json!(user);
                }
                let word = host_entry(&record);
                (json!({"record": record}), word)
            }
        };
        let change = Change::new("POST", path, Some(entry));
        let change = becomes(change, Self::longer(volume.get("list"), word));
        let may_be_refused = (by_policy && policy == COMMON).then_some(404);
        Change { key: self.key(), may_be_refused, ..change }
    }

    fn account(&mut self) -> Change {
        let name = self.name("a");
        let thing = format!("accounts/{name}");
        let role = if fastrand::bool() { "operator" } else { "read-only" };
        match self.told(&thing) {
            None => {
                let body = json!({"name": name, "role": role, "password": "correct horse battery"});
                let is = json!({"role": role, "disabled": false, "tag": ANY_TAG});
                self.create(&thing, body, is)
            }
            Some(_) if fastrand::u8(..3) == 0 => self.delete(&thing),
            Some(is) if fastrand::bool() => {
                let disabled = json!(is["disabled"] != true);
                self.untagged(self.set(&thing, "disabled", disabled))
            }
            Some(_) => self.untagged(self.set(&thing, "role", json!(role))),
        }
    }

    /// Things whose tags are others afterwards.
    fn untagged(&self, mut change: Change) -> Change {
        for (thing, is) in change.after.iter_mut().filter(|(thing, _)| has_secret(thing)) {
            assert!(self.is_own(thing));
            if let Some(is) = is {
                is["tag"] = json!(ANY_TAG);
            }
        }
        change
    }

    fn token(&mut self) -> Change {
        let name = self.name("t");
        let thing = format!("tokens/{name}");
        match self.told(&thing) {
            Some(_) => self.delete(&thing),
            None => {
                let body = json!({"name": name, "role": "read-only"});
                let change = self.create(&thing, body, json!({"role": "read-only"}));
                // What it is comes once.
                Change { key: None, ..change }
            }
        }
    }

    fn schedule(&mut self) -> Change {
        let name = self.name("s");
        let thing = format!("schedules/{name}");
        match self.told(&thing) {
            None => self.create(&thing, new_schedule(&name), schedule(1)),
            Some(_) if fastrand::u8(..3) == 0 => self.delete(&thing),
            Some(_) => self.set(&thing, "keep", json!(fastrand::u16(1..500))),
        }
    }

    fn destination(&mut self) -> Change {
        let name = self.name("d");
        let thing = format!("destinations/{name}");
        match self.told(&thing) {
            None => self.create(&thing, new_destination(&name), destination()),
            Some(_) if fastrand::u8(..3) == 0 => self.delete(&thing),
            Some(_) => self.set(&thing, "fold_seconds", json!(fastrand::u16(1..1000))),
        }
    }

    /// Two parts of what the array is set to at once.
    fn array(&mut self) -> Change {
        let (days, percent) = (fastrand::u16(1..1000), fastrand::u8(1..100));
        let is = json!({"scrub_days": days, "rebuild_share_percent": percent});
        let change = Change::new("PATCH", "/v1/array".to_owned(), Some(is.clone()));
        change.makes("array", Some(is))
    }

    /// Several things at once, that rely on each other.
    fn transaction(&mut self) -> Change {
        let mut change = Change::new("PATCH", "/v1/configuration".to_owned(), None);
        let mut body = json!({});
        let (policy, user) = (self.name("p"), self.name("u"));
        let hosts: Vec<Value> = (0..fastrand::usize(1..LONG_LIST)).map(|_| self.record()).collect();
        let list = sorted(hosts.iter().map(host_entry).collect());
        body["policies"] = json!([{"name": policy, "hosts": hosts}]);
        change = change.makes(&format!("policies/{policy}"), Some(list));
        let secret = format!("secret-of-{}", self.draw());
        body["chap_users"] = json!([{"user": user, "secret": secret}]);
        let is = json!({"usable": true, "tag": ANY_TAG});
        change = change.makes(&format!("chap/{user}"), Some(is));
        let (thing, name) = (format!("schedules/{}", self.name("s")), self.name("s"));
        change = match self.told(&thing) {
            None => {
                body["schedules"] = json!([new_schedule(&name)]);
                change.makes(&thing, Some(schedule(1)))
            }
            Some(_) => {
                body["delete_schedules"] = json!([name]);
                change.makes(&thing, None)
            }
        };
        let (thing, name) = (format!("destinations/{}", self.name("d")), self.name("d"));
        change = match self.told(&thing) {
            None => {
                body["destinations"] = json!([new_destination(&name)]);
                change.makes(&thing, Some(destination()))
            }
            Some(_) => {
                body["delete_destinations"] = json!([name]);
                change.makes(&thing, None)
            }
        };
        let record = json!({"chap": user, "for": "both"});
        let entries = json!([{"policy": {"name": policy}}, {"record": record}]);
        let list = sorted(vec![policy_entry(&policy), host_entry(&record)]);
        change = self.transact_volume(change, &mut body, (entries, list));
        change.key = self.key();
        change.body = Some(body);
        change
    }

    /// The same request makes its volume, with that list, or gives the list to the one that is there.
    fn transact_volume(
        &self,
        change: Change,
        body: &mut Value,
        (entries, list): (Value, Value),
    ) -> Change {
        let name = self.name("v");
        let thing = format!("volumes/{name}");
        let access = json!({"listed": entries});
        match self.told(&thing) {
            None => {
                let volume = json!({"volume": new_volume(&name), "access": access, "shared": true});
                body["new_volumes"] = json!([volume]);
                let change = change.makes(&thing, Some(made(true, &list)));
                Change { alone: Some(thing), ..change }
            }
            Some(volume) if volume["state"] == "deleted" => change,
            Some(volume) => {
                let mut is = volume.clone();
                (is["shared"], is["list"]) = (json!(true), list);
                body["volumes"] = json!([{"name": name, "access": access, "shared": true}]);
                change.makes(&thing, Some(is))
            }
        }
    }

    fn choose(&mut self) -> Change {
        match fastrand::u8(..18) {
            0 => self.policy(),
            1 => self.user(),
            2 | 3 => self.volume(),
            4 | 5 => self.list(),
            6 => self.account(),
            7 => self.token(),
            8 => self.schedule(),
            9 => self.destination(),
            10 if self.number == 0 => self.mutual(),
            11 if self.number == 0 => self.array(),
            _ => self.transaction(),
        }
    }

    /// Changes settings until the member is gone, and counts the answers.
    pub(crate) fn work(&mut self, socket: &Path, answers: &AtomicUsize) {
        loop {
            let change = self.choose();
            let is_there = matches!(change.method, "PATCH" | "PUT" | "DELETE");
            if is_there && fastrand::u8(..8) == 0 && self.conflict(socket, &change).is_none() {
                return;
            }
            if self.make(socket, &change).is_none() {
                return;
            }
            answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The same change of a thing as it was never read, which is none.
    fn conflict(&mut self, socket: &Path, change: &Change) -> Option<()> {
        let Change { method, path, body, .. } = change;
        let stale = ["if-match: \"stale\""];
        let reply = ask_mortal(socket, method, path, &stale, body.as_ref())?;
        assert_eq!(reply.status, 412, "{change:?}: {}", reply.text());
        self.counts.conflicts += 1;
        Some(())
    }

    /// Makes a change; nothing if the member is gone.
    fn make(&mut self, socket: &Path, change: &Change) -> Option<()> {
        self.ledger.begin(change);
        self.made = change.key.is_some().then(|| change.clone());
        let reply = send(socket, change)?;
        if change.may_be_refused == Some(reply.status) {
            self.ledger.refused();
            self.made = None;
            return Some(());
        }
        assert!(matches!(reply.status, 200..300), "{change:?}: {} {}", reply.status, reply.text());
        self.note_token(change, &reply);
        self.ledger.done();
        self.counts.changes += 1;
        self.counts.transactions += usize::from(change.path == "/v1/configuration");
        self.note_tags(socket, change)?;
        if change.key.is_some() && fastrand::u8(..4) == 0 {
            let again = send(socket, change)?;
            assert_eq!((again.status, again.text()), (reply.status, reply.text()), "{change:?}");
            self.counts.repeats += 1;
        }
        Some(())
    }

    fn note_token(&mut self, change: &Change, reply: &Reply) {
        let Some(thing) = change.after.keys().find(|thing| thing.starts_with("tokens/")) else {
            return;
        };
        let gone = self.tokens.iter().position(|(name, _)| name == thing);
        self.revoked.extend(gone.map(|at| self.tokens.swap_remove(at).1));
        if change.method == "POST" {
            let token = reply.json()["token"].as_str().expect("a token").to_owned();
            self.tokens.push((thing.clone(), token));
        }
    }

    /// Looks at the tags of things whose secrets were set.
    fn note_tags(&mut self, socket: &Path, change: &Change) -> Option<()> {
        for thing in change.after.iter().filter(|(thing, is)| has_secret(thing) && is.is_some()) {
            let (thing, _) = thing;
            let shown = ask_mortal(socket, "GET", &format!("/v1/{thing}"), &[], None)?;
            let told = self.ledger.told.get_mut(thing).expect("it was made");
            told["tag"] = json!(shown.header("etag"));
        }
        Some(())
    }

    /// Takes what there is before it has done anything.
    pub(crate) fn begin_with(&mut self, all: &Things) {
        self.ledger.told = self.own(all);
    }

    fn own(&self, all: &Things) -> Things {
        let own = all.iter().filter(|(thing, _)| self.is_own(thing));
        own.map(|(thing, is)| (thing.clone(), is.clone())).collect()
    }

    /// Judges what there is after a crash. Says how its last change ended, and which volume of it alone was made.
    pub(crate) fn judge(&mut self, all: &Things) -> Result<(Ended, Option<String>), String> {
        let ended = self.ledger.judge(self.own(all))?;
        let [made, not_made] = &mut self.counts.cut_off;
        *made += usize::from(ended == Ended::Made);
        *not_made += usize::from(ended == Ended::NotMade);
        let alone = (ended == Ended::MadeAlone).then(|| self.made.take()).flatten();
        let alone = alone.and_then(|change| change.alone);
        self.counts.completed += usize::from(alone.is_some());
        // A token whose making was not answered is known to nobody.
        let told = &self.ledger.told;
        let (good, gone) = self.tokens.drain(..).partition(|(thing, _)| told.contains_key(thing));
        self.tokens = good;
        self.revoked.extend(gone.into_iter().map(|(_, token): (String, String)| token));
        Ok((ended, alone))
    }

    /// Takes the list away from a volume that was completed: it may name what is not there, and the change was not made.
    pub(crate) fn clear(&mut self, socket: &Path, volume: &str) {
        let mut is = self.told(volume).cloned().expect("it was completed");
        is["list"] = Value::Null;
        let change = Change::new("DELETE", format!("/v1/{volume}/access"), None);
        self.make(socket, &change.makes(volume, Some(is))).expect("nobody kills it");
    }

    /// Sends the last request that made something again, as one whose answer was lost: it is done once, before the crash
    /// or now.
    pub(crate) fn send_again(&mut self, socket: &Path, ended: Ended) {
        let Some(change) = self.made.take() else { return };
        let reply = send(socket, &change).expect("nobody kills it");
        if ended == Ended::NotMade {
            if change.may_be_refused == Some(reply.status) {
                return;
            }
            assert!(matches!(reply.status, 200..300), "{change:?}: {}", reply.text());
            self.ledger.begin(&change);
            self.ledger.done();
            self.note_tags(socket, &change).expect("nobody kills it");
        } else {
            let is_refused = matches!(reply.status, 404 | 409);
            assert!(is_refused, "{change:?} was made twice: {} {}", reply.status, reply.text());
        }
        self.counts.repeats += 1;
    }
}

fn send(socket: &Path, change: &Change) -> Option<Reply> {
    let Change { method, path, body, key, .. } = change;
    let key = key.as_ref().map(|key| format!("idempotency-key: {key}"));
    let headers: Vec<&str> = key.iter().map(String::as_str).collect();
    ask_mortal(socket, method, path, &headers, body.as_ref())
}

fn new_volume(name: &str) -> Value {
    json!({"name": name, "size_bytes": 64 * MIB, "read_ahead_bytes": 0})
}

/// A new volume as it is shown.
fn made(shared: bool, list: &Value) -> Value {
    let (state, size) = ("online", 64 * MIB);
    json!({"size_bytes": size, "state": state, "read_ahead_bytes": 0, "shared": shared, "list": list})
}

pub(crate) fn new_schedule(name: &str) -> Value {
    let when = json!({"every": {"seconds": 86_400}});
    json!({"name": name, "volumes": [super::DATA], "when": when, "keep": 1, "paused": true})
}

fn schedule(keep: u16) -> Value {
    let when = json!({"every": {"seconds": 86_400}});
    let volumes = json!([{"name": super::DATA, "gone": false}]);
    json!({"volumes": volumes, "when": when, "keep": keep, "paused": true})
}

fn new_destination(name: &str) -> Value {
    let to = json!({"syslog": {"server": "127.0.0.1:9"}});
    json!({"name": name, "to": to, "severity": "error", "fold_seconds": 60, "paused": true})
}

fn destination() -> Value {
    json!({"severity": "error", "fold_seconds": 60, "paused": true})
}

/// Makes the schedule that all count up.
pub(crate) fn make_counter(socket: &Path) {
    let reply = ask(socket, "POST", "/v1/schedules", &[], Some(&new_schedule(super::COUNTER)));
    assert_eq!(reply.status, 201, "{}", reply.text());
}
