//! `/v1/jobs`, what runs in the background, and `/v1/runs`, what was asked for that takes long.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use member::{ArrayRequest, Request};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use super::described::{ChangeRefusals, Refusals};
use super::volumes::PageQuery;
use crate::problem::{Code, Problem};
use crate::server::body::{Asked, Named, json};
use crate::server::carry::{Meant, gather};
use crate::server::pages::page;
use crate::server::stream;
use crate::types::{Job, JobKind, Run};

/// List what runs in the background
///
/// On all members of the group.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "work", params(PageQuery),
    responses(
        (status = 200, description = "The jobs.", body = Vec<Job>,
         headers(("Link" = String, description = "The next page, if there is one."),
                 ("Drystone-Members-Missing" = String,
                  description = "The members of which nothing is in it, if there are any."))),
        Refusals,
    ),
)]
pub(super) async fn list_jobs(
    State(app): Shared,
    meant: Meant,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let own = Request::Array(ArrayRequest::Jobs);
    let gathered = gather::<Job>(&app, &meant, "/v1/jobs", own).await?;
    Ok(gathered.tell(page(&gathered.all, query.page(), &uri)?))
}

/// Which jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct KindsQuery {
    /// Their kinds, with commas between them; all if it is left out.
    #[param(example = "rebuild,rebalance")]
    kinds: Option<String>,
}

impl KindsQuery {
    fn kinds(&self) -> Result<Vec<JobKind>, Problem> {
        let Some(words) = &self.kinds else { return Ok(JobKind::OF_ARRAY.to_vec()) };
        let kind = |word: &str| JobKind::OF_ARRAY.into_iter().find(|kind| kind.word() == word);
        let kinds = words.split(',').map(|word| {
            kind(word).ok_or_else(|| {
                let all = JobKind::OF_ARRAY.map(JobKind::word).join(", ");
                Problem::new(
                    Code::Invalid,
                    format!("'{word}' is no kind of job: write some of {all}"),
                )
            })
        });
        kinds.collect()
    }
}

/// Follow jobs until there are none
///
/// Server-sent events: `jobs` with a list of jobs, whenever that changes; at last `done`, or `problem` with
/// a problem. They are those of one member.
#[utoipa::path(
    get, path = "/v1/jobs/stream", tag = "work", params(KindsQuery),
    responses(
        (status = 200, description = "Events.", body = String, content_type = "text/event-stream"),
        Refusals,
    ),
)]
pub(super) async fn follow_jobs(
    State(app): Shared,
    Asked(query): Asked<KindsQuery>,
) -> Result<Response, Problem> {
    stream::jobs(app, &query.kinds()?)
}

/// List the last runs
#[utoipa::path(
    get, path = "/v1/runs", tag = "work",
    responses((status = 200, description = "The runs, oldest first.", body = Vec<Run>), Refusals),
)]
pub(super) async fn list_runs(State(app): Shared) -> Response {
    json(&app.runs.list())
}

/// Show a run
#[utoipa::path(
    get, path = "/v1/runs/{id}", tag = "work",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "The run.", body = Run), Refusals),
)]
pub(super) async fn show_run(
    State(app): Shared,
    Named(id): Named<String>,
) -> Result<Response, Problem> {
    let run = app.runs.find(&id)?.borrow().clone();
    Ok(json(&run))
}

/// Cancel a scrub, a check, a rebalance or a move
///
/// It ends as soon as it can be left, which is mostly at once, and its state says so then; what it has repaired
/// stays repaired, and what it has moved stays where it is. A scrub that is about to put right what a disk has
/// refused goes on to its end. A rebalance ends whoever began it before this run, also one that began by itself;
/// chunks that are on their way arrive. If another run of it was begun after this one, data moves on for that. A volume
/// that moves stays where it was, and its hosts have it back if they had lost it; once the group is asked to give it to
/// the other member, its move cannot be cancelled any more (409, `wrong-state`).
#[utoipa::path(
    post, path = "/v1/runs/{id}/cancel", tag = "work",
    params(("id" = String, Path, description = "The run.")),
    responses(
        (status = 202, description = "The run, which is to end.", body = Run),
        ChangeRefusals,
    ),
)]
pub(super) async fn cancel_run(
    State(app): Shared,
    Named(id): Named<String>,
) -> Result<Response, Problem> {
    Ok((StatusCode::ACCEPTED, json(&app.runs.cancel(&id)?)).into_response())
}

/// Follow a run to its end
///
/// Server-sent events: `jobs` with a list of jobs, whenever that changes; at last `done` with the run, also if it
/// was cancelled, or `problem` with a problem.
#[utoipa::path(
    get, path = "/v1/runs/{id}/stream", tag = "work",
    params(("id" = String, Path, description = "The run.")),
    responses(
        (status = 200, description = "Events.", body = String, content_type = "text/event-stream"),
        Refusals,
    ),
)]
pub(super) async fn follow_run(
    State(app): Shared,
    Named(id): Named<String>,
) -> Result<Response, Problem> {
    stream::run(&app, &id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_words_with_commas_between_them() {
        let kinds = |words: Option<&str>| KindsQuery { kinds: words.map(str::to_owned) }.kinds();
        assert_eq!(kinds(None).unwrap(), JobKind::OF_ARRAY);
        let two = kinds(Some("rebuild,rebalance")).unwrap();
        assert_eq!(two, [JobKind::Rebuild, JobKind::Rebalance]);
        for none in ["", "rebuild,", "Rebuild"] {
            assert_eq!(kinds(Some(none)).unwrap_err().code, Code::Invalid, "{none}");
        }
    }
}
