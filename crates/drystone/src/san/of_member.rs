//! What a member is set to.

use super::destinations::of_destination;
use super::schema::{UNLISTED, in_order, policy_text};
use super::{Keys, San, Value};
use api::client::{Client, ClientError};
use api::types::{
    Access, Account, Cache, Configuration, Entry, HostRecord, Policy, PolicyRecord, Schedule,
    Volume, VolumeState,
};
use group::access::{AccessError, Record};
use group::schedules::Timing;
use member::spec::size;
use std::collections::BTreeMap;

/// Why the settings of a member are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemberError {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Of a later version, perhaps.
    #[error("what the member answers does not read: {0}")]
    Strange(String),
}

impl From<AccessError> for MemberError {
    fn from(error: AccessError) -> Self {
        Self::Strange(error.to_string())
    }
}

/// Asks a member for all of it, as it is at one moment, and for the tag of that.
pub(crate) fn of_member(client: &Client) -> Result<(San, String), MemberError> {
    let (configuration, tag) = client.configuration()?;
    Ok((of_configuration(configuration)?, tag))
}

fn of_configuration(configuration: Configuration) -> Result<San, MemberError> {
    let Configuration { volumes, access, policies, chap, accounts, schedules, destinations } =
        configuration;
    let mut san = San::default();
    let access: BTreeMap<&str, &Access> =
        access.iter().map(|access| (access.volume.as_str(), access)).collect();
    for volume in volumes.iter().filter(|it| it.state != VolumeState::Deleted) {
        let access = access.get(volume.name.as_str()).copied();
        let missing = || MemberError::Strange(format!("'{}' has no access list", volume.name));
        san.put("volume", volume.name.clone(), of_volume(volume, access.ok_or_else(missing)?)?);
    }
    let is_there = |name: &str| {
        volumes.iter().any(|volume| volume.name == name && volume.state != VolumeState::Deleted)
    };
    for schedule in schedules {
        let keys = of_schedule(&schedule, is_there)?;
        san.put("schedule", schedule.name, keys);
    }
    for policy in policies {
        let keys = of_policy(&policy)?;
        san.put("policy", policy.name, keys);
    }
    let users = chap.users.into_iter().map(|user| ("chap", user));
    for (kind, user) in users.chain(chap.mutual.map(|user| ("mutual-chap", user))) {
        if !user.usable {
            san.lost.insert((kind, user.user.clone()));
        }
        san.put(kind, user.user, Keys::new());
    }
    for account in accounts {
        let keys = of_account(&account);
        san.put("account", account.name, keys);
    }
    for destination in destinations {
        let (kind, keys) = of_destination(&destination);
        if !destination.usable {
            san.lost.insert((kind, destination.name.clone()));
        }
        san.put(kind, destination.name, keys);
    }
    Ok(san)
}

fn of_volume(volume: &Volume, access: &Access) -> Result<Keys, MemberError> {
    let cache = match volume.cache {
        Cache::Durable => "durable",
        Cache::Volatile => "volatile",
    };
    let access = match &access.entries {
        None => Value::Text(UNLISTED.to_owned()),
        Some(all) => {
            let texts: Result<Vec<String>, AccessError> =
                all.iter().map(|numbered| entry_text(&numbered.entry)).collect();
            in_order(texts?)
        }
    };
    let mut keys = Keys::from([
        ("size", Value::Text(size::short(volume.size_bytes))),
        ("raid", Value::Text(volume.raid.to_string())),
        ("thick", Value::Switch(volume.thick)),
        ("block", Value::Number(u64::from(volume.block_bytes))),
        ("cache", Value::Text(cache.to_owned())),
        ("read-ahead", Value::Text(size::short(u64::from(volume.read_ahead_bytes)))),
        ("read-cache", Value::Switch(volume.cached)),
        ("online", Value::Switch(volume.state != VolumeState::Offline)),
        ("access", access),
    ]);
    if let Some(shared) = volume.shared {
        keys.insert("shared", Value::Switch(shared));
    }
    Ok(keys)
}

pub(super) fn entry_text(entry: &Entry) -> Result<String, AccessError> {
    match entry {
        Entry::Record(record) => record_text(record.clone()),
        Entry::Policy(policy) => Ok(policy_text(&policy.name, policy.scope.into())),
    }
}

pub(super) fn record_text(record: HostRecord) -> Result<String, AccessError> {
    Ok(Record::new(record.try_into()?)?.to_string())
}

/// Without volumes that are gone or in the recycle bin, which no file has.
fn of_schedule(schedule: &Schedule, is_there: impl Fn(&str) -> bool) -> Result<Keys, MemberError> {
    let there = schedule.volumes.iter().filter(|volume| !volume.gone && is_there(&volume.name));
    let timing = Timing::try_from(schedule.when.clone());
    let timing = timing.map_err(|error| MemberError::Strange(error.to_string()))?;
    Ok(Keys::from([
        ("volumes", in_order(there.map(|volume| volume.name.clone()).collect())),
        ("when", Value::Text(timing.to_string())),
        ("keep", Value::Number(u64::from(schedule.keep))),
        ("paused", Value::Switch(schedule.paused)),
    ]))
}

fn of_policy(policy: &Policy) -> Result<Keys, MemberError> {
    let text = |record: &PolicyRecord| {
        let PolicyRecord { chap, iqn, address, scope, .. } = record.clone();
        record_text(HostRecord { chap, iqn, address, scope })
    };
    let hosts: Result<Vec<String>, AccessError> = policy.records.iter().map(text).collect();
    Ok(Keys::from([("hosts", in_order(hosts?))]))
}

