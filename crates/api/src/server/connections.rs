//! Connections: they are taken in, served, and put out when they stand in the way.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::DATE;
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use futures_util::future::select_all;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

use super::callers::{Callers, Seat};
use super::date::date;
use super::patient::Patient;
use super::peer::Peer;
use crate::problem::{Code, Problem};

/// How long the head of a request may take to come, and a part of an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a head, and of what is read ahead.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Lines of a head.
const HEADERS_MAX: usize = 64;

/// How long the end waits for answers under way.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How long a connection on which nothing is under way stays at the end.
const LAST_PIECE: Duration = Duration::from_millis(50);

/// Connections taken in before those that made room for them have a turn to close theirs: so many may be open
/// beyond the seats for a moment.
const ACCEPTED_AT_ONCE: u64 = 32;

/// Connections that are told at once that there is no room for them.
const REFUSED_MAX: usize = 64;

/// How long such a one has to take its answer.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Where connections come in.
pub(super) enum Door {
    /// At the socket of this machine.
    Socket(UnixListener),
    /// Over TLS, at one address or several.
    Tls(Vec<TcpListener>, Receive),
}

/// How one is received that came in over TLS at this address; `None` for one that is not to be answered there.
pub(super) type Receive = Box<dyn Fn(IpAddr) -> Option<Reception> + Send + Sync>;

/// How one is received.
pub(super) struct Reception {
    pub(super) acceptor: TlsAcceptor,
    pub(super) means: Means,
    /// Turns true when the connection is to end at once, whatever is under way in it.
    pub(super) closing: Option<watch::Receiver<bool>>,
}

/// Whom one means that came in, by where it did. Each request is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// This member.
    Member,
    /// The group, at its address: another member may have that by the next request.
    Group,
}

/// One that came in.
enum Arrival {
    Process(UnixStream),
    Remote(TcpStream, SocketAddr),
}

impl Reception {
    /// By this member as itself.
    pub(super) const fn of_member(acceptor: TlsAcceptor) -> Self {
        Self { acceptor, means: Means::Member, closing: None }
    }
}

impl Door {
    /// Over TLS at one address, where all are received alike.
    pub(super) fn of_all(listener: TcpListener, acceptor: TlsAcceptor) -> Self {
        let receive = move |_| Some(Reception::of_member(acceptor.clone()));
        Self::Tls(vec![listener], Box::new(receive))
    }

    /// The next that comes in.
    async fn accept(&self) -> io::Result<Arrival> {
        match self {
            Self::Socket(listener) => {
                listener.accept().await.map(|(stream, _)| Arrival::Process(stream))
            }
            Self::Tls(listeners, ..) => {
                let all = listeners.iter().map(|listener| Box::pin(listener.accept()));
                // None is lost: one that is not taken now is there the next time.
                let (accepted, _, _) = select_all(all).await;
                accepted.map(|(stream, from)| Arrival::Remote(stream, from))
            }
        }
    }
}

/// What all connections share.
struct House {
    router: Router,
    callers: Arc<Callers>,
    is_ending: watch::Receiver<bool>,
    /// Given back when the last connection has ended.
    open: mpsc::Sender<()>,
    refused: Arc<Semaphore>,
}

