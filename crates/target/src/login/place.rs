//! The place of a connection: a new session, the successor of one that ends, or one more connection
//! of a session, which may live on another core (RFC 7143 §6.3.1 to §6.3.6).

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use iscsi::login::{SessionDecision, SessionType};
use iscsi::pdu::LoginStatus;
use ring::Stream;

use super::exchange::{self, Accepted, describe};
use super::{Admission, Ends};
use crate::conn::{self, Connection, Ending};
use crate::doors;
use crate::quiet::{LOGIN, SESSION, quietly};
use crate::session::{Residence, Session, SessionKey};
use crate::shared::Shared;
use crate::targets::Found;

/// How often a login tries to end the session before it; each try ends one.
const REINSTATEMENTS_MAX: u32 = 4;

/// Brings an accepted connection to its session and serves it to its end.
pub(super) async fn settle(
    shared: &Arc<Shared>,
    stream: Stream,
    ends: Ends,
    admission: Admission,
    login: doors::Login,
    accepted: Accepted,
) {
    // It has said who it is: from now on it keeps none out that has not.
    drop(login);
    let outcome = &accepted.outcome;
    let Some(name) = &outcome.target_name else {
        let session = Rc::new(Session::new(shared.clone(), None, outcome));
        crate::core::remember_session(&session);
        limit_discovery(&session);
        return begin(session, stream, ends, accepted).await;
    };
    let key = SessionKey {
        target: name.as_str().into(),
        initiator: outcome.initiator_name.as_str().into(),
        isid: outcome.isid,
    };
    if !matches!(outcome.decision, SessionDecision::Join { .. }) {
        let Found::Served(target) = shared.targets.find(name.as_str()) else { return };
        let reserved = reserve(shared, &key, &accepted).await;
        if let Err(why) = reserved {
            let who = describe(outcome, ends.peer);
            quietly!(LOGIN, warn, "{who} cannot log in: {why}");
            refuse(&stream, accepted).await;
        } else {
            // Who takes the target away marks it first and then ends the sessions of each core: it
            // finds this one there, or is seen here.
            if target.is_closing() {
                return shared.registry.remove(&key, outcome.tsih);
            }
            let session = Rc::new(Session::new(shared.clone(), Some(target), outcome));
            crate::core::remember_session(&session);
            begin(session, stream, ends, accepted).await;
        }
        return;
    }
    let home = shared.registry.find(&key).filter(|residence| residence.tsih == outcome.tsih);
    let Some(home) = home else { return }; // the session has just ended
    if home.core == ring::core_id() {
        return join(stream, ends, accepted).await;
    }
    move_to(shared, home.core, stream, ends, admission, accepted);
}

/// A discovery session is there for a few questions.
fn limit_discovery(session: &Rc<Session>) {
    let session = session.clone();
    ring::spawn(async move {
        let time = session.shared.limits.discovery_time;
        if ring::timeout(time, session.wait_ended()).await.is_none() {
            session.end(&Ending::SessionEnded);
        }
    });
}

/// Answers a login that had been accepted with the word that it cannot be served now (RFC 7143
/// §11.13.5).
async fn refuse(stream: &Stream, accepted: Accepted) {
    let mut header = accepted.header;
    // No transit, no text, no session.
    header[1] &= !0x80;
    header[5..8].fill(0);
    header[14..16].fill(0);
    header[36..38].copy_from_slice(&LoginStatus::SERVICE_UNAVAILABLE.0.to_be_bytes());
    drop(exchange::send(stream, &header, &[]).await);
}

/// Enters a new session into the registry, after the one in its place has ended, for which a hung
/// disk may let it wait: not for ever, and only the newest login of each initiator port.
async fn reserve(
    shared: &Arc<Shared>,
    key: &SessionKey,
    accepted: &Accepted,
) -> Result<(), &'static str> {
    let outcome = &accepted.outcome;
    let mut wait = None;
    let deadline = ring::now() + shared.limits.login_timeout;
    for _ in 0..REINSTATEMENTS_MAX {
        let residence = Residence {
            tsih: outcome.tsih,
            core: ring::core_id(),
            params: outcome.session,
            cids: vec![outcome.cid],
        };
        if shared.registry.insert(key, residence) {
            return Ok(());
        }
        let Some(old) = shared.registry.find(key) else { continue };
        quietly!(SESSION, info, "{} is reinstated: its session before ends", key.initiator);
        let home: usize = old.core.into();
        let Some(core) = shared.cores().get(home).cloned() else { break };
        let close = move || crate::core::close_session(old.tsih, Ending::SessionEnded);
        let closed = pin!(crate::core::on_cores(vec![core], close));
        let wait = wait.get_or_insert_with(|| shared.registry.wait(key));
        let left = deadline.saturating_duration_since(ring::now());
        match ring::timeout(left, select(closed, &mut wait.replaced)).await {
            Some(Either::Left(_)) => {}
            Some(Either::Right(_)) => return Err("a newer login takes its place"),
            None => return Err("its session before does not end, as a disk does not answer"),
        }
    }
    Err("it logs in faster than its sessions end")
}

/// Hands the connection to the core of its session.
fn move_to(
    shared: &Arc<Shared>,
    home: ring::CoreId,
    stream: Stream,
    ends: Ends,
    mut admission: Admission,
    accepted: Accepted,
) {
    let Ok(fd) = stream.into_fd() else { return };
    let core: usize = home.into();
    admission.move_to(core);
    let Some(remote) = shared.cores().get(core) else { return };
    remote.run(move || {
        ring::spawn(async move {
            let _admission = admission;
            join(Stream::from_fd(fd), ends, accepted).await;
        });
    });
}

/// Joins a session of this core. A connection of the same CID makes room first (connection
/// reinstatement, RFC 7143 §6.3.4).
async fn join(stream: Stream, ends: Ends, accepted: Accepted) {
    let Some(session) = crate::core::session(accepted.outcome.tsih) else { return };
    if let Some(old) = session.connection(accepted.outcome.cid) {
        old.end(Ending::Replaced);
        session.wait_without(&old).await;
    }
    // Others may have joined, or the session may have ended, since the login was accepted.
    let connections_max = session.params.max_connections as usize;
    if session.is_closing() || session.connections().len() >= connections_max {
        return;
    }
    begin(session, stream, ends, accepted).await;
}

/// Sends the last login response and enters full-feature phase.
async fn begin(session: Rc<Session>, stream: Stream, ends: Ends, accepted: Accepted) {
    let Accepted { outcome, mut header, data, rest } = accepted;
    let (exp_cmd_sn, max_cmd_sn) = session.window_edges();
    // A joining connection learns the window as it is now (ExpCmdSN and MaxCmdSN, 11.13).
    header[28..32].copy_from_slice(&exp_cmd_sn.to_be_bytes());
    header[32..36].copy_from_slice(&max_cmd_sn.to_be_bytes());
    let conn = Rc::new(Connection::new(stream, ends, session.clone(), &outcome));
    session.add_connection(conn.clone());
    if outcome.session_type == SessionType::Normal {
        let who = describe(&outcome, ends.peer);
        quietly!(SESSION, info, "{who} logged in to session {}", outcome.tsih);
    }
    conn.push_login_response(&header, &data);
    conn::serve(conn, rest).await;
}
