//! All settings at one revision, as they are read from the store.
//!
//! | key | what |
//! |---|---|
//! | `access` | changes with every change of the others: who changes one compares it |
//! | `volumes/` and the number of a volume | who may use it ([`VolumeSettings`]) |
//! | `policies/` and a name | a [`Policy`] |
//! | `chap/users/` and a user | its [`Sealed`] secret |
//! | `chap/mutual` | what targets prove ([`Mutual`]) |
//! | `accounts/` and a name | an [`Account`] |
//! | `tokens/` and a name | a [`Token`] |
//! | `schedules/` and a name | a [`Schedule`] |
//! | `destinations/` and a name | a [`Destination`] |
//! | `identity` | what hosts know the array by ([`Identity`]) |
//! | `intents/` and the name of a volume | what it is to become that is being made ([`Intent`]) |
//! | `departures/`, `arrivals/`, `adopted/` | volumes that move ([`moves`](super::moves)) |
//! | `sets/` and the number of a set | snapshots of one moment that are taken with other members ([`SetIntent`](super::SetIntent)) |
//!
//! What units of targets keep lies beside them ([`units`](super::units)).

use std::collections::{BTreeMap, BTreeSet};

use iscsi::chap::{ChapPolicy, Credentials, CredentialsError};
use serde::{Deserialize, Serialize};

use super::moves::{ADOPTED, ARRIVALS, AdoptedVolumes, Arrivals, DEPARTURES, Departures};
use super::sets::{SETS, SetIntents};
use super::spread::{SLICES, SPREADS};
use super::{Identity, Intent, Intents, SettingsError};
use crate::access::{AccessList, Entry, Policies, Policy, Record};
use crate::accounts::{Account, Logins, Token, Written};
use crate::destinations::Destination;
use crate::record::{Setting, SettingError};
use crate::schedules::Schedule;
use crate::secrets::{Sealed, Secret, SecretError, Vault};
use crate::spread::{SliceRecords, SpreadRecords};
use crate::store::{KeyValue, Range, Revision};

/// The key that changes with every change of any setting: who wants to hear of them watches it.
pub const GUARD: &str = "access";
pub(super) const MUTUAL: &str = "chap/mutual";
const VOLUMES: &str = "volumes/";
pub(super) const POLICIES: &str = "policies/";
pub(super) const USERS: &str = "chap/users/";
pub(super) const ACCOUNTS: &str = "accounts/";
pub(super) const TOKENS: &str = "tokens/";
const SCHEDULES: &str = "schedules/";
/// What is to be written: each key once, `None` for one that is to go.
pub(super) type Writes = BTreeMap<String, Option<Vec<u8>>>;

pub(super) const DESTINATIONS: &str = "destinations/";
pub(super) const IDENTITY: &str = "identity";
const INTENTS: &str = "intents/";

/// How the keys of settings begin. No key begins as two of them do.
pub(super) const PREFIXES: [&str; 16] = [
    GUARD,
    VOLUMES,
    POLICIES,
    "chap/",
    ACCOUNTS,
    TOKENS,
    SCHEDULES,
    DESTINATIONS,
    IDENTITY,
    INTENTS,
    DEPARTURES,
    ARRIVALS,
    ADOPTED,
    SETS,
    SPREADS,
    SLICES,
];

pub(super) fn volume_key(volume: u32) -> String {
    format!("{VOLUMES}{volume:08x}")
}

pub(super) fn policy_key(name: &str) -> String {
    format!("{POLICIES}{name}")
}

pub(super) fn user_key(user: &str) -> String {
    format!("{USERS}{user}")
}

pub(super) fn account_key(name: &str) -> String {
    format!("{ACCOUNTS}{name}")
}

pub(super) fn token_key(name: &str) -> String {
    format!("{TOKENS}{name}")
}

pub(super) fn schedule_key(name: &str) -> String {
    format!("{SCHEDULES}{name}")
}

pub(super) fn destination_key(name: &str) -> String {
    format!("{DESTINATIONS}{name}")
}

pub(super) fn intent_key(name: &str) -> String {
    format!("{INTENTS}{name}")
}

/// What is set for one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSettings {
    /// Who may use it and its snapshots. Without a list the rule for all such volumes holds; a list
    /// that is empty lets nobody in, so that taking its last record away never opens a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessList>,
    /// Hosts of several names may use it at the same time.
    #[serde(default)]
    pub shared: bool,
}

impl Setting for VolumeSettings {
    const WHAT: &'static str = "what is set for a volume";
}

