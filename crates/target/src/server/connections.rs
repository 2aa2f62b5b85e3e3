//! Who is connected to what, and what has gone over it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use block::Latency;
use iscsi::pdu::Isid;

use super::Targets;
use crate::cores::on_cores;
use crate::crowded::CrowdedOut;
use crate::figures::UnitFigures;
use crate::session::{Connection, sessions};

/// A connection of a session that is logged in to a target. Counts begin with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The target's name.
    pub iqn: String,
    /// The initiator's name.
    pub initiator: String,
    /// Which of the initiator's ports it is.
    pub isid: Isid,
    /// The session's number, which it has until it ends.
    pub tsih: u16,
    /// The number of the connection in its session.
    pub cid: u16,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Where it arrived.
    pub portal: SocketAddr,
    /// When it was logged in, and how long ago that is.
    pub since: Instant,
    /// See `since`.
    pub age: Duration,
    /// Who authenticated it, where somebody had to.
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
    pub latency: Latency,
    /// What its whole session has had done, over all of its connections.
    pub session_figures: UnitFigures,
}

impl ConnectionInfo {
    fn of(conn: &Rc<Connection>, session_figures: UnitFigures) -> Self {
        let (session, params) = (&conn.session, conn.params());
        Self {
            iqn: session.target().name.as_str().to_owned(),
            initiator: session.initiator.to_string(),
            isid: session.isid,
            tsih: session.tsih,
            cid: conn.cid,
            peer: conn.peer,
            portal: conn.local,
            since: conn.since,
            age: ring::now() - conn.since,
            chap_user: conn.chap_user(),
            header_digest: params.header_digest,
            data_digest: params.data_digest,
            commands: conn.commands(),
            read_bytes: conn.mover.data_in_bytes(),
            written_bytes: conn.written_bytes(),
            waiting: session.waiting_on(conn),
            latency: conn.latency.figures(),
            session_figures,
        }
    }
}

impl Targets {
    /// Hosts may have so many connections to targets from now on; at first there is no such limit. A login that would be one
    /// more is answered that the server is out of resources (RFC 7143 §11.13.5, 0302h), before anything is kept for it;
    /// one that comes back to a session, or in the place of a connection, is let in. Those that are there stay. Each
    /// refusal is [told](Self::take_crowded_out) to who asks.
    pub fn set_connections_max(&self, max: usize) {
        self.0.registry.set_connections_max(max);
    }

    /// Of those, one address may have so many from now on, or one network of 64 bits of IPv6; at first there is no such limit.
    /// A login that would be one more is refused as where all are taken, and told of as well.
    pub fn set_connections_of_one_max(&self, max: usize) {
        self.0.registry.set_connections_of_one_max(max);
    }

    /// How many of those are taken: by connections of hosts that are logged in to targets, without those of discovery
    /// sessions. A session that has none, and has not ended yet as a disk still works for it, counts as one. Asks no core.
    #[must_use]
    pub fn connections_taken(&self) -> usize {
        self.0.registry.connections()
    }

    /// How many of them are of the target of this name. Asks no core.
    #[must_use]
    pub fn connections_taken_of(&self, target: &str) -> usize {
        self.0.registry.connections_of(&target.to_ascii_lowercase())
    }

    /// The logins that were refused as all were taken, since the last question.
    #[must_use]
    pub fn take_crowded_out(&self) -> Vec<CrowdedOut> {
        self.0.crowded.take()
    }

    /// All connections of hosts that are logged in, by target and host; without those of discovery sessions,
    /// which see no data. Each core is asked: must run on a core of the server.
    pub async fn connections(&self) -> Vec<ConnectionInfo> {
        let all = Arc::new(Mutex::new(Vec::new()));
        let found = all.clone();
        let look = move || {
            let mut own = Vec::new();
            for session in sessions() {
                let figures = session.figures();
                let conns = session.connections().into_iter();
                own.extend(conns.map(|conn| ConnectionInfo::of(&conn, figures)));
            }
            found.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
            std::future::ready(())
        };
        on_cores(self.0.cores().to_vec(), look).await;
        let mut all = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
        all.sort_unstable_by(|a, b| {
            let key = |info: &ConnectionInfo| (info.isid, info.tsih, info.cid);
            (&a.iqn, &a.initiator, key(a)).cmp(&(&b.iqn, &b.initiator, key(b)))
        });
        all
    }
}
