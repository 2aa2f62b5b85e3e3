//! `/v1/volumes/{name}/reservations`.

use axum::Json;
use axum::extract::State;
use member::{Request, VolumeRequest};

use super::Shared;
use super::described::{ChangeRefusals, IdempotencyKey, Refusals};
use crate::problem::Problem;
use crate::server::body::Named;
use crate::server::tags::Kept;
use crate::types::Reservations;

/// Show what hosts have reserved of a volume
///
/// It must be online.
#[utoipa::path(
    get, path = "/v1/volumes/{name}/reservations", tag = "volumes",
    params(("name" = String, Path, description = "The volume.")),
    responses(
        (status = 200, description = "Who holds it, and who is registered.", body = Reservations),
        Refusals,
    ),
)]
pub(super) async fn show_reservations(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Json<Reservations>, Problem> {
    Ok(Json(app.ask(Request::Volume(VolumeRequest::Reservations { name })).await?))
}

/// End all reservations of a volume
///
/// As if a registered host had sent CLEAR: registrations and reservation are gone, also those that outlive a loss of
/// power, and every host that was registered is told RESERVATIONS PREEMPTED. Who was kept out by them may write then.
#[utoipa::path(
    post, path = "/v1/volumes/{name}/reservations/clear", tag = "volumes",
    params(("name" = String, Path, description = "The volume."), IdempotencyKey),
    responses(
        (status = 200, description = "What hosts have reserved since.", body = Reservations),
        ChangeRefusals,
    ),
)]
pub(super) async fn clear_reservations(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Json<Reservations>, Problem> {
    let kept = Kept::Volume(name.clone());
    let request = Request::Volume(VolumeRequest::ClearReservations { name });
    Ok(Json(app.change(kept, None, request).await?))
}
