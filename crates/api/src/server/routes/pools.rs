//! `/v1/pools`: members of a group among which new volumes are shared out.

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use member::{GroupRequest, Request};

use super::Shared;
use super::described::{ChangeRefusals, IdempotencyKey, Refusals};
use super::group::limit_of;
use super::volumes::PageQuery;
use crate::problem::Problem;
use crate::server::body::{Asked, Named, Sent, json};
use crate::server::pages::page;
use crate::types::{List, NewPool, Nothing, Pool, PoolConnections, PoolMerge};

/// List the pools of the group
///
/// `default` is that of all members that were put into no other one.
#[utoipa::path(
    get, path = "/v1/pools", tag = "group", params(PageQuery),
    responses(
        (status = 200, description = "The pools.", body = Vec<Pool>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_pools(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let List(all) = app.ask::<List<Pool>>(Request::Group(GroupRequest::Pools)).await?;
    page(&all, query.page(), &uri)
}

/// Make a pool
///
/// It has no members at first: a member is put into it by `PATCH /v1/members/{name}`.
#[utoipa::path(
    post, path = "/v1/pools", tag = "group", params(IdempotencyKey), request_body = NewPool,
    responses(
        (status = 201, description = "The pool.", body = Pool,
         headers(("Location" = String, description = "Its path."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn create_pool(
    State(app): Shared,
    Sent(NewPool { name }): Sent<NewPool>,
) -> Result<Response, Problem> {
    let made: Pool = app.ask(Request::Group(GroupRequest::CreatePool { name })).await?;
    let location = [(LOCATION, format!("/v1/pools/{}", made.name))];
    Ok((StatusCode::CREATED, location, json(&made)).into_response())
}

/// Show a pool of the group
#[utoipa::path(
    get, path = "/v1/pools/{name}", tag = "group",
    params(("name" = String, Path, description = "The pool.")),
    responses((status = 200, description = "The pool.", body = Pool), Refusals),
)]
pub(super) async fn show_pool(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    let shown: Pool = app.ask(Request::Group(GroupRequest::ShowPool { name })).await?;
    Ok(json(&shown))
}

/// Delete a pool that has no members
#[utoipa::path(
    delete, path = "/v1/pools/{name}", tag = "group",
    params(("name" = String, Path, description = "The pool.")),
    responses((status = 204, description = "It is gone."), ChangeRefusals),
)]
pub(super) async fn delete_pool(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    app.ask::<Nothing>(Request::Group(GroupRequest::DeletePool { name })).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Say how many connections of hosts a pool takes
///
/// A login that would be one more is answered that the target is out of resources, and an event names the host and the
/// volume. Those that are there stay.
#[utoipa::path(
    put, path = "/v1/pools/{name}/connections", tag = "group", request_body = PoolConnections,
    params(("name" = String, Path, description = "The pool.")),
    responses(
        (status = 200, description = "The pool after the change.", body = Pool), ChangeRefusals,
    ),
)]
pub(super) async fn set_pool_connections(
    State(app): Shared,
    Named(name): Named<String>,
    Sent(PoolConnections { limit }): Sent<PoolConnections>,
) -> Result<Response, Problem> {
    let limit = limit.map(limit_of).transpose()?;
    let set = GroupRequest::SetPoolConnections { name, limit };
    let shown: Pool = app.ask(Request::Group(set)).await?;
    Ok(json(&shown))
}

/// Put the members of a pool into another one
///
/// The pool is no more then. Volumes stay where they are.
#[utoipa::path(
    post, path = "/v1/pools/{name}/merge", tag = "group", request_body = PoolMerge,
    params(("name" = String, Path, description = "The pool that goes."), IdempotencyKey),
    responses(
        (status = 200, description = "The pool that they are in.", body = Pool), ChangeRefusals,
    ),
)]
pub(super) async fn merge_pool(
    State(app): Shared,
    Named(from): Named<String>,
    Sent(PoolMerge { into }): Sent<PoolMerge>,
) -> Result<Response, Problem> {
    let merge = GroupRequest::MergePool { from, into };
    let merged: Pool = app.ask(Request::Group(merge)).await?;
    Ok(json(&merged))
}
