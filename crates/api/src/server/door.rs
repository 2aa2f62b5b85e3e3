//! The door of members: where a server that has a token is let into the group.
//!
//! It is open at the address that [`CurrentDoor`] names, for as long as it names one, in a thread of its own. All that
//! it answers is `POST /door/v1/join`. Strangers reach it before they have proved anything, so that all is bounded: the
//! connections, what one of them may say, and how long it may take for each of the handshake, the head and the body.
//! A connection keeps its seat until the group has answered what it asked, also when it has left before: so the group is
//! not asked more at once than there are seats. Who tries often waits, and who is refused is in the audit log.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONNECTION};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use group::membership::MembershipError;
use group::pki::Ticket;
use group::words::counted;
use member::audit::{Actor, Change, Refused};
use member::{Admission, Answer, CurrentDoor, GroupRequest, SecretWord};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

use super::admission::{Admitted, Asking, JOIN_PATH};
use super::app::{App, stopping, strange};
use super::body::{SentSecret, json};
use super::callers::{Callers, Seat};
use super::connections::{self, has_ended, put_out};
use super::door_tls::door_server_config;
use super::listening::{keep_open, listen};
use super::peer::Peer;
use super::throttle::Throttle;
use crate::place::Place;
use crate::problem::{Code, Problem, code_of};

/// Connections at once.
const CONNECTIONS_MAX: usize = 32;

/// Of these, those from one place.
const CONNECTIONS_OF_PLACE_MAX: usize = 8;

/// How long the group may take to let one in: less than that one waits for an answer.
const ADMISSION_TIME: Duration = Duration::from_secs(25);

/// What is noted of who comes.
const OPERATION: &str = "POST /door/v1/join";

/// Waits until there is to be a door; `false` if the end comes before.
pub(super) async fn is_wanted(current: &CurrentDoor, ending: &mut watch::Receiver<bool>) -> bool {
    let changed = Arc::new(Notify::new());
    let rings = changed.clone();
    current.on_change(move || rings.notify_one());
    let comes = async {
        while current.now().is_none() {
            changed.notified().await;
        }
    };
    tokio::select! {
        () = comes => true,
        () = has_ended(ending) => false,
    }
}

/// Keeps the door as it is to be, until the end.
pub(super) async fn attend(app: Arc<App>, current: CurrentDoor, ending: watch::Receiver<bool>) {
    let changed = Arc::new(Notify::new());
    let rings = changed.clone();
    current.on_change(move || rings.notify_one());
    let porter = Arc::new(Porter { app, throttle: Throttle::default() });
    let answering = async |door: &Arc<member::Door>, closing: watch::Receiver<bool>| {
        answer(&porter, door, closing).await;
    };
    keep_open(|| current.now(), &changed, ending, answering).await;
}

/// Answers at this door until it closes.
async fn answer(porter: &Arc<Porter>, door: &member::Door, mut closing: watch::Receiver<bool>) {
    let (listener, acceptor) = tokio::select! {
        opened = open(door) => opened,
        () = has_ended(&mut closing) => return,
    };
    tracing::info!("members are answered at {}", door.address);
    let entrance = connections::Door::of_all(listener, acceptor);
    let callers = Callers::new(CONNECTIONS_MAX, CONNECTIONS_OF_PLACE_MAX);
    connections::serve(entrance, router(porter.clone()), callers, closing).await;
}

/// Listens, as soon as that can be done.
async fn open(door: &member::Door) -> (TcpListener, TlsAcceptor) {
    let config = match door_server_config(&door.certificate, &door.authority, &door.key.0) {
        Ok(config) => config,
        Err(why) => {
            tracing::error!("no server can join the group at {}: {why}", door.address);
            // Until it is another door.
            return pending().await;
        }
    };
    let told = |error: &io::Error| {
        let address = door.address;
        tracing::error!("no server can join the group at {address}, which is tried again: {error}");
    };
    let listener = listen(door.address, told).await;
    (listener, TlsAcceptor::from(config))
}

/// Who lets servers in.
struct Porter {
    app: Arc<App>,
    throttle: Throttle,
}

fn router(porter: Arc<Porter>) -> Router {
    Router::new()
        .route(JOIN_PATH, post(join))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .with_state(porter)
}

/// What there is for all that nobody should ask for here.
async fn nothing() -> Problem {
    Problem::new(Code::NoSuchPath, "there is nothing here but a way for members into their group")
}

