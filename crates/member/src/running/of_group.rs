//! Changes of what the members of a group have in common: policies, CHAP users, mutual CHAP, accounts, tokens and
//! destinations. They go to the store of the group, which may take long to answer, so nobody who waits for it has a
//! turn here; when one is answered, it is in force here, and the other members hear of it. A member that shares no
//! settings changes its own, as without a group.
//!
//! What is set for volumes is the member's own in any case. A configuration may have both, which rely on each other:
//!
//! ```text
//!   check ─▶ group: what is new, and what policies lose ─▶ here: volumes, lists, schedules ─▶ group: all else
//! ```
//!
//! So what fails between leaves hosts less than they would have, and no volume to hosts that it was not to be for
//! ([`Halves`]).

use std::collections::BTreeMap;
use std::time::Duration;

use group::access::{AccessList, Entry};
use group::settings::{Batch, Halves, ListChange, Settings, SettingsError, State, VolumeSettings};

use super::logins::unix_seconds;
use super::one_host::changed;
use super::{Member, RequestError};
use crate::configuration_request::ConfigurationChange;
use crate::settings::KeptError;

/// How long who lets hosts in waits to hear of what was set for the group a moment ago.
const HEAR_TIME: Duration = Duration::from_secs(5);

/// What is to go, or to come, and may be named by volumes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Going<'a> {
    Policy(&'a str),
    User(&'a str),
}

impl Going<'_> {
    fn what(self) -> String {
        match self {
            Self::Policy(name) => format!("policy '{name}'"),
            Self::User(name) => format!("CHAP user '{name}'"),
        }
    }

    fn check_unused(self, state: &State) -> Result<(), SettingsError> {
        match self {
            Self::Policy(name) => state.check_unused_policy(name),
            Self::User(name) => state.check_unused_user(name),
        }
    }
}

impl Member {
    /// Stores a change of what members have in common, and has the targets keep to it. Who asks for it has no turn.
    pub(super) async fn set_common(
        &self,
        change: impl AsyncFnOnce(&mut Settings) -> Result<(), SettingsError> + Clone + Send + 'static,
    ) -> Result<(), RequestError> {
        // Whose it is may change between the look at it and the change, once.
        loop {
            let changed = if self.settings.follows_group() {
                self.set_in_group(change.clone()).await
            } else {
                let _turn = self.turn.take().await;
                let changed = self.settings.change_own(change.clone()).await;
                // Also after a failure: part of it may have come true.
                self.serving.apply_access().await;
                Ok(changed?)
            };
            if let Some(()) = changed? {
                return Ok(());
            }
        }
    }

