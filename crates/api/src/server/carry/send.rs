//! The asking end: a request goes to the member that is to do it, over a connection of its own, and its answer is
//! passed on as it comes.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT, CONNECTION, CONTENT_TYPE, HOST, IF_MATCH, IF_NONE_MATCH, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Request as HttpRequest, Response as HttpResponse, Uri};
use axum::response::Response;
use group::ownership::MemberId;
use group::pki::SERVER_NAME;
use http_body_util::Full;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use member::{CurrentRoll, RollNow};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
    set_tcp_user_timeout,
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::{CarryError, is_about_time, of_tls};
use super::tls::{Proof, client_config};
use super::{AnsweredBy, Behalf, MEMBER, ON_BEHALF, REPEATED, address};
use crate::problem::Problem;
use crate::server::admit::{Caller, is_change, is_stream};
use crate::server::app::App;
use crate::server::body;
use crate::server::followers::Following;
use crate::server::idempotency::{IDEMPOTENCY_KEY, Repeated};

/// How long a connection may take to come about.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long the other side may take to prove who it is. A program that hangs takes as long to be told from one that is
/// there, as its machine takes connections for it.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// How long an answer may take to begin: longer than a member waits for its own core, which then says so.
const ANSWER_TIME: Duration = Duration::from_secs(630);

/// How often it is looked meanwhile whether the other member is still there.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// How long nothing of an answer may come that has begun: a stream tells at least a sign of life every other second.
const SILENCE: Duration = Duration::from_secs(30);

/// A machine that lost its power says nothing: after how long it is asked whether it is there, how often, and how many
/// times in vain.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMES: u32 = 3;

/// It is not asked while it owes an answer to what was sent: for how long it may owe one, which is as long.
const UNACKNOWLEDGED_MS_MAX: u32 = 25_000;

/// Bytes of the head of an answer, and lines of it: those that a member takes of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

/// After which event whoever follows goes on (HTML, section 9.2).
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What of the head of a request is passed on. How whoever asks has logged in is not.
const PASSED_ON: [HeaderName; 6] =
    [ACCEPT, CONTENT_TYPE, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, LAST_EVENT_ID];

/// What of the head of an answer is about its connection alone (RFC 9110 7.6.1).
const OF_CONNECTION: [HeaderName; 6] =
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, HeaderName::from_static("keep-alive")];

/// Has another member do what `caller` asks for. It is sent once, whatever comes of it. The answer may be a problem,
/// which that member says; an error is one of this member, which has no answer of it.
pub(in crate::server) async fn send(
    app: &Arc<App>,
    to: MemberId,
    caller: &Caller,
    request: Request,
) -> Result<Response, Problem> {
    let (other, behalf) = {
        let now = app.roll.now().ok_or(CarryError::NoGroup)?;
        let behalf = caller.behalf(&now.name).ok_or(CarryError::Again)?;
        (Other::of(&now, to)?, behalf)
    };
    let (parts, sent) = request.into_parts();
    let sent = body::read(&parts, sent).await?;
    let (owner, busy) = (caller.owner(), || CarryError::Busy(other.name.clone()));
    let line_place = app.lines.enter(to, &owner).await.ok_or_else(busy)?;
    let stream = other.connect().await?;
    let (line, answer) = other.ask(&app.roll, stream, outgoing(&parts, sent, &behalf)).await?;
    let places = if is_stream(answer.headers()) {
        let followed = app.lines.follow(to, &owner).ok_or_else(busy)?;
        drop(line_place);
        Places { _line: followed, _stream: Some(app.follows()?) }
    } else {
        Places { _line: line_place, _stream: None }
    };
    Ok(passed_on(other.name, answer, line, places))
}

