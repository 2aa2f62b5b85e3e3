//! What a member makes of a plan is what the file says.

use super::super::diff::diff;
use super::super::of_member::{entry_text, record_text};
use super::super::schema::{KINDS, Shape, in_order};
use super::super::tests::sans;
use super::super::{SCHEDULE, is_idle};
use super::*;
use api::types::{
    DestinationChange, Email, NewDestination, NewEmail, NewWay, NewWebhook, Severity, Way, Webhook,
};
use group::schedules::Timing;
use proptest::prelude::*;
use serde::Serialize;

/// What a member makes of a change, in the words of files.
fn changed(mut san: San, mut change: ConfigurationChange) -> San {
    change_destinations(&mut san, &mut change);
    let gone = [
        ("policy", change.delete_policies),
        ("chap", change.delete_chap_users),
        ("account", change.remove_accounts),
        ("schedule", change.delete_schedules),
    ];
    for (kind, names) in gone {
        let there = san.sections.entry(kind).or_default();
        names.iter().for_each(|name| assert!(there.remove(name).is_some(), "{name} is gone"));
    }
    change.new_volumes.into_iter().for_each(|new| put_volume(&mut san, new));
    for set in change.volumes {
        let ahead = set.read_ahead_bytes.map(|bytes| size_text(bytes.into()));
        let told = [
            ("size", set.size_bytes.map(size_text)),
            ("read-ahead", ahead),
            ("read-cache", set.cached.map(Value::Switch)),
            ("online", set.online.map(Value::Switch)),
            ("shared", set.shared.map(Value::Switch)),
            ("access", set.access.map(access_of)),
        ];
        set_keys(&mut san, "volume", &set.name, told);
    }
    for NamedHosts { name, hosts } in change.policies {
        let texts = hosts.into_iter().map(|host| record_text(host).expect("a record"));
        san.put("policy", name, Keys::from([("hosts", in_order(texts.collect()))]));
    }
    change.chap_users.into_iter().for_each(|login| put_secret(&mut san, "chap", login.user));
    if change.clear_chap_mutual || change.chap_mutual.is_some() {
        san.sections.remove("mutual-chap");
    }
    if let Some(login) = change.chap_mutual {
        put_secret(&mut san, "mutual-chap", login.user);
    }
    for new in change.accounts {
        let keys = [("role", word_of(&new.role)), ("disabled", Value::Switch(false))];
        san.put("account", new.name, Keys::from(keys));
    }
    for NamedAccountChange { name, change } in change.change_accounts {
        let role = change.role.map(|role| word_of(&role));
        let told = [("role", role), ("disabled", change.disabled.map(Value::Switch))];
        set_keys(&mut san, "account", &name, told);
    }
    for new in change.schedules {
        let NewSchedule { name, volumes, when, keep, paused } = new;
        let (volumes, when) = (Some(volumes), Some(when));
        let all = ScheduleChange { volumes, when, keep: Some(keep), paused: Some(paused) };
        san.put("schedule", name.clone(), Keys::new());
        set_schedule(&mut san, &name, all);
    }
    for NamedScheduleChange { name, change } in change.change_schedules {
        set_schedule(&mut san, &name, change);
    }
    san
}

fn put_volume(san: &mut San, new: NewConfiguredVolume) {
    let NewConfiguredVolume { volume, online, shared, access } = new;
    let raid = volume.raid.unwrap_or(Level::Raid10);
    let keys = [
        ("size", size_text(volume.size_bytes)),
        ("thick", Value::Switch(volume.thick)),
        ("block", Value::Number(volume.block_bytes.into())),
        ("cache", word_of(&volume.cache)),
        ("raid", word_of(&raid)),
        ("online", Value::Switch(online)),
        ("shared", Value::Switch(shared)),
        ("access", access_of(access.unwrap_or(AccessChange::Unlisted))),
        ("read-ahead", size_text(volume.read_ahead_bytes.unwrap_or(1 << 20).into())),
        ("read-cache", Value::Switch(volume.cached)),
    ];
    san.put("volume", volume.name, Keys::from(keys));
}

fn put_secret(san: &mut San, kind: &'static str, name: String) {
    san.lost.remove(&(kind, name.clone()));
    san.put(kind, name, Keys::new());
}

