//! The life of a session: from connection to connection.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use iscsi::discovery::PortalAddress;
use ring::wait::Bell;

use super::connection::{Connection, Ending};
use super::serve::serve;
use super::{Inner, Session, management};
use crate::address::show;
use crate::login::{LoggedIn, LoginError, Role, can_connect, log_in};
use crate::options::{SessionOptions, share_of};

/// How long the own portal of a lost session is tried alone: mostly only the connection broke.
const HEAD_START: Duration = Duration::from_millis(100);

/// The same for a session that is lost again soon after it was back. Each login ends what another one of the same
/// ISID has begun (RFC 7143 6.3.5), so one that lost the race, and was on its way, may end the winner;
/// where logins take long, that must not go on.
const HEAD_START_AGAIN: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(5);

/// Between the beginnings of two logins through other portals, for the same reason.
const STAGGER: Duration = Duration::from_millis(50);

/// Portals that are tried beside the own one. More of them add logins, not certainty.
const ALTERNATES_MAX: usize = 8;

/// How often a session that lives at another portal looks whether it can go back to its own; twice as
/// long after each time that the own portal took its connection and did not let it in.
const HOME_LOOK: Duration = Duration::from_secs(10);
const HOME_DOUBLINGS_MAX: u32 = 6;

/// The longest pause before the first attempt. When a switch dies under hundreds of hosts, all of
/// their sessions look for another way at one moment.
const SPREAD: Duration = Duration::from_millis(100);

/// The longest pause where the target refuses the login for good, by a status of class 2 (RFC 7143 11.13.5).
const FINAL_BACKOFF: Duration = Duration::from_secs(30);

/// Whether a login has failed since the session had its last connection.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    is_there: Cell<bool>,
    bell: Bell,
}

impl Refusal {
    fn set(&self) {
        self.is_there.set(true);
        self.bell.ring();
    }

    /// There is a connection.
    pub(super) fn clear(&self) {
        self.is_there.set(false);
    }
}

impl Session {
    /// Waits until a login has failed since the session had its last connection.
    pub(crate) async fn until_refused(&self) {
        let refusal = &self.inner().refusal;
        refusal.bell.until(|| refusal.is_there.get()).await;
    }
}

/// How a session was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// As it is meant to be.
    Own,
    /// Through another portal of the same group.
    Other(PortalAddress),
}

/// Connections, and what came on each with its login.
pub(super) type Begun = Vec<(Rc<Connection>, Vec<u8>)>;

/// Runs until the session is closed.
pub(super) async fn live(session: Rc<Inner>, begun: Begun) {
    let mut begun = begun;
    loop {
        let (first, is_home) = (begun[0].0.clone(), session.is_home());
        let ending = serve_all(begun).await;
        session.lost(&ending);
        if session.is_closed() {
            return;
        }
        if is_home || ending != Ending::LoggedOut {
            tracing::warn!("lost the connection to {}: {ending}", session.target);
        }
        let Some((logged_in, way)) = log_in_again(&session, first_pause(&first, &ending)).await
        else {
            return;
        };
        match &way {
            Way::Own => {
                session.vain_returns.set(0);
                tracing::info!("logged in to {} again", session.target);
            }
            Way::Other(portal) => {
                tracing::info!("logged in to {} again, through {}", session.target, show(portal));
                ring::spawn(go_home(session.clone()));
            }
        }
        begun = session.begin(logged_in, way);
    }
}