/// The request as it goes out.
fn outgoing(parts: &Parts, body: Bytes, behalf: &Behalf) -> HttpRequest<Full<Bytes>> {
    let mut request = HttpRequest::new(Full::new(body));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    let headers = request.headers_mut();
    for name in PASSED_ON {
        for value in parts.headers.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers.insert(HOST, HeaderValue::from_static(SERVER_NAME));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(ON_BEHALF, behalf.header());
    request
}

/// The answer as it is passed on.
fn passed_on(
    member: String,
    answer: HttpResponse<Incoming>,
    line: Line,
    places: Places,
) -> Response {
    let (mut parts, body) = answer.into_parts();
    for name in OF_CONNECTION {
        parts.headers.remove(name);
    }
    if parts.headers.remove(REPEATED).is_some() {
        parts.extensions.insert(Repeated);
    }
    if let Ok(name) = HeaderValue::try_from(&member) {
        parts.headers.insert(MEMBER, name);
    }
    parts.extensions.insert(AnsweredBy(member));
    let passed = Passed { body: Body::new(body), silence: None, _line: line, _places: places };
    Response::from_parts(parts, Body::new(passed))
}

/// The member that is asked.
struct Other {
    number: MemberId,
    name: String,
    address: SocketAddr,
    /// It gave signs of life when it was to be asked.
    was_present: bool,
    config: Arc<ClientConfig>,
}

impl Other {
    /// As the group is now.
    fn of(now: &RollNow, to: MemberId) -> Result<Self, CarryError> {
        if to == now.me {
            return Err(CarryError::Again);
        }
        let record = now.roll.members.get(&to).ok_or(CarryError::Gone(to))?;
        let address = address(&now.roll, record);
        let address = address.ok_or_else(|| CarryError::NoPort(record.name.clone()))?;
        let RollNow { authority, certificate, key, .. } = now;
        let proof = Proof { authority, certificate, key };
        let config = client_config(proof, &record.certificate_sha256).map_err(CarryError::Tls)?;
        let was_present = now.roll.is_present(to);
        Ok(Self { number: to, name: record.name.clone(), address, was_present, config })
    }

    fn unreachable(&self, why: String) -> CarryError {
        let (member, address) = (self.name.clone(), self.address);
        if self.was_present {
            CarryError::Unreachable { member, address, why }
        } else {
            CarryError::Away { member, address, why }
        }
    }

    /// A connection on which the other side has proved that it is this member. Whether it takes this one for a member
    /// shows when it is asked.
    async fn connect(&self) -> Result<TlsStream<TcpStream>, CarryError> {
        let unheard = format!("nothing was heard within {} seconds", CONNECT_TIME.as_secs());
        let failed = |error: io::Error| self.unreachable(error.to_string());
        let connected = timeout(CONNECT_TIME, TcpStream::connect(self.address)).await;
        let stream = connected.map_err(|_| self.unreachable(unheard))?.map_err(failed)?;
        watch_over(&stream).map_err(failed)?;
        let name = ServerName::try_from(SERVER_NAME).expect("it is a name");
        let shaken = TlsConnector::from(self.config.clone()).connect(name, stream);
        match timeout(HANDSHAKE_TIME, shaken).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.refused(&error)),
            Err(_) => {
                let (member, seconds) = (self.name.clone(), HANDSHAKE_TIME.as_secs());
                Err(CarryError::Silent { member, seconds })
            }
        }
    }

    /// Why no TLS came about.
    fn refused(&self, error: &io::Error) -> CarryError {
        match of_tls(error) {
            Some(why) if is_about_time(why) => CarryError::Clock(self.name.clone()),
            Some(rustls::Error::AlertReceived(_)) => CarryError::NotKnown(self.name.clone()),
            Some(_) => CarryError::Another { member: self.name.clone(), address: self.address },
            // One that has no room hangs up.
            None => self.unreachable(error.to_string()),
        }
    }

    /// Asks, and waits until the answer begins.
    async fn ask(
        &self,
        roll: &CurrentRoll,
        stream: TlsStream<TcpStream>,
        request: HttpRequest<Full<Bytes>>,
    ) -> Result<(Line, HttpResponse<Incoming>), CarryError> {
        let changes = is_change(request.method());
        let broken = |error: hyper::Error| self.broken(&error, changes);
        let mut http = http1::Builder::new();
        http.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
        let (mut sender, connection) =
            http.handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let line = Line(tokio::spawn(connection).abort_handle());
        let answer = sender.send_request(request);
        tokio::pin!(answer);
        let end = Instant::now() + ANSWER_TIME;
        loop {
            if let Ok(answered) = timeout(LOOK_AFTER, &mut answer).await {
                return Ok((line, answered.map_err(broken)?));
            }
            if Instant::now() >= end {
                return Err(self.no_answer(changes));
            }
            self.check_there(roll)?;
        }
    }

    /// Whether the member is still there, as far as the group has heard.
    fn check_there(&self, roll: &CurrentRoll) -> Result<(), CarryError> {
        let Some(now) = roll.now() else { return Ok(()) };
        let is_heard_of = now.store_fault.is_none();
        if is_heard_of && self.was_present && !now.roll.is_present(self.number) {
            return Err(CarryError::WentAway(self.name.clone()));
        }
        Ok(())
    }

    /// Why there is no answer.
    fn broken(&self, error: &hyper::Error, changes: bool) -> CarryError {
        match of_tls(error) {
            Some(why) if is_about_time(why) => CarryError::Clock(self.name.clone()),
            Some(rustls::Error::AlertReceived(_)) => CarryError::NotKnown(self.name.clone()),
            _ if error.is_parse() => CarryError::Strange(self.name.clone()),
            _ => self.no_answer(changes),
        }
    }

    fn no_answer(&self, changes: bool) -> CarryError {
        let name = self.name.clone();
        if changes { CarryError::NobodyKnows(name) } else { CarryError::NoAnswer(name) }
    }
}

