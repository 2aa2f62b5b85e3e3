//! What a member has set by itself comes to the settings of its group, before it takes those for its own.
//!
//! Invariants:
//! 1. What the group has is never changed.
//! 2. Where both have different things of one name nothing is added, unless the member gives its own ones up.
//! 3. What a record of an added policy names is there, and no secret serves both directions of CHAP.
//! 4. What was taken away in the group does not come back unseen: see [`Bringing`] and [`Merged`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use super::mirror::is_destination;
use super::shared::{lets_in, said};
use super::state::{MUTUAL, Writes, account_key, destination_key, policy_key, token_key, user_key};
use super::steps::step;
use super::{Mutual, Settings, SettingsError, Shared, TRIES};
use crate::access::{Policy, Record};
use crate::accounts::{ACCOUNTS_MAX, Account, AccountError, TOKENS_MAX, Token};
use crate::destinations::{DESTINATIONS_MAX, Destination, DestinationError};
use crate::mutants::{self, Mutant};
use crate::record::Setting;
use crate::store::Op;

/// Something that keeps a member's settings from becoming those of its group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// What it is, as an operator says it: `policy 'esx'`.
    pub what: String,
}

impl Display for Conflict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)
    }
}

/// What a member brings to the settings of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bringing {
    /// All that the group does not have, if nothing is in conflict.
    All,
    /// The same, of one whose settings are those of a group that it was in before: an account, a token or a CHAP user
    /// that the group does not have may have been taken away there meanwhile, and is in conflict.
    Returning,
    /// It takes those of the group for its own, and brings only what its access lists need, so that no host is shut
    /// out: the policies and CHAP users that they name, and the users that such policies name.
    InUse,
}

/// What came of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// This keeps the settings of the member from becoming those of the group: nothing was added.
    Differs(Vec<Conflict>),
    /// The group has what the member brings. The accounts, tokens and CHAP users that it had not before, as an operator
    /// says them.
    Made(Vec<String>),
}

/// What is in conflict, by its key.
type Conflicts = BTreeMap<String, Conflict>;

impl Settings {
    /// Adds to these settings of a group what a member has `own`, the group does not, and the member is `bringing`. If
    /// anything keeps both from being one, nothing is added, and that is the answer; unless the member takes those of
    /// the group for its own, which stay. It is made in one transaction, or in several where one does not hold it, which
    /// add to each other.
    ///
    /// # Errors
    /// There would be more than there may be, or the store does not do it.
    pub async fn merge(
        &mut self,
        own: &Shared,
        bringing: Bringing,
    ) -> Result<Merged, SettingsError> {
        let (mut failed, mut come) = (0, BTreeSet::<String>::new());
        while failed < TRIES {
            let state = self.read().await?;
            let mut there = Shared::of(&state, &self.vault);
            if mutants::is(Mutant::MergeOverwrites) {
                let is_same = |name: &String, policy: &mut Policy| {
                    own.policies.get(name).is_none_or(|own| is_policy(policy, own))
                };
                there.policies.retain(is_same);
            }
            let mut conflicts = there.conflicts_with(own);
            if bringing == Bringing::Returning {
                conflicts.extend(there.gone_from(own));
            }
            if !conflicts.is_empty() && bringing != Bringing::InUse {
                return Ok(Merged::Differs(conflicts.into_values().collect()));
            }
            let added = there.lacks(own, &conflicts, bringing);
            there.check_counts(&added)?;
            let writes = self.written(&added)?;
            if writes.is_empty() {
                return Ok(Merged::Made(come.iter().filter_map(|key| said(key)).collect()));
            }
            let put = |(key, value): (&String, &Option<Vec<u8>>)| {
                value.as_ref().map(|value| Op::put(key.as_str(), value.as_slice()))
            };
            let all: Vec<Op> = writes.iter().filter_map(put).collect();
            state.check_room(&all, self.bytes_max)?;
            let coming: Vec<String> = writes.keys().filter(|key| lets_in(key)).cloned().collect();
            if self.commit(&state, step(&state, writes)).await? {
                // What had no room in this transaction comes with the next one.
                come.extend(coming);
            } else {
                failed += 1;
            }
        }
        Err(SettingsError::Contended)
    }

