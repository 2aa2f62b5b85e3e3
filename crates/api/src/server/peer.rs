//! Who asks, and who may.
//!
//! Today there is one rule: who can open the socket is an administrator. The kernel says which user it
//! is; that is written to the log and the audit log with every change.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use member::audit::{Actor, AuditLog, Change};
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

impl Peer {
    fn actor(self) -> Actor {
        let users = fs::read_to_string(USERS).unwrap_or_default();
        let user = user_in(&users, self.uid);
        Actor { uid: Some(self.uid), user, pid: self.pid, ..Actor::default() }
    }
}

/// Where those come from who ask at the socket.
const SOCKET: &str = "control socket";

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
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let change = Change {
        who: peer.actor(),
        from: SOCKET.to_owned(),
        operation: format!("{} {route}", request.method()).trim_end().to_owned(),
        path: request.uri().path().to_owned(),
        done: false,
        outcome: String::new(),
    };
    let what = format!("{peer}: {} {}", request.method(), request.uri().path());
    let audit = app.logs.audit.clone();
    let mut noted = Noted { what, begun: Instant::now(), status: None, change, audit };
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
    change: Change,
    audit: AuditLog,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let (what, ms) = (&self.what, self.begun.elapsed().as_millis());
        let outcome = match self.status {
            Some(status) => format!("{status} after {ms} ms"),
            None => format!("the asker went away after {ms} ms"),
        };
        tracing::info!("{what}: {outcome}");
        let done = self.status.is_some_and(|status| (200..300).contains(&status));
        self.audit.change(Change { done, outcome, ..self.change.clone() });
    }
}

/// Where the names of users stand.
const USERS: &str = "/etc/passwd";

/// The name of a user in the words of [`USERS`]: name, password, number, and more.
fn user_in(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut words = line.split(':');
        let name = words.next()?;
        let is_it = words.nth(1)?.parse() == Ok(uid);
        is_it.then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_name_that_its_number_stands_behind() {
        let users = "root:x:0:0:root:/root:/bin/sh\n#\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(user_in(users, 1000).as_deref(), Some("ada"));
        assert_eq!((user_in(users, 0).as_deref(), user_in(users, 100)), (Some("root"), None));
    }
}
