//! Another member that has a slice, or is the home of one's volume: what it is asked, and what it answers.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::Method;
use group::membership::SliceId;
use group::ownership::MemberId;
use group::spread::{HomeSays, Openings, Question, SliceRecord};
use member::slices::Opening;
use member::{Begun, OpeningAsked, SliceLetter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::words::{
    BEGIN_PATH, LETTERS_PATH, OPEN_PATH, Opened, RECORD_PATH, Recorded, SAYS_PATH, Said,
};
use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::server::carry::{OwnError, OwnLine};

/// The media type of all that is sent.
const JSON: &str = "application/json";

/// What came of an order.
#[derive(Debug)]
pub(super) enum Obeyed {
    /// It is done.
    Done,
    /// It is not, and the member says why.
    Refused(Problem),
    /// Nobody knows: it did not answer, or cannot do it at this moment.
    Silent(Problem),
}

/// Has a member do what its home orders.
pub(super) async fn obey(app: &Arc<App>, to: MemberId, letter: &SliceLetter) -> Obeyed {
    let name = name_of(app, to);
    let mut line = OwnLine::new(app.clone(), to);
    match ask(&mut line, &name, LETTERS_PATH, json(letter)).await {
        Ok(_) => Obeyed::Done,
        Err(OwnError::Refused(problem)) if is_of_now(problem.code) => {
            Obeyed::Silent(named(problem, &name))
        }
        Err(OwnError::Refused(problem)) => Obeyed::Refused(named(problem, &name)),
        Err(OwnError::Unanswered(problem)) => Obeyed::Silent(named(problem, &name)),
    }
}

/// Has a member store that an opening of a slice is begun.
pub(super) async fn begin(
    app: &Arc<App>,
    to: MemberId,
    (slice, openings): (&SliceId, Openings),
) -> Result<Begun, Problem> {
    let path = BEGIN_PATH.replace("{id}", slice.as_str());
    let mut line = OwnLine::new(app.clone(), to);
    let answer = ask(&mut line, &name_of(app, to), &path, json(&openings)).await;
    let answer = answer.map_err(|error| named(error.into(), &name_of(app, to)))?;
    read(&answer, &name_of(app, to))
}

/// Has a member open a slice for this one, its home.
pub(super) async fn open(
    app: &Arc<App>,
    to: MemberId,
    (slice, asked): (&SliceId, OpeningAsked),
) -> Result<Opening, Problem> {
    let path = OPEN_PATH.replace("{id}", slice.as_str());
    let mut line = OwnLine::new(app.clone(), to);
    let answer = ask(&mut line, &name_of(app, to), &path, json(&asked)).await;
    let answer = answer.map_err(|error| named(error.into(), &name_of(app, to)))?;
    read::<Opened>(&answer, &name_of(app, to)).map(Into::into)
}

/// What a member has stored of the volume of this slice, whose home this one is.
pub(super) async fn record(
    app: &Arc<App>,
    to: MemberId,
    slice: &SliceId,
) -> Result<Option<SliceRecord>, Problem> {
    let path = RECORD_PATH.replace("{id}", slice.as_str());
    let mut line = OwnLine::new(app.clone(), to);
    let answer = ask(&mut line, &name_of(app, to), &path, (JSON, Bytes::new())).await;
    let answer = answer.map_err(|error| named(error.into(), &name_of(app, to)))?;
    let told = read::<Recorded>(&answer, &name_of(app, to))?;
    Ok(told.record.map(|record| *record))
}

/// What the home of a slice says of it, over the line to it.
pub(super) async fn says(
    app: &App,
    line: &mut OwnLine,
    question: &Question,
) -> Result<HomeSays, Problem> {
    let name = name_of(app, question.home);
    let answer = ask(line, &name, SAYS_PATH, json(question)).await?;
    read::<Said>(&answer, &name).map(|said| said.says)
}

async fn ask(
    line: &mut OwnLine,
    name: &str,
    path: &str,
    body: (&'static str, Bytes),
) -> Result<Bytes, OwnError> {
    let is_unknown =
        |code: Code| matches!(code, Code::NoSuchPath | Code::MethodNotAllowed | Code::BadRequest);
    match line.ask(Method::POST, path, body).await {
        // A member of an earlier version knows nothing of that.
        Err(OwnError::Refused(problem)) if is_unknown(problem.code) => {
            Err(OwnError::Refused(OwnError::other_version(name).into()))
        }
        answer => answer,
    }
}

/// Whether a member says no to what it may do when it is asked again.
const fn is_of_now(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::NotReached
            | Code::TooBusy
            | Code::Stopping
            | Code::StillAtWork
            | Code::NotServed
    )
}

/// Why it does not do it, with its name.
fn named(problem: Problem, name: &str) -> Problem {
    if problem.detail.contains(&format!("member '{name}'")) {
        return problem;
    }
    let detail = format!("member '{name}': {}", problem.detail);
    Problem { detail, ..problem }
}

/// A member as operators know it, without the word.
fn name_of(app: &App, member: MemberId) -> String {
    let now = app.roll.now();
    let record = now.as_ref().and_then(|now| now.roll.members.get(&member));
    record.map_or_else(|| member.0.to_string(), |record| record.name.clone())
}

fn json(value: &impl Serialize) -> (&'static str, Bytes) {
    (JSON, serde_json::to_vec(value).expect("plain values can be written out").into())
}

fn read<T: DeserializeOwned>(answer: &[u8], name: &str) -> Result<T, Problem> {
    serde_json::from_slice(answer).map_err(|_| OwnError::other_version(name).into())
}
