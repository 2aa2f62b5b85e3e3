//! What all cores share: the configuration, the targets, and who is logged in.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use iscsi::chap::ChapPolicy;
use ring::Remote;

use crate::access::Rules;
use crate::audit::Feed;
use crate::config::{Limits, Redirect};
use crate::copy::CopyManager;
use crate::crowded::Crowded;
use crate::doors::Doors;
use crate::elsewhere::ServedElsewhere;
use crate::figures::CountedAddresses;
use crate::floating::Floating;
use crate::registry::Registry;
use crate::store::UnitStore;
use crate::targets::{Common, Table};

/// One server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) targets: Table,
    /// What is not among those and is served by others.
    pub(crate) elsewhere: ServedElsewhere,
    /// All portals are one portal group (RFC 7143 §4.4.1) and so one SCSI target port, with this
    /// relative target port identifier (SPC-5 §3.1).
    pub(crate) port_group: AtomicU16,
    /// For targets without rules of their own.
    pub(crate) rules: Arc<Rules>,
    /// For discovery; without it whom the rules of the server or of a target may let in.
    pub(crate) discovery: Option<Arc<Rules>>,
    /// See [`known_users`](Self::known_users).
    pub(crate) known_users: Mutex<Arc<ChapPolicy>>,
    pub(crate) store: Arc<dyn UnitStore>,
    pub(crate) limits: Limits,
    pub(crate) congestion: Option<String>,
    pub(crate) redirect: Option<Arc<dyn Redirect>>,
    /// Bound addresses, known once the listeners are.
    pub(crate) portals: OnceLock<Vec<SocketAddr>>,
    /// The portal that this server and others have by turns.
    pub(crate) floating: Floating,
    /// Addresses at which hosts arrived that have figures of their own.
    pub(crate) counted_addresses: CountedAddresses,
    /// The way to each core.
    pub(crate) cores: OnceLock<Vec<Remote>>,
    pub(crate) registry: Registry,
    /// Logins that found no place there.
    pub(crate) crowded: Crowded,
    /// Copies under way, of all targets, and how many tokens there are.
    pub(crate) copies: Arc<CopyManager>,
    /// Connections by core: a new one goes where there are fewest.
    pub(crate) loads: Vec<AtomicUsize>,
    pub(crate) doors: Arc<Doors>,
    /// Connections that are being told that they cannot come in.
    pub(crate) refusals: AtomicUsize,
    pub(crate) stopping: AtomicBool,
    /// To whoever hears of logins.
    pub(crate) feed: Feed,
}

impl Shared {
    /// What all targets have in common.
    pub(crate) fn common(&self) -> Common<'_> {
        Common { port_group: self.port_group(), store: &self.store, rules: &self.rules }
    }

    /// The rules of which one must let in who wants to discover.
    pub(crate) fn discovery_rules(&self) -> Vec<Arc<Rules>> {
        if let Some(discovery) = &self.discovery {
            return vec![discovery.clone()];
        }
        let mut all = vec![self.rules.clone()];
        let own = self.targets.served().into_iter().map(|target| target.rules());
        all.extend(own.filter(|rules| !Arc::ptr_eq(rules, &self.rules)));
        all.extend(self.elsewhere.rules());
        all
    }

    /// All CHAP users that there are, whoever's rules name them, and the proofs of targets.
    pub(crate) fn chap(&self) -> Vec<Arc<ChapPolicy>> {
        let mut all = vec![self.rules.chap().clone(), self.known_users().clone()];
        all.extend(self.targets.served().into_iter().map(|target| target.rules().chap().clone()));
        all.extend(self.elsewhere.rules().into_iter().map(|rules| rules.chap().clone()));
        all
    }

    /// CHAP users that discovery knows although no rules may name them.
    pub(crate) fn known_users(&self) -> MutexGuard<'_, Arc<ChapPolicy>> {
        // Each change is one step.
        self.known_users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the portal group.
    pub(crate) fn port_group(&self) -> u16 {
        self.port_group.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// The core with the fewest connections.
    pub(crate) fn least_loaded(&self) -> usize {
        let loads = self.loads.iter().map(|load| load.load(Ordering::Relaxed)).enumerate();
        loads.min_by_key(|&(_, load)| load).map_or(0, |(core, _)| core)
    }

    pub(crate) fn cores(&self) -> &[Remote] {
        self.cores.get().map_or(&[], Vec::as_slice)
    }

    /// Addresses to announce to an initiator that reached us at `local`: a wildcard portal is
    /// known to it by that address (RFC 7143 §13.8). Where that is the floating one, those that are this server's alone.
    pub(crate) fn announced_portals(&self, local: SocketAddr) -> Vec<SocketAddr> {
        if let Some(own) = self.floating.own_at(local) {
            return own;
        }
        let portals = self.portals.get().map_or(&[][..], Vec::as_slice);
        let mut announced = Vec::with_capacity(portals.len());
        for portal in portals {
            let address = if portal.ip().is_unspecified() {
                SocketAddr::new(local.ip().to_canonical(), portal.port())
            } else {
                *portal
            };
            if !announced.contains(&address) {
                announced.push(address);
            }
        }
        announced
    }

    /// The address in whose figures it is what goes over a connection that came to `local`.
    pub(crate) fn counted_at(&self, local: SocketAddr) -> SocketAddr {
        let portals = self.portals.get().map_or(&[][..], Vec::as_slice);
        self.counted_addresses.place_of(local, portals)
    }
}

/// A count that goes down again by itself.
#[derive(Debug)]
pub(crate) struct Counted {
    shared: Arc<Shared>,
    counter: fn(&Shared) -> &AtomicUsize,
}

impl Counted {
    /// Counts one more, unless that would exceed `limit`.
    pub(crate) fn take(
        shared: &Arc<Shared>,
        counter: fn(&Shared) -> &AtomicUsize,
        limit: usize,
    ) -> Option<Self> {
        let count = counter(shared);
        if count.fetch_add(1, Ordering::Relaxed) >= limit {
            count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self { shared: shared.clone(), counter })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.counter)(&self.shared).fetch_sub(1, Ordering::Relaxed);
    }
}
