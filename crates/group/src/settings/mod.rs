//! What is set for access, kept in a store: records of volumes, policies, CHAP users, mutual CHAP, who
//! manages the group from afar, when snapshots are taken, and where events go on to.
//!
//! Each change looks at all settings, decides, and is committed only if nobody changed any of them
//! meanwhile, else it begins anew. So what a change relies on (that a policy is there, that no record
//! names a user that goes) is still so when it is made, whoever else changes settings.
//!
//! Members of a group [share](Shared) what is set for people and hosts: it is kept the same way in the store of the
//! group, and each member has a [mirror](Settings::mirror) of it in its own, from which everything is read.

mod batch;
mod concerned;
mod destinations;
mod directions;
mod halves;
mod identity;
mod intents;
mod logins;
mod merge;
mod mirror;
mod moves;
mod room;
mod schedules;
mod sets;
mod shared;
mod spread;
mod state;
mod steps;
mod units;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iscsi::chap::{Credentials, CredentialsError};

use crate::access::{AccessError, Entry, Policy, Record, check_policy_name, check_user};
use crate::accounts::AccountError;
use crate::destinations::DestinationError;
use crate::record::Setting;
use crate::schedules::ScheduleError;
use crate::secrets::{Key, KeyError, Secret, Vault};
use crate::store::{Compare, Op, Range, Revision, Selection, Store, StoreError, Transaction};
use crate::words::counted;
use moves::{adopted_key, departure_key};
use state::{GUARD, MUTUAL, policy_key, user_key, volume_key};

pub use batch::{AccountStep, Batch, ListChange, MutualChange, ScheduleStep, VolumeStep};
pub use concerned::Concerned;
pub use destinations::DestinationStep;
pub use directions::Given;
pub use halves::Halves;
pub use identity::Identity;
pub use intents::{Intent, Intents};
pub use logins::AccountChange;
pub use merge::{Bringing, Conflict, Merged};
pub use moves::{Adopted, AdoptedVolumes, Arrival, Arrivals, Departure, Departures, Stage};
pub use room::{GROUP_BYTES_MAX, SETTINGS_BYTES_MAX};
pub use sets::{SetIntent, SetIntents, SetStage};
pub use shared::{Shared, lets_in};
pub use state::{GUARD as GUARD_KEY, Known, Mutual, NotThere, Rule, State, VolumeSettings};
pub use units::{LaterUnit, UnitKey, UnitRecord, Units};

/// How often a change begins anew because of others before it is given up.
const TRIES: usize = 32;

/// Volumes that are forgotten in one transaction.
const FORGOTTEN_AT_ONCE: usize = 100;

