//! Starting and stopping a server.

mod connections;
mod figures;
mod reservations;
mod targets;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use iscsi::chap::ChapPolicy;
use ring::{CoreId, Cores, Remote};
use thiserror::Error;

use crate::access::Rules;
use crate::audit::Feed;
use crate::config::Config;
use crate::crowded::Crowded;
use crate::doors::Doors;
use crate::elsewhere::ServedElsewhere;
use crate::figures::CountedAddresses;
use crate::floating::Floating;
use crate::registry::Registry;
use crate::shared::Shared;
use crate::targets::{Table, TargetError};
use crate::{cores, portal, stopping};

pub use connections::ConnectionInfo;
pub use figures::{CoreFigures, Figures, PortalFigures, UnitInfo};
pub use targets::{TargetInfo, Targets, UnitRegistrations};

/// How long a portal may be in use before somebody else has it: the kernel takes a moment to close
/// the sockets of a process that was killed, and longer where its last flushes take long.
const PORT_TIME: Duration = Duration::from_secs(10);
const PORT_PAUSE: Duration = Duration::from_millis(20);

/// Why a server cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// A portal cannot be had.
    #[error("cannot listen on {portal}: {source}")]
    Portal {
        /// As asked for.
        portal: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The engine cannot start.
    #[error("cannot start the I/O engine: {0}")]
    Engine(#[source] io::Error),
    /// A target cannot be served.
    #[error("{0}")]
    Target(#[from] TargetError),
    /// Nowhere to listen.
    #[error("a server needs at least one portal")]
    NoPortal,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    cores: Option<Cores>,
    /// Before [`listen`](Self::listen) those to bind, then those that are bound.
    portals: Vec<SocketAddr>,
}

impl Server {
    /// Starts the cores and serves.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let mut server = Self::launch(config)?;
        server.listen()?;
        Ok(server)
    }

    /// Starts the cores; nobody can log in until [`listen`](Self::listen). A host that comes back
    /// after a restart must not find a part of the targets: many hosts give up a target for good
    /// when they hear that it does not exist.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub fn launch(config: Config) -> Result<Self, StartError> {
        if config.portals.is_empty() {
            return Err(StartError::NoPortal);
        }
        let count = config.cores.max(1);
        let rules = Arc::new(Rules::new(config.access).map_err(TargetError::from)?);
        let discovery = match config.discovery {
            None => None,
            Some(access) => Some(Arc::new(Rules::new(access).map_err(TargetError::from)?)),
        };
        let shared = Arc::new(Shared {
            targets: Table::default(),
            elsewhere: ServedElsewhere::default(),
            rules,
            discovery,
            known_users: Mutex::new(Arc::new(nobody_known())),
            store: config.store,
            port_group: AtomicU16::new(config.port_group),
            limits: config.limits.clone(),
            congestion: config.congestion,
            redirect: config.redirect,
            portals: OnceLock::new(),
            floating: Floating::default(),
            counted_addresses: CountedAddresses::default(),
            cores: OnceLock::new(),
            registry: Registry::default(),
            crowded: Crowded::default(),
            copies: Arc::default(),
            loads: (0..count).map(|_| AtomicUsize::new(0)).collect(),
            doors: Doors::new(config.limits.clone()),
            refusals: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            feed: Feed::new(config.listener).map_err(StartError::Engine)?,
        });
        let targets = Targets(shared.clone());
        config.targets.into_iter().try_for_each(|spec| targets.add(spec))?;
        let cores =
            ring::launch(count, &config.core, |_| cores::stopped()).map_err(StartError::Engine)?;
        if shared.cores.set(cores.remotes().to_vec()).is_err() {
            unreachable!("the cell was made empty above");
        }
        Ok(Self { shared, cores: Some(cores), portals: config.portals })
    }

    /// Binds the portals and lets hosts in. To be called once.
    ///
    /// # Errors
    /// [`StartError::Portal`].
    pub fn listen(&mut self) -> Result<(), StartError> {
        assert!(self.shared.portals.get().is_none(), "a server listens once");
        let begun = Instant::now();
        let mut is_told = false;
        let addresses = loop {
            match self.open_portals()? {
                Ok(addresses) => break addresses,
                Err((portal, source))
                    if source.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < PORT_TIME =>
                {
                    if !std::mem::replace(&mut is_told, true) {
                        let seconds = PORT_TIME.as_secs();
                        tracing::warn!(
                            "{portal} is in use: waiting for it for {seconds} s at most"
                        );
                    }
                    thread::sleep(PORT_PAUSE);
                }
                Err((portal, source)) => return Err(StartError::Portal { portal, source }),
            }
        };
        self.shared.portals.get_or_init(|| addresses.clone());
        self.portals = addresses;
        Ok(())
    }

    /// Binds the portals on the first core; the one that could not be, and why.
    fn open_portals(&self) -> Result<Result<Vec<SocketAddr>, (SocketAddr, io::Error)>, StartError> {
        let (bound, answer) = mpsc::channel();
        let shared = self.shared.clone();
        let portals = self.portals.clone();
        self.first_core().run(move || drop(bound.send(portal::open(&shared, &portals))));
        answer.recv().map_err(|_| {
            StartError::Engine(io::Error::other("the first core ended while it started"))
        })
    }

    fn cores(&self) -> &Cores {
        self.cores.as_ref().expect("cores are taken at the end only")
    }

    /// The core on which control work is to be done: the first one.
    #[must_use]
    pub fn first_core(&self) -> Remote {
        self.cores().remote(CoreId::from(0))
    }

    /// The targets, to be changed while it runs.
    #[must_use]
    pub fn targets(&self) -> Targets {
        Targets(self.shared.clone())
    }

    /// The addresses it listens on, as bound.
    #[must_use]
    pub fn portals(&self) -> &[SocketAddr] {
        &self.portals
    }

    /// Sessions that are logged in now, discovery sessions excepted.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.registry.len()
    }

    /// Stops cleanly: asks the initiators to log out, waits up to `grace` for them, ends what is
    /// left, makes all writes durable, ends the cores.
    ///
    /// # Errors
    /// A disk that could not be flushed, or a core that panicked.
    pub fn shutdown(mut self, grace: Duration) -> Result<(), ShutdownError> {
        let flushed = self.end_targets(grace);
        self.end_cores()?;
        Ok(flushed?)
    }

    /// The first part of [`shutdown`](Self::shutdown): nobody is served any more, and no device is
    /// used any more, but the cores still run, so that what is below the targets can be closed.
    ///
    /// # Errors
    /// A disk that could not be flushed.
    pub fn end_targets(&self, grace: Duration) -> Result<(), TargetError> {
        self.shared.stopping.store(true, Ordering::Relaxed);
        let (done, answer) = mpsc::channel();
        let shared = self.shared.clone();
        self.first_core().run(move || {
            ring::spawn(async move {
                drop(done.send(stopping::stop(&shared, grace).await));
            });
        });
        // A core that has ended by itself panicked, which its join tells.
        answer.recv().unwrap_or(Ok(()))
    }

    fn end_cores(&mut self) -> Result<(), ShutdownError> {
        let Some(cores) = self.cores.take() else { return Ok(()) };
        for core in cores.remotes() {
            core.run(cores::stop);
        }
        let joined = cores.join().map_err(ShutdownError::Core);
        self.shared.feed.end();
        joined
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        if let Err(error) = self.end_cores() {
            tracing::error!("{error}");
        }
    }
}

/// No CHAP users.
fn nobody_known() -> ChapPolicy {
    ChapPolicy::new(Vec::new(), None).expect("nobody has the secret of nobody")
}

/// What went wrong while stopping.
#[derive(Debug, Error)]
pub enum ShutdownError {
    /// Writes that were accepted without a promise of durability may be lost.
    #[error("{0}")]
    Flush(#[from] TargetError),
    /// A core did not end in order.
    #[error("{0}")]
    Core(#[source] ring::CorePanic),
}
