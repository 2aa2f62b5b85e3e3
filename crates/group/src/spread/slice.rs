//! What a member does about a slice of a volume whose home is another one.

use super::{
    Dealt, Opening, Openings, Order, SliceRecord, SliceStage, SliceStanding, SpreadRecord, Who,
    hidden_name,
};
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
    /// The array of the home.
    pub home_array: String,
    /// How the pages of the volume are dealt.
    pub dealt: Dealt,
    /// What the home knows of the openings of the slice.
    pub openings: Openings,
    /// The name of the volume, for operators.
    pub name: String,
    /// What is asked for.
    pub order: Order,
}

impl Letter {
    /// What the home of a volume writes to the member of one of its slices.
    #[must_use]
    pub fn of(record: &SpreadRecord, slice: u8, order: Order) -> Self {
        let seat = &record.seats[usize::from(slice)];
        Self {
            group: record.group.clone(),
            spread: record.id.clone(),
            slice: seat.slice.clone(),
            home: record.home(),
            to: seat.member,
            home_array: record.home_array.clone(),
            dealt: record.dealt(),
            openings: record.openings[usize::from(slice)],
            name: record.name.clone(),
            order,
        }
    }

    /// What is stored when it asks for a slice of which nothing is.
    #[must_use]
    pub fn record(&self, standing: SliceStanding) -> SliceRecord {
        let SliceStanding { size_bytes, stage } = standing;
        SliceRecord {
            id: self.slice.clone(),
            spread: self.spread.clone(),
            group: self.group.clone(),
            me: self.to,
            home: self.home,
            home_array: self.home_array.clone(),
            dealt: self.dealt.clone(),
            name: self.name.clone(),
            volume: hidden_name(&self.spread),
            size_bytes,
            begun: Opening::NEVER,
            opened: Opening::NEVER,
            stage,
        }
    }

    /// Whether it can be.
    fn check_sound(&self) -> Result<(), String> {
        if matches!(self.order, Order::Make { size_bytes: 0 } | Order::Grow { to_bytes: 0 }) {
            return Err("a slice of no size is asked for".to_owned());
        }
        if self.home_array.is_empty() || !self.openings.are_sound() {
            return Err("it does not say who its home is".to_owned());
        }
        self.dealt.check_seat((&self.slice, self.to), self.home)
    }
}

/// Why a member does not do what it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceRefusal {
    /// The member is another one now, or in another group, or in none.
    #[error(
        "{0} is asked for its slice of a spread volume, and this server is another member now: what that member had stays \
         where it is, and is of use to the volume only when that member is back as it was"
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
        "a volume of its name is on the array, and nothing is stored of it here, as where settings were given up: it may \
         be all that there is of a part of the spread volume, so keep it as long as that is needed"
    )]
    Unrecorded,
    /// It should be here, and its volume is not.
    #[error("the volume of the slice is not on the array any more: what was in it is lost")]
    Lost,
    /// It is older than what its home has heard of it.
    #[error(
        "the slice is an older one than its home knows, as where the array of this member was put back from an image: what \
         was written since is not in it, so it is not served; put the newer disks back"
    )]
    OldSlice,
    /// Its home is older than what it has heard of that.
    #[error(
        "the slice was opened by {0} since that was as it is now, as where the array of the home was put back from an image: \
         nothing is done for an older one; put the newer disks of the home back"
    )]
    OldHome(MemberId),
    /// What is asked for cannot be.
    #[error("a slice is asked for that cannot be: {0}")]
    Unsound(String),
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
    if let Some(record) = record.filter(|record| !record.is_of(who)) {
        return Err(SliceRefusal::OtherMember(record.me));
    }
    if let (Err(why), false) = (letter.check_sound(), mutants::is(Mutant::LetterToItself)) {
        return Err(SliceRefusal::Unsound(why));
    }
    let Some(record) = record else { return Ok(()) };
    let is_same = record.spread == letter.spread
        && record.home_array == letter.home_array
        && record.dealt == letter.dealt;
    if !is_same {
        return Err(SliceRefusal::OtherVolume);
    }
    // What else an older home asks for harms nothing, and was written before the last opening.
    match letter.order == Order::Go && !letter.openings.know(record) {
        true => Err(SliceRefusal::OldHome(home)),
        false => Ok(()),
    }
}

/// What follows for a slice from what it is asked for, from what is stored of it, and from the size of its volume, if the
/// array has that. Without an order it is what a start finishes: what goes goes on, and what is to be larger is made so.
///
/// Whoever carries it out looks again after each step, until it is done or refused, and does one step at a time for a
/// slice: what one looks at no other changes before the step is done.
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
        // Its volume first: a size that is stored and cannot be had would be in the way of all others.
        (SliceStage::Here, Some(Order::Grow { to_bytes }))
            if is_due(to_bytes)
                && (to_bytes <= stored.size_bytes || !mutants::is(Mutant::GrowStored)) =>
        {
            SliceStep::Grow(to_bytes)
        }
        (SliceStage::Here, Some(Order::Grow { to_bytes: size_bytes }))
            if size_bytes > stored.size_bytes =>
        {
            SliceStep::Store(SliceStanding { size_bytes, ..stored })
        }
        (SliceStage::Here, None | Some(Order::Make { .. })) if is_due(stored.size_bytes) => {
            SliceStep::Grow(stored.size_bytes)
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
