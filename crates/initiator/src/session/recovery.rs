//! The life of a session: from connection to connection.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use iscsi::discovery::PortalAddress;
use ring::Notify;

use super::Inner;
use crate::address::show;
use crate::answer::until;
use crate::conn::{Connection, Ending, serve};
use crate::login::{LoggedIn, LoginError, Role, log_in};
use crate::options::SessionOptions;

/// How long the own portal of a lost session is tried alone: mostly only the connection broke, and
/// the login that replaces it ends what is in doubt by itself.
const HEAD_START: Duration = Duration::from_millis(300);

/// Portals that a loss is fenced through at once. More of them add logins, not certainty.
const ALTERNATES_MAX: usize = 8;

/// Connections, and what came on each with its login.
pub(super) type Begun = Vec<(Rc<Connection>, Vec<u8>)>;

/// Runs until the session is closed.
pub(super) async fn live(session: Rc<Inner>, begun: Begun) {
    let mut begun = begun;
    loop {
        let first = begun[0].0.clone();
        let ending = serve_all(begun).await;
        session.lost(&ending);
        if session.is_closed() {
            return;
        }
        tracing::warn!("lost the connection to {}: {ending}", session.target);
        let Some(logged_in) = log_in_again(&session, first_pause(&first, &ending)).await else {
            return;
        };
        tracing::info!("logged in to {} again", session.target);
        begun = session.begin(logged_in);
    }
}

/// Serves all connections until the first of them ends, and with it the others; why it did.
async fn serve_all(begun: Begun) -> Ending {
    let conns: Rc<[Rc<Connection>]> = begun.iter().map(|(conn, _)| conn.clone()).collect();
    let (over, bell) = (Rc::new(Cell::new(0)), Rc::new(Notify::new()));
    let why = Rc::new(RefCell::new(None));
    for (conn, early) in begun {
        let (conns, over) = (conns.clone(), over.clone());
        let (bell, why) = (bell.clone(), why.clone());
        ring::spawn(async move {
            let ending = serve(&conn, &early).await;
            why.borrow_mut().get_or_insert(ending);
            conns.iter().for_each(|other| other.end(Ending::Sibling));
            over.set(over.get() + 1);
            bell.notify();
        });
    }
    // Only when the last one has ended nothing more of the nexus leaves.
    until(&bell, || over.get() == conns.len()).await;
    why.take().unwrap_or(Ending::Closed)
}

/// Logs in with the first connection, and with as many others as both sides want. One that does not
/// come about is done without: the target may have none left.
pub(super) async fn log_in_all(
    portal: &PortalAddress,
    role: Role<'_>,
    options: &SessionOptions,
) -> Result<Vec<LoggedIn>, LoginError> {
    let mut options = options.clone();
    options.limits.max_connections = options.connections.into();
    let first = log_in(portal, role, &options).await?;
    // Redirections have been followed, and all connections of a session go to one portal group.
    let (tsih, here) = (first.outcome.tsih, first.portal.clone());
    let allowed = first.outcome.session.max_connections.min(options.connections.into());
    let mut all = vec![first];
    for cid in 1..u16::try_from(allowed).unwrap_or(u16::MAX) {
        match log_in(&here, Role { tsih, cid, ..role }, &options).await {
            Ok(logged_in) => all.push(logged_in),
            Err(error) => {
                tracing::info!("the session has {cid} connections and not {allowed}: {error}");
                break;
            }
        }
    }
    Ok(all)
}

/// DefaultTime2Wait is the target's wish after an unexpected end (RFC 7143 13.15).
fn first_pause(conn: &Connection, ending: &Ending) -> Duration {
    match ending {
        Ending::LoggedOut => conn.session.options.backoff_min,
        _ => Duration::from_secs(conn.terms.default_time2wait_s.into()),
    }
}

/// Tries until it works; `None` when the session was closed meanwhile. What is in doubt is fenced
/// through other portals as soon as the own one has not answered for a moment.
async fn log_in_again(session: &Rc<Inner>, first_pause: Duration) -> Option<Vec<LoggedIn>> {
    let mut pause = first_pause;
    let mut backoff = session.options.backoff_min;
    loop {
        if is_closed_within(session, pause).await {
            return None;
        }
        let role = Role::first(Some(&session.target), session.isid);
        let mut attempt = pin!(log_in_all(&session.portal, role, &session.options));
        let attempt = match ring::timeout(HEAD_START, attempt.as_mut()).await {
            Some(over) => over,
            None => {
                fence_elsewhere(session);
                attempt.await
            }
        };
        if session.is_closed() {
            return None;
        }
        match attempt {
            Ok(logged_in) => return Some(logged_in),
            Err(error) => note(session, &error),
        }
        fence_elsewhere(session);
        pause = backoff;
        backoff = (backoff * 2).min(session.options.backoff_max);
    }
}

fn note(session: &Inner, error: &LoginError) {
    let text = error.to_string();
    // Once per kind of trouble, not once per attempt.
    if *session.last_trouble.borrow() != text {
        tracing::warn!("{}: {text}", session.target);
        *session.last_trouble.borrow_mut() = text;
    }
}

async fn is_closed_within(session: &Inner, time: Duration) -> bool {
    ring::timeout(time, until(&session.changed, || session.is_closed())).await;
    session.is_closed()
}

/// Ends the lost nexus by a login of the same name through another portal of its group: through all
/// of them at once, until the first one is in. The login is given up at once: this session belongs to
/// its own portal.
fn fence_elsewhere(session: &Rc<Inner>) {
    let is_due = session.fenced.get() < session.losses.get();
    // What is in doubt after a move belongs to several nexuses: only a reset ends them all.
    if !is_due || session.has_moved.get() || session.fences.get() > 0 {
        return;
    }
    let loss = session.losses.get();
    for portal in session.options.alternates.iter().take(ALTERNATES_MAX) {
        let (session, portal) = (session.clone(), portal.clone());
        session.fences.set(session.fences.get() + 1);
        ring::spawn(async move {
            let mut login = pin!(fence_through(&session, &portal));
            let mut changed = pin!(session.changed_from(loss));
            poll_fn(|cx| match login.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => changed.as_mut().poll(cx),
            })
            .await;
            session.fences.set(session.fences.get() - 1);
        });
    }
}

async fn fence_through(session: &Inner, portal: &PortalAddress) {
    // The port of this host that the session belongs to may be what is broken.
    let options = SessionOptions { local: None, ..session.options.clone() };
    let role = Role::first(Some(&session.target), session.isid);
    let loss = session.losses.get();
    let Ok(logged_in) = log_in(portal, role, &options).await else { return };
    let group = session.group_tag.get();
    if group.is_some() && logged_in.outcome.portal_group_tag == group {
        tracing::info!("{}: the lost session has ended, through {}", session.target, show(portal));
        session.set_fenced(loss);
    }
}
