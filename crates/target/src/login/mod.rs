//! From an accepted socket to a connection in full-feature phase.

mod admission;
mod env;
mod exchange;
mod place;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use iscsi::login::{LoginClaim, LoginRefusal};
use ring::Stream;
use ring::wait::{Either, first};

use crate::audit::{Happened, Who};
use crate::datamover::Ends;
use crate::doors;
use crate::quiet::{LOGIN, quietly};
use crate::shared::Shared;

pub(crate) use admission::Admission;
use env::Room;

/// Logs a connection in and serves it to its end, on this core or, when it joins a session of
/// another, there. `login` is this one among those under way.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    stream: Stream,
    peer: SocketAddr,
    admission: Admission,
    mut login: doors::Passing,
) {
    let Ok(local) = stream.local_addr() else { return };
    let ends = Ends { peer, local };
    let exchange = exchange::run(shared, &stream, ends, Room::There);
    let exchange = ring::timeout(shared.limits.login_timeout, exchange);
    let logged_in = match first(exchange, &mut login.turned_away).await {
        Either::Left(logged_in) => logged_in,
        Either::Right(_) => {
            quietly!(LOGIN, warn, "closed a connection from {peer}: newer ones want to log in");
            return;
        }
    };
    match logged_in {
        Some(Ok(accepted)) => place::settle(shared, stream, ends, admission, login, accepted).await,
        Some(Err(exchange::Failed::Refused(refusal @ LoginRefusal::Moved { .. }, _))) => {
            tracing::debug!("{peer} was sent elsewhere: {refusal}");
        }
        Some(Err(exchange::Failed::Refused(refusal, claim))) => {
            quietly!(LOGIN, warn, "refused a login from {peer}: {refusal}");
            tell_refused(shared, ends, &refusal, claim);
        }
        Some(Err(exchange::Failed::Frame(error))) => {
            quietly!(LOGIN, warn, "closed a connection from {peer} during login: {error}");
        }
        Some(Err(exchange::Failed::Io)) => tracing::debug!("{peer} went away during login"),
        None => {
            let limit_s = shared.limits.login_timeout.as_secs();
            quietly!(LOGIN, warn, "closed a connection from {peer}: no login in {limit_s} s");
        }
    }
}

/// How long a host that cannot come in has to ask for it.
const REFUSAL_TIME: Duration = Duration::from_secs(2);

/// Answers a login with the word that there is no room.
pub(crate) async fn refuse(shared: &Arc<Shared>, stream: Stream, peer: SocketAddr) {
    let Ok(local) = stream.local_addr() else { return };
    let ends = Ends { peer, local };
    let exchange = exchange::run(shared, &stream, ends, Room::None);
    // Whatever comes of it, the connection ends here.
    if let Some(Err(exchange::Failed::Refused(refusal, claim))) =
        ring::timeout(REFUSAL_TIME, exchange).await
    {
        tell_refused(shared, ends, &refusal, claim);
    }
}

/// For the record. Whoever is sent elsewhere is not refused.
fn tell_refused(shared: &Shared, ends: Ends, refusal: &LoginRefusal, claim: LoginClaim) {
    if !matches!(refusal, LoginRefusal::Moved { .. }) {
        shared.feed.push(|| Happened::Refused {
            who: Who::claiming(claim, ends),
            why: refusal.into(),
            reason: refusal.to_string(),
        });
    }
}
