//! All that is set, shown and changed at once.
//!
//! ```text
//!   check ─▶ intents ─▶ make volumes ─▶ one transaction ─▶ offline ─▶ access ─▶ read-ahead, size, online
//!                            ▲                │ refused
//!                            ╰── taken back ◀─╯           what is behind the transaction is not taken back
//! ```
//!
//! In a group this is the member's part of it: what members have in common is changed before and after
//! ([`of_group`](super::of_group)).
//!
//! What a crash leaves of the volumes is completed by their intents ([`half_made`](super::half_made)).
//!
//! No host sees a new volume before the rules for it are in force, and a volume that goes offline is gone before new
//! rules let anybody in.

use std::collections::{BTreeMap, BTreeSet};

use array::api::{VolumeInfo, VolumeState};
use group::accounts::Account;
use group::schedules::{Plan, PlanChange, Schedule};
use group::settings::{
    AccountStep, Batch, Intent, MutualChange, ScheduleStep, Settings, SettingsError, VolumeStep,
};

use super::access::bytes;
use super::logins::unix_seconds;
use super::of_group::{has_common, listed};
use super::one_host::Which;
use super::{Member, RequestError};
use crate::configuration_request::{
    AccountToDo, ConfigurationChange, ConfigurationRequest, NewVolume, ScheduleToDo, VolumeChange,
    VolumeSet,
};
use crate::reply::{Answer, ConfigurationShown};
use crate::request::VolumeRequest;
use crate::schedule_request::{NewSchedule, ScheduleChange};
use crate::settings::KeptError;

impl Member {
    pub(super) async fn configuration(
        &self,
        request: ConfigurationRequest,
    ) -> Result<Answer, RequestError> {
        match request {
            ConfigurationRequest::Show => self.shown_configuration(),
            ConfigurationRequest::Change(change) => {
                // Before all else, as it may be refused, and before any turn, as it may wait for the group's store.
                let names = change.new_volumes.iter().map(|new| new.spec.name.clone());
                let _claim = self.claim(names.collect()).await?;
                self.hear_of(listed(&change)).await;
                if has_common(&change) && self.settings.follows_group() {
                    self.configure_with_group(*change).await?;
                } else {
                    self.change_here(*change).await?;
                }
                Ok(Answer::Done)
            }
        }
    }

    /// Changes what is the member's own.
    pub(super) async fn change_here(
        &self,
        change: ConfigurationChange,
    ) -> Result<(), RequestError> {
        // No schedule runs meanwhile.
        let _alone = self.taking.take().await;
        let _turn = self.turn.take().await;
        self.change_configuration(change).await
    }

    fn shown_configuration(&self) -> Result<Answer, RequestError> {
        let volumes = self.volumes();
        let access = volumes.iter().map(|volume| self.access_of(volume));
        Ok(Answer::Configuration(Box::new(ConfigurationShown {
            volumes: self.all_volumes(),
            access: access.collect::<Result<_, _>>()?,
            policies: self.policies()?,
            chap: self.chap_users()?,
            accounts: self.all_accounts()?,
            schedules: self.all_schedules()?,
            destinations: self.all_destinations()?,
        })))
    }

    async fn change_configuration(&self, change: ConfigurationChange) -> Result<(), RequestError> {
        self.check_staying(change.volumes())?;
        self.check_schedules_staying(change.schedules.iter().filter_map(ScheduleToDo::changed))?;
        self.check_volumes(&change)?;
        // One that goes offline has no hosts when the rules change.
        let mut holds = Vec::new();
        for VolumeChange { name, set, .. } in &change.volumes {
            let step = VolumeStep { access: set.access.clone(), shared: set.shared };
            let which = if set.online == Some(false) { Which::Snapshots } else { Which::All };
            holds.extend(self.check_one_host((name, which), &step, &change.policies).await?);
        }
        let mut made = Vec::new();
        if let Err(refusal) = self.store_configuration(&change, &mut made).await {
            // The settings may have become unreadable meanwhile: then no host is let in either.
            self.serving.apply_access().await;
            return Err(self.taken_back(made, refusal).await);
        }
        let finished = self.finish(&change).await;
        self.serving.settle().await;
        self.schedules_changed.ring();
        finished?;
        let opened = change.volumes.iter().filter(|volume| volume.set.online == Some(true));
        let new = change.new_volumes.iter().filter(|new| is_online(&new.set));
        let served = opened.map(|volume| &volume.name).chain(new.map(|new| &new.spec.name));
        for name in served {
            self.check_served(name, &self.serving.iqn_of(name))?;
        }
        Ok(())
    }

