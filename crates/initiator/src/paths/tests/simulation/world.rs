//! What happens as long as nothing goes wrong, and who watches.

use std::collections::BTreeMap;
use std::time::Duration;

use scsi::alua::AccessState::ActiveOptimized;

use super::super::super::{Action, OpId, PathId, Policy, Router, RouterOptions, Shape, Verdict};
use super::super::ms;
use super::Mistake;
use super::power::Power;

pub(super) const BLOCKS: u64 = 24;
pub(super) const LIMIT: Duration = Duration::from_secs(20);
/// What ending a command takes at most.
pub(super) const ABORT: Duration = Duration::from_secs(5);
/// The number of a flush, which is no write.
pub(super) const FLUSH: u64 = u64::MAX;
pub(super) const END: Duration = Duration::from_secs(300);

/// A small generator (splitmix64), so that a seed replays for ever.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A copy of a command: in a socket of this host, or at the target.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) op: OpId,
    pub(super) path: PathId,
    /// The number of the write; 0 for a read.
    pub(super) write: u64,
    pub(super) blocks: (u64, u64),
    /// Of the nexus that carries it.
    pub(super) loss: u64,
    /// When it has left this host.
    pub(super) leaves: Duration,
    /// Nobody waits for its answer any more.
    pub(super) is_orphan: bool,
    /// Still in a socket that nobody has, and out of reach for any fence.
    pub(super) is_here: bool,
    /// The second copy of a read.
    pub(super) is_beside: bool,
    /// A copy of a read that has its answer by the other one.
    pub(super) is_straggler: bool,
    /// What it has read.
    pub(super) found: Vec<u64>,
}

/// A path as the world knows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Link {
    pub(super) is_up: bool,
    pub(super) losses: u64,
    /// It is to be replaced.
    pub(super) is_retired: bool,
    /// In another portal group since this loss, which its login has not fenced.
    pub(super) has_moved: bool,
}

/// A command that somebody waits for.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) op: OpId,
    /// The number of the write; 0 for a read.
    pub(super) write: u64,
    pub(super) blocks: (u64, u64),
    pub(super) since: Duration,
    /// The oldest write that a read may find in each of its blocks.
    pub(super) floor: Vec<u64>,
}

#[derive(Debug)]
pub(super) enum Event {
    Submit,
    /// The target runs a copy; later it answers.
    Apply(u64),
    Answer(u64, Verdict),
    /// For so many milliseconds; `None` for some time.
    Lose(PathId, Option<u64>),
    /// The session is back: what the old nexus had is gone.
    Return(PathId),
    /// It is back, elsewhere: what the old nexus had is not gone.
    Move(PathId),
    /// Its session ends once nothing is under way, and another path comes instead.
    Replace(PathId),
    /// This process is killed, and another one starts.
    Crash,
    /// A reset through another path has ended what these losses had.
    Reset(Vec<(PathId, u64)>),
    /// A reset has failed.
    NoReset,
    /// Nothing is heard of a path, or it is again.
    Silent(PathId, bool),
    /// What is behind a path is looked at.
    Suspend(PathId),
    /// The target loses its power, and with it its cache.
    PowerLoss,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) router: Router,
    pub(super) now: Duration,
    pub(super) events: BTreeMap<(Duration, u64), Event>,
    pub(super) serial: u64,
    pub(super) copies: BTreeMap<u64, Sent>,
    pub(super) links: BTreeMap<PathId, Link>,
    pub(super) mistake: Mistake,
    /// Nothing goes wrong but what is scheduled.
    pub(super) is_calm: bool,
    /// What each block holds.
    pub(super) medium: Vec<u64>,
    /// The newest write of each block that was answered with GOOD.
    pub(super) acknowledged: Vec<u64>,
    /// The newest write of each block that a read has found.
    pub(super) seen: Vec<u64>,
    /// By slot, while the caller waits.
    pub(super) waiting: BTreeMap<usize, Waiting>,
    pub(super) failed: Vec<u64>,
    pub(super) writes: u64,
    pub(super) done: u64,
    /// Otherwise a path that stays away keeps its writes in doubt until it returns.
    pub(super) resets_work: bool,
    pub(super) is_fencing: bool,
    /// Reads that were sent on a second path.
    pub(super) hedges: u64,
    pub(super) power: Power,
}

