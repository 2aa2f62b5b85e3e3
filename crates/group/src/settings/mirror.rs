//! A member's own store becomes as that of its group, as far as members share settings.
//!
//! Invariants:
//! 1. What does not read here stays as it is. Of what does not read there stays what is here, but for what [lets
//!    somebody in](lets_in) by itself: that goes. A secret that only does not open here is written again.
//! 2. What is the same is not written: its revisions stay, and so do the logins that rely on it.
//! 3. What takes a right away is always done, also where there is no room or no key for the rest.
//!
//! Whoever calls it has to have [merged](Settings::merge) first: what only this member has goes.

use std::collections::BTreeMap;

use super::room::Room;
use super::shared::lets_in;
use super::state::{
    MUTUAL, POLICIES, USERS, Writes, account_key, destination_key, policy_key, token_key, user_key,
};
use super::steps::step;
use super::{Mutual, Settings, SettingsError, Shared, State, TRIES};
use crate::access::Policy;
use crate::accounts::Token;
use crate::destinations::Destination;
use crate::mutants::{self, Mutant};
use crate::record::Setting;
use crate::secrets::{Sealed, Secret};

impl Settings {
    /// Makes the shared settings of this store those of `from`, and says whether that changed any: in one transaction,
    /// or in several where one does not hold them, each of which can be the last. `last_event` is the number of the
    /// last event of this member: a destination that is new to it begins there.
    ///
    /// # Errors
    /// The store does not do it; or there is no room or no key for all of it, and then all that takes a right away was
    /// done, and what of the rest could be.
    pub async fn mirror(&mut self, from: &Shared, last_event: u64) -> Result<bool, SettingsError> {
        let (mut is_changed, mut failed) = (false, 0);
        while failed < TRIES {
            let state = self.read().await?;
            let mut difference = self.difference(&state, from, last_event);
            difference.fit(Room::of(&state, self.bytes_max));
            let Difference { writes, refused, .. } = difference;
            if writes.is_empty() {
                return refused.map_or(Ok(is_changed), Err);
            }
            match self.commit(&state, step(&state, writes)).await? {
                true => is_changed = true,
                false => failed += 1,
            }
        }
        Err(SettingsError::Contended)
    }

    /// What has to be written, with secrets sealed for this store.
    fn difference<'a>(
        &mut self,
        state: &'a State,
        from: &'a Shared,
        last_event: u64,
    ) -> Difference<'a> {
        let own = Shared::of(state, &self.vault);
        let (writes, refused) = (Writes::new(), None);
        let mut all = Difference { state, from, writes, refused };
        all.add(&from.policies, &own.policies, policy_key, PartialEq::eq);
        all.add(&from.accounts, &own.accounts, account_key, PartialEq::eq);
        all.add(&from.tokens, &own.tokens, token_key, is_token);
        all.add_gone(&from.users, &own.users, user_key);
        all.add_gone(&from.destinations, &own.destinations, destination_key);
        if from.mutual.is_none() && own.mutual.is_some() {
            all.take_away(MUTUAL.to_owned());
        }
        self.add_secrets(&own, &mut all);
        self.add_destinations(&own, &mut all, last_event);
        all
    }

    /// Secrets of CHAP that are others than here.
    fn add_secrets(&mut self, own: &Shared, all: &mut Difference<'_>) {
        let from = all.from;
        for (user, secret) in &from.users {
            let key = user_key(user);
            if own.users.get(user) == Some(secret) || all.is_left_alone(&key) {
                continue;
            }
            let sealed = self.vault.seal(&key, secret);
            // One that was given up must not let anybody in for want of a key for the new one.
            if sealed.is_err() && own.users.contains_key(user) {
                all.take_away(key.clone());
            }
            all.put(key, sealed.map(|sealed| sealed.encode()).map_err(SettingsError::from));
        }
        if let Some((user, secret)) = &from.mutual
            && from.mutual != own.mutual
            && !all.is_left_alone(MUTUAL)
        {
            let sealed = self.vault.seal(MUTUAL, secret);
            let mutual = sealed.map(|secret| Mutual { user: user.clone(), secret }.encode());
            all.put(MUTUAL.to_owned(), mutual.map_err(SettingsError::from));
        }
    }

    /// Destinations that are others than here.
    fn add_destinations(&mut self, own: &Shared, all: &mut Difference<'_>, last_event: u64) {
        let (from, state) = (all.from, all.state);
        for (name, new) in &from.destinations {
            let key = destination_key(name);
            let is_same = own.destinations.get(name).is_some_and(|old| is_destination(new, old));
            if is_same || all.is_left_alone(&key) {
                continue;
            }
            let here = destination_here(new, state.destinations.get(name), last_event);
            let Destination { id, begins_after, choice, way } = here;
            let sealed = self.sealed_way(name, way);
            all.put(key, sealed.map(|way| Destination { id, begins_after, choice, way }.encode()));
        }
    }
}

