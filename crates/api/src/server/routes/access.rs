//! `/v1/volumes/{name}/access`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use member::{AccessRequest, Request};

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::{Shared, refused, tagged};
use crate::problem::Problem;
use crate::server::body::{Named, Sent};
use crate::server::tags::{Kept, Wanted};
use crate::types::{Access, Entry};

/// Show who may use a volume
#[utoipa::path(
    get, path = "/v1/volumes/{name}/access", tag = "access",
    params(("name" = String, Path, description = "The volume.")),
    responses(
        (status = 200, description = "Its access list.", body = Access,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_access(
    State(app): Shared,
    Named(volume): Named<String>,
) -> Result<Response, Problem> {
    let shown: Access = app.ask(Request::Access(AccessRequest::List { volume })).await?;
    Ok(tagged(StatusCode::OK, &shown))
}

/// Let hosts use a volume
///
/// From the first entry on, all others are kept out, and those that are logged in are logged out.
#[utoipa::path(
    post, path = "/v1/volumes/{name}/access", tag = "access", request_body = Entry,
    params(("name" = String, Path, description = "The volume."), IdempotencyKey, IfMatch),
    responses(
        (status = 201, description = "The access list after the change.", body = Access,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn add_access(
    State(app): Shared,
    Named(volume): Named<String>,
    Wanted(tag): Wanted,
    Sent(entry): Sent<Entry>,
) -> Result<Response, Problem> {
    let entry = entry.try_into().map_err(refused)?;
    let kept = Kept::Access(volume.clone());
    let request = Request::Access(AccessRequest::Add { volume, entry });
    let changed: Access = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::CREATED, &changed))
}

/// Take an entry off an access list
///
/// Sessions that nothing else lets in end. A list without entries lets nobody in.
#[utoipa::path(
    delete, path = "/v1/volumes/{name}/access/{number}", tag = "access",
    params(("name" = String, Path, description = "The volume."),
           ("number" = u32, Path, description = "The number of the entry."), IfMatch),
    responses(
        (status = 200, description = "The access list after the change.", body = Access,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn remove_access(
    State(app): Shared,
    Named((volume, number)): Named<(String, u32)>,
    Wanted(tag): Wanted,
) -> Result<Response, Problem> {
    let kept = Kept::Access(volume.clone());
    let request = Request::Access(AccessRequest::Remove { volume, number });
    let changed: Access = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::OK, &changed))
}

/// Take the access list of a volume away
///
/// Then what the member was started with says again who may use the volume.
#[utoipa::path(
    delete, path = "/v1/volumes/{name}/access", tag = "access",
    params(("name" = String, Path, description = "The volume."), IfMatch),
    responses(
        (status = 200, description = "The volume without an access list.", body = Access,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn clear_access(
    State(app): Shared,
    Named(volume): Named<String>,
    Wanted(tag): Wanted,
) -> Result<Response, Problem> {
    let kept = Kept::Access(volume.clone());
    let request = Request::Access(AccessRequest::Clear { volume });
    let changed: Access = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::OK, &changed))
}