/// Lets a server in that has a token.
async fn join(State(porter): State<Arc<Porter>>, request: Request) -> Response {
    let Some(Peer::Remote(from)) = request.extensions().get::<Peer>().copied() else {
        return nothing().await.into_response();
    };
    let work = async {
        porter.check_wait(from, None)?;
        let seat = request.extensions().get::<Arc<Seat>>().cloned();
        let asking = asking(request, seat.as_deref()).await;
        let asking = asking.inspect_err(|_| porter.count_try(from, None))?;
        // The group is not asked about what cannot be a token at all.
        let is_token = Ticket::has_form(&asking.id, &asking.secret);
        let id = is_token.then_some(asking.id.as_str());
        porter.check_wait(from, id)?;
        // As a failure, before anything is known: who asks in many connections at once is not heard more often.
        porter.count_try(from, id);
        if !is_token {
            return Err(Problem::new(Code::TicketRefused, MembershipError::Token.to_string()));
        }
        // To its end, also when nobody waits any more: how it ends is noted, and the seat is taken until then.
        let porter = porter.clone();
        let work = tokio::spawn(async move {
            let outcome = porter.admit(from, asking).await;
            drop(seat);
            outcome
        });
        work.await.unwrap_or_else(|_| Err(stopping()))
    };
    let mut response = match work.await {
        Ok(admission) => json(&Admitted::from(&*admission)),
        Err(problem) => {
            porter.note_refusal(from, &problem);
            problem.into_response()
        }
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Nobody has anything more to ask.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// What is asked. Whoever has not said all of it makes room for others.
async fn asking(request: Request, seat: Option<&Seat>) -> Result<Asking<String>, Problem> {
    seat.iter().for_each(|seat| seat.falls_silent());
    let SentSecret(asking) = SentSecret::from_request(request, &()).await?;
    if !seat.iter().all(|seat| seat.asks()) {
        return Err(put_out());
    }
    Ok(asking)
}

impl Porter {
    /// Refuses who has to wait, with any token or with this one.
    fn check_wait(&self, from: SocketAddr, id: Option<&str>) -> Result<(), Problem> {
        self.app.check_not_ending()?;
        let token = id.map(|id| (id, false));
        let wait = self.throttle.wait(from.ip().into(), token, Instant::now());
        wait.map_or(Ok(()), |wait| {
            let sentence = format!(
                "too many tries to join came from there: wait {}, then try again",
                counted(wait.as_secs() + 1, "second")
            );
            Err(Problem::new(Code::TooManyTries, sentence).with_retry(wait))
        })
    }

    /// Notes that one tries to get in, with this token if it is one.
    fn count_try(&self, from: SocketAddr, id: Option<&str>) {
        self.throttle.failed(from.ip().into(), id, Instant::now());
    }

    /// Has the group let one in, if its token is right.
    async fn admit(
        &self,
        from: SocketAddr,
        asking: Asking<String>,
    ) -> Result<Box<Admission>, Problem> {
        let Asking { id, secret, applicant } = asking;
        let name = applicant.name.clone();
        let secret = SecretWord(Zeroizing::new(secret));
        let outcome = self.ask(GroupRequest::Admit { id: id.clone(), secret, applicant }).await;
        if let Ok(admission) = &outcome {
            self.throttle.got_in_after_all(Place::from(from.ip()), &id);
            self.note_admission(from, &id, &name, admission);
        }
        outcome
    }

    /// The answer of the member, with its own sentence where it says no: what to do about that here is of no use to
    /// whoever reads it elsewhere.
    async fn ask(&self, request: GroupRequest) -> Result<Box<Admission>, Problem> {
        let (_jobs, coming) = self.app.begin(member::Request::Group(request));
        match timeout(ADMISSION_TIME, coming).await {
            Ok(Ok(Ok(Answer::Admission(admission)))) => Ok(admission),
            Ok(Ok(Ok(_))) => Err(strange()),
            Ok(Ok(Err(error))) => Err(Problem::new(code_of(&error), error.to_string())),
            Ok(Err(_)) => Err(stopping()),
            Err(_) => {
                let sentence = format!(
                    "the group has not let the server in within {}: look at it, it may do so yet",
                    counted(ADMISSION_TIME.as_secs(), "second")
                );
                Err(Problem::new(Code::Unavailable, sentence))
            }
        }
    }

    fn note_admission(&self, from: SocketAddr, id: &str, name: &str, admission: &Admission) {
        let outcome = format!("'{name}' was let into the group as {}", admission.member);
        tracing::info!("{}: {outcome}, by the token {id}", from.ip());
        self.app.logs.audit.change(Change {
            who: Actor { account: Some(format!("join token '{id}'")), ..Actor::default() },
            from: from.to_string(),
            operation: OPERATION.to_owned(),
            path: JOIN_PATH.to_owned(),
            done: true,
            outcome,
        });
    }

    /// That somebody was not let in for what it is or what it said: what fails here is no refusal. It is the audit log
    /// that folds the refusals of one place: strangers do not fill the journal.
    fn note_refusal(&self, from: SocketAddr, problem: &Problem) {
        tracing::debug!("{} was not let into the group: {}", from.ip(), problem.code.word());
        if !problem.code.status().is_server_error() {
            self.app.logs.audit.refused(Refused {
                who: Actor::default(),
                from: from.to_string(),
                operation: OPERATION.to_owned(),
                reason: problem.code.word().to_owned(),
                sentence: problem.detail.clone(),
            });
        }
    }
}
