//! A spread volume with its home and two other members, and all that can happen to them.
//!
//! All decide by [`Home`], [`slice_step`], [`home_says`] and [`decide_slice`] as they are. The rest is made as coarse as it may
//! be: what was sent once may come to any member at any time, as often as anyone likes, or never. An answer is heard as long
//! as it is so; one that comes later finds the home at another order, or comes to the same as one that was heard before
//! the slice changed. A member with a slice has nothing in memory: one that ends does nothing for a while.

use super::super::*;
use super::{ARRAY, HOME, group, record_of, slice_record};
use crate::ownership::MemberId;

/// Members beside the home.
const OTHERS: usize = 2;

/// The size at first, and what it grows to.
const SMALL: u64 = 1;
const LARGE: u64 = 2;

/// How often the home may end, or its store say that something is not stored.
const ENDS: u8 = 2;

/// Rounds in which all that is open is done, at most.
const ROUNDS: usize = 6;

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    None,
    /// Who drives the volume takes for stored what it has only been told to store.
    StoreLater,
    /// A start takes what is being made for whole.
    FoundWhole,
    /// A member forgets a slice instead of storing that it goes.
    ForgetFirst,
}

/// The kinds of orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Make,
    Grow,
    Go,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Make, Self::Grow, Self::Go];

    const fn of(order: Order) -> Self {
        match order {
            Order::Make { .. } => Self::Make,
            Order::Grow { .. } => Self::Grow,
            Order::Go => Self::Go,
        }
    }

    const fn order(self) -> Order {
        match self {
            Self::Make => Order::Make { size_bytes: SMALL },
            Self::Grow => Order::Grow { to_bytes: LARGE },
            Self::Go => Order::Go,
        }
    }
}

/// What a home loses of a whole volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Loss {
    /// All that it has stored of it, which does not read and is thrown away. Its own slice is there.
    Record,
    /// That and its own slice: its array is one of before the volume was made.
    Both,
    /// Its array is one of when the volume was being made.
    Steps,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// The home does what is next.
    Drive,
    /// It does what is next about its own slice.
    Own,
    /// It lets hosts in.
    Serve,
    /// It waits no longer for members that are silent.
    GiveUp,
    /// An operator wants the volume larger, or gone.
    Grow,
    Delete,
    End,
    /// The home starts, and may be unable to read what it has stored.
    Start {
        reads: bool,
    },
    /// The store says that what the home had it store is not stored, and it may be.
    StoreFails {
        is_done: bool,
    },
    /// The home is not what it was any more.
    Lose(Loss),
    /// The home is removed from the group.
    Remove,
    /// An order comes to a member, which does the next thing about it.
    Do {
        at: usize,
        kind: Kind,
    },
    /// A member goes on with what it has stored.
    GoOn {
        at: usize,
    },
    /// The home hears that an order was refused, or that it is done.
    Hear {
        at: usize,
        kind: Kind,
        is_done: bool,
    },
    /// A member asks the home for its slice.
    Ask {
        at: usize,
    },
    /// It decides by what it has heard, or by silence.
    Decide {
        at: usize,
        has_heard: bool,
    },
}

impl Step {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let of = |at| {
            let of_kind = move |kind| {
                let heard = [true, false].map(|is_done| Self::Hear { at, kind, is_done });
                [Self::Do { at, kind }].into_iter().chain(heard)
            };
            let decided = [true, false].map(|has_heard| Self::Decide { at, has_heard });
            let once = [Self::GoOn { at }, Self::Ask { at }].into_iter().chain(decided);
            Kind::ALL.into_iter().flat_map(of_kind).chain(once)
        };
        let starts = [true, false].map(|reads| Self::Start { reads });
        let of_home = [
            Self::Drive,
            Self::Own,
            Self::Serve,
            Self::GiveUp,
            Self::Grow,
            Self::Delete,
            Self::End,
            Self::Remove,
            Self::Lose(Loss::Record),
            Self::Lose(Loss::Both),
            Self::Lose(Loss::Steps),
            Self::StoreFails { is_done: true },
            Self::StoreFails { is_done: false },
        ];
        of_home.into_iter().chain(starts).chain((0..OTHERS).flat_map(of))
    }
}