fn change_destinations(san: &mut San, change: &mut ConfigurationChange) {
    for name in std::mem::take(&mut change.delete_destinations) {
        let of_kind =
            |kind: &&&str| san.sections.get(**kind).is_some_and(|all| all.contains_key(&name));
        let kind = DESTINATIONS.iter().find(of_kind).expect("it is there");
        san.sections.get_mut(kind).and_then(|all| all.remove(&name));
    }
    for new in std::mem::take(&mut change.destinations) {
        let (kind, keys) = of_new(&new);
        san.put(kind, new.name, keys);
    }
    for NamedDestinationChange { name, change } in std::mem::take(&mut change.change_destinations) {
        set_destination(san, &name, change);
    }
}

fn set_schedule(san: &mut San, name: &str, change: ScheduleChange) {
    let when = change.when.map(|when| Timing::try_from(when).expect("a time").to_string());
    let told = [
        ("volumes", change.volumes.map(in_order)),
        ("when", when.map(Value::Text)),
        ("keep", change.keep.map(|keep| Value::Number(keep.into()))),
        ("paused", change.paused.map(Value::Switch)),
    ];
    set_keys(san, "schedule", name, told);
}

/// What a member tells of a destination that was given to it; a URL here is its server.
fn of_new(new: &NewDestination) -> (&'static str, Keys) {
    let to = match new.to.clone() {
        NewWay::Webhook(NewWebhook { url, roots, secret, token }) => {
            let (has_secret, has_token) = (secret.is_some(), token.is_some());
            Way::Webhook(Webhook { server: url, has_secret, has_token, roots })
        }
        NewWay::Email(NewEmail { to, from, smtp, tls, roots, user, password }) => {
            assert_eq!(user.is_some(), password.is_some(), "a login is both");
            Way::Email(Email { to, from, smtp, tls, roots, user })
        }
        NewWay::Syslog(syslog) => Way::Syslog(syslog),
    };
    let shown = serde_json::json!({
        "name": new.name, "to": to, "severity": new.severity, "fold_seconds": new.fold_seconds,
        "paused": new.paused,
    });
    let shown = serde_json::from_value(shown).expect("a destination");
    destinations::of_destination(&shown)
}

fn set_destination(san: &mut San, name: &str, change: DestinationChange) {
    let of_kind = |kind: &&&str| san.sections.get(**kind).is_some_and(|all| all.contains_key(name));
    let kind = *DESTINATIONS.iter().find(of_kind).expect("it is there");
    if let Some(to) = change.to {
        let (severity, fold_seconds, paused) = (Severity::Info, 1, false);
        let new = NewDestination { name: name.to_owned(), to, severity, fold_seconds, paused };
        let (_, mut keys) = of_new(&new);
        ["severity", "fold-seconds", "paused"].iter().for_each(|key| _ = keys.remove(key));
        let all =
            san.sections.get_mut(kind).and_then(|all| all.get_mut(name)).expect("it is there");
        all.extend(keys);
        san.lost.remove(&(kind, name.to_owned()));
    }
    let told = [
        ("severity", change.severity.map(|severity| word_of(&severity))),
        ("fold-seconds", change.fold_seconds.map(|seconds| Value::Number(seconds.into()))),
        ("paused", change.paused.map(Value::Switch)),
    ];
    set_keys(san, kind, name, told);
}

