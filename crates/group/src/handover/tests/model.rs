//! A source, a destination, the claim of a name, a host that writes, and all that can happen to them.
//!
//! Both sides decide by [`decide_at_source`] and [`decide_at_destination`] as they are, and operators may settle what
//! [`doubt_at_source`] and [`why_stranded`] leave to them. The rest is made as coarse as it may be: what is stored is
//! stored at once, what is sent to the store stays on its way for as long as anyone likes, also for ever, and the answer
//! to it may be lost. What the source tells the others of its volumes comes to the destination whenever it likes. Data is
//! the number of writes that it holds.
//!
//! Not walked: more than two members and one move of a volume, so neither a volume that its destination moves on nor a
//! move that begins before the last one has ended at both sides; both sides losing what they have; a destination that is
//! removed while it serves the volume; records that do not read, members of earlier versions, and what lies in a recycle
//! bin; data that are lost in part, or come back with their disks, or are lost between the answer of a side which serves
//! them and the deletion that follows at the other one; how long anybody waits.

mod operators;

use super::super::*;
use crate::ownership::MemberId;

const SOURCE: MemberId = MemberId(1);
const DESTINATION: MemberId = MemberId(2);
/// The destination when it was removed, and has joined again.
const ANEW: MemberId = MemberId(3);

/// What else may happen, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scope {
    /// Each side ends so often, and the host writes, at most.
    pub(super) ends: u8,
    pub(super) writes: u8,
    /// Operators settle what they may, and the destination is removed once and joins again.
    pub(super) is_settled: bool,
}

/// Nobody but the members does something.
pub(super) const ALONE: Scope = Scope { ends: 2, writes: 2, is_settled: false };
/// Operators do too.
pub(super) const SETTLED: Scope = Scope { ends: 1, writes: 1, is_settled: true };

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
    /// The destination discards what its source knows nothing of, whether that has the volume or not.
    DiscardUnknown,
    /// The same where the source has told once that it has the volume, be that of before the move.
    BelieveList,
    /// The destination serves by what it has read of the claim, without having written it anew.
    AdoptUnclaimed,
    /// Whoever keeps a volume by word of an operator does not take its name.
    KeepUnnamed,
    /// The source says of a move that it has given it up, whatever has become of the volume since.
    GiveUpLost,
    /// The source deletes what its destination has told once that it has, be that lost since.
    PurgeListed,
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
    /// The array of the source is replaced while the volume leaves, or its disks fail when it has given the move up, and the
    /// destination has all of it.
    LoseSource,
    /// The array of the destination is replaced, which had all of the volume, prepared or adopted.
    LoseDestination,
    EndDestination,
    StartDestination,
    /// Who has the name and no volume of it any more gives it back.
    Release,
    /// The destination hears of the last that the source has told of its volumes.
    Tell,
    /// The source hears of the last that the destination has told of its own.
    TellSource,
    /// The volume is served that the destination has the name of.
    TakeOver,
    /// The destination is removed while it is away, and joins again.
    JoinAnew,
    /// An operator has a side keep what it has: it takes the name. [`Step::Keep`] and [`Step::TakeOver`] do the rest.
    KeepAtSource,
    KeepAtDestination,
    /// The source serves what an operator wants it to keep.
    Keep,
    /// An operator has a side delete what it has.
    DiscardAtSource,
    DiscardAtDestination,
}

