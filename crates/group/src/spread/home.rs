//! What the home of a spread volume does next.

use super::{SliceSet, SpreadError, SpreadStage, SpreadStanding};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;

/// What a home asks a member for that has a slice, itself too. Each may be asked again, and come late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Make the slice.
    Make {
        /// Its size: that of the volume.
        size_bytes: u64,
    },
    /// Make the slice larger.
    Grow {
        /// The size that it is to have at least.
        to_bytes: u64,
    },
    /// Delete the slice.
    Go,
}

/// What came of that. Silence is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It is so, and stored.
    Done,
    /// It is not, for a reason that its member has said.
    Refused,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HomeStep {
    /// Store this, then say that it is [stored](Home::stored). If that fails, look at what is: it may be stored for all
    /// that. Say that it is [read again](Home::reread), or forget this with what was never stored.
    Store(SpreadStanding),
    /// End the target of the volume, and what hosts have under way; then say that they are [out](Home::shut_out).
    ShutOut,
    /// Ask the members of these slices, and say what each has [answered](Home::heard).
    Ask(Order, SliceSet),
    /// Nothing of the volume is left anywhere: forget it, and this with it.
    Forget,
    /// Nothing, until an operator wants something.
    Rest,
}

/// A spread volume as its home drives it, in one life of the home's process.
///
/// Invariant: what is asked for is what is stored, never what is about to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Home {
    /// How many slices there are.
    seats: u8,
    /// `None` until the intent is.
    stored: Option<SpreadStanding>,
    /// What is to be stored before anything else is done.
    next: Option<SpreadStanding>,
    /// The slices that have done what is asked for now.
    done: SliceSet,
    /// Hosts may be in.
    is_served: bool,
}

impl Home {
    /// Makes a volume of so many slices. Its record is not stored yet.
    #[must_use]
    pub fn create(seats: u8, size_bytes: u64) -> Self {
        assert!(seats > 0, "a volume lies somewhere");
        let next = SpreadStanding { size_bytes, stage: SpreadStage::Making };
        let done = SliceSet::default();
        Self { seats, stored: None, next: Some(next), done, is_served: false }
    }

    /// As a start of the member finds it, with no host in yet, at the member [whose it is](super::SpreadRecord::is_of): what was half made goes, and what was
    /// to be larger stays as it is. Who had asked for that has heard no answer.
    #[must_use]
    pub fn found(seats: u8, stored: SpreadStanding) -> Self {
        let done = SliceSet::default();
        let mut home = Self { seats, stored: Some(stored), next: None, done, is_served: false };
        home.give_up();
        home
    }

    /// Something was not stored, or it is not known whether it is, and this is what reads. It is as a start finds it, but
    /// for hosts that are in.
    pub fn reread(&mut self, stored: SpreadStanding) {
        let is_served = self.is_served && !mutants::is(Mutant::ForgetServed);
        *self = Self { is_served, ..Self::found(self.seats, stored) };
        self.check();
    }

    /// What is to be done next. It stays the same until something was said to have happened.
    #[must_use]
    pub fn step(&self) -> HomeStep {
        if let Some(next) = self.next {
            if self.stored.is_none() && mutants::is(Mutant::AskUnstored) && !self.has_all() {
                return HomeStep::Ask(Order::Make { size_bytes: next.size_bytes }, self.missing());
            }
            return HomeStep::Store(next);
        }
        let Some(SpreadStanding { stage, .. }) = self.stored else { return HomeStep::Rest };
        match (stage, self.order()) {
            (SpreadStage::Going { gone }, _) if self.may_forget(gone) => HomeStep::Forget,
            (SpreadStage::Going { .. }, _) if self.is_served && !mutants::is(Mutant::AskServed) => {
                HomeStep::ShutOut
            }
            (SpreadStage::Going { gone }, Some(order)) => {
                HomeStep::Ask(order, self.all().without(gone))
            }
            (_, Some(order)) => HomeStep::Ask(order, self.missing()),
            (_, None) => HomeStep::Rest,
        }
    }

