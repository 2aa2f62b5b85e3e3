//! A participant of a set: this member, or another one.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::Method;
use group::membership::SetId;
use group::ownership::MemberId;
use member::{SetPlan, SetRequest};

use super::here;
use super::words::{HOLD_PATH, PREPARE_PATH, RELEASE_PATH, SETTLE_PATH, TAKE_PATH};
use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::server::carry::{OwnError, OwnLine, here as of_here};
use crate::types::{List, Nothing, Snapshot};

/// The media type of all that is sent.
const JSON: &str = "application/json";

/// A member that has volumes of a set.
pub(super) struct Participant {
    app: Arc<App>,
    id: SetId,
    /// The way to it; `None` where it is this member.
    line: Option<OwnLine>,
    name: String,
}

impl Participant {
    /// This one, or another one.
    pub(super) fn new(app: &Arc<App>, id: &SetId, member: MemberId) -> Self {
        let now = app.roll.now();
        let is_here = now.as_ref().is_some_and(|now| now.me == member);
        let line = (!is_here).then(|| OwnLine::new(app.clone(), member));
        let record = now.as_ref().and_then(|now| now.roll.members.get(&member));
        let name = record.map_or_else(|| member.to_string(), |record| record.name.clone());
        Self { app: app.clone(), id: id.clone(), line, name }
    }

    /// It is to take part. A member of an earlier version knows nothing of that.
    pub(super) async fn prepare(&mut self, plan: SetPlan) -> Result<(), Problem> {
        let Some(line) = &mut self.line else {
            return here::<Nothing>(&self.app, SetRequest::Prepare { plan }).await.map(drop);
        };
        let body = serde_json::to_vec(&plan).expect("plain values can be written out");
        let is_unknown = |code: Code| {
            matches!(code, Code::NoSuchPath | Code::MethodNotAllowed | Code::BadRequest)
        };
        match line.ask(Method::POST, PREPARE_PATH, (JSON, body.into())).await {
            Ok(_) => Ok(()),
            Err(OwnError::Refused(problem)) if is_unknown(problem.code) => {
                Err(OwnError::other_version(&self.name).into())
            }
            Err(error) => Err(self.named(error)),
        }
    }

    /// Hosts are to wait.
    pub(super) async fn hold(&mut self) -> Result<(), Problem> {
        match self.line {
            None => {
                here::<Nothing>(&self.app, SetRequest::Hold { id: self.id.clone() }).await.map(drop)
            }
            Some(_) => self.ask(HOLD_PATH).await.map(drop),
        }
    }

    /// The snapshots are to be taken.
    pub(super) async fn take(&mut self) -> Result<Vec<Snapshot>, Problem> {
        if self.line.is_none() {
            let request = SetRequest::Take { id: self.id.clone() };
            let List(taken) = here::<List<Snapshot>>(&self.app, request).await?;
            return Ok(of_here(&self.app, taken));
        }
        let answer = self.ask(TAKE_PATH).await?;
        serde_json::from_slice(&answer).map_err(|_| OwnError::other_version(&self.name).into())
    }

    /// Hosts are to go on: a hold ends by itself, too.
    pub(super) async fn release(&mut self) {
        let released = match self.line {
            None => {
                let request = SetRequest::Release { id: self.id.clone() };
                here::<Nothing>(&self.app, request).await.map(drop)
            }
            Some(_) => self.ask(RELEASE_PATH).await.map(drop),
        };
        if let Err(problem) = released {
            tracing::debug!("hosts of member '{}' go on by themselves: {problem}", self.name);
        }
    }

    /// It is decided. Whoever does not hear of it looks by itself.
    pub(super) async fn settle(&mut self) -> Result<(), Problem> {
        match self.line {
            None => {
                let request = SetRequest::Settle { id: self.id.clone(), is_told: true };
                here::<bool>(&self.app, request).await.map(drop)
            }
            Some(_) => self.ask(SETTLE_PATH).await.map(drop),
        }
    }

    async fn ask(&mut self, route: &str) -> Result<Bytes, Problem> {
        let path = route.replace("{id}", self.id.as_str());
        let Some(line) = &mut self.line else { unreachable!("this member is asked otherwise") };
        let asked = line.ask(Method::POST, &path, (JSON, Bytes::new())).await;
        asked.map_err(|error| self.named(error))
    }

    /// Why it does not do it, with its name.
    fn named(&self, error: OwnError) -> Problem {
        match error {
            OwnError::Refused(problem) if !problem.detail.contains(&self.name) => {
                let detail = format!("member '{}': {}", self.name, problem.detail);
                Problem { detail, ..problem }
            }
            // Whatever it has done of that: without its answer the set is void.
            OwnError::Unanswered(problem) if problem.code == Code::Unavailable => {
                let detail = format!(
                    "member '{}' went away while it was asked, or gave no whole answer: take them again when it is there",
                    self.name
                );
                Problem { detail, ..problem }
            }
            error => error.into(),
        }
    }
}
