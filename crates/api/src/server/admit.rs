//! Who may: each request is let in here, or it is refused.
//!
//! Who can open the socket is an administrator; the kernel says which user it is. Over TLS each request
//! proves who asks, and what that may do is held against the least role of the route
//! ([`roles`](super::roles)). Changes are written to the log and the audit log, with who asked for them, and so
//! is who was refused.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use group::accounts::Role;
use member::TokenRequest;
use member::audit::{Actor, AuditLog, Change};

use super::app::App;
use super::held::UntilRevoked;
use super::login::Login;
use super::peer::Peer;
use super::roles;
use crate::problem::{Code, Problem};

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    peer: Peer,
    /// Who has logged in; nobody has to at the socket.
    login: Option<Login>,
}

impl Caller {
    /// What tells one that asks from another, whatever connection it uses.
    pub(super) fn owner(&self) -> String {
        match (&self.login, self.peer) {
            (Some(login), _) => login.to_string(),
            (None, Peer::Process { uid, .. }) => format!("user {uid}"),
            (None, Peer::Remote(_)) => self.peer.to_string(),
        }
    }

    /// As the audit log has it.
    fn actor(&self) -> Actor {
        let login = self.login.as_ref().map(Login::to_string);
        Actor { account: login, ..self.peer.actor() }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.login {
            Some(login) => write!(f, "{login} from {}", self.peer),
            None => self.peer.fmt(f),
        }
    }
}

/// Lets in who may ask, and notes what was changed, by whom and how it ended.
pub(super) async fn admit(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = app.check_not_ending() {
        return problem.into_response();
    }
    let least = least_role(&request);
    let peer = request.extensions().get::<Peer>().copied();
    let (method, headers) = (request.method(), request.headers());
    let caller = match identify(&app, peer, method, headers, least).await {
        Ok(caller) => caller,
        Err(problem) => {
            let from = peer.map(Peer::place).unwrap_or_default();
            app.logs.audit.refused(&from, request.uri().path(), &problem.detail);
            return problem.into_response();
        }
    };
    request.extensions_mut().insert(caller.clone());
    let response = if is_change(request.method()) {
        let mut noted = Noted::new(&caller, &request, app.logs.audit.clone());
        let response = next.run(request).await;
        noted.status = Some(response.status().as_u16());
        response
    } else {
        next.run(request).await
    };
    match caller.login {
        Some(login) if is_stream(response.headers()) => {
            response.map(|body| UntilRevoked::body(body, app, login, least))
        }
        _ => response,
    }
}

fn is_change(method: &Method) -> bool {
    ![Method::GET, Method::HEAD].contains(method)
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}

/// The least role that a request needs. Where there is nothing, anybody who has logged in may hear so.
fn least_role(request: &Request) -> Role {
    let path = request.extensions().get::<MatchedPath>();
    path.map_or(Role::ReadOnly, |path| roles::least(request.method(), path.as_str()))
}

async fn identify(
    app: &App,
    peer: Option<Peer>,
    method: &Method,
    headers: &HeaderMap,
    least: Role,
) -> Result<Caller, Problem> {
    let peer = peer.ok_or_else(|| Problem::new(Code::Failed, "nobody knows who asks"))?;
    let Peer::Remote(from) = peer else { return Ok(Caller { peer, login: None }) };
    let logins = app.logins();
    let (login, role) = app.doorkeeper.identify(&logins, from, headers).await?;
    if let Login::Token(name, _) = &login
        && app.doorkeeper.is_to_note(&logins, name)
    {
        // Whether that could be stored is in the log of the member.
        drop(app.begin(member::Request::Token(TokenRequest::Used { name: name.clone() })));
    }
    if role < least {
        let sentence = format!(
            "this needs the role {least}, and {login} has {role}: log in as somebody who has it"
        );
        return Err(Problem::new(Code::Forbidden, sentence));
    }
    check_origin(method, headers)?;
    Ok(Caller { peer, login: Some(login) })
}

/// Refuses changes that a page of another origin has a browser send, which may know a password.
fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(ORIGIN).filter(|_| is_change(method)) else {
        return Ok(());
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if origin.as_bytes() == format!("https://{host}").as_bytes() {
        return Ok(());
    }
    let sentence = "a page of another origin may not change anything: ask from a page of this member, or from \
                    a program";
    Err(Problem::new(Code::Forbidden, sentence))
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

impl Noted {
    fn new(caller: &Caller, request: &Request, audit: AuditLog) -> Self {
        let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let change = Change {
            who: caller.actor(),
            from: caller.peer.place(),
            operation: format!("{} {route}", request.method()).trim_end().to_owned(),
            path: request.uri().path().to_owned(),
            done: false,
            outcome: String::new(),
        };
        let what = format!("{caller}: {} {}", request.method(), request.uri().path());
        Self { what, begun: Instant::now(), status: None, change, audit }
    }
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