    /// This is stored.
    pub fn stored(&mut self, standing: SpreadStanding) {
        debug_assert!(
            self.stored.is_none_or(|before| before.may_become(standing)),
            "{:?} became {standing:?}",
            self.stored
        );
        self.done = SliceSet::default();
        self.stored = Some(standing);
        self.next = self.next.filter(|next| *next != standing);
        self.check();
    }

    /// Hosts may be in from now on: to be said before the target is opened, and only where they
    /// [may be](Self::may_serve).
    pub fn served(&mut self) {
        debug_assert!(self.may_serve().is_some(), "nobody is let in: {self:?}");
        self.is_served = true;
    }

    /// No host is in any more, and nothing of one is under way.
    pub const fn shut_out(&mut self) {
        self.is_served = false;
    }

    /// A slice has answered an order, maybe one of long ago.
    pub fn heard(&mut self, slice: u8, order: Order, answer: Answer) {
        assert!(slice < self.seats, "slice {slice} of {}", self.seats);
        let is_asked = self.order() == Some(order);
        if !is_asked && !mutants::is(Mutant::LateAnswer) {
            return;
        }
        match (order, answer) {
            (_, Answer::Refused) => self.give_up(),
            (Order::Go, Answer::Done) => self.note_gone(slice),
            (Order::Make { .. } | Order::Grow { .. }, Answer::Done) => {
                self.done = self.done.with(slice);
                if self.has_all() {
                    self.become_whole();
                }
            }
        }
        self.check();
    }

    /// Nobody waits for it any more, a member is silent for long, or one has refused: what is being made goes, and what
    /// is being made larger keeps its size. What goes is asked to go for as long as it takes.
    pub fn give_up(&mut self) {
        let (Some(stored), None) = (self.stored, self.next) else { return };
        let stage = match stored.stage {
            SpreadStage::Making => SpreadStage::Going { gone: SliceSet::default() },
            SpreadStage::Growing { .. } => SpreadStage::Whole,
            SpreadStage::Whole | SpreadStage::Going { .. } => return,
        };
        self.next = Some(SpreadStanding { stage, ..stored });
    }

    /// Makes the volume larger.
    ///
    /// # Errors
    /// It would be smaller, or something else is done with it.
    pub fn grow(&mut self, to_bytes: u64) -> Result<(), SpreadError> {
        let stored = self.at_rest()?;
        let SpreadStanding { size_bytes, .. } = stored;
        if to_bytes < size_bytes {
            return Err(SpreadError::Smaller { size_bytes, to_bytes });
        }
        if stored.stage != SpreadStage::Whole {
            return Err(SpreadError::Busy(self.doing()));
        }
        if to_bytes > size_bytes {
            let stage = SpreadStage::Growing { to_bytes };
            self.next = Some(SpreadStanding { stage, ..stored });
        }
        Ok(())
    }

    /// Deletes the volume, also one that is being made or made larger. Whoever asks again has it done.
    ///
    /// # Errors
    /// What is done with it is being stored at this moment.
    pub fn delete(&mut self) -> Result<(), SpreadError> {
        if self.is_going() {
            return Ok(());
        }
        let stored = self.at_rest()?;
        let stage = SpreadStage::Going { gone: SliceSet::default() };
        self.next = Some(SpreadStanding { stage, ..stored });
        Ok(())
    }

    /// An operator gives a slice up whose member was removed from the group: it counts as gone. It is said which member has
    /// it, and whether that is one still. What is of the slice on disks of that server stays there, and nobody deletes it.
    ///
    /// # Errors
    /// The volume is not being deleted, the slice is the home's own, or its member is one still.
    pub fn forget_seat(
        &mut self,
        slice: u8,
        (member, is_member): (MemberId, bool),
    ) -> Result<(), SpreadError> {
        if slice >= self.seats {
            return Err(SpreadError::NoSuchSlice(slice));
        }
        if slice == 0 {
            return Err(SpreadError::OwnSlice);
        }
        if is_member && !mutants::is(Mutant::ForgetPresent) {
            return Err(SpreadError::StillMember(member));
        }
        if !self.is_going() {
            return Err(SpreadError::NotGoing);
        }
        self.note_gone(slice);
        Ok(())
    }

