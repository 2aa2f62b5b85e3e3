//! `/v1/moves`: what members ask of each other as a volume moves. It is answered to members alone, at the last of their
//! ports, and is in no document.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post, put};
use axum::{Extension, Router};
use group::handover::SourceSays;
use group::membership::MoveId;
use member::audit::Change;
use member::{ArrivalStep, MoveRequest, Passport, Request as Asked, Seal};

use super::Shared;
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::app::{App, stopping};
use crate::server::body::{self, Asked as Words, Named, Sent, json};
use crate::server::carry::AskingMember;
use crate::server::moving::{self, Begun, Part};
use crate::server::transit::{
    ADOPT_PATH, ARRIVE_PATH, Look, Looked, MOVE_PATH, Of, PIECES_PATH, PREPARE_PATH, Stands,
    unframed,
};
use crate::types::Nothing;

/// All of them.
pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route(ARRIVE_PATH, post(arrive))
        .route(MOVE_PATH, get(show).delete(discard))
        .route(PIECES_PATH, put(write))
        .route(PREPARE_PATH, post(prepare))
        .route(ADOPT_PATH, post(adopt))
}

/// A volume is to come here, from the member that asks.
async fn arrive(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Sent(passport): Sent<Passport>,
) -> Result<StatusCode, Problem> {
    let id = passport.id.clone();
    if passport.from != asking.number {
        return Err(not_its_own(&asking));
    }
    let begun = app.moves.begin(&id, asking.number, &passport.name);
    if begun == Begun::ByAnother {
        return Err(not_its_own(&asking));
    }
    let arrived = done(&app, MoveRequest::Arrive { passport }).await;
    // One that is still at work may have begun, and one that had begun goes on, whatever is said of it now.
    let is_refused = arrived.as_ref().is_err_and(|problem| problem.code != Code::StillAtWork);
    if is_refused && begun == Begun::Now {
        app.moves.end(&id);
    }
    arrived
}

/// A piece of it.
async fn write(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(id): Named<MoveId>,
    request: Request,
) -> Result<StatusCode, Problem> {
    // First, also of one that is refused: behind the rest of it nothing more could be asked on this connection.
    let (parts, body) = request.into_parts();
    let frame = body::read(&parts, body).await?;
    match app.moves.hear(&id) {
        Some(from) if from == asking.number => {}
        Some(_) => return Err(not_its_own(&asking)),
        None => return Err(not_coming()),
    }
    let piece = unframed(&frame)?;
    let written = done(&app, MoveRequest::Write { id: id.clone(), piece }).await;
    app.moves.hear(&id);
    written
}

/// All of it is there.
async fn prepare(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(id): Named<MoveId>,
    Sent(seal): Sent<Seal>,
) -> Result<StatusCode, Problem> {
    if its_part(&app, &asking, &id).await? == Part::Nothing {
        return Err(not_coming());
    }
    let prepared = done(&app, MoveRequest::Prepare { id: id.clone(), seal }).await;
    if prepared.is_ok() {
        app.moves.end(&id);
    }
    prepared
}

/// Whose it is. What the source says counts where it is stored from whom the volume is, and nowhere else: a copy may be
/// thrown away by that. Without it the store of the group alone decides, whoever asks. That the volume stays counts of one
/// that is named: a member of an earlier version says it of the move, also when its disks have failed meanwhile.
async fn adopt(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<MoveId>,
    Sent(Look { says, serial }): Sent<Look>,
) -> Result<Response, Problem> {
    let (says, may_change) = match its_part(&app, &asking, &id).await? {
        Part::Prepared(_) => {
            let counts = |says: &SourceSays| *says != SourceSays::GivenUp || serial.is_some();
            (says.filter(counts), true)
        }
        Part::Coming(_) | Part::Nothing => (None, false),
    };
    // To its end, also when nobody waits any more: what it changes is told of.
    let looking = tokio::spawn(async move {
        let step = moving::adopt(&app, &id, (says, serial)).await?;
        if may_change {
            note(&app, &caller, &id, step);
        }
        Ok::<_, Problem>(step)
    });
    let step = looking.await.unwrap_or_else(|_| Err(stopping()))?;
    Ok(json(&Looked { step }))
}

/// Has on record that a volume came to be this member's, or was thrown away, as another member asked whose it is. It is
/// asked every few seconds, mostly in vain: that is on no record.
fn note(app: &App, caller: &Caller, id: &MoveId, step: ArrivalStep) {
    let outcome = match step {
        ArrivalStep::Adopted => "the volume is this member's",
        ArrivalStep::Discarded => "the volume stays where it was, and what had come is deleted",
        ArrivalStep::AskSource | ArrivalStep::Waiting | ArrivalStep::Unknown => return,
    };
    app.logs.audit.change(Change {
        who: caller.actor(),
        from: caller.place(),
        operation: format!("POST {ADOPT_PATH}"),
        path: ADOPT_PATH.replace("{id}", id.as_str()),
        done: true,
        outcome: outcome.to_owned(),
    });
}

/// It does not come.
async fn discard(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(id): Named<MoveId>,
) -> Result<StatusCode, Problem> {
    if its_part(&app, &asking, &id).await? == Part::Nothing {
        return Ok(StatusCode::NO_CONTENT);
    }
    let discarded = done(&app, MoveRequest::Discard { id: id.clone() }).await;
    if discarded.is_ok()
        && let Some(name) = app.moves.end(&id)
    {
        let from = moving::name_of(&app, asking.number);
        moving::tell_not_coming(&app, &id, &name, &from);
    }
    discarded
}

/// How a move stands of which this member is the source.
async fn show(
    State(app): Shared,
    Named(id): Named<MoveId>,
    Words(Of { serial }): Words<Of>,
) -> Result<Response, Problem> {
    let request = MoveRequest::Says { id, serial: serial.clone() };
    let says: SourceSays = app.ask(Asked::Move(request)).await?;
    Ok(json(&Stands { says, serial }))
}

/// Has the member do it.
async fn done(app: &App, request: MoveRequest) -> Result<StatusCode, Problem> {
    app.ask::<Nothing>(Asked::Move(request)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What this member has of a move, for the source of that; any other member is refused.
async fn its_part(app: &App, asking: &AskingMember, id: &MoveId) -> Result<Part, Problem> {
    let part = moving::part(app, id).await?;
    match part {
        Part::Prepared(from) | Part::Coming(from) if from != asking.number => {
            Err(not_its_own(asking))
        }
        part => Ok(part),
    }
}

fn not_coming() -> Problem {
    let sentence = "no volume is coming here by this move: it was given up";
    Problem::new(Code::WrongState, sentence)
}

fn not_its_own(asking: &AskingMember) -> Problem {
    let sentence = format!("this move is not one from member '{}'", asking.name);
    Problem::new(Code::Forbidden, sentence)
}