    /// Refuses what cannot be before anything is done.
    pub(super) fn check_volumes(&self, change: &ConfigurationChange) -> Result<(), RequestError> {
        let mut named = BTreeSet::new();
        let new = change.new_volumes.iter().map(|new| &new.spec.name);
        for name in new.chain(change.volumes.iter().map(|volume| &volume.name)) {
            if !named.insert(name) {
                return Err(RequestError::NamedTwice(name.clone()));
            }
        }
        for volume in &change.volumes {
            let VolumeInfo { state, size_bytes, .. } = self.find(&volume.name)?;
            if state == VolumeState::Deleted {
                return Err(RequestError::InRecycleBin(volume.name.clone()));
            }
            if volume.size_bytes.is_some_and(|wanted| wanted < size_bytes) {
                return Err(RequestError::WouldShrink(volume.name.clone()));
            }
            let is_online = state != VolumeState::Offline;
            let turns = volume.set.online.is_some_and(|online| online != is_online);
            let turns = turns && state != VolumeState::Lost;
            if turns || volume.size_bytes.is_some_and(|wanted| wanted != size_bytes) {
                self.check_not_undecided(&volume.name)?;
            }
        }
        Ok(())
    }

    /// Makes volumes, which are added to `made`, and stores what is set.
    async fn store_configuration(
        &self,
        change: &ConfigurationChange,
        made: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let new = change.new_volumes.iter().map(|new| &new.spec.name);
        for name in new.chain(change.volumes.iter().map(|volume| &volume.name)) {
            self.complete(name).await?;
        }
        self.intend(intents(change)?).await?;
        for NewVolume { spec, set } in &change.new_volumes {
            self.check_free(&spec.name, None)?;
            self.create(spec.clone(), is_online(set) && !is_listed(set)).await?;
            made.push(spec.name.clone());
            if is_online(set) && is_listed(set) {
                // For nobody, until what is set for it is stored.
                self.array.set_volume_online(&spec.name, true).await?;
            }
        }
        let batch = self.batch(change)?;
        let now = unix_seconds();
        let apply = async move |settings: &mut Settings| settings.apply(&batch, now).await;
        if !has_common(change) {
            return Ok(self.settings.change(apply).await?);
        }
        let applied = self.settings.change_own(apply).await?;
        // It has begun to share what it was to change as its own.
        applied.ok_or_else(|| KeptError::from(SettingsError::Contended).into())
    }

    /// Does with volumes what cannot be part of the transaction.
    async fn finish(&self, change: &ConfigurationChange) -> Result<(), RequestError> {
        let offline = change.volumes.iter().filter(|volume| volume.set.online == Some(false));
        let mut finished = Ok(());
        for VolumeChange { name, .. } in offline {
            finished = finished.and(
                self.step(name, VolumeRequest::SetOnline { name: name.clone(), online: false })
                    .await,
            );
        }
        self.serving.apply_access().await;
        finished?;
        for change in &change.volumes {
            for step in steps(change) {
                self.step(&change.name, step).await?;
            }
        }
        Ok(())
    }

    async fn step(&self, volume: &str, step: VolumeRequest) -> Result<(), RequestError> {
        let done = self.change_volume(step).await.map_err(|error| self.explained(error));
        done.map(drop).map_err(|source| {
            let (volume, source) = (volume.to_owned(), Box::new(source));
            RequestError::Unfinished { volume, source }
        })
    }

    /// What is to be stored. Volumes that it names are there.
    fn batch(&self, change: &ConfigurationChange) -> Result<Batch, RequestError> {
        let ConfigurationChange { new_volumes, volumes, .. } = change;
        let mut batch = self.common_batch(change)?;
        let new = new_volumes.iter().map(|new| (&new.spec.name, &new.set));
        for (name, set) in new.chain(volumes.iter().map(|volume| (&volume.name, &volume.set))) {
            if is_listed(set) {
                batch.volumes.insert(self.find(name)?.id, step_of(set));
            }
        }
        let listed = new_volumes.iter().filter(|new| is_listed(&new.set));
        batch.made = listed.map(|new| new.spec.name.clone()).collect();
        let schedules = change.schedules.iter().map(|schedule| self.schedule_step(schedule));
        batch.schedules = schedules.collect::<Result<_, _>>()?;
        Ok(batch)
    }