impl Step {
    /// What operators do, and those that they ask for it.
    pub(super) const OF_OPERATORS: [Self; 6] = [
        Self::JoinAnew,
        Self::KeepAtSource,
        Self::KeepAtDestination,
        Self::Keep,
        Self::DiscardAtSource,
        Self::DiscardAtDestination,
    ];

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
            Self::LoseSource,
            Self::LoseDestination,
            Self::EndDestination,
            Self::StartDestination,
            Self::Tell,
            Self::TellSource,
            Self::TakeOver,
            Self::Release,
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
    /// An operator wants it to keep the volume, and it has taken the name for that.
    is_to_keep: bool,
    /// It has heard last that the destination has the volume.
    has_heard: bool,
    /// It has lost all that it had.
    is_lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Destination {
    is_up: bool,
    ends: u8,
    /// Who it is.
    number: MemberId,
    copy: Option<u8>,
    has_arrival: bool,
    is_adopted: bool,
    /// It has the name, and is to serve the volume.
    is_to_take: bool,
    says: Option<SourceSays>,
    /// The claim as it was read.
    seen: Option<Claim>,
    /// What it has heard last of what the source tells of its volumes: of before the move at first.
    told: Told,
    /// It has lost all that it had.
    is_lost: bool,
}

/// The claim of the name: who has it, by this move or not, and whether it says that the destination has had the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Claim {
    member: Option<MemberId>,
    is_given: bool,
    is_adopted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    source: Source,
    destination: Destination,
    claim: Claim,
    /// Hand-overs that are on their way: whether the claim is as it was when they were sent.
    sent: [Option<bool>; SENT],
    /// Writes that the host was told are done.
    acknowledged: u8,
    /// The store was asked at least once.
    was_asked: bool,
    /// An operator has had the last copy deleted that had all, or the array of who served the volume was lost with it.
    is_discarded: bool,
}

/// The number of a move of this digit alone.
pub(super) fn by(digit: char) -> MoveId {
    digit.to_string().repeat(32).parse().expect("it is one")
}

pub(super) fn holder(member: MemberId, moved: Option<&MoveId>) -> Holder {
    Holder { member, name: "v".to_owned(), moved: moved.cloned(), adopted: Vec::new() }
}

pub(super) fn departure(stage: Stage) -> Departure {
    let (id, name, iqns) = (by('a'), "v".to_owned(), Vec::new());
    let group = "0".repeat(32).parse().expect("it is one");
    let (to_name, serial) = (String::new(), String::new());
    let (volume, from, to) = (1, SOURCE, DESTINATION);
    Departure { id, group, volume, name, from, to, to_name, serial, iqns, stage }
}