/// What targets prove to hosts that ask for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutual {
    /// The name by which they do.
    pub user: String,
    pub(super) secret: Sealed,
}

impl Setting for Mutual {
    const WHAT: &'static str = "the secret of mutual CHAP";
}

/// Who may use a volume or its snapshots.
#[derive(Debug, PartialEq, Eq)]
pub enum Rule {
    /// It has no list: the rule for all such volumes holds.
    General,
    /// Those that one of these records lets in; nobody, if there are none.
    Records {
        /// The records, with those of policies.
        records: Vec<Record>,
        /// Several hosts at the same time.
        shared: bool,
    },
}

/// Secrets as a target needs them. What cannot be opened is left out: who names it is not let in.
#[derive(Debug, Default)]
pub struct Known {
    /// CHAP users that are known.
    pub users: Vec<Credentials>,
    /// What targets prove.
    pub mutual: Option<Credentials>,
    /// Where events go on to, by name.
    pub destinations: BTreeMap<String, Destination<Secret>>,
    /// Why others are not.
    pub missing: Vec<SecretError>,
    /// The names of the keys that all of them were sealed with.
    pub keys: BTreeSet<String>,
}

/// What an access list names that is not there, so that it lets nobody in by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotThere {
    /// Policies.
    pub policies: BTreeSet<String>,
    /// CHAP users, also those that a policy of the list names.
    pub users: BTreeSet<String>,
}

/// All settings at one revision.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The revision of the store.
    pub revision: Revision,
    /// When any of it was changed last; 0 for never.
    pub(super) guard: Revision,
    /// By number. What cannot be read lets nobody in, and says why.
    pub volumes: BTreeMap<u32, Result<VolumeSettings, SettingError>>,
    /// By name. One that cannot be read is not among them, and lets nobody in.
    pub policies: Policies,
    /// By their names.
    pub users: BTreeMap<String, Sealed>,
    /// When each was given its secret.
    pub users_changed: BTreeMap<String, Revision>,
    /// What targets prove.
    pub mutual: Option<Mutual>,
    /// Since when.
    pub mutual_changed: Revision,
    /// Who manages the group from afar. Who cannot be read does not.
    pub logins: Logins,
    /// Snapshots that are taken by themselves, by name. What cannot be read takes none.
    pub schedules: BTreeMap<String, Schedule>,
    /// Where events go on to, by name. Nothing goes to what cannot be read.
    pub destinations: BTreeMap<String, Destination<Sealed>>,
    /// When each was changed last.
    pub destinations_changed: BTreeMap<String, Revision>,
    /// What hosts know the array by.
    pub identity: Identity,
    /// What volumes are to become that are being made, by name.
    pub intents: Intents,
    /// Volumes that leave.
    pub departures: Departures,
    /// Volumes that have come.
    pub arrivals: Arrivals,
    /// What hosts know volumes by that were made elsewhere.
    pub adopted: AdoptedVolumes,
    /// Sets of snapshots that the member takes part in.
    pub sets: SetIntents,
    /// Volumes that lie on several members and whose home it is.
    pub spreads: SpreadRecords,
    /// Slices that it has of volumes of other homes.
    pub slices: SliceRecords,
    /// Keys of such volumes or slices that no version until now writes.
    pub unknown_spreads: BTreeSet<String>,
    /// What each key takes with its value, in bytes.
    pub(super) sizes: BTreeMap<Vec<u8>, u64>,
    /// What cannot be read, beside volumes and what they are to become, by its key.
    pub unreadable: BTreeMap<String, SettingError>,
}

impl State {
    /// From all keys of the store; keys that mean nothing here are passed over.
    pub(super) fn of(range: &Range) -> Self {
        let mut state = Self { revision: range.revision, ..Self::default() };
        for kv in &range.kvs {
            state.sizes.insert(kv.key.clone(), (kv.key.len() + kv.value.len()) as u64);
            let Ok(key) = str::from_utf8(&kv.key) else { continue };
            if key == GUARD {
                state.guard = kv.mod_revision;
            } else if let Some(number) = key.strip_prefix(VOLUMES) {
                if let Ok(number) = u32::from_str_radix(number, 16) {
                    state.volumes.insert(number, VolumeSettings::decode(&kv.value));
                }
            } else if let Some(name) = key.strip_prefix(INTENTS) {
                state.intents.insert(name.to_owned(), Intent::decode(&kv.value));
            } else if state.take_move(key, kv)
                || state.take_set(key, kv)
                || state.take_spread(key, kv)
            {
                // It is of one volume, of one move, of one set, or of one spread volume.
            } else if let Err(error) = state.take(key, kv) {
                state.unreadable.insert(key.to_owned(), error);
            }
        }
        state
    }