    /// The size that hosts may see it in; `None` as long as nobody may use it.
    #[must_use]
    pub fn may_serve(&self) -> Option<u64> {
        let SpreadStanding { size_bytes, stage } = self.stored?;
        match stage {
            SpreadStage::Growing { to_bytes } if mutants::is(Mutant::GrowFirst) => Some(to_bytes),
            SpreadStage::Whole | SpreadStage::Growing { .. } => {
                (!self.is_going()).then_some(size_bytes)
            }
            SpreadStage::Making => mutants::is(Mutant::ServeMaking).then_some(size_bytes),
            SpreadStage::Going { .. } => None,
        }
    }

    /// What is stored; `None` before the intent is.
    #[must_use]
    pub const fn standing(&self) -> Option<SpreadStanding> {
        self.stored
    }

    /// What slices are asked for now.
    fn order(&self) -> Option<Order> {
        let SpreadStanding { size_bytes, stage } = match self.stored {
            None if mutants::is(Mutant::AskUnstored) => self.next?,
            stored => stored?,
        };
        let is_open = self.next.is_none() || self.stored.is_none();
        match stage {
            SpreadStage::Making => is_open.then_some(Order::Make { size_bytes }),
            SpreadStage::Growing { to_bytes } => is_open.then_some(Order::Grow { to_bytes }),
            SpreadStage::Going { .. } => Some(Order::Go),
            SpreadStage::Whole => None,
        }
    }

    fn all(&self) -> SliceSet {
        SliceSet::first(usize::from(self.seats))
    }

    fn missing(&self) -> SliceSet {
        self.all().without(self.done)
    }

    fn has_all(&self) -> bool {
        let is_early = mutants::is(Mutant::WholeUnmade) && !self.done.is_empty();
        self.done.has_all(self.all()) || is_early
    }

    fn may_forget(&self, gone: SliceSet) -> bool {
        let is_early = mutants::is(Mutant::ForgetEarly) && !gone.is_empty();
        gone.has_all(self.all()) || is_early
    }

    fn become_whole(&mut self) {
        let Some(SpreadStanding { size_bytes, stage }) = self.stored else { return };
        let size_bytes = match stage {
            SpreadStage::Growing { to_bytes } => to_bytes,
            _ => size_bytes,
        };
        self.next = Some(SpreadStanding { size_bytes, stage: SpreadStage::Whole });
    }

    fn note_gone(&mut self, slice: u8) {
        let Some(standing) = self.next.or(self.stored) else { return };
        let SpreadStage::Going { gone } = standing.stage else { return };
        let stage = SpreadStage::Going { gone: gone.with(slice) };
        let next = SpreadStanding { stage, ..standing };
        self.next = (Some(next) != self.stored).then_some(next);
    }

    fn is_going(&self) -> bool {
        let standing = self.next.or(self.stored);
        standing.is_some_and(|it| matches!(it.stage, SpreadStage::Going { .. }))
    }

    /// What is stored, if nothing is about to be.
    fn at_rest(&self) -> Result<SpreadStanding, SpreadError> {
        match (self.stored, self.next) {
            (Some(stored), None) => Ok(stored),
            _ => Err(SpreadError::Busy(self.doing())),
        }
    }

    fn doing(&self) -> &'static str {
        match self.next.or(self.stored).map(|standing| standing.stage) {
            None | Some(SpreadStage::Making) => "made",
            Some(SpreadStage::Whole | SpreadStage::Growing { .. }) => "made or changed",
            Some(SpreadStage::Going { .. }) => "deleted",
        }
    }

    fn check(&self) {
        if let (Some(stored), Some(next)) = (self.stored, self.next) {
            debug_assert!(stored.may_become(next), "{self:?}");
        }
        debug_assert!(self.all().has_all(self.done), "{self:?}");
    }
}
