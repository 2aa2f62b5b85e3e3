//! A portal that several servers have by turns: hosts know it by one address, whichever of them has that now.
//!
//! Nobody stays there. A session would break whenever the address goes to another server, and would keep the host at a
//! server that may not be the best one for it. So a login there is always answered with a portal of the server that has
//! the target (RFC 7143 §11.13.5, 0101h), this one too; or with the word to come back (0301h).

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::wait::Event;

/// Such a portal, and where a host that comes there finds what this server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloatingPortal {
    /// Where hosts come to.
    pub address: SocketAddr,
    /// The portals that are this server's alone, as others know them; nowhere, where it has none.
    pub own: Arc<[SocketAddr]>,
}

/// The one that there is, if there is one. Asked by each login and by discovery, never by I/O.
#[derive(Debug, Default)]
pub(crate) struct Floating(Mutex<Option<FloatingPortal>>);

impl Floating {
    fn portal(&self) -> MutexGuard<'_, Option<FloatingPortal>> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, portal: Option<FloatingPortal>) {
        *self.portal() = portal;
    }

    /// The portals of this server alone, for a host that came to the floating one; `None` where `local` is another
    /// address. Its port does not matter: a portal for all addresses may be reached there at any.
    pub(crate) fn own_at(&self, local: SocketAddr) -> Option<Vec<SocketAddr>> {
        let portal = self.portal();
        let floating = portal.as_ref()?;
        let is_there = floating.address.ip().to_canonical() == local.ip().to_canonical();
        is_there.then(|| floating.own.to_vec())
    }
}

/// Listens at a floating portal; no more when it is dropped. Lives on the core on which it was made.
#[derive(Debug, Default)]
pub struct FloatingListener(Rc<Event>);

impl FloatingListener {
    /// Set when nobody listens any more.
    pub(crate) fn ended(&self) -> Rc<Event> {
        self.0.clone()
    }
}

impl Drop for FloatingListener {
    fn drop(&mut self) {
        self.0.set();
    }
}
