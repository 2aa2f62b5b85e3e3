//! What can be asked of a running member.

use array::api::{JobKind, SettingsChange, VolumeSpec};

use crate::access_request::{AccessRequest, ChapRequest, PolicyRequest};
use crate::configuration_request::ConfigurationRequest;
use crate::destination_request::DestinationRequest;
use crate::group_request::GroupRequest;
use crate::login_request::{AccountRequest, TokenRequest};
use crate::memory::CacheMemory;
use crate::move_request::MoveRequest;
use crate::schedule_request::ScheduleRequest;
use crate::set_request::SetRequest;
use crate::spread_request::SpreadRequest;

/// One request. What each is answered with stands behind the arrow, nothing where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// About volumes.
    Volume(VolumeRequest),
    /// About snapshots.
    Snapshot(SnapshotRequest),
    /// About disks.
    Disk(DiskRequest),
    /// About all of it.
    Array(ArrayRequest),
    /// About who may use volumes.
    Access(AccessRequest),
    /// About CHAP users.
    Chap(ChapRequest),
    /// About policies.
    Policy(PolicyRequest),
    /// About accounts.
    Account(AccountRequest),
    /// About tokens.
    Token(TokenRequest),
    /// About snapshot schedules.
    Schedule(ScheduleRequest),
    /// About destinations of events.
    Destination(DestinationRequest),
    /// About the group that the member is in.
    Group(GroupRequest),
    /// About all that is set at once.
    Configuration(ConfigurationRequest),
    /// About volumes that move from one member to another.
    Move(MoveRequest),
    /// About snapshots of one moment of several members.
    Set(SetRequest),
    /// About volumes that lie on several members.
    Spread(SpreadRequest),
    /// Who is connected → [`super::reply::Connection`]s.
    Connections,
    /// What hosts have had done → [`super::reply::Figures`].
    Figures,
    /// Tells of jobs of these kinds until there are none, and none is about to begin.
    Watch {
        /// Which.
        kinds: Vec<JobKind>,
    },
}

/// About volumes, which go by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum VolumeRequest {
    /// Make one and serve it → [`super::reply::Volume`].
    Create(VolumeSpec),
    /// → all.
    List,
    /// → [`super::reply::Volume`].
    Show { name: String },
    /// Smaller only with `shrink` → [`super::reply::Volume`].
    Resize { name: String, size_bytes: u64, shrink: bool },
    /// → [`super::reply::Volume`].
    Rename { name: String, to: String },
    /// Serve it, or stop to → [`super::reply::Volume`].
    SetOnline { name: String, online: bool },
    /// What sequential reads fetch ahead → [`super::reply::Volume`].
    SetReadAhead { name: String, bytes: u32 },
    /// Let hosts of several names in at the same time, or one → [`super::reply::Volume`].
    SetShared { name: String, shared: bool },
    /// Whether what is read of it may be kept in memory → [`super::reply::Volume`].
    SetCached { name: String, cached: bool },
    /// → [`super::reply::Reservations`].
    Reservations { name: String },
    /// End all reservations, and tell the hosts that were registered → [`super::reply::Reservations`].
    ClearReservations { name: String },
    /// Put it into the recycle bin.
    Delete { name: String },
    /// Take it out of there → [`super::reply::Volume`].
    Undelete { name: String },
    /// Give its space back.
    Purge { name: String },
}

/// About snapshots, which go by their volume and their name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum SnapshotRequest {
    /// Take snapshots of one moment, under one name or one that is made from the time → those.
    Create { volumes: Vec<String>, name: Option<String> },
    /// Of one volume or of all → [`super::reply::Snapshot`]s.
    List { volume: Option<String> },
    /// Count what each of these holds, by volume and name → those that are still there, with that.
    Count { snapshots: Vec<(String, String)> },
    /// The volume, which is offline, gets the contents of the snapshot.
    Rollback { volume: String, name: String },
    /// A new volume begins with the contents of the snapshot → [`super::reply::Volume`].
    Clone { volume: String, name: String, to: String },
    /// Give its space back.
    Delete { volume: String, name: String },
    /// Serve it read-only, or stop to → [`super::reply::Snapshot`].
    SetOnline { volume: String, name: String, online: bool },
    /// Serve it read-write; `fresh` without what hosts wrote before → [`super::reply::Snapshot`].
    SetWritable { volume: String, name: String, fresh: bool },
    /// What differs; `None` is before everything for `from`, and now for `to` → extents.
    Diff { volume: String, from: Option<String>, to: Option<String> },
    /// Who has reserved it, and who is registered, while it is served → [`super::reply::Reservations`].
    Reservations { volume: String, name: String },
    /// End all of that, and tell the hosts that were registered → [`super::reply::Reservations`].
    ClearReservations { volume: String, name: String },
}

