//! Connections of hosts.

use std::net::SocketAddr;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Latency, SessionWork};

/// A connection of a host. Counts begin when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    /// The volume it is to; null for one that has changed its name meanwhile.
    pub volume: Option<String>,
    /// Or to which of its snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub snapshot: Option<String>,
    /// The name of the target.
    pub iqn: String,
    /// The name of the host.
    pub host: String,
    /// Where it comes from.
    #[schema(value_type = String, example = "10.0.0.7:40000")]
    pub address: SocketAddr,
    /// Where it arrived.
    #[schema(value_type = String, example = "10.0.0.1:3260")]
    pub portal: SocketAddr,
    /// Which of the host's ports it is: twelve hexadecimal digits.
    pub isid: String,
    /// The number of its session.
    pub session: u16,
    /// Its own number in the session.
    pub connection: u16,
    /// How long it has been logged in.
    pub seconds: u64,
    /// The CHAP user that let it in, where one had to.
    pub chap_user: Option<String>,
    /// Whether headers carry digests.
    pub header_digest: bool,
    /// Whether data does.
    pub data_digest: bool,
    /// SCSI commands that have come.
    pub commands: u64,
    /// Bytes of data that were sent for them.
    pub read_bytes: u64,
    /// Bytes of data that came for them.
    pub written_bytes: u64,
    /// Commands that have not been answered.
    pub waiting: usize,
    /// How long those took that were answered over it.
    #[serde(default)]
    pub latency: Latency,
    /// The member of the group that it is to; not there where that is in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member: Option<String>,
    /// When it was logged in, which does not travel.
    #[serde(skip)]
    pub(crate) since: Option<Instant>,
    /// What its whole session has had done, which does not either.
    #[serde(skip)]
    pub(crate) session_work: SessionWork,
}

impl From<member::Connection> for Connection {
    fn from(theirs: member::Connection) -> Self {
        Self {
            volume: theirs.volume,
            snapshot: theirs.snapshot,
            iqn: theirs.iqn,
            host: theirs.host,
            address: theirs.address,
            portal: theirs.portal,
            isid: theirs.isid,
            session: theirs.session,
            connection: theirs.connection,
            seconds: theirs.seconds,
            chap_user: theirs.chap_user,
            header_digest: theirs.header_digest,
            data_digest: theirs.data_digest,
            commands: theirs.commands,
            read_bytes: theirs.read_bytes,
            written_bytes: theirs.written_bytes,
            waiting: theirs.waiting,
            latency: theirs.latency.into(),
            member: None,
            since: Some(theirs.since),
            session_work: theirs.session_figures.into(),
        }
    }
}
