//! What a member does about a slice of a volume whose home is another one.

use super::{Order, SliceRecord, SliceStage, SliceStanding, Who};
use crate::membership::{GroupId, SliceId, SpreadId};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;

/// An order, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Letter {
    /// The group whose members the sender and the receiver are.
    pub group: GroupId,
    /// The volume.
    pub spread: SpreadId,
    /// The slice.
    pub slice: SliceId,
    /// The home, which sends it.
    pub home: MemberId,
    /// The member that has the slice, or is to have it.
    pub to: MemberId,
    /// The name of the volume, for operators.
    pub name: String,
    /// What is asked for.
    pub order: Order,
}

/// Why a member does not do what it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceRefusal {
    /// The member is another one now, or in another group, or in none.
    #[error(
        "{0} is asked for its slice of a spread volume, and this server is another member now: what that member had is \
         lost to the volume, so delete the volume, or bring that member back"
    )]
    OtherMember(MemberId),
    /// The slice is of a volume of another home.
    #[error(
        "{asked} asks for a slice of a spread volume whose home is {home}: nothing is done for anybody else, so manage \
         the volume at its home"
    )]
    NotHome {
        /// Who asks.
        asked: MemberId,
        /// The home.
        home: MemberId,
    },
    /// Of another volume than is said.
    #[error("the slice is one of another spread volume than this one: nothing is done to it")]
    OtherVolume,
    /// What goes does not come back.
    #[error("the slice is being deleted here: make another volume")]
    Going,
    /// It is to grow, and is not here.
    #[error("there is no such slice here: nothing can be made larger")]
    NotThere,
    /// There is a volume of its name of which nothing is stored.
    #[error(
        "a volume of its name is on the array, and nothing is stored of it here: look at what it is, and delete it if \
         nobody needs it"
    )]
    Unrecorded,
    /// It should be here, and its volume is not.
    #[error("the volume of the slice is not on the array any more: what was in it is lost")]
    Lost,
    /// What is stored of it cannot be read: nothing is done to it.
    #[error("{0}")]
    Unreadable(String),
}

/// What a member is to do next about a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SliceStep {
    /// Store this of it, and look again.
    Store(SliceStanding),
    /// Make its volume, of this size, and look again.
    Make(u64),
    /// Make its volume as large as this, and look again.
    Grow(u64),
    /// Delete its volume for good, and look again.
    Delete,
    /// Its volume is gone: forget the record, and look again.
    Forget,
    /// It is as it was asked for: say so, if anybody asked.
    Done,
    /// It is not done: say why.
    Refuse(SliceRefusal),
}

/// Whether a letter is for this member, and of the home of the slice: `from` is who has proved itself at the
/// connection that it came over.
///
/// # Errors
/// Who this member is, or who sends it, says no.
pub fn check_letter(
    letter: &Letter,
    from: MemberId,
    who: Option<Who<'_>>,
    record: Option<&SliceRecord>,
) -> Result<(), SliceRefusal> {
    if mutants::is(Mutant::ObeyAnybody) {
        return Ok(());
    }
    if who != Some((&letter.group, letter.to)) {
        return Err(SliceRefusal::OtherMember(letter.to));
    }
    let home = record.map_or(letter.home, |record| record.home);
    if from != home || letter.home != home {
        return Err(SliceRefusal::NotHome { asked: from, home });
    }
    match record {
        Some(record) if !record.is_of(who) => Err(SliceRefusal::OtherMember(record.me)),
        Some(record) if record.spread != letter.spread => Err(SliceRefusal::OtherVolume),
        _ => Ok(()),
    }
}

/// What follows for a slice from what it is asked for, from what is stored of it, and from the size of its volume, if the
/// array has that. Without an order it is what a start finishes: what goes goes on, and what is to be larger is made so.
///
/// Whoever carries it out looks again after each step, until it is done or refused.
#[must_use]
pub fn slice_step(
    order: Option<Order>,
    stored: Option<SliceStanding>,
    volume: Option<u64>,
) -> SliceStep {
    let Some(stored) = stored else { return unrecorded(order, volume) };
    let is_due = |size_bytes| volume.is_none_or(|volume| volume < size_bytes);
    let going = || SliceStep::Store(SliceStanding { stage: SliceStage::Going, ..stored });
    match (stored.stage, order) {
        (SliceStage::Going, None | Some(Order::Go)) => match volume {
            Some(_) if !mutants::is(Mutant::ForgetWithVolume) => SliceStep::Delete,
            _ => SliceStep::Forget,
        },
        (SliceStage::Going, Some(_)) => SliceStep::Refuse(SliceRefusal::Going),
        (SliceStage::Making | SliceStage::Here, Some(Order::Go)) => going(),
        (SliceStage::Making, Some(Order::Make { .. })) => match volume {
            None => SliceStep::Make(stored.size_bytes),
            Some(_) if is_due(stored.size_bytes) => SliceStep::Grow(stored.size_bytes),
            Some(_) => SliceStep::Store(SliceStanding { stage: SliceStage::Here, ..stored }),
        },
        (SliceStage::Making, Some(Order::Grow { .. })) => SliceStep::Refuse(SliceRefusal::NotThere),
        // Its home makes it, or says that it has gone.
        (SliceStage::Making, None) => SliceStep::Done,
        (SliceStage::Here, _) if volume.is_none() => SliceStep::Refuse(SliceRefusal::Lost),
        (SliceStage::Here, _) if is_due(stored.size_bytes) => SliceStep::Grow(stored.size_bytes),
        (SliceStage::Here, Some(Order::Grow { to_bytes: size_bytes }))
            if size_bytes > stored.size_bytes =>
        {
            SliceStep::Store(SliceStanding { size_bytes, ..stored })
        }
        (SliceStage::Here, _) => SliceStep::Done,
    }
}

/// What follows where nothing is stored of a slice. A volume of its name is none that was made by an order that is
/// remembered: nothing is done to it.
fn unrecorded(order: Option<Order>, volume: Option<u64>) -> SliceStep {
    match (order, volume) {
        (Some(Order::Make { size_bytes }), None) if mutants::is(Mutant::MakeUnrecorded) => {
            SliceStep::Make(size_bytes)
        }
        (Some(Order::Make { size_bytes }), Some(_)) if mutants::is(Mutant::MakeUnrecorded) => {
            SliceStep::Store(SliceStanding { size_bytes, stage: SliceStage::Here })
        }
        (Some(Order::Make { size_bytes }), None) => {
            SliceStep::Store(SliceStanding { size_bytes, stage: SliceStage::Making })
        }
        (Some(_), Some(_)) => SliceStep::Refuse(SliceRefusal::Unrecorded),
        (Some(Order::Grow { .. }), None) => SliceStep::Refuse(SliceRefusal::NotThere),
        (Some(Order::Go), None) | (None, _) => SliceStep::Done,
    }
}
