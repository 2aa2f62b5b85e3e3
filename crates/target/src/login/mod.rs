//! From an accepted socket to a connection in full-feature phase.

mod admission;
mod env;
mod exchange;
mod place;

use std::net::SocketAddr;
use std::sync::Arc;

use ring::Stream;

use crate::quiet::{LOGIN, quietly};
use crate::shared::{Counted, Shared};

pub(crate) use admission::Admission;
pub(crate) use env::auth_policy;

/// Where a connection comes from and came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Logs a connection in and serves it to its end, on this core or, when it joins a session of
/// another, there. `login` counts logins under way.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    stream: Stream,
    peer: SocketAddr,
    admission: Admission,
    login: Counted,
) {
    let Ok(local) = stream.local_addr() else { return };
    let ends = Ends { peer, local };
    let logged_in =
        ring::timeout(shared.limits.login_timeout, exchange::run(shared, &stream, ends)).await;
    match logged_in {
        Some(Ok(accepted)) => place::settle(shared, stream, ends, admission, login, accepted).await,
        Some(Err(exchange::Failed::Refused(refusal))) => {
            quietly!(LOGIN, warn, "refused a login from {peer}: {refusal}");
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