fn set_keys<const N: usize>(
    san: &mut San,
    kind: &str,
    name: &str,
    told: [(&'static str, Option<Value>); N],
) {
    let keys = san.sections.get_mut(kind).and_then(|all| all.get_mut(name)).expect("it is there");
    keys.extend(told.into_iter().filter_map(|(key, value)| Some((key, value?))));
}

fn size_text(bytes: u64) -> Value {
    Value::Text(size::short(bytes))
}

fn word_of(word: &impl Serialize) -> Value {
    let json = serde_json::to_value(word).expect("a word");
    Value::Text(json.as_str().expect("a word").to_owned())
}

fn access_of(change: AccessChange) -> Value {
    let AccessChange::Listed(entries) = change else { return Value::Text(UNLISTED.to_owned()) };
    in_order(entries.iter().map(|entry| entry_text(entry).expect("an entry")).collect())
}

/// A file that can be applied to such a member: what cannot change is as it is there.
fn applicable(member: &San, mut file: San) -> San {
    for (name, there) in member.sections.get("volume").into_iter().flatten() {
        let keys = file.sections.entry("volume").or_default().entry(name.clone()).or_default();
        for key in ["raid", "thick", "block", "cache"] {
            keys.remove(key);
        }
        let (wanted, has) = (keys.get("size"), there.get("size"));
        if wanted.zip(has).is_some_and(|(wanted, has)| bytes(wanted) < bytes(has)) {
            keys.remove("size");
        }
    }
    for keys in file.sections.entry("volume").or_default().values_mut() {
        keys.insert("read-ahead", Value::Text("1M".to_owned()));
        let whole = |size: &Value| bytes(size).map(|bytes| bytes.next_multiple_of(1 << 16));
        if let Some(Ok(size)) = keys.get("size").map(whole) {
            keys.insert("size", size_text(size));
        }
    }
    if let Some(all) = file.sections.get_mut("mutual-chap") {
        while all.len() > 1 {
            all.pop_last();
        }
    }
    file
}

fn all_files(file: &San) -> SecretFiles {
    let mut files = SecretFiles::new();
    for kind in KINDS {
        for name in file.sections.get(kind.word).into_iter().flat_map(|all| all.keys()) {
            let secret = kind.keys.iter().filter(|(_, shape)| matches!(shape, Shape::SecretFile));
            files.extend(
                secret.map(|(key, _)| ((kind.word, name.clone(), *key), "secret".to_owned())),
            );
        }
    }
    files
}

/// The secrets of every other section that has some are lost.
fn with_lost(mut san: San, first: usize) -> San {
    let with_secrets = ["chap", "mutual-chap", "webhook", "email"];
    let names = with_secrets.into_iter().flat_map(|kind| {
        let all = san.sections.get(kind).into_iter().flatten();
        all.map(move |(name, _)| (kind, name.clone()))
    });
    san.lost = names.skip(first).step_by(2).collect();
    san
}

/// One name is of one destination, and what is sent to it has more than no characters.
fn one_kind_each(mut san: San) -> San {
    for kind in DESTINATIONS {
        for name in san
            .sections
            .get(kind)
            .into_iter()
            .flat_map(|all| all.keys().cloned())
            .collect::<Vec<_>>()
        {
            let others = DESTINATIONS.iter().filter(|other| **other != kind);
            others.for_each(|other| {
                _ = san.sections.get_mut(other).and_then(|all| all.remove(&name));
            });
        }
    }
    san
}

proptest! {
    #[test]
    fn what_was_applied_is_the_same(member in sans(), file in sans(), common in sans(), lost in 0_usize..3) {
        let mut member = member;
        // So that names are met on both sides.
        for (kind, all) in common.sections {
            let file_has = file.sections.get(kind).cloned().unwrap_or_default();
            for (name, keys) in file_has.into_keys().zip(all.into_values()) {
                member.put(kind, name, keys);
            }
        }
        let member = one_kind_each(applicable(&San::default(), member));
        let member = with_lost(member, lost);
        let file = one_kind_each(applicable(&member, file)).without_idle();
        let server = |name: &str| match file.sections.get("webhook")?.get(name)?.get("server")? {
            Value::Text(server) => Some(server.clone()),
            _ => None,
        };
        let secrets = |_: &str, key: &str, _: &str, name: &str| {
            let url = server(name).filter(|_| key == "url-file");
            Ok(url.unwrap_or_else(|| "hush-hush-hush".to_owned()))
        };
        let plan = plan(&diff(&member, &file), &file, &all_files(&file), &secrets);
        let plan = plan.map_err(|refused| TestCaseError::fail(format!("{refused:?}")))?;
        let gone = KINDS.iter().filter_map(|kind| Some((kind.word, member.sections.get(kind.word)?)));
        // A schedule whose volumes are all gone is in no file, and stays.
        let gone: Vec<String> = gone
            .flat_map(|(kind, all)| all.iter().map(move |it| (kind, it)))
            .filter(|(kind, (_, keys))| *kind != SCHEDULE || !is_idle(keys))
            .map(|(kind, (name, _))| (kind, name))
            .filter(|(kind, name)| !file.sections.get(kind).is_some_and(|all| all.contains_key(*name)))
            .map(|(kind, name)| format!("{kind} '{name}' goes"))
            .collect();
        prop_assert!(gone.iter().all(|goes| plan.losses.contains(goes)), "{:?}", plan.losses);
        let after = changed(member, plan.change);
        prop_assert_eq!(diff(&after, &file), []);
    }
}

#[test]
fn who_loses_access_is_told() {
    let of = |text: &str| Value::Texts(text.split(' ').map(str::to_owned).collect());
    assert!(!takes(Some(&of("a b")), &of("b a c")));
    assert!(takes(Some(&of("a b")), &of("b")));
    let unlisted = Value::Text(UNLISTED.to_owned());
    assert!(takes(Some(&unlisted), &of("a")) && takes(Some(&of("a")), &unlisted));
}