/// A member beside the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    stored: Option<(SliceStage, u64)>,
    /// The size of its volume.
    volume: Option<u64>,
    /// It has stored that it was opened.
    was_used: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    is_up: bool,
    /// What it drives, where it reads what it has stored and that is something.
    home: Option<Home>,
    reads: bool,
    is_member: bool,
    stored: Option<SpreadStanding>,
    /// It was whole in this size and may have had data, and nothing is stored of that any more.
    lost: Option<u64>,
    /// Hosts have used it: all slices were opened before that.
    was_used: bool,
    /// The size of the home's own slice.
    own: Option<u64>,
    /// The size that hosts see.
    served: Option<u64>,
    ends: u8,
    has_grown: bool,
    /// What members were asked for, by kind.
    sent: [bool; 3],
    /// The home has said once that there is no such volume, which may be heard at any time.
    has_said_gone: bool,
    parts: [Part; OTHERS],
}

/// What a slice has stored of its openings.
fn opening(was_used: bool) -> Opening {
    if was_used { Opening::NEVER.next(1) } else { Opening::NEVER }
}

fn number(at: usize) -> MemberId {
    MemberId(at as u16 + 2)
}

impl Part {
    fn standing(&self) -> Option<SliceStanding> {
        self.stored.map(|(stage, size_bytes)| SliceStanding { size_bytes, stage })
    }

    fn is_here(&self, size_bytes: u64) -> bool {
        let is_stored = self.stored.is_some_and(|(stage, _)| stage == SliceStage::Here);
        is_stored && self.volume.is_some_and(|volume| volume >= size_bytes)
    }
}

impl World {
    pub(super) fn new() -> Self {
        let part = Part { stored: None, volume: None, was_used: false };
        Self {
            is_up: true,
            home: Some(Home::create(OTHERS as u8 + 1, SMALL)),
            reads: true,
            is_member: true,
            stored: None,
            lost: None,
            was_used: false,
            own: None,
            served: None,
            ends: 0,
            has_grown: false,
            sent: [false; 3],
            has_said_gone: false,
            parts: [part; OTHERS],
        }
    }

