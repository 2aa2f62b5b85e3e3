//! All that is set, and changes of it that are made at once.

use group::access::Record;
use group::settings::ListChange;
use member::{DestinationToDo, ScheduleToDo, VolumeSet};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Access, Account, AccountChange, ChapUsers, ConfiguredDestination, DestinationChange, Entry,
    HostRecord, Login, NewAccount, NewDestination, NewSchedule, NewVolume, Policy, Schedule,
    ScheduleChange, Volume,
};

/// All that operators have set. Secrets, passwords and tokens are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Configuration {
    /// Volumes, those in the recycle bin too.
    pub volumes: Vec<Volume>,
    /// Who may use each of them.
    pub access: Vec<Access>,
    /// Policies.
    pub policies: Vec<Policy>,
    /// CHAP users, and what volumes prove.
    pub chap: ChapUsers,
    /// Accounts.
    pub accounts: Vec<Account>,
    /// Snapshot schedules.
    pub schedules: Vec<Schedule>,
    /// Where events go on to, without how that does.
    #[serde(default)]
    pub destinations: Vec<ConfiguredDestination>,
}

impl From<member::ConfigurationShown> for Configuration {
    fn from(shown: member::ConfigurationShown) -> Self {
        let member::ConfigurationShown {
            volumes,
            access,
            policies,
            chap,
            accounts,
            schedules,
            destinations,
        } = shown;
        Self {
            volumes: volumes.into_iter().map(Into::into).collect(),
            access: access.into_iter().map(Into::into).collect(),
            policies: policies.into_iter().map(Into::into).collect(),
            chap: chap.into(),
            accounts: accounts.into_iter().map(Into::into).collect(),
            schedules: schedules.into_iter().map(Into::into).collect(),
            destinations: destinations.into_iter().map(Into::into).collect(),
        }
    }
}

/// Changes that are made at once; what is left out stays. They may rely on each other: an access list may name a
/// policy that is made, a policy may go together with what named it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigurationChange {
    /// Volumes to be made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub new_volumes: Vec<NewConfiguredVolume>,
    /// Volumes to be changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeSetChange>,
    /// Policies with the hosts that they are to have, whether they are there or not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<NamedHosts>,
    /// Policies to be deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<String>,
    /// CHAP users with the secrets that they are to have, whether they are there or not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chap_users: Vec<Login>,
    /// CHAP users to be deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete_chap_users: Vec<String>,
    /// What volumes with an access list are to prove.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub chap_mutual: Option<Login>,
    /// They are to prove nothing; not together with `chap_mutual`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clear_chap_mutual: bool,
    /// Accounts to be added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<NewAccount>,
    /// Accounts to be changed, also such as are added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub change_accounts: Vec<NamedAccountChange>,
    /// Accounts to be removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove_accounts: Vec<String>,
    /// Schedules to be made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<NewSchedule>,
    /// Schedules to be changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub change_schedules: Vec<NamedScheduleChange>,
    /// Schedules to be deleted. Their snapshots stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete_schedules: Vec<String>,
    /// Destinations of events to be added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<NewDestination>,
    /// Destinations to be changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub change_destinations: Vec<NamedDestinationChange>,
    /// Destinations to be deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete_destinations: Vec<String>,
}

/// A volume to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewConfiguredVolume {
    /// What it is.
    pub volume: NewVolume,
    /// Serve it.
    #[serde(default = "yes")]
    pub online: bool,
    /// Let hosts of several names use it at the same time.
    #[serde(default)]
    pub shared: bool,
    /// Who may use it; without this it has no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub access: Option<AccessChange>,
}

fn yes() -> bool {
    true
}

/// A volume to be changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSetChange {
    /// Its name.
    pub name: String,
    /// Another size, not a smaller one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub size_bytes: Option<u64>,
    /// What sequential reads fetch ahead; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub read_ahead_bytes: Option<u32>,
    /// Keep in memory what is read of it and of its snapshots, or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cached: Option<bool>,
    /// Serve it, or stop to and log its hosts out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub online: Option<bool>,
    /// Let hosts of several names use it at the same time, or one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub shared: Option<bool>,
    /// Who may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub access: Option<AccessChange>,
}

/// What the access list of a volume is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessChange {
    /// It has none: what the member was started with says who may use it.
    Unlisted,
    /// It has these entries; without any it lets nobody in.
    Listed(Vec<Entry>),
}

/// A policy and its hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedHosts {
    /// The policy.
    pub name: String,
    /// All that it is to have.
    pub hosts: Vec<HostRecord>,
}

/// An account and its change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedAccountChange {
    /// The account.
    pub name: String,
    /// Its change.
    pub change: AccountChange,
}

/// A schedule and its change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedScheduleChange {
    /// The schedule.
    pub name: String,
    /// Its change.
    pub change: ScheduleChange,
}

