//! The life of a session: from connection to connection.

use std::rc::Rc;
use std::time::Duration;

use super::Inner;
use crate::answer::until;
use crate::conn::{Connection, Ending, serve};
use crate::login::{LoggedIn, LoginError, log_in};

/// Runs until the session is closed.
pub(super) async fn live(session: Rc<Inner>, begun: (Rc<Connection>, Vec<u8>)) {
    let (mut conn, mut early) = begun;
    loop {
        let ending = serve(&conn, &early).await;
        session.lost(&ending);
        if session.is_closed() {
            return;
        }
        tracing::warn!("lost the connection to {}: {ending}", session.target);
        let Some(logged_in) = log_in_again(&session, first_pause(&conn, &ending)).await else {
            return;
        };
        tracing::info!("logged in to {} again", session.target);
        (conn, early) = session.begin(logged_in);
    }
}

/// DefaultTime2Wait is the target's wish after an unexpected end (RFC 7143 13.15).
fn first_pause(conn: &Connection, ending: &Ending) -> Duration {
    match ending {
        Ending::LoggedOut => conn.session.options.backoff_min,
        _ => Duration::from_secs(conn.terms.default_time2wait_s.into()),
    }
}

/// Tries until it works; `None` when the session was closed meanwhile.
async fn log_in_again(session: &Inner, first_pause: Duration) -> Option<LoggedIn> {
    let mut pause = first_pause;
    let mut backoff = session.options.backoff_min;
    loop {
        if is_closed_within(session, pause).await {
            return None;
        }
        let attempt =
            log_in(&session.portal, Some(&session.target), session.isid, &session.options).await;
        if session.is_closed() {
            return None;
        }
        match attempt {
            Ok(logged_in) => return Some(logged_in),
            Err(error) => note(session, &error),
        }
        if session.fenced.get() < session.losses.get() {
            fence_elsewhere(session).await;
        }
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

/// Ends the lost nexus by a login of the same name through another portal of its group. The login
/// is given up at once: this session belongs to its own portal.
async fn fence_elsewhere(session: &Inner) {
    if session.has_moved.get() {
        return; // what is in doubt belongs to several nexuses: only a reset ends them all
    }
    for portal in session.options.alternates.iter().filter(|&other| *other != session.portal) {
        let attempt = log_in(portal, Some(&session.target), session.isid, &session.options).await;
        let group = session.group_tag.get();
        let is_same_group = |it: &LoggedIn| group.is_some() && it.outcome.portal_group_tag == group;
        if attempt.is_ok_and(|logged_in| is_same_group(&logged_in)) {
            return session.set_fenced(session.losses.get());
        }
    }
}
