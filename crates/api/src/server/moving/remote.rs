//! The other side of a move: its destination as the source sees it, and the other way round.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::Method;
use group::handover::SourceSays;
use group::membership::MoveId;
use group::ownership::MemberId;
use member::{ArrivalStep, Leaving, Passport, Piece, Seal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::server::carry::{OwnError, OwnLine};
use crate::server::transit::{
    ADOPT_PATH, ARRIVE_PATH, FRAME, JSON, Look, Looked, MOVE_PATH, PIECES_PATH, PREPARE_PATH,
    Stands, framed,
};

/// The destination of a move.
pub(super) struct Destination {
    line: OwnLine,
    id: MoveId,
    /// The serial number of the volume.
    serial: String,
    /// The name of the member.
    name: String,
}

impl Destination {
    /// That of a move that has begun.
    pub(super) fn of(app: &Arc<App>, leaving: &Leaving) -> Self {
        let (id, name) = (leaving.id.clone(), leaving.to_name.clone());
        let serial = leaving.passport.serial.clone();
        Self { line: OwnLine::new(app.clone(), leaving.to), id, serial, name }
    }

    /// The volume is to come. A member of an earlier version knows nothing of that.
    pub(super) async fn arrive(&mut self, passport: &Passport) -> Result<(), OwnError> {
        let asked = self.line.ask(Method::POST, ARRIVE_PATH, json(passport)).await;
        let is_unknown = |code: Code| {
            matches!(code, Code::NoSuchPath | Code::MethodNotAllowed | Code::BadRequest)
        };
        match asked {
            Ok(_) => Ok(()),
            Err(OwnError::Refused(problem)) if is_unknown(problem.code) => {
                Err(OwnError::other_version(&self.name))
            }
            Err(error) => Err(error),
        }
    }

    /// A piece of it.
    pub(super) async fn write(&mut self, piece: &Piece) -> Result<(), OwnError> {
        let frame = Bytes::from(framed(piece));
        self.line.ask(Method::PUT, &self.path(PIECES_PATH), (FRAME, frame)).await.map(drop)
    }

    /// All of it is there.
    pub(super) async fn prepare(&mut self, seal: &Seal) -> Result<(), OwnError> {
        self.line.ask(Method::POST, &self.path(PREPARE_PATH), json(seal)).await.map(drop)
    }

    /// Has it look whose the volume is.
    pub(super) async fn look(&mut self, says: Option<SourceSays>) -> Result<ArrivalStep, OwnError> {
        let (path, serial) = (self.path(ADOPT_PATH), Some(self.serial.clone()));
        let look = json(&Look { says, serial });
        let answer = self.line.ask(Method::POST, &path, look).await?;
        read::<Looked>(&answer, &self.name).map(|looked| looked.step)
    }

    /// Has it throw away what is not prepared.
    pub(super) async fn discard(&mut self) -> Result<(), OwnError> {
        self.line.ask(Method::DELETE, &self.path(MOVE_PATH), nothing()).await.map(drop)
    }

    fn path(&self, route: &str) -> String {
        path(route, &self.id)
    }
}

/// Has the destination of a move look whose the volume of this serial number is, for one who does not drive it.
pub(super) async fn look(
    app: &Arc<App>,
    to: MemberId,
    (id, serial): (&MoveId, &str),
) -> Result<ArrivalStep, OwnError> {
    let serial = Some(serial.to_owned()).filter(|serial| !serial.is_empty());
    let look = json(&Look { says: None, serial });
    let mut line = OwnLine::new(app.clone(), to);
    let answer = line.ask(Method::POST, &path(ADOPT_PATH, id), look).await?;
    read::<Looked>(&answer, &to.to_string()).map(|looked| looked.step)
}

/// How a move stands, as its source says, of the volume of this serial number.
pub(in crate::server) async fn source_says(
    app: &Arc<App>,
    from: MemberId,
    (id, serial): (&MoveId, &str),
) -> Result<SourceSays, OwnError> {
    let mut line = OwnLine::new(app.clone(), from);
    let mut path = path(MOVE_PATH, id);
    // It was taken from another member: what is no word of a query is asked for by nothing.
    if !serial.is_empty() && serial.bytes().all(is_plain) {
        path = format!("{path}?serial={serial}");
    }
    let answer = line.ask(Method::GET, &path, nothing()).await?;
    read::<Stands>(&answer, &from.to_string()).map(|stands| stands.of(serial))
}

/// Whether it stands for itself in a query (RFC 3986 §2.3).
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn path(route: &str, id: &MoveId) -> String {
    route.replace("{id}", id.as_str())
}

/// What is sent where there is nothing to say.
const fn nothing() -> (&'static str, Bytes) {
    (JSON, Bytes::new())
}

fn json(value: &impl Serialize) -> (&'static str, Bytes) {
    (JSON, serde_json::to_vec(value).expect("plain values can be written out").into())
}

fn read<T: DeserializeOwned>(answer: &[u8], name: &str) -> Result<T, OwnError> {
    serde_json::from_slice(answer).map_err(|_| OwnError::other_version(name))
}

/// Why the destination does not take a volume, for who has asked this side to move it.
pub(super) fn not_taken(leaving: &Leaving, error: OwnError) -> Problem {
    let to = &leaving.to_name;
    match error {
        OwnError::Refused(problem) if !problem.detail.contains(&format!("'{to}'")) => {
            let (name, why) = (&leaving.passport.name, &problem.detail);
            let detail = format!("member '{to}' does not take volume '{name}': {why}");
            Problem { detail, ..problem }
        }
        error => error.into(),
    }
}
