//! Many changes that are made at once, all of them or none.

use std::collections::BTreeMap;

use iscsi::chap::{ChapPolicy, Credentials};

use super::destinations::{DestinationStep, SealedStep, check_step, set_destinations};
use super::state::{
    MUTUAL, Writes, account_key, intent_key, policy_key, schedule_key, user_key, volume_key,
};
use super::{
    AccountChange, Given, Mutual, Settings, SettingsError, State, VolumeSettings, check_entry,
    check_record,
};
use crate::access::{AccessError, Entry, Policy, Record, check_policy_name, check_user};
use crate::accounts::{Account, AccountError};
use crate::record::Setting;
use crate::schedules::{PlanChange, Schedule, ScheduleError};
use crate::secrets::{Sealed, Secret};
use crate::store::{Op, Selection};

/// Changes. They may rely on each other: a list may name a policy that is made, and one may go together with what
/// named it.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// By the number of the volume.
    pub volumes: BTreeMap<u32, VolumeStep>,
    /// The names of those that were made for this, of which it is forgotten what they were to become.
    pub made: Vec<String>,
    /// The records that a policy is to have, whether it is there or not; `None` for one that is to go.
    pub policies: BTreeMap<String, Option<Vec<Record>>>,
    /// The secret that a CHAP user is to have, whether it is there or not; `None` for one that is to go.
    pub users: BTreeMap<String, Option<Secret>>,
    /// What targets are to prove.
    pub mutual: Option<MutualChange>,
    /// One after the other.
    pub accounts: Vec<(String, AccountStep)>,
    /// One after the other.
    pub schedules: Vec<(String, ScheduleStep)>,
    /// One after the other.
    pub destinations: Vec<(String, DestinationStep)>,
}

impl Batch {
    /// What of it is for the settings that members of a group share.
    #[must_use]
    pub fn of_group(&self) -> Self {
        Self {
            policies: self.policies.clone(),
            users: self.users.clone(),
            mutual: self.mutual.clone(),
            accounts: self.accounts.clone(),
            destinations: self.destinations.clone(),
            ..Self::default()
        }
    }

    /// What of it is for the settings of the member that has the volumes.
    #[must_use]
    pub fn of_member(&self) -> Self {
        Self {
            volumes: self.volumes.clone(),
            made: self.made.clone(),
            schedules: self.schedules.clone(),
            ..Self::default()
        }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { volumes, made, schedules, policies, users, mutual, accounts, destinations } =
            self;
        let changes_volumes = !volumes.is_empty() || !made.is_empty() || !schedules.is_empty();
        let changes_access = !policies.is_empty() || !users.is_empty() || mutual.is_some();
        let changes_others = !accounts.is_empty() || !destinations.is_empty();
        !changes_volumes && !changes_access && !changes_others
    }
}

/// What is to be set for a volume; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeStep {
    /// Who may use it.
    pub access: Option<ListChange>,
    /// Hosts of several names at the same time.
    pub shared: Option<bool>,
}

impl VolumeStep {
    /// Has it set.
    pub(super) fn set(&self, settings: &mut VolumeSettings) -> Result<(), AccessError> {
        match &self.access {
            None => {}
            Some(ListChange::Unlisted) => settings.access = None,
            Some(ListChange::Listed(entries)) => {
                settings.access.get_or_insert_default().replace(entries)?;
            }
        }
        settings.shared = self.shared.unwrap_or(settings.shared);
        Ok(())
    }
}

/// What the access list of a volume is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListChange {
    /// It has none: the rule for such volumes holds.
    Unlisted,
    /// It has these entries.
    Listed(Vec<Entry>),
}

/// What targets are to prove.
#[derive(Debug, Clone)]
pub enum MutualChange {
    /// Nothing.
    Clear,
    /// To be this user, by this secret.
    Set(String, Secret),
}

/// What is to be done with an account.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words say it")]
pub enum AccountStep {
    Add(Account),
    Change(AccountChange),
    Remove,
}

/// What is to be done with a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words say it")]
pub enum ScheduleStep {
    Add(Schedule),
    Change(PlanChange),
    Delete,
}