    /// As it lies in this store, with secrets sealed for it.
    fn written(&mut self, added: &Shared) -> Result<Writes, SettingsError> {
        let mut writes = Writes::new();
        let plain = |name: String, value: Vec<u8>| (name, Some(value));
        writes.extend(added.policies.iter().map(|(name, it)| plain(policy_key(name), it.encode())));
        let accounts = added.accounts.iter();
        writes.extend(accounts.map(|(name, it)| plain(account_key(name), it.encode())));
        writes.extend(added.tokens.iter().map(|(name, it)| plain(token_key(name), it.encode())));
        for (user, secret) in &added.users {
            let key = user_key(user);
            let sealed = self.vault.seal(&key, secret)?;
            writes.insert(key, Some(sealed.encode()));
        }
        if let Some((user, secret)) = &added.mutual {
            let secret = self.vault.seal(MUTUAL, secret)?;
            let mutual = Mutual { user: user.clone(), secret };
            writes.insert(MUTUAL.to_owned(), Some(mutual.encode()));
        }
        for (name, destination) in &added.destinations {
            let Destination { id, begins_after, choice, way } = destination.clone();
            let way = self.sealed_way(name, way)?;
            let sealed = Destination { id, begins_after, choice, way };
            writes.insert(destination_key(name), Some(sealed.encode()));
        }
        Ok(writes)
    }
}

impl Shared {
    /// What keeps `own` from being added to this.
    fn conflicts_with(&self, own: &Self) -> Conflicts {
        let mut found = Conflicts::new();
        let mut add = |key: String, why: &str| {
            let what = said(&key).map(|what| Conflict { what: format!("{what}{why}") });
            found.extend(what.map(|what| (key, what)));
        };
        for key in self.differing(own) {
            add(key, "");
        }
        // Once it reads, as with a later version, it would be lost to settings that have it not.
        let there = self.keys();
        let is_there = |key: &String| there.contains(key) || self.unreadable.contains(key);
        for key in own.unreadable.iter().filter(|key| !is_there(key)) {
            add(key.clone(), ", which does not read or open here");
        }
        // What may not read there is not in force for this member, which would lose its own of the name.
        for key in own.keys().intersection(&self.unreadable).filter(|key| lets_in(key)) {
            add(key.clone(), ", which does not read or open in the group");
        }
        for key in self.same_secret(own) {
            add(key, ", whose secret serves the other direction of CHAP in the group");
        }
        found
    }

    /// What lets somebody in by a name of its own, and only `own` has.
    fn gone_from(&self, own: &Self) -> Conflicts {
        let there = self.keys();
        let is_there = |key: &String| there.contains(key) || self.unreadable.contains(key);
        let gone = own.keys().into_iter().filter(|key| lets_in(key) && !is_there(key));
        let conflict = |key: String| {
            let what = format!("{}, which the group does not have", said(&key)?);
            Some((key, Conflict { what }))
        };
        gone.filter_map(conflict).collect()
    }

    /// The keys of what both have and is not the same.
    fn differing(&self, own: &Self) -> Vec<String> {
        let mut keys = Vec::new();
        keys.extend(others(&self.policies, &own.policies, policy_key, is_policy));
        keys.extend(others(&self.users, &own.users, user_key, PartialEq::eq));
        keys.extend(others(&self.accounts, &own.accounts, account_key, is_account));
        keys.extend(others(&self.tokens, &own.tokens, token_key, is_token));
        keys.extend(others(&self.destinations, &own.destinations, destination_key, is_destination));
        if self.mutual.is_some() && own.mutual.is_some() && self.mutual != own.mutual {
            keys.push(MUTUAL.to_owned());
        }
        keys
    }

    /// The keys of what would come with a secret that serves the other direction (RFC 7143 §9.2.1).
    fn same_secret(&self, own: &Self) -> Vec<String> {
        let mut keys = Vec::new();
        if let Some((_, secret)) = &self.mutual {
            let new = own.users.iter().filter(|(user, _)| !self.users.contains_key(*user));
            let same = new.filter(|(_, of_user)| *of_user == secret);
            keys.extend(same.map(|(user, _)| user_key(user)));
        }
        if let (None, Some((_, secret))) = (&self.mutual, &own.mutual)
            && self.users.values().any(|of_user| of_user == secret)
        {
            keys.push(MUTUAL.to_owned());
        }
        keys
    }

