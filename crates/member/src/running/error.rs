//! Why a running member does not do what was asked.

use std::io;

use array::ArrayError;
use block::BlockError;
use target::TargetError;
use thiserror::Error;

use super::move_error::MoveError;
use super::set_error::SetError;
use super::spread_error::SpreadRefusal;
use crate::data::DataError;
use crate::membership::GroupError;
use crate::memory::CacheMemoryError;
use crate::settings::KeptError;
use crate::spec::disk::MemberDiskError;
use crate::spec::{DiskError, size};

/// Why a request is refused, or fails.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The array says so.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// A target does not change as it should.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A disk does not read.
    #[error(transparent)]
    Spec(#[from] MemberDiskError),
    /// A disk cannot be opened.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The cache of blocks cannot have so much memory, or so little.
    #[error(transparent)]
    CacheMemory(#[from] CacheMemoryError),
    /// Settings are not there, or say no.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// The group, or its store, says no.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Hosts could fill the array with a volume before there is room for who may use it.
    #[error(
        "'{name}' is not made, as the settings of the array take {} beside it, and there is room for {}: add a disk, or \
         delete volumes or snapshots",
        size::in_words(*.asked_bytes), size::in_words(*.free_bytes)
    )]
    NoRoomBeside {
        /// The volume.
        name: String,
        /// What there is.
        free_bytes: u64,
        /// What the settings take.
        asked_bytes: u64,
    },
    /// There is no room, and what waits in the recycle bin holds some.
    #[error("{source}; {} are held by deleted volumes", size::in_words(*.held_bytes))]
    BinHolds {
        /// What is refused.
        source: Box<RequestError>,
        /// What they hold.
        held_bytes: u64,
        /// The only one of them; `None` of several.
        name: Option<String>,
    },
    /// No policy has this name.
    #[error("there is no policy '{0}'")]
    NoSuchPolicy(String),
    /// Volumes of another member name it.
    #[error(
        "{what} is on access lists of volumes of the member '{member}', be it one of its own where it keeps settings of its \
         own: remove it there first"
    )]
    UsedByMember {
        /// What is to go: a policy or a CHAP user.
        what: String,
        /// The name of the member.
        member: String,
    },
    /// Lists of volumes name something of the name, which is gone.
    #[error(
        "volumes of {whose} name {what} already, and would be for its hosts at once: take it off their access lists first"
    )]
    NamedAlready {
        /// What is to come: a policy or a CHAP user.
        what: String,
        /// Which member has them.
        whose: String,
    },
    /// The group has its part of a change of many things, or the member has its part, and the rest is not made.
    #[error("part of it is set, and the rest is not: {source}")]
    HalfSet {
        /// What refuses it.
        source: Box<RequestError>,
    },
    /// The name of the volume of settings, or of one that arrives.
    #[error("'{0}' is the name of a volume that the member keeps for itself")]
    Reserved(String),
    /// The volume waits in the recycle bin.
    #[error("'{0}' is in the recycle bin")]
    InRecycleBin(String),
    /// No volume has this name.
    #[error("there is no volume '{0}'")]
    NoSuchVolume(String),
    /// No snapshot has this name.
    #[error("volume '{volume}' has no snapshot '{name}'")]
    NoSuchSnapshot {
        /// Its volume.
        volume: String,
        /// As asked for.
        name: String,
    },
    /// A volume was to become smaller, and nobody said that this is meant.
    #[error("'{0}' would lose what lies behind its new end")]
    WouldShrink(String),
    /// One volume is named twice.
    #[error("'{0}' is named twice")]
    NamedTwice(String),
    /// A schedule may have taken a snapshot of this name, and not noted it yet.
    #[error("'{0}' is the name of a snapshot that a schedule may have begun to take")]
    NameOfRun(String),
    /// What is set was stored, and a volume is not as it should be.
    #[error(
        "all is set but for volume '{volume}' and those after it, which are not as they should be yet: {source}"
    )]
    Unfinished {
        /// The first that is not.
        volume: String,
        /// Why.
        source: Box<RequestError>,
    },
    /// Nothing was set, and volumes that were made for it are there still.
    #[error("{refusal}; volume '{volume}' was made before and could not be taken back: {source}")]
    NotTakenBack {
        /// Why nothing was set.
        refusal: Box<RequestError>,
        /// The first of them.
        volume: String,
        /// Why it is there.
        source: ArrayError,
    },
    /// A host erases the volume.
    #[error(
        "a SANITIZE of '{0}' has not ended well yet, and a snapshot would keep what it is to erase"
    )]
    Sanitized(String),
    /// Whether a host erases the volume is not known.
    #[error("cannot tell whether '{volume}' is being sanitized: {source}")]
    SanitizeUnknown {
        /// The volume.
        volume: String,
        /// What the system says.
        source: io::Error,
    },
    /// A snapshot that must not be there could not be deleted.
    #[error(transparent)]
    SnapshotKept(Box<KeptSnapshot>),
    /// The snapshot is served.
    #[error("snapshot '{name}' is online")]
    SnapshotOnline {
        /// Its volume.
        volume: String,
        /// Its name.
        name: String,
    },
    /// The change was made, but hosts do not get in.
    #[error("'{name}' is online, but cannot be served: {why}")]
    NotServed {
        /// The volume.
        name: String,
        /// Why.
        why: String,
    },
    /// Reservations are seen and ended where the volume is served.
    #[error("'{0}' is not served now: its reservations are shown and cleared while it is online")]
    ReservationsAway(String),
    /// The same of a snapshot.
    #[error(
        "snapshot '{name}' is not served now: its reservations are shown and cleared while it is online"
    )]
    SnapshotReservationsAway {
        /// Its volume.
        volume: String,
        /// Its name.
        name: String,
    },
    /// Two volumes would be one target.
    #[error("'{name}' would have the same iSCSI name as '{other}'")]
    SameTarget {
        /// As asked for.
        name: String,
        /// The volume that has it.
        other: String,
    },
    /// A snapshot has the name of the target.
    #[error("the iSCSI name of '{name}', {iqn}, is in use")]
    TargetInUse {
        /// As asked for.
        name: String,
        /// The name.
        iqn: String,
    },
    /// Hosts know the volume by the name that it is to lose.
    #[error("{} logged in to '{name}' by its old name", hosts_are(*hosts))]
    HostsLoggedIn {
        /// The volume.
        name: String,
        /// How many.
        hosts: usize,
    },
    /// One host at a time is asked for, and both would go on.
    #[error("{} logged in to {}, {}", hosts_are(hosts.len()), what(name, snapshot.as_deref()), listed(hosts))]
    SeveralHosts {
        /// The volume.
        name: String,
        /// Which of its snapshots they use, if it is one.
        snapshot: Option<String>,
        /// Their names.
        hosts: Vec<String>,
    },
    /// Hosts know a snapshot by a name that it is to lose.
    #[error("hosts are logged in to snapshot '{snapshot}' by the old name of '{volume}'")]
    SnapshotInUse {
        /// Its volume.
        volume: String,
        /// Its name.
        snapshot: String,
    },
    /// A word that several disks go by.
    #[error("'{word}' stands for several disks, also for {first} and {second}")]
    AmbiguousDisk {
        /// As asked for.
        word: String,
        /// The number of one.
        first: u32,
        /// The number of another.
        second: u32,
    },
    /// No disk goes by this word.
    #[error("there is no disk '{0}'")]
    NoSuchDisk(String),
    /// The disk is in the array.
    #[error("'{0}' is a disk of the array already")]
    DiskIsMember(String),
    /// A disk that would not be found again is not taken in.
    #[error("nothing was changed, as the disk cannot be remembered: {0}")]
    NotRemembered(#[source] DataError),
    /// About a volume that moves, or would.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// About snapshots of one moment of several members.
    #[error(transparent)]
    Set(#[from] SetError),
    /// About volumes that lie on several members.
    #[error(transparent)]
    Spread(#[from] SpreadRefusal),
    /// Long work was cut off by the end of its core.
    #[error("the work ended without a result")]
    NoResult,
    /// Long work was cancelled.
    #[error("the work was cancelled, as was asked for")]
    Cancelled,
    /// The member stops before the work has ended: it begins anew when it is asked for again.
    #[error("the member is stopping and the work did not end")]
    Stopping,
    /// The member stops, and what was watched goes on when it runs again.
    #[error("the member is stopping")]
    StoppingWatch,
}

impl RequestError {
    /// Whether the array has no room for what was asked for.
    pub(super) fn is_want_of_room(&self) -> bool {
        let is_of_array = |error: &ArrayError| {
            matches!(error, ArrayError::NoSpace { .. } | ArrayError::Io(BlockError::NoSpace))
        };
        match self {
            Self::Array(error) | Self::Kept(KeptError::Volume(error)) => is_of_array(error),
            Self::NoRoomBeside { .. } | Self::Kept(KeptError::NoRoom { .. }) => true,
            _ => false,
        }
    }
}

/// A snapshot that must not be there, and is.
#[derive(Debug, Error)]
#[error("{refusal}; delete snapshot '{name}' of '{volume}', which could not be: {source}")]
pub struct KeptSnapshot {
    /// Why it must not be there.
    pub refusal: RequestError,
    /// Its volume.
    pub volume: String,
    /// Its name.
    pub name: String,
    /// Why it is there still.
    pub source: ArrayError,
}

/// The first few of them.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [one, two, more @ ..] => format!("{one}, {two} and {} more", more.len()),
    }
}

/// A volume, or a snapshot of it.
fn what(volume: &str, snapshot: Option<&str>) -> String {
    match snapshot {
        Some(snapshot) => format!("snapshot '{snapshot}' of '{volume}'"),
        None => format!("'{volume}'"),
    }
}

fn hosts_are(hosts: usize) -> String {
    if hosts == 1 { "1 host is".to_owned() } else { format!("{hosts} hosts are") }
}