/// Why a setting is not changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The store does not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record or a list says no.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// An account or a token that cannot be, is not there, or is there.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// A schedule that cannot be, is not there, or is there.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A destination that cannot be, is not there, or is there.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// A secret that cannot be one.
    #[error(transparent)]
    Secret(#[from] CredentialsError),
    /// A secret that serves the other direction already.
    #[error(
        "the member was started with this secret for the other direction of CHAP: choose another, as whoever knows it \
         could pretend to be the volumes"
    )]
    SecretOfStart,
    /// The key of secrets.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What is there cannot be read, and is not written over.
    #[error("{0}")]
    Unreadable(String),
    /// No policy has this name.
    #[error("there is no policy '{0}'")]
    NoSuchPolicy(String),
    /// A policy has this name.
    #[error("there is a policy '{0}' already")]
    PolicyExists(String),
    /// Volumes name the policy.
    #[error("policy '{name}' is on the access {}: remove it there first", lists_of(*volumes))]
    PolicyInUse {
        /// Its name.
        name: String,
        /// How many.
        volumes: usize,
    },
    /// No CHAP user has this name.
    #[error("there is no CHAP user '{0}'")]
    NoSuchUser(String),
    /// A CHAP user has this name.
    #[error("there is a CHAP user '{0}' already")]
    UserExists(String),
    /// Records name the user.
    #[error(
        "CHAP user '{user}' is named by {}: remove those records first",
        named_by(*volumes, policies)
    )]
    UserInUse {
        /// Its name.
        user: String,
        /// How many volumes.
        volumes: usize,
        /// Which policies.
        policies: Vec<String>,
    },
    /// A volume is to leave that leaves by another move, or has left.
    #[error("volume '{0}' moves to another member already: wait until that move has ended")]
    LeavesAlready(String),
    /// It is stored already that the member takes part in a set of snapshots.
    #[error("this member takes part in this set of snapshots already: take another one")]
    SetThere,
    /// A spread volume, or a slice, of this number is stored already.
    #[error(
        "this member has stored a spread volume, or a slice of one, of this number already: make it anew"
    )]
    SpreadThere,
    /// What is stored of a spread volume, or of a slice, is not what the change was decided on.
    #[error(
        "what is stored of the spread volume has changed meanwhile, so that it is not changed now: look at it, and try again"
    )]
    SpreadChanged,
    /// What is to be stored of a spread volume, or of a slice, cannot be.
    #[error("what is to be stored of the spread volume cannot be, so that it is not stored: {0}")]
    SpreadUnsound(String),
    /// They would take more than they may.
    #[error(
        "there is no room for more settings: they take {} of {}, and this takes {wanted_bytes} bytes more; delete access \
         policies, or records of policies and access lists, that are not needed",
        in_mib(*.taken_bytes), in_mib(*.bytes_max)
    )]
    Full {
        /// What all take now.
        taken_bytes: u64,
        /// What they may take.
        bytes_max: u64,
        /// What is asked for beside.
        wanted_bytes: u64,
    },
    /// Others change settings all the time.
    #[error("others changed settings at the same time: try again")]
    Contended,
}

/// Bytes in a sentence.
fn in_mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// The lists of so many volumes.
fn lists_of(volumes: usize) -> String {
    let lists = if volumes == 1 { "list" } else { "lists" };
    format!("{lists} of {}", counted(volumes as u64, "volume"))
}

/// The lists of so many volumes, of which there may be none, and policies.
fn named_by(volumes: usize, policies: &[String]) -> String {
    let lists = (volumes > 0).then(|| format!("the access {}", lists_of(volumes)));
    let quoted = || policies.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let policies = match policies.len() {
        0 => None,
        1 => Some(format!("policy {}", quoted())),
        _ => Some(format!("the policies {}", quoted())),
    };
    lists.into_iter().chain(policies).collect::<Vec<_>>().join(" and ")
}

/// Settings in a store, and the key of their secrets.
pub struct Settings {
    store: Arc<dyn Store>,
    vault: Vault,
    given: Given,
    /// What all of them may take, as [`State::taken_bytes`] counts.
    bytes_max: u64,
    /// As they were read last: decoding all of them is what a change costs most.
    last: Mutex<Option<Arc<State>>>,
}

