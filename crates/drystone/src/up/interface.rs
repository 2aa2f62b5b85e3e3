//! The interface of a member, at its socket and over TLS.

use crate::advice::{Advised, events};
use crate::cli::up::ApiArgs;
use crate::os::files;
use anyhow::Context;
use api::server::{CONNECTIONS_MAX, Config, Identity, Notifications, Server, Tls};
use api::types::Event as ShownEvent;
use member::events::{Event, EventLog, Kind};
use member::lock::LockFile;
use member::{Life, Logs, Record};
use notify::{Notifier, Sender};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// What the member needs to be managed over TLS; `None` if that was not asked for.
///
/// # Errors
/// An address cannot be had, or the certificate cannot be used or made.
pub(super) fn tls(args: &ApiArgs, data: &Path) -> anyhow::Result<Option<Tls>> {
    if args.api_listen.is_empty() {
        return Ok(None);
    }
    let identity = match args.api_certificate.as_ref().zip(args.api_key.as_ref()) {
        Some((certificate, key)) => Identity::load(certificate, key)?,
        None => {
            let listens: Vec<IpAddr> = args.api_listen.iter().map(SocketAddr::ip).collect();
            Identity::load_or_make(data, &listens)?
        }
    };
    let listen = |address: &SocketAddr| {
        TcpListener::bind(address)
            .with_context(|| format!("cannot listen on {address}, write another with --api-listen"))
    };
    let listeners = args.api_listen.iter().map(listen).collect::<anyhow::Result<_>>()?;
    Ok(Some(Tls { listeners, identity }))
}

/// The same, or in a sentence why there is none, which is told: hosts are served all the same.
pub(super) fn tls_or_why(
    args: &ApiArgs,
    data: &Path,
    events: &EventLog,
) -> Result<Option<Tls>, String> {
    tls(args, data).map_err(|error| {
        let why = format!(
            "{error:#}: hosts are served, but the member is not managed over TLS until it is started again with what \
             is right"
        );
        events.tell(Event::of_member(Kind::NotManagedOverTls, why.clone()));
        why
    })
}

/// Sends events on from now on; without a thread for it, none are.
pub(super) fn notify(life: &Life, data: PathBuf, logs: &Logs) -> Option<Notifier> {
    let (events, audit) = (logs.events.clone(), logs.audit.clone());
    let destinations = life.destinations();
    let config = notify::Config { data, events, audit, destinations, sender: sender() };
    let started = Notifier::start(config);
    started.inspect_err(|error| tracing::error!("no events are sent on: {error}")).ok()
}

/// Who sends events on, as the interface shows them.
fn sender() -> Sender {
    let json = |record: &Record<Event>| ShownEvent::json(record, events::advice(&record.what));
    Sender::new(env!("CARGO_PKG_VERSION"), events::advice, json)
}

/// Takes requests at `socket`, and over TLS.
pub(super) fn answer_at(
    life: &Life,
    socket: &Path,
    logs: &Logs,
    notifier: Option<&Notifier>,
    tls: Result<Option<Tls>, String>,
) -> anyhow::Result<Server> {
    let statuses = notifier.map(Notifier::statuses).unwrap_or_default();
    let config = Config {
        socket: socket.to_owned(),
        connections_max: files::control_connections(CONNECTIONS_MAX),
        sentence: |error| error.sentence(),
        logs: logs.clone(),
        advice: events::advice,
        notifications: Notifications {
            destinations: life.destinations(),
            statuses,
            sender: sender(),
        },
        tls,
        door: life.door(),
        roll: life.roll(),
        group_address: life.group_address(),
    };
    Server::start(config, life.remote())
        .with_context(|| format!("cannot make the control socket '{}'", socket.display()))
}

/// Takes no more requests, and has those under way answered. The lock of the socket is left.
pub(super) fn hang_up(interface: Option<(Server, LockFile)>, life: &Life) -> Option<LockFile> {
    if let Err(error) = life.with(|member| async move { member.stops() }) {
        tracing::warn!("{error}");
    }
    let (server, lock) = interface?;
    server.stop();
    Some(lock)
}
