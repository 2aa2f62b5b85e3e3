//! `/v1/sets`: what members ask of each other as they take snapshots of one moment. It is answered to members alone, at
//! the port where they are asked, and is in no document.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use group::membership::SetId;
use group::settings::SetIntent;
use member::{Request as Asked, SetPlan, SetRequest};

use super::Shared;
use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::server::body::{Named, Sent, json};
use crate::server::carry::{AskingMember, here};
use crate::server::sets::words::{HOLD_PATH, PREPARE_PATH, RELEASE_PATH, SETTLE_PATH, TAKE_PATH};
use crate::types::{List, Nothing, Snapshot};

/// All of them.
pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route(PREPARE_PATH, post(prepare))
        .route(HOLD_PATH, post(hold))
        .route(TAKE_PATH, post(take))
        .route(RELEASE_PATH, post(release))
        .route(SETTLE_PATH, post(settle))
}

/// This member is to take part in a set that the member drives which asks.
async fn prepare(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Sent(plan): Sent<SetPlan>,
) -> Result<StatusCode, Problem> {
    if plan.coordinator != asking.number {
        return Err(not_its_own(&asking));
    }
    app.ask::<Nothing>(Asked::Set(SetRequest::Prepare { plan })).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Hosts are to wait.
async fn hold(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(id): Named<SetId>,
) -> Result<StatusCode, Problem> {
    check_its_own(&app, &asking, &id).await?;
    app.ask::<Nothing>(Asked::Set(SetRequest::Hold { id })).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The snapshots are to be taken.
async fn take(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(id): Named<SetId>,
) -> Result<Response, Problem> {
    check_its_own(&app, &asking, &id).await?;
    let List(taken) = app.ask::<List<Snapshot>>(Asked::Set(SetRequest::Take { id })).await?;
    Ok(json(&here(&app, taken)))
}

/// Hosts are to go on.
async fn release(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(id): Named<SetId>,
) -> Result<StatusCode, Problem> {
    check_its_own(&app, &asking, &id).await?;
    app.ask::<Nothing>(Asked::Set(SetRequest::Release { id })).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// It is decided: this member reads what counts in the store, whoever asks.
async fn settle(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(id): Named<SetId>,
) -> Result<StatusCode, Problem> {
    check_its_own(&app, &asking, &id).await?;
    app.ask::<bool>(Asked::Set(SetRequest::Settle { id, is_told: true })).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses a member that asks about a set which another one drives. One that is not known here is nobody's.
async fn check_its_own(app: &App, asking: &AskingMember, id: &SetId) -> Result<(), Problem> {
    let List(all) = app.ask::<List<SetIntent>>(Asked::Set(SetRequest::List)).await?;
    let is_others = |it: &SetIntent| it.id == *id && it.coordinator != asking.number;
    if all.iter().any(is_others) { Err(not_its_own(asking)) } else { Ok(()) }
}

fn not_its_own(asking: &AskingMember) -> Problem {
    let sentence = format!("this set of snapshots is not one that member '{}' takes", asking.name);
    Problem::new(Code::Forbidden, sentence)
}
