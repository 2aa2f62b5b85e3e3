//! Who may: each request is let in here, or it is refused.
//!
//! Who can open the socket is an administrator; the kernel says which user it is. Over TLS each request
//! proves who asks, and what that may do is held against the least role of the route
//! ([`roles`]). Changes are written to the log and the audit log, with who asked for them, and so
//! is who was refused.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use group::accounts::Role;
use member::TokenRequest;
use member::audit::{Actor, AuditLog, Change, Refused};
use member::events::{Event, Kind};
use member::printable::printable;

use super::app::App;
use super::body;
use super::callers::Seat;
use super::carry::AnsweredBy;
use super::connections::put_out;
use super::held::UntilRevoked;
use super::idempotency::Repeated;
use super::login::Login;
use super::passwords::OF_ACCOUNT;
use super::peer::Peer;
use super::roles;
use crate::problem::{Code, Problem};

pub(super) use super::caller::Caller;

/// Lets in who may ask, and notes what was changed, by whom and how it ended.
pub(super) async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if let Err(problem) = app.check_not_ending() {
        return problem.into_response();
    }
    let least = least_role(&request);
    let (caller, request) = match let_in(&app, request, least).await {
        Ok(let_in) => let_in,
        Err(problem) => return problem.into_response(),
    };
    let response = run(&app, &caller, request, next).await;
    match caller.login() {
        Some(login) if is_stream(response.headers()) => match app.follows_from_afar(login) {
            Ok(place) => {
                let login = login.clone();
                let end = move |app: &App| why_no_more(app, &login, least);
                response.map(|body| UntilRevoked::body(body, app, end, place))
            }
            Err(problem) => problem.into_response(),
        },
        _ => response,
    }
}

/// Has done what one asks for who was let in; a change is noted.
pub(super) async fn run(app: &App, caller: &Caller, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(caller.clone());
    let has_route = request.extensions().get::<MatchedPath>().is_some();
    if !has_route || !is_change(request.method()) {
        return next.run(request).await;
    }
    let noted = Noted::new(caller, &request, app.logs.audit.clone());
    // To its end, also when nobody waits any more: how it ends is noted.
    let work = tokio::spawn(async move {
        let response = next.run(request).await;
        noted.ended(&response);
        response
    });
    let ended = Problem::new(Code::Failed, "the change ended without a result");
    work.await.unwrap_or_else(|_| ended.into_response())
}

/// Why a stream may not be followed any more by this login, which needs this role.
fn why_no_more(app: &App, login: &Login, least: Role) -> Option<Problem> {
    let logins = match app.logins() {
        Ok(logins) => logins,
        Err(problem) => return Some(problem),
    };
    login.role(&logins).is_none_or(|role| role < least).then(|| {
        let sentence = format!("{login} may not follow this any more: log in again");
        Problem::new(Code::NotLoggedIn, sentence)
    })
}

/// Who asks, with the request to go on with. Who is refused is in the audit log.
async fn let_in(app: &App, request: Request, least: Role) -> Result<(Caller, Request), Problem> {
    let peer = request.extensions().get::<Peer>().copied();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let named = app.logins().ok().and_then(|it| Login::named(&it, request.headers()));
    let let_in = match identify(app, peer, &method, request.headers(), least).await {
        Ok(caller) => still_admitted(app, caller, request, least).await,
        Err(problem) => Err(problem),
    };
    if let (Err(problem), Some(account)) = (&let_in, &named)
        && problem.detail == OF_ACCOUNT
    {
        let text = format!(
            "logins of {account} are turned away, the last from {}: as many as may be at once are under way",
            peer.map(Peer::place).unwrap_or_default()
        );
        // Names are claims, and a stranger has as many as he likes.
        let event = Event::of_member(Kind::LoginsTurnedAway, text).of_peers("logins turned away");
        app.logs.events.tell(event);
    }
    if let Err(problem) = &let_in
        && is_refusal(problem.code)
    {
        app.logs.audit.refused(Refused {
            who: Actor { account: named, ..Actor::default() },
            from: peer.map(Peer::place).unwrap_or_default(),
            operation: format!("{method} {path}"),
            reason: problem.code.word().to_owned(),
            sentence: problem.detail.clone(),
        });
    }
    let_in
}

/// Whether it is about who asks: what did not come, or in no form that reads, is another matter.
fn is_refusal(code: Code) -> bool {
    matches!(code, Code::NotLoggedIn | Code::Forbidden | Code::TooManyTries)
}

