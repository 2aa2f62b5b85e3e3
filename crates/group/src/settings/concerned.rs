//! Which volumes a change of settings is about: only their targets are touched by it.

use std::collections::BTreeSet;

use iscsi::chap::Credentials;

use super::{Known, State, VolumeSettings};
use crate::access::{AccessList, Entry, Policy, Record};
use crate::record::SettingError;

/// Volumes whose hosts may be others than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concerned {
    /// These, by their numbers.
    Volumes(BTreeSet<u32>),
    /// All that there are.
    All,
}

impl Default for Concerned {
    /// None.
    fn default() -> Self {
        Self::Volumes(BTreeSet::new())
    }
}

impl Concerned {
    /// Whether this volume is among them.
    #[must_use]
    pub fn includes(&self, volume: u32) -> bool {
        match self {
            Self::Volumes(volumes) => volumes.contains(&volume),
            Self::All => true,
        }
    }

    /// Has those of `more` too.
    pub fn add(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::All, _) => {}
            (Self::Volumes(volumes), Self::Volumes(more)) => volumes.extend(more),
            (Self::Volumes(_), Self::All) => *self = Self::All,
        }
    }
}

/// What lists name that is another than before.
struct Changed<'a> {
    users: BTreeSet<&'a str>,
    policies: BTreeSet<&'a str>,
}

impl State {
    /// The volumes for which these settings, with the secrets that are `known`, may let other hosts in than
    /// those `before` did.
    #[must_use]
    pub fn concerned_since(&self, known: &Known, before: (&Self, &Known)) -> Concerned {
        let (old, old_known) = before;
        if known.mutual != old_known.mutual {
            return Concerned::All;
        }
        let users = changed_users(&known.users, &old_known.users);
        let policies = self.changed_policies(old, &users);
        let changed = Changed { users, policies };
        let numbers = self.volumes.keys().chain(old.volumes.keys());
        let is_other = |volume: &&u32| {
            let now = self.volumes.get(volume);
            !is_same(now, old.volumes.get(volume)) || changed.is_named_by(now)
        };
        Concerned::Volumes(numbers.filter(is_other).copied().collect())
    }

    /// Those with other records than before, and those whose records name one of these users.
    fn changed_policies<'a>(&'a self, old: &'a Self, users: &BTreeSet<&str>) -> BTreeSet<&'a str> {
        let names = self.policies.keys().chain(old.policies.keys());
        let is_other = |name: &&String| {
            let now = self.policies.get(*name);
            let records = now.into_iter().flat_map(Policy::records);
            now != old.policies.get(*name)
                || records.into_iter().any(|(_, record)| names_one(record, users))
        };
        names.filter(is_other).map(String::as_str).collect()
    }
}

impl Changed<'_> {
    fn is_named_by(&self, volume: Option<&Result<VolumeSettings, SettingError>>) -> bool {
        let list = volume.and_then(|volume| volume.as_ref().ok()?.access.as_ref());
        list.into_iter().flat_map(AccessList::entries).any(|(_, entry)| match entry {
            Entry::Record(record) => names_one(record, &self.users),
            Entry::Policy { name, .. } => self.policies.contains(name.as_str()),
        })
    }
}

fn names_one(record: &Record, users: &BTreeSet<&str>) -> bool {
    record.parts().chap.as_deref().is_some_and(|user| users.contains(user))
}

/// What cannot be read lets nobody in, whatever is wrong with it.
fn is_same(
    now: Option<&Result<VolumeSettings, SettingError>>,
    before: Option<&Result<VolumeSettings, SettingError>>,
) -> bool {
    match (now, before) {
        (Some(Ok(now)), Some(Ok(before))) => now == before,
        (Some(Err(_)), Some(Err(_))) | (None, None) => true,
        _ => false,
    }
}

/// Users who came, who went, or whose secret is another.
fn changed_users<'a>(now: &'a [Credentials], before: &'a [Credentials]) -> BTreeSet<&'a str> {
    let missing = |all: &'a [Credentials], from: &'a [Credentials]| {
        all.iter().filter(|one| !from.contains(one)).map(Credentials::user)
    };
    missing(now, before).chain(missing(before, now)).collect()
}

#[cfg(test)]
mod tests;
