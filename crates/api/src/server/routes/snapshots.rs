//! `/v1/snapshots`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use member::{Request, SnapshotRequest};
use serde::Deserialize;
use utoipa::IntoParams;

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::{Shared, tagged};
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::app::App;
use crate::server::body::{Asked, Named, Sent, json};
use crate::server::carry::{Meant, OfMember, count_elsewhere, gather, here, one_here};
use crate::server::pages::{Page, cut};
use crate::server::sets::{self, Spread};
use crate::server::tags::{Kept, Wanted, find_snapshot};
use crate::types::{
    Clone, List, NewSnapshots, Nothing, Snapshot, SnapshotAccess, SnapshotChange, Volume,
};

/// Which snapshots.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SnapshotsQuery {
    /// Only those of this volume.
    volume: Option<String>,
    /// Count what each of them on the page holds, which takes its time.
    #[serde(default)]
    #[param(required = false)]
    space: bool,
    /// Things on a page, 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where the page begins, from the `Link` of the page before.
    page: Option<String>,
}

/// List snapshots
///
/// Those of all members of the group, or of one volume wherever that is.
#[utoipa::path(
    get, path = "/v1/snapshots", tag = "snapshots", params(SnapshotsQuery),
    responses(
        (status = 200, description = "The snapshots.", body = Vec<Snapshot>,
         headers(("Link" = String, description = "The next page, if there is one."),
                 ("Drystone-Members-Missing" = String,
                  description = "The members of which nothing is in it, if there are any."))),
        Refusals,
    ),
)]
pub(super) async fn list_snapshots(
    State(app): Shared,
    Extension(caller): Extension<Caller>,
    meant: Meant,
    Asked(query): Asked<SnapshotsQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let SnapshotsQuery { volume, space, limit, page: token } = query;
    let own = Request::Snapshot(SnapshotRequest::List { volume });
    let mut gathered = gather::<Snapshot>(&app, &meant, "/v1/snapshots", own).await?;
    let cut = cut(&gathered.all, Page { limit, token: token.as_deref() }, &uri)?;
    let mut shown = gathered.all[cut.range()].to_vec();
    if space && !shown.is_empty() {
        shown = counted_here(&app, &caller, &meant, shown).await?;
        count_elsewhere(&app, &meant, &mut shown, &mut gathered.missing).await;
    }
    Ok(gathered.tell(cut.show(&shown)))
}

/// The same with what those hold that are here; one that has gone meanwhile is left out. What those on other pages hold
/// is nobody's question: to count all of them took seconds for each page.
async fn counted_here(
    app: &Arc<App>,
    caller: &Caller,
    meant: &Meant,
    shown: Vec<Snapshot>,
) -> Result<Vec<Snapshot>, Problem> {
    let is_here = |one: &Snapshot| meant.is_here(one.member.as_deref());
    let (own, mut all): (Vec<_>, Vec<_>) = shown.into_iter().partition(is_here);
    if own.is_empty() {
        return Ok(all);
    }
    let names = own.into_iter().map(|one| (one.volume, one.name));
    let request = Request::Snapshot(SnapshotRequest::Count { snapshots: names.collect() });
    let List(counted) = app.ask_walk::<List<Snapshot>>(caller.owner(), request).await?;
    all.extend(here(app, counted));
    if let Meant::Group(..) = meant {
        all.sort_by(Snapshot::order);
    }
    Ok(all)
}

/// Take snapshots of one moment
///
/// One of each volume, under one name. Where the volumes are on several members of a group, all get one or none does; it
/// may not be known yet which when the store of the group does not answer (503, `unavailable`).
#[utoipa::path(
    post, path = "/v1/snapshots", tag = "snapshots", params(IdempotencyKey),
    request_body = NewSnapshots,
    responses(
        (status = 201, description = "The snapshots.", body = Vec<Snapshot>),
        ChangeRefusals,
    ),
)]
pub(super) async fn create_snapshots(
    State(app): Shared,
    spread: Option<Extension<Spread>>,
    Sent(new): Sent<NewSnapshots>,
) -> Result<Response, Problem> {
    let NewSnapshots { volumes, name } = new;
    if volumes.is_empty() {
        let sentence = "no volume is named: name those of which snapshots are to be taken";
        return Err(Problem::new(Code::Invalid, sentence));
    }
    if let Some(Extension(spread)) = spread {
        let taken = sets::take(&app, spread, name).await?;
        return Ok((StatusCode::CREATED, json(&taken)).into_response());
    }
    let kept = Kept::Volume(volumes[0].clone());
    let request = Request::Snapshot(SnapshotRequest::Create { volumes, name });
    let List(taken) = app.change::<List<Snapshot>>(kept, None, request).await?;
    Ok((StatusCode::CREATED, json(&here(&app, taken))).into_response())
}

