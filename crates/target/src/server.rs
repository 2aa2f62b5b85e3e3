//! Starting and stopping a target.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use iscsi::chap::CredentialsError;
use iscsi::text::{IscsiName, NameError};
use ring::{CoreId, Cores};
use scsi::referrals::ReferralMap;
use thiserror::Error;

use crate::config::Config;
use crate::session::Registry;
use crate::shared::Shared;
use crate::{login, portal, stopping, unit};

/// Why a target cannot start.
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
    /// A logical unit's saved reservations cannot be used.
    #[error("{0}")]
    Reservations(#[from] unit::ReservationsError),
    /// The target's name is not one.
    #[error("{name:?} cannot be the target's name: {error}")]
    Name {
        /// As given.
        name: String,
        /// What is wrong.
        error: NameError,
    },
    /// CHAP credentials that must not be used.
    #[error("{0}")]
    Credentials(#[from] CredentialsError),
    /// Nothing to serve.
    #[error("a target needs at least one logical unit and one portal")]
    Nothing,
}

/// A running target.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    cores: Option<Cores>,
    portals: Vec<SocketAddr>,
}

impl Server {
    /// Binds the portals and serves.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub fn start(config: Config) -> Result<Self, StartError> {
        if config.units.is_empty() || config.portals.is_empty() {
            return Err(StartError::Nothing);
        }
        let name = IscsiName::parse(&config.iqn)
            .map_err(|error| StartError::Name { name: config.iqn.clone(), error })?;
        let auth = login::auth_policy(&config.access)?;
        let units = unit::make_all(&config)?;
        let count = config.cores.max(1);
        let shared = Arc::new(Shared {
            name,
            alias: config.alias,
            units,
            port_group: config.port_group,
            auth,
            allow: config.access.allow,
            limits: config.limits,
            congestion: config.congestion,
            redirect: config.redirect,
            portals: OnceLock::new(),
            cores: OnceLock::new(),
            registry: Registry::default(),
            loads: (0..count).map(|_| AtomicUsize::new(0)).collect(),
            connections: AtomicUsize::new(0),
            logins: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            copies: Arc::default(),
        });
        let cores = ring::launch(count, &config.core, |_| crate::core::stopped())
            .map_err(StartError::Engine)?;
        if shared.cores.set(cores.remotes().to_vec()).is_err() {
            unreachable!("the cell was made empty above");
        }
        let mut server = Self { shared, cores: Some(cores), portals: Vec::new() };
        server.listen(config.portals)?;
        Ok(server)
    }

    fn listen(&mut self, portals: Vec<SocketAddr>) -> Result<(), StartError> {
        let (bound, answer) = mpsc::channel();
        let shared = self.shared.clone();
        let first = self.cores().remote(CoreId::from(0));
        first.run(move || drop(bound.send(portal::open(&shared, &portals))));
        let opened = answer.recv().map_err(|_| {
            StartError::Engine(io::Error::other("the first core ended while it started"))
        })?;
        match opened {
            Ok(addresses) => {
                self.shared.portals.get_or_init(|| addresses.clone());
                self.portals = addresses;
                Ok(())
            }
            Err((portal, source)) => Err(StartError::Portal { portal, source }),
        }
    }

    fn cores(&self) -> &Cores {
        self.cores.as_ref().expect("cores are taken at the end only")
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

    /// The blocks of a unit that was made with referrals are reached best through other port
    /// groups than before; its hosts are told.
    pub fn set_referrals(&self, lun: usize, map: Arc<ReferralMap>) {
        if let Some(unit) = self.shared.units.get(lun) {
            unit.logical.set_referrals(map);
        }
    }

    /// Stops cleanly: asks the initiators to log out, waits up to `grace` for them, ends what is
    /// left, makes all writes durable.
    ///
    /// # Errors
    /// A disk that could not be flushed, or a core that panicked.
    pub fn shutdown(mut self, grace: Duration) -> Result<(), ShutdownError> {
        self.shared.stopping.store(true, Ordering::Relaxed);
        let (done, answer) = mpsc::channel();
        let shared = self.shared.clone();
        let first = self.cores().remote(CoreId::from(0));
        first.run(move || {
            ring::spawn(async move {
                drop(done.send(stopping::stop(&shared, grace).await));
            });
        });
        let flushed = answer.recv().unwrap_or(Ok(()));
        self.end_cores()?;
        flushed
    }

    fn end_cores(&mut self) -> Result<(), ShutdownError> {
        let Some(cores) = self.cores.take() else { return Ok(()) };
        for core in cores.remotes() {
            core.run(crate::core::stop);
        }
        cores.join().map_err(ShutdownError::Core)
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

/// What went wrong while stopping.
#[derive(Debug, Error)]
pub enum ShutdownError {
    /// Writes that were accepted without a promise of durability may be lost.
    #[error("{unit} could not be flushed: {source}")]
    Flush {
        /// The unit's name.
        unit: String,
        /// What the disk said.
        source: block::BlockError,
    },
    /// A core did not end in order.
    #[error("{0}")]
    Core(#[source] ring::CorePanic),
}
