//! `/v1/array`.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use member::{ArrayRequest, Request};

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::{Shared, tagged};
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::body::{Sent, json};
use crate::server::runs;
use crate::server::tags::{Kept, Wanted};
use crate::types::{Array, ArrayChange, ArrayWork, Run};

/// Show the array
#[utoipa::path(
    get, path = "/v1/array", tag = "array",
    responses(
        (status = 200, description = "The array.", body = Array,
         headers(("ETag" = String, description = "The tag of what is set."))),
        Refusals,
    ),
)]
pub(super) async fn show_array(State(app): Shared) -> Result<Response, Problem> {
    let shown: Array = app.ask(Request::Array(ArrayRequest::Show)).await?;
    Ok(tagged(StatusCode::OK, &shown))
}

/// Change what is set for the whole array
#[utoipa::path(
    patch, path = "/v1/array", tag = "array", params(IfMatch), request_body = ArrayChange,
    responses(
        (status = 200, description = "The array after the change.", body = Array,
         headers(("ETag" = String, description = "The tag of what is set."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn change_array(
    State(app): Shared,
    Wanted(tag): Wanted,
    Sent(change): Sent<ArrayChange>,
) -> Result<Response, Problem> {
    check_percents(&change)?;
    let request = Request::Array(change.into());
    let changed: Array = app.change(Kept::Array, tag, request).await?;
    Ok(tagged(StatusCode::OK, &changed))
}

/// Refuses what is no share: a member would take the nearest that is one.
fn check_percents(change: &ArrayChange) -> Result<(), Problem> {
    let warn = change.warn_percents.iter().flatten();
    let mut all = change.rebuild_share_percent.iter().chain(warn);
    match all.find(|percent| !(1..=100).contains(*percent)) {
        None => Ok(()),
        Some(percent) => {
            let sentence = format!("{percent} is no share in percent: write 1 to 100");
            Err(Problem::new(Code::Invalid, sentence))
        }
    }
}

/// Read and compare everything, in the background
#[utoipa::path(
    post, path = "/v1/array/scrub", tag = "array", params(IdempotencyKey),
    responses(
        (status = 202, description = "It has begun.", body = Run,
         headers(("Location" = String, description = "Where it can be followed."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn scrub(
    State(app): Shared,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    accepted(&runs::begin(&app, ArrayWork::Scrub, &caller)?)
}

/// Verify everything
#[utoipa::path(
    post, path = "/v1/array/check", tag = "array", params(IdempotencyKey),
    responses(
        (status = 202, description = "It has begun.", body = Run,
         headers(("Location" = String, description = "Where it can be followed."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn check(
    State(app): Shared,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    accepted(&runs::begin(&app, ArrayWork::Check, &caller)?)
}

/// Spread data over all disks
#[utoipa::path(
    post, path = "/v1/array/rebalance", tag = "array", params(IdempotencyKey),
    responses(
        (status = 202, description = "It has begun.", body = Run,
         headers(("Location" = String, description = "Where it can be followed."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn rebalance(
    State(app): Shared,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    accepted(&runs::begin(&app, ArrayWork::Rebalance, &caller)?)
}

/// A run that has begun, with where it can be followed.
#[expect(clippy::unnecessary_wraps, reason = "as the handlers give it")]
pub(super) fn accepted(run: &Run) -> Result<Response, Problem> {
    let location = [(LOCATION, format!("/v1/runs/{}", run.id))];
    Ok((StatusCode::ACCEPTED, location, json(run)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shares_are_taken() {
        let of = |share, warn: Option<&[u8]>| {
            let (rebuild_share_percent, warn_percents) = (share, warn.map(<[u8]>::to_vec));
            let change =
                ArrayChange { rebuild_share_percent, warn_percents, ..ArrayChange::default() };
            check_percents(&change)
        };
        assert!(of(None, None).is_ok() && of(Some(1), Some(&[100, 50])).is_ok());
        for (share, warn) in [(Some(0), None), (Some(101), None), (None, Some(&[50, 0][..]))] {
            assert_eq!(of(share, warn).unwrap_err().code, Code::Invalid);
        }
    }
}