/// Secrets of a batch as they are written.
#[derive(Debug, Clone, Default)]
struct SealedSecrets {
    users: BTreeMap<String, Sealed>,
    mutual: Option<Mutual>,
    destinations: Vec<(String, SealedStep)>,
}

impl Settings {
    /// Makes all changes in one transaction, or none.
    ///
    /// # Errors
    /// What the single changes say, or there are more than one transaction holds.
    pub async fn apply(
        &mut self,
        batch: &Batch,
        now_unix_seconds: u64,
    ) -> Result<(), SettingsError> {
        // Before a key is made for secrets.
        batch.check_secrets(&self.given)?;
        let sealed = self.sealed(batch)?;
        self.change(|state| {
            let writes = self.writes_of(batch, state, &sealed, now_unix_seconds)?;
            let op = |(key, value): (String, Option<Vec<u8>>)| match value {
                Some(value) => Op::put(key, value),
                None => Op::Delete(Selection::key(key)),
            };
            Ok((writes.into_iter().map(op).collect(), ()))
        })
        .await
    }

    /// What a batch makes of a state, or why it cannot be made.
    fn writes_of(
        &self,
        batch: &Batch,
        state: &State,
        sealed: &SealedSecrets,
        now_unix_seconds: u64,
    ) -> Result<Writes, SettingsError> {
        let mut after = state.clone();
        let writes = batch.decide(&mut after, sealed, now_unix_seconds)?;
        let known = after.secrets(&self.vault);
        ChapPolicy::new(known.users, known.mutual)?;
        Ok(writes)
    }

    /// What a look at the settings makes of a batch that could be made whole as they are now; nothing is changed.
    pub(super) async fn judged<T>(
        &mut self,
        batch: &Batch,
        now_unix_seconds: u64,
        look: impl Fn(&State) -> Result<T, SettingsError>,
    ) -> Result<T, SettingsError> {
        batch.check_secrets(&self.given)?;
        let sealed = self.sealed(batch)?;
        self.change(|state| {
            self.writes_of(batch, state, &sealed, now_unix_seconds)?;
            Ok((Vec::new(), look(state)?))
        })
        .await
    }

    fn sealed(&mut self, batch: &Batch) -> Result<SealedSecrets, SettingsError> {
        let mut sealed = SealedSecrets::default();
        for (user, secret) in &batch.users {
            if let Some(secret) = secret {
                sealed.users.insert(user.clone(), self.vault.seal(&user_key(user), secret)?);
            }
        }
        if let Some(MutualChange::Set(user, secret)) = &batch.mutual {
            let secret = self.vault.seal(MUTUAL, secret)?;
            sealed.mutual = Some(Mutual { user: user.clone(), secret });
        }
        for (name, step) in &batch.destinations {
            sealed.destinations.push((name.clone(), self.sealed_step(name, step)?));
        }
        Ok(sealed)
    }
}

impl Batch {
    /// Refuses names and secrets that cannot be.
    fn check_secrets(&self, given: &Given) -> Result<(), SettingsError> {
        let mutual = match &self.mutual {
            Some(MutualChange::Set(user, secret)) => Some((user, secret)),
            _ => None,
        };
        let users = self.users.iter().filter_map(|(user, secret)| Some((user, secret.as_ref()?)));
        for (user, secret) in users {
            check_user(user)?;
            given.check_user(&Credentials::new(user, secret.as_bytes())?)?;
        }
        if let Some((user, secret)) = mutual {
            check_user(user)?;
            given.check_mutual(&Credentials::new(user, secret.as_bytes())?)?;
        }
        self.destinations.iter().try_for_each(|(name, step)| check_step(name, step))
    }

    /// What is to be written. It makes the state what it will be afterwards.
    fn decide(
        &self,
        state: &mut State,
        sealed: &SealedSecrets,
        now: u64,
    ) -> Result<Writes, SettingsError> {
        let mut writes = Writes::new();
        self.set_users(state, sealed, &mut writes)?;
        self.set_policies(state, &mut writes)?;
        self.set_volumes(state, &mut writes)?;
        self.check_names(state)?;
        self.set_accounts(state, &mut writes)?;
        self.set_schedules(state, now, &mut writes)?;
        set_destinations(&sealed.destinations, state, &mut writes)?;
        Ok(writes)
    }

