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
use crate::server::carry::{Meant, gather};
use crate::server::pages::page;
use crate::types::Connection;

/// List the connections of hosts
///
/// Those to all members of the group.
#[utoipa::path(
    get, path = "/v1/connections", tag = "hosts", params(PageQuery),
    responses(
        (status = 200, description = "The connections.", body = Vec<Connection>,
         headers(("Link" = String, description = "The next page, if there is one."),
                 ("Drystone-Members-Missing" = String,
                  description = "The members of which nothing is in it, if there are any."))),
        Refusals,
    ),
)]
pub(super) async fn list_connections(
    State(app): Shared,
    meant: Meant,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let own = Request::Connections;
    let gathered = gather::<Connection>(&app, &meant, "/v1/connections", own).await?;
    Ok(gathered.tell(page(&gathered.all, query.page(), &uri)?))
}