    /// What `own` has and this has not, without what is in conflict and what is not brought.
    fn lacks(&self, own: &Self, conflicts: &Conflicts, bringing: Bringing) -> Self {
        let is_free = |key: &str| !self.unreadable.contains(key) && !conflicts.contains_key(key);
        let is_mutual_free = self.mutual.is_none() && is_free(MUTUAL);
        let mutual = own.mutual.clone().filter(|_| is_mutual_free);
        let mut added = Self {
            policies: absent(&self.policies, &own.policies, policy_key, is_free),
            users: absent(&self.users, &own.users, user_key, is_free),
            mutual,
            accounts: absent(&self.accounts, &own.accounts, account_key, is_free),
            tokens: absent(&self.tokens, &own.tokens, token_key, is_free),
            destinations: absent(&self.destinations, &own.destinations, destination_key, is_free),
            ..Self::default()
        };
        if bringing == Bringing::InUse {
            added.keep_in_use(own);
        }
        let users: BTreeSet<&String> = self.users.keys().chain(added.users.keys()).collect();
        let is_there =
            |user: &String| users.contains(user) || self.unreadable.contains(&user_key(user));
        for policy in added.policies.values_mut() {
            *policy = without_missing(policy, is_there);
        }
        added
    }

    /// Leaves of what would be added what the access lists of the member need.
    fn keep_in_use(&mut self, own: &Self) {
        let named = &own.named;
        self.policies.retain(|name, _| named.policies.contains(name));
        let records = self.policies.values().flat_map(Policy::records);
        let of_policies = records.filter_map(|(_, record)| record.parts().chap.clone());
        let users: BTreeSet<String> = of_policies.chain(named.users.iter().cloned()).collect();
        self.users.retain(|user, _| users.contains(user));
        self.mutual = None;
        self.accounts.clear();
        self.tokens.clear();
        self.destinations.clear();
    }

    /// Refuses more than there may be.
    fn check_counts(&self, added: &Self) -> Result<(), SettingsError> {
        let is_over = |there: usize, more: usize, max: usize| more > 0 && there + more > max;
        if is_over(self.accounts.len(), added.accounts.len(), ACCOUNTS_MAX) {
            return Err(AccountError::TooManyAccounts.into());
        }
        if is_over(self.tokens.len(), added.tokens.len(), TOKENS_MAX) {
            return Err(AccountError::TooManyTokens.into());
        }
        if is_over(self.destinations.len(), added.destinations.len(), DESTINATIONS_MAX) {
            return Err(DestinationError::TooManyDestinations.into());
        }
        Ok(())
    }
}

/// The keys of those of one name that are not the same.
fn others<T>(
    there: &BTreeMap<String, T>,
    own: &BTreeMap<String, T>,
    key: fn(&str) -> String,
    is_same: fn(&T, &T) -> bool,
) -> Vec<String> {
    let is_other =
        |(name, own): &(&String, &T)| there.get(*name).is_some_and(|there| !is_same(there, own));
    own.iter().filter(is_other).map(|(name, _)| key(name)).collect()
}

/// Those whose names are free.
fn absent<T: Clone>(
    there: &BTreeMap<String, T>,
    own: &BTreeMap<String, T>,
    key: fn(&str) -> String,
    is_free: impl Fn(&str) -> bool,
) -> BTreeMap<String, T> {
    let come = own.iter().filter(|(name, _)| !there.contains_key(*name) && is_free(&key(name)));
    come.map(|(name, it)| (name.clone(), it.clone())).collect()
}

/// The policy without records of CHAP users that are not there: another user of the name, who comes later, would be let
/// in by them.
fn without_missing(policy: &Policy, is_there: impl Fn(&String) -> bool) -> Policy {
    let mut kept = policy.clone();
    for (number, record) in policy.records() {
        if record.parts().chap.as_ref().is_some_and(|user| !is_there(user)) {
            kept.remove(number).expect("a policy has the records that it lists");
        }
    }
    kept
}

/// Whether two policies let the same hosts in; the numbers of their records are no difference.
fn is_policy(one: &Policy, other: &Policy) -> bool {
    let records = |policy: &Policy| -> Vec<Record> {
        policy.records().map(|(_, record)| record.clone()).collect()
    };
    let (one, other) = (records(one), records(other));
    one.len() == other.len() && one.iter().all(|record| other.contains(record))
}

/// Whether two accounts are for one who may do the same; when they were made is no difference.
fn is_account(one: &Account, other: &Account) -> bool {
    let Account { role, password, disabled, created_unix_seconds: _ } = one;
    *role == other.role && *password == other.password && *disabled == other.disabled
}

/// Whether two tokens are one text that may do the same; when they were made and used is no difference.
fn is_token(one: &Token, other: &Token) -> bool {
    let Token { role, hash, expires_unix_seconds, created_unix_seconds: _, used_unix_seconds: _ } =
        one;
    let is_same = *role == other.role && *hash == other.hash;
    is_same && *expires_unix_seconds == other.expires_unix_seconds
}

#[cfg(test)]
mod tests;