    /// Stores a change in the group; `None` if the member is in none any more.
    async fn set_in_group<T: Send + 'static>(
        &self,
        change: impl AsyncFnOnce(&mut Settings) -> Result<T, SettingsError> + Send + 'static,
    ) -> Result<Option<T>, RequestError> {
        // One after the other, each would wait for it in vain.
        if let Some(why) = self.membership.store_fault() {
            return Err(KeptError::GroupSilent(why).into());
        }
        let changed = self.settings.change_in_group(change).await;
        let _turn = self.turn.take().await;
        self.serving.apply_access().await;
        Ok(changed?)
    }

    /// Refuses that something goes which volumes name, here or on another member. Where the settings are the member's
    /// own they say that themselves.
    pub(super) fn check_unused(&self, going: Going<'_>) -> Result<(), RequestError> {
        if !self.settings.follows_group() {
            return Ok(());
        }
        going.check_unused(&*self.settings.state()?).map_err(KeptError::from)?;
        self.check_unused_elsewhere(going)
    }

    /// Refuses that something new comes to the group which lists of volumes name already, here or on another member:
    /// they were made for another one of that name, which is gone.
    pub(super) fn check_new(&self, coming: Going<'_>) -> Result<(), RequestError> {
        if !self.settings.follows_group() {
            return Ok(());
        }
        self.check_unnamed(coming, &*self.settings.state()?)
    }

    /// The same, with lists of volumes here as they are in `state`.
    fn check_unnamed(&self, coming: Going<'_>, state: &State) -> Result<(), RequestError> {
        let is_there = match coming {
            Going::Policy(name) => state.policies.contains_key(name),
            Going::User(name) => state.users.contains_key(name),
        };
        if is_there {
            // It is changed, or the group says that it is there.
            return Ok(());
        }
        let what = coming.what();
        if coming.check_unused(state).is_err() {
            return Err(RequestError::NamedAlready { what, whose: "this member".to_owned() });
        }
        match self.check_unused_elsewhere(coming) {
            Err(RequestError::UsedByMember { what, member }) => {
                Err(RequestError::NamedAlready { what, whose: format!("the member '{member}'") })
            }
            checked => checked,
        }
    }

    /// Hears of policies and CHAP users that a list is to name, and that were made on another member a moment ago. Who
    /// asks for it has no turn; what is not there afterwards is refused with the list.
    pub(super) async fn hear_of<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) {
        let is_silent = self.membership.store_fault().is_some();
        if is_silent || !self.settings.follows_group() || !self.lacks_any(entries) {
            return;
        }
        let settings = self.settings.clone();
        let (done, heard) = ring::oneshot();
        ring::spawn(async move { done.send(settings.catch_up().await) });
        if let Some(Some(Err(error))) = ring::timeout(HEAR_TIME, heard).await {
            tracing::debug!("nothing new is heard of the settings of the group: {error}");
        }
    }

    /// Whether some of these name a policy or a user that is not known here.
    fn lacks_any<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> bool {
        let Ok(state) = self.settings.state() else { return false };
        let is_unknown = |entry: &Entry| match entry {
            Entry::Policy { name, .. } => !state.policies.contains_key(name),
            Entry::Record(record) => {
                let user = record.parts().chap.as_ref();
                user.is_some_and(|user| !state.users.contains_key(user))
            }
        };
        entries.into_iter().any(is_unknown)
    }

    /// Other members say which policies and users the lists of their volumes name. What one has not said yet is not
    /// known: then such a list names what is not there, and lets nobody in by it.
    fn check_unused_elsewhere(&self, going: Going<'_>) -> Result<(), RequestError> {
        let member = self.membership.named_on_another(|uses| match going {
            Going::Policy(name) => uses.policies.contains(name),
            Going::User(name) => uses.users.contains(name),
        });
        let what = going.what();
        member.map_or(Ok(()), |member| Err(RequestError::UsedByMember { what, member }))
    }

    /// Changes all at once where part of it is the group's. What that has is not taken back when the rest fails.
    pub(super) async fn configure_with_group(
        &self,
        change: ConfigurationChange,
    ) -> Result<(), RequestError> {
        self.check_volumes(&change)?;
        let common = self.common_batch(&change)?;
        self.check_going(&common, &change)?;
        self.check_coming(&common, &change)?;
        let now = unix_seconds();
        let Halves { first, last } = match changes_hosts(&change) {
            true => {
                let begin =
                    async move |settings: &mut Settings| settings.apply_first(&common, now).await;
                self.set_in_group(begin).await?.ok_or_else(left)?
            }
            // Nothing comes between: it is one transaction.
            false => {
                self.apply_in_group(common.clone()).await?;
                Halves { first: common, last: Batch::default() }
            }
        };
        let mut is_begun = !first.is_empty();
        let half_set = |is_begun: bool, source: RequestError| match is_begun {
            true => RequestError::HalfSet { source: Box::new(source) },
            false => source,
        };
        let own = without_common(change);
        if own != ConfigurationChange::default() {
            self.change_here(own).await.map_err(|error| half_set(is_begun, error))?;
            is_begun = true;
        }
        if !last.is_empty() {
            self.apply_in_group(last).await.map_err(|error| half_set(is_begun, error))?;
        }
        Ok(())
    }

    async fn apply_in_group(&self, batch: Batch) -> Result<(), RequestError> {
        let now = unix_seconds();
        let apply = async move |settings: &mut Settings| settings.apply(&batch, now).await;
        self.set_in_group(apply).await?.ok_or_else(left)
    }

    /// Refuses what the end would refuse, before anything is done.
    fn check_going(
        &self,
        common: &Batch,
        change: &ConfigurationChange,
    ) -> Result<(), RequestError> {
        let policies = common.policies.iter().filter(|(_, records)| records.is_none());
        let users = common.users.iter().filter(|(_, secret)| secret.is_none());
        let policies = policies.map(|(name, _)| Going::Policy(name));
        let going: Vec<_> = policies.chain(users.map(|(name, _)| Going::User(name))).collect();
        if going.is_empty() {
            return Ok(());
        }
        let after = self.state_after(change)?;
        for going in going {
            going.check_unused(&after).map_err(KeptError::from)?;
            self.check_unused_elsewhere(going)?;
        }
        Ok(())
    }

    /// Refuses what comes under lists that name it already. A list that the change has is meant so.
    fn check_coming(
        &self,
        common: &Batch,
        change: &ConfigurationChange,
    ) -> Result<(), RequestError> {
        let policies = common.policies.iter().filter(|(_, records)| records.is_some());
        let users = common.users.iter().filter(|(_, secret)| secret.is_some());
        let policies = policies.map(|(name, _)| Going::Policy(name));
        let coming: Vec<_> = policies.chain(users.map(|(name, _)| Going::User(name))).collect();
        if coming.is_empty() {
            return Ok(());
        }
        let mut state = (*self.settings.state()?).clone();
        for volume in change.volumes.iter().filter(|volume| volume.set.access.is_some()) {
            state.volumes.remove(&self.find(&volume.name)?.id);
        }
        coming.into_iter().try_for_each(|it| self.check_unnamed(it, &state))
    }

    /// What the lists of volumes here, and the policies, name after a change.
    fn state_after(&self, change: &ConfigurationChange) -> Result<State, RequestError> {
        let mut state = (*self.settings.state()?).clone();
        if let Some(policies) = changed(state.policies.clone(), &change.policies) {
            state.policies = policies;
        }
        let mut lists: BTreeMap<u32, &ListChange> = BTreeMap::new();
        for volume in &change.volumes {
            if let Some(access) = &volume.set.access {
                lists.insert(self.find(&volume.name)?.id, access);
            }
        }
        // Numbers that no volume has: the new ones have none yet.
        let new = change.new_volumes.iter().filter_map(|new| new.set.access.as_ref());
        lists.extend((0..).map(|behind| u32::MAX - behind).zip(new));
        for (id, access) in lists {
            let access = match access {
                ListChange::Unlisted => None,
                ListChange::Listed(entries) => Some(list_of(entries)?),
            };
            state.volumes.insert(id, Ok(VolumeSettings { access, ..VolumeSettings::default() }));
        }
        Ok(state)
    }
}