/// Serves all connections until the first of them ends, and with it the others; why it did.
async fn serve_all(begun: Begun) -> Ending {
    let conns: Rc<[Rc<Connection>]> = begun.iter().map(|(conn, _)| conn.clone()).collect();
    let (over, bell) = (Rc::new(Cell::new(0)), Rc::new(Bell::default()));
    let why = Rc::new(RefCell::new(None));
    for (conn, early) in begun {
        let (conns, over) = (conns.clone(), over.clone());
        let (bell, why) = (bell.clone(), why.clone());
        ring::spawn(async move {
            let ending = serve(&conn, &early).await;
            why.borrow_mut().get_or_insert(ending);
            conns.iter().for_each(|other| other.end(Ending::Sibling));
            over.set(over.get() + 1);
            bell.ring();
        });
    }
    // Only when the last one has ended nothing more of the nexus leaves.
    bell.until(|| over.get() == conns.len()).await;
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

/// DefaultTime2Wait is the target's wish after an unexpected end (RFC 7143 13.15). The end was when
/// the target was last heard of, not when that was found out.
fn first_pause(conn: &Connection, ending: &Ending) -> Duration {
    let options = &conn.session.options;
    match ending {
        Ending::LoggedOut => options.backoff_min,
        _ => {
            let wish = Duration::from_secs(conn.terms.default_time2wait_s.into());
            let gone = ring::now().saturating_duration_since(conn.mover.heard_at());
            wish.saturating_sub(gone) + share_of(SPREAD)
        }
    }
}

/// Tries until it works; `None` when the session was closed meanwhile.
async fn log_in_again(session: &Rc<Inner>, first_pause: Duration) -> Option<(Vec<LoggedIn>, Way)> {
    let mut pause = first_pause;
    let mut backoff = session.options.backoff_min;
    loop {
        if is_closed_within(session, pause).await {
            return None;
        }
        let attempt = log_in_somewhere(session).await;
        if session.is_closed() {
            return None;
        }
        let is_final = match attempt {
            Ok(found) => return Some(found),
            Err(error) => {
                note(session, &error);
                error.is_final()
            }
        };
        // Half of it at random: sessions that were lost together do not come together.
        pause = backoff / 2 + share_of(backoff / 2);
        backoff = next_backoff(backoff, is_final, session.options.backoff_max);
    }
}

/// Twice the last one, up to `most`; longer where the target says over and over that it will never let this
/// session in. It may say so while it starts, so not at once.
fn next_backoff(last: Duration, is_final: bool, most: Duration) -> Duration {
    (last * 2).min(if is_final { most.max(FINAL_BACKOFF) } else { most })
}

type Login<'a> = Pin<Box<dyn Future<Output = Result<(Vec<LoggedIn>, Way), LoginError>> + 'a>>;

/// Through the own portal, or where that does not answer at once, through whichever portal of the
/// same group is the first to let it in. Each of these logins ends the lost nexus (RFC 7143 6.3.5).
///
/// # Errors
/// That of the own portal.
async fn log_in_somewhere(session: &Inner) -> Result<(Vec<LoggedIn>, Way), LoginError> {
    let mut own: Login<'_> = Box::pin(async {
        let role = Role::first(Some(&session.target), session.isid);
        let logged_in = log_in_all(&session.portal, role, &session.options).await?;
        Ok((logged_in, Way::Own))
    });
    let mut refused = None;
    let back_at = session.back_at.get();
    let is_again = back_at.is_some_and(|at| ring::now().saturating_duration_since(at) < SOON);
    let head_start = if is_again { HEAD_START_AGAIN } else { HEAD_START };
    match ring::timeout(head_start, own.as_mut()).await {
        Some(Ok(found)) => return Ok(found),
        Some(Err(error)) => refused = Some(error),
        None => {}
    }
    // What is in doubt after a move belongs to several nexuses, and no login ends them all; but it
    // brings the session back.
    let portals = session.options.alternates.iter().take(ALTERNATES_MAX);
    let mut others: Vec<Login<'_>> =
        (0..).zip(portals).map(|(n, at)| through(session, at, STAGGER * n)).collect();
    poll_fn(|cx| {
        if refused.is_none()
            && let Poll::Ready(over) = own.as_mut().poll(cx)
        {
            match over {
                Ok(found) => return Poll::Ready(Ok(found)),
                Err(error) => refused = Some(error),
            }
        }
        let mut found = None;
        others.retain_mut(|login| match login.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(over) => {
                found = found.take().or(over.ok());
                false
            }
        });
        if let Some(found) = found {
            return Poll::Ready(Ok(found));
        }
        match refused.take_if(|_| others.is_empty()) {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    })
    .await
}

/// A login through another portal, after a pause, which counts if it leads to the portal group of the
/// session: in any other one it is another nexus.
fn through<'a>(session: &'a Inner, portal: &'a PortalAddress, pause: Duration) -> Login<'a> {
    Box::pin(async move {
        ring::sleep(pause).await;
        // The port of this host that the session belongs to may be what is broken.
        let options = SessionOptions { local: None, ..session.options.clone() };
        let role = Role::first(Some(&session.target), session.isid);
        let logged_in = log_in_all(portal, role, &options).await?;
        let group = session.group_tag.get();
        match group.is_some() && logged_in[0].outcome.portal_group_tag == group {
            true => Ok((logged_in, Way::Other(portal.clone()))),
            false => Err(LoginError::AnotherGroup { portal: show(portal) }),
        }
    })
}

/// Takes a session back to its own portal once that can be reached, in order: the commands under way
/// end first.
async fn go_home(session: Rc<Inner>) {
    let losses = session.losses.get();
    let is_over = || session.is_closed() || session.losses.get() != losses;
    let look = HOME_LOOK * 2_u32.pow(session.vain_returns.get());
    loop {
        let pause = look + share_of(look / 2);
        if ring::timeout(pause, session.changed.until(is_over)).await.is_some() {
            return;
        }
        if can_connect(&session.portal, &session.options).await
            && let Some(conn) = session.first_usable()
            && !is_over()
        {
            let vain = session.vain_returns.get() + 1;
            session.vain_returns.set(vain.min(HOME_DOUBLINGS_MAX));
            return management::leave(conn, HOME_LOOK).await;
        }
    }
}

fn note(session: &Inner, error: &LoginError) {
    session.refusal.set();
    if session.has_left.replace(false) {
        session.changed.ring();
    }
    let text = error.to_string();
    // Once per kind of trouble, not once per attempt.
    if *session.last_trouble.borrow() != text {
        tracing::warn!("{}: {text}", session.target);
        *session.last_trouble.borrow_mut() = text;
    }
}

async fn is_closed_within(session: &Inner, time: Duration) -> bool {
    ring::timeout(time, session.changed.until(|| session.is_closed())).await;
    session.is_closed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_for_good_asks_less_and_less_often() {
        let most = Duration::from_secs(2);
        let pauses = |is_final| {
            let next = |last: &Duration| Some(next_backoff(*last, is_final, most));
            let all = std::iter::successors(Some(Duration::from_millis(250)), next);
            all.take(10).map(|pause| pause.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(false)[..5], [250, 500, 1000, 2000, 2000]);
        assert_eq!(pauses(true)[..8], [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000]);
        assert_eq!(next_backoff(Duration::from_secs(30), false, most), most);
    }
}