/// Show a snapshot
#[utoipa::path(
    get, path = "/v1/snapshots/{volume}/{name}", tag = "snapshots",
    params(("volume" = String, Path, description = "The volume."),
           ("name" = String, Path, description = "The snapshot.")),
    responses(
        (status = 200, description = "The snapshot.", body = Snapshot,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_snapshot(
    State(app): Shared,
    Named((volume, name)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let shown = find_snapshot(&app, &volume, &name).await?;
    Ok(tagged(StatusCode::OK, &one_here(&app, shown)))
}

/// Serve a snapshot, or stop to
#[utoipa::path(
    patch, path = "/v1/snapshots/{volume}/{name}", tag = "snapshots",
    request_body = SnapshotChange,
    params(("volume" = String, Path, description = "The volume."),
           ("name" = String, Path, description = "The snapshot."), IfMatch),
    responses(
        (status = 200, description = "The snapshot after the change.", body = Snapshot,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn change_snapshot(
    State(app): Shared,
    Named((volume, name)): Named<(String, String)>,
    Wanted(tag): Wanted,
    Sent(change): Sent<SnapshotChange>,
) -> Result<Response, Problem> {
    let kept = Kept::Snapshot(volume.clone(), name.clone());
    let request = Request::Snapshot(request_of(volume, name, &change)?);
    let changed: Snapshot = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::OK, &one_here(&app, changed)))
}

/// What a change is to a member.
fn request_of(
    volume: String,
    name: String,
    change: &SnapshotChange,
) -> Result<SnapshotRequest, Problem> {
    use SnapshotAccess::{ReadOnly, ReadWrite};
    let SnapshotChange { online, access, fresh } = *change;
    match (online, access, fresh) {
        (true, ReadWrite, fresh) => Ok(SnapshotRequest::SetWritable { volume, name, fresh }),
        (online, ReadOnly, false) => Ok(SnapshotRequest::SetOnline { volume, name, online }),
        (false, ReadWrite, _) | (_, ReadOnly, true) => {
            let sentence = "read-write access and fresh are for a snapshot that is to be served: send them with \
                            online, and fresh with read-write access";
            Err(Problem::new(Code::Invalid, sentence))
        }
    }
}

/// Delete a snapshot
///
/// It must be offline. Its space comes back in the background: see the jobs of kind `delete`.
#[utoipa::path(
    delete, path = "/v1/snapshots/{volume}/{name}", tag = "snapshots",
    params(("volume" = String, Path, description = "The volume."),
           ("name" = String, Path, description = "The snapshot."), IfMatch),
    responses((status = 204, description = "It is deleted."), ChangeRefusals),
)]
pub(super) async fn delete_snapshot(
    State(app): Shared,
    Named((volume, name)): Named<(String, String)>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let kept = Kept::Snapshot(volume.clone(), name.clone());
    let request = Request::Snapshot(SnapshotRequest::Delete { volume, name });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a volume the contents of a snapshot
///
/// The volume must be offline. What it got since is given up. The tag is that of the snapshot.
#[utoipa::path(
    post, path = "/v1/snapshots/{volume}/{name}/rollback", tag = "snapshots",
    params(("volume" = String, Path, description = "The volume."),
           ("name" = String, Path, description = "The snapshot."), IfMatch,
           IdempotencyKey),
    responses((status = 204, description = "The volume holds what it held."), ChangeRefusals),
)]
pub(super) async fn roll_back(
    State(app): Shared,
    Named((volume, name)): Named<(String, String)>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let kept = Kept::Snapshot(volume.clone(), name.clone());
    let request = Request::Snapshot(SnapshotRequest::Rollback { volume, name });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a volume of a snapshot
///
/// It is on the member that the snapshot is on.
#[utoipa::path(
    post, path = "/v1/snapshots/{volume}/{name}/clone", tag = "snapshots", request_body = Clone,
    params(("volume" = String, Path, description = "The volume."),
           ("name" = String, Path, description = "The snapshot."), IdempotencyKey),
    responses(
        (status = 201, description = "The new volume.", body = Volume,
         headers(("ETag" = String, description = "Its tag."),
                 ("Location" = String, description = "Its path."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn clone_snapshot(
    State(app): Shared,
    Named((volume, name)): Named<(String, String)>,
    Sent(Clone { to }): Sent<Clone>,
) -> Result<Response, Problem> {
    let kept = Kept::Volume(volume.clone());
    let request = Request::Snapshot(SnapshotRequest::Clone { volume, name, to });
    let made: Volume = app.change(kept, None, request).await?;
    let location = [(LOCATION, format!("/v1/volumes/{}", made.name))];
    let made = one_here(&app, made);
    Ok((location, tagged(StatusCode::CREATED, &made)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_served_can_be_written_to() {
        let of = |online, access, fresh| {
            request_of("v".into(), "s".into(), &SnapshotChange { online, access, fresh })
        };
        use SnapshotAccess::{ReadOnly, ReadWrite};
        assert!(matches!(
            of(true, ReadWrite, true),
            Ok(SnapshotRequest::SetWritable { fresh: true, .. })
        ));
        assert!(matches!(
            of(false, ReadOnly, false),
            Ok(SnapshotRequest::SetOnline { online: false, .. })
        ));
        for (online, access, fresh) in
            [(false, ReadWrite, false), (true, ReadOnly, true), (false, ReadWrite, true)]
        {
            assert_eq!(of(online, access, fresh).unwrap_err().code, Code::Invalid);
        }
    }
}