/// It follows no group any more.
fn left() -> RequestError {
    KeptError::from(SettingsError::Contended).into()
}

fn list_of(entries: &[Entry]) -> Result<AccessList, KeptError> {
    let mut list = AccessList::default();
    list.replace(entries).map_err(SettingsError::from)?;
    Ok(list)
}

/// What the lists that are to be set name.
pub(super) fn listed(change: &ConfigurationChange) -> impl Iterator<Item = &Entry> {
    let of_new = change.new_volumes.iter().map(|new| &new.set);
    let sets = of_new.chain(change.volumes.iter().map(|volume| &volume.set));
    sets.flat_map(|set| match &set.access {
        Some(ListChange::Listed(entries)) => entries.as_slice(),
        Some(ListChange::Unlisted) | None => &[],
    })
}

/// Whether volumes lose hosts or get others by what is their member's own: by their lists, which may name what comes,
/// or have named what goes, or as they go offline.
fn changes_hosts(change: &ConfigurationChange) -> bool {
    let of_new = change.new_volumes.iter().map(|new| &new.set);
    let mut sets = of_new.chain(change.volumes.iter().map(|volume| &volume.set));
    sets.any(|set| set.access.is_some() || set.shared.is_some() || set.online == Some(false))
}

/// Whether part of a change is of what members have in common.
pub(super) const fn has_common(change: &ConfigurationChange) -> bool {
    !change.policies.is_empty()
        || !change.users.is_empty()
        || change.mutual.is_some()
        || change.clear_mutual
        || !change.accounts.is_empty()
        || !change.destinations.is_empty()
}

/// The rest of it.
fn without_common(change: ConfigurationChange) -> ConfigurationChange {
    let ConfigurationChange { new_volumes, volumes, schedules, .. } = change;
    ConfigurationChange { new_volumes, volumes, schedules, ..ConfigurationChange::default() }
}