    fn set_users(
        &self,
        state: &mut State,
        sealed: &SealedSecrets,
        writes: &mut Writes,
    ) -> Result<(), SettingsError> {
        for user in self.users.keys() {
            let key = user_key(user);
            let secret = sealed.users.get(user);
            if secret.is_none() && !state.has_user(user) {
                return Err(SettingsError::NoSuchUser(user.clone()));
            }
            state.unreadable.remove(&key);
            state.users.remove(user);
            writes.insert(key, secret.map(Setting::encode));
            if let Some(secret) = secret {
                state.users.insert(user.clone(), secret.clone());
            }
        }
        if self.mutual.is_some() {
            state.unreadable.remove(MUTUAL);
            state.mutual.clone_from(&sealed.mutual);
            writes.insert(MUTUAL.to_owned(), sealed.mutual.as_ref().map(Setting::encode));
        }
        Ok(())
    }

    fn set_policies(&self, state: &mut State, writes: &mut Writes) -> Result<(), SettingsError> {
        for (name, records) in &self.policies {
            let Some(records) = records else {
                state.policy(name)?;
                state.policies.remove(name);
                writes.insert(policy_key(name), None);
                continue;
            };
            check_policy_name(name)?;
            let mut policy = match state.policy(name) {
                Ok(policy) => policy.clone(),
                Err(SettingsError::NoSuchPolicy(_)) => Policy::default(),
                Err(error) => return Err(error),
            };
            policy.replace(records)?;
            writes.insert(policy_key(name), Some(policy.encode()));
            state.policies.insert(name.clone(), policy);
        }
        Ok(())
    }

    fn set_volumes(&self, state: &mut State, writes: &mut Writes) -> Result<(), SettingsError> {
        for (volume, step) in &self.volumes {
            let mut settings = state.volume(*volume)?;
            step.set(&mut settings)?;
            writes.insert(volume_key(*volume), Some(settings.encode()));
            state.volumes.insert(*volume, Ok(settings));
        }
        writes.extend(self.made.iter().map(|name| (intent_key(name), None)));
        Ok(())
    }

    /// What is named afterwards is there afterwards.
    fn check_names(&self, state: &State) -> Result<(), SettingsError> {
        let gone = self.users.iter().filter(|(_, secret)| secret.is_none());
        for (user, _) in gone {
            state.check_unused_user(user)?;
        }
        let gone = self.policies.iter().filter(|(_, records)| records.is_none());
        for (policy, _) in gone {
            state.check_unused_policy(policy)?;
        }
        for record in self.policies.values().flatten().flatten() {
            check_record(state, record)?;
        }
        for step in self.volumes.values() {
            let Some(ListChange::Listed(entries)) = &step.access else { continue };
            entries.iter().try_for_each(|entry| check_entry(state, entry))?;
        }
        Ok(())
    }

    fn set_accounts(&self, state: &mut State, writes: &mut Writes) -> Result<(), SettingsError> {
        // Those that go make room.
        let (gone, others): (Vec<_>, Vec<_>) =
            self.accounts.iter().partition(|(_, step)| *step == AccountStep::Remove);
        for (name, step) in gone.into_iter().chain(others) {
            let key = account_key(name);
            let account = match step {
                AccountStep::Remove if state.has_account(name) => None,
                AccountStep::Remove => {
                    return Err(AccountError::NoSuchAccount(name.clone()).into());
                }
                AccountStep::Add(account) => {
                    state.check_new_account(name)?;
                    Some(account.clone())
                }
                AccountStep::Change(change) => {
                    Some(change.clone().of(state.account(name)?.clone()))
                }
            };
            writes.insert(key.clone(), account.as_ref().map(Setting::encode));
            state.unreadable.remove(&key);
            state.logins.accounts.remove(name);
            state.logins.accounts.extend(account.map(|account| (name.clone(), account)));
        }
        Ok(())
    }