/// About disks, which go by their number or their name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum DiskRequest {
    /// → all.
    List,
    /// → one.
    Show { disk: String },
    /// Take in a disk, written as behind `--disk` → all.
    Add {
        disk: String,
        /// For the journal alone.
        journal: bool,
    },
    /// Put a new disk in the place of an old one → all.
    Replace { disk: String, by: String },
    /// Treat it as failed.
    Fail { disk: String, accept_loss: bool },
    /// Move its data elsewhere, then let it go.
    Retire { disk: String },
    /// Let it stay after all → all.
    CancelRetire { disk: String },
    /// Forgive its errors → all.
    Clear { disk: String },
}

/// About all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArrayRequest {
    /// → the array.
    Show,
    /// Read and compare everything, in the background.
    Scrub,
    /// → what runs in the background.
    Jobs,
    /// Change what is set for the whole array, and how much memory the cache of blocks has until the member
    /// stops → the array.
    Set {
        /// What the array remembers.
        settings: SettingsChange,
        /// What it does not; `None` leaves it as it is.
        cache_memory: Option<CacheMemory>,
    },
    /// Verify everything → a report.
    Check,
    /// Spread data over all disks; ends when it is done.
    Rebalance,
}

impl Request {
    /// The volumes that it names, those that are to be made too.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        match self {
            Self::Volume(request) => request.volumes(),
            Self::Snapshot(request) => request.volumes(),
            Self::Access(request) => vec![request.volume()],
            Self::Schedule(request) => request.volumes(),
            Self::Configuration(request) => request.volumes(),
            Self::Move(request) => request.volumes(),
            Self::Set(request) => request.volumes(),
            Self::Spread(request) => request.volumes(),
            Self::Disk(_)
            | Self::Array(_)
            | Self::Chap(_)
            | Self::Policy(_)
            | Self::Account(_)
            | Self::Token(_)
            | Self::Destination(_)
            | Self::Group(_)
            | Self::Connections
            | Self::Figures
            | Self::Watch { .. } => Vec::new(),
        }
    }
}

impl VolumeRequest {
    /// The volumes that it names.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        match self {
            Self::List => Vec::new(),
            Self::Create(spec) => vec![&spec.name],
            Self::Rename { name, to } => vec![name, to],
            Self::Show { name }
            | Self::Resize { name, .. }
            | Self::SetOnline { name, .. }
            | Self::SetReadAhead { name, .. }
            | Self::SetShared { name, .. }
            | Self::SetCached { name, .. }
            | Self::Reservations { name }
            | Self::ClearReservations { name }
            | Self::Delete { name }
            | Self::Undelete { name }
            | Self::Purge { name } => vec![name],
        }
    }
}

impl SnapshotRequest {
    /// The volumes that it names.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        match self {
            Self::Create { volumes, .. } => volumes.iter().map(String::as_str).collect(),
            Self::List { volume } => volume.iter().map(String::as_str).collect(),
            Self::Count { snapshots } => {
                snapshots.iter().map(|(volume, _)| volume.as_str()).collect()
            }
            Self::Clone { volume, to, .. } => vec![volume, to],
            Self::Rollback { volume, .. }
            | Self::Delete { volume, .. }
            | Self::SetOnline { volume, .. }
            | Self::SetWritable { volume, .. }
            | Self::Reservations { volume, .. }
            | Self::ClearReservations { volume, .. }
            | Self::Diff { volume, .. } => vec![volume],
        }
    }
}
