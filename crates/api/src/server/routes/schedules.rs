//! `/v1/schedules`.

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use group::schedules::TimeOfDayError;
use member::{Request, ScheduleRequest};

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::volumes::PageQuery;
use super::{Shared, tagged};
use crate::problem::{Code, Problem};
use crate::server::body::{Asked, Named, Sent};
use crate::server::carry::{Meant, gather, one_here};
use crate::server::pages::page;
use crate::server::tags::{Kept, Wanted};
use crate::types::{NewSchedule, Nothing, Schedule, ScheduleChange};

/// List snapshot schedules
///
/// Those of all members of the group.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "snapshots", params(PageQuery),
    responses(
        (status = 200, description = "The schedules.", body = Vec<Schedule>,
         headers(("Link" = String, description = "The next page, if there is one."),
                 ("Drystone-Members-Missing" = String,
                  description = "The members of which nothing is in it, if there are any."))),
        Refusals,
    ),
)]
pub(super) async fn list_schedules(
    State(app): Shared,
    meant: Meant,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let own = Request::Schedule(ScheduleRequest::List);
    let gathered = gather::<Schedule>(&app, &meant, "/v1/schedules", own).await?;
    Ok(gathered.tell(page(&gathered.all, query.page(), &uri)?))
}

/// Make a snapshot schedule
///
/// It is due for the first time at the next of its moments. All its volumes are on one member of a group.
#[utoipa::path(
    post, path = "/v1/schedules", tag = "snapshots", params(IdempotencyKey),
    request_body = NewSchedule,
    responses(
        (status = 201, description = "The schedule.", body = Schedule,
         headers(("ETag" = String, description = "Its tag."),
                 ("Location" = String, description = "Its path."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn create_schedule(
    State(app): Shared,
    Sent(new): Sent<NewSchedule>,
) -> Result<Response, Problem> {
    let new: member::NewSchedule = new.try_into().map_err(no_time)?;
    let kept = Kept::Schedule(new.name.clone());
    let request = Request::Schedule(ScheduleRequest::Create(new));
    let made: Schedule = app.change(kept, None, request).await?;
    let location = [(LOCATION, format!("/v1/schedules/{}", made.name))];
    let made = one_here(&app, made);
    Ok((location, tagged(StatusCode::CREATED, &made)).into_response())
}

/// Show a snapshot schedule
#[utoipa::path(
    get, path = "/v1/schedules/{name}", tag = "snapshots",
    params(("name" = String, Path, description = "The schedule.")),
    responses(
        (status = 200, description = "The schedule.", body = Schedule,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_schedule(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    let shown: Schedule = app.ask(Request::Schedule(ScheduleRequest::Show { name })).await?;
    Ok(tagged(StatusCode::OK, &one_here(&app, shown)))
}

/// Change a snapshot schedule, pause it, or let it go on
#[utoipa::path(
    patch, path = "/v1/schedules/{name}", tag = "snapshots", request_body = ScheduleChange,
    params(("name" = String, Path, description = "The schedule."), IfMatch),
    responses(
        (status = 200, description = "The schedule after the change.", body = Schedule,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn change_schedule(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
    Sent(change): Sent<ScheduleChange>,
) -> Result<Response, Problem> {
    if change == ScheduleChange::default() {
        let sentence = "nothing is to be changed: write one of volumes, when, keep and paused";
        return Err(Problem::new(Code::Invalid, sentence));
    }
    let change = change.try_into().map_err(no_time)?;
    let kept = Kept::Schedule(name.clone());
    let request = Request::Schedule(ScheduleRequest::Set { name, change });
    let changed: Schedule = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::OK, &one_here(&app, changed)))
}

/// Delete a snapshot schedule
///
/// Its snapshots stay: from then on they are like those that somebody took by hand.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", tag = "snapshots",
    params(("name" = String, Path, description = "The schedule."), IfMatch),
    responses((status = 204, description = "It is gone."), ChangeRefusals),
)]
pub(super) async fn delete_schedule(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let kept = Kept::Schedule(name.clone());
    let request = Request::Schedule(ScheduleRequest::Delete { name });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn no_time(error: TimeOfDayError) -> Problem {
    Problem::new(Code::Invalid, error.to_string())
}
