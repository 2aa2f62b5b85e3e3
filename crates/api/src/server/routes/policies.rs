//! `/v1/policies`.

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use member::{PolicyRequest, Request};

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::volumes::PageQuery;
use super::{Shared, refused, tagged};
use crate::problem::Problem;
use crate::server::body::{Asked, Named, Sent};
use crate::server::pages::page;
use crate::server::tags::{Kept, Wanted};
use crate::types::{HostRecord, List, NewPolicy, Nothing, Policy};

/// List policies
#[utoipa::path(
    get, path = "/v1/policies", tag = "access", params(PageQuery),
    responses(
        (status = 200, description = "The policies.", body = Vec<Policy>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_policies(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let List(all) = app.ask::<List<Policy>>(Request::Policy(PolicyRequest::List)).await?;
    page(&all, query.page(), &uri)
}

/// Make a policy
///
/// It lets nobody in at first.
#[utoipa::path(
    post, path = "/v1/policies", tag = "access", params(IdempotencyKey), request_body = NewPolicy,
    responses(
        (status = 201, description = "The policy.", body = Policy,
         headers(("ETag" = String, description = "Its tag."),
                 ("Location" = String, description = "Its path."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn create_policy(
    State(app): Shared,
    Sent(NewPolicy { name }): Sent<NewPolicy>,
) -> Result<Response, Problem> {
    let kept = Kept::Policy(name.clone());
    let made: Policy =
        app.change(kept, None, Request::Policy(PolicyRequest::Create { name })).await?;
    let location = [(LOCATION, format!("/v1/policies/{}", made.name))];
    Ok((location, tagged(StatusCode::CREATED, &made)).into_response())
}

/// Show a policy
#[utoipa::path(
    get, path = "/v1/policies/{name}", tag = "access",
    params(("name" = String, Path, description = "The policy.")),
    responses(
        (status = 200, description = "The policy.", body = Policy,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_policy(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    let shown: Policy = app.ask(Request::Policy(PolicyRequest::Show { name })).await?;
    Ok(tagged(StatusCode::OK, &shown))
}

/// Delete a policy
///
/// No access list may name it.
#[utoipa::path(
    delete, path = "/v1/policies/{name}", tag = "access",
    params(("name" = String, Path, description = "The policy."), IfMatch),
    responses((status = 204, description = "It is gone."), ChangeRefusals),
)]
pub(super) async fn delete_policy(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let kept = Kept::Policy(name.clone());
    app.change::<Nothing>(kept, tag, Request::Policy(PolicyRequest::Delete { name })).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Add hosts to a policy
///
/// All volumes that name it let them in.
#[utoipa::path(
    post, path = "/v1/policies/{name}/records", tag = "access", request_body = HostRecord,
    params(("name" = String, Path, description = "The policy."), IdempotencyKey, IfMatch),
    responses(
        (status = 201, description = "The policy after the change.", body = Policy,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn add_policy_record(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
    Sent(record): Sent<HostRecord>,
) -> Result<Response, Problem> {
    let record = record.try_into().map_err(refused)?;
    let kept = Kept::Policy(name.clone());
    let request = Request::Policy(PolicyRequest::Add { name, record });
    let changed: Policy = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::CREATED, &changed))
}

/// Take hosts off a policy
///
/// Sessions that nothing else lets in end.
#[utoipa::path(
    delete, path = "/v1/policies/{name}/records/{number}", tag = "access",
    params(("name" = String, Path, description = "The policy."),
           ("number" = u32, Path, description = "The number of the record."), IfMatch),
    responses(
        (status = 200, description = "The policy after the change.", body = Policy,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn remove_policy_record(
    State(app): Shared,
    Named((name, number)): Named<(String, u32)>,
    Wanted(tag): Wanted,
) -> Result<Response, Problem> {
    let kept = Kept::Policy(name.clone());
    let request = Request::Policy(PolicyRequest::Remove { name, number });
    let changed: Policy = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::OK, &changed))
}