impl World {
    pub(super) fn new(seed: u64, paths: usize, policy: Policy, mistake: Mistake) -> Self {
        let mut router = router(policy);
        let link = Link { is_up: true, ..Link::default() };
        let links = (0..paths).map(|_| (router.add_path(ActiveOptimized), link)).collect();
        Self {
            random: Random(seed),
            router,
            links,
            mistake,
            is_calm: false,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            serial: 0,
            copies: BTreeMap::new(),
            medium: vec![0; BLOCKS as usize],
            acknowledged: vec![0; BLOCKS as usize],
            seen: vec![0; BLOCKS as usize],
            waiting: BTreeMap::new(),
            failed: Vec::new(),
            writes: 0,
            done: 0,
            resets_work: !seed.is_multiple_of(3),
            is_fencing: false,
            hedges: 0,
            power: Power::default(),
        }
    }

    pub(super) fn after(&mut self, delay_ms: u64, event: Event) {
        self.serial += 1;
        self.events.insert((self.now + ms(delay_ms), self.serial), event);
    }

    pub(super) fn run(&mut self, commands: u64) {
        for n in 0..commands {
            let at = self.random.below(20_000);
            self.after(at, Event::Submit);
            let path = PathId(self.random.below(self.links.len() as u64) as usize);
            let at = self.random.below(20_000);
            match n % 16 {
                0 | 8 => self.after(at, Event::Lose(path, None)),
                2 if n % 64 == 2 => self.after(at, Event::Replace(path)),
                6 if n == 102 && self.random.one_in(2) => self.after(at, Event::Crash),
                4 => {
                    self.after(at, Event::Silent(path, true));
                    self.after(at + 2000, Event::Silent(path, false));
                }
                12 => self.after(at, Event::Suspend(path)),
                14 if n % 48 == 14 => self.after(at, Event::PowerLoss),
                _ => {}
            }
        }
        loop {
            self.act();
            let event = self.events.first_key_value().map(|(key, _)| key.0);
            let next = [event, self.router.next_deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next < END) else { break };
            self.now = self.now.max(next);
            if event == Some(next) {
                let (_, event) = self.events.pop_first().expect("there is one");
                self.happen(&event);
            } else {
                self.router.tick(self.now);
            }
        }
        assert!(self.waiting.is_empty(), "nobody waits for ever: {:?}", self.waiting);
    }

    pub(super) fn act(&mut self) {
        while let Some(action) = self.router.poll_action() {
            match action {
                Action::Send { op, path } => self.send(op, path, false),
                Action::Hedge { op, path } => {
                    self.hedges += 1;
                    self.send(op, path, true);
                }
                Action::Fail { op, .. } => {
                    let gone = self.waiting.remove(&op.slot).expect("it waited");
                    let took = self.now - gone.since;
                    // The last try of one that waited for others is no shorter than a quarter.
                    assert!(
                        (LIMIT..LIMIT * 5 / 4 + ABORT).contains(&took),
                        "failed after {took:?}"
                    );
                    self.failed.push(gone.write);
                }
                Action::Fence { via } => {
                    assert!(!self.is_fencing, "one reset at a time");
                    self.is_fencing = true;
                    let doubts = self.router.doubts();
                    // It works only where the other path does.
                    let is_up = self.links.get(&via).is_some_and(|link| link.is_up);
                    let works = self.resets_work && is_up && !self.random.one_in(4);
                    let end = if works { Event::Reset(doubts) } else { Event::NoReset };
                    // One that fails may hang before.
                    let takes = if works { 1200 } else { 200 + self.random.below(6000) };
                    if self.mistake == Mistake::AResetAlwaysWorks {
                        self.is_fencing = false;
                        for (path, loss) in self.router.doubts() {
                            self.router.fenced(path, loss, self.now);
                        }
                        self.router.fence_ended(self.now);
                    } else {
                        self.after(takes, end);
                    }
                }
            }
        }
    }