    /// What of it members of a group have in common.
    pub(super) fn common_batch(&self, change: &ConfigurationChange) -> Result<Batch, RequestError> {
        let ConfigurationChange { policies, users, mutual, .. } = change;
        let mut batch = Batch::default();
        for (name, records) in policies {
            put_once(&mut batch.policies, name, records.clone())?;
        }
        for (user, secret) in users {
            put_once(&mut batch.users, user, secret.clone().map(bytes))?;
        }
        batch.mutual = match mutual.clone() {
            Some((user, secret)) => Some(MutualChange::Set(user, bytes(secret))),
            None => change.clear_mutual.then_some(MutualChange::Clear),
        };
        batch.accounts = change.accounts.iter().map(account_step).collect();
        let destinations = change.destinations.iter().map(|one| self.destination_step(one));
        batch.destinations = destinations.collect::<Result<_, _>>()?;
        Ok(batch)
    }

    fn schedule_step(&self, step: &ScheduleToDo) -> Result<(String, ScheduleStep), RequestError> {
        Ok(match step.clone() {
            ScheduleToDo::Create(NewSchedule { name, volumes, timing, keep, paused }) => {
                let volumes = self.scheduled(volumes)?;
                let plan = Plan { volumes, timing, keep, paused };
                (name, ScheduleStep::Add(Schedule::new(plan, unix_seconds())))
            }
            ScheduleToDo::Set { name, change } => {
                let ScheduleChange { volumes, timing, keep, paused } = change;
                let volumes = volumes.map(|volumes| self.scheduled(volumes)).transpose()?;
                (name, ScheduleStep::Change(PlanChange { volumes, timing, keep, paused }))
            }
            ScheduleToDo::Delete { name } => (name, ScheduleStep::Delete),
        })
    }
}

fn account_step(step: &AccountToDo) -> (String, AccountStep) {
    match step.clone() {
        AccountToDo::Add { name, role, password } => {
            let created_unix_seconds = unix_seconds();
            let account = Account { role, password, disabled: false, created_unix_seconds };
            (name, AccountStep::Add(account))
        }
        AccountToDo::Set { name, change } => (name, AccountStep::Change(change)),
        AccountToDo::Remove { name } => (name, AccountStep::Remove),
    }
}

fn is_online(set: &VolumeSet) -> bool {
    set.online != Some(false)
}

/// Whether something is stored for a volume, which is not to be served before.
fn is_listed(set: &VolumeSet) -> bool {
    set.access.is_some() || set.shared.is_some()
}

fn step_of(set: &VolumeSet) -> VolumeStep {
    let VolumeSet { shared, access, .. } = set.clone();
    VolumeStep { access, shared }
}

/// What new volumes are to become for which something is stored.
fn intents(change: &ConfigurationChange) -> Result<BTreeMap<String, Intent>, RequestError> {
    let listed = change.new_volumes.iter().filter(|new| is_listed(&new.set));
    let intent = |NewVolume { spec, set }: &NewVolume| {
        let intent = Intent::new(&step_of(set), is_online(set)).map_err(SettingsError::from)?;
        Ok((spec.name.clone(), intent))
    };
    listed.map(intent).collect::<Result<_, KeptError>>().map_err(RequestError::from)
}

/// What is done after the rules are in force: growth, which stays, last.
fn steps(change: &VolumeChange) -> impl Iterator<Item = VolumeRequest> {
    let name = || change.name.clone();
    let ahead =
        change.read_ahead_bytes.map(|bytes| VolumeRequest::SetReadAhead { name: name(), bytes });
    let cached = change.cached.map(|cached| VolumeRequest::SetCached { name: name(), cached });
    let online = change.set.online.filter(|online| *online);
    let online = online.map(|online| VolumeRequest::SetOnline { name: name(), online });
    let grown = change.size_bytes.map(|size_bytes| VolumeRequest::Resize {
        name: name(),
        size_bytes,
        shrink: false,
    });
    ahead.into_iter().chain(cached).chain(online).chain(grown)
}

fn put_once<T>(all: &mut BTreeMap<String, T>, name: &str, item: T) -> Result<(), RequestError> {
    match all.insert(name.to_owned(), item) {
        None => Ok(()),
        Some(_) => Err(RequestError::NamedTwice(name.to_owned())),
    }
}
