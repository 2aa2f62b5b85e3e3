//! `/v1/connections`.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use member::Request;

use super::Shared;
use super::described::Refusals;
use super::volumes::PageQuery;
use crate::problem::Problem;
use crate::server::body::Asked;
use crate::server::pages::page;
use crate::types::{Connection, List};

/// List the connections of hosts
#[utoipa::path(
    get, path = "/v1/connections", tag = "hosts", params(PageQuery),
    responses(
        (status = 200, description = "The connections.", body = Vec<Connection>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_connections(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let List(all) = app.ask::<List<Connection>>(Request::Connections).await?;
    page(&all, query.page(), &uri)
}
