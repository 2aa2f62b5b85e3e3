//! A group of two or three members, their store, hosts, and all that can happen to them.
//!
//! The members are [`Standing`], [`Barrier`] and [`PageMove`] as they are. The rest is made as coarse as it may be: the
//! store does each request at once, but requests and answers are on their way for as long as anyone likes, also
//! for ever, which is what a partition, a pause and a lost message are.

use std::collections::BTreeSet;

use super::super::{Barrier, MemberId, Moment, PageMove, Refusal, Stage, Standing, Timing};
use crate::store::Revision;

/// At most.
const MEMBERS: usize = 3;

/// Of the clock: a proof lasts so long, and its end is waited for so long.
const LEASE: u64 = 2;
const WAIT: u64 = 3;

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    None,
    /// Requests are let in after the lease's end.
    ServeAfterLease,
    /// A proof lasts from the moment of its answer.
    ProofFromAnswer,
    /// What others' clocks may differ by is not waited for.
    NoDrift,
    /// A change counts as applied while requests of the former state are under way.
    ApplyEarly,
    /// A barrier is answered when the change is committed.
    AnswerEarly,
    /// A forwarded request is served whatever state it was let in under.
    ForwardUnfenced,
    /// The store does not compare incarnations of who sends a change.
    SkipIncarnation,
    /// Nor that of the target of a page.
    SkipTarget,
    /// The owner serves a page until it hears of the new map.
    ServeWhileCommitting,
    /// The page is not drained before the rest of it is copied.
    MoveUndrained,
    /// An answer that is lost counts as a refusal.
    LostIsRefused,
    /// Who has started vouches before it is entered.
    VouchOutside,
    /// Who has just committed a change vouches for what was before it, as it has not heard of it.
    VouchUnheard,
}

/// What may happen, at most so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) ticks: u8,
    pub(super) lags: u8,
    pub(super) reads_of_store: u8,
    pub(super) rounds: u8,
    pub(super) fences: u8,
    pub(super) moves: u8,
    pub(super) crashes: u8,
    pub(super) lost_answers: u8,
    pub(super) entries: u8,
    /// Writes of the host that the change shuts out.
    pub(super) fenced_writes: u8,
    /// Writes of another.
    pub(super) writes: u8,
    pub(super) forwards: u8,
    pub(super) pages: u8,
    pub(super) members: usize,
    /// Whether answers of the store are on their way for long.
    pub(super) is_slow: bool,
}