    pub(super) fn send(&mut self, op: OpId, path: PathId, is_beside: bool) {
        let waiting = self.waiting.get(&op.slot).expect("it waits").clone();
        assert_eq!(waiting.op, op);
        assert!(!is_beside || waiting.write == 0, "a change is under way once");
        let link = *self.links.get(&path).expect("no command takes a path that has gone");
        self.serial += 1;
        let id = self.serial;
        let leaves = self.now + ms(self.random.below(40));
        let sent = Sent {
            op,
            path,
            write: waiting.write,
            blocks: waiting.blocks,
            loss: link.losses + 1,
            leaves,
            is_orphan: false,
            is_here: false,
            is_beside,
            is_straggler: false,
            found: Vec::new(),
        };
        if !link.is_up || !self.is_calm && self.random.one_in(40) {
            self.copies.insert(id, Sent { write: 0, ..sent });
            if link.is_up {
                // The session works all the same; its keeper says so.
                self.after(50, Event::Return(path));
            }
            return self.after(1, Event::Answer(id, Verdict::NotSent));
        }
        self.copies.insert(id, sent);
        let slow = if self.random.one_in(10) { 3000 } else { 20 };
        let delay = (leaves - self.now).as_millis() as u64 + 1 + self.random.below(slow);
        match if self.is_calm { u64::MAX } else { self.random.below(22) } {
            0 => self.after(delay, Event::Answer(id, Verdict::Later { pause: ms(30) })),
            1 => self.after(delay, Event::Answer(id, Verdict::Again)),
            3 => self.after(delay, Event::Answer(id, Verdict::Repeat)),
            4 => self.after(delay, Event::Answer(id, Verdict::NotReady { pause: ms(250) })),
            2 | 5 => {
                // Applied, but its answer is an abort, or that not all of its data came.
                self.after(delay, Event::Apply(id));
                let verdict = if self.random.one_in(2) { Verdict::Aborted } else { Verdict::Again };
                self.after(delay + 1, Event::Answer(id, verdict));
            }
            6 => self.hang(id, op, path),
            _ => {
                let answer = delay + 1 + self.random.below(30);
                self.after(delay, Event::Apply(id));
                self.after(answer, Event::Answer(id, Verdict::Done));
            }
        }
    }

    /// No answer comes. When its time is up it is aborted, or if the target does not confirm that, its
    /// connection ends.
    pub(super) fn hang(&mut self, id: u64, op: OpId, path: PathId) {
        let left = self.router.time_left(op, self.now).saturating_sub(ABORT);
        let patience = (left.as_millis() as u64).clamp(100, 6000);
        if self.mistake == Mistake::AHangIsAnEnd {
            self.after(patience + 3000, Event::Apply(id));
            self.after(patience, Event::Answer(id, Verdict::Repeat));
        } else if self.random.one_in(2) {
            if self.random.one_in(2) {
                self.after(patience - 50, Event::Apply(id));
            }
            self.after(patience, Event::Answer(id, Verdict::Aborted));
        } else {
            self.after(patience, Event::Lose(path, None));
        }
    }

    pub(super) fn happen(&mut self, event: &Event) {
        match *event {
            Event::Submit => self.submit(),
            Event::Apply(id) => self.apply(id),
            Event::Answer(id, verdict) => self.answer(id, verdict),
            Event::Lose(path, away) => self.lose(path, away),
            Event::Return(path) => self.come_back(path),
            Event::Move(path) => self.come_back_elsewhere(path),
            Event::Replace(path) => self.replace(path),
            Event::Crash => self.crash(),
            Event::Reset(ref doubts) => self.reset(doubts),
            Event::NoReset => {
                self.is_fencing = false;
                self.router.fence_ended(self.now);
            }
            Event::Silent(path, is_silent) => self.silent(path, is_silent),
            Event::PowerLoss => self.lose_power(),
            Event::Suspend(path) => {
                if self.links.get(&path).is_some_and(|link| link.is_up) {
                    self.router.suspend(path);
                    self.after(30, Event::Return(path));
                }
            }
        }
    }

    /// Reads that have no answer are not waited for, if there is another path.
    pub(super) fn silent(&mut self, path: PathId, is_silent: bool) {
        if !self.router.set_silent(path, is_silent) || !is_silent {
            return;
        }
        let is_read = |copy: &Sent| {
            copy.path == path && !copy.is_orphan && copy.write == 0 && !copy.is_straggler
        };
        let reads = self.copies.iter().filter(|(_, copy)| is_read(copy));
        let waits =
            |op: OpId| self.waiting.get(&op.slot).is_some_and(|it| it.op == op && it.write == 0);
        let reads = reads.filter(|(_, copy)| waits(copy.op));
        let reads: Vec<(u64, OpId)> = reads.map(|(&id, copy)| (id, copy.op)).collect();
        for (id, op) in reads {
            let copy = self.copies.remove(&id).expect("it is there");
            self.tell(op, &copy, Verdict::Abandoned);
        }
    }

    pub(super) fn submit(&mut self) {
        let first = self.random.below(BLOCKS - 4);
        let blocks = (first, first + 1 + self.random.below(4));
        if !self.is_calm && self.random.one_in(8) {
            return self.submit_flush();
        }
        let is_write = !self.random.one_in(4);
        let changes = is_write.then(|| blocks.0 * 512..blocks.1 * 512);
        self.writes += u64::from(is_write);
        let write = if is_write { self.writes } else { 0 };
        let op = self.router.submit(Shape { changes, len_bytes: 512, at: None }, self.now);
        let oldest = |block: u64| self.acknowledged[block as usize].max(self.seen[block as usize]);
        let floor = (blocks.0..blocks.1).map(oldest).collect();
        self.waiting.insert(op.slot, Waiting { op, write, blocks, since: self.now, floor });
    }