/// A destination of events and its change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedDestinationChange {
    /// The destination.
    pub name: String,
    /// Its change.
    pub change: DestinationChange,
}

impl TryFrom<AccessChange> for ListChange {
    type Error = String;

    fn try_from(change: AccessChange) -> Result<Self, String> {
        let AccessChange::Listed(entries) = change else { return Ok(Self::Unlisted) };
        let entries: Result<_, _> = entries.into_iter().map(TryInto::try_into).collect();
        entries.map(Self::Listed).map_err(sentence)
    }
}

fn list_change(access: Option<AccessChange>) -> Result<Option<ListChange>, String> {
    access.map(TryInto::try_into).transpose()
}

impl TryFrom<NewConfiguredVolume> for member::NewConfiguredVolume {
    type Error = String;

    fn try_from(new: NewConfiguredVolume) -> Result<Self, String> {
        let NewConfiguredVolume { volume, online, shared, access } = new;
        if volume.pool.is_some() {
            let name = &volume.name;
            return Err(format!(
                "volume '{name}' of a configuration is made on the member that is asked: leave its pool out"
            ));
        }
        if volume.spread.is_some_and(|members| members != 1) {
            let name = &volume.name;
            return Err(format!(
                "volume '{name}' of a configuration lies on the member that is asked alone: make one that is spread over \
                 several by itself"
            ));
        }
        let (online, shared) = (Some(online), Some(shared));
        let set = VolumeSet { online, shared, access: list_change(access)? };
        Ok(Self { spec: volume.into(), set })
    }
}

impl TryFrom<VolumeSetChange> for member::ConfiguredVolumeChange {
    type Error = String;

    fn try_from(change: VolumeSetChange) -> Result<Self, String> {
        let VolumeSetChange { name, size_bytes, read_ahead_bytes, cached, .. } = change;
        let VolumeSetChange { online, shared, access, .. } = change;
        let set = VolumeSet { online, shared, access: list_change(access)? };
        Ok(Self { name, size_bytes, read_ahead_bytes, cached, set })
    }
}

impl ConfigurationChange {
    /// As a member is asked for it, but for accounts, whose passwords are to be hashed.
    pub(crate) fn without_accounts(self) -> Result<member::ConfigurationChange, String> {
        if self.chap_mutual.is_some() && self.clear_chap_mutual {
            return Err("chap_mutual and clear_chap_mutual say two things: send one".to_owned());
        }
        let policy = |NamedHosts { name, hosts }| -> Result<_, String> {
            let record = |host: HostRecord| Record::new(host.try_into()?);
            let records: Result<Vec<_>, _> = hosts.into_iter().map(record).collect();
            Ok((name, Some(records.map_err(sentence)?)))
        };
        let policies: Result<Vec<_>, _> = self.policies.into_iter().map(policy).collect();
        let user = |Login { user, secret }| (user, Some(secret.into()));
        let created = self
            .schedules
            .into_iter()
            .map(|new| new.try_into().map(ScheduleToDo::Create).map_err(sentence));
        let set = self.change_schedules.into_iter().map(|NamedScheduleChange { name, change }| {
            change.try_into().map(|change| ScheduleToDo::Set { name, change }).map_err(sentence)
        });
        let deleted =
            self.delete_schedules.into_iter().map(|name| Ok(ScheduleToDo::Delete { name }));
        let schedules: Result<_, String> = created.chain(set).chain(deleted).collect();
        let added = self.destinations.into_iter().map(|new| new.into_step().map_err(sentence));
        let set =
            self.change_destinations.into_iter().map(|NamedDestinationChange { name, change }| {
                let change = change.try_into();
                change.map(|change| DestinationToDo::Set { name, change }).map_err(sentence)
            });
        let deleted =
            self.delete_destinations.into_iter().map(|name| Ok(DestinationToDo::Delete { name }));
        let destinations: Result<_, String> = added.chain(set).chain(deleted).collect();
        Ok(member::ConfigurationChange {
            new_volumes: self
                .new_volumes
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            volumes: self.volumes.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            policies: policies?.into_iter().chain(gone(self.delete_policies)).collect(),
            users: self
                .chap_users
                .into_iter()
                .map(user)
                .chain(gone(self.delete_chap_users))
                .collect(),
            mutual: self.chap_mutual.map(|Login { user, secret }| (user, secret.into())),
            clear_mutual: self.clear_chap_mutual,
            accounts: Vec::new(),
            schedules: schedules?,
            destinations: destinations?,
        })
    }
}

fn gone<T>(names: Vec<String>) -> impl Iterator<Item = (String, Option<T>)> {
    names.into_iter().map(|name| (name, None))
}

fn sentence(error: impl std::error::Error) -> String {
    error.to_string()
}
