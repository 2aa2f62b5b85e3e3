//! `/v1/volumes`.

use axum::Extension;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use member::{Request, SnapshotRequest, VolumeRequest};
use serde::Deserialize;
use utoipa::IntoParams;

use super::array::accepted;
use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::{Shared, tagged};
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::app::App;
use crate::server::body::{Asked, Named, Sent};
use crate::server::carry::{Meant, gather, one_here};
use crate::server::moving;
use crate::server::pages::{Page, page};
use crate::server::spread;
use crate::server::tags::{Kept, Wanted};
use crate::types::{Extent, List, NewVolume, Nothing, Run, Volume, VolumeChange, VolumeMove};

/// Which page of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Things on a page, 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where the page begins, from the `Link` of the page before.
    page: Option<String>,
}

impl PageQuery {
    pub(super) fn page(&self) -> Page<'_> {
        Page { limit: self.limit, token: self.page.as_deref() }
    }
}

/// List volumes
///
/// Those in the recycle bin too, and those of all members of the group.
#[utoipa::path(
    get, path = "/v1/volumes", tag = "volumes", params(PageQuery),
    responses(
        (status = 200, description = "The volumes.", body = Vec<Volume>,
         headers(("Link" = String, description = "The next page, if there is one."),
                 ("Drystone-Members-Missing" = String,
                  description = "The members of which nothing is in it, if there are any."))),
        Refusals,
    ),
)]
pub(super) async fn list_volumes(
    State(app): Shared,
    meant: Meant,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let own = Request::Volume(VolumeRequest::List);
    let mut gathered = gather::<Volume>(&app, &meant, "/v1/volumes", own).await?;
    spread::with_slices(&app, &mut gathered.all).await;
    Ok(gathered.tell(page(&gathered.all, query.page(), &uri)?))
}

