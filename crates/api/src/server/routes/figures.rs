//! `/v1/figures`.

use axum::extract::State;
use axum::response::Response;
use member::Request;

use super::Shared;
use super::described::Refusals;
use crate::problem::Problem;
use crate::server::body::json;
use crate::types::Figures;

/// Show what hosts have had done
///
/// Counts of commands, bytes and latencies, for programs that look again and again.
#[utoipa::path(
    get, path = "/v1/figures", tag = "figures",
    responses((status = 200, description = "The figures.", body = Figures), Refusals),
)]
pub(super) async fn show_figures(State(app): Shared) -> Result<Response, Problem> {
    Ok(json(&app.ask::<Figures>(Request::Figures).await?))
}
