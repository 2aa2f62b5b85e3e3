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
use member::{MoveRequest, Passport, Request as Asked, Seal};

use super::Shared;
use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::server::body::{self, Named, Sent, json};
use crate::server::carry::AskingMember;
use crate::server::moving;
use crate::server::transit::{
    ADOPT_PATH, ARRIVE_PATH, Look, Looked, MOVE_PATH, PIECES_PATH, PREPARE_PATH, Stands, unframed,
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
    let (id, is_its_own) = (passport.id.clone(), passport.from == asking.number);
    if !is_its_own || !app.moves.begin(&id, asking.number, &passport.name) {
        return Err(not_its_own(&asking));
    }
    let arrived = done(&app, MoveRequest::Arrive { passport }).await;
    // One that is still at work may have begun.
    if arrived.as_ref().is_err_and(|problem| problem.code != Code::StillAtWork) {
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
    match app.moves.hear(&id) {
        Some(from) if from == asking.number => {}
        Some(_) => return Err(not_its_own(&asking)),
        None => {
            let sentence = "no volume is coming here by this move: it was given up";
            return Err(Problem::new(Code::WrongState, sentence));
        }
    }
    let (parts, body) = request.into_parts();
    let piece = unframed(&body::read(&parts, body).await?)?;
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
    check_its_own(&app, &asking, &id).await?;
    let prepared = done(&app, MoveRequest::Prepare { id: id.clone(), seal }).await;
    if prepared.is_ok() {
        app.moves.end(&id);
    }
    prepared
}

/// Whose it is.
async fn adopt(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(id): Named<MoveId>,
    Sent(Look { says }): Sent<Look>,
) -> Result<Response, Problem> {
    check_its_own(&app, &asking, &id).await?;
    let step = moving::adopt(&app, &id, says).await?;
    Ok(json(&Looked { step }))
}

/// It does not come.
async fn discard(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(id): Named<MoveId>,
) -> Result<StatusCode, Problem> {
    check_its_own(&app, &asking, &id).await?;
    let discarded = done(&app, MoveRequest::Discard { id: id.clone() }).await;
    if discarded.is_ok() {
        app.moves.end(&id);
    }
    discarded
}

/// How a move stands of which this member is the source.
async fn show(State(app): Shared, Named(id): Named<MoveId>) -> Result<Response, Problem> {
    let says: SourceSays = app.ask(Asked::Move(MoveRequest::Says { id })).await?;
    Ok(json(&Stands { says }))
}

/// Has the member do it.
async fn done(app: &App, request: MoveRequest) -> Result<StatusCode, Problem> {
    app.ask::<Nothing>(Asked::Move(request)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses a member that is not the source of a move, as far as one is known.
async fn check_its_own(app: &App, asking: &AskingMember, id: &MoveId) -> Result<(), Problem> {
    let from = match app.moves.hear(id) {
        Some(from) => Some(from),
        None => moving::arrival(app, id).await?.map(|arrival| arrival.from),
    };
    if from.is_none_or(|from| from == asking.number) { Ok(()) } else { Err(not_its_own(asking)) }
}

fn not_its_own(asking: &AskingMember) -> Problem {
    let sentence = format!("this move is not one from member '{}'", asking.name);
    Problem::new(Code::Forbidden, sentence)
}