/// Make a volume
///
/// It is served to hosts at once. In a group it is put on the member of the pool that has most room; with `spread`, that is
/// its home, and parts of it lie on other members of the pool.
#[utoipa::path(
    post, path = "/v1/volumes", tag = "volumes", params(IdempotencyKey), request_body = NewVolume,
    responses(
        (status = 201, description = "The volume.", body = Volume,
         headers(("ETag" = String, description = "Its tag."),
                 ("Location" = String, description = "Its path."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn create_volume(
    State(app): Shared,
    Sent(new): Sent<NewVolume>,
) -> Result<Response, Problem> {
    if new.pool.is_some() && app.roll.now().is_none() {
        let sentence = "a pool is one of a group, and this member is in none, or has heard nothing of it since it was \
                        started: leave the pool out";
        return Err(Problem::new(Code::NoGroup, sentence));
    }
    let made = match new.spread {
        None | Some(1) => {
            let kept = Kept::Volume(new.name.clone());
            let request = Request::Volume(VolumeRequest::Create(new.into()));
            one_here(&app, app.change::<Volume>(kept, None, request).await?)
        }
        Some(_) => spread::create(&app, new).await?,
    };
    let location = [(LOCATION, format!("/v1/volumes/{}", made.name))];
    Ok((location, tagged(StatusCode::CREATED, &made)).into_response())
}

/// Show a volume
#[utoipa::path(
    get, path = "/v1/volumes/{name}", tag = "volumes",
    params(("name" = String, Path, description = "The volume.")),
    responses(
        (status = 200, description = "The volume.", body = Volume,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_volume(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    let shown: Volume = app.ask(Request::Volume(VolumeRequest::Show { name })).await?;
    Ok(tagged(StatusCode::OK, &with_slices(&app, shown).await))
}

/// Change a volume
///
/// One thing at a time: its name, its size, whether it is served, what is read ahead, whether several hosts
/// may use it at the same time, or whether what is read of it is kept in memory.
#[utoipa::path(
    patch, path = "/v1/volumes/{name}", tag = "volumes", request_body = VolumeChange,
    params(("name" = String, Path, description = "The volume."), IfMatch),
    responses(
        (status = 200, description = "The volume after the change.", body = Volume,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn change_volume(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
    Sent(change): Sent<VolumeChange>,
) -> Result<Response, Problem> {
    let request = request_of(name.clone(), change)?;
    if let VolumeRequest::Resize { size_bytes, shrink: false, .. } = &request
        && let Some(shown) = spread::named(&app, &name).await
    {
        let grown = spread::grow(&app, &shown, (tag, *size_bytes)).await?;
        return Ok(tagged(StatusCode::OK, &grown));
    }
    let changed: Volume = app.change(Kept::Volume(name), tag, Request::Volume(request)).await?;
    Ok(tagged(StatusCode::OK, &with_slices(&app, changed).await))
}

/// A volume of this member, with where it lies.
async fn with_slices(app: &App, volume: Volume) -> Volume {
    let mut shown = [one_here(app, volume)];
    spread::with_slices(app, &mut shown).await;
    let [shown] = shown;
    shown
}

/// What a change is to a member.
fn request_of(name: String, change: VolumeChange) -> Result<VolumeRequest, Problem> {
    let VolumeChange { name: to, size_bytes, shrink, online, read_ahead_bytes, shared, cached } =
        change;
    Ok(match (to, size_bytes, online, read_ahead_bytes, shared, cached, shrink) {
        (Some(to), None, None, None, None, None, false) => VolumeRequest::Rename { name, to },
        (None, Some(size_bytes), None, None, None, None, shrink) => {
            VolumeRequest::Resize { name, size_bytes, shrink }
        }
        (None, None, Some(online), None, None, None, false) => {
            VolumeRequest::SetOnline { name, online }
        }
        (None, None, None, Some(bytes), None, None, false) => {
            VolumeRequest::SetReadAhead { name, bytes }
        }
        (None, None, None, None, Some(shared), None, false) => {
            VolumeRequest::SetShared { name, shared }
        }
        (None, None, None, None, None, Some(cached), false) => {
            VolumeRequest::SetCached { name, cached }
        }
        _ => {
            let sentence = "a volume is changed in one thing at a time: send one of name, size_bytes (with \
                            shrink if that is meant), online, read_ahead_bytes, shared and cached";
            return Err(Problem::new(Code::Invalid, sentence));
        }
    })
}

/// Put a volume into the recycle bin
///
/// It must be offline.
#[utoipa::path(
    delete, path = "/v1/volumes/{name}", tag = "volumes",
    params(("name" = String, Path, description = "The volume."), IfMatch),
    responses((status = 204, description = "It is in the recycle bin."), ChangeRefusals),
)]
pub(super) async fn delete_volume(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let kept = Kept::Volume(name.clone());
    let request = Request::Volume(VolumeRequest::Delete { name });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Take a volume out of the recycle bin
#[utoipa::path(
    post, path = "/v1/volumes/{name}/undelete", tag = "volumes",
    params(("name" = String, Path, description = "The volume."), IfMatch, IdempotencyKey),
    responses(
        (status = 200, description = "The volume.", body = Volume,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn undelete_volume(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
) -> Result<Response, Problem> {
    let kept = Kept::Volume(name.clone());
    let request = Request::Volume(VolumeRequest::Undelete { name });
    let back: Volume = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::OK, &one_here(&app, back)))
}

/// Give up a volume in the recycle bin for good
///
/// Its space comes back in the background: see the jobs of kind `delete`. A volume that lies on several members has no
/// recycle bin: it goes so once it is offline, and its slices on members that cannot be reached go when they are.
#[utoipa::path(
    post, path = "/v1/volumes/{name}/purge", tag = "volumes",
    params(("name" = String, Path, description = "The volume."), IfMatch, IdempotencyKey),
    responses((status = 204, description = "It is gone."), ChangeRefusals),
)]
pub(super) async fn purge_volume(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    if let Some(shown) = spread::named(&app, &name).await {
        spread::delete(&app, &shown, tag).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    let kept = Kept::Volume(name.clone());
    let request = Request::Volume(VolumeRequest::Purge { name });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Move a volume to another member of the group
///
/// Hosts go on reading and writing while it is copied. At its end they lose it for some seconds, log in again, and find
/// the same disk at the other member. What would keep it from moving is looked for first, on both members: then nothing
/// has begun. Its run is cancelled like any other until the group is asked to give it to the other member.
#[utoipa::path(
    post, path = "/v1/volumes/{name}/move", tag = "volumes", request_body = VolumeMove,
    params(("name" = String, Path, description = "The volume."), IdempotencyKey),
    responses(
        (status = 202, description = "It has begun.", body = Run,
         headers(("Location" = String, description = "Where it can be followed, at the member that answers."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn move_volume(
    State(app): Shared,
    Extension(caller): Extension<Caller>,
    Named(name): Named<String>,
    Sent(to): Sent<VolumeMove>,
) -> Result<Response, Problem> {
    accepted(&moving::begin(&app, &caller, name, to).await?)
}

/// Between which moments.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ChangesQuery {
    /// A snapshot; before everything if it is left out.
    from: Option<String>,
    /// A snapshot; now if it is left out.
    to: Option<String>,
    /// Ranges on a page, 1 to 100000.
    #[param(minimum = 1, maximum = 100_000)]
    limit: Option<usize>,
    /// Where the page begins, from the `Link` of the page before.
    page: Option<String>,
}

/// List the ranges of a volume that differ between two moments
#[utoipa::path(
    get, path = "/v1/volumes/{name}/changes", tag = "volumes",
    params(("name" = String, Path, description = "The volume."), ChangesQuery),
    responses(
        (status = 200, description = "The ranges.", body = Vec<Extent>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_changes(
    State(app): Shared,
    Extension(caller): Extension<Caller>,
    Named(volume): Named<String>,
    Asked(query): Asked<ChangesQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let ChangesQuery { from, to, limit, page: token } = query;
    let request = Request::Snapshot(SnapshotRequest::Diff { volume, from, to });
    let List(all) = app.ask_walk::<List<Extent>>(caller.owner(), request).await?;
    page(&all, Page { limit, token: token.as_deref() }, &uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_thing() {
        let of = |change| request_of("v".to_owned(), change);
        let nothing = VolumeChange::default;
        let offline = VolumeChange { online: Some(false), ..nothing() };
        assert_eq!(
            of(offline.clone()).unwrap(),
            VolumeRequest::SetOnline { name: "v".into(), online: false }
        );
        let smaller = VolumeChange { size_bytes: Some(1), shrink: true, ..nothing() };
        assert!(matches!(of(smaller).unwrap(), VolumeRequest::Resize { shrink: true, .. }));
        let shared = VolumeChange { shared: Some(true), ..nothing() };
        assert!(matches!(of(shared).unwrap(), VolumeRequest::SetShared { shared: true, .. }));
        let uncached = VolumeChange { cached: Some(false), ..nothing() };
        assert!(matches!(of(uncached).unwrap(), VolumeRequest::SetCached { cached: false, .. }));
        let more = VolumeChange { name: Some("w".into()), ..offline.clone() };
        let both = VolumeChange { shared: Some(true), ..offline.clone() };
        let shrunk = VolumeChange { shrink: true, ..offline };
        let two = VolumeChange { shared: Some(true), cached: Some(true), ..nothing() };
        for none in [nothing(), more, both, shrunk, two] {
            assert_eq!(of(none).unwrap_err().code, Code::Invalid);
        }
    }
}
