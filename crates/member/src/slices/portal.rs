//! The portal of slices: a server of its own, which has no other targets and tells strangers nothing.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use target::{Access, Config, Limits, Place, Record, Server, ShutdownError, StartError, UnitStore};

use super::Slices;
use crate::mutants::{self, Mutant};

/// How long an opening waits for what was asked for through the one before: longer than a target gives its disks, which is
/// ten seconds to end what is under way and ten more to flush.
pub const FENCE_LIMIT: Duration = Duration::from_secs(25);

/// Connections at once: some for each slice that a member holds. Homes are few, and have one session for each slice.
const CONNECTIONS_MAX: usize = 2048;

/// Connections that have not logged in, at once. One address may have all of them: a home comes with as many as it has slices
/// here, when this member has restarted, and all homes of a network may count as one.
const LOGINS_MAX: usize = 1024;

/// How slices are served.
#[derive(Debug)]
pub struct PortalOptions {
    /// Where to listen; port 0 takes any free port.
    pub address: SocketAddr,
    /// How the names of its targets begin.
    pub prefix: String,
    /// Cores (threads) that serve sessions, at least 1.
    pub cores: u16,
    /// How each core runs.
    pub core: ring::CoreConfig,
    /// How long an opening may wait for the end of the one before.
    pub fence_limit: Duration,
}

/// A portal that serves slices. Dropping it ends it as the end of the process would.
#[derive(Debug)]
pub struct SlicePortal {
    server: Server,
    slices: Slices,
}

impl SlicePortal {
    /// Starts its cores and listens. It has no slices yet.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub fn start(options: PortalOptions) -> Result<Self, StartError> {
        let PortalOptions { address, prefix, cores, core, fence_limit } = options;
        let server = Server::start(Config {
            targets: Vec::new(),
            portals: vec![address],
            port_group: 1,
            access: Access::nobody(),
            discovery: Some(Access::nobody()),
            cores,
            core,
            congestion: None,
            store: Arc::new(Nothing),
            limits: limits(),
            redirect: None,
            listener: None,
        })?;
        let bound = server.portals().first().copied().unwrap_or(address);
        let slices = Slices::new(&server, bound, prefix, fence_limit);
        Ok(Self { server, slices })
    }

    /// Where it listens, as bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.slices.portal()
    }

    /// The slices that it serves: a handle for any thread.
    #[must_use]
    pub fn slices(&self) -> &Slices {
        &self.slices
    }

    /// Sessions that are logged in now.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.server.sessions()
    }

    /// Ends all sessions, waits until their requests are over, and ends the cores.
    ///
    /// # Errors
    /// A disk that could not be flushed, or a core that panicked.
    pub fn shutdown(self) -> Result<(), ShutdownError> {
        self.server.shutdown(Duration::ZERO)
    }
}

fn limits() -> Limits {
    Limits {
        connections: CONNECTIONS_MAX,
        logins: LOGINS_MAX,
        logins_per_address: LOGINS_MAX,
        discoveries_per_address: 1,
        // What is on its way between members is checked as what is on their disks.
        must_digest: !mutants::is(Mutant::NoDigests),
        ..Limits::default()
    }
}

/// A slice has no reservations: those of its volume are kept at its home.
#[derive(Debug)]
struct Nothing;

impl UnitStore for Nothing {
    fn load(&self, _serial: &str, _record: Record) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn save<'a>(
        &'a self,
        _serial: &str,
        _record: Record,
        image: Option<Vec<u8>>,
    ) -> LocalBoxFuture<'a, io::Result<()>> {
        let saved = match image {
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
            None => Ok(()),
        };
        std::future::ready(saved).boxed_local()
    }

    fn place(&self, serial: &str, _record: Record) -> Place {
        Place { what: format!("slice {serial}"), remedy: "nothing is kept of a slice" }
    }
}