/// What a change holds may come long after its head: whoever sent it is judged once more when it is here, and
/// makes room for others as long as it is not.
async fn still_admitted(
    app: &App,
    caller: Caller,
    request: Request,
    least: Role,
) -> Result<(Caller, Request), Problem> {
    let (mut parts, mut sent) = request.into_parts();
    let seat = parts.extensions.remove::<Arc<Seat>>();
    let Some(login) = caller.login().cloned() else {
        return Ok((caller, Request::from_parts(parts, sent)));
    };
    let has_route = parts.extensions.get::<MatchedPath>().is_some();
    if has_route && is_change(&parts.method) {
        seat.iter().for_each(|seat| seat.falls_silent());
        sent = Body::from(body::read(&parts, sent).await?);
        if !seat.iter().all(|seat| seat.asks()) {
            return Err(put_out());
        }
        if login.role(&*app.logins()?).is_none_or(|role| role < least) {
            let sentence = format!("{login} may not do this any more: log in again");
            return Err(Problem::new(Code::NotLoggedIn, sentence));
        }
    }
    if !seat.iter().all(|seat| seat.asks_as(&login.identity())) {
        let sentence = format!(
            "{login} has as many requests under way as one may have at once: try again when some have ended"
        );
        return Err(Problem::new(Code::TooBusy, sentence));
    }
    Ok((caller, Request::from_parts(parts, sent)))
}

pub(super) fn is_change(method: &Method) -> bool {
    ![Method::GET, Method::HEAD].contains(method)
}

pub(super) fn is_stream(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}

/// The least role that a request needs. Where there is nothing, anybody who has logged in may hear so.
pub(super) fn least_role(request: &Request) -> Role {
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
    let from = match peer {
        Peer::Process { .. } => return Ok(Caller::at_socket(peer)),
        Peer::Remote(from) => from,
        Peer::Member { .. } => {
            let sentence = "a member asks where members do not";
            return Err(Problem::new(Code::Failed, sentence));
        }
    };
    let logins = app.logins()?;
    let (login, role) = app.doorkeeper.identify(&logins, from, headers).await?;
    if let Some(name) = app.doorkeeper.to_note(&logins, &login) {
        // Whether that could be stored is in the log of the member.
        drop(app.begin(member::Request::Token(TokenRequest::Used { name: name.to_owned() })));
    }
    if app.doorkeeper.is_to_record(&login, from) {
        let who = Actor { account: Some(login.to_string()), ..Actor::default() };
        app.logs.audit.logged_in(who, &peer.place(), role.word());
    }
    if role < least {
        let sentence = format!(
            "this needs the role {least}, and {login} has {role}: log in as somebody who has it"
        );
        return Err(Problem::new(Code::Forbidden, sentence));
    }
    check_origin(method, headers)?;
    Ok(Caller::logged_in(peer, login, role))
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
    /// What was answered; nothing where the work broke off.
    status: Option<StatusCode>,
    /// Nothing was done, and it was noted when it was.
    is_repeated: bool,
    /// The other member that has answered, if one has.
    answered_by: Option<AnsweredBy>,
    change: Change,
    audit: AuditLog,
}

impl Noted {
    fn new(caller: &Caller, request: &Request, audit: AuditLog) -> Self {
        let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let change = Change {
            who: caller.actor(),
            from: caller.place(),
            operation: format!("{} {route}", request.method()).trim_end().to_owned(),
            path: request.uri().path().to_owned(),
            done: false,
            outcome: String::new(),
        };
        let path = printable(request.uri().path());
        let what = format!("{caller}: {} {path}", request.method());
        Self {
            what,
            begun: Instant::now(),
            status: None,
            is_repeated: false,
            answered_by: None,
            change,
            audit,
        }
    }

    fn ended(mut self, response: &Response) {
        self.status = Some(response.status());
        self.is_repeated = response.extensions().get::<Repeated>().is_some();
        self.answered_by = response.extensions().get::<AnsweredBy>().cloned();
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if self.is_repeated {
            return;
        }
        let (what, ms) = (&self.what, self.begun.elapsed().as_millis());
        let outcome = match self.status {
            Some(status) => format!("{} after {ms} ms", status.as_u16()),
            None => format!("it has no end after {ms} ms"),
        };
        let outcome = match &self.answered_by {
            Some(AnsweredBy(member)) => format!("{outcome} by member '{member}'"),
            None => outcome,
        };
        tracing::info!("{what}: {outcome}");
        let done = self.status.is_some_and(|status| status.is_success());
        self.audit.change(Change { done, outcome, ..self.change.clone() });
    }
}
