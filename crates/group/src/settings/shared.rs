//! What members of a group share: what is set for people and hosts. What is set for one volume, and what the array is,
//! is of the member that has it.

use std::collections::{BTreeMap, BTreeSet};

use iscsi::chap::Credentials;

use super::state::{
    ACCOUNTS, DESTINATIONS, Known, MUTUAL, POLICIES, TOKENS, USERS, account_key, destination_key,
    policy_key, token_key, user_key,
};
use super::{Settings, SettingsError, State};
use crate::access::{AccessList, Entry, Policies};
use crate::accounts::{Account, Token};
use crate::destinations::Destination;
use crate::secrets::{Sealed, Secret, Vault};
use crate::store::Revision;

/// The kinds that are shared and have names: how their keys begin, and how an operator says one.
const KINDS: [(&str, &str); 5] = [
    (POLICIES, "policy"),
    (USERS, "CHAP user"),
    (ACCOUNTS, "account"),
    (TOKENS, "token"),
    (DESTINATIONS, "destination"),
];

/// How an operator says what lies under a key; `None` for what members do not share.
pub(super) fn said(key: &str) -> Option<String> {
    if key == MUTUAL {
        return Some("mutual CHAP".to_owned());
    }
    KINDS.iter().find_map(|(begin, word)| Some(format!("{word} '{}'", key.strip_prefix(begin)?)))
}

/// Whether what lies under a key lets somebody in by itself: an account, a token, a CHAP user. Where such a record of the
/// group does not read, a member takes away what it had of it, as it may have been given up; of all else it keeps what
/// it had.
#[must_use]
pub fn lets_in(key: &str) -> bool {
    [ACCOUNTS, TOKENS, USERS].iter().any(|begin| key.starts_with(begin))
}

/// What the access lists of the volumes of a member name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) policies: BTreeSet<String>,
    pub(super) users: BTreeSet<String>,
}

impl Named {
    fn of(state: &State) -> Self {
        let mut named = Self::default();
        let lists = state.volumes.values().flatten().filter_map(|volume| volume.access.as_ref());
        for (_, entry) in lists.flat_map(AccessList::entries) {
            match entry {
                Entry::Policy { name, .. } => {
                    named.policies.insert(name.clone());
                }
                Entry::Record(record) => named.users.extend(record.parts().chap.clone()),
            }
        }
        named
    }
}

/// What members of a group share, as one store had it at one moment, with its secrets in the clear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shared {
    pub(super) read_at: Revision,
    pub(super) changed: Revision,
    pub(super) policies: Policies,
    pub(super) users: BTreeMap<String, Secret>,
    pub(super) mutual: Option<(String, Secret)>,
    pub(super) accounts: BTreeMap<String, Account>,
    pub(super) tokens: BTreeMap<String, Token>,
    pub(super) destinations: BTreeMap<String, Destination<Secret>>,
    pub(super) unreadable: BTreeSet<String>,
    /// What of it the lists of volumes beside it name; in the store of a group there are none.
    pub(super) named: Named,
}

impl Shared {
    pub(super) fn of(state: &State, vault: &Vault) -> Self {
        let mut shared = Self {
            read_at: state.revision,
            changed: state.guard,
            policies: state.policies.clone(),
            accounts: state.logins.accounts.clone(),
            tokens: state.logins.tokens.clone(),
            named: Named::of(state),
            ..Self::default()
        };
        let unreadable = state.unreadable.keys().filter(|key| said(key).is_some());
        shared.unreadable.extend(unreadable.cloned());
        shared.open(state, vault);
        shared
    }

    /// Opens the secrets.
    fn open(&mut self, state: &State, vault: &Vault) {
        for (user, sealed) in &state.users {
            let key = user_key(user);
            if let Some(secret) = opened(vault, &key, user, sealed) {
                self.users.insert(user.clone(), secret);
            } else {
                self.unreadable.insert(key);
            }
        }
        if let Some(mutual) = &state.mutual {
            let secret = opened(vault, MUTUAL, &mutual.user, &mutual.secret);
            self.mutual = secret.map(|secret| (mutual.user.clone(), secret));
            if self.mutual.is_none() {
                self.unreadable.insert(MUTUAL.to_owned());
            }
        }
        let mut known = Known::default();
        state.open_destinations(vault, &mut known);
        let is_missing = |name: &&String| !known.destinations.contains_key(*name);
        let missing = state.destinations.keys().filter(is_missing);
        self.unreadable.extend(missing.map(|name| destination_key(name)));
        self.destinations = known.destinations;
    }

    /// The revision of the store at which it was read: changes from the next one on are not in it.
    #[must_use]
    pub const fn read_at(&self) -> Revision {
        self.read_at
    }

    /// The revision in which any setting of that store was changed last; 0 for never.
    #[must_use]
    pub const fn changed(&self) -> Revision {
        self.changed
    }

    /// The keys of what does not read or open, in the order of the store.
    #[must_use]
    pub const fn unreadable(&self) -> &BTreeSet<String> {
        &self.unreadable
    }

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys().is_empty() && self.unreadable.is_empty()
    }

    /// The keys of all that reads and opens.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        let policies = self.policies.keys().map(|name| policy_key(name));
        let users = self.users.keys().map(|name| user_key(name));
        let mutual = self.mutual.iter().map(|_| MUTUAL.to_owned());
        let accounts = self.accounts.keys().map(|name| account_key(name));
        let tokens = self.tokens.keys().map(|name| token_key(name));
        let destinations = self.destinations.keys().map(|name| destination_key(name));
        let logins = accounts.chain(tokens);
        policies.chain(users).chain(mutual).chain(logins).chain(destinations).collect()
    }
}

/// A secret of CHAP that opens and can be one.
fn opened(vault: &Vault, place: &str, user: &str, sealed: &Sealed) -> Option<Secret> {
    let secret = vault.unseal(place, sealed).ok()?;
    Credentials::new(user, secret.as_bytes()).ok()?;
    Some(secret)
}

impl Settings {
    /// What of it members of a group share.
    ///
    /// # Errors
    /// The store cannot be read. What is in it and cannot be read is said in the answer.
    pub async fn shared(&self) -> Result<Shared, SettingsError> {
        let state = self.read().await?;
        Ok(Shared::of(&state, &self.vault))
    }
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