/// Takes connections in until the end, then waits a moment for the answers under way: what takes longer
/// says that it does.
pub(super) async fn serve(
    door: Door,
    router: Router,
    callers: Arc<Callers>,
    is_ending: watch::Receiver<bool>,
) {
    let (open, mut all_ended) = mpsc::channel(1);
    let refused = Arc::new(Semaphore::new(REFUSED_MAX));
    let mut ending = is_ending.clone();
    let house = House { router, callers: callers.clone(), is_ending, open, refused };
    let accepting = async {
        let mut accepted = 0_u64;
        loop {
            match (door.accept().await, &door) {
                (Ok(Arrival::Process(stream)), _) => house.admit(stream),
                (Ok(Arrival::Remote(stream, from)), Door::Tls(_, receive)) => {
                    // One that has gone already has no address any more.
                    let local = stream.local_addr();
                    if let Some(reception) = local.ok().and_then(|at| receive(at.ip())) {
                        house.admit_remote(stream, from, reception);
                    }
                }
                // The socket has none of these.
                (Ok(Arrival::Remote(..)), Door::Socket(_)) => {}
                (Err(error), _) => {
                    tracing::warn!("cannot accept a connection to the interface: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
            // Those that were put out close their sockets before many more come in.
            accepted += 1;
            if accepted.is_multiple_of(ACCEPTED_AT_ONCE) {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = has_ended(&mut ending) => {}
    }
    drop((house, door));
    if tokio::time::timeout(LAST_ANSWERS, all_ended.recv()).await.is_err() {
        tracing::warn!("{} requests are left without an answer", callers.answering());
    }
}

/// Ends when the end has begun, also with whoever would tell of it.
pub(super) async fn has_ended(is_ending: &mut watch::Receiver<bool>) {
    drop(is_ending.wait_for(|is_ending| *is_ending).await);
}

impl House {
    fn admit(&self, stream: UnixStream) {
        let Some(seat) = self.callers.enter(None) else {
            // Where even those are too many, the connection is closed without a word.
            if let Ok(permit) = self.refused.clone().try_acquire_owned() {
                tokio::spawn(async move {
                    drop(tokio::time::timeout(REFUSAL_TIME, refuse(stream)).await);
                    drop(permit);
                });
            }
            return;
        };
        let (router, open) = (self.router.clone(), self.open.clone());
        let is_ending = self.is_ending.clone();
        tokio::spawn(async move {
            let asks = (Peer::of(&stream), Means::Member);
            converse(stream, asks, router, Arc::new(seat), is_ending).await;
            drop(open);
        });
    }

    /// Without room the connection is closed without a word: to say one over TLS takes more than it is worth.
    fn admit_remote(&self, stream: TcpStream, from: SocketAddr, reception: Reception) {
        let Some(seat) = self.callers.enter(Some(from.ip().into())) else { return };
        let (router, open) = (self.router.clone(), self.open.clone());
        let is_ending = self.is_ending.clone();
        let Reception { acceptor, means, closing } = reception;
        tokio::spawn(async move {
            let served = serve_remote((stream, from, means), acceptor, router, seat, is_ending);
            match closing {
                Some(mut closing) => tokio::select! {
                    () = served => {}
                    () = has_ended(&mut closing) => {}
                },
                None => served.await,
            }
            drop(open);
        });
    }
}

/// Shakes hands with one that came from there, and answers it.
async fn serve_remote(
    (stream, from, means): (TcpStream, SocketAddr, Means),
    acceptor: TlsAcceptor,
    router: Router,
    seat: Seat,
    mut is_ending: watch::Receiver<bool>,
) {
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(PATIENCE, greet(stream, acceptor)) => greeted,
        () = seat.is_put_out() => return,
        () = has_ended(&mut is_ending) => return,
    };
    match greeted {
        Ok(Ok(Some(stream))) => {
            let peer = Peer::over_tls(from, stream.get_ref().1.peer_certificates());
            converse(stream, (peer, means), router, Arc::new(seat), is_ending).await;
        }
        Ok(Ok(None)) => {}
        Ok(Err(error)) => tracing::debug!("{from}: no TLS came about: {error}"),
        Err(_) => tracing::debug!("{from}: no TLS came about in time"),
    }
}

/// The first byte of TLS (RFC 8446 5.1, a record of a handshake).
const HANDSHAKE: u8 = 22;

/// Shakes hands. `None` for one that speaks something else than TLS, which is told so.
async fn greet(
    mut stream: TcpStream,
    acceptor: TlsAcceptor,
) -> io::Result<Option<TlsStream<TcpStream>>> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    if first[0] == HANDSHAKE {
        return match acceptor.accept(stream).into_fallible().await {
            Ok(stream) => Ok(Some(stream)),
            Err((error, stream)) => {
                // Why no TLS came about counts, not how the connection ended then.
                drop(hang_up(stream).await);
                Err(error)
            }
        };
    }
    let sentence = "this port speaks TLS: ask with https:// instead of http://";
    let response = Problem::new(Code::BadRequest, sentence).into_response();
    say(&mut stream, response).await?;
    Ok(None)
}

/// Answers the requests of one connection, one after the other.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    (peer, means): (Peer, Means),
    router: Router,
    seat: Arc<Seat>,
    mut is_ending: watch::Receiver<bool>,
) {
    let asking = seat.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (router, seat) = (router.clone(), asking.clone());
        async move {
            if !seat.asks() {
                return Ok(dated(full()).map(|body| Held { body, seat }));
            }
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(means);
            request.extensions_mut().insert(seat.clone());
            let answered: Result<_, Infallible> = router.oneshot(request.map(Body::new)).await;
            answered.map(|response| dated(response).map(|body| Held { body, seat }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(BUFFER_BYTES_MAX)
        // Of a head that is a little longer all may have come with the last read into that.
        .max_header_size(BUFFER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(Patient::new(stream, PATIENCE)), service);
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = &mut connection => outcome,
        () = seat.is_put_out() => return,
        () = has_ended(&mut is_ending) => {
            connection.as_mut().graceful_shutdown();
            loop {
                tokio::select! {
                    outcome = &mut connection => break outcome,
                    // What was answered a moment ago is on its way.
                    () = tokio::time::sleep(LAST_PIECE) => if seat.is_silent() { return },
                }
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!("{peer}: a connection to the interface ended: {error}");
    }
}

/// With the time at which it was given, if the clock has one that can be told.
fn dated(mut response: Response<Body>) -> Response<Body> {
    if let Some(date) = date(SystemTime::now()) {
        response.headers_mut().insert(DATE, date);
    }
    response
}

/// The body of an answer. Its connection is not put out before it has been passed on.
struct Held {
    body: Body,
    seat: Arc<Seat>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.seat.falls_silent();
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn full() -> Response<Body> {
    put_out().into_response()
}

/// What one hears for which there is no room.
pub(super) fn put_out() -> Problem {
    let sentence = "too many requests are under way: try again when some have ended";
    Problem::new(Code::TooBusy, sentence)
}

/// Tells one for which there is no room so, whatever it asks.
async fn refuse(mut stream: UnixStream) -> io::Result<()> {
    say(&mut stream, full()).await
}

/// Gives this as the answer to whatever is asked, and closes the connection.
async fn say<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    response: Response<Body>,
) -> io::Result<()> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
    let mut head = format!("HTTP/1.1 {}\r\nconnection: close\r\n", parts.status);
    for (name, value) in &parts.headers {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(&[head.as_bytes(), &body].concat()).await?;
    hang_up(stream).await
}

/// Ends a connection with the last that was said: what else the other side says is read, or it would hear of a reset
/// instead.
async fn hang_up<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 4096];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}