    fn set_schedules(
        &self,
        state: &mut State,
        now: u64,
        writes: &mut Writes,
    ) -> Result<(), SettingsError> {
        let (gone, others): (Vec<_>, Vec<_>) =
            self.schedules.iter().partition(|(_, step)| *step == ScheduleStep::Delete);
        for (name, step) in gone.into_iter().chain(others) {
            let key = schedule_key(name);
            let schedule = match step {
                ScheduleStep::Delete if state.has_schedule(name) => None,
                ScheduleStep::Delete => {
                    return Err(ScheduleError::NoSuchSchedule(name.clone()).into());
                }
                ScheduleStep::Add(schedule) => {
                    state.check_new_schedule(name, schedule)?;
                    Some(schedule.clone())
                }
                ScheduleStep::Change(change) => {
                    let mut schedule = state.schedule(name)?.clone();
                    schedule.change(change.clone(), now)?;
                    Some(schedule)
                }
            };
            writes.insert(key.clone(), schedule.as_ref().map(Setting::encode));
            state.unreadable.remove(&key);
            state.schedules.remove(name);
            state.schedules.extend(schedule.map(|schedule| (name.clone(), schedule)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::access::Scope;
    use crate::secrets::{KeySource, Vault};
    use crate::store::suite::wait;
    use crate::store::{Embedded, Options, Place};

    fn settings(dir: &std::path::Path) -> Settings {
        let clock = Arc::new(|| Duration::ZERO);
        let store = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
        let vault = Vault::open(KeySource::File(dir.join("key"))).expect("a key, or none yet");
        Settings::new(Arc::new(store), vault)
    }

    fn secret(text: &str) -> Option<Secret> {
        Some(Secret::new(text.as_bytes().to_vec()))
    }

    fn record(text: &str) -> Record {
        text.parse().expect("a record")
    }

    fn list(entries: Vec<Entry>) -> VolumeStep {
        VolumeStep { access: Some(ListChange::Listed(entries)), shared: Some(true) }
    }

    fn policy(name: &str) -> Entry {
        Entry::Policy { name: name.into(), scope: Scope::Both }
    }

    #[test]
    fn what_relies_on_each_other_comes_and_goes_together() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings(dir.path());
        let mut come = Batch::default();
        come.users.insert("al".into(), secret("hush-hush-hush"));
        come.policies.insert("rack1".into(), Some(vec![record("chap=al"), record("ip=10.0.0.1")]));
        come.volumes.insert(7, list(vec![policy("rack1"), Entry::Record(record("chap=al"))]));
        wait(settings.apply(&come, 1)).unwrap();
        let state = wait(settings.read()).unwrap();
        assert_eq!(state.secrets(settings.vault()).users.len(), 1);
        let before = format!("{state:?}");

        let mut go = Batch::default();
        go.users.insert("al".into(), None);
        go.policies.insert("rack1".into(), None);
        let error = wait(settings.apply(&go, 2)).unwrap_err();
        assert!(matches!(error, SettingsError::UserInUse { volumes: 1, .. }), "{error}");
        // One secret for both directions is refused, whichever of them is new.
        let mutual = Secret::new(b"hush-hush-hush".to_vec());
        let both =
            Batch { mutual: Some(MutualChange::Set("t".into(), mutual)), ..Batch::default() };
        assert!(matches!(wait(settings.apply(&both, 2)), Err(SettingsError::Secret(_))));
        assert_eq!(format!("{:?}", wait(settings.read()).unwrap()), before, "nothing was changed");

        go.volumes.insert(7, list(Vec::new()));
        wait(settings.apply(&go, 2)).unwrap();
        let state = wait(settings.read()).unwrap();
        assert!(state.users.is_empty() && state.policies.is_empty());
        let nobody = state.volume(7).unwrap().access.expect("it keeps a list");
        assert!(nobody.is_empty(), "a list that loses all its entries opens nothing");
    }

    #[test]
    fn a_thousand_volumes_are_set_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings(dir.path());
        let mut batch = Batch::default();
        let all =
            (1..=1000).map(|volume| (volume, list(vec![Entry::Record(record("ip=10.0.0.1"))])));
        batch.volumes.extend(all);
        wait(settings.apply(&batch, 1)).unwrap();
        assert_eq!(wait(settings.read()).unwrap().volumes.len(), 1000);
    }

    fn name() -> impl Strategy<Value = String> {
        "[ab]"
    }

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let record = prop_oneof![
            name().prop_map(|user| record(&format!("chap={user}"))),
            (0..3_u8).prop_map(|host| record(&format!("ip=10.0.0.{host}"))),
        ];
        prop::collection::vec(record, 0..4)
    }

    fn batches() -> impl Strategy<Value = Batch> {
        let entry = prop_oneof![
            name().prop_map(|name| policy(&name)),
            records()
                .prop_filter_map("one", |records| records.into_iter().next().map(Entry::Record)),
        ];
        let access = prop_oneof![
            Just(Some(ListChange::Unlisted)),
            prop::collection::vec(entry, 0..4)
                .prop_map(|entries| Some(ListChange::Listed(entries))),
            Just(None),
        ];
        let step = (access, any::<Option<bool>>())
            .prop_map(|(access, shared)| VolumeStep { access, shared });
        let secret =
            any::<bool>().prop_map(|is_set| if is_set { secret("hush-hush-hush") } else { None });
        let parts = (
            prop::collection::btree_map(1..4_u32, step, 0..3),
            prop::collection::btree_map(name(), prop::option::of(records()), 0..3),
            prop::collection::btree_map(name(), secret, 0..3),
        );
        parts.prop_map(|(volumes, policies, users)| Batch {
            volumes,
            policies,
            users,
            ..Batch::default()
        })
    }

    /// What names what is there, and all that a batch wanted is so.
    fn check(state: &State, batch: &Batch) -> Result<(), TestCaseError> {
        for (volume, step) in &batch.volumes {
            let now = state.volume(*volume).expect("it reads");
            match &step.access {
                Some(ListChange::Unlisted) => prop_assert!(now.access.is_none()),
                Some(ListChange::Listed(wanted)) => {
                    let list = now.access.expect("it has a list");
                    let there: Vec<&Entry> = list.entries().map(|(_, entry)| entry).collect();
                    prop_assert!(wanted.iter().all(|entry| there.contains(&entry)));
                    prop_assert!(there.iter().all(|entry| wanted.contains(entry)));
                }
                None => {}
            }
            prop_assert!(step.shared.is_none_or(|shared| shared == now.shared));
        }
        for (name, records) in &batch.policies {
            let there = state.policies.get(name).map(|policy| policy.records().count());
            let mut wanted = records.clone().map(|records| {
                let texts = records.iter().map(ToString::to_string);
                texts.collect::<std::collections::BTreeSet<_>>().len()
            });
            prop_assert_eq!(there, wanted.take());
        }
        for (user, secret) in &batch.users {
            prop_assert_eq!(state.users.contains_key(user), secret.is_some());
        }
        let lists = state.volumes.values().flatten().filter_map(|volume| volume.access.as_ref());
        for (_, entry) in lists.flat_map(|list| list.entries()) {
            prop_assert!(check_entry(state, entry).is_ok(), "{:?}", entry);
        }
        for (_, record) in state.policies.values().flat_map(|policy| policy.records()) {
            prop_assert!(check_record(state, record).is_ok(), "{}", record);
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_batch_is_made_whole_or_not_at_all(all in prop::collection::vec(batches(), 1..12)) {
            let dir = tempfile::tempdir().expect("a directory");
            let mut settings = settings(dir.path());
            for batch in all {
                let before = wait(settings.read()).expect("it reads");
                let outcome = wait(settings.apply(&batch, 1));
                let after = wait(settings.read()).expect("it reads");
                match outcome {
                    Ok(()) => check(&after, &batch)?,
                    Err(_) => prop_assert_eq!(format!("{before:?}"), format!("{after:?}")),
                }
            }
        }
    }
}
