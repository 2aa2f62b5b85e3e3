//! Whose a volume is that moves from one member, the source, to another, the destination.
//!
//! The claim of its name in the store of the group decides, and nothing else: it is the source's until one transaction
//! makes it the destination's ([`hand_over`](crate::membership::Membership::hand_over)).
//!
//! ```text
//!  source        serves ──▶ departure stored, served to nobody ──▶ claim given ──▶ gone ──▶ deleted
//!                  ▲             │ given up, or started anew           ▲
//!                  ╰── fenced ◀──╯                                     │ whatever was under way when it was fenced
//!                                                                      │ finds another revision, and does nothing
//!  destination   copies ──▶ arrival stored, served to nobody ──────────┴────────▶ claim is here ──▶ serves
//! ```
//!
//! - The source stores the departure before it stops to serve, and serves again only when it has read that the claim is
//!   its own and has written it anew: so no transaction of before can give it away any more.
//! - The destination serves only when it has read that the claim is its own by this move, and it is asked for the claim
//!   only when everything of the volume is stored there.
//! - Whoever is started anew knows from what it has stored that it has to look.
//!
//! A volume is so served by one of them at most, whatever is lost, late or restarted, and by one in the end when both
//! run and the store answers. A walk through all orders of events shows it (`tests.rs`).

use serde::{Deserialize, Serialize};

use crate::membership::{Holder, MoveId};
use crate::settings::{Departure, Stage};

/// What a source says of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceSays {
    /// The volume may be handed over yet.
    UnderWay,
    /// It stays at the source.
    GivenUp,
    /// It was handed over.
    HandedOver,
    /// Nothing is known of such a move, which was given up then.
    Unknown,
}

/// What a source is to do about a volume of which it has stored that it leaves, and whose move it does not drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceStep {
    /// Whose the volume is does not follow from who has the name: it waits, and a person has to look.
    Wait,
    /// Write the claim anew; if that is done, the volume is served here again.
    UndoAfterFence,
    /// It is the destination's.
    Gone,
}

/// What a destination is to do about a volume that it has prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DestinationStep {
    /// Serve it.
    Adopt,
    /// Ask the source how the move stands, and look again.
    AskSource,
    /// It may come yet.
    Wait,
    /// It never will.
    Discard,
}

/// What follows for the source from what it has stored and from whose the name is. Only a claim by this move says that
/// the volume is elsewhere: who has the name in another way may have been given the volume further, and may have taken
/// the name when the source was no member, so that the source has the only copy.
#[must_use]
pub fn decide_at_source(departure: &Departure, holder: Option<&Holder>) -> SourceStep {
    match (departure.stage, holder) {
        (Stage::Gone, _) => SourceStep::Gone,
        (Stage::Leaving, Some(holder)) if holder.member == departure.from => {
            SourceStep::UndoAfterFence
        }
        (Stage::Leaving, Some(holder)) if holder.moved.as_ref() == Some(&departure.id) => {
            SourceStep::Gone
        }
        (Stage::Leaving, _) => SourceStep::Wait,
    }
}

/// What follows for the destination from whose the name is: a name that this move has given away is its own, also where it
/// has joined again since under another number. What the source says was asked for before that was read: it gives no name
/// by a move of which it has said that it is given up.
#[must_use]
pub fn decide_at_destination(
    holder: Option<&Holder>,
    says: Option<SourceSays>,
    id: &MoveId,
) -> DestinationStep {
    let is_given = |holder: &Holder| holder.moved.as_ref() == Some(id);
    if holder.is_some_and(is_given) {
        return DestinationStep::Adopt;
    }
    match says {
        None => DestinationStep::AskSource,
        Some(SourceSays::GivenUp | SourceSays::Unknown) => DestinationStep::Discard,
        Some(SourceSays::UnderWay | SourceSays::HandedOver) => DestinationStep::Wait,
    }
}

#[cfg(test)]
mod tests;
