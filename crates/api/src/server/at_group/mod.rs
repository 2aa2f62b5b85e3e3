//! The interface at the address of the group, by the member that has that now.
//!
//! ```text
//!            the address is here               listens there, or hears there by a listener for all addresses
//!   Nobody ─────────────────────▶ Open: it proves ───────▶ connections, with the seats of the interface over TLS
//!      ▲                              the group               │
//!      ╰── it has left, or the member keeps its own settings ─╯ ended at once
//! ```
//!
//! 1. Who comes to the address of the group hears the group, or nobody: never this member by itself. A listener for all
//!    addresses hears there too, so each connection is asked at which address it came in.
//! 2. It is open while the member says so ([`Answering::Here`]), and a connection that came in then ends with that,
//!    whatever is under way in it: another member has the address in a moment. What was asked is done to its end all
//!    the same.
//! 3. The member answers there only if the operator has it listen in that network already: where hosts are, and the
//!    interface is kept to another network, it opens no port.
//! 4. Seats, throttle, roles and limits are those of the interface over TLS.

mod listens;
mod proof;

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use group::address::GroupAddress;
use member::events::{Event, Kind};
use member::{AddressNow, AddressProof, Answering, CurrentAddress};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use super::Identity;
use super::app::App;
use super::callers::Callers;
use super::connections::{self, Door, Means, Reception, has_ended};
use super::listening::{keep_open, listen};
use crate::mutants::{self, Mutant};

pub(super) use listens::Listens;

/// What a member says of itself that is not managed over TLS.
const NOT_OVER_TLS: &str =
    "it is not managed over TLS: start it with --api-listen, at the port of the other members";

/// What is shown of it: where this member answers there when it has the address, and why it would not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Management {
    pub(super) url: Option<String>,
    pub(super) fault: Option<String>,
}

/// The address of the group, as the interface stands to it.
#[derive(Debug)]
pub(super) struct AtGroup {
    current: CurrentAddress,
    /// Where the member itself listens over TLS; or why it does not although it was to.
    own: Result<Vec<Listens>, String>,
    open: Mutex<Option<Open>>,
    /// Why nobody is answered there although they should be.
    fault: Mutex<Option<String>>,
}

/// What is so while the address is here.
struct Open {
    address: IpAddr,
    acceptor: TlsAcceptor,
    /// Turns true when the address is to leave.
    closing: watch::Receiver<bool>,
}

