//! `/v1/disks`. In a path a disk goes by its number or the last part of its name; a whole name that is
//! a path is asked for with `?disk=`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use member::printable::is_obeyed;
use member::{DiskRequest, Request, RequestError};
use serde::Deserialize;
use utoipa::IntoParams;

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::{Shared, tagged};
use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::server::body::{Asked, Named, Sent, json};
use crate::server::pages::{Page, page};
use crate::server::tags::{Kept, Tag, Wanted};
use crate::types::{Disk, DiskFailure, DiskReplacement, List, NewDisk};

/// Which disks.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DisksQuery {
    /// Only the one that this stands for: its number, its whole name, or the last part of that.
    disk: Option<String>,
    /// Things on a page, 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where the page begins, from the `Link` of the page before.
    page: Option<String>,
}

/// List disks
#[utoipa::path(
    get, path = "/v1/disks", tag = "disks", params(DisksQuery),
    responses(
        (status = 200, description = "The disks.", body = Vec<Disk>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_disks(
    State(app): Shared,
    Asked(query): Asked<DisksQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let all = match query.disk {
        Some(disk) => vec![app.ask(Request::Disk(DiskRequest::Show { disk })).await?],
        None => app.ask::<List<Disk>>(Request::Disk(DiskRequest::List)).await?.0,
    };
    page(&all, Page { limit: query.limit, token: query.page.as_deref() }, &uri)
}

/// Take in a disk
#[utoipa::path(
    post, path = "/v1/disks", tag = "disks", params(IdempotencyKey), request_body = NewDisk,
    responses(
        (status = 201, description = "All disks, with the new one.", body = Vec<Disk>),
        ChangeRefusals,
    ),
)]
pub(super) async fn add_disk(
    State(app): Shared,
    Sent(NewDisk { disk, journal }): Sent<NewDisk>,
) -> Result<Response, Problem> {
    let disks = change(&app, Kept::Disks, None, DiskRequest::Add { disk, journal }).await?;
    Ok((StatusCode::CREATED, json(&disks)).into_response())
}

/// Show a disk
#[utoipa::path(
    get, path = "/v1/disks/{disk}", tag = "disks",
    params(("disk" = String, Path, description = "Its number, or the last part of its name.")),
    responses(
        (status = 200, description = "The disk.", body = Disk,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_disk(
    State(app): Shared,
    Named(disk): Named<String>,
) -> Result<Response, Problem> {
    let disk = word(&app, disk)?;
    let shown: Disk = app.ask(Request::Disk(DiskRequest::Show { disk })).await?;
    Ok(tagged(StatusCode::OK, &shown))
}

/// Put a new disk in the place of one
///
/// Its data moves in the background: see the jobs of kind `rebuild`.
#[utoipa::path(
    post, path = "/v1/disks/{disk}/replace", tag = "disks", request_body = DiskReplacement,
    params(("disk" = String, Path, description = "Its number, or the last part of its name."),
           IfMatch, IdempotencyKey),
    responses((status = 200, description = "All disks.", body = Vec<Disk>), ChangeRefusals),
)]
pub(super) async fn replace_disk(
    State(app): Shared,
    Named(disk): Named<String>,
    Wanted(tag): Wanted,
    Sent(DiskReplacement { by }): Sent<DiskReplacement>,
) -> Result<Response, Problem> {
    let disk = word(&app, disk)?;
    let kept = Kept::Disk(disk.clone());
    Ok(json(&change(&app, kept, tag, DiskRequest::Replace { disk, by }).await?))
}

/// Treat a disk as failed
#[utoipa::path(
    post, path = "/v1/disks/{disk}/fail", tag = "disks", request_body = DiskFailure,
    params(("disk" = String, Path, description = "Its number, or the last part of its name."),
           IfMatch, IdempotencyKey),
    responses((status = 200, description = "All disks.", body = Vec<Disk>), ChangeRefusals),
)]
pub(super) async fn fail_disk(
    State(app): Shared,
    Named(disk): Named<String>,
    Wanted(tag): Wanted,
    Sent(DiskFailure { accept_loss }): Sent<DiskFailure>,
) -> Result<Response, Problem> {
    let disk = word(&app, disk)?;
    let kept = Kept::Disk(disk.clone());
    Ok(json(&change(&app, kept, tag, DiskRequest::Fail { disk, accept_loss }).await?))
}

/// Move the data of a disk elsewhere, then let it go
///
/// In the background: see the jobs of kind `rebuild`.
#[utoipa::path(
    post, path = "/v1/disks/{disk}/retire", tag = "disks",
    params(("disk" = String, Path, description = "Its number, or the last part of its name."),
           IfMatch, IdempotencyKey),
    responses((status = 200, description = "All disks.", body = Vec<Disk>), ChangeRefusals),
)]
pub(super) async fn retire_disk(
    State(app): Shared,
    Named(disk): Named<String>,
    Wanted(tag): Wanted,
) -> Result<Response, Problem> {
    let disk = word(&app, disk)?;
    let kept = Kept::Disk(disk.clone());
    Ok(json(&change(&app, kept, tag, DiskRequest::Retire { disk }).await?))
}

/// Let a disk that is retiring stay
#[utoipa::path(
    post, path = "/v1/disks/{disk}/cancel-retire", tag = "disks",
    params(("disk" = String, Path, description = "Its number, or the last part of its name."),
           IdempotencyKey),
    responses((status = 200, description = "All disks.", body = Vec<Disk>), ChangeRefusals),
)]
pub(super) async fn cancel_retire(
    State(app): Shared,
    Named(disk): Named<String>,
) -> Result<Response, Problem> {
    let disk = word(&app, disk)?;
    let kept = Kept::Disk(disk.clone());
    Ok(json(&change(&app, kept, None, DiskRequest::CancelRetire { disk }).await?))
}

/// Forgive the errors of a disk
#[utoipa::path(
    post, path = "/v1/disks/{disk}/clear", tag = "disks",
    params(("disk" = String, Path, description = "Its number, or the last part of its name."),
           IdempotencyKey),
    responses((status = 200, description = "All disks.", body = Vec<Disk>), ChangeRefusals),
)]
pub(super) async fn clear_disk(
    State(app): Shared,
    Named(disk): Named<String>,
) -> Result<Response, Problem> {
    let disk = word(&app, disk)?;
    let kept = Kept::Disk(disk.clone());
    Ok(json(&change(&app, kept, None, DiskRequest::Clear { disk }).await?))
}

async fn change(
    app: &Arc<App>,
    kept: Kept,
    tag: Option<Tag>,
    request: DiskRequest,
) -> Result<Vec<Disk>, Problem> {
    if let DiskRequest::Add { disk: path, .. } | DiskRequest::Replace { by: path, .. } = &request
        && !is_a_path(path)
    {
        let sentence = "no disk has such a path: send one as the system has it, of at most 4,095 bytes and 255 between \
                        slashes, without control characters";
        return Err(Problem::new(Code::Invalid, sentence));
    }
    let List(disks) = app.change(kept, tag, Request::Disk(request)).await?;
    Ok(disks)
}

/// Whether a system can have such a path at all (path_resolution(7)), and a list of disks keep it.
fn is_a_path(path: &str) -> bool {
    path.len() < 4096 && !path.contains(is_obeyed) && path.split('/').all(|part| part.len() < 256)
}

/// What a disk is called in a path: no path of its own, however it is encoded.
fn word(app: &App, disk: String) -> Result<String, Problem> {
    if disk.contains('/') { Err(app.problem(&RequestError::NoSuchDisk(disk))) } else { Ok(disk) }
}