pub(super) const NOTHING: Budget = Budget {
    ticks: 0,
    lags: 0,
    reads_of_store: 0,
    rounds: 0,
    fences: 0,
    moves: 0,
    crashes: 0,
    lost_answers: 0,
    entries: 0,
    fenced_writes: 0,
    writes: 0,
    forwards: 0,
    pages: 1,
    members: 3,
    is_slow: false,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Change {
    Entry(usize),
    /// A host is shut out of the volume.
    Fence,
    Move {
        page: usize,
        to: usize,
    },
}

/// A change on its way to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sent {
    from: usize,
    incarnation: u64,
    /// The page, the target, and the incarnation that said it has it; none for a fence.
    page: Option<(usize, usize, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Store {
    changes: Vec<Change>,
    incarnation: [u64; MEMBERS],
    owner: Vec<usize>,
}

impl Store {
    fn revision(&self) -> Revision {
        self.changes.len() as u64
    }

    fn is_fenced(&self) -> bool {
        self.changes.contains(&Change::Fence)
    }
}

/// A request that was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Request {
    page: usize,
    is_of_fenced: bool,
    heard: Revision,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Member {
    standing: Standing,
    incarnation: u64,
    entering: Option<Revision>,
    is_fenced: bool,
    owner: Vec<usize>,
    /// The store's answer on its way: when it was asked for, and the newest revision.
    answer: Option<(Moment, Revision)>,
    /// When others were asked, about what, and who has not been reached by that.
    round: Option<(Moment, Revision, BTreeSet<usize>)>,
    /// What the store said of this member's change, on its way.
    outcome: Option<Option<Revision>>,
    is_fencing: bool,
    barrier: Option<Barrier>,
    moving: Option<(usize, PageMove)>,
    requests: Vec<Request>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    clock: u64,
    lag: [u64; MEMBERS],
    store: Store,
    members: Vec<Option<Member>>,
    /// How many writes each member's disks hold of each page; none where it has no such page.
    disks: Vec<Vec<Option<u8>>>,
    /// The same of pages that are on their way to it.
    staged: Vec<Vec<Option<u8>>>,
    network: BTreeSet<Sent>,
    /// Requests that another member let in, and whether it knew of the fence then.
    forwarded: Vec<(usize, bool)>,
    acknowledged: Vec<u8>,
    pub(super) is_answered: bool,
    has_served_since: [bool; MEMBERS],
    pub(super) has_moved_and_served: bool,
    pub(super) has_been_vouched_for: bool,
    pub(super) wrong: Option<&'static str>,
    left: Budget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Tick { behind: Option<usize> },
    AskStore(usize),
    StoreSaid(usize),
    Hear(usize),
    Apply(usize),
    AskOthers(usize),
    Vouch { asker: usize, giver: usize },
    Fence(usize),
    StoreDoes(usize),
    Outcome(usize),
    LoseOutcome(usize),
    Applied { at: usize, by: usize },
    Answer(usize),
    Enter(usize),
    Entered(usize),
    Crash(usize),
    Start(usize),
    LetIn { at: usize, page: usize, is_of_fenced: bool },
    Forward { by: usize, page: usize },
    Arrive { at: usize, which: usize },
    Execute { at: usize, which: usize },
    BeginMove { from: usize, to: usize },
    Copied(usize),
    Drained(usize),
    Durable(usize),
    SendMove(usize),
}

fn all(members: usize) -> BTreeSet<MemberId> {
    (0..members).map(id).collect()
}

fn id(member: usize) -> MemberId {
    MemberId(member as u16)
}

impl World {
    pub(super) fn new(budget: Budget, flaw: Flaw) -> Self {
        let pages = usize::from(budget.pages);
        // Page 0 is of member 0, page 1 of member 1.
        let owner: Vec<usize> = (0..pages).collect();
        let store = Store { changes: Vec::new(), incarnation: [1; MEMBERS], owner: owner.clone() };
        let timing = timing(flaw);
        let members = (0..budget.members).map(|member| {
            let mut standing = Standing::started(id(member), all(budget.members), 0, timing);
            standing.entered(0);
            Some(Member::with(standing, 1, &store))
        });
        let of =
            |member: usize| owner.iter().map(|owner| (*owner == member).then_some(0)).collect();
        Self {
            clock: 1,
            lag: [0; MEMBERS],
            members: members.collect(),
            disks: (0..budget.members).map(of).collect(),
            staged: vec![vec![None; pages]; budget.members],
            network: BTreeSet::new(),
            forwarded: Vec::new(),
            acknowledged: vec![0; pages],
            is_answered: false,
            has_served_since: [false; MEMBERS],
            has_moved_and_served: false,
            has_been_vouched_for: false,
            wrong: None,
            left: budget,
            store,
        }
    }

    fn now(&self, member: usize) -> Moment {
        Moment(self.clock - self.lag[member])
    }

    fn up(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.members
            .iter()
            .enumerate()
            .filter_map(|(number, member)| Some((number, member.as_ref()?)))
    }

    fn of(&mut self, member: usize) -> &mut Member {
        self.members[member].as_mut().expect("only members that run take steps")
    }

    fn may_act(&self, at: usize, flaw: Flaw) -> bool {
        let member = self.members[at].as_ref().expect("it runs");
        member.standing.may_act(self.now(at))
            || flaw == Flaw::ServeAfterLease && member.standing.proven_until().is_some()
    }

    fn lets_in(&self, at: usize, page: usize, is_of_fenced: bool, flaw: Flaw) -> bool {
        let member = self.members[at].as_ref().expect("it runs");
        let is_on_its_way = member.moving.as_ref().is_some_and(|(moved, way)| {
            let is_lax = flaw == Flaw::ServeWhileCommitting && way.stage() == Stage::Committing;
            *moved == page && !way.lets_in() && !is_lax
        });
        self.may_act(at, flaw)
            && member.owner[page] == at
            && !is_on_its_way
            && !(is_of_fenced && member.is_fenced)
    }

    /// All that may happen next.
    pub(super) fn steps(&self, flaw: Flaw, steps: &mut Vec<Step>) {
        let left = &self.left;
        if left.ticks > 0 {
            steps.push(Step::Tick { behind: None });
            if left.lags > 0 {
                steps.extend(
                    (0..self.left.members).map(|member| Step::Tick { behind: Some(member) }),
                );
            }
        }
        for (sent, _) in self.network.iter().enumerate() {
            steps.push(Step::StoreDoes(sent));
        }
        for (at, member) in self.up() {
            self.steps_of_standing(at, member, flaw, steps);
            self.steps_of_changes(at, member, flaw, steps);
            self.steps_of_requests(at, member, flaw, steps);
            if left.crashes > 0 {
                steps.push(Step::Crash(at));
            }
        }
        for at in (0..left.members).filter(|at| self.members[*at].is_none()) {
            steps.push(Step::Start(at));
        }
    }

    fn steps_of_standing(&self, at: usize, member: &Member, flaw: Flaw, steps: &mut Vec<Step>) {
        if member.answer.is_some() {
            steps.push(Step::StoreSaid(at));
        } else if self.left.reads_of_store > 0 {
            steps.push(Step::AskStore(at));
        }
        if member.standing.heard() < self.store.revision() {
            steps.push(Step::Hear(at));
        }
        let is_drained =
            member.requests.iter().all(|request| request.heard == member.standing.heard());
        if member.standing.applied() < member.standing.heard()
            && (is_drained || flaw == Flaw::ApplyEarly)
        {
            steps.push(Step::Apply(at));
        }
        if self.left.rounds > 0 && member.round.is_none() {
            steps.push(Step::AskOthers(at));
        }
        if let Some((_, _, missing)) = &member.round {
            let reached = missing.iter().filter(|giver| self.members[**giver].is_some());
            steps.extend(reached.map(|giver| Step::Vouch { asker: at, giver: *giver }));
        }
        if member.standing.must_enter() && member.entering.is_none() && self.left.entries > 0 {
            steps.push(Step::Enter(at));
        }
        if member.entering.is_some_and(|revision| member.standing.heard() >= revision) {
            steps.push(Step::Entered(at));
        }
    }

    fn steps_of_changes(&self, at: usize, member: &Member, flaw: Flaw, steps: &mut Vec<Step>) {
        if member.outcome.is_some() {
            steps.push(Step::Outcome(at));
        }
        if member.is_changing() && self.left.lost_answers > 0 {
            steps.push(Step::LoseOutcome(at));
        }
        if self.left.fences > 0 && !member.is_changing() {
            steps.push(Step::Fence(at));
        }
        if let Some(barrier) = &member.barrier {
            for by in barrier.waits_for().iter().map(|by| usize::from(by.0)) {
                if self.members[by].as_ref().is_some_and(|other| other.standing.applied() > 0) {
                    steps.push(Step::Applied { at, by });
                }
            }
            if barrier.is_over(self.now(at)) || flaw == Flaw::AnswerEarly {
                steps.push(Step::Answer(at));
            }
        }
        match &member.moving {
            // The others are alike.
            None if self.left.moves > 0 && at == 0 && member.owner[0] == at => {
                steps.push(Step::BeginMove { from: at, to: 1 });
            }
            None => {}
            Some((page, way)) => match way.stage() {
                Stage::Copying => steps.push(Step::Copied(at)),
                Stage::Draining => {
                    let is_drained = member.requests.iter().all(|request| request.page != *page);
                    if is_drained || flaw == Flaw::MoveUndrained {
                        steps.push(Step::Drained(at));
                    }
                }
                Stage::Finishing => {
                    let target = self.members[usize::from(way.target().0)].as_ref();
                    if target.is_some_and(|target| target.incarnation > 0) {
                        steps.push(Step::Durable(at));
                    }
                }
                Stage::Ready { .. } if !member.is_changing() => steps.push(Step::SendMove(at)),
                _ => {}
            },
        }
    }

    fn steps_of_requests(&self, at: usize, member: &Member, flaw: Flaw, steps: &mut Vec<Step>) {
        for page in 0..usize::from(self.left.pages) {
            if self.left.fenced_writes > 0 && self.lets_in(at, page, true, flaw) {
                steps.push(Step::LetIn { at, page, is_of_fenced: true });
            }
            if self.left.writes > 0 && self.lets_in(at, page, false, flaw) {
                steps.push(Step::LetIn { at, page, is_of_fenced: false });
            }
            if self.left.forwards > 0 && self.may_act(at, flaw) && !member.is_fenced {
                steps.push(Step::Forward { by: at, page });
            }
        }
        for (which, (page, knew)) in self.forwarded.iter().enumerate() {
            let is_current = *knew == member.is_fenced || flaw == Flaw::ForwardUnfenced;
            if is_current && self.lets_in(at, *page, false, flaw) {
                steps.push(Step::Arrive { at, which });
            }
        }
        steps.extend((0..member.requests.len()).map(|which| Step::Execute { at, which }));
    }

    /// What is after a step; none if it is refused.
    pub(super) fn after(&self, step: Step, flaw: Flaw) -> Option<Self> {
        let mut next = self.clone();
        match step {
            Step::Tick { behind } => {
                next.left.ticks -= 1;
                next.clock += 1;
                if let Some(member) = behind {
                    next.left.lags -= 1;
                    next.lag[member] += 1;
                }
            }
            Step::StoreDoes(which) => next.store_does(which, flaw),
            Step::Crash(at) => {
                next.left.crashes -= 1;
                next.members[at] = None;
            }
            Step::Start(at) => next.start(at, flaw),
            Step::LetIn { .. }
            | Step::Forward { .. }
            | Step::Arrive { .. }
            | Step::Execute { .. } => {
                next.request(step, flaw);
            }
            Step::BeginMove { .. }
            | Step::Copied(_)
            | Step::Drained(_)
            | Step::Durable(_)
            | Step::SendMove(_) => next.move_on(step)?,
            _ => next.stand(step, flaw)?,
        }
        Some(next)
    }

    fn stand(&mut self, step: Step, flaw: Flaw) -> Option<()> {
        match step {
            Step::AskStore(at) => {
                self.left.reads_of_store -= 1;
                let (asked, newest) = (self.now(at), self.store.revision());
                if self.left.is_slow {
                    self.of(at).answer = Some((asked, newest));
                } else {
                    self.of(at).standing.store_said(asked, newest);
                }
            }
            Step::StoreSaid(at) => {
                let now = self.now(at);
                let (asked, newest) = self.of(at).answer.take()?;
                let asked = if flaw == Flaw::ProofFromAnswer { now } else { asked };
                self.of(at).standing.store_said(asked, newest);
            }
            Step::Hear(at) => self.hear(at),
            Step::Apply(at) => {
                let heard = self.of(at).standing.heard();
                self.of(at).standing.apply(heard);
            }
            Step::AskOthers(at) => {
                self.left.rounds -= 1;
                let now = self.now(at);
                let about = self.of(at).standing.ask_others(now).ok()?;
                let missing = (0..self.left.members).filter(|giver| *giver != at).collect();
                self.of(at).round = Some((now, about, missing));
            }
            Step::Vouch { asker, giver } => self.vouch(asker, giver, flaw)?,
            Step::Fence(at) => {
                self.left.fences -= 1;
                self.begin_change(at)?;
                self.of(at).is_fencing = true;
                let incarnation = self.of(at).incarnation;
                self.network.insert(Sent { from: at, incarnation, page: None });
            }
            Step::Outcome(at) => self.outcome(at, flaw),
            Step::LoseOutcome(at) => self.lose_outcome(at, flaw),
            Step::Applied { at, by } => {
                let applied = self.of(by).standing.applied();
                let barrier = self.of(at).barrier.as_mut()?;
                let before = barrier.waits_for().len();
                barrier.applied_by(id(by), applied);
                if barrier.waits_for().len() == before {
                    return None;
                }
            }
            Step::Answer(at) => {
                self.of(at).barrier = None;
                self.is_answered = true;
            }
            Step::Enter(at) => {
                self.left.entries -= 1;
                self.store.incarnation[at] += 1;
                self.store.changes.push(Change::Entry(at));
                self.of(at).entering = Some(self.store.revision());
            }
            Step::Entered(at) => {
                let incarnation = self.store.incarnation[at];
                let member = self.of(at);
                let revision = member.entering.take()?;
                member.standing.entered(revision);
                member.incarnation = incarnation;
                member.settle(at);
                self.staged[at].fill(None);
            }
            _ => unreachable!("steps of another kind"),
        }
        Some(())
    }

    fn hear(&mut self, at: usize) {
        let revision = self.of(at).standing.heard() + 1;
        let change = self.store.changes[revision as usize - 1];
        let members = all(self.left.members);
        let member = self.of(at);
        member.standing.hear(revision, members);
        match change {
            Change::Entry(_) => {}
            Change::Fence => member.is_fenced = true,
            Change::Move { page, to } => {
                member.owner[page] = to;
                if to == at {
                    self.take_over(at, page);
                }
            }
        }
    }

    fn take_over(&mut self, at: usize, page: usize) {
        let staged = self.staged[at][page].take();
        if staged.is_none() {
            self.wrong = Some("a member owns a page that it does not have");
        }
        self.disks[at][page] = staged;
    }

    fn vouch(&mut self, asker: usize, giver: usize, flaw: Flaw) -> Option<()> {
        let (asked, about, _) = self.of(asker).round.clone()?;
        let standing = &self.of(giver).standing;
        let is_lax = match standing.vouch(about) {
            Ok(()) => true,
            Err(Refusal::Outside) => flaw == Flaw::VouchOutside,
            Err(Refusal::Changing) => false,
            Err(Refusal::Newer { .. }) => flaw == Flaw::VouchUnheard && standing.heard() <= about,
        };
        if !is_lax {
            return None;
        }
        let member = self.of(asker);
        if let Some((_, _, missing)) = &mut member.round {
            missing.remove(&giver);
        }
        let before = member.standing.proven_until();
        member.standing.vouched_by(id(giver), asked);
        if member.standing.proven_until() > before {
            member.round = None;
            self.has_been_vouched_for = true;
        }
        Some(())
    }

    fn begin_change(&mut self, at: usize) -> Option<()> {
        self.of(at).standing.begin_change(false).ok()
    }

    fn store_does(&mut self, which: usize, flaw: Flaw) {
        let sent = *self.network.iter().nth(which).expect("it is on its way");
        self.network.remove(&sent);
        let is_same = |member: usize, incarnation| self.store.incarnation[member] == incarnation;
        let is_known = is_same(sent.from, sent.incarnation) || flaw == Flaw::SkipIncarnation;
        let is_done = is_known
            && sent.page.is_none_or(|(page, to, incarnation)| {
                let has_it = is_same(to, incarnation) || flaw == Flaw::SkipTarget;
                has_it && self.store.owner[page] == sent.from
            });
        if is_done {
            let change = match sent.page {
                None => Change::Fence,
                Some((page, to, _)) => {
                    self.store.owner[page] = to;
                    Change::Move { page, to }
                }
            };
            self.store.changes.push(change);
        }
        let revision = self.store.revision();
        if let Some(member) = &mut self.members[sent.from]
            && member.incarnation == sent.incarnation
            && member.is_changing()
        {
            member.outcome = Some(is_done.then_some(revision));
        }
    }

    fn outcome(&mut self, at: usize, flaw: Flaw) {
        let (now, members) = (self.now(at), all(self.left.members));
        let member = self.of(at);
        let outcome = member.outcome.take().expect("there is one");
        member.standing.change_ended(outcome);
        if std::mem::take(&mut member.is_fencing) {
            if let Some(revision) = outcome {
                member.barrier = Some(Barrier::new(revision, members, now, timing(flaw)));
            }
            return;
        }
        let (_, way) = member.moving.as_mut().expect("nothing else changes");
        let target = way.target();
        way.settled(if outcome.is_some() { target } else { id(at) });
    }

    fn lose_outcome(&mut self, at: usize, flaw: Flaw) {
        self.left.lost_answers -= 1;
        let member = self.of(at);
        member.outcome = None;
        member.is_fencing = false;
        if flaw == Flaw::LostIsRefused {
            member.standing.change_ended(None);
            if let Some((_, way)) = &mut member.moving
                && way.stage() == Stage::Committing
            {
                way.settled(id(at));
            }
        } else {
            member.standing.change_lost();
        }
    }

    /// With what the store and its disks say. What is staged stays until it is entered: until then a map that names
    /// this member may be committed, as it has said that it holds the page.
    fn start(&mut self, at: usize, flaw: Flaw) {
        for page in 0..self.store.owner.len() {
            if self.store.owner[page] == at && self.disks[at][page].is_none() {
                self.take_over(at, page);
            }
        }
        let standing =
            Standing::started(id(at), all(self.left.members), self.store.revision(), timing(flaw));
        self.members[at] = Some(Member::with(standing, 0, &self.store));
    }

    fn request(&mut self, step: Step, flaw: Flaw) {
        match step {
            Step::LetIn { at, page, is_of_fenced } => {
                let left = &mut self.left;
                *(if is_of_fenced { &mut left.fenced_writes } else { &mut left.writes }) -= 1;
                self.let_in(at, page, is_of_fenced);
            }
            Step::Forward { by, page } => {
                self.left.forwards -= 1;
                let knew = self.of(by).is_fenced;
                self.forwarded.push((page, knew));
            }
            Step::Arrive { at, which } => {
                let (page, _) = self.forwarded.remove(which);
                self.let_in(at, page, true);
            }
            Step::Execute { at, which } => self.execute(at, which, flaw),
            _ => unreachable!("steps of another kind"),
        }
    }

    fn let_in(&mut self, at: usize, page: usize, is_of_fenced: bool) {
        self.has_served_since[at] |= self.is_answered && !is_of_fenced;
        self.has_moved_and_served |= page == 0 && at != 0;
        let heard = self.of(at).standing.heard();
        self.of(at).requests.push(Request { page, is_of_fenced, heard });
    }

    fn execute(&mut self, at: usize, which: usize, flaw: Flaw) {
        let is_proved = self.may_act(at, flaw);
        let request = self.of(at).requests.remove(which);
        // A member that is gone for everyone may still finish what it had begun: nobody has read the page
        // since, so that it is as if it had been done before.
        if request.is_of_fenced && self.is_answered && (self.has_served_since[at] || is_proved) {
            self.wrong = Some("a host wrote after it was shut out");
        }
        let Some(count) = &mut self.disks[at][request.page] else { return };
        let before = *count;
        *count += 1;
        let after = *count;
        if is_proved {
            if before < self.acknowledged[request.page] {
                self.wrong = Some("an acknowledged write is not where the page is served");
            }
            self.acknowledged[request.page] = after;
        }
    }

    fn move_on(&mut self, step: Step) -> Option<()> {
        match step {
            Step::BeginMove { from, to } => {
                self.left.moves -= 1;
                self.of(from).moving = Some((0, PageMove::to(id(to))));
            }
            Step::Copied(at) => self.of(at).moving.as_mut()?.1.copied(),
            Step::Drained(at) => self.of(at).moving.as_mut()?.1.drained(),
            Step::Durable(at) => {
                let (page, way) = self.of(at).moving.clone()?;
                let to = usize::from(way.target().0);
                self.staged[to][page] = self.disks[at][page];
                let incarnation = self.of(to).incarnation;
                self.of(at).moving.as_mut()?.1.durable(incarnation);
            }
            Step::SendMove(at) => {
                self.begin_change(at)?;
                let member = self.of(at);
                let incarnation = member.incarnation;
                let (page, way) = member.moving.as_mut()?;
                let (page, to) = (*page, usize::from(way.target().0));
                let sent = Sent { from: at, incarnation, page: Some((page, to, way.sent())) };
                self.network.insert(sent);
            }
            _ => unreachable!("steps of another kind"),
        }
        Some(())
    }
}

impl Member {
    fn with(standing: Standing, incarnation: u64, store: &Store) -> Self {
        Self {
            standing,
            incarnation,
            entering: None,
            is_fenced: store.is_fenced(),
            owner: store.owner.clone(),
            answer: None,
            round: None,
            outcome: None,
            is_fencing: false,
            barrier: None,
            moving: None,
            requests: Vec::new(),
        }
    }

    fn is_changing(&self) -> bool {
        let is_committing =
            self.moving.as_ref().is_some_and(|(_, way)| way.stage() == Stage::Committing);
        (self.is_fencing || is_committing) && !self.standing.must_enter()
    }

    /// After it was entered: what became of a page whose change was lost is known now.
    fn settle(&mut self, me: usize) {
        if let Some((page, way)) = &mut self.moving
            && way.stage() == Stage::Committing
        {
            let owner = self.owner[*page];
            way.settled(if owner == me { id(me) } else { way.target() });
        }
    }
}

fn timing(flaw: Flaw) -> Timing {
    Timing::of_model(LEASE, if flaw == Flaw::NoDrift { LEASE } else { WAIT })
}
