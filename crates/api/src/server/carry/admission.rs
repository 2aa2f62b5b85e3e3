//! Who may, of those for whom another member asks, and which member may ask for itself.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use group::accounts::Role;
use group::ownership::MemberId;
use member::audit::{Actor, Refused};

use super::{Behalf, Carried, MEMBER, ON_BEHALF, REPEATED, member_of};
use crate::problem::{Code, Problem};
use crate::server::admit::{self, Caller, is_stream};
use crate::server::app::App;
use crate::server::callers::Seat;
use crate::server::held::UntilRevoked;
use crate::server::idempotency::Repeated;
use crate::server::peer::Peer;
use crate::server::sets::words;
use crate::server::transit::{ARRIVE_PATH, MOVE_PATH, PREPARE_PATH};

/// What a member asks for itself that is in the audit log.
const NOTED: [&str; 5] =
    [ARRIVE_PATH, MOVE_PATH, PREPARE_PATH, words::PREPARE_PATH, words::TAKE_PATH];

/// The member that asks, and the SHA-256 of the certificate that it has shown.
struct Sender {
    name: String,
    certificate: [u8; 32],
}

impl Sender {
    /// Why nothing is done for it any more, if it is so.
    fn why_no_more(app: &App, certificate: &[u8; 32]) -> Option<Problem> {
        let now = app.roll.now();
        let is_member = now.is_some_and(|now| member_of(&now, certificate).is_some());
        (!is_member).then(not_a_member)
    }
}

/// Lets in for whom a member of the group asks, and notes what was changed, by whom and how it ended.
pub(in crate::server) async fn admit_carried(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = app.check_not_ending() {
        return problem.into_response();
    }
    let least = admit::least_role(&request);
    let (caller, sender) = match let_in(&app, &mut request, least) {
        Ok(let_in) => let_in,
        Err(problem) => return problem.into_response(),
    };
    let mut response = admit::run(&app, &caller, request, next).await;
    if response.extensions().get::<Repeated>().is_some() {
        response.headers_mut().insert(REPEATED, HeaderValue::from_static("yes"));
    }
    let own = app.roll.now().and_then(|now| HeaderValue::try_from(&now.name).ok());
    if let Some(own) = own {
        response.headers_mut().insert(MEMBER, own);
    }
    if is_stream(response.headers()) { followed(app, sender, response) } else { response }
}

/// The other member that asks for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct AskingMember {
    pub(in crate::server) number: MemberId,
    pub(in crate::server) name: String,
}

/// Lets in a member of the group that asks for itself. What it begins and what it ends is noted, what comes between is
/// too much for that.
pub(in crate::server) async fn admit_member(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = app.check_not_ending() {
        return problem.into_response();
    }
    match let_in_itself(&app, &mut request) {
        Ok((caller, asking)) => {
            let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
            let is_noted = path.is_some_and(|path| NOTED.contains(&path));
            request.extensions_mut().insert(asking);
            if is_noted {
                admit::run(&app, &caller, request, next).await
            } else {
                run_unnoted(&app, caller, request, next).await
            }
        }
        Err(problem) => problem.into_response(),
    }
}

/// Has done what is on no record, unless it is refused: a member has asked for what is another one's.
async fn run_unnoted(app: &App, caller: Caller, mut request: Request, next: Next) -> Response {
    let (who, from, operation) = (caller.actor(), caller.place(), operation(&request));
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    if response.status() == StatusCode::FORBIDDEN {
        let reason = Code::Forbidden.word().to_owned();
        let sentence = "this is not what that member drives".to_owned();
        app.logs.audit.refused(Refused { who, from, operation, reason, sentence });
    }
    response
}

