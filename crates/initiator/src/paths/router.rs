//! The life of every command of a disk: which path it takes, and what follows when that fails.
//!
//! The caller submits commands, carries out [`Action`]s, and tells how each try went. The rules:
//!
//! 1. **Order.** A change waits for earlier changes of the same blocks ([`super::overlap`]).
//! 2. **Doubt.** A change that was sent on a nexus which was then lost is not sent again, and counts
//!    as not over, until that loss is fenced: the lost nexus can do nothing any more. Together with
//!    rule 1 a repeated write is never applied after a later one, and neither is its first copy. A
//!    read is repeated at once, on another path: two copies of it do no harm.
//! 3. **Fencing.** The session of the lost path fences by logging in again. If it has not within
//!    [`RouterOptions::reinstate_wait`], another path is asked to reset the unit ([`Action::Fence`]).
//! 4. **Limit.** A command that is in trouble for [`RouterOptions::limit`] fails. If it is a change
//!    in doubt, its blocks stay closed to other changes until the doubt ends: the caller has its
//!    answer, but what it writes next must not be overwritten by a ghost.
//! 5. **Hedging.** A read that has no answer for long is sent on a second path as well ([`hedges`]).

mod hedges;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use scsi::alua::AccessState;
use slab::Slab;

use super::doubts::Doubts;
use super::overlap::Overlaps;
use super::select::{PathId, PathState, PathStatus, Paths};
use super::words::{Action, Failure, OpId, Shape, Verdict};
use super::{PageMap, Policy};

/// A command that is to be repeated more often than this is so after a pause.
const REPEATS_AT_ONCE: u32 = 64;
const REPEAT_PAUSE: Duration = Duration::from_millis(50);

/// How a disk deals with trouble.
#[derive(Debug, Clone, Copy)]
pub struct RouterOptions {
    /// How paths are chosen.
    pub policy: Policy,
    /// How long a command may be in trouble before it fails.
    pub limit: Duration,
    /// How long a path must work before it counts as active again.
    pub probation: Duration,
    /// How long a lost session has to fence its loss itself.
    pub reinstate_wait: Duration,
    /// How often the target may ask for a command again.
    pub retries_max: u32,
    /// How long a read has no answer, at least, before it is sent on a second path as well; `None` if it
    /// never is.
    pub hedge_after: Option<Duration>,
}