impl Debug for Open {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("address", &self.address).finish_non_exhaustive()
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AtGroup {
    /// Of a member that listens there itself.
    pub(super) const fn new(current: CurrentAddress, own: Result<Vec<Listens>, String>) -> Self {
        Self { current, own, open: Mutex::new(None), fault: Mutex::new(None) }
    }

    /// What is shown of it now.
    pub(super) fn management(&self) -> Management {
        let Some(now) = self.current.now() else { return Management::default() };
        let shown = self.at(now.address).and_then(|at| match &now.answering {
            Answering::Never(why) => Err(why.clone()),
            Answering::Here(_) | Answering::Elsewhere => Ok(at),
        });
        match (shown, &*held(&self.fault)) {
            (Err(why), _) => Management { url: None, fault: Some(why) },
            (_, Some(why)) => Management { url: None, fault: Some(why.clone()) },
            (Ok(at), None) => Management { url: Some(format!("https://{at}")), fault: None },
        }
    }

    /// Where it answers there, which is at the port of the first of its own addresses in that network; or why it does not.
    fn at(&self, address: GroupAddress) -> Result<SocketAddr, String> {
        let own = self.own.as_ref().map_err(Clone::clone)?;
        if own.is_empty() {
            return Err(NOT_OVER_TLS.to_owned());
        }
        let is_in = |own: &&Listens| {
            own.is_in_network_of(address) || mutants::is(Mutant::AnswerInAnyNetwork)
        };
        let first = own.iter().find(is_in);
        first.map(|own| SocketAddr::new(address.ip(), own.at.port())).ok_or_else(|| {
            format!(
                "it is managed over TLS in other networks than that of {address}: add --api-listen with an address of \
                 that network to have it answer there"
            )
        })
    }

    /// Whether a listener of the member itself hears what comes there, so that no other one can be had.
    fn is_heard_anyway(&self, at: SocketAddr) -> bool {
        self.own.iter().flatten().any(|own| own.hears(at))
    }

    /// How one is received that came in at this address of the member, which answers with `own` where that is not the
    /// group's; `None` for one that is not to be answered.
    pub(super) fn receive(&self, local: IpAddr, own: &TlsAcceptor) -> Option<Reception> {
        let came_to = if mutants::is(Mutant::MappedAsOwn) { local } else { local.to_canonical() };
        let is_group = |now: &Arc<AddressNow>| now.address.ip() == came_to;
        if self.current.now().is_some_and(|now| is_group(&now)) && !mutants::is(Mutant::AnswerAsOwn)
        {
            return self.receive_for_group(local);
        }
        Some(Reception::of_member(own.clone()))
    }

    /// The same of one that came in at the address of the group.
    fn receive_for_group(&self, local: IpAddr) -> Option<Reception> {
        let open = held(&self.open);
        // It may have left a moment ago.
        let is_open =
            |open: &&Open| open.address == local.to_canonical() && !*open.closing.borrow();
        let open = open.as_ref().filter(is_open)?;
        let closing = (!mutants::is(Mutant::StayAtGroup)).then(|| open.closing.clone());
        Some(Reception { acceptor: open.acceptor.clone(), means: Means::Group, closing })
    }
}

/// Answers for the group while this member is to, until the end.
pub(super) async fn attend(
    app: Arc<App>,
    identity: Identity,
    (router, callers): (Router, Arc<Callers>),
    ending: watch::Receiver<bool>,
) {
    let changed = Arc::new(Notify::new());
    let rings = changed.clone();
    app.at_group.current.on_change(move || rings.notify_one());
    let wanted = || {
        let now = app.at_group.current.now()?;
        matches!(now.answering, Answering::Here(_)).then_some(now)
    };
    let answering = async |now: &Arc<AddressNow>, closing: watch::Receiver<bool>| {
        let Answering::Here(proof) = &now.answering else { return };
        let serves = (router.clone(), callers.clone());
        answer(&app, (now.address, proof, &identity), serves, closing).await;
    };
    keep_open(wanted, &changed, ending, answering).await;
}

/// Answers there until the address leaves.
async fn answer(
    app: &Arc<App>,
    (address, proof, identity): (GroupAddress, &AddressProof, &Identity),
    (router, callers): (Router, Arc<Callers>),
    mut closing: watch::Receiver<bool>,
) {
    let group = &app.at_group;
    // Of an earlier proof, or of another address.
    *held(&group.fault) = None;
    // Until it is another address: `management` says why.
    let Ok(at) = group.at(address) else { return has_ended(&mut closing).await };
    let address = address.ip();
    let acceptor = match proof::server_config(proof, address, identity.clone()) {
        Ok(config) => TlsAcceptor::from(config),
        Err(why) => {
            tell(app, format!("it cannot prove the group at {at}: {why}"));
            // Until it is another proof.
            has_ended(&mut closing).await;
            *held(&group.fault) = None;
            return;
        }
    };
    *held(&group.open) = Some(Open { address, acceptor, closing: closing.clone() });
    tracing::info!("whoever manages the group is answered at {at}");
    if group.is_heard_anyway(at) {
        has_ended(&mut closing).await;
    } else {
        let told = |error: &io::Error| {
            tell(app, format!("it cannot listen on {at}, which is tried again: {error}"));
        };
        let listener = tokio::select! {
            listener = listen(at, told) => Some(listener),
            () = has_ended(&mut closing) => None,
        };
        if let Some(listener) = listener {
            *held(&group.fault) = None;
            let group = app.clone();
            let receive = move |local| {
                group.renew_identity();
                group.at_group.receive_for_group(local)
            };
            let door = Door::Tls(vec![listener], Box::new(receive));
            connections::serve(door, router, callers, closing).await;
        }
    }
    *held(&group.open) = None;
    *held(&group.fault) = None;
}

/// Has operators hear that nobody is answered there, and see it as long as that is so.
fn tell(app: &App, why: String) {
    let text = format!("the group is not managed at its address by this member: {why}");
    app.logs.events.tell(Event::of_member(Kind::GroupAddressFault, text));
    *held(&app.at_group.fault) = Some(why);
}

#[cfg(test)]
mod tests;