    /// Whether it says no more than a store in which nothing was ever set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let nothing = VolumeSettings::default();
        let says_nothing = |volume: &Result<_, _>| volume.as_ref().is_ok_and(|is| *is == nothing);
        self.volumes.values().all(says_nothing)
            && self.policies.is_empty()
            && self.users.is_empty()
            && self.mutual.is_none()
            && self.logins.is_empty()
            && self.schedules.is_empty()
            && self.destinations.is_empty()
            && self.identity == Identity::default()
            && self.intents.is_empty()
            && self.departures.is_empty()
            && self.arrivals.is_empty()
            && self.adopted.is_empty()
            && self.sets.is_empty()
            && self.spreads.is_empty()
            && self.slices.is_empty()
            && self.unknown_spreads.is_empty()
            && self.unreadable.is_empty()
    }

    /// Takes in what is not of one volume.
    fn take(&mut self, key: &str, kv: &KeyValue) -> Result<(), SettingError> {
        let value = &kv.value;
        let written = Written { made: kv.create_revision, changed: kv.mod_revision };
        if key == MUTUAL {
            self.mutual = Some(Mutual::decode(value)?);
            self.mutual_changed = kv.mod_revision;
        } else if let Some(name) = key.strip_prefix(POLICIES) {
            self.policies.insert(name.to_owned(), Policy::decode(value)?);
        } else if let Some(user) = key.strip_prefix(USERS) {
            self.users.insert(user.to_owned(), Sealed::decode(value)?);
            self.users_changed.insert(user.to_owned(), kv.mod_revision);
        } else if let Some(name) = key.strip_prefix(ACCOUNTS) {
            self.logins.accounts.insert(name.to_owned(), Account::decode(value)?);
            self.logins.accounts_written.insert(name.to_owned(), written);
        } else if let Some(name) = key.strip_prefix(TOKENS) {
            self.logins.tokens.insert(name.to_owned(), Token::decode(value)?);
            self.logins.tokens_written.insert(name.to_owned(), written);
        } else if let Some(name) = key.strip_prefix(SCHEDULES) {
            self.schedules.insert(name.to_owned(), Schedule::decode(value)?);
        } else if let Some(name) = key.strip_prefix(DESTINATIONS) {
            self.destinations.insert(name.to_owned(), Destination::decode(value)?);
            self.destinations_changed.insert(name.to_owned(), kv.mod_revision);
        } else if key == IDENTITY {
            self.identity = Identity::decode(value)?;
        }
        Ok(())
    }

    /// Why it is not known what hosts know the array by, if that is so.
    #[must_use]
    pub fn unreadable_identity(&self) -> Option<&SettingError> {
        self.unreadable.get(IDENTITY)
    }

    /// Who may use a volume and its snapshots. What cannot be read, and a list of policies that are not
    /// there, lets nobody in.
    #[must_use]
    pub fn rule(&self, volume: u32) -> Rule {
        match self.volumes.get(&volume) {
            None | Some(Ok(VolumeSettings { access: None, .. })) => Rule::General,
            Some(Ok(VolumeSettings { access: Some(list), shared })) => {
                Rule::Records { records: list.records(&self.policies), shared: *shared }
            }
            Some(Err(_)) => Rule::Records { records: Vec::new(), shared: false },
        }
    }

    /// What the access list of a volume names that is not there. No change stores such a list, but one that is stored
    /// before its volume is made may have been overtaken.
    #[must_use]
    pub fn not_there(&self, volume: u32) -> NotThere {
        let mut not_there = NotThere::default();
        let Some(Ok(VolumeSettings { access: Some(list), .. })) = self.volumes.get(&volume) else {
            return not_there;
        };
        for (_, entry) in list.entries() {
            if let Entry::Policy { name, .. } = entry
                && !self.policies.contains_key(name)
                && !self.unreadable.contains_key(&policy_key(name))
            {
                not_there.policies.insert(name.clone());
            }
        }
        let records = list.records(&self.policies).into_iter();
        let users = records.filter_map(|record| record.parts().chap.clone());
        not_there.users.extend(users.filter(|user| !self.has_user(user)));
        not_there
    }

    /// Opens what can be opened of the secrets.
    #[must_use]
    pub fn secrets(&self, vault: &Vault) -> Known {
        let mut known = Known::default();
        for (user, sealed) in &self.users {
            known.keys.insert(sealed.key().to_owned());
            match opened(vault, &user_key(user), user, sealed) {
                Ok(credentials) => known.users.push(credentials),
                Err(error) => known.missing.push(error),
            }
        }
        if let Some(Mutual { user, secret }) = &self.mutual {
            known.keys.insert(secret.key().to_owned());
            match opened(vault, MUTUAL, user, secret) {
                Ok(credentials) => known.mutual = Some(credentials),
                Err(error) => known.missing.push(error),
            }
        }
        self.open_destinations(vault, &mut known);
        known
    }

    /// What is set for a volume, to be changed.
    pub(super) fn volume(&self, volume: u32) -> Result<VolumeSettings, SettingsError> {
        match self.volumes.get(&volume) {
            None => Ok(VolumeSettings::default()),
            Some(Ok(settings)) => Ok(settings.clone()),
            Some(Err(error)) => Err(SettingsError::Unreadable(error.to_string())),
        }
    }

    /// A policy, to be changed.
    pub(super) fn policy(&self, name: &str) -> Result<&Policy, SettingsError> {
        if let Some(error) = self.unreadable.get(&policy_key(name)) {
            return Err(SettingsError::Unreadable(error.to_string()));
        }
        self.policies.get(name).ok_or_else(|| SettingsError::NoSuchPolicy(name.to_owned()))
    }

    /// Whether a CHAP user is there, also one whose secret must be set again.
    pub(super) fn has_user(&self, user: &str) -> bool {
        self.users.contains_key(user) || self.unreadable.contains_key(&user_key(user))
    }

    /// Refuses to let a policy go that volumes name.
    ///
    /// # Errors
    /// [`SettingsError::PolicyInUse`]
    pub fn check_unused_policy(&self, name: &str) -> Result<(), SettingsError> {
        match self.uses_of_policy(name) {
            0 => Ok(()),
            volumes => Err(SettingsError::PolicyInUse { name: name.to_owned(), volumes }),
        }
    }

    /// Refuses to let a CHAP user go that records name.
    ///
    /// # Errors
    /// [`SettingsError::UserInUse`]
    pub fn check_unused_user(&self, user: &str) -> Result<(), SettingsError> {
        let (volumes, policies) = self.uses_of_user(user);
        if volumes == 0 && policies.is_empty() {
            return Ok(());
        }
        Err(SettingsError::UserInUse { user: user.to_owned(), volumes, policies })
    }

    /// Where a CHAP user is named: in lists of volumes and in policies.
    pub(super) fn uses_of_user(&self, user: &str) -> (usize, Vec<String>) {
        let names = |record: &Record| record.parts().chap.as_deref() == Some(user);
        let in_entry = |entry: &Entry| matches!(entry, Entry::Record(record) if names(record));
        let has = |(_, policy): &(&String, &Policy)| policy.records().any(|(_, r)| names(r));
        let policies = self.policies.iter().filter(has).map(|(name, _)| name.clone());
        (self.volumes_with(in_entry), policies.collect())
    }

    /// How many volumes name a policy.
    pub(super) fn uses_of_policy(&self, policy: &str) -> usize {
        self.volumes_with(|entry| matches!(entry, Entry::Policy { name, .. } if name == policy))
    }

    fn volumes_with(&self, is_it: impl Fn(&Entry) -> bool) -> usize {
        let lists = self.volumes.values().flatten().filter_map(|volume| volume.access.as_ref());
        lists.filter(|list| list.entries().any(|(_, entry)| is_it(entry))).count()
    }
}

fn opened(
    vault: &Vault,
    place: &str,
    user: &str,
    sealed: &Sealed,
) -> Result<Credentials, SecretError> {
    let secret = vault.unseal(place, sealed)?;
    let not_intact = |_| SecretError::NotIntact { place: place.to_owned() };
    Credentials::new(user, secret.as_bytes()).map_err(not_intact)
}

/// Refuses a secret that cannot be one, and one for both directions (RFC 7143 §12.1.3).
pub(super) fn check_secret(
    known: Known,
    user: &str,
    secret: &Secret,
    is_mutual: bool,
) -> Result<(), CredentialsError> {
    let new = Credentials::new(user, secret.as_bytes())?;
    let policy = if is_mutual {
        ChapPolicy::new(known.users, Some(new))
    } else {
        ChapPolicy::new(vec![new], known.mutual)
    };
    policy.map(drop)
}
