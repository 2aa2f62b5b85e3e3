//! What a member asks another one for itself, over a connection that stays between requests.
//!
//! It has none of the places that requests for people have ([`Lines`](super::Lines)): so many are under way as volumes
//! move, of which a member takes a few at once. What was sent and not answered is never sent again, as it may come yet.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderValue, Method, Request as HttpRequest, Uri};
use group::ownership::MemberId;
use group::pki::SERVER_NAME;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::time::{Instant, timeout};

use super::error::CarryError;
use super::fetch::refusal;
use super::send::{Line, Other, SILENCE};
use crate::problem::Problem;
use crate::server::admit::is_change;
use crate::server::app::App;

/// How long a connection is used again behind its last answer: less than the other side waits for the next head.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// How long an answer may take to begin. Hosts wait meanwhile, towards the end of a move: whoever is silent for so long
/// has not taken what it was sent, and the volume stays.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Why another member does not do what this one asks for itself.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::server) enum OwnError {
    /// It says no.
    #[error(transparent)]
    Refused(Problem),
    /// There is no answer of it.
    #[error(transparent)]
    Unanswered(Problem),
}

impl OwnError {
    /// It does not know what it is asked for.
    pub(in crate::server) fn other_version(name: &str) -> Self {
        CarryError::Strange(name.to_owned()).into()
    }
}

impl From<CarryError> for OwnError {
    fn from(error: CarryError) -> Self {
        Self::Unanswered(error.into())
    }
}

impl From<OwnError> for Problem {
    fn from(error: OwnError) -> Self {
        match error {
            OwnError::Refused(problem) | OwnError::Unanswered(problem) => problem,
        }
    }
}

/// A connection.
struct Open {
    other: Other,
    sender: SendRequest<Full<Bytes>>,
    _line: Line,
    /// When its last answer was here.
    since: Instant,
}

/// The way to one other member.
pub(in crate::server) struct OwnLine {
    app: Arc<App>,
    to: MemberId,
    open: Option<Open>,
}

impl OwnLine {
    /// To this member; nothing is sent yet.
    pub(in crate::server) const fn new(app: Arc<App>, to: MemberId) -> Self {
        Self { app, to, open: None }
    }

    /// Asks, and gives the answer as it is. A connection that did not end well is not used again.
    pub(in crate::server) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        (media, body): (&'static str, Bytes),
    ) -> Result<Bytes, OwnError> {
        let changes = is_change(&method);
        let mut open = match self.reusable().await {
            Some(open) => open,
            None => self.connected(changes).await?,
        };
        let mut request = HttpRequest::new(Full::new(body));
        *request.method_mut() = method;
        // All paths are made of words and digits.
        *request.uri_mut() = Uri::try_from(path).expect("a path");
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_static(SERVER_NAME));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        let answering = open.other.answer(&self.app.roll, &mut open.sender, request);
        let answer = match timeout(ANSWER_TIME, answering).await {
            Ok(answer) => answer?,
            Err(_) => return Err(open.other.no_answer(changes).into()),
        };
        let status = answer.status();
        let body = whole(answer.into_body(), &open.other, changes).await?;
        let name = open.other.name.clone();
        open.since = Instant::now();
        self.open = Some(open);
        if status.is_success() { Ok(body) } else { Err(OwnError::Refused(refusal(&body, name))) }
    }

    /// The connection of before, if nothing speaks against it. Nothing is sent on one that has ended.
    async fn reusable(&mut self) -> Option<Open> {
        let mut open = self.open.take()?;
        let now = self.app.roll.now()?;
        let is_member = now.roll.members.contains_key(&self.to);
        let is_fresh = open.since.elapsed() < IDLE_MAX;
        (is_member && is_fresh && open.sender.ready().await.is_ok()).then_some(open)
    }

    async fn connected(&self, changes: bool) -> Result<Open, CarryError> {
        let other = {
            let now = self.app.roll.now().ok_or(CarryError::NoGroup)?;
            Other::of(&now, self.to)?
        };
        let stream = other.connect().await?;
        let (line, sender) = other.begin(stream, changes).await?;
        Ok(Open { other, sender, _line: line, since: Instant::now() })
    }
}

/// The whole body of an answer.
async fn whole(body: Incoming, other: &Other, changes: bool) -> Result<Bytes, CarryError> {
    let collected = timeout(SILENCE, Limited::new(body, ANSWER_BYTES_MAX).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        _ => Err(other.no_answer(changes)),
    }
}
