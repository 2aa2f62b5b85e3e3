//! `/v1/transits`: volumes that are between two members, and the operator who settles what no group decides any more.
//!
//! Of one move the source and the destination have each their own part, by one number: what is settled is that of the
//! member that is asked, and never also that of the other one.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use group::membership::MoveId;
use member::{MoveError, MoveRequest, Request, RequestError};

use super::Shared;
use super::described::{ChangeRefusals, IdempotencyKey, Refusals};
use super::volumes::PageQuery;
use crate::problem::Problem;
use crate::server::body::{Asked, Named, Sent};
use crate::server::carry::{Meant, gather};
use crate::server::pages::page;
use crate::types::{Nothing, Settlement, Transit};

/// List volumes that are between two members
///
/// What is stored of moves, on all members of the group: of one move its source and its destination may each have a
/// part. A volume that is only being copied is none of them, see the runs.
#[utoipa::path(
    get, path = "/v1/transits", tag = "volumes", params(PageQuery),
    responses(
        (status = 200, description = "The transits.", body = Vec<Transit>,
         headers(("Link" = String, description = "The next page, if there is one."),
                 ("Drystone-Members-Missing" = String,
                  description = "The members of which nothing is in it, if there are any."))),
        Refusals,
    ),
)]
pub(super) async fn list_transits(
    State(app): Shared,
    meant: Meant,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let own = Request::Move(MoveRequest::Transits);
    let gathered = gather::<Transit>(&app, &meant, "/v1/transits", own).await?;
    Ok(gathered.tell(page(&gathered.all, query.page(), &uri)?))
}

/// Settle a move that no group decides about any more
///
/// The member that is asked keeps what it has of the volume and serves it, or deletes that for good. Nobody asks the other
/// member: if both keep it, hosts may write to either of two copies, and if both delete it, it is gone. As long as the
/// group decides about the move, this is refused (409, `wrong-state`).
#[utoipa::path(
    post, path = "/v1/transits/{id}/settle", tag = "volumes", request_body = Settlement,
    params(("id" = String, Path, description = "The move."), IdempotencyKey),
    responses((status = 204, description = "It is settled."), ChangeRefusals),
)]
pub(super) async fn settle_transit(
    State(app): Shared,
    Named(id): Named<String>,
    Sent(Settlement { keep }): Sent<Settlement>,
) -> Result<StatusCode, Problem> {
    // What is no number of a move is that of none.
    let known = id.parse::<MoveId>();
    let id = known.map_err(|_| app.problem(&RequestError::Move(MoveError::NoSuch(id))))?;
    app.ask::<Nothing>(Request::Move(MoveRequest::Settle { id, keep })).await?;
    Ok(StatusCode::NO_CONTENT)
}
