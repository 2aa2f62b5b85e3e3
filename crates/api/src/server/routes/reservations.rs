//! `/v1/volumes/{name}/reservations`, and the same of snapshots.

use axum::Json;
use axum::extract::State;
use member::{Request, SnapshotRequest, VolumeRequest};

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

/// Show what hosts have reserved of a snapshot
///
/// It must be online: a snapshot is a target of its own, whose reservations are not those of its volume.
#[utoipa::path(
    get, path = "/v1/snapshots/{volume}/{name}/reservations", tag = "snapshots",
    params(("volume" = String, Path, description = "The volume."),
           ("name" = String, Path, description = "The snapshot.")),
    responses(
        (status = 200, description = "Who holds it, and who is registered.", body = Reservations),
        Refusals,
    ),
)]
pub(super) async fn show_snapshot_reservations(
    State(app): Shared,
    Named((volume, name)): Named<(String, String)>,
) -> Result<Json<Reservations>, Problem> {
    let request = SnapshotRequest::Reservations { volume, name };
    Ok(Json(app.ask(Request::Snapshot(request)).await?))
}

/// End all reservations of a snapshot
///
/// As those of a volume are ended; those of the volume stay.
#[utoipa::path(
    post, path = "/v1/snapshots/{volume}/{name}/reservations/clear", tag = "snapshots",
    params(("volume" = String, Path, description = "The volume."),
           ("name" = String, Path, description = "The snapshot."), IdempotencyKey),
    responses(
        (status = 200, description = "What hosts have reserved since.", body = Reservations),
        ChangeRefusals,
    ),
)]
pub(super) async fn clear_snapshot_reservations(
    State(app): Shared,
    Named((volume, name)): Named<(String, String)>,
) -> Result<Json<Reservations>, Problem> {
    let kept = Kept::Snapshot(volume.clone(), name.clone());
    let request = Request::Snapshot(SnapshotRequest::ClearReservations { volume, name });
    Ok(Json(app.change(kept, None, request).await?))
}
