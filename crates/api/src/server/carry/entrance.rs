//! Where a member answers the others of its group: at the last of its ports, for as long as it is in the group.
//!
//! The port takes so many connections and no more; a member makes a new one for each request, and has at most
//! [`REQUESTS_MAX`](super::lines::REQUESTS_MAX) requests and [`STREAMS_MAX`](super::lines::STREAMS_MAX) streams under
//! way to another one, and a connection for each volume that moves. Who has no certificate of another member ends in
//! the handshake.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use member::events::{Event, Kind};
use member::{CurrentRoll, SecretWord};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use super::address;
use super::tls::{Proof, server_config};
use crate::server::app::App;
use crate::server::callers::Callers;
use crate::server::connections::{self, Door, has_ended};
use crate::server::listening::{keep_open, listen};
use crate::server::routes;

/// Connections at once: all that ten members may have under way, which ask one that has what all want.
const CONNECTIONS_MAX: usize = 128;

/// Of these, those from one place: what two members may have under way, as tests have several on one machine. Above
/// that, whoever says nothing makes room.
const CONNECTIONS_OF_PLACE_MAX: usize = 32;

/// What is so as long as nobody listens there.
const HARM: &str = "no other member can have this one do anything";

/// Where this member answers others, and what it proves there.
#[derive(Debug, PartialEq, Eq)]
struct Entrance {
    address: SocketAddr,
    authority: String,
    certificate: String,
    key: SecretWord,
}

impl Entrance {
    /// As it is to be now; `None` of a member that is in no group, or does not know it yet.
    fn wanted(roll: &CurrentRoll) -> Option<Self> {
        let now = roll.now()?;
        Some(Self {
            address: address(&now.roll, now.roll.members.get(&now.me)?)?,
            authority: now.authority.clone(),
            certificate: now.certificate.clone(),
            key: now.key.clone(),
        })
    }
}

/// Answers other members where they are to be answered, until the end.
pub(in crate::server) async fn attend(app: Arc<App>, ending: watch::Receiver<bool>) {
    let changed = Arc::new(Notify::new());
    let rings = changed.clone();
    app.roll.on_change(move || rings.notify_one());
    let answering = async |entrance: &Entrance, closing: watch::Receiver<bool>| {
        answer(&app, entrance, closing).await;
    };
    keep_open(|| Entrance::wanted(&app.roll), &changed, ending, answering).await;
}

/// Answers there until that is to close.
async fn answer(app: &Arc<App>, entrance: &Entrance, mut closing: watch::Receiver<bool>) {
    let (listener, acceptor) = tokio::select! {
        opened = open(app, entrance) => opened,
        () = has_ended(&mut closing) => return,
    };
    tracing::info!("other members are answered at {}", entrance.address);
    let door = Door::of_all(listener, acceptor);
    let callers = Callers::new(CONNECTIONS_MAX, CONNECTIONS_OF_PLACE_MAX);
    connections::serve(door, routes::carried_router(app.clone()), callers, closing).await;
}

/// Listens, as soon as that can be done.
async fn open(app: &App, entrance: &Entrance) -> (TcpListener, TlsAcceptor) {
    let Entrance { address, authority, certificate, key } = entrance;
    let config = match server_config(Proof { authority, certificate, key }, app.roll.clone()) {
        Ok(config) => config,
        Err(why) => {
            tell(app, &format!("{HARM} at {address}: {why}"));
            // Until it proves something else.
            return pending().await;
        }
    };
    let told = |error: &io::Error| {
        tell(app, &format!("{HARM} at {address}, which is tried again: {error}"));
    };
    (listen(*address, told).await, TlsAcceptor::from(config))
}

/// Has operators hear that nobody listens.
fn tell(app: &App, why: &str) {
    app.logs.events.tell(Event::of_member(Kind::MembersNotAnswered, why));
}
