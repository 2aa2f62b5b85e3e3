//! A source, a destination, the claim of a name, a host that writes, and all that can happen to them.
//!
//! Both sides decide by [`decide_at_source`] and [`decide_at_destination`] as they are. The rest is made as coarse as
//! it may be: what is stored is stored at once, what is sent to the store stays on its way for as long as anyone likes,
//! also for ever, and the answer to it may be lost. Data is the number of writes that it holds.

use super::super::*;
use crate::ownership::MemberId;

const SOURCE: MemberId = MemberId(1);
const DESTINATION: MemberId = MemberId(2);

/// How often each side may end, and the host write.
const ENDS: u8 = 2;
const WRITES: u8 = 2;

/// Hand-overs that are on their way to the store at the same time.
const SENT: usize = 2;

/// Rounds in which both sides settle what is open, at most.
const ROUNDS: usize = 4;

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    None,
    /// A hand-over does not compare the claim.
    HandOverBlind,
    /// The source serves again without having written the claim anew.
    UndoUnfenced,
    /// The source serves what it has a departure of, after a start.
    ServeLeaving,
    /// The store is asked before the destination is prepared.
    CommitUnprepared,
    /// The destination is prepared without what was written last.
    LastDifference,
    /// The destination adopts without a look at the claim.
    AdoptUncommitted,
    /// The destination discards what is not its own without asking the source.
    DiscardUnasked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// A host writes to whoever serves.
    Write,
    Copy,
    Freeze,
    /// The destination is prepared, and the source may hear of it.
    Prepare {
        is_heard: bool,
    },
    /// The store is asked to give the name away.
    Send,
    /// What was sent comes to the store, and the source may hear what became of it.
    Deliver {
        at: usize,
        is_heard: bool,
    },
    /// The source gives up before it has asked the store.
    GiveUp,
    /// The source reads the claim of what it has stored that it leaves, and decides.
    Decide,
    /// The source writes the claim anew, and may hear that it is done.
    Fence {
        is_heard: bool,
    },
    /// The destination asks the source.
    Ask,
    /// The destination reads the claim.
    Look,
    /// The destination decides by what it has heard and read.
    Act,
    /// Somebody has the destination throw away what has come.
    Discard,
    /// The source hears that the volume is adopted, and deletes its own.
    Purge,
    EndSource,
    StartSource,
    EndDestination,
    StartDestination,
}

impl Step {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let heard = [true, false];
        let deliver = move |at| heard.map(|is_heard| Self::Deliver { at, is_heard });
        let once = [
            Self::Write,
            Self::Copy,
            Self::Freeze,
            Self::Send,
            Self::GiveUp,
            Self::Decide,
            Self::Ask,
            Self::Look,
            Self::Act,
            Self::Discard,
            Self::Purge,
            Self::EndSource,
            Self::StartSource,
            Self::EndDestination,
            Self::StartDestination,
        ];
        let prepare = heard.map(|is_heard| Self::Prepare { is_heard });
        let fence = heard.map(|is_heard| Self::Fence { is_heard });
        once.into_iter().chain(prepare).chain(fence).chain((0..SENT).flat_map(deliver))
    }
}

