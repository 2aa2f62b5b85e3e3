//! `/metrics`.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use member::{ArrayRequest, DestinationRequest, DiskRequest, Request, VolumeRequest};

use super::Shared;
use super::described::Refusals;
use crate::metrics::{self, Figures};
use crate::problem::Problem;
use crate::types::{Array, Connection, Destination, Disk, Figures as Done, Job, List, Volume};

/// Tell the figures of the member
///
/// In Prometheus' text format; docs/metrics.md lists them.
#[utoipa::path(
    get, path = "/metrics", tag = "figures",
    responses(
        (status = 200, description = "The figures.", body = String, content_type = "text/plain"),
        Refusals,
    ),
)]
pub(super) async fn show_metrics(State(app): Shared) -> Result<Response, Problem> {
    let array: Array = app.ask(Request::Array(ArrayRequest::Show)).await?;
    let List(disks) = app.ask::<List<Disk>>(Request::Disk(DiskRequest::List)).await?;
    let List(volumes) = app.ask::<List<Volume>>(Request::Volume(VolumeRequest::List)).await?;
    let List(jobs) = app.ask::<List<Job>>(Request::Array(ArrayRequest::Jobs)).await?;
    let List(connections) = app.ask::<List<Connection>>(Request::Connections).await?;
    let done: Done = app.ask(Request::Figures).await?;
    let started_unix_seconds = app.started_unix_seconds();
    let destinations = Request::Destination(DestinationRequest::List);
    // While settings cannot be read, the other figures are wanted all the more.
    let destinations =
        app.ask::<List<Destination>>(destinations).await.map_or(Vec::new(), |all| all.0);
    let destinations = destinations.into_iter().map(|one| {
        let status = app.statuses.of(&one.name);
        one.with(status)
    });
    let destinations = destinations.collect();
    let figures = Figures {
        array,
        disks,
        volumes,
        jobs,
        connections,
        done,
        destinations,
        started_unix_seconds,
    };
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], figures.text()).into_response())
}
