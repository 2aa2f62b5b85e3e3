//! `/v1/destinations`: where events go on to. Secrets come in here and never go out.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::extract::{Extension, State};
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use group::destinations::AddressError;
use group::words::counted;
use member::{DestinationRequest, Request};
use notify::Message;

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::volumes::PageQuery;
use super::{Shared, tagged};
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::app::{App, TESTS_MAX};
use crate::server::body::{Asked, Named, SentSecret, json};
use crate::server::pages::page;
use crate::server::tags::{Kept, Wanted};
use crate::types::{
    Destination, DestinationChange, DestinationTest, List, NewDestination, Nothing,
};

/// List where events go on to
///
/// And how that does. Without secrets, which are never shown.
#[utoipa::path(
    get, path = "/v1/destinations", tag = "events", params(PageQuery),
    responses(
        (status = 200, description = "The destinations.", body = Vec<Destination>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_destinations(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let request = Request::Destination(DestinationRequest::List);
    let List(all) = app.ask::<List<Destination>>(request).await?;
    let all: Vec<_> = all.into_iter().map(|one| with_status(&app, one)).collect();
    page(&all, query.page(), &uri)
}

/// Have events go on to a destination
///
/// What happens from then on; at least once, however often it takes. A test says whether it works.
#[utoipa::path(
    post, path = "/v1/destinations", tag = "events", params(IdempotencyKey),
    request_body = NewDestination,
    responses(
        (status = 201, description = "The destination.", body = Destination,
         headers(("ETag" = String, description = "Its tag."),
                 ("Location" = String, description = "Its path."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn add_destination(
    State(app): Shared,
    SentSecret(new): SentSecret<NewDestination>,
) -> Result<Response, Problem> {
    let kept = Kept::Destination(new.name.clone());
    let request = Request::Destination(new.request().map_err(no_address)?);
    let made: Destination = app.change(kept, None, request).await?;
    let location = [(LOCATION, format!("/v1/destinations/{}", made.name))];
    Ok((location, tagged(StatusCode::CREATED, &made)).into_response())
}

/// Show a destination
#[utoipa::path(
    get, path = "/v1/destinations/{name}", tag = "events",
    params(("name" = String, Path, description = "The destination.")),
    responses(
        (status = 200, description = "The destination.", body = Destination,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_destination(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    let request = Request::Destination(DestinationRequest::Show { name });
    let shown: Destination = app.ask(request).await?;
    Ok(tagged(StatusCode::OK, &with_status(&app, shown)))
}

/// Change a destination, pause it, or let it go on
///
/// Whoever says where it is says all of its secrets again.
#[utoipa::path(
    patch, path = "/v1/destinations/{name}", tag = "events", request_body = DestinationChange,
    params(("name" = String, Path, description = "The destination."), IfMatch),
    responses(
        (status = 200, description = "The destination after the change.", body = Destination,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn change_destination(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
    SentSecret(change): SentSecret<DestinationChange>,
) -> Result<Response, Problem> {
    if change == DestinationChange::default() {
        let sentence =
            "nothing is to be changed: write one of to, severity, fold_seconds and paused";
        return Err(Problem::new(Code::Invalid, sentence));
    }
    let change = change.try_into().map_err(no_address)?;
    let kept = Kept::Destination(name.clone());
    let request = Request::Destination(DestinationRequest::Set { name, change });
    let changed: Destination = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::OK, &with_status(&app, changed)))
}

/// Delete a destination
///
/// Nothing goes there any more.
#[utoipa::path(
    delete, path = "/v1/destinations/{name}", tag = "events",
    params(("name" = String, Path, description = "The destination."), IfMatch),
    responses((status = 204, description = "It is gone."), ChangeRefusals),
)]
pub(super) async fn delete_destination(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let kept = Kept::Destination(name.clone());
    let request = Request::Destination(DestinationRequest::Delete { name });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Try a destination out
///
/// Sends one event of its own there, which no log has, and says within half a minute what came of it. A destination
/// that is paused is tried all the same. Six times a minute, whoever asks from afar, and six at the control socket; more are refused with `429`.
#[utoipa::path(
    post, path = "/v1/destinations/{name}/test", tag = "events",
    params(("name" = String, Path, description = "The destination.")),
    responses(
        (status = 200, description = "What came of it.", body = DestinationTest), ChangeRefusals,
    ),
)]
pub(super) async fn test_destination(
    State(app): Shared,
    Extension(caller): Extension<Caller>,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    let request = Request::Destination(DestinationRequest::Show { name: name.clone() });
    // Who asks for one that is not there hears so.
    app.ask::<Destination>(request).await?;
    let all = app.destinations.now();
    let Some(destination) = all.get(&name) else {
        let sentence =
            format!("the secrets of the destination '{name}' cannot be used: give them again");
        return Err(Problem::new(Code::Unavailable, sentence));
    };
    app.tests.of(caller.is_local()).take(Instant::now()).map_err(|wait| {
        let sentence = format!(
            "destinations were tried out {TESTS_MAX} times within a minute: try again in {}",
            counted(wait.as_secs() + 1, "second")
        );
        Problem::new(Code::TooOften, sentence).with_retry(wait)
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let message = Message::test(&name, now, app.last_event());
    let sent = app.sender.send(destination.id, &destination.way, &[message]).await;
    let why = sent.err().map(|error| error.to_string());
    Ok(json(&DestinationTest { taken: why.is_none(), why }))
}

fn with_status(app: &App, destination: Destination) -> Destination {
    let status = app.statuses.of(&destination.name);
    destination.with(status)
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn no_address(error: AddressError) -> Problem {
    Problem::new(Code::Invalid, error.to_string())
}
