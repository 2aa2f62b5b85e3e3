//! The interface of a member, at its socket.

use crate::advice::{Advised, events};
use crate::os::files;
use anyhow::Context;
use api::server::{CONNECTIONS_MAX, Config, Server};
use member::lock::LockFile;
use member::{Life, Logs};
use std::path::Path;

/// Takes requests at `socket`.
pub(super) fn answer_at(life: &Life, socket: &Path, logs: &Logs) -> anyhow::Result<Server> {
    let config = Config {
        socket: socket.to_owned(),
        connections_max: files::control_connections(CONNECTIONS_MAX),
        sentence: |error| error.sentence(),
        logs: logs.clone(),
        advice: events::advice,
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
