//! A coordinator without volumes, two participants, the key of a set, and all that can happen to them.
//!
//! All decide by [`next_step`] and [`may_be_whole`] as they are. The rest is made as coarse as it may be: what is stored is
//! stored at once, and what is sent, to a member or to the store, stays on its way for as long as anyone likes, also for
//! ever, and the answer to it may be lost.

use super::super::*;

/// The coordinator is the first one.
const ALL: usize = 3;
const COORDINATOR: usize = 0;

/// How often one of them may end, all counted.
const ENDS: u8 = 2;

/// Decisions that are on their way to the store at the same time.
const SENT: usize = 2;

/// Rounds in which all settle what is open, at most.
const ROUNDS: usize = 3;

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    None,
    /// A decision does not compare that there is none.
    DecideBlind,
    /// Snapshots are taken without a look at whether the set is still undecided.
    TakeLate,
    /// The coordinator decides whole although it has asked for void before.
    WholeAfterVoid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// What the coordinator has asked a participant for comes there, and the coordinator may hear that it is done.
    Prepare {
        at: usize,
        is_heard: bool,
    },
    /// The coordinator asks both participants to take their snapshots.
    SendTakes,
    Take {
        at: usize,
        is_heard: bool,
    },
    /// The coordinator asks the store.
    SendWhole,
    SendVoid,
    /// A decision comes to the store, and who has sent it may hear what counts.
    Decide {
        at: usize,
        is_heard: bool,
    },
    /// A member reads what is decided, and does what follows. `is_due` says that it was silent for long.
    Read {
        at: usize,
        is_due: bool,
    },
    /// A member tells the store that it has settled it, and may hear that this is done. One that comes late and is done
    /// is done by then, and one that finds another revision does nothing.
    Leave {
        at: usize,
        is_heard: bool,
    },
    /// A member leaves a set that it knows nothing of.
    Sweep {
        at: usize,
    },
    End {
        at: usize,
    },
    Start {
        at: usize,
    },
}

impl Step {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let of = |at| {
            let heard = [true, false].map(|is_heard| {
                [
                    Self::Prepare { at, is_heard },
                    Self::Take { at, is_heard },
                    Self::Leave { at, is_heard },
                    Self::Read { at, is_due: is_heard },
                ]
            });
            let once = [Self::Sweep { at }, Self::End { at }, Self::Start { at }];
            heard.into_iter().flatten().chain(once)
        };
        let sent = |at| [true, false].map(|is_heard| Self::Decide { at, is_heard });
        let asked = [Self::SendTakes, Self::SendWhole, Self::SendVoid].into_iter();
        asked.chain((0..ALL).flat_map(of)).chain((0..SENT).flat_map(sent))
    }
}

/// What the coordinator knows in this life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Drive {
    prepared: [bool; ALL],
    taken: [bool; ALL],
    /// What it has asked the store for.
    asked: Option<Verdict>,
}

/// A request on its way to a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Unsent,
    Sent,
    Come,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    is_up: bool,
    ends: u8,
    stage: Option<SetStage>,
    has_snapshot: bool,
    /// What it has done.
    done: Option<Verdict>,
    prepare: Request,
    take: Request,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    verdict: Verdict,
    unsettled: [bool; ALL],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sent {
    verdict: Verdict,
    /// It is of the coordinator, which waits for the answer.
    is_driven: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    parts: [Part; ALL],
    drive: Option<Drive>,
    /// What the operator was told.
    told: Option<Verdict>,
    key: Option<Key>,
    sent: [Option<Sent>; SENT],
    /// The coordinator has asked for whole.
    was_asked: bool,
}

fn number(at: usize) -> MemberId {
    MemberId(at as u16 + 1)
}