/// The member that asks. One that asks for somebody is refused: people have no use for what members ask of each other.
fn let_in_itself(app: &App, request: &mut Request) -> Result<(Caller, AskingMember), Problem> {
    let (peer, certificate) = member_at(request)?;
    let seat = request.extensions_mut().remove::<Arc<Seat>>();
    let asking = app.roll.now().and_then(|now| {
        let (number, record) = member_of(&now, &certificate)?;
        Some(AskingMember { number, name: record.name.clone() })
    });
    let name = asking.as_ref().map(|asking| asking.name.clone());
    let admitted = match asking {
        Some(_) if request.headers().contains_key(ON_BEHALF) => {
            let sentence = "a member asks for this itself, and for nobody else";
            Err(Problem::new(Code::Forbidden, sentence))
        }
        Some(asking) => Ok(asking),
        None => Err(not_a_member()),
    };
    let asking =
        admitted.inspect_err(|problem| note(app, peer, name.as_deref(), request, problem))?;
    check_seat(seat.as_deref(), &asking.name)?;
    Ok((Caller::member(peer, asking.name.clone()), asking))
}

/// The other end of a connection, and the certificate that it has shown.
fn member_at(request: &Request) -> Result<(Peer, [u8; 32]), Problem> {
    match request.extensions().get::<Peer>().copied() {
        Some(peer @ Peer::Member { certificate, .. }) => Ok((peer, certificate)),
        _ => Err(Problem::new(Code::Failed, "nobody knows which member asks")),
    }
}

/// Refuses a member that has as many requests under way as one may have.
fn check_seat(seat: Option<&Seat>, name: &str) -> Result<(), Problem> {
    if seat.is_none_or(|seat| seat.asks_as(&format!("member '{name}'"))) {
        return Ok(());
    }
    let sentence = format!(
        "member '{name}' has as many requests under way here as one may have at once: try again when some have \
         ended"
    );
    Err(Problem::new(Code::TooBusy, sentence))
}

/// A stream, for as long as the member that passes it on is one.
fn followed(app: Arc<App>, sender: Sender, response: Response) -> Response {
    let Sender { name, certificate } = sender;
    match app.follows_carried(format!("member '{name}'")) {
        Ok(place) => {
            let end = move |app: &App| Sender::why_no_more(app, &certificate);
            response.map(|body| UntilRevoked::body(body, app, end, place))
        }
        Err(problem) => problem.into_response(),
    }
}

/// Who asks, and which member for it. That who is refused is in the audit log.
fn let_in(app: &App, request: &mut Request, least: Role) -> Result<(Caller, Sender), Problem> {
    let (peer, certificate) = member_at(request)?;
    let seat = request.extensions_mut().remove::<Arc<Seat>>();
    // As it is now: the connection may be older than the roll.
    let name = app.roll.now().and_then(|now| {
        let (_, record) = member_of(&now, &certificate)?;
        Some(record.name.clone())
    });
    let admitted = match &name {
        Some(name) => behalf(request, name, least),
        None => Err(not_a_member()),
    };
    let behalf = admitted.inspect_err(|problem| note(app, peer, name.as_deref(), request, problem));
    let (behalf, name) = (behalf?, name.unwrap_or_default());
    check_seat(seat.as_deref(), &name)?;
    let caller = Caller::carried(peer, Carried { behalf, member: name.clone() });
    Ok((caller, Sender { name, certificate }))
}

/// For whom a member asks, if that one may.
fn behalf(request: &Request, member: &str, least: Role) -> Result<Behalf, Problem> {
    let behalf = Behalf::read(request.headers())?;
    if behalf.role < least {
        let sentence = format!(
            "this needs the role {least}, and {} has {} as member '{member}' says: log in as somebody who has it",
            behalf.who, behalf.role
        );
        return Err(Problem::new(Code::Forbidden, sentence));
    }
    Ok(behalf)
}

fn not_a_member() -> Problem {
    let sentence = "the member that carries this request here is not in the group any more";
    Problem::new(Code::Forbidden, sentence)
}

fn note(app: &App, peer: Peer, member: Option<&str>, request: &Request, problem: &Problem) {
    app.logs.audit.refused(Refused {
        who: Actor { account: member.map(|name| format!("member '{name}'")), ..Actor::default() },
        from: peer.place(),
        operation: operation(request),
        reason: problem.code.word().to_owned(),
        sentence: problem.detail.clone(),
    });
}

/// What is asked for, as the audit log has it of who is refused.
fn operation(request: &Request) -> String {
    format!("{} {}", request.method(), request.uri().path())
}
