//! Volumes.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Registrations, VolumeSpread, same_words};

/// How the data of a volume is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Not at all; spread over all disks.
    Raid0,
    /// Two copies.
    Raid1,
    /// Two copies, spread over all pairs of disks.
    Raid10,
    /// One parity.
    Raid5,
    /// Two parities.
    Raid6,
    /// One parity, over several narrower sets.
    Raid50,
}

same_words!(Level, array::Level: Raid0, Raid1, Raid10, Raid5, Raid6, Raid50);

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&array::Level::from(*self), f)
    }
}

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// When it would survive a loss of power.
    #[default]
    Durable,
    /// When it would survive the end of the process; durable at a flush.
    Volatile,
}

same_words!(Cache, array::api::Cache: Durable, Volatile);

/// How a volume does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// Served, and protected as its level promises.
    Online,
    /// Served, with less protection than its level promises.
    Degraded,
    /// Not served: an operator said so.
    Offline,
    /// Not served: more disks are missing than its level survives.
    Lost,
    /// In the recycle bin.
    Deleted,
}

same_words!(VolumeState, array::api::VolumeState: Online, Degraded, Offline, Lost, Deleted);

/// Which hosts may use a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Hosts {
    /// Those on its access list.
    #[default]
    Listed,
    /// It has no list: those that rules or a secret of the start let in.
    Rule,
    /// It has no list: all that reach the member, as was said at its start.
    Everybody,
    /// It has no list: those on the machine of the member.
    Loopback,
    /// None.
    Nobody,
}

same_words!(Hosts, member::Hosts: Listed, Rule, Everybody, Loopback, Nobody);

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Its number, never used again.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// What hosts see.
    pub size_bytes: u64,
    /// Its level.
    pub raid: Level,
    /// How it does.
    pub state: VolumeState,
    /// Why it is not online, in words; empty when it is.
    pub reason: String,
    /// Its space is reserved.
    pub thick: bool,
    /// Logical block.
    pub block_bytes: u32,
    /// When writes are answered.
    pub cache: Cache,
    /// What sequential reads fetch ahead.
    pub read_ahead_bytes: u32,
    /// What is read of it and of its snapshots may be kept in memory.
    #[serde(default = "yes")]
    pub cached: bool,
    /// Blocks of 4 KiB of it and of its snapshots that were in memory when hosts read them, since the member was started.
    #[serde(default)]
    pub cache_hits: u64,
    /// And those that had to be read from disks.
    #[serde(default)]
    pub cache_misses: u64,
    /// What its contents take.
    pub used_bytes: u64,
    /// Space set aside beyond that.
    pub reserved_bytes: u64,
    /// How many snapshots it has.
    pub snapshots: u32,
    /// The snapshot it was cloned from, as `volume@snapshot`.
    pub origin: Option<String>,
    /// When it was made.
    pub created_unix_seconds: u64,
    /// The name of its iSCSI target.
    pub iqn: String,
    /// Hosts that are logged in.
    pub sessions: usize,
    /// Why no host gets in, although it is online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub not_served: Option<String>,
    /// Hosts of several names may use it at the same time; `null` while that cannot be read.
    #[serde(default)]
    pub shared: Option<bool>,
    /// Which hosts may use it.
    #[serde(default)]
    pub hosts: Hosts,
    /// Registrations of persistent reservations, where there is hardly room for more of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub registrations: Option<Registrations>,
    /// The iSCSI name of the host that has write-protected it (SWP of the control mode page), so that no host can write;
    /// not there where none has. A host ends it in the same way, or by a reset of the unit, and `online` does that is set
    /// to `false` and then to `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub write_protected_by: Option<String>,
    /// Policies that its access list names and that are not there: it lets nobody in by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub missing_policies: Vec<String>,
    /// CHAP users that its access list or a policy on it names and that are not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub missing_chap_users: Vec<String>,
    /// The member of the group that it is on; not there where that is in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member: Option<String>,
    /// Where it lies, of one that lies on several members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub spread: Option<VolumeSpread>,
}

impl From<member::Volume> for Volume {
    fn from(volume: member::Volume) -> Self {
        let member::Volume {
            info,
            iqn,
            sessions,
            not_served,
            shared,
            hosts,
            registrations,
            write_protected_by,
            not_there,
        } = volume;
        Self {
            id: info.id,
            name: info.name,
            size_bytes: info.size_bytes,
            raid: info.raid.into(),
            state: info.state.into(),
            reason: info.reason,
            thick: info.thick,
            block_bytes: info.block_bytes,
            cache: info.cache.into(),
            read_ahead_bytes: info.read_ahead_bytes,
            cached: info.cached,
            cache_hits: info.cache_hits,
            cache_misses: info.cache_misses,
            used_bytes: info.used_bytes,
            reserved_bytes: info.reserved_bytes,
            snapshots: info.snapshots,
            origin: info.origin,
            created_unix_seconds: info.created_unix_seconds,
            iqn,
            sessions,
            not_served,
            shared,
            hosts: hosts.into(),
            registrations: registrations.map(Into::into),
            write_protected_by,
            missing_policies: not_there.policies.into_iter().collect(),
            missing_chap_users: not_there.users.into_iter().collect(),
            member: None,
            spread: None,
        }
    }
}

/// A volume to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Unique in the array, and in the group of the member: 1 to 63 letters, digits, `-`, `.`, `_` or `:`.
    pub name: String,
    /// Whole blocks.
    pub size_bytes: u64,
    /// The array's level if it is left out.
    #[serde(default)]
    pub raid: Option<Level>,
    /// Reserve its space at once.
    #[serde(default)]
    pub thick: bool,
    /// 512 or 4096.
    #[serde(default = "block_bytes_usual")]
    pub block_bytes: u32,
    /// When writes are answered.
    #[serde(default)]
    pub cache: Cache,
    /// What sequential reads fetch ahead; 0 for none.
    #[serde(default)]
    pub read_ahead_bytes: Option<u32>,
    /// Keep in memory what is read of it.
    #[serde(default = "yes")]
    pub cached: bool,
    /// On a member of which pool it is put; if it is left out, of that of the member that is asked.
    /// `Drystone-Member` names one member instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pool: Option<String>,
    /// On how many members of the pool it lies at most, 1 to 16: on one unless more are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, maximum = 16)]
    pub spread: Option<u8>,
}

/// What holds where nobody says anything.
fn yes() -> bool {
    true
}

/// A block of volumes that name none: all hosts know it.
fn block_bytes_usual() -> u32 {
    512
}

impl From<NewVolume> for array::api::VolumeSpec {
    fn from(new: NewVolume) -> Self {
        Self {
            name: new.name,
            size_bytes: new.size_bytes,
            level: new.raid.map(Into::into),
            thick: new.thick,
            block_bytes: new.block_bytes,
            cache: new.cache.into(),
            read_ahead_bytes: new.read_ahead_bytes,
            cached: new.cached,
        }
    }
}

/// One change of a volume. There is no way to make two of them or none, so one is made at a time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeChange {
    /// Another name. No host may be logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Another size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// With `size_bytes`: give up what lies behind a new end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shrink: bool,
    /// Serve it, or stop to and log its hosts out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<bool>,
    /// What sequential reads fetch ahead; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u32>,
    /// Let hosts of several names use it at the same time, or one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
    /// Keep in memory what is read of it and of its snapshots, or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<bool>,
}

/// Where a volume is to move to: the member with most room in the pool that its own is in, if nothing is named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeMove {
    /// To this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// To the member with most room in this pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}
