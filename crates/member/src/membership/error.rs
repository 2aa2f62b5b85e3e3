//! Why a member is not made part of a group, or the group is not changed.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use group::cluster::ClusterError;
use group::membership::MembershipError;
use group::pki::PkiError;
use group::store::StoreError;
use thiserror::Error;

use crate::settings::KeptError;

/// So many of what differs are named in one sentence.
const NAMED_MAX: usize = 8;

/// Why what is asked about the group is refused, or fails.
#[derive(Debug, Error)]
pub enum GroupError {
    /// The group says so, or its store does not answer.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// etcd does not start.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Certificates cannot be made or read.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The system has no randomness.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// What a member keeps of its group cannot be written or read.
    #[error("cannot keep what belongs to the group in '{}': {source}", .path.display())]
    Files {
        /// Which file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is in none.
    #[error("this member is in no group")]
    NotInGroup,
    /// It is in one.
    #[error("this member is in the group '{0}' already")]
    AlreadyIn(String),
    /// It is in one, and does not know enough of it.
    #[error("this member cannot take part in its group: {0}")]
    Broken(String),
    /// Nothing was heard of the store in this life of the member.
    #[error(
        "the members are not known, as the store of the group has not answered since this member started: {0}"
    )]
    NotReached(String),
    /// A volume is to have a name, and nobody can say whether another member has it.
    #[error(
        "names of volumes are promised by the group's store, which does not answer: {0}; what is there goes on"
    )]
    NamesNotPromised(String),
    /// The store of the group takes too long.
    #[error("the store of the group has not answered within {seconds} s: try again when it does")]
    StoreSlow {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The member was removed.
    #[error("this member was removed from its group and is leaving it")]
    Leaving,
    /// One of the ports of a member cannot be used.
    #[error("cannot listen on {address}, which other members are to reach: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Nobody said how the member is to be called, and the system does not know.
    #[error("cannot read the name of this host, so say how the member is to be called: {0}")]
    HostName(#[source] io::Error),
    /// The store of a new group does not work.
    #[error("no group was made, as its store did not answer within {seconds} s: {why}")]
    StoreSilent {
        /// How long it was waited for.
        seconds: u64,
        /// What it or its store said last.
        why: String,
    },
    /// Whoever is to be removed runs the store, and nobody else does.
    #[error("'{member}' is not removed, as the store of the group would be lost with it: {why}")]
    NobodyLeft {
        /// Who is to be removed.
        member: String,
        /// Why no other runs it.
        why: String,
    },
    /// Its part in moving volumes would be done by nobody.
    #[error(
        "'{member}' has a part in moving {}: wait until that is done, cancel or settle it, or stop that member first",
        named(.volumes)
    )]
    MovesInHand {
        /// Which member.
        member: String,
        /// Which volumes.
        volumes: Vec<String>,
    },
    /// What the group has answered is no use.
    #[error("the group let this server in, and what it gave it cannot be used: {0}")]
    Admission(String),
    /// The group has let the member in, which is in no group all the same.
    #[error(
        "{refusal}; the group has the member '{member}' now, which is to be removed there: {source}"
    )]
    NotTakenBack {
        /// Why it did not join.
        refusal: Box<GroupError>,
        /// The name that it has there.
        member: String,
        /// Why it could not be taken back.
        source: Box<GroupError>,
    },
    /// The settings of the member are not the group's.
    #[error(
        "this member keeps settings of its own, as they differ from those of the group in {}",
        named(.0)
    )]
    SettingsDiffer(Vec<String>),
    /// Settings are not read, or not taken over.
    #[error(transparent)]
    Settings(#[from] KeptError),
    /// The member ends.
    #[error("the member is stopping")]
    Stopping,
}

/// The first few of them, in words.
pub(super) fn named(all: &[String]) -> String {
    let mut named = all[..all.len().min(NAMED_MAX)].join(", ");
    if all.len() > NAMED_MAX {
        named.push_str(&format!(" and {} more", all.len() - NAMED_MAX));
    }
    named
}

impl From<StoreError> for GroupError {
    fn from(error: StoreError) -> Self {
        Self::Membership(error.into())
    }
}
