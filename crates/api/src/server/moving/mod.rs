//! Volumes that move from one member of the group to another: who has both sides do what there is to do.
//!
//! ```text
//!  POST /v1/volumes/{name}/move ─▶ driver ─▶ member: what the source does (Begin, Next, Freeze, Seal, Commit, Gone)
//!                                    │
//!                                    ╰────▶ remote ══ TLS ══▶ routes::moves ─▶ member: what the destination does
//!
//!  janitor, at both sides: what a driver has left behind that was cut off
//! ```
//!
//! Nothing here decides whose a volume is: that the members do, by what the store of the group says. What is done here
//! may break off anywhere, and is then put right by the janitors of both sides.
//!
//! 1. A piece that was sent and not answered is not sent again: it could come late, and undo what came after it. The
//!    move is given up.
//! 2. Before the store may have been asked for the hand-over, whatever fails ends in the volume staying. From then on
//!    the driver asks until it is known.
//! 3. What is left of a volume at its source goes only when the destination has said that it has it, when it was asked, or
//!    that it has it no more, where the group shows that it has passed on.
//! 4. What a source says of its move counts, and what another member says of it does not.

mod driver;
mod janitor;
mod known;
mod progress;
mod remote;
#[cfg(test)]
mod tests;
mod waiting;

use std::sync::Arc;

use group::handover::SourceSays;
use group::membership::MoveId;
use group::ownership::MemberId;
use group::settings::Arrival;
use member::events::{Event, Kind, ObjectKind, Severity};
use member::{ArrivalStep, MoveRequest, Request};

pub(super) use driver::begin;
pub(super) use janitor::look_after;
pub(super) use known::{Begun, Moves};
#[cfg(test)]
pub(super) use remote::source_says;

use super::app::App;
use crate::problem::Problem;
use crate::types::{List, OfAnswer};

/// Has this member do its part, however long that takes.
async fn here<T: OfAnswer>(app: &App, request: MoveRequest) -> Result<T, Problem> {
    let (_, coming) = app.begin(Request::Move(request));
    app.outcome(coming).await
}

/// Has this member look whose a volume is that has arrived here, and tells of it if it is its own now. `says` is what
/// the source has answered before this, and where that asks, by which serial number hosts know the volume.
pub(super) async fn adopt(
    app: &Arc<App>,
    id: &MoveId,
    (says, serial): (Option<SourceSays>, Option<String>),
) -> Result<ArrivalStep, Problem> {
    let arrival = arrival(app, id).await?;
    let step = here(app, MoveRequest::Adopt { id: id.clone(), says, serial }).await?;
    if let Some(Arrival { name, from, .. }) = arrival {
        let from = name_of(app, from);
        match step {
            ArrivalStep::Adopted => {
                tell_moved(app, id, &name, &format!("volume '{name}' has come here from {from}"));
            }
            ArrivalStep::Discarded => tell_not_coming(app, id, &name, &from),
            _ => {}
        }
    }
    Ok(step)
}

/// What this member has of a move of which it is the destination, and from which member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It is stored that the volume is prepared.
    Prepared(MemberId),
    /// It comes.
    Coming(MemberId),
    /// Nothing: it was given up, or the volume is this member's already, or what is stored does not read.
    Nothing,
}

/// What this member has of a move. Of what is coming something was heard at this moment. What is stored comes first: it
/// says from whom the volume is, whoever says now that one is to come by this number.
pub(super) async fn part(app: &App, id: &MoveId) -> Result<Part, Problem> {
    let prepared = arrival(app, id).await?.map(|arrival| Part::Prepared(arrival.from));
    let coming = app.moves.hear(id).map(Part::Coming);
    Ok(prepared.or(coming).unwrap_or(Part::Nothing))
}

/// A volume that is prepared here, by its move.
async fn arrival(app: &App, id: &MoveId) -> Result<Option<Arrival>, Problem> {
    let List(all) = here::<List<Arrival>>(app, MoveRequest::Arrivals).await?;
    Ok(all.into_iter().find(|arrival| arrival.id == *id))
}

/// A member, as operators know it.
pub(super) fn name_of(app: &App, member: MemberId) -> String {
    let now = app.roll.now();
    let record = now.as_ref().and_then(|now| now.roll.members.get(&member));
    record.map_or_else(|| member.to_string(), |record| format!("member '{}'", record.name))
}

/// A volume has moved.
fn tell_moved(app: &App, id: &MoveId, name: &str, text: &str) {
    if app.moves.is_news(id) {
        app.logs.events.tell(Event::about(Kind::VolumeMoved, ObjectKind::Volume, name, text));
    }
}

/// A volume does not come here: its source has given its move up.
pub(super) fn tell_not_coming(app: &App, id: &MoveId, name: &str, from: &str) {
    let text = format!(
        "volume '{name}' does not come here from {from}: its move was given up, and what had come is deleted"
    );
    tell_given_up(app, id, name, (&text, Severity::Info));
}

/// A volume stays where it was.
fn tell_given_up(app: &App, id: &MoveId, name: &str, (text, severity): (&str, Severity)) {
    if app.moves.is_news(id) {
        let event = Event::about(Kind::VolumeMoveGivenUp, ObjectKind::Volume, name, text);
        app.logs.events.tell(event.with_severity(severity));
    }
}
