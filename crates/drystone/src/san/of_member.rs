//! What a member is set to. It is read list by list: what changes meanwhile may be in it or not.

use super::schema::{UNLISTED, in_order, policy_text};
use super::{Keys, San, Value};
use api::client::{Client, ClientError};
use api::types::{
    Access, Account, Cache, Entry, HostRecord, Policy, PolicyRecord, Schedule, Volume, VolumeState,
};
use group::access::{AccessError, Record};
use group::schedules::Timing;
use member::spec::size;

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

/// Asks a member for all of it.
pub(crate) fn of_member(client: &Client) -> Result<San, MemberError> {
    let mut san = San::default();
    let there = client.volumes()?.into_iter().filter(|it| it.state != VolumeState::Deleted);
    for volume in there {
        let keys = of_volume(&volume, &client.access(&volume.name)?)?;
        san.put("volume", volume.name, keys);
    }
    for schedule in client.schedules()? {
        let keys = of_schedule(&schedule)?;
        san.put("schedule", schedule.name, keys);
    }
    for policy in client.policies()? {
        let keys = of_policy(&policy)?;
        san.put("policy", policy.name, keys);
    }
    let chap = client.chap_users()?;
    for user in chap.users {
        san.put("chap", user.user, Keys::new());
    }
    if let Some(mutual) = chap.mutual {
        san.put("mutual-chap", mutual.user, Keys::new());
    }
    for account in client.accounts()? {
        let keys = of_account(&account);
        san.put("account", account.name, keys);
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
        ("online", Value::Switch(volume.state != VolumeState::Offline)),
        ("access", access),
    ]);
    if let Some(shared) = volume.shared {
        keys.insert("shared", Value::Switch(shared));
    }
    Ok(keys)
}

fn entry_text(entry: &Entry) -> Result<String, AccessError> {
    match entry {
        Entry::Record(record) => record_text(record.clone()),
        Entry::Policy(policy) => Ok(policy_text(&policy.name, policy.scope.into())),
    }
}

fn record_text(record: HostRecord) -> Result<String, AccessError> {
    Ok(Record::new(record.try_into()?)?.to_string())
}

fn of_schedule(schedule: &Schedule) -> Result<Keys, MemberError> {
    let there = schedule.volumes.iter().filter(|volume| !volume.gone);
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
