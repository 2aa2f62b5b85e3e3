//! `/v1/slices`: the parts of volumes that lie on several members. What members ask of each other about them is answered to
//! members alone, at a port of their own, and is in no document.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use group::membership::SliceId;
use group::ownership::MemberId;
use group::spread::{HomeSays, Openings, Question, SliceRecord};
use member::audit::Change;
use member::slices::Opening;
use member::{Begun, OpeningAsked, Request as Asked, SliceLetter, SpreadRequest};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use super::described::{ChangeRefusals, IdempotencyKey, Refusals};
use super::volumes::PageQuery;
use crate::mutants::{self, Mutant};
use crate::problem::Problem;
use crate::server::admit::Caller;
use crate::server::app::App;
use crate::server::body::{Asked as Words, Named, Sent, json};
use crate::server::carry::{AskingMember, Meant, gather_with};
use crate::server::pages::page;
use crate::server::spread::words::{
    BEGIN_PATH, LETTERS_PATH, OPEN_PATH, Opened, RECORD_PATH, Recorded, SAYS_PATH, Said,
};
use crate::server::spread::{discard, own_slices, rebuild};
use crate::types::{Nothing, Slice, Volume};

/// List the slices of volumes that lie on several members
///
/// Those that members have of volumes whose home is another one, and those that homes wait for as they delete volumes.
#[utoipa::path(
    get, path = "/v1/slices", tag = "volumes", params(PageQuery),
    responses(
        (status = 200, description = "The slices.", body = Vec<Slice>,
         headers(("Link" = String, description = "The next page, if there is one."),
                 ("Drystone-Members-Missing" = String,
                  description = "The members of which nothing is in it, if there are any."))),
        Refusals,
    ),
)]
pub(super) async fn list_slices(
    State(app): Shared,
    meant: Meant,
    Words(query): Words<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let gathered = gather_with::<Slice>(&app, &meant, "/v1/slices", own_slices(&app)).await?;
    Ok(gathered.tell(page(&gathered.all, query.page(), &uri)?))
}

/// Discard a slice of a volume that lies on several members
///
/// One that is left over, at the member that has it: it is deleted for good. Or one that the home of a deleted volume awaits of
/// a member that was removed from the group, at that home: it is not waited for any more, and what that server has of it
/// stays there. Or what a member has stored of one and is damaged: that record goes, and what the disks have stays.
#[utoipa::path(
    delete, path = "/v1/slices/{id}", tag = "volumes",
    params(("id" = String, Path, description = "The slice.")),
    responses((status = 204, description = "It is deleted, or not waited for any more."), ChangeRefusals),
)]
pub(super) async fn discard_slice(
    State(app): Shared,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    discard(&app, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How a volume is made anew.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[into_params(parameter_in = Query, rename_all = "kebab-case")]
pub(super) struct RebuildQuery {
    /// Also where members have seen a later home than this one: what hosts have written since to its own pages is not there.
    despite_later: Option<bool>,
}

/// Make a volume that lies on several members anew of its slices
///
/// At its home, which has lost what it had stored of it, as where its settings were given up. All other members that have
/// slices of it tell what they have stored; the home has its array still, and the volume its name. It is offline then, so
/// that somebody looks at it before hosts write, and nobody is on its list but who was set since.
///
/// A home that other members take for an older one goes on with what it has, if that is said; it is offline then, too.
#[utoipa::path(
    post, path = "/v1/slices/{id}/rebuild", tag = "volumes",
    params(
        ("id" = String, Path, description = "A slice of the volume, which another member has."), RebuildQuery,
        IdempotencyKey,
    ),
    responses((status = 200, description = "The volume, offline.", body = Volume), ChangeRefusals),
)]
pub(super) async fn rebuild_volume(
    State(app): Shared,
    Named(id): Named<String>,
    Words(RebuildQuery { despite_later }): Words<RebuildQuery>,
) -> Result<Response, Problem> {
    Ok(json(&rebuild(&app, &id, despite_later.unwrap_or(false)).await?))
}

/// What members ask of each other.
pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route(LETTERS_PATH, post(obey))
        .route(BEGIN_PATH, post(begin))
        .route(OPEN_PATH, post(open))
        .route(RECORD_PATH, post(tell))
        .route(SAYS_PATH, post(say))
}

/// An order of the home of a slice. Whether it is its home the member says, by who has proved itself here.
async fn obey(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Extension(caller): Extension<Caller>,
    Sent(letter): Sent<SliceLetter>,
) -> Result<StatusCode, Problem> {
    let from = from(&asking, letter.letter.home);
    let outcome = format!(
        "{:?}, of slice {} of the spread volume '{}'",
        letter.letter.order, letter.letter.slice, letter.letter.name
    );
    let request = SpreadRequest::Letter { from, letter: Box::new(letter) };
    app.ask::<Nothing>(Asked::Spread(request)).await?;
    // What is refused is asked for again and again: that is on no record.
    app.logs.audit.change(Change {
        who: caller.actor(),
        from: caller.place(),
        operation: format!("POST {LETTERS_PATH}"),
        path: LETTERS_PATH.to_owned(),
        done: true,
        outcome,
    });
    Ok(StatusCode::NO_CONTENT)
}

/// The home of a slice begins an opening.
async fn begin(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(slice): Named<SliceId>,
    Sent(openings): Sent<Openings>,
) -> Result<Response, Problem> {
    let request = SpreadRequest::Begin { from: asking.number, slice, openings };
    let begun: Begun = app.ask(Asked::Spread(request)).await?;
    Ok(json(&begun))
}

/// A slice is to be opened for its home.
async fn open(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(slice): Named<SliceId>,
    Sent(asked): Sent<OpeningAsked>,
) -> Result<Response, Problem> {
    let request = SpreadRequest::Open { from: asking.number, slice, asked };
    let opening: Opening = app.ask(Asked::Spread(request)).await?;
    Ok(json(&Opened::from(opening)))
}

/// What is stored of the volume of a slice is told to its home.
async fn tell(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Named(slice): Named<SliceId>,
) -> Result<Response, Problem> {
    let request = SpreadRequest::Tell { from: asking.number, slice };
    let record: Option<Box<SliceRecord>> = app.ask(Asked::Spread(request)).await?;
    Ok(json(&Recorded { record }))
}

/// What of a slice?
async fn say(
    State(app): Shared,
    Extension(asking): Extension<AskingMember>,
    Sent(question): Sent<Question>,
) -> Result<Response, Problem> {
    let request = SpreadRequest::Says { from: asking.number, question };
    let says: HomeSays = app.ask(Asked::Spread(request)).await?;
    Ok(json(&Said { says }))
}

/// Who sends an order: whoever has proved itself, whatever the order says.
fn from(asking: &AskingMember, home: MemberId) -> MemberId {
    if mutants::is(Mutant::ObeyAnyMember) { home } else { asking.number }
}