    /// What must never be.
    pub(super) fn wrong(&self) -> Option<&'static str> {
        let has_all = |size_bytes| {
            let is_own = self.own.is_some_and(|own| own >= size_bytes);
            is_own && self.parts.iter().all(|part| part.is_here(size_bytes))
        };
        if self.whole().is_some_and(|size_bytes| !has_all(size_bytes)) {
            return Some("a volume is whole, and has not all of its slices");
        }
        let is_here = |size_bytes| self.parts.iter().all(|part| part.is_here(size_bytes));
        if self.lost.is_some_and(|size_bytes| !is_here(size_bytes)) {
            return Some("a slice goes that may be all that is left of data");
        }
        let is_smaller = |part: &Part| {
            part.stored.zip(part.volume).is_some_and(|((stage, size_bytes), volume)| {
                stage != SliceStage::Going && volume < size_bytes
            })
        };
        if self.parts.iter().any(is_smaller) {
            return Some("a slice is stored larger than it is");
        }
        if self.served.is_some_and(|size_bytes| !has_all(size_bytes)) {
            return Some("hosts use a volume that has not all of its slices");
        }
        if self.served.is_some() && self.sent[Kind::Go as usize] {
            return Some("slices are asked to go while hosts use the volume");
        }
        if self.parts.iter().any(|part| part.volume.is_some() && part.stored.is_none()) {
            return Some("a volume is on an array that nobody knows of");
        }
        None
    }

    /// The size of the volume as it is stored, if it is whole.
    fn whole(&self) -> Option<u64> {
        let SpreadStanding { size_bytes, stage } = self.stored?;
        matches!(stage, SpreadStage::Whole | SpreadStage::Growing { .. }).then_some(size_bytes)
    }

    /// It was to be made larger, and is gone, and its home has ended in between.
    pub(super) fn is_gone_after_use(&self) -> bool {
        let is_over = self.stored.is_none() && self.parts.iter().all(|part| part.volume.is_none());
        is_over && self.home.is_none() && self.has_grown && self.ends > 0
    }

    /// It is served in its new size, after its home has ended.
    pub(super) fn is_larger(&self) -> bool {
        self.served == Some(LARGE) && self.ends > 0
    }

    /// Slices of a home that was removed are there.
    pub(super) fn is_left_over(&self) -> bool {
        !self.is_member && self.parts.iter().all(|part| part.is_here(SMALL))
    }

    /// The world behind a step; `None` where there is no such step.
    pub(super) fn after(&self, step: Step, flaw: Flaw) -> Option<Self> {
        let mut world = *self;
        let is_done = match step {
            Step::Drive => world.drive(flaw),
            Step::Own => world.obey(),
            Step::Serve => world.serve(),
            Step::GiveUp => world.with_home(Home::give_up),
            Step::Grow => !self.has_grown && world.grow(),
            Step::Delete => world.with_home(|home| drop(home.delete())),
            Step::End => self.is_up && self.ends < ENDS && world.end(),
            Step::Start { reads } => !self.is_up && self.is_member && world.start(reads, flaw),
            Step::Lose(loss) => !self.is_up && self.lost.is_none() && world.lose(loss),
            // With no host in it is as an end and a start.
            Step::StoreFails { is_done } => {
                self.ends < ENDS && self.served.is_some() && world.fail_to_store(is_done)
            }
            Step::Remove => {
                world.is_member = false;
                self.is_member && (!self.is_up || world.end())
            }
            Step::Do { at, kind } => {
                self.sent[kind as usize] && world.carry_out(at, Some(kind), flaw)
            }
            Step::GoOn { at } => world.carry_out(at, None, flaw),
            Step::Hear { at, kind, is_done } => world.hear(at, kind, is_done),
            Step::Ask { at } => world.ask(at),
            Step::Decide { at, has_heard } => world.decide(at, has_heard),
        };
        (is_done && world != *self).then_some(world)
    }

    fn with_home(&mut self, change: impl FnOnce(&mut Home)) -> bool {
        self.home.as_mut().map(change).is_some()
    }

    fn drive(&mut self, flaw: Flaw) -> bool {
        let Some(mut home) = self.home else { return false };
        match home.step() {
            HomeStep::Store(standing) => {
                let is_intent = home.standing().is_none();
                home.stored(standing);
                if flaw != Flaw::StoreLater || !is_intent {
                    self.stored = Some(standing);
                }
                // What goes by an order goes whether it was used or not.
                if matches!(standing.stage, SpreadStage::Going { .. }) && self.lost.is_none() {
                    self.was_used = false;
                    self.parts.iter_mut().for_each(|part| part.was_used = false);
                }
            }
            HomeStep::ShutOut => {
                home.shut_out();
                self.served = None;
            }
            HomeStep::Ask(order, slices) => {
                self.sent[Kind::of(order) as usize] |= slices.iter().any(|slice| slice > 0);
            }
            HomeStep::Forget => {
                (self.stored, self.home) = (None, None);
                return true;
            }
            HomeStep::Rest => return false,
        }
        self.home = Some(home);
        true
    }

    fn fail_to_store(&mut self, is_done: bool) -> bool {
        let Some(mut home) = self.home else { return false };
        let HomeStep::Store(standing) = home.step() else { return false };
        self.ends += 1;
        if is_done {
            self.stored = Some(standing);
        }
        self.home = self.stored.map(|stored| {
            home.reread(stored);
            home
        });
        true
    }

    fn lose(&mut self, loss: Loss) -> bool {
        let Some(size_bytes) = self.whole() else { return false };
        // What a larger one loses is no other.
        if self.has_grown && loss != Loss::Record {
            return false;
        }
        self.ends = ENDS;
        // What was never used may go: nothing is in it.
        self.lost = (self.was_used || loss == Loss::Record).then_some(size_bytes);
        match loss {
            Loss::Record => self.stored = None,
            Loss::Both => (self.stored, self.own) = (None, None),
            Loss::Steps => {
                let stage = SpreadStage::Making;
                self.stored = Some(SpreadStanding { size_bytes: SMALL, stage });
            }
        }
        true
    }

    /// What the home knows of the openings of a slice.
    fn openings(&self) -> Openings {
        let is_known = self.was_used && self.lost.is_none();
        Openings::answered(if is_known { opening(true) } else { opening(false) })
    }

    fn slice_of(&self, at: usize, standing: SliceStanding) -> SliceRecord {
        let begun = opening(self.parts[at].was_used);
        SliceRecord { begun, opened: begun, ..slice_record(at, standing) }
    }

    /// Whether a member takes an order from the home as it is.
    fn is_taken(&self, at: usize, kind: Kind) -> bool {
        // Else nothing is there that the home could not know of.
        if !self.parts[at].was_used || self.lost.is_none() {
            return true;
        }
        let Some(standing) = self.parts[at].standing() else { return true };
        let whole = record_of(SpreadStanding { size_bytes: SMALL, stage: SpreadStage::Whole });
        let letter = Letter::of(&whole, at as u8 + 1, kind.order());
        let letter = Letter { openings: self.openings(), ..letter };
        let record = self.slice_of(at, standing);
        check_letter(&letter, HOME, Some((&group(), number(at))), Some(&record)).is_ok()
    }

    /// In the same life, so that nothing of it is late.
    fn obey(&mut self) -> bool {
        let Some(home) = &mut self.home else { return false };
        let HomeStep::Ask(order, slices) = home.step() else { return false };
        self.own = match order {
            Order::Make { size_bytes } => Some(self.own.unwrap_or(size_bytes)),
            Order::Grow { to_bytes } => self.own.map(|own| own.max(to_bytes)),
            Order::Go => None,
        };
        home.heard(0, order, Answer::Done);
        slices.has(0)
    }

    fn serve(&mut self) -> bool {
        let Some(home) = &mut self.home else { return false };
        let Some(size_bytes) = home.may_serve() else { return false };
        home.served();
        self.served = Some(size_bytes);
        self.was_used = true;
        self.parts.iter_mut().for_each(|part| part.was_used = part.stored.is_some());
        true
    }

    fn grow(&mut self) -> bool {
        let is_taken = self.home.as_mut().is_some_and(|home| home.grow(LARGE).is_ok());
        self.has_grown |= is_taken;
        is_taken
    }

    fn end(&mut self) -> bool {
        (self.is_up, self.home, self.served) = (false, None, None);
        self.ends += 1;
        true
    }

    fn start(&mut self, reads: bool, flaw: Flaw) -> bool {
        (self.is_up, self.reads) = (true, reads);
        let found = self.stored.filter(|_| reads);
        self.home = found.map(|standing| Home::found(OTHERS as u8 + 1, standing));
        if let (Flaw::FoundWhole, Some(SpreadStanding { size_bytes, stage: SpreadStage::Making })) =
            (flaw, found)
        {
            let standing = SpreadStanding { size_bytes, stage: SpreadStage::Whole };
            self.stored = Some(standing);
            self.home = Some(Home::found(OTHERS as u8 + 1, standing));
        }
        true
    }

    fn carry_out(&mut self, at: usize, kind: Option<Kind>, flaw: Flaw) -> bool {
        if kind.is_some_and(|kind| !self.is_taken(at, kind)) {
            return false;
        }
        let part = &mut self.parts[at];
        match slice_step(kind.map(Kind::order), part.standing(), part.volume) {
            SliceStep::Store(SliceStanding { stage: SliceStage::Going, .. })
                if flaw == Flaw::ForgetFirst =>
            {
                part.stored = None;
            }
            SliceStep::Store(standing) => {
                part.stored = Some((standing.stage, standing.size_bytes));
            }
            SliceStep::Make(size_bytes) | SliceStep::Grow(size_bytes) => {
                part.volume = Some(size_bytes);
            }
            SliceStep::Delete => part.volume = None,
            SliceStep::Forget => (part.stored, part.was_used) = (None, false),
            // Whether it is heard is another step.
            SliceStep::Done | SliceStep::Refuse(_) => return false,
        }
        true
    }

    fn hear(&mut self, at: usize, kind: Kind, is_done: bool) -> bool {
        let part = self.parts[at];
        let may_be = match (kind, is_done) {
            // It has no room.
            (Kind::Make, false) => !part.is_here(SMALL),
            (Kind::Grow, false) => !part.is_here(LARGE),
            (Kind::Go, false) => false,
            (Kind::Make, true) => part.is_here(SMALL),
            (Kind::Grow, true) => part.is_here(LARGE),
            (Kind::Go, true) => part.stored.is_none() && part.volume.is_none(),
        };
        let answer = if is_done { Answer::Done } else { Answer::Refused };
        let is_sent = self.sent[kind as usize];
        may_be && is_sent && self.with_home(|home| home.heard(at as u8 + 1, kind.order(), answer))
    }

    fn ask(&mut self, at: usize) -> bool {
        let may = self.is_up && self.is_member && self.parts[at].stored.is_some();
        if !may || self.has_said_gone {
            return false;
        }
        let record = self.stored.map(record_of);
        let spreads = record.map(|record| (record.id.clone(), Ok(record))).into_iter().collect();
        let slice = slice_record(at, SliceStanding { size_bytes: 1, stage: SliceStage::Here });
        let question = Question::of(&slice);
        let spreads = self.reads.then_some(&spreads);
        let says =
            home_says(&question, Some((&group(), HOME)), spreads, (ARRAY, self.own.is_some()));
        self.has_said_gone = says == HomeSays::Gone;
        says == HomeSays::Gone
    }

    fn fate(&self, at: usize, has_heard: bool) -> Option<SliceFate> {
        let part = self.parts[at];
        let record = self.slice_of(at, part.standing()?);
        let heard = has_heard.then_some((HOME, HomeSays::Gone));
        Some(decide_slice(&record, Some((&group(), number(at))), self.is_member, heard))
    }

    fn decide(&mut self, at: usize, has_heard: bool) -> bool {
        if has_heard && !self.has_said_gone {
            return false;
        }
        let fate = self.fate(at, has_heard);
        let part = &mut self.parts[at];
        let Some((stage, _)) = part.stored.as_mut().filter(|_| fate == Some(SliceFate::Go)) else {
            return false;
        };
        *stage = SliceStage::Going;
        true
    }

    /// Whether the volume is whole in the end, or nothing is left of it, when all run and nobody disturbs them, whether
    /// what is on its way comes first, or is lost. What is left where the home was removed is told.
    pub(super) fn ends_well(&self, flaw: Flaw) -> bool {
        [true, false].into_iter().all(|comes_first| {
            let mut world = *self;
            if !world.reads {
                world.is_up = false;
            }
            if comes_first {
                world.settle_sent(flaw);
            }
            world.sent = [false; 3];
            world.settle(Step::Start { reads: true }, flaw);
            for _ in 0..ROUNDS {
                while world.settle(Step::Drive, flaw) || world.settle(Step::Own, flaw) {}
                world.settle(Step::Serve, flaw);
                world.settle_sent(flaw);
                if world.is_at_rest() {
                    break;
                }
            }
            world.wrong().is_none() && world.is_at_rest()
        })
    }

    fn is_at_rest(&self) -> bool {
        if !self.is_member {
            let is_told = |at| matches!(self.fate(at, false), None | Some(SliceFate::LeftOver(_)));
            return (0..OTHERS).all(is_told);
        }
        // An operator is told of it, and has it rebuilt.
        if self.lost.is_some() {
            let is_kept = |at| matches!(self.fate(at, true), Some(SliceFate::LeftOver(_)));
            return self.own.is_some() || (0..OTHERS).all(is_kept);
        }
        let is_whole = self.stored.is_some_and(|it| it.stage == SpreadStage::Whole);
        let is_nothing = |part: &Part| part.stored.is_none() && part.volume.is_none();
        let is_gone = self.stored.is_none()
            && self.own.is_none()
            && self.home.is_none()
            && self.parts.iter().all(is_nothing);
        is_whole && self.served.is_some() || is_gone
    }

    /// Whether something was to be done.
    fn settle(&mut self, step: Step, flaw: Flaw) -> bool {
        let next = self.after(step, flaw);
        *self = next.unwrap_or(*self);
        next.is_some()
    }

    /// Whatever is on its way comes, and each member does all that it has to do.
    fn settle_sent(&mut self, flaw: Flaw) {
        for kind in Kind::ALL {
            for at in 0..OTHERS {
                while self.settle(Step::Do { at, kind }, flaw) {}
                self.settle(Step::Hear { at, kind, is_done: true }, flaw);
            }
            self.sent[kind as usize] = false;
        }
        for at in 0..OTHERS {
            self.settle(Step::Ask { at }, flaw);
            for has_heard in [true, false] {
                self.settle(Step::Decide { at, has_heard }, flaw);
            }
            while self.settle(Step::GoOn { at }, flaw) {}
        }
    }
}