    /// The target writes: here is the promise.
    pub(super) fn apply(&mut self, id: u64) {
        let Some(copy) = self.copies.get_mut(&id) else { return };
        if copy.write == FLUSH {
            return self.power.flush(&self.medium);
        }
        if copy.write == 0 {
            let blocks = copy.blocks.0 as usize..copy.blocks.1 as usize;
            copy.found = self.medium[blocks].to_vec();
            return;
        }
        for block in copy.blocks.0..copy.blocks.1 {
            let block = block as usize;
            assert!(
                self.acknowledged[block] <= copy.write,
                "write {} reaches block {block} after write {} was acknowledged",
                copy.write,
                self.acknowledged[block]
            );
            assert!(self.medium[block] <= copy.write, "and after a later one was applied");
            self.medium[block] = copy.write;
        }
    }

    pub(super) fn answer(&mut self, id: u64, verdict: Verdict) {
        // Lost with its nexus: the verdict was given then.
        if self.copies.get(&id).is_none_or(|copy| copy.is_orphan) {
            return;
        }
        let copy = match self.mistake {
            // The target has it still.
            Mistake::AHangIsAnEnd if verdict == Verdict::Repeat => {
                let copy = self.copies.get_mut(&id).expect("it is there");
                copy.is_orphan = true;
                copy.clone()
            }
            _ => self.copies.remove(&id).expect("it is there"),
        };
        if copy.is_straggler {
            self.router.straggler_over(copy.path, self.now);
            if self.mistake != Mistake::AStragglerAnswers {
                return;
            }
            match self.waiting.get(&copy.op.slot) {
                Some(next) if next.write == 0 && next.op != copy.op && verdict == Verdict::Done => {
                    self.check_read(&next.clone(), &copy.found);
                }
                _ => {}
            }
            return;
        }
        // What a reset has ended has no other answer.
        let verdict = if copy.blocks == (0, 0) { Verdict::Repeat } else { verdict };
        if verdict == Verdict::Done {
            let over = self.waiting.remove(&copy.op.slot).expect("it waited");
            if over.write == FLUSH {
                self.end_flush(copy.op);
            } else if over.write == 0 {
                self.check_read(&over, &copy.found);
            } else {
                for block in over.blocks.0..over.blocks.1 {
                    let newest = &mut self.acknowledged[block as usize];
                    *newest = (*newest).max(over.write);
                }
                self.power.cache.wrote();
            }
            self.done += 1;
        }
        self.tell(copy.op, &copy, verdict);
    }

    fn check_read(&mut self, over: &Waiting, found: &[u64]) {
        for (n, block) in (over.blocks.0..over.blocks.1).enumerate() {
            let (block, found) = (block as usize, found.get(n).copied().unwrap_or(0));
            assert!(
                found >= over.floor[n],
                "a read finds write {found} in block {block}, older than {}",
                over.floor[n]
            );
            self.seen[block] = self.seen[block].max(found);
        }
    }

    /// Tells the router of a copy's end. The other copy of a read goes on, alone.
    pub(super) fn tell(&mut self, op: OpId, copy: &Sent, verdict: Verdict) {
        let is_other = |other: &&mut Sent| {
            other.op == op && other.write == 0 && !other.is_straggler && !other.is_orphan
        };
        for other in self.copies.values_mut().filter(is_other) {
            match verdict {
                Verdict::Done => other.is_straggler = true,
                _ => other.is_beside = false,
            }
        }
        match copy.is_beside {
            true => self.router.tried_beside(op, verdict, self.now),
            false => self.router.tried(op, verdict, self.now),
        }
    }

    /// What was acknowledged, and not lost, is there, unless something later that failed is.
    pub(super) fn check_medium(&self) {
        for (block, &found) in self.medium.iter().enumerate() {
            let acknowledged = self.acknowledged[block];
            assert!(
                found == acknowledged || (found > acknowledged && self.failed.contains(&found)),
                "block {block} holds write {found}, acknowledged is {acknowledged}"
            );
        }
    }
}

pub(super) fn router(policy: Policy) -> Router {
    Router::new(RouterOptions {
        policy,
        limit: LIMIT,
        probation: Duration::from_secs(2),
        reinstate_wait: Duration::from_secs(3),
        retries_max: 100,
        hedge_after: Some(ms(200)),
    })
}