/// What the member at this place has stored.
pub(super) fn intent(at: usize) -> SetIntent {
    SetIntent {
        id: "a".repeat(32).parse().expect("it is one"),
        group: "0".repeat(32).parse().expect("it is one"),
        me: number(at),
        coordinator: number(COORDINATOR),
        participants: BTreeSet::from([number(1), number(2)]),
        volumes: Vec::new(),
        name: "s".to_owned(),
        stage: SetStage::Undecided,
    }
}

pub(super) fn seat(intent: &SetIntent) -> Seat<'_> {
    (&intent.group, intent.me)
}

impl World {
    pub(super) fn new() -> Self {
        let part = |at| Part {
            is_up: true,
            ends: 0,
            // Its own comes first.
            stage: (at == COORDINATOR).then_some(SetStage::Undecided),
            has_snapshot: false,
            done: None,
            prepare: if at == COORDINATOR { Request::Come } else { Request::Sent },
            take: Request::Unsent,
        };
        let prepared = [true, false, false];
        let drive = Drive { prepared, taken: [false; ALL], asked: None };
        Self {
            parts: [part(0), part(1), part(2)],
            drive: Some(drive),
            told: None,
            key: None,
            sent: [None; SENT],
            was_asked: false,
        }
    }

    /// What must never be.
    pub(super) fn wrong(&self) -> Option<&'static str> {
        let participants = &self.parts[1..];
        let has_done = |verdict| participants.iter().any(|part| part.done == Some(verdict));
        if has_done(Verdict::Whole) && has_done(Verdict::Void) {
            return Some("one keeps what another one deletes");
        }
        if participants.iter().any(|it| it.done == Some(Verdict::Whole) && !it.has_snapshot) {
            return Some("one keeps what it has not taken");
        }
        let is_stray =
            |it: &Part| it.has_snapshot && it.stage.is_none() && it.done != Some(Verdict::Whole);
        if participants.iter().any(is_stray) {
            return Some("a snapshot is left that nobody knows of");
        }
        match self.told {
            Some(Verdict::Whole) if has_done(Verdict::Void) => Some("the operator heard of all"),
            Some(Verdict::Void) if has_done(Verdict::Whole) => Some("the operator heard of none"),
            _ => None,
        }
    }

    /// All have kept their snapshots, and all have ended in between.
    pub(super) fn is_whole_through_ends(&self) -> bool {
        let is_whole = |part: &Part| part.done == Some(Verdict::Whole);
        let has_ended = self.parts[COORDINATOR].ends > 0 && self.parts[1].ends > 0;
        has_ended && self.parts.iter().all(is_whole) && self.key.is_none()
    }

    pub(super) fn is_void_although_asked(&self) -> bool {
        let is_void = |part: &Part| part.done == Some(Verdict::Void);
        self.was_asked && self.parts.iter().all(is_void) && self.told == Some(Verdict::Void)
    }

    /// The world behind a step; `None` where there is no such step.
    pub(super) fn after(&self, step: Step, flaw: Flaw) -> Option<Self> {
        let mut world = *self;
        let is_done = match step {
            Step::Prepare { at, is_heard } => world.prepare(at, is_heard),
            Step::SendTakes => world.send_takes(),
            Step::Take { at, is_heard } => world.take(at, is_heard, flaw),
            Step::SendWhole => world.ask(Verdict::Whole, flaw),
            Step::SendVoid => world.ask(Verdict::Void, flaw),
            Step::Decide { at, is_heard } => world.decide(at, is_heard, flaw),
            Step::Read { at, is_due } => self.parts[at].is_up && world.read(at, is_due),
            Step::Leave { at, is_heard } => world.leave(at, is_heard),
            Step::Sweep { at } => {
                let part = self.parts[at];
                let may = self.record().is_some_and(|it| it.may_be_left_unseen(number(at)));
                part.is_up && part.stage.is_none() && may && world.take_off(at)
            }
            Step::End { at } => {
                let part = &mut world.parts[at];
                (part.is_up, part.ends) = (false, part.ends + 1);
                if at == COORDINATOR {
                    world.drive = None;
                }
                let ends: u8 = world.parts.iter().map(|part| part.ends).sum();
                self.parts[at].is_up && ends <= ENDS
            }
            Step::Start { at } => {
                world.parts[at].is_up = true;
                !self.parts[at].is_up
            }
        };
        (is_done && world != *self).then_some(world)
    }

    fn prepare(&mut self, at: usize, is_heard: bool) -> bool {
        let part = &mut self.parts[at];
        if !part.is_up || part.prepare != Request::Sent {
            return false;
        }
        (part.prepare, part.stage) = (Request::Come, Some(SetStage::Undecided));
        if let (true, Some(drive)) = (is_heard, &mut self.drive) {
            drive.prepared[at] = true;
        }
        true
    }

    fn send_takes(&mut self) -> bool {
        let Some(drive) = self.drive else { return false };
        let is_unsent = self.parts[1].take == Request::Unsent;
        for part in &mut self.parts[1..] {
            part.take = Request::Sent;
        }
        drive.prepared == [true; ALL] && drive.asked.is_none() && is_unsent
    }

    fn take(&mut self, at: usize, is_heard: bool, flaw: Flaw) -> bool {
        let part = &mut self.parts[at];
        if !part.is_up || part.take != Request::Sent {
            return false;
        }
        part.take = Request::Come;
        if part.stage != Some(SetStage::Undecided) && flaw != Flaw::TakeLate {
            return true;
        }
        part.has_snapshot = true;
        if let (true, Some(drive)) = (is_heard, &mut self.drive) {
            drive.taken[at] = true;
        }
        true
    }

    fn send(&mut self, sent: Sent) -> bool {
        let Some(free) = self.sent.iter().position(Option::is_none) else { return false };
        // One is as good as two.
        if self.sent.contains(&Some(sent)) {
            return false;
        }
        self.sent[free] = Some(sent);
        true
    }

    /// The coordinator asks the store for what follows from what it has heard.
    fn ask(&mut self, verdict: Verdict, flaw: Flaw) -> bool {
        let Some(drive) = &mut self.drive else { return false };
        let taken = (0..ALL).filter(|at| drive.taken[*at]).map(number).collect();
        let is_asked_before = drive.asked.is_some_and(|asked| asked != verdict);
        let may = match verdict {
            Verdict::Whole => may_be_whole(&intent(COORDINATOR).participants, &taken),
            Verdict::Void => true,
        };
        if !may || is_asked_before && flaw != Flaw::WholeAfterVoid {
            return false;
        }
        drive.asked = Some(verdict);
        self.was_asked |= verdict == Verdict::Whole;
        if flaw == Flaw::WholeAfterVoid && verdict == Verdict::Void {
            // Who has decided so tells it at once.
            self.told = Some(verdict);
        }
        self.send(Sent { verdict, is_driven: true })
    }

    fn decide(&mut self, at: usize, is_heard: bool, flaw: Flaw) -> bool {
        let Some(Sent { verdict, is_driven }) = self.sent[at].take() else { return false };
        if self.key.is_none() || flaw == Flaw::DecideBlind {
            let all = record(&intent(COORDINATOR), verdict).unsettled;
            let unsettled = [0, 1, 2].map(|at| all.contains(&number(at)));
            self.key = Some(Key { verdict, unsettled });
        }
        let listens = is_driven && self.drive.is_some_and(|drive| drive.asked.is_some());
        if is_heard && listens {
            self.hear();
        }
        !is_heard || listens
    }

    /// The coordinator hears what counts, and tells it.
    fn hear(&mut self) {
        if let Some(key) = self.key {
            self.told = Some(key.verdict);
            self.drive = None;
        }
    }

    /// What follows for a member from what the store says now.
    fn step(&self, at: usize, stage: SetStage, is_due: bool) -> SetStep {
        let intent = SetIntent { stage, ..intent(at) };
        next_step(&intent, Some(seat(&intent)), self.record().as_ref(), is_due)
    }

    /// The key as it is read.
    fn record(&self) -> Option<SetRecord> {
        self.key.map(|Key { verdict, unsettled }| {
            let unsettled = (0..ALL).filter(|at| unsettled[*at]).map(number).collect();
            SetRecord { verdict, coordinator: number(COORDINATOR), unsettled }
        })
    }

    fn read(&mut self, at: usize, is_due: bool) -> bool {
        let Some(stage) = self.parts[at].stage else { return false };
        if let (COORDINATOR, Some(drive)) = (at, self.drive) {
            self.hear();
            return drive.asked.is_some();
        }
        let step = self.step(at, stage, is_due);
        let part = &mut self.parts[at];
        match step {
            SetStep::Wait | SetStep::Leave | SetStep::Forget | SetStep::KeepUndecided => {
                return false;
            }
            SetStep::DecideVoid => {
                return self.send(Sent { verdict: Verdict::Void, is_driven: false });
            }
            SetStep::Keep => {
                (part.stage, part.done) = (Some(SetStage::Settled), Some(Verdict::Whole));
            }
            SetStep::Delete => {
                (part.stage, part.done) = (Some(SetStage::Settled), Some(Verdict::Void));
                part.has_snapshot = false;
            }
        }
        true
    }

    /// Takes a member off the key, which goes with the last one.
    fn take_off(&mut self, at: usize) -> bool {
        let Some(mut key) = self.key.filter(|key| key.unsettled[at]) else { return false };
        key.unsettled[at] = false;
        self.key = Some(key).filter(|key| key.unsettled.contains(&true));
        true
    }

    fn leave(&mut self, at: usize, is_heard: bool) -> bool {
        let Part { is_up, stage, .. } = self.parts[at];
        let is_driven = at == COORDINATOR && self.drive.is_some();
        let Some(stage) = stage.filter(|_| is_up && !is_driven) else { return false };
        let leaves = self.step(at, stage, false) == SetStep::Leave;
        self.take_off(at);
        if is_heard {
            self.parts[at].stage = None;
        }
        leaves
    }

    /// Whether all is settled in the end, when all run, the store answers and nobody disturbs them, whether what is on
    /// its way comes first, or last.
    pub(super) fn ends_well(&self, flaw: Flaw) -> bool {
        [true, false].into_iter().all(|comes_first| {
            let mut world = *self;
            for at in 0..ALL {
                world.settle(Step::Start { at }, flaw);
            }
            if comes_first {
                world.settle_sent(flaw);
            }
            for step in [Step::SendWhole, Step::SendVoid] {
                world.settle(step, flaw);
            }
            for _ in 0..ROUNDS {
                for at in 0..ALL {
                    world.settle_member(at, flaw);
                }
                world.settle_sent(flaw);
            }
            let is_open = world.parts.iter().any(|part| part.stage.is_some());
            !is_open && world.key.is_none() && world.wrong().is_none()
        })
    }

    /// What a member decides, what it does about that, and that it leaves.
    fn settle_member(&mut self, at: usize, flaw: Flaw) {
        for _ in 0..3 {
            self.settle(Step::Read { at, is_due: true }, flaw);
            for at in 0..SENT {
                self.settle(Step::Decide { at, is_heard: true }, flaw);
                self.settle(Step::Decide { at, is_heard: false }, flaw);
            }
            self.settle(Step::Leave { at, is_heard: true }, flaw);
        }
        self.settle(Step::Sweep { at }, flaw);
    }

    fn settle(&mut self, step: Step, flaw: Flaw) {
        *self = self.after(step, flaw).unwrap_or(*self);
    }

    /// Whatever is on its way comes.
    fn settle_sent(&mut self, flaw: Flaw) {
        for at in 0..ALL {
            self.settle(Step::Prepare { at, is_heard: true }, flaw);
            self.settle(Step::Take { at, is_heard: true }, flaw);
        }
        for at in 0..SENT {
            self.settle(Step::Decide { at, is_heard: false }, flaw);
        }
    }
}
