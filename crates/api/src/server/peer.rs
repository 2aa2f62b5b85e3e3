//! Who asks, and who may.
//!
//! Today there is one rule: who can open the socket is an administrator. The kernel says which user it
//! is; that is written to the log with every change.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::net::UnixStream;

use super::app::App;

/// The process at the other end of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    /// The number of its user; of nobody, if the kernel does not tell.
    pub(super) uid: u32,
    /// Its own number.
    pid: Option<i32>,
}

impl Peer {
    pub(super) fn of(stream: &UnixStream) -> Self {
        match stream.peer_cred() {
            Ok(credentials) => Self { uid: credentials.uid(), pid: credentials.pid() },
            Err(_) => Self { uid: u32::MAX, pid: None },
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}", self.uid)?;
        self.pid.map_or(Ok(()), |pid| write!(f, " (process {pid})"))
    }
}

/// Lets in who may ask, and notes what was changed, by whom and how it ended.
pub(super) async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if let Err(problem) = app.check_not_ending() {
        return problem.into_response();
    }
    let is_change = ![Method::GET, Method::HEAD].contains(request.method());
    let peer = request.extensions().get::<Peer>().copied();
    let (Some(peer), true) = (peer, is_change) else { return next.run(request).await };
    let what = format!("{peer}: {} {}", request.method(), request.uri().path());
    let mut noted = Noted { what, begun: Instant::now(), status: None };
    let response = next.run(request).await;
    noted.status = Some(response.status().as_u16());
    response
}

/// A change that is noted when its request ends, however that is.
struct Noted {
    what: String,
    begun: Instant,
    /// What was answered; nothing to one that has gone away.
    status: Option<u16>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let (what, ms) = (&self.what, self.begun.elapsed().as_millis());
        match self.status {
            Some(status) => tracing::info!("{what}: {status} after {ms} ms"),
            None => tracing::info!("{what}: the asker went away after {ms} ms"),
        }
    }
}