pub(super) fn arrival() -> Arrival {
    let Departure { id, group, volume, name, from, .. } = departure(Stage::Leaving);
    let (from_name, serial) = (String::new(), String::new());
    Arrival { id, group, volume, name, from, from_name, serial, online: true }
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            source: Source {
                is_up: true,
                volume: Some(0),
                drive: Some(Drive::Copying),
                ..Source::ended()
            },
            destination: Destination {
                is_up: true,
                ends: 0,
                number: DESTINATION,
                copy: Some(0),
                has_arrival: false,
                is_adopted: false,
                is_to_take: false,
                says: None,
                seen: None,
                told: Told { has_it: true, has_part: false },
                is_lost: false,
            },
            claim: Claim { member: Some(SOURCE), is_given: false, is_adopted: false },
            sent: [None; SENT],
            acknowledged: 0,
            was_asked: false,
            is_discarded: false,
        }
    }

    fn source_serves(&self) -> bool {
        let Source { is_up, volume, departure, .. } = self.source;
        is_up && volume.is_some() && departure.is_none()
    }

    fn destination_serves(&self) -> bool {
        self.destination.is_up && self.destination.is_adopted
    }

    fn has_all(&self, data: Option<u8>) -> bool {
        data == Some(self.acknowledged)
    }

    /// Somebody has all of it.
    fn is_kept(&self) -> bool {
        self.has_all(self.source.volume) || self.has_all(self.destination.copy) && !self.is_waste()
    }

    /// What must never be.
    pub(super) fn wrong(&self) -> Option<&'static str> {
        let Self { source, destination, claim, .. } = *self;
        let is_own = source.volume.is_some() && source.departure.is_none();
        if is_own && destination.is_adopted {
            return Some("both serve it");
        }
        if is_own && (claim.is_given || self.sent.contains(&Some(true))) {
            return Some("the source serves what is given away, or may be yet");
        }
        let (at_source, at_destination) = (Some(SOURCE), Some(destination.number));
        if is_own && claim.member != at_source
            || destination.is_adopted && claim.member != at_destination
        {
            return Some("it is served by one that does not have its name");
        }
        let is_short = is_own && !self.has_all(source.volume)
            || destination.is_adopted && !self.has_all(destination.copy);
        if is_short {
            return Some("a write is lost where it is served");
        }
        let is_left = self.is_kept() || self.is_discarded;
        (!is_left).then_some("nobody has all of it")
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

    /// The same of one whose destination was removed behind the hand-over.
    pub(super) fn is_kept_from_who_joined_anew(&self) -> bool {
        self.destination.number == ANEW && self.stays_although_asked()
    }

    /// An operator has had it deleted at its source, and another one has kept what had come.
    pub(super) fn is_kept_where_it_came(&self) -> bool {
        let Claim { is_given, .. } = self.claim;
        self.source.volume.is_none() && !is_given && self.destination_serves()
    }

    /// The world behind a step; `None` where there is no such step.
    pub(super) fn after(&self, step: Step, (scope, flaw): (Scope, Flaw)) -> Option<Self> {
        let mut world = *self;
        let is_done = match step {
            Step::Write => world.write(scope.writes),
            Step::Copy | Step::Freeze | Step::Prepare { .. } | Step::Send | Step::GiveUp => {
                self.source.is_up && world.drive(step, flaw)
            }
            Step::Deliver { at, is_heard } => world.deliver(at, is_heard, flaw),
            Step::Decide => self.source.is_up && world.decide(flaw),
            Step::Fence { is_heard } => self.source.is_to_fence && world.fence(is_heard),
            Step::Purge => world.purge(flaw),
            Step::Release => world.release(),
            Step::Tell => {
                world.destination.told = self.source_tells();
                self.source.is_up
            }
            Step::TellSource => {
                world.source.has_heard = self.destination_serves();
                self.source.is_up && self.destination.is_up
            }
            Step::Ask | Step::Look | Step::Act | Step::TakeOver | Step::Discard => {
                self.destination.is_up && world.arrive(step, flaw)
            }
            Step::EndSource
            | Step::StartSource
            | Step::LoseSource
            | Step::LoseDestination
            | Step::EndDestination
            | Step::StartDestination => world.end_or_start(step, scope.ends, flaw),
            Step::JoinAnew
            | Step::KeepAtSource
            | Step::KeepAtDestination
            | Step::Keep
            | Step::DiscardAtSource
            | Step::DiscardAtDestination => world.settle_by_word(step, flaw),
        };
        (is_done && world != *self).then_some(world)
    }

    fn end_or_start(&mut self, step: Step, ends_max: u8, flaw: Flaw) -> bool {
        let before = *self;
        match step {
            Step::EndSource => {
                let ends = before.source.ends + 1;
                let Source { volume, departure, is_lost, .. } = before.source;
                self.source = Source { ends, volume, departure, is_lost, ..Source::ended() };
                before.source.is_up && ends <= ends_max
            }
            Step::StartSource => {
                self.source.is_up = true;
                if flaw == Flaw::ServeLeaving && before.source.departure == Some(Stage::Leaving) {
                    self.source.departure = None;
                }
                !before.source.is_up
            }
            Step::LoseSource => {
                let Source { is_up, ends, departure, has_given_up, .. } = before.source;
                let ended = Source::ended();
                self.source = Source { is_up, ends, has_given_up, is_lost: true, ..ended };
                let leaves = !is_up && departure.is_some();
                // Once a host has written, no one else has all of what it serves, and once it has said that it has it, it is
                // lost as any volume is.
                let has_said = before.destination.says == Some(SourceSays::GivenUp);
                let stays = is_up && departure.is_none() && has_given_up && !has_said;
                let is_first = !before.source.is_lost && !before.destination.is_lost;
                (leaves || stays) && is_first && self.has_whole_arrival()
            }
            Step::LoseDestination => {
                let Destination { has_arrival, is_adopted, is_up, .. } = before.destination;
                let destination = &mut self.destination;
                (destination.copy, destination.has_arrival) = (None, false);
                (destination.is_adopted, destination.is_lost) = (false, true);
                // What only it had, as it served it, or as an operator wanted, is lost as any volume is. What the source
                // has of it is all then that can be kept.
                match before.source.volume {
                    Some(left) if is_adopted => self.acknowledged = left,
                    None => self.is_discarded |= !self.is_kept(),
                    Some(_) => {}
                }
                !is_up && (has_arrival || is_adopted) && !before.source.is_lost
            }
            Step::EndDestination => {
                let destination = &mut self.destination;
                (destination.is_up, destination.is_to_take) = (false, false);
                (destination.says, destination.seen) = (None, None);
                destination.ends += 1;
                before.destination.is_up && before.destination.ends < ends_max
            }
            _ => {
                self.destination.is_up = true;
                if before.is_waste() {
                    self.destination.copy = None;
                }
                !before.destination.is_up
            }
        }
    }

    fn write(&mut self, writes_max: u8) -> bool {
        let served = match (self.source_serves(), self.destination_serves()) {
            (true, _) => &mut self.source.volume,
            (false, true) => &mut self.destination.copy,
            (false, false) => return false,
        };
        *served = served.map(|data| data + 1);
        self.acknowledged += 1;
        self.acknowledged <= writes_max
    }

    /// What the source does while it drives the move.
    fn drive(&mut self, step: Step, flaw: Flaw) -> bool {
        let Some(drive) = self.source.drive else { return false };
        let Destination { is_up, number, copy, .. } = self.destination;
        // It asks the member that it knows by that number.
        let is_there = is_up && number == DESTINATION && copy.is_some();
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
                let is_own = self.claim.member == Some(SOURCE);
                let free = self.sent.iter().position(Option::is_none);
                let Some(free) = free.filter(|_| is_own) else { return false };
                self.sent[free] = Some(number == DESTINATION);
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
        self.source.is_to_keep = false;
        self.source.has_given_up = true;
    }

    /// The source has read that the name is given away.
    fn note_gone(&mut self) {
        self.source.departure = Some(Stage::Gone);
        (self.source.drive, self.source.is_to_fence) = (None, false);
    }

    /// The claim is written: what is on its way was sent when it was another.
    fn write_claim(&mut self, claim: Claim) {
        self.claim = claim;
        self.sent = self.sent.map(|sent| sent.map(|_| false));
    }

    fn deliver(&mut self, at: usize, is_heard: bool, flaw: Flaw) -> bool {
        let Some(is_as_sent) = self.sent[at].take() else { return false };
        let is_blind = flaw == Flaw::HandOverBlind && self.destination.number == DESTINATION;
        if is_as_sent || is_blind {
            let member = Some(DESTINATION);
            self.write_claim(Claim { member, is_given: true, ..self.claim });
        }
        let listens = self.source.is_up && self.source.drive == Some(Drive::Asked);
        if is_heard && self.claim.is_given && listens {
            self.note_gone();
        }
        !is_heard || listens
    }

    fn decide(&mut self, flaw: Flaw) -> bool {
        let Some(stage) = self.source.departure else { return false };
        let is_open = self.source.drive.is_none_or(|drive| drive == Drive::Asked);
        match decide_at_source(&departure(stage), self.claim.holder().as_ref()) {
            SourceStep::Gone => self.note_gone(),
            SourceStep::UndoAfterFence if flaw == Flaw::UndoUnfenced => self.stays(),
            SourceStep::UndoAfterFence => self.source.is_to_fence = true,
            // Nobody drives it any more.
            SourceStep::Wait => self.source.drive = None,
        }
        is_open
    }

    fn fence(&mut self, is_heard: bool) -> bool {
        self.source.is_to_fence = false;
        let is_kept = match self.claim {
            Claim { is_given: true, .. } => Some(false),
            Claim { member: None, .. } => None,
            Claim { member: Some(member), .. } if self.is_member(member) && member != SOURCE => {
                None
            }
            _ => Some(true),
        };
        if is_kept == Some(true) {
            self.take_name(SOURCE);
        }
        match (is_heard, is_kept) {
            (true, Some(false)) => self.note_gone(),
            (true, Some(true)) => self.stays(),
            _ => {}
        }
        true
    }

    fn is_member(&self, member: MemberId) -> bool {
        member == SOURCE || member == self.destination.number
    }

    /// Takes the name for a member, unless another one has it. What the claim says of how it came stays with its holder.
    fn take_name(&mut self, member: MemberId) -> bool {
        if self.claim.member.is_some_and(|has_it| has_it != member && self.is_member(has_it)) {
            return false;
        }
        let own = Claim { member: Some(member), is_given: false, is_adopted: false };
        let is_own = self.claim.member == Some(member);
        self.write_claim(if is_own { self.claim } else { own });
        true
    }

    fn source_says(&self, flaw: Flaw) -> SourceSays {
        match self.source {
            Source { drive: Some(_), .. } => SourceSays::UnderWay,
            Source { departure: Some(Stage::Leaving), .. } => SourceSays::UnderWay,
            Source { departure: Some(Stage::Gone), .. } => SourceSays::HandedOver,
            Source { volume: Some(_), .. } => SourceSays::GivenUp,
            Source { has_given_up: true, .. } if flaw == Flaw::GiveUpLost => SourceSays::GivenUp,
            _ => SourceSays::Unknown,
        }
    }

    fn source_tells(&self) -> Told {
        let Source { volume, departure, drive, .. } = self.source;
        Told { has_it: volume.is_some(), has_part: departure.is_some() || drive.is_some() }
    }

    /// All of it has come, and waits.
    fn has_whole_arrival(&self) -> bool {
        self.destination.has_arrival && self.has_all(self.destination.copy)
    }

    /// The destination has lost all, and the source serves it no more, and has it.
    pub(super) fn is_left_although_lost(&self) -> bool {
        let has_left = self.source.departure == Some(Stage::Gone);
        self.destination.is_lost && has_left && self.has_all(self.source.volume)
    }

    /// The source has lost all, and the name was given before that, or came late.
    pub(super) fn is_adopted_although_lost(&self) -> bool {
        self.source.is_lost && self.destination_serves()
    }

    /// What the destination does about what has come.
    fn arrive(&mut self, step: Step, flaw: Flaw) -> bool {
        let Destination { has_arrival, seen, is_to_take, .. } = self.destination;
        match step {
            Step::Ask => {
                (self.destination.says, self.destination.seen) =
                    (Some(self.source_says(flaw)), None);
                has_arrival && self.source.is_up
            }
            Step::Look => {
                self.destination.seen = Some(self.claim);
                has_arrival
            }
            Step::Act => {
                let Some(seen) = seen.filter(|_| has_arrival) else { return false };
                let decided = self.decided_at_destination(seen, flaw);
                self.act(decided, flaw);
                (self.destination.says, self.destination.seen) = (None, None);
                true
            }
            Step::TakeOver => {
                let destination = &mut self.destination;
                destination.is_to_take = false;
                if has_arrival {
                    (destination.is_adopted, destination.has_arrival) = (true, false);
                }
                is_to_take
            }
            _ => {
                if !has_arrival && !self.destination.is_adopted {
                    self.destination.copy = None;
                }
                true
            }
        }
    }

    /// What the destination decides by the claim as it has read it.
    fn decided_at_destination(&self, seen: Claim, flaw: Flaw) -> DestinationStep {
        let Destination { says, told, .. } = self.destination;
        let is_unknown = says == Some(SourceSays::Unknown) && !seen.is_given;
        let is_believed = flaw == Flaw::BelieveList && told.keeps_it();
        if is_unknown && (flaw == Flaw::DiscardUnknown || is_believed) {
            return DestinationStep::Discard;
        }
        let may_be_given_up = matches!(says, None | Some(SourceSays::GivenUp));
        if !may_be_given_up && self.is_stranded(seen) {
            return DestinationStep::Wait;
        }
        decide_at_destination(seen.holder().as_ref(), says, &by('a'))
    }

    /// Only an operator ends what has come, by this claim.
    fn is_stranded(&self, claim: Claim) -> bool {
        let heard = (true, Heard::Of(self.destination.told));
        !claim.is_given && why_stranded(&arrival(), claim.holder().as_ref(), heard).is_some()
    }

    fn act(&mut self, decided: DestinationStep, flaw: Flaw) {
        match (decided, flaw) {
            (_, Flaw::AdoptUncommitted) | (DestinationStep::Adopt, Flaw::AdoptUnclaimed) => {
                self.destination.is_to_take = true;
            }
            (DestinationStep::Adopt, _) => self.adopt_name(),
            (DestinationStep::Discard, _) | (DestinationStep::AskSource, Flaw::DiscardUnasked) => {
                (self.destination.copy, self.destination.has_arrival) = (None, false);
            }
            (DestinationStep::AskSource | DestinationStep::Wait, _) => {}
        }
    }

    /// Writes the claim anew, if it is given still, and not to another one that is there.
    fn adopt_name(&mut self) {
        let Claim { member, is_given, .. } = self.claim;
        let number = self.destination.number;
        let is_others = member.is_some_and(|has_it| has_it != number && self.is_member(has_it));
        if is_given && !is_others {
            self.write_claim(Claim { member: Some(number), is_adopted: true, ..self.claim });
            self.destination.is_to_take = true;
        }
    }

    /// The destination says that it has the volume, or the claim that it has had it and that it has passed on.
    fn purge(&mut self, flaw: Flaw) -> bool {
        let Destination { is_up, number, has_arrival, is_adopted, .. } = self.destination;
        let is_gone = self.source.is_up && self.source.departure == Some(Stage::Gone);
        let is_told = is_up && number == DESTINATION && !has_arrival;
        let is_believed = flaw == Flaw::PurgeListed && self.source.has_heard;
        let has_passed_on = self.claim.is_adopted && !self.claim.is_given;
        let is_proved = is_adopted || has_passed_on || is_believed;
        (self.source.volume, self.source.departure) = (None, None);
        self.source.is_to_keep = false;
        is_gone && is_told && is_proved
    }

    /// Who has the name and no volume of it gives it back.
    fn release(&mut self) -> bool {
        let Self { source, destination, claim, .. } = *self;
        let idle = match claim.member {
            Some(SOURCE) => source.is_up && source.volume.is_none() && source.departure.is_none(),
            Some(member) if member == destination.number => destination.is_up && self.is_waste(),
            _ => false,
        };
        self.write_claim(Claim { member: None, is_given: false, is_adopted: false });
        idle
    }

    /// Whether one side serves all of it in the end, when both run, the store answers and nobody disturbs them, whether
    /// what is on its way comes first, or last. Where somebody has disturbed them, it may be left to an operator, who is
    /// told.
    pub(super) fn ends_well(&self, (scope, flaw): (Scope, Flaw)) -> bool {
        [true, false].into_iter().all(|comes_first| {
            let mut world = *self;
            let settle = |world: &mut Self, step| {
                *world = world.after(step, (scope, flaw)).unwrap_or(*world);
            };
            let settle_sent = |world: &mut Self| {
                (0..SENT).for_each(|at| settle(world, Step::Deliver { at, is_heard: false }));
            };
            settle(&mut world, Step::StartSource);
            settle(&mut world, Step::StartDestination);
            if comes_first {
                settle_sent(&mut world);
            }
            for _ in 0..ROUNDS {
                for step in [Step::GiveUp, Step::Decide, Step::Fence { is_heard: true }] {
                    settle(&mut world, step);
                }
                for step in [Step::Release, Step::Keep, Step::Tell, Step::Ask, Step::Look] {
                    settle(&mut world, step);
                }
                for step in [Step::Act, Step::TakeOver, Step::Purge] {
                    settle(&mut world, step);
                }
            }
            settle_sent(&mut world);
            world.wrong().is_none() && world.is_settled(scope)
        })
    }

    /// Nothing goes on, or an operator is told of what is left: where one side waits for the other, of that one's.
    fn is_settled(&self, scope: Scope) -> bool {
        let serves = [self.source_serves(), self.destination_serves()];
        let waits = [self.source.departure.is_some(), self.destination.has_arrival];
        if scope.is_settled || self.source.is_lost || self.destination.is_lost {
            let is_told =
                self.is_undecided() || self.destination.has_arrival && self.is_stranded(self.claim);
            let is_done = waits == [false; 2] && (serves.contains(&true) || self.is_discarded);
            return is_told || is_done;
        }
        serves[0] != serves[1] && waits == [false; 2]
    }
}

impl Claim {
    /// As it is read.
    fn holder(self) -> Option<Holder> {
        let moved = self.is_given.then(|| by('a'));
        let adopted = self.is_adopted.then(|| by('a')).into_iter().collect();
        Some(Holder { adopted, ..holder(self.member?, moved.as_ref()) })
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
            is_to_keep: false,
            has_heard: false,
            is_lost: false,
        }
    }
}
