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
//! - The destination serves only when it has read that the claim is its own by this move, and has written it anew as
//!   adopted ([`adopt_name`](crate::membership::Membership::adopt_name)): whoever takes the name of a member that is none
//!   any more comes before that, and is seen, or finds another revision. It is asked for the claim only when everything
//!   of the volume is stored there.
//! - Whoever is started anew knows from what it has stored that it has to look.
//!
//! A volume is so served by one of them at most, whatever is lost, late or restarted, and by one in the end when both
//! run and the store answers. A walk through all orders of events shows it (`tests.rs`).

use serde::{Deserialize, Serialize};

use crate::membership::{Holder, MoveId};
use crate::mutants::{self, Mutant};
use crate::settings::{Arrival, Departure, Stage};

/// What a source says of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceSays {
    /// The volume may be handed over yet.
    UnderWay,
    /// It stays at the source, which has the volume as it says this: with its data, and without a part in a move of it, but
    /// where it remembers that it has given up this one.
    GivenUp,
    /// It was handed over.
    HandedOver,
    /// Nothing is known of such a move, and no such volume: all that was stored of it is gone. Also where nobody has said
    /// which volume is meant.
    Unknown,
}

/// What a member has told the others of a volume that moves. It is of one moment, and as old as the last time at which the
/// store took it from that member and gave it to this one: it may be of before the move began, or of before an array was
/// lost. No copy goes by it: it only says what an operator is to be told, and at a source, when what is left may go whose
/// destination has just said that it has the volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Told {
    /// It has the volume, with its data.
    pub has_it: bool,
    /// It has a part in a move of a volume of that name.
    pub has_part: bool,
}

impl Told {
    /// The volume is there, and is not about to go: what is deleted as it has left had a part in its move until then.
    const fn keeps_it(self) -> bool {
        self.has_it && !self.has_part
    }

    const fn is_nothing(self) -> bool {
        !self.has_it && !self.has_part
    }
}

/// What a destination has heard of the source of what has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Nothing yet.
    Nothing,
    /// What it has told of that volume.
    Of(Told),
    /// It has told of its volumes, and which of them is meant is not known here any more.
    Unnamed {
        /// It has a part in a move of a volume of that name.
        has_part: bool,
    },
}

/// Why nobody but an operator says what becomes of a volume that has come and was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stranded {
    /// Its source is no member any more, and may be gone with its disks.
    SourceRemoved,
    /// Its source has neither the volume nor a part in its move: what has come can be all that there is.
    SourceWithout,
    /// Its name is not the source's, which so cannot give it.
    NameElsewhere,
    /// The destination has lost what hosts know it by, so that the source cannot be asked for it, and has no part in its
    /// move any more.
    Unnamed,
}

/// Why only an operator ends what is left of a volume at its source that was handed over, and not listed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Its name is another volume's, as far as the source can tell, or nobody's.
    NameElsewhere,
    /// It was given to a member that was removed since.
    DestinationRemoved,
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
        // The destination has written so, whoever has the name since.
        (Stage::Leaving, Some(holder)) if holder.was_adopted_by(&departure.id) => SourceStep::Gone,
        (Stage::Leaving, Some(holder)) if holder.member == departure.from => {
            SourceStep::UndoAfterFence
        }
        (Stage::Leaving, Some(holder)) if holder.is_given_by(&departure.id) => SourceStep::Gone,
        (Stage::Leaving, _) => SourceStep::Wait,
    }
}

/// Why nobody but an operator ends a departure of a volume that was handed over, which its destination has not told of;
/// `None` where that one may tell of it yet, or has had it and passed it on. It is said whether the destination is a
/// member, and whether who has the name is.
#[must_use]
pub fn doubt_at_source(
    departure: &Departure,
    holder: Option<&Holder>,
    (is_destination_there, is_holder_there): (bool, bool),
) -> Option<Doubt> {
    let Some(holder) = holder else { return Some(Doubt::NameElsewhere) };
    let may_tell = match holder.is_given_by(&departure.id) {
        true => holder.member == departure.to,
        false => holder.was_adopted_by(&departure.id),
    };
    match (is_destination_there && may_tell, is_holder_there) {
        (true, _) => None,
        (false, true) => Some(Doubt::NameElsewhere),
        (false, false) => Some(Doubt::DestinationRemoved),
    }
}

/// What follows for the destination from whose the name is: a name that this move has given away is its own, also where it
/// has joined again since under another number. What the source says was asked for before that was read: it gives no name
/// by a move of which it has said that it is given up.
///
/// What has come is thrown away only by an answer of the source, which is younger than the move: what it has told the
/// others may be of before. One that knows nothing of the move, and has no such volume, may have lost all that it had,
/// or have let its copy go by word of an operator.
#[must_use]
pub fn decide_at_destination(
    holder: Option<&Holder>,
    says: Option<SourceSays>,
    id: &MoveId,
) -> DestinationStep {
    if holder.is_some_and(|holder| holder.is_given_by(id)) {
        return DestinationStep::Adopt;
    }
    match says {
        None => DestinationStep::AskSource,
        Some(SourceSays::GivenUp) => DestinationStep::Discard,
        Some(SourceSays::Unknown) if mutants::is(Mutant::DiscardUnknown) => {
            DestinationStep::Discard
        }
        Some(SourceSays::UnderWay | SourceSays::HandedOver | SourceSays::Unknown) => {
            DestinationStep::Wait
        }
    }
}

/// Why only an operator ends an arrival that was not given; `None` where the source does, or where nothing was heard of
/// that yet. Each copy of such a volume waits for a word of its own.
#[must_use]
pub fn why_stranded(
    arrival: &Arrival,
    holder: Option<&Holder>,
    (is_source_there, heard): (bool, Heard),
) -> Option<Stranded> {
    debug_assert!(!holder.is_some_and(|it| it.is_given_by(&arrival.id)), "it was not given");
    if !is_source_there {
        return Some(Stranded::SourceRemoved);
    }
    if mutants::is(Mutant::StrandedWaits) {
        return None;
    }
    match heard {
        Heard::Of(told) if told.keeps_it() => return None,
        Heard::Of(told) if told.is_nothing() => return Some(Stranded::SourceWithout),
        Heard::Unnamed { has_part: false } if !mutants::is(Mutant::UnnamedWaits) => {
            return Some(Stranded::Unnamed);
        }
        Heard::Nothing | Heard::Of(_) | Heard::Unnamed { .. } => {}
    }
    let is_of_source = holder.is_some_and(|holder| holder.member == arrival.from);
    (!is_of_source).then_some(Stranded::NameElsewhere)
}

#[cfg(test)]
mod tests;