/// What has to be written, and why not all of it can be.
struct Difference<'a> {
    state: &'a State,
    from: &'a Shared,
    writes: Writes,
    refused: Option<SettingsError>,
}

impl Difference<'_> {
    /// Whether a key stays as it is, since what lies there does not read, here or there.
    fn is_left_alone(&self, key: &str) -> bool {
        let is_read =
            !self.from.unreadable.contains(key) && !self.state.unreadable.contains_key(key);
        !is_read && !mutants::is(Mutant::MirrorUnread)
    }

    fn put(&mut self, key: String, value: Result<Vec<u8>, SettingsError>) {
        match value {
            Ok(value) => {
                self.writes.insert(key, Some(value));
            }
            Err(error) => {
                self.refused.get_or_insert(error);
            }
        }
    }

    fn take_away(&mut self, key: String) {
        // What is here reads, so it is in the group that it does not.
        let goes = lets_in(&key) || !self.is_left_alone(&key);
        if goes && !mutants::is(Mutant::MirrorKeepsGone) {
            self.writes.insert(key, None);
        }
    }

    /// What has no secret, and is another than here or gone.
    fn add<T: Setting>(
        &mut self,
        from: &BTreeMap<String, T>,
        own: &BTreeMap<String, T>,
        key: fn(&str) -> String,
        is_same: fn(&T, &T) -> bool,
    ) {
        for (name, new) in from {
            let key = key(name);
            let is_here = own.get(name).is_some_and(|old| is_same(new, old));
            if !is_here && !self.is_left_alone(&key) {
                self.put(key, Ok(new.encode()));
            }
        }
        self.add_gone(from, own, key);
    }

    /// What only this member has, or does not read in the group.
    fn add_gone<T>(
        &mut self,
        from: &BTreeMap<String, T>,
        own: &BTreeMap<String, T>,
        key: fn(&str) -> String,
    ) {
        for name in own.keys().filter(|name| !from.contains_key(*name)) {
            self.take_away(key(name));
        }
    }

    /// Leaves out what has no room, and says so; of that, what takes a right away is done all the same.
    fn fit(&mut self, empty: Room<'_>) {
        let mut room = empty;
        for (key, value) in &self.writes {
            room.take(key.as_bytes(), value.as_deref());
        }
        let Err(full) = room.check() else { return };
        let mut room = empty;
        let mut wanted: Vec<_> = std::mem::take(&mut self.writes).into_iter().collect();
        // What goes makes room, and what does not grow needs none.
        wanted.sort_by_key(|(key, value)| {
            (value.is_some(), empty.grows(key.as_bytes(), value.as_deref()))
        });
        for (key, value) in wanted {
            let mut with = room;
            with.take(key.as_bytes(), value.as_deref());
            if with.check().is_ok() {
                room = with;
                self.writes.insert(key, value);
            } else if let Some(less) = self.less(&key) {
                room.take(key.as_bytes(), less.as_deref());
                self.writes.insert(key, less);
            }
        }
        self.refused.get_or_insert(full);
    }

    /// What takes away of a setting what goes of it, and gives nothing that comes: the records of a policy that stay,
    /// and no secret of a user instead of one that was given up. `None` if that is nothing.
    fn less(&self, key: &str) -> Option<Option<Vec<u8>>> {
        if let Some(user) = key.strip_prefix(USERS) {
            return self.state.users.contains_key(user).then_some(None);
        }
        let name = key.strip_prefix(POLICIES)?;
        let (old, new) = (self.state.policies.get(name)?, self.from.policies.get(name)?);
        let less = records_of_both(old, new);
        (less != *old).then(|| Some(less.encode()))
    }
}

/// The policy with those of its records only that another one has too.
pub(super) fn records_of_both(old: &Policy, new: &Policy) -> Policy {
    let mut both = old.clone();
    for (number, record) in old.records() {
        if !new.records().any(|(_, other)| other == record) {
            both.remove(number).expect("a policy has the records that it lists");
        }
    }
    both
}

/// Whether a token is the one that is here, which was used later or as late.
fn is_token(new: &Token, old: &Token) -> bool {
    let used_unix_seconds = old.used_unix_seconds;
    new.used_unix_seconds <= used_unix_seconds && Token { used_unix_seconds, ..new.clone() } == *old
}

/// Whether events go to the same place. What each member has counted for itself is no difference.
pub(super) fn is_destination(one: &Destination<Secret>, other: &Destination<Secret>) -> bool {
    one.choice == other.choice && one.way == other.way
}

/// A destination as it is for this member, whose events have numbers of their own: what happened before it came, or
/// while it was paused, is none of its business.
fn destination_here(
    new: &Destination<Secret>,
    old: Option<&Destination<Sealed>>,
    last_event: u64,
) -> Destination<Secret> {
    let goes_on =
        |old: &&Destination<Sealed>| old.id == new.id && (new.choice.paused || !old.choice.paused);
    let begins_after = old.filter(goes_on).map_or(last_event, |old| old.begins_after);
    Destination { begins_after, ..new.clone() }
}

#[cfg(test)]
mod tests;