fn of_account(account: &Account) -> Keys {
    let role = group::accounts::Role::from(account.role).word().to_owned();
    Keys::from([("role", Value::Text(role)), ("disabled", Value::Switch(account.disabled))])
}

#[cfg(test)]
mod tests {
    use super::super::diff::diff;
    use super::super::read::read;
    use super::super::write::write;
    use super::*;
    use api::types::{NumberedEntry, PolicyUse, Scope, When};
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    fn hosts() -> impl Strategy<Value = HostRecord> {
        let user = prop::option::of("[^\\s\\p{C}]{1,12}");
        let iqn = prop::option::of("iqn\\.2026-11\\.com\\.Example:[a-zA-Z0-9]{1,6}");
        let address = prop_oneof![
            any::<[u8; 4]>().prop_map(|octets| std::net::Ipv4Addr::from(octets).to_string()),
            any::<u128>().prop_map(|bits| std::net::Ipv6Addr::from(bits).to_string()),
            any::<u8>().prop_map(|octet| format!("{octet}.0.0.0/8")),
            any::<[u8; 2]>().prop_map(|[a, b]| format!("{a}.{b}.*.*")),
            Just("fd00::/8".to_owned()),
        ];
        let scope = prop::sample::select(vec![Scope::Volume, Scope::Snapshot, Scope::Both]);
        let parts = (user, iqn, prop::option::of(address), scope);
        let record = parts.prop_map(|(chap, iqn, address, scope)| {
            let chap = if iqn.is_none() && address.is_none() { Some("al".into()) } else { chap };
            HostRecord { chap, iqn, address, scope }
        });
        // Only what a member takes can be on it.
        record.prop_filter("a record", |record| record_text(record.clone()).is_ok())
    }

    fn entries() -> impl Strategy<Value = Option<Vec<NumberedEntry>>> {
        let policy = ("[a-zA-Z0-9._-]{1,9}", prop::bool::ANY).prop_map(|(name, is_both)| {
            let scope = if is_both { Scope::Both } else { Scope::Snapshot };
            Entry::Policy(PolicyUse { name, scope })
        });
        let entry = prop_oneof![hosts().prop_map(Entry::Record), policy];
        let numbered = entry.prop_map(|entry| NumberedEntry { number: 1, entry });
        prop::option::of(prop::collection::vec(numbered, 0..5))
    }

    fn volume(size_bytes: u64, read_ahead_bytes: u32, state: &str, shared: Option<bool>) -> Volume {
        let json: Json = json!({
            "id": 1, "name": "v", "size_bytes": size_bytes, "raid": "raid5", "state": state,
            "reason": "", "thick": false, "block_bytes": 4096, "cache": "volatile",
            "read_ahead_bytes": read_ahead_bytes, "used_bytes": 0, "reserved_bytes": 0,
            "snapshots": 0, "origin": null, "created_unix_seconds": 1, "iqn": "", "sessions": 0,
            "shared": shared, "hosts": "listed",
        });
        serde_json::from_value(json).expect("a volume")
    }

    proptest! {
        #[test]
        fn what_a_member_is_set_to_reads_as_the_same(
            size_bytes in 1_u64..1 << 62,
            read_ahead_bytes: u32,
            state in prop::sample::select(vec!["online", "offline", "lost", "degraded"]),
            shared: Option<bool>,
            entries in entries(),
            records in prop::collection::vec(hosts(), 0..5),
            seconds in 60_u64..31_622_401,
            at in 0_u32..1440,
        ) {
            let mut san = San::default();
            let volume = volume(size_bytes, read_ahead_bytes, state, shared);
            let access = json!({"volume": "v", "entries": entries, "shared": false, "hosts": "listed"});
            let access: Access = serde_json::from_value(access).expect("an access list");
            san.put("volume", "v".into(), of_volume(&volume, &access).expect("it reads"));
            let number = |record: &HostRecord| {
                let mut json = serde_json::to_value(record).expect("plain values");
                json["number"] = 1.into();
                json
            };
            let policy = json!({"name": "p", "records": records.iter().map(number).collect::<Vec<_>>()});
            let policy: Policy = serde_json::from_value(policy).expect("a policy");
            san.put("policy", "p".into(), of_policy(&policy).expect("it reads"));
            let daily = When::Daily { at: format!("{:02}:{:02}", at / 60, at % 60) };
            for (name, when) in [("e", When::Every { seconds }), ("d", daily)] {
                let schedule = json!({
                    "name": name, "volumes": [{"name": "v", "gone": false}, {"name": "w", "gone": true}],
                    "when": when, "keep": 3, "paused": false, "created_unix_seconds": 1,
                    "next_unix_seconds": null, "last": null, "snapshots": 0,
                });
                let schedule: Schedule = serde_json::from_value(schedule).expect("a schedule");
                san.put("schedule", name.into(), of_schedule(&schedule, |_| true).expect("it reads"));
            }
            let text = write(&san);
            let back = read(&text);
            let back = back.map_err(|refused| TestCaseError::fail(format!("{refused:?}\n{text}")))?;
            prop_assert_eq!(&back, &san, "{}", text);
            prop_assert_eq!(diff(&san, &back), []);
        }
    }
}