/// Has the kernel notice when the other machine is gone without a word.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    set_tcp_keepintvl(stream, KEEPALIVE_PAUSE)?;
    set_tcp_keepcnt(stream, KEEPALIVE_TIMES)?;
    set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS_MAX)?;
    Ok(())
}

/// The connection of one request, which ends with this value: a stream that nobody follows any more ends at once.
struct Line(AbortHandle);

impl Drop for Line {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a request has taken while it is under way, which it gives back with this value.
struct Places {
    _line: Following,
    /// Of one that is followed.
    _stream: Option<OwnedSemaphorePermit>,
}

/// The body of an answer, as it comes.
struct Passed {
    body: Body,
    /// Runs while nothing comes.
    silence: Option<Pin<Box<Sleep>>>,
    _line: Line,
    _places: Places,
}

impl HttpBody for Passed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_ready() {
            self.silence = None;
            return frame;
        }
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(SILENCE)));
        ready!(silence.as_mut().poll(cx));
        let silent = io::Error::from(io::ErrorKind::TimedOut);
        Poll::Ready(Some(Err(axum::Error::new(silent))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use axum::http::header::{AUTHORIZATION, COOKIE};
    use group::accounts::Role;

    use super::*;

    #[tokio::test]
    async fn the_kernel_watches_also_while_something_is_not_acknowledged() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        watch_over(&stream).unwrap();
        let owed_ms = rustix::net::sockopt::tcp_user_timeout(&stream).unwrap();
        assert_eq!(owed_ms, UNACKNOWLEDGED_MS_MAX);
        let silent = KEEPALIVE_IDLE + KEEPALIVE_PAUSE * KEEPALIVE_TIMES;
        assert_eq!(silent, Duration::from_millis(owed_ms.into()));
    }

    #[test]
    fn what_proves_who_asked_stays_here() {
        let mut request = HttpRequest::post("/v1/volumes?x=1&y=2");
        for name in PASSED_ON.into_iter().chain([AUTHORIZATION, COOKIE, MEMBER]) {
            request = request.header(name, "a");
        }
        let forged = request.header(ON_BEHALF, "root").header(HOST, "elsewhere");
        let (parts, ()) = forged.body(()).unwrap().into_parts();
        let (owner, from) = ("ada".to_owned(), "192.0.2.1:9".to_owned());
        let behalf = Behalf::new("account 'ada'", owner, Role::Operator, from);
        let sent = outgoing(&parts, Bytes::new(), &behalf);
        assert_eq!(*sent.method(), Method::POST);
        assert_eq!(sent.uri().to_string(), "/v1/volumes?x=1&y=2");
        let headers = sent.headers();
        assert!(PASSED_ON.iter().all(|name| headers[name] == "a"), "{headers:?}");
        assert_eq!(headers.len(), PASSED_ON.len() + 3, "{headers:?}");
        assert_eq!(headers[HOST], SERVER_NAME);
        assert_eq!(headers[CONNECTION], "close");
        assert_eq!(Behalf::read(headers), Ok(behalf));
    }
}
