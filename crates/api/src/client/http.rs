//! One request and its answer, over a connection of its own. While an answer is waited for, the member is asked
//! now and then whether it is there: so one that hangs is told from one that works.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, HeaderName, IF_MATCH, LINK};
use axum::http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::error::{ClientError, SILENCE};
use super::printed::printed;
use super::way::Way;
use crate::headers::{HERE, MEMBER, MEMBERS_MISSING};
use crate::problem::Problem;

/// How long an answer is waited for before the member is asked whether it is there.
const PROBE_AFTER: Duration = Duration::from_secs(5);

/// What is asked for that: it goes to the core of the member, as other requests do. It is asked of that member alone.
const PROBE: &str = "/v1/jobs";

/// What is to be asked. It is not printed: the body may hold a secret.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Vec<u8>>,
    /// The tag that what is changed must have.
    pub(super) tag: Option<String>,
    /// The member of the group that it is for, where that is not left to the group.
    pub(super) member: Option<String>,
}

impl Sent {
    pub(super) fn new(method: Method, path: &str) -> Self {
        Self { method, path: path.to_owned(), body: None, tag: None, member: None }
    }
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) body: Bytes,
    /// Where the next page is.
    pub(super) next: Option<String>,
    /// Its tag.
    pub(super) tag: Option<String>,
    /// The member that it is from, where that is in a group.
    pub(super) member: Option<String>,
    /// The members of which nothing is in a list.
    pub(super) missing: Vec<String>,
}

/// Asks and waits.
pub(super) fn call(way: &Way, sent: &Sent) -> Result<Reply, ClientError> {
    block_on(way, async {
        let asked = async {
            let response = good(way, begin(way, sent).await?).await?;
            let next = next_page(&response);
            let [tag, member, missing] =
                [ETAG, MEMBER, MEMBERS_MISSING].map(|name| word(&response, &name));
            let missing = missing.iter().flat_map(|all| all.split(',')).map(str::trim);
            let missing = missing.map(str::to_owned).collect();
            Ok(Reply { body: collected(way, response).await?, next, tag, member, missing })
        };
        while_alive(way, asked).await
    })
}

/// Runs on a runtime of this thread.
pub(super) fn block_on<T>(
    way: &Way,
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| ClientError::reaching(way, error))?.block_on(work)
}

/// Sends a request: the head of its answer.
pub(super) async fn begin(way: &Way, sent: &Sent) -> Result<Response<Incoming>, ClientError> {
    let stream = way.connect().await?;
    let ended = |error: hyper::Error| ClientError::hearing(way, &error);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(ended)?;
    // It ends when the answer was heard, or is not waited for any more.
    tokio::spawn(connection);
    let mut request =
        Request::builder().method(&sent.method).uri(&sent.path).header(HOST, way.host());
    if let Some(login) = way.login() {
        request = request.header(AUTHORIZATION, login);
    }
    if sent.body.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    if let Some(tag) = &sent.tag {
        request = request.header(IF_MATCH, tag);
    }
    if let Some(member) = &sent.member {
        let name = HeaderValue::try_from(member).map_err(|_| ClientError::Member)?;
        request = request.header(MEMBER, name);
    }
    let body = Full::new(Bytes::from(sent.body.clone().unwrap_or_default()));
    let request =
        request.body(body).map_err(|error| ClientError::strange(way, &error.to_string()))?;
    sender.send_request(request).await.map_err(ended)
}

/// The response, unless it is a problem.
pub(super) async fn good(
    way: &Way,
    response: Response<Incoming>,
) -> Result<Response<Incoming>, ClientError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = collected(way, response).await?;
    let problem = printed::<Problem>(&body);
    Err(match problem {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(_) => ClientError::strange(way, &format!("it answered {status}")),
    })
}

async fn collected(way: &Way, response: Response<Incoming>) -> Result<Bytes, ClientError> {
    let body = response.into_body().collect().await;
    Ok(body.map_err(|error| ClientError::hearing(way, &error))?.to_bytes())
}

/// What a header holds, if that is visible ASCII.
fn word(response: &Response<Incoming>, name: &HeaderName) -> Option<String> {
    let value = response.headers().get(name).and_then(|value| value.to_str().ok());
    value.map(str::to_owned)
}

/// `</v1/volumes?page=...>; rel="next"`, as the server writes it.
fn next_page(response: &Response<Incoming>) -> Option<String> {
    let link = response.headers().get(LINK)?.to_str().ok()?;
    let (path, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains("rel=\"next\"").then(|| path.to_owned())
}

/// The outcome of `asked`, for as long as the member is there.
pub(super) async fn while_alive<T>(
    way: &Way,
    asked: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::pin!(asked);
    loop {
        if let Ok(outcome) = timeout(PROBE_AFTER, &mut asked).await {
            return outcome;
        }
        tokio::select! {
            outcome = &mut asked => return outcome,
            is_there = timeout(SILENCE - PROBE_AFTER, probe(way)) => {
                if is_there.is_err() {
                    return Err(ClientError::Silent(way.to_string()));
                }
            }
        }
    }
}

/// Whatever is answered is a sign of life; one that has ended is told of by the connection that waits.
async fn probe(way: &Way) {
    let probe = Sent { member: Some(HERE.to_owned()), ..Sent::new(Method::GET, PROBE) };
    drop(begin(way, &probe).await);
}

/// How long a member that listens may take to say anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// A member answers at `path`. The socket of one that was killed may accept for a moment until the
/// kernel has taken its process down, but nobody answers then.
#[must_use]
pub fn is_taken(path: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(path) else { return false };
    let request = format!(
        "GET {PROBE} HTTP/1.1\r\nhost: localhost\r\n{MEMBER}: {HERE}\r\nconnection: close\r\n\r\n"
    );
    let asked = stream.set_read_timeout(Some(PATIENCE)).is_ok()
        && stream.write_all(request.as_bytes()).is_ok();
    if !asked {
        return false;
    }
    match stream.read(&mut [0]) {
        Ok(count) => count > 0,
        // It hangs, but it is there.
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}
