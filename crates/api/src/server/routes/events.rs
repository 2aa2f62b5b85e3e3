//! `/v1/events`, what happened, and `/v1/audit`, who did what.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use super::described::Refusals;
use crate::problem::{Code, Problem};
use crate::server::body::Asked;
use crate::server::pages::{Page, page};
use crate::server::stream;
use crate::types::{AuditEntry, Event, Severity};

/// Which events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Those since this time, in seconds since 1970 (UTC).
    since: Option<u64>,
    /// Those since so many seconds before now, by the clock of the member.
    #[param(example = 3600)]
    seconds_ago: Option<u64>,
    /// Those that matter at least as much: `info`, `warning`, `error` or `critical`.
    #[param(example = "warning")]
    severity: Option<String>,
    /// Those about things whose name has this text in it.
    object: Option<String>,
    /// Of those, only so many of the last.
    #[param(minimum = 1)]
    last: Option<usize>,
    /// Things on a page, 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where the page begins, from the `Link` of the page before.
    page: Option<String>,
}

/// List events
///
/// Oldest first. So many as two files of the data directory hold are kept.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", params(EventsQuery),
    responses(
        (status = 200, description = "The events.", body = Vec<Event>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_events(
    State(app): Shared,
    Asked(query): Asked<EventsQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let wanted = Wanted::new(query.severity.as_deref(), query.object)?;
    let begin = begin(query.since, query.seconds_ago, SystemTime::now())?;
    let mut all = app.events_after(0, usize::MAX);
    all.retain(|event| event.time_unix_seconds >= begin && wanted.is_met(event));
    only_last(&mut all, query.last)?;
    page(&all, Page { limit: query.limit, token: query.page.as_deref() }, &uri)
}

/// Which events to follow.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FollowQuery {
    /// From this number on; those to come if it is left out.
    from: Option<u64>,
    /// Those that matter at least as much: `info`, `warning`, `error` or `critical`.
    #[param(example = "warning")]
    severity: Option<String>,
    /// Those about things whose name has this text in it.
    object: Option<String>,
}

/// Follow events
///
/// Server-sent events: `event` with an event each, whose ID is its number; and `problem` with a problem when the
/// member stops.
#[utoipa::path(
    get, path = "/v1/events/stream", tag = "events", params(FollowQuery),
    responses(
        (status = 200, description = "Events.", body = String, content_type = "text/event-stream"),
        Refusals,
    ),
)]
pub(super) async fn follow_events(
    State(app): Shared,
    Asked(query): Asked<FollowQuery>,
) -> Result<Response, Problem> {
    let wanted = Wanted::new(query.severity.as_deref(), query.object)?;
    let after = query.from.map_or_else(|| app.last_event(), |from| from.saturating_sub(1));
    stream::events_after(app, after, move |event| wanted.is_met(event))
}

/// What events have to be.
struct Wanted {
    severity: Severity,
    object: String,
}

impl Wanted {
    fn new(severity: Option<&str>, object: Option<String>) -> Result<Self, Problem> {
        let of_word = |word: &str| {
            Severity::from_word(word).ok_or_else(|| {
                let sentence =
                    format!("'{word}' is no severity: write info, warning, error or critical");
                Problem::new(Code::Invalid, sentence)
            })
        };
        let severity = severity.map_or(Ok(Severity::Info), of_word)?;
        Ok(Self { severity, object: object.unwrap_or_default() })
    }

    fn is_met(&self, event: &Event) -> bool {
        event.severity >= self.severity && event.object.name.contains(&self.object)
    }
}

/// The time that it begins with, in seconds since 1970 (UTC): as it was said, or so long before `now`.
fn begin(since: Option<u64>, seconds_ago: Option<u64>, now: SystemTime) -> Result<u64, Problem> {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    match (since, seconds_ago) {
        (Some(_), Some(_)) => {
            let sentence = "since and seconds_ago both say when it begins: write one of them";
            Err(Problem::new(Code::Invalid, sentence))
        }
        (since, None) => Ok(since.unwrap_or(0)),
        (None, Some(seconds)) => Ok(now.saturating_sub(seconds)),
    }
}

/// Leaves so many of the last.
fn only_last<T>(all: &mut Vec<T>, last: Option<usize>) -> Result<(), Problem> {
    if last == Some(0) {
        return Err(Problem::new(Code::Invalid, "the last 0 are none: write 1 or more"));
    }
    let before = all.len().saturating_sub(last.unwrap_or(all.len()));
    all.drain(..before);
    Ok(())
}

/// Which entries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Those since this time, in seconds since 1970 (UTC).
    since: Option<u64>,
    /// Those since so many seconds before now, by the clock of the member.
    #[param(example = 3600)]
    seconds_ago: Option<u64>,
    /// Only what was refused or failed, or only what was done.
    done: Option<bool>,
    /// Of those, only so many of the last.
    #[param(minimum = 1)]
    last: Option<usize>,
    /// Things on a page, 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where the page begins, from the `Link` of the page before.
    page: Option<String>,
}

/// List the audit log
///
/// Logins of hosts, refused logins, and changes that somebody asked for; oldest first. It cannot be changed.
#[utoipa::path(
    get, path = "/v1/audit", tag = "events", params(AuditQuery),
    responses(
        (status = 200, description = "The entries.", body = Vec<AuditEntry>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_audit(
    State(app): Shared,
    Asked(query): Asked<AuditQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let begin = begin(query.since, query.seconds_ago, SystemTime::now())?;
    let mut all: Vec<AuditEntry> =
        app.logs.audit.after(0).iter().map(|record| (&**record).into()).collect();
    all.retain(|entry| {
        entry.time_unix_seconds >= begin && query.done.is_none_or(|done| entry.done == done)
    });
    only_last(&mut all, query.last)?;
    page(&all, Page { limit: query.limit, token: query.page.as_deref() }, &uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_ago_goes_by_the_clock_here() {
        let now = UNIX_EPOCH + std::time::Duration::from_millis(10_900);
        assert_eq!(begin(None, None, now), Ok(0));
        assert_eq!(begin(Some(7), None, now), Ok(7));
        assert_eq!(begin(None, Some(3), now), Ok(7));
        assert_eq!(begin(None, Some(u64::MAX), now), Ok(0));
        assert_eq!(begin(Some(7), Some(3), now).unwrap_err().code, Code::Invalid);
    }

    #[test]
    fn severities_are_words_and_a_last_one_there_must_be() {
        assert_eq!(Wanted::new(None, None).unwrap().severity, Severity::Info);
        assert_eq!(Wanted::new(Some("error"), None).unwrap().severity, Severity::Error);
        assert_eq!(Wanted::new(Some("loud"), None).map(|_| ()).unwrap_err().code, Code::Invalid);
        let mut all = vec![1, 2, 3];
        only_last(&mut all, Some(2)).unwrap();
        assert_eq!(all, [2, 3]);
        only_last(&mut all, Some(9)).unwrap();
        assert_eq!(all, [2, 3]);
        assert!(only_last(&mut all, Some(0)).is_err());
    }
}