impl Default for RouterOptions {
    fn default() -> Self {
        Self {
            policy: Policy::LeastQueueDepth,
            limit: Duration::from_secs(60),
            probation: Duration::from_secs(5),
            reinstate_wait: Duration::from_secs(5),
            retries_max: 16,
            // Longer than a disk takes that is well, shorter than the silence of a path (a second).
            hedge_after: Some(Duration::from_millis(500)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// An earlier change of the same blocks is not over.
    Blocked,
    /// There is no path.
    Waiting,
    Sent {
        path: PathId,
        started: Duration,
    },
    InDoubt {
        path: PathId,
        loss: u64,
    },
    Delayed {
        until: Duration,
    },
    /// It has failed, but its blocks are closed until the doubt ends.
    Ghost {
        path: PathId,
        loss: u64,
    },
}

#[derive(Debug)]
struct Op {
    serial: u64,
    shape: Shape,
    phase: Phase,
    trouble_since: Option<Duration>,
    is_tried: bool,
    retries: u32,
    /// Times that it was to be repeated without counting.
    repeats: u32,
    /// Where the unit was not ready.
    not_ready: Option<PathId>,
    /// Where a read is under way beside the path of its phase, and since when.
    hedge: Option<(PathId, Duration)>,
}

/// See the module's page. Invariant: an op is in `overlaps` from its submission until it is over,
/// ghosts included, exactly if it changes something.
#[derive(Debug)]
pub struct Router {
    options: RouterOptions,
    paths: Paths,
    fenced: Vec<u64>,
    /// Paths that have been released.
    free: Vec<PathId>,
    doubts: Doubts,
    ops: Slab<Op>,
    overlaps: Overlaps<OpId>,
    actions: VecDeque<Action>,
    serial: u64,
    /// Ops in any phase but `Sent`: while there are none, no time needs to be watched.
    unsent: usize,
    /// When the reads under way are looked at, while there may be some.
    hedge_look: Option<Duration>,
    /// Ops with a hedge.
    hedged: usize,
}

impl Router {
    /// Without paths.
    #[must_use]
    pub fn new(options: RouterOptions) -> Self {
        Self {
            options,
            paths: Paths::new(options.policy, options.probation),
            fenced: Vec::new(),
            free: Vec::new(),
            doubts: Doubts::new(options.reinstate_wait),
            ops: Slab::new(),
            overlaps: Overlaps::new(),
            actions: VecDeque::new(),
            serial: 0,
            unsent: 0,
            hedge_look: None,
            hedged: 0,
        }
    }

    /// Adds a path that works. Its slot may be that of a path that was released.
    pub fn add_path(&mut self, access: AccessState) -> PathId {
        let reuse = self.free.pop();
        match reuse {
            Some(path) => self.fenced[path.slot()] = 0,
            None => self.fenced.push(0),
        }
        self.paths.add(access, reuse)
    }

    /// No more commands take the path. It can be released once it [`is_quiet`](Self::is_quiet);
    /// until then its losses are to be told as before.
    pub fn retire(&mut self, path: PathId) {
        if self.is_current(path) {
            self.paths.status(path).state = PathState::Retired;
        }
    }

    /// Whether it is not the id of a path that has gone: its slot may be another one's by now.
    #[must_use]
    pub fn is_current(&self, path: PathId) -> bool {
        self.paths.is_current(path)
    }

    /// Whether nothing is under way on the path, or in doubt because of it.
    #[must_use]
    pub fn is_quiet(&self, path: PathId) -> bool {
        let is_on_it = |phase| match phase {
            Phase::Sent { path: on, .. } => on == path,
            Phase::InDoubt { path: on, .. } | Phase::Ghost { path: on, .. } => on == path,
            Phase::Blocked | Phase::Waiting | Phase::Delayed { .. } => false,
        };
        let is_beside = |op: &Op| op.hedge.is_some_and(|(on, _)| on == path);
        !self.ops.iter().any(|(_, op)| is_on_it(op.phase) || is_beside(op))
    }

    /// The session of a path that was retired and is quiet has ended: its number is free.
    pub fn release(&mut self, path: PathId) {
        debug_assert!(self.is_quiet(path), "what is under way would be told of another path");
        debug_assert!(self.paths.is_current(path), "a path is released once");
        debug_assert!(!self.free.contains(&path), "a path is released once");
        self.doubts.fenced(path, u64::MAX);
        self.free.push(path);
    }

    /// Whether the page map matters.
    #[must_use]
    pub fn is_routed(&self) -> bool {
        self.options.policy == Policy::Routed
    }

    /// Where each page is served best, for [`Policy::Routed`]. With the other policies, and before the
    /// map is known, one of the disk's size in which [`Self::learn`] can note something.
    pub fn set_map(&mut self, map: PageMap) {
        self.paths.set_map(map);
    }

    /// What a refused command was told of its blocks. With [`Policy::Routed`] it holds until the next
    /// map; with other policies it says where to try commands that were sent
    /// [`Elsewhere`](Verdict::Elsewhere).
    pub fn learn(&mut self, pages: impl IntoIterator<Item = (Range<u64>, Vec<u16>)>) {
        self.paths.learn(pages);
    }

    /// The target port group that a path leads to.
    pub fn set_group(&mut self, path: PathId, group: Option<u16>) {
        self.paths.set_group(path, group);
    }

    /// Where `bytes` should be cut, for the rest has other owners.
    #[must_use]
    pub fn run_end(&self, bytes: Range<u64>) -> u64 {
        self.paths.run_end(bytes)
    }

    /// All paths, in the order of their numbers.
    pub fn paths(&self) -> impl Iterator<Item = PathStatus> {
        self.paths.all.iter().map(|path| path.status)
    }

    /// The ids of all paths, in the same order.
    pub fn path_ids(&self) -> impl Iterator<Item = PathId> {
        self.paths.all.iter().map(|path| path.id)
    }

    /// What there is to know about a path.
    #[must_use]
    pub fn status(&self, path: PathId) -> PathStatus {
        self.paths.all[path.slot()].status
    }

    /// Takes a command.
    pub fn submit(&mut self, shape: Shape, now: Duration) -> OpId {
        self.serial += 1;
        let changes = shape.changes.clone();
        let slot = self.ops.insert(Op {
            serial: self.serial,
            shape,
            phase: Phase::Waiting,
            trouble_since: None,
            is_tried: false,
            retries: 0,
            repeats: 0,
            not_ready: None,
            hedge: None,
        });
        self.unsent += 1;
        let op = OpId { slot, serial: self.serial };
        if changes.is_none_or(|bytes| self.overlaps.enter(op, bytes)) {
            self.dispatch(op, now);
        } else {
            self.set_phase(op, Phase::Blocked);
            self.ops[slot].trouble_since = Some(now);
        }
        op
    }

    /// The next thing to do; call until `None` after every other call.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// A try of a command is over.
    pub fn tried(&mut self, op: OpId, verdict: Verdict, now: Duration) {
        let Some(Phase::Sent { path, started }) = self.phase(op) else {
            debug_assert!(false, "only what was sent comes back");
            return;
        };
        if verdict == Verdict::Done {
            self.paths.over(path, started, now, Some(self.ops[op.slot].shape.len_bytes));
            return self.over(op, now);
        }
        self.paths.over(path, started, now, None);
        // It has been in trouble since it was sent: a target that does not answer takes its time.
        let since = *self.ops[op.slot].trouble_since.get_or_insert(started);
        self.ops[op.slot].is_tried = true;
        self.heard(path, verdict, now);
        if let Some((path, started)) = self.take_hedge(op) {
            // Its other copy is under way.
            return self.set_phase(op, Phase::Sent { path, started });
        }
        self.set_phase(op, Phase::Waiting);
        match verdict {
            Verdict::InDoubt { loss } if self.may_come_yet(op, path, loss) => {
                self.set_phase(op, Phase::InDoubt { path, loss });
                self.doubts.note(path, loss, now);
            }
            _ if now >= since + self.options.limit => self.fail(op, Failure::Unreachable, now),
            Verdict::Again => self.again(op, None, now),
            Verdict::Elsewhere => self.again(op, Some(path), now),
            Verdict::Aborted => self.again(op, None, now),
            Verdict::Repeat => self.repeat(op, now),
            Verdict::NotReady { pause } => self.not_ready(op, path, pause, now),
            Verdict::Later { pause } => self.set_phase(op, Phase::Delayed { until: now + pause }),
            _ => self.dispatch(op, now),
        }
        self.count_retry(op, path, verdict);
    }

    /// One that did not fail is sent again, or will be; what was never sent is not repeated.
    fn count_retry(&mut self, op: OpId, path: PathId, verdict: Verdict) {
        let is_going_on = !matches!(self.phase(op), None | Some(Phase::Ghost { .. }));
        if is_going_on && verdict != Verdict::NotSent {
            self.paths.status(path).retries += 1;
        }
    }

    /// What a verdict says of the path.
    fn heard(&mut self, path: PathId, verdict: Verdict, now: Duration) {
        match verdict {
            // Nothing was sent on a path that was not to be used: nothing has failed.
            Verdict::NotSent if self.paths.status(path).state == PathState::Suspended => {}
            Verdict::NotSent | Verdict::InDoubt { .. } => self.paths.lost(path),
            // It may be the disk; then all paths become suspect, and are used all the same.
            Verdict::Aborted => self.paths.suspect(path, now),
            Verdict::Inaccessible { access } => self.paths.status(path).access = access,
            _ => {}
        }
    }

    /// A path does not work, as its session says.
    pub fn lost(&mut self, path: PathId) {
        if self.paths.is_current(path) {
            self.paths.lost(path);
        }
    }

    /// A lost path works again, or one that was suspended has been looked at.
    pub fn returned(&mut self, path: PathId, now: Duration) {
        self.paths.returned(path, now);
        self.dispatch_waiting(now);
    }

    /// What is behind the path may have become another disk: nothing is sent on it before somebody
    /// has looked.
    pub fn suspend(&mut self, path: PathId) {
        if self.paths.is_current(path) {
            self.paths.suspend(path);
        }
    }

    /// Nothing is heard of the path although an answer is due; or it is again. A silent path is used
    /// where no other is left. Whether there is another.
    pub fn set_silent(&mut self, path: PathId, is_silent: bool) -> bool {
        self.paths.set_silent(path, is_silent);
        self.paths.has_better_than_silent()
    }

    /// How long a try of the command may take.
    #[must_use]
    pub fn time_left(&self, op: OpId, now: Duration) -> Duration {
        let limit = self.options.limit;
        let Some(op) = self.ops.get(op.slot) else { return limit };
        let left = (op.trouble_since.unwrap_or(now) + limit).saturating_sub(now);
        // One that has waited for others has a fair chance.
        if op.is_tried { left } else { left.max(limit / 4) }
    }

    /// What is in doubt: the last loss of each path.
    #[must_use]
    pub fn doubts(&self) -> Vec<(PathId, u64)> {
        self.doubts.known()
    }

    /// The session of the path cannot fence its losses by itself: another path is asked now.
    pub fn needs_reset(&mut self, path: PathId, now: Duration) {
        self.doubts.hurry(path, now);
        self.ask_for_fences(now);
    }

    /// Whether something is in doubt because of the path.
    #[must_use]
    pub fn is_in_doubt(&self, path: PathId) -> bool {
        self.doubts.known().iter().any(|&(of, _)| of == path)
    }

    /// A reset that was asked for is over, whatever came of it.
    pub fn fence_ended(&mut self, now: Duration) {
        self.doubts.over(now);
    }

    /// The ALUA state of a path.
    pub fn set_access(&mut self, path: PathId, access: AccessState, now: Duration) {
        self.paths.status(path).access = access;
        self.dispatch_waiting(now);
    }

    /// Nothing can come any more of the losses of this path up to `loss`.
    pub fn fenced(&mut self, path: PathId, loss: u64, now: Duration) {
        if !self.paths.is_current(path) {
            return;
        }
        let fenced = &mut self.fenced[path.slot()];
        *fenced = loss.max(*fenced);
        self.doubts.fenced(path, loss);
        let is_fenced = |of: PathId, its: u64| of == path && its <= loss;
        let certain = self.in_order(|phase| match phase {
            Phase::InDoubt { path, loss } | Phase::Ghost { path, loss } => is_fenced(path, loss),
            _ => false,
        });
        for op in certain {
            match self.phase(op) {
                Some(Phase::Ghost { .. }) => self.over(op, now),
                _ => self.dispatch(op, now),
            }
        }
    }

    /// When [`Self::tick`] is to be called at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let probation = self.paths.next_deadline();
        let doubt = self.doubts.next_deadline();
        let op = if self.unsent == 0 {
            None
        } else {
            self.ops.iter().filter_map(|(_, op)| self.deadline_of(op)).min()
        };
        [probation, doubt, op, self.hedge_look].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) {
        self.paths.tick(now);
        if self.unsent > 0 {
            let due = |phase| matches!(phase, Phase::Delayed { until } if now >= until);
            for op in self.in_order(due) {
                self.dispatch(op, now);
            }
            self.dispatch_waiting(now);
            self.expire(now);
        }
        self.hedge_slow_reads(now);
        self.ask_for_fences(now);
    }

    fn deadline_of(&self, op: &Op) -> Option<Duration> {
        let limit = op.trouble_since.map(|since| since + self.options.limit);
        match op.phase {
            Phase::Sent { .. } | Phase::Ghost { .. } => None,
            Phase::Delayed { until } => Some(limit.map_or(until, |limit| limit.min(until))),
            Phase::Blocked | Phase::Waiting | Phase::InDoubt { .. } => limit,
        }
    }

    fn phase(&self, op: OpId) -> Option<Phase> {
        self.ops.get(op.slot).filter(|it| it.serial == op.serial).map(|it| it.phase)
    }

    fn set_phase(&mut self, op: OpId, phase: Phase) {
        let old = std::mem::replace(&mut self.ops[op.slot].phase, phase);
        let is_sent = |phase| matches!(phase, Phase::Sent { .. });
        self.unsent += usize::from(is_sent(old));
        self.unsent -= usize::from(is_sent(phase));
    }

    /// The ops in such a phase, oldest first.
    fn in_order(&self, wanted: impl Fn(Phase) -> bool) -> Vec<OpId> {
        let found = self.ops.iter().filter(|(_, op)| wanted(op.phase));
        let mut found: Vec<OpId> =
            found.map(|(slot, op)| OpId { slot, serial: op.serial }).collect();
        found.sort_unstable_by_key(|op| op.serial);
        found
    }

    fn dispatch(&mut self, op: OpId, now: Duration) {
        let at = self.ops[op.slot].shape.at;
        let path = self.paths.choose(now, at, None);
        self.take(op, path, now);
    }

    fn take(&mut self, op: OpId, path: Option<PathId>, now: Duration) {
        match path {
            Some(path) => {
                self.set_phase(op, Phase::Sent { path, started: now });
                self.watch_read(op, now);
                self.actions.push_back(Action::Send { op, path });
            }
            None => {
                self.set_phase(op, Phase::Waiting);
                self.ops[op.slot].trouble_since.get_or_insert(now);
            }
        }
    }

    fn dispatch_waiting(&mut self, now: Duration) {
        for op in self.in_order(|phase| phase == Phase::Waiting) {
            self.dispatch(op, now);
        }
    }

    fn again(&mut self, op: OpId, except: Option<PathId>, now: Duration) {
        self.ops[op.slot].retries += 1;
        if self.ops[op.slot].retries > self.options.retries_max {
            return self.fail(op, Failure::TooManyRetries, now);
        }
        let at = self.ops[op.slot].shape.at;
        match except.and_then(|_| self.paths.choose(now, at, except)) {
            Some(path) => self.take(op, Some(path), now),
            None => self.dispatch(op, now),
        }
    }

    fn repeat(&mut self, op: OpId, now: Duration) {
        self.ops[op.slot].repeats += 1;
        if self.ops[op.slot].repeats.is_multiple_of(REPEATS_AT_ONCE) {
            return self.set_phase(op, Phase::Delayed { until: now + REPEAT_PAUSE });
        }
        self.dispatch(op, now);
    }

    fn not_ready(&mut self, op: OpId, path: PathId, pause: Duration, now: Duration) {
        let at = self.ops[op.slot].shape.at;
        let is_first = self.ops[op.slot].not_ready.replace(path).is_none();
        match is_first.then(|| self.paths.choose(now, at, Some(path))).flatten() {
            Some(other) => self.take(op, Some(other), now),
            None => {
                self.ops[op.slot].not_ready = None;
                self.set_phase(op, Phase::Delayed { until: now + pause });
            }
        }
    }

    /// Whether a command that was sent before a loss may change something after it.
    fn may_come_yet(&self, op: OpId, path: PathId, loss: u64) -> bool {
        self.ops[op.slot].shape.changes.is_some() && self.fenced[path.slot()] < loss
    }

    fn fail(&mut self, op: OpId, failure: Failure, now: Duration) {
        self.actions.push_back(Action::Fail { op, failure });
        self.over(op, now);
    }

    fn over(&mut self, op: OpId, now: Duration) {
        let phase = self.ops[op.slot].phase;
        self.unsent -= usize::from(!matches!(phase, Phase::Sent { .. }));
        let gone = self.ops.remove(op.slot);
        self.hedged -= usize::from(gone.hedge.is_some());
        if gone.shape.changes.is_none() {
            return;
        }
        let mut starts = Vec::new();
        self.overlaps.leave(op, |key| starts.push(key));
        for next in starts {
            // One that failed while it was blocked is gone.
            if self.phase(next) == Some(Phase::Blocked) {
                self.dispatch(next, now);
            }
        }
    }

    fn expire(&mut self, now: Duration) {
        let limit = self.options.limit;
        let late: Vec<OpId> = self
            .in_order(|phase| !matches!(phase, Phase::Sent { .. } | Phase::Ghost { .. }))
            .into_iter()
            .filter(|op| self.ops[op.slot].trouble_since.is_some_and(|since| now >= since + limit))
            .collect();
        for op in late {
            // One that an earlier one of these let start has been sent.
            let Some(phase) = self.phase(op) else { continue };
            match phase {
                Phase::Sent { .. } | Phase::Ghost { .. } => continue,
                Phase::InDoubt { path, loss } => self.set_phase(op, Phase::Ghost { path, loss }),
                Phase::Blocked | Phase::Waiting | Phase::Delayed { .. } => self.over(op, now),
            }
            self.actions.push_back(Action::Fail { op, failure: Failure::Unreachable });
        }
    }

    fn ask_for_fences(&mut self, now: Duration) {
        let Some(lost) = self.doubts.due(now) else { return };
        // Only a path that needs a reset for itself may be back and its loss not fenced.
        let other = self.paths.choose(now, None, Some(lost));
        let via = other.or_else(|| self.paths.choose(now, None, None));
        let Some(via) = via else { return self.doubts.put_off(now) };
        self.doubts.asked();
        // It is no command: it must not count as one.
        self.paths.over(via, now, now, None);
        self.actions.push_back(Action::Fence { via });
    }
}
