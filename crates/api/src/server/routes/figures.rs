//! `/v1/figures`.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use member::Request;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use super::described::Refusals;
use crate::problem::{Code, Problem};
use crate::server::body::{Asked, json};
use crate::server::stream;
use crate::types::Figures;

/// Seconds between two looks, at most.
const INTERVAL_SECONDS_MAX: u64 = 3600;

/// Show what hosts have had done
///
/// Counts of commands, bytes and latencies, for programs that look again and again.
#[utoipa::path(
    get, path = "/v1/figures", tag = "figures",
    responses((status = 200, description = "The figures.", body = Figures), Refusals),
)]
pub(super) async fn show_figures(State(app): Shared) -> Result<Response, Problem> {
    Ok(json(&app.ask::<Figures>(Request::Figures).await?))
}

/// How often to tell figures.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct IntervalQuery {
    /// Seconds from one to the next, 1 to 3600; 1 if it is left out.
    #[param(minimum = 1, maximum = 3600)]
    interval_seconds: Option<u64>,
}

impl IntervalQuery {
    fn interval(&self) -> Result<Duration, Problem> {
        let seconds = self.interval_seconds.unwrap_or(1);
        if !(1..=INTERVAL_SECONDS_MAX).contains(&seconds) {
            let sentence = format!(
                "figures are not told every {seconds} seconds: write an interval_seconds of 1 to {INTERVAL_SECONDS_MAX}"
            );
            return Err(Problem::new(Code::Invalid, sentence));
        }
        Ok(Duration::from_secs(seconds))
    }
}

/// Follow what hosts have had done
///
/// Server-sent events: `figures` with the figures, at once and after each interval; and `problem` with a problem when
/// the member stops, or has none. They are counted for whoever follows them, and for nobody else.
#[utoipa::path(
    get, path = "/v1/figures/stream", tag = "figures", params(IntervalQuery),
    responses(
        (status = 200, description = "Events.", body = String, content_type = "text/event-stream"),
        Refusals,
    ),
)]
pub(super) async fn follow_figures(
    State(app): Shared,
    Asked(query): Asked<IntervalQuery>,
) -> Result<Response, Problem> {
    stream::figures(app, query.interval()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_of_a_second_to_an_hour() {
        let interval = |interval_seconds| IntervalQuery { interval_seconds }.interval();
        assert_eq!(interval(None), Ok(Duration::from_secs(1)));
        assert_eq!(interval(Some(3600)), Ok(Duration::from_secs(3600)));
        for none in [0, 3601, u64::MAX] {
            assert_eq!(interval(Some(none)).unwrap_err().code, Code::Invalid, "{none}");
        }
    }
}