impl Settings {
    /// Those of this store, which holds what units keep beside, and nothing else.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, vault: Vault) -> Self {
        let (given, bytes_max) = (Given::default(), SETTINGS_BYTES_MAX);
        Self { store, vault, given, bytes_max, last: Mutex::default() }
    }

    /// Those that the members of a group share, in its store, with the key of secrets that each of them has.
    #[must_use]
    pub fn of_group(store: Arc<dyn Store>, key: Key) -> Self {
        let mut settings = Self::new(store, Vault::of_key(key));
        settings.limit(GROUP_BYTES_MAX);
        settings
    }

    /// They may take so much from now on, instead of [`SETTINGS_BYTES_MAX`].
    pub const fn limit(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Opens secrets that were read.
    #[must_use]
    pub const fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Makes the key of secrets if there is none.
    ///
    /// # Errors
    /// There is none and none can be made, or one that cannot be used; it is tried again with the first secret.
    pub fn make_key_ready(&mut self) -> Result<(), KeyError> {
        self.vault.make_ready()
    }

    /// All settings as they are now. While nobody changes the store they are read and decoded once.
    ///
    /// # Errors
    /// The store cannot be read. What is in it and cannot be read is said in the state.
    pub async fn read(&self) -> Result<Arc<State>, SettingsError> {
        let last = self.last().clone();
        if let Some(last) = last
            && self.store.range(Selection::key(GUARD)).await?.revision == last.revision
        {
            return Ok(last);
        }
        for _ in 0..TRIES {
            if let Some(range) = self.read_once().await? {
                let state = Arc::new(State::of(&range));
                *self.last() = Some(state.clone());
                return Ok(state);
            }
        }
        Err(SettingsError::Contended)
    }

    fn last(&self) -> MutexGuard<'_, Option<Arc<State>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What lies under all prefixes of settings; `None` if somebody changed a setting meanwhile.
    async fn read_once(&self) -> Result<Option<Range>, SettingsError> {
        let mut all: Option<Range> = None;
        let mut is_of_one_revision = true;
        for prefix in state::PREFIXES {
            let found = self.store.range(Selection::prefix(prefix)).await?;
            match &mut all {
                None => all = Some(found),
                Some(all) => {
                    is_of_one_revision &= all.revision == found.revision;
                    all.kvs.extend(found.kvs);
                }
            }
        }
        if is_of_one_revision {
            return Ok(all);
        }
        // Members of a group say in the same store how they are, all the time: that changes no setting.
        let guard = self.store.range(Selection::key(GUARD)).await?;
        Ok(all.filter(|all| guard_of(all) == guard_of(&guard)))
    }

    /// Makes a change if all that it was decided on is still so when it is made.
    async fn change<T>(
        &self,
        decide: impl Fn(&State) -> Result<(Vec<Op>, T), SettingsError>,
    ) -> Result<T, SettingsError> {
        for _ in 0..TRIES {
            let state = self.read().await?;
            let (ops, answer) = decide(&state)?;
            if ops.is_empty() {
                return Ok(answer);
            }
            state.check_room(&ops, self.bytes_max)?;
            if self.commit(&state, ops).await? {
                return Ok(answer);
            }
        }
        Err(SettingsError::Contended)
    }

    /// Does this if nobody has changed a setting since the state that it was decided on, and says whether it did.
    async fn commit(&self, state: &State, mut ops: Vec<Op>) -> Result<bool, SettingsError> {
        ops.push(Op::put(GUARD, ""));
        let unchanged = Compare::unchanged(GUARD, state.guard);
        Ok(self.store.commit(Transaction::when(vec![unchanged], ops)).await?.succeeded)
    }

    async fn change_volume<T>(
        &self,
        volume: u32,
        change: impl Fn(&State, &mut VolumeSettings) -> Result<T, SettingsError>,
    ) -> Result<T, SettingsError> {
        self.change(|state| {
            let mut settings = state.volume(volume)?;
            let answer = change(state, &mut settings)?;
            Ok((vec![Op::put(volume_key(volume), settings.encode())], answer))
        })
        .await
    }

    /// Adds an entry to the list of a volume, and says its number. From the first one on the volume is
    /// for those on its list alone.
    ///
    /// # Errors
    /// The list says no, or the policy or the CHAP user that it names is not there.
    pub async fn add_access(&self, volume: u32, entry: Entry) -> Result<u32, SettingsError> {
        self.change_volume(volume, |state, settings| {
            check_entry(state, &entry)?;
            Ok(settings.access.get_or_insert_default().add(entry.clone())?)
        })
        .await
    }

    /// Takes an entry off the list of a volume. A list without entries lets nobody in.
    ///
    /// # Errors
    /// [`AccessError::NoSuchRecord`]
    pub async fn remove_access(&self, volume: u32, number: u32) -> Result<Entry, SettingsError> {
        self.change_volume(volume, |_, settings| {
            let list = settings.access.as_mut().ok_or(AccessError::NoSuchRecord(number))?;
            Ok(list.remove(number)?)
        })
        .await
    }

    /// Takes the list of a volume away: the rule for volumes without a list holds for it again.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn clear_access(&self, volume: u32) -> Result<(), SettingsError> {
        self.change_volume(volume, |_, settings| {
            settings.access = None;
            Ok(())
        })
        .await
    }

    /// Says whether hosts of several names may use a volume at the same time.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn set_shared(&self, volume: u32, shared: bool) -> Result<(), SettingsError> {
        self.change_volume(volume, |_, settings| {
            settings.shared = shared;
            Ok(())
        })
        .await
    }

    /// Forgets what is set for volumes that are not among these, which are all that there are.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn retain_volumes(
        &self,
        is_there: impl Fn(u32) -> bool,
    ) -> Result<usize, SettingsError> {
        let mut forgotten = 0;
        loop {
            let count = self
                .change(|state| {
                    let gone = |volume: &&u32| !is_there(**volume);
                    let set = state.volumes.keys().filter(gone).map(|it| volume_key(*it));
                    let known = state.adopted.keys().filter(gone).map(|it| adopted_key(*it));
                    let left = state.departures.keys().filter(gone).map(|it| departure_key(*it));
                    let keys = set.chain(known).chain(left).take(FORGOTTEN_AT_ONCE);
                    let ops: Vec<Op> = keys.map(|key| Op::Delete(Selection::key(key))).collect();
                    let count = ops.len();
                    Ok((ops, count))
                })
                .await?;
            forgotten += count;
            if count == 0 {
                return Ok(forgotten);
            }
        }
    }

    /// Makes a policy without records.
    ///
    /// # Errors
    /// The name cannot be one, or is taken.
    pub async fn create_policy(&self, name: &str) -> Result<(), SettingsError> {
        check_policy_name(name)?;
        self.change(|state| match state.policy(name) {
            Err(SettingsError::NoSuchPolicy(_)) => {
                Ok((vec![Op::put(policy_key(name), Policy::default().encode())], ()))
            }
            Err(error) => Err(error),
            Ok(_) => Err(SettingsError::PolicyExists(name.to_owned())),
        })
        .await
    }

    /// Adds a record to a policy, and says its number.
    ///
    /// # Errors
    /// There is no such policy, its list says no, or there is no such CHAP user.
    pub async fn add_to_policy(&self, name: &str, record: Record) -> Result<u32, SettingsError> {
        self.change(|state| {
            check_record(state, &record)?;
            let mut policy = state.policy(name)?.clone();
            let number = policy.add(record.clone())?;
            Ok((vec![Op::put(policy_key(name), policy.encode())], number))
        })
        .await
    }

    /// Takes a record off a policy.
    ///
    /// # Errors
    /// There is no such policy or record.
    pub async fn remove_from_policy(
        &self,
        name: &str,
        number: u32,
    ) -> Result<Record, SettingsError> {
        self.change(|state| {
            let mut policy = state.policy(name)?.clone();
            let record = policy.remove(number)?;
            Ok((vec![Op::put(policy_key(name), policy.encode())], record))
        })
        .await
    }

    /// Takes a policy away that no volume names.
    ///
    /// # Errors
    /// There is none, or one that volumes name.
    pub async fn delete_policy(&self, name: &str) -> Result<(), SettingsError> {
        self.change(|state| {
            state.policy(name)?;
            state.check_unused_policy(name)?;
            Ok((vec![Op::Delete(Selection::key(policy_key(name)))], ()))
        })
        .await
    }

    /// Adds a CHAP user.
    ///
    /// # Errors
    /// The user is there, or the name or the secret cannot be one.
    pub async fn add_user(&mut self, user: &str, secret: &Secret) -> Result<(), SettingsError> {
        check_user(user)?;
        self.put_user(user, secret, |is_there| {
            if is_there { Err(SettingsError::UserExists(user.to_owned())) } else { Ok(()) }
        })
        .await
    }

    /// Gives a CHAP user another secret, also one whose secret cannot be read any more.
    ///
    /// # Errors
    /// There is no such user, or the secret cannot be one.
    pub async fn set_user(&mut self, user: &str, secret: &Secret) -> Result<(), SettingsError> {
        self.put_user(user, secret, |is_there| {
            if is_there { Ok(()) } else { Err(SettingsError::NoSuchUser(user.to_owned())) }
        })
        .await
    }

    async fn put_user(
        &mut self,
        user: &str,
        secret: &Secret,
        check: impl Fn(bool) -> Result<(), SettingsError>,
    ) -> Result<(), SettingsError> {
        // Before a key is made for it.
        let state = self.read().await?;
        check(state.has_user(user))?;
        state::check_secret(state.secrets(&self.vault), user, secret, false)?;
        self.given.check_user(&Credentials::new(user, secret.as_bytes())?)?;
        let key = user_key(user);
        let sealed = self.vault.seal(&key, secret)?.encode();
        self.change(|state| {
            check(state.has_user(user))?;
            state::check_secret(state.secrets(&self.vault), user, secret, false)?;
            Ok((vec![Op::put(key.as_str(), sealed.as_slice())], ()))
        })
        .await
    }

    /// Takes a CHAP user away that no record names.
    ///
    /// # Errors
    /// There is none, or one that records name.
    pub async fn delete_user(&self, user: &str) -> Result<(), SettingsError> {
        self.change(|state| {
            if !state.has_user(user) {
                return Err(SettingsError::NoSuchUser(user.to_owned()));
            }
            state.check_unused_user(user)?;
            Ok((vec![Op::Delete(Selection::key(user_key(user)))], ()))
        })
        .await
    }

    /// Says what targets prove to hosts that ask for it.
    ///
    /// # Errors
    /// The name or the secret cannot be one, or a CHAP user has the same secret.
    pub async fn set_mutual(&mut self, user: &str, secret: &Secret) -> Result<(), SettingsError> {
        check_user(user)?;
        let known = self.read().await?.secrets(&self.vault);
        state::check_secret(known, user, secret, true)?;
        self.given.check_mutual(&Credentials::new(user, secret.as_bytes())?)?;
        let sealed = self.vault.seal(MUTUAL, secret)?;
        let mutual = Mutual { user: user.to_owned(), secret: sealed }.encode();
        self.change(|state| {
            state::check_secret(state.secrets(&self.vault), user, secret, true)?;
            Ok((vec![Op::put(MUTUAL, mutual.as_slice())], ()))
        })
        .await
    }

    /// Targets prove nothing any more.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn clear_mutual(&self) -> Result<(), SettingsError> {
        self.change(|_| Ok((vec![Op::Delete(Selection::key(MUTUAL))], ()))).await
    }
}

/// When any setting was changed last, as far as it was found; 0 for never.
fn guard_of(range: &Range) -> Revision {
    let guard = range.kvs.iter().find(|kv| kv.key == GUARD.as_bytes());
    guard.map_or(0, |guard| guard.mod_revision)
}

/// A record names a CHAP user that is there.
fn check_record(state: &State, record: &Record) -> Result<(), SettingsError> {
    match &record.parts().chap {
        Some(user) if !state.has_user(user) => Err(SettingsError::NoSuchUser(user.clone())),
        _ => Ok(()),
    }
}

/// An entry names a policy or a CHAP user that is there.
fn check_entry(state: &State, entry: &Entry) -> Result<(), SettingsError> {
    match entry {
        Entry::Record(record) => check_record(state, record),
        Entry::Policy { name, .. } => state.policy(name).map(drop),
    }
}

#[cfg(test)]
mod tests;
