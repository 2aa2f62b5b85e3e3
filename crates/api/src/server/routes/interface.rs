//! `/v1/interface`.

use axum::extract::State;
use axum::response::Response;

use super::Shared;
use super::described::Refusals;
use crate::server::body::json;
use crate::types::Interface;

/// Show where the member is managed from afar
///
/// And whether it can write down who does. The fingerprint of its certificate is what who connects compares.
#[utoipa::path(
    get, path = "/v1/interface", tag = "logins",
    responses((status = 200, description = "Its addresses.", body = Interface), Refusals),
)]
pub(super) async fn show_interface(State(app): Shared) -> Response {
    json(&app.interface_now())
}