/// How far the source has driven the move in this life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Drive {
    Copying,
    Frozen,
    Sent,
    Prepared,
    Asked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Source {
    is_up: bool,
    ends: u8,
    /// What it has of the volume.
    volume: Option<u8>,
    departure: Option<Stage>,
    drive: Option<Drive>,
    /// It remembers that it has given up.
    has_given_up: bool,
    /// It has read that the claim is its own.
    is_to_fence: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Destination {
    is_up: bool,
    ends: u8,
    copy: Option<u8>,
    has_arrival: bool,
    is_adopted: bool,
    says: Option<SourceSays>,
    /// Whether the claim was its own when it was read.
    seen: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    source: Source,
    destination: Destination,
    /// The claim is the destination's, by this move.
    is_given: bool,
    /// Hand-overs that are on their way: whether the claim is as it was when they were sent.
    sent: [Option<bool>; SENT],
    /// Writes that the host was told are done.
    acknowledged: u8,
    /// The store was asked at least once.
    was_asked: bool,
}

/// The number of a move of this digit alone.
pub(super) fn by(digit: char) -> MoveId {
    digit.to_string().repeat(32).parse().expect("it is one")
}

pub(super) fn holder(member: MemberId, moved: Option<&MoveId>) -> Holder {
    Holder { member, name: "v".to_owned(), moved: moved.cloned() }
}

pub(super) fn departure(stage: Stage) -> Departure {
    let (id, name, iqns) = (by('a'), "v".to_owned(), Vec::new());
    let group = "0".repeat(32).parse().expect("it is one");
    Departure { id, group, volume: 1, name, from: SOURCE, to: DESTINATION, iqns, stage }
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            source: Source {
                is_up: true,
                ends: 0,
                volume: Some(0),
                departure: None,
                drive: Some(Drive::Copying),
                has_given_up: false,
                is_to_fence: false,
            },
            destination: Destination {
                is_up: true,
                ends: 0,
                copy: Some(0),
                has_arrival: false,
                is_adopted: false,
                says: None,
                seen: None,
            },
            is_given: false,
            sent: [None; SENT],
            acknowledged: 0,
            was_asked: false,
        }
    }

    fn source_serves(&self) -> bool {
        let Source { is_up, volume, departure, .. } = self.source;
        is_up && volume.is_some() && departure.is_none()
    }

    fn destination_serves(&self) -> bool {
        self.destination.is_up && self.destination.is_adopted
    }

    /// What must never be.
    pub(super) fn wrong(&self) -> Option<&'static str> {
        let Self { source, destination, acknowledged, .. } = *self;
        let is_own = source.volume.is_some() && source.departure.is_none();
        let has_all = |data: Option<u8>| data == Some(acknowledged);
        if is_own && destination.is_adopted {
            return Some("both serve it");
        }
        if is_own && (self.is_given || self.sent.contains(&Some(true))) {
            return Some("the source serves what is given away, or may be yet");
        }
        if is_own && !has_all(source.volume) || destination.is_adopted && !has_all(destination.copy)
        {
            return Some("a write is lost where it is served");
        }
        let is_kept = has_all(source.volume) || has_all(destination.copy) && !self.is_waste();
        (!is_kept).then_some("nobody has all of it")
    }

    /// What has come will be thrown away by the next start.
    fn is_waste(&self) -> bool {
        !self.destination.has_arrival && !self.destination.is_adopted
    }

    /// The volume is the destination's for good, after both sides have ended in between.
    pub(super) fn has_moved_through_ends(&self) -> bool {
        let has_ended = self.source.ends > 0 && self.destination.ends > 0;
        has_ended && self.destination_serves() && self.source.volume.is_none()
    }

    /// The volume is the source's again, and nothing of it is prepared elsewhere.
    pub(super) fn stays_although_asked(&self) -> bool {
        self.was_asked && self.source_serves() && self.destination.copy.is_none()
    }

    /// The world behind a step; `None` where there is no such step.
    pub(super) fn after(&self, step: Step, flaw: Flaw) -> Option<Self> {
        let mut world = *self;
        let is_done = match step {
            Step::Write => world.write(),
            Step::Copy | Step::Freeze | Step::Prepare { .. } | Step::Send | Step::GiveUp => {
                self.source.is_up && world.drive(step, flaw)
            }
            Step::Deliver { at, is_heard } => world.deliver(at, is_heard, flaw),
            Step::Decide => self.source.is_up && world.decide(flaw),
            Step::Fence { is_heard } => self.source.is_to_fence && world.fence(is_heard),
            Step::Purge => world.purge(),
            Step::Ask | Step::Look | Step::Act | Step::Discard => {
                self.destination.is_up && world.arrive(step, flaw)
            }
            Step::EndSource => {
                let ends = self.source.ends + 1;
                let Source { volume, departure, .. } = self.source;
                world.source = Source { is_up: false, ends, volume, departure, ..Source::ended() };
                self.source.is_up && ends <= ENDS
            }
            Step::StartSource => {
                world.source.is_up = true;
                if flaw == Flaw::ServeLeaving && self.source.departure == Some(Stage::Leaving) {
                    world.source.departure = None;
                }
                !self.source.is_up
            }
            Step::EndDestination => {
                let ends = self.destination.ends + 1;
                let destination = &mut world.destination;
                (destination.is_up, destination.ends) = (false, ends);
                (destination.says, destination.seen) = (None, None);
                self.destination.is_up && ends <= ENDS
            }
            Step::StartDestination => {
                world.destination.is_up = true;
                if self.is_waste() {
                    world.destination.copy = None;
                }
                !self.destination.is_up
            }
        };
        (is_done && world != *self).then_some(world)
    }

    fn write(&mut self) -> bool {
        let served = match (self.source_serves(), self.destination_serves()) {
            (true, _) => &mut self.source.volume,
            (false, true) => &mut self.destination.copy,
            (false, false) => return false,
        };
        *served = served.map(|data| data + 1);
        self.acknowledged += 1;
        self.acknowledged <= WRITES
    }

    /// What the source does while it drives the move.
    fn drive(&mut self, step: Step, flaw: Flaw) -> bool {
        let Some(drive) = self.source.drive else { return false };
        let is_there = self.destination.is_up && self.destination.copy.is_some();
        match (step, drive) {
            (Step::Copy, Drive::Copying | Drive::Frozen) => {
                if drive == Drive::Frozen {
                    self.source.drive = Some(Drive::Sent);
                }
                self.destination.copy = self.source.volume;
                is_there && !self.destination.has_arrival
            }
            (Step::Freeze, Drive::Copying) => {
                self.source.departure = Some(Stage::Leaving);
                self.source.drive = Some(Drive::Frozen);
                true
            }
            (Step::Prepare { is_heard }, Drive::Frozen | Drive::Sent) => {
                self.destination.has_arrival = true;
                if is_heard {
                    self.source.drive = Some(Drive::Prepared);
                }
                is_there && (drive == Drive::Sent || flaw == Flaw::LastDifference)
            }
            (Step::Send, Drive::Sent | Drive::Prepared | Drive::Asked) => {
                let free = self.sent.iter().position(Option::is_none);
                let Some(free) = free.filter(|_| !self.is_given) else { return false };
                self.sent[free] = Some(true);
                (self.source.drive, self.was_asked) = (Some(Drive::Asked), true);
                drive >= Drive::Prepared || flaw == Flaw::CommitUnprepared
            }
            (Step::GiveUp, drive) if drive < Drive::Asked => {
                self.stays();
                true
            }
            _ => false,
        }
    }

    /// Nothing says any more that the volume leaves.
    fn stays(&mut self) {
        self.source.departure = None;
        (self.source.drive, self.source.is_to_fence) = (None, false);
        self.source.has_given_up = true;
    }

    /// The source has read that the name is given away.
    fn note_gone(&mut self) {
        self.source.departure = Some(Stage::Gone);
        (self.source.drive, self.source.is_to_fence) = (None, false);
    }

    /// The claim is written: what is on its way was sent when it was another.
    fn claim_changes(&mut self) {
        self.sent = self.sent.map(|sent| sent.map(|_| false));
    }

    fn deliver(&mut self, at: usize, is_heard: bool, flaw: Flaw) -> bool {
        let Some(is_as_sent) = self.sent[at].take() else { return false };
        if is_as_sent || flaw == Flaw::HandOverBlind {
            self.is_given = true;
            self.claim_changes();
        }
        let listens = self.source.is_up && self.source.drive == Some(Drive::Asked);
        if is_heard && self.is_given && listens {
            self.note_gone();
        }
        !is_heard || listens
    }

    /// The claim as it is read now.
    fn claim(&self) -> Holder {
        match self.is_given {
            true => holder(DESTINATION, Some(&by('a'))),
            false => holder(SOURCE, None),
        }
    }

    fn decide(&mut self, flaw: Flaw) -> bool {
        let Some(stage) = self.source.departure else { return false };
        let is_open = self.source.drive.is_none_or(|drive| drive == Drive::Asked);
        match decide_at_source(&departure(stage), Some(&self.claim())) {
            SourceStep::Gone => self.note_gone(),
            SourceStep::UndoAfterFence if flaw == Flaw::UndoUnfenced => self.stays(),
            SourceStep::UndoAfterFence => self.source.is_to_fence = true,
            SourceStep::Wait => {}
        }
        is_open
    }

    fn fence(&mut self, is_heard: bool) -> bool {
        self.source.is_to_fence = false;
        if !self.is_given {
            self.claim_changes();
        }
        match (is_heard, self.is_given) {
            (true, true) => self.note_gone(),
            (true, false) => self.stays(),
            (false, _) => {}
        }
        true
    }

    fn source_says(&self) -> SourceSays {
        match self.source {
            Source { drive: Some(_), .. } => SourceSays::UnderWay,
            Source { departure: Some(Stage::Leaving), .. } => SourceSays::UnderWay,
            Source { departure: Some(Stage::Gone), .. } => SourceSays::HandedOver,
            Source { has_given_up: true, .. } => SourceSays::GivenUp,
            _ => SourceSays::Unknown,
        }
    }

    /// What the destination does about what has come.
    fn arrive(&mut self, step: Step, flaw: Flaw) -> bool {
        let Destination { has_arrival, says, seen, .. } = self.destination;
        match step {
            Step::Ask => {
                (self.destination.says, self.destination.seen) = (Some(self.source_says()), None);
                has_arrival && self.source.is_up
            }
            Step::Look => {
                self.destination.seen = Some(self.is_given);
                has_arrival
            }
            Step::Act => {
                let Some(is_given) = seen.filter(|_| has_arrival) else { return false };
                let claim = Self { is_given, ..*self }.claim();
                self.act(decide_at_destination(Some(&claim), says, &by('a')), flaw);
                (self.destination.says, self.destination.seen) = (None, None);
                true
            }
            _ => {
                if !has_arrival && !self.destination.is_adopted {
                    self.destination.copy = None;
                }
                true
            }
        }
    }

    fn act(&mut self, decided: DestinationStep, flaw: Flaw) {
        let destination = &mut self.destination;
        match (decided, flaw) {
            (DestinationStep::Adopt, _) | (_, Flaw::AdoptUncommitted) => {
                (destination.is_adopted, destination.has_arrival) = (true, false);
            }
            (DestinationStep::Discard, _) | (DestinationStep::AskSource, Flaw::DiscardUnasked) => {
                (destination.copy, destination.has_arrival) = (None, false);
            }
            (DestinationStep::AskSource | DestinationStep::Wait, _) => {}
        }
    }

    fn purge(&mut self) -> bool {
        let is_gone = self.source.is_up && self.source.departure == Some(Stage::Gone);
        let is_told = self.destination.is_up && !self.destination.has_arrival;
        (self.source.volume, self.source.departure) = (None, None);
        is_gone && is_told
    }

    /// Whether one side serves all of it in the end, when both run, the store answers and nobody disturbs them, whether
    /// what is on its way comes first, or last.
    pub(super) fn ends_well(&self, flaw: Flaw) -> bool {
        [true, false].into_iter().all(|comes_first| {
            let mut world = *self;
            world.settle(Step::StartSource, flaw);
            world.settle(Step::StartDestination, flaw);
            if comes_first {
                world.settle_sent(flaw);
            }
            for _ in 0..ROUNDS {
                for step in [Step::GiveUp, Step::Decide, Step::Fence { is_heard: true }] {
                    world.settle(step, flaw);
                }
                for step in [Step::Ask, Step::Look, Step::Act, Step::Purge] {
                    world.settle(step, flaw);
                }
            }
            world.settle_sent(flaw);
            let serves = [world.source_serves(), world.destination_serves()];
            let is_open = world.source.departure.is_some() || world.destination.has_arrival;
            serves[0] != serves[1] && !is_open && world.wrong().is_none()
        })
    }

    fn settle(&mut self, step: Step, flaw: Flaw) {
        *self = self.after(step, flaw).unwrap_or(*self);
    }

    fn settle_sent(&mut self, flaw: Flaw) {
        for at in 0..SENT {
            self.settle(Step::Deliver { at, is_heard: false }, flaw);
        }
    }
}

impl Source {
    /// What nobody remembers who has ended.
    const fn ended() -> Self {
        Self {
            is_up: false,
            ends: 0,
            volume: None,
            departure: None,
            drive: None,
            has_given_up: false,
            is_to_fence: false,
        }
    }
}
