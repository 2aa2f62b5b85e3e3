//! What can be asked of a running member about all that is set at once.

use array::api::VolumeSpec;
use group::access::Record;
use group::accounts::{PasswordHash, Role};
use group::destinations::{Choice, DestinationChange, Way};
use group::secrets::Secret;
use group::settings::{AccountChange, ListChange};

use crate::access_request::SecretText;
use crate::schedule_request::{NewSchedule, ScheduleChange};

/// About all that is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigurationRequest {
    /// → [`super::reply::ConfigurationShown`], all of one moment.
    Show,
    /// Make volumes, and change what is set in one transaction. What cannot be taken back is done last.
    Change(Box<ConfigurationChange>),
}

/// Changes that may rely on each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigurationChange {
    /// Volumes to be made. No host sees them before what is set for them is stored.
    pub new_volumes: Vec<NewVolume>,
    /// Volumes to be changed.
    pub volumes: Vec<VolumeChange>,
    /// The records that policies are to have, whether they are there or not; `None` for those that are to go.
    pub policies: Vec<(String, Option<Vec<Record>>)>,
    /// The secrets that CHAP users are to have, whether they are there or not; `None` for those that are to go.
    pub users: Vec<(String, Option<SecretText>)>,
    /// What targets are to prove: as whom and by which secret.
    pub mutual: Option<(String, SecretText)>,
    /// They are to prove nothing.
    pub clear_mutual: bool,
    /// One after the other.
    pub accounts: Vec<AccountToDo>,
    /// One after the other.
    pub schedules: Vec<ScheduleToDo>,
    /// One after the other.
    pub destinations: Vec<DestinationToDo>,
}

/// A volume to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVolume {
    /// What it is.
    pub spec: VolumeSpec,
    /// What is set for it.
    pub set: VolumeSet,
}

/// A volume to be changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeChange {
    /// Its name.
    pub name: String,
    /// Another size, not a smaller one.
    pub size_bytes: Option<u64>,
    /// What sequential reads fetch ahead.
    pub read_ahead_bytes: Option<u32>,
    /// Whether what is read of it may be kept in memory.
    pub cached: Option<bool>,
    /// What is set for it.
    pub set: VolumeSet,
}

/// What is to be set for a volume; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeSet {
    /// Serve it, or stop to.
    pub online: Option<bool>,
    /// Hosts of several names at the same time.
    pub shared: Option<bool>,
    /// Who may use it.
    pub access: Option<ListChange>,
}

/// What is to be done with an account.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words say it")]
pub enum AccountToDo {
    Add { name: String, role: Role, password: PasswordHash },
    Set { name: String, change: AccountChange },
    Remove { name: String },
}

/// What is to be done with a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words say it")]
pub enum ScheduleToDo {
    Create(NewSchedule),
    Set { name: String, change: ScheduleChange },
    Delete { name: String },
}

/// What is to be done with a destination of events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words say it")]
pub enum DestinationToDo {
    Add { name: String, choice: Choice, way: Way<Secret> },
    Set { name: String, change: DestinationChange<Secret> },
    Delete { name: String },
}

impl ConfigurationRequest {
    /// The volumes that it names.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        let Self::Change(change) = self else { return Vec::new() };
        change.volumes()
    }
}

impl ConfigurationChange {
    /// The volumes that it names.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        let new = self.new_volumes.iter().map(|new| &new.spec.name);
        let changed = self.volumes.iter().map(|volume| &volume.name);
        let scheduled = self.schedules.iter().flat_map(ScheduleToDo::volumes);
        new.chain(changed).chain(scheduled).map(String::as_str).collect()
    }
}

impl ScheduleToDo {
    /// The name of the schedule, if it is there already.
    pub(crate) fn changed(&self) -> Option<&str> {
        match self {
            Self::Create(_) => None,
            Self::Set { name, .. } | Self::Delete { name } => Some(name),
        }
    }

    pub(crate) fn volumes(&self) -> &[String] {
        match self {
            Self::Create(new) => &new.volumes,
            Self::Set { change, .. } => change.volumes.as_deref().unwrap_or_default(),
            Self::Delete { .. } => &[],
        }
    }
}
