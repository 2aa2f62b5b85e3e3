//! A world in which paths are lost and return, half-open ones deliver what they were given long
//! after, answers overtake each other, and targets refuse, delay and abort. Time is virtual; one
//! seed is one history.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use scsi::alua::AccessState::ActiveOptimized;

use super::super::{Action, OpId, PathId, Policy, Router, RouterOptions, Shape, Verdict};
use super::ms;

const BLOCKS: u64 = 24;
const LIMIT: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(300);

/// A small generator (splitmix64), so that a seed replays for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A copy of a command that the target has, or will get from the network.
#[derive(Debug, Clone)]
struct Copy {
    op: OpId,
    path: PathId,
    /// The number of the write; 0 for a read.
    write: u64,
    blocks: (u64, u64),
    /// Of the nexus that carries it.
    loss: u64,
}

#[derive(Debug)]
enum Event {
    Submit,
    /// The target runs a copy; later it answers.
    Apply(u64),
    Answer(u64, Verdict),
    Lose(PathId),
    /// The session is back: what the old nexus had is gone.
    Return(PathId),
    /// A reset through another path has ended what these losses had.
    Reset(Vec<(PathId, u64)>),
    /// A reset has failed.
    NoReset,
    /// Nothing is heard of a path, or it is again.
    Silent(PathId, bool),
    /// What is behind a path is looked at.
    Suspend(PathId),
}

struct World {
    random: Random,
    router: Router,
    now: Duration,
    events: BTreeMap<(Duration, u64), Event>,
    serial: u64,
    copies: BTreeMap<u64, Copy>,
    losses: Vec<u64>,
    up: Vec<bool>,
    /// What each block holds.
    medium: Vec<u64>,
    /// The newest write of each block that was answered with GOOD.
    acknowledged: Vec<u64>,
    /// Writes by op, while the caller waits.
    waiting: BTreeMap<usize, (OpId, u64, (u64, u64), Duration)>,
    failed: Vec<u64>,
    writes: u64,
    done: u64,
    /// Otherwise a path that stays away keeps its writes in doubt until it returns.
    resets_work: bool,
    is_fencing: bool,
}

impl World {
    fn new(seed: u64, paths: usize, policy: Policy) -> Self {
        let mut router = Router::new(RouterOptions {
            policy,
            limit: LIMIT,
            probation: Duration::from_secs(2),
            reinstate_wait: Duration::from_secs(3),
            retries_max: 100,
        });
        for _ in 0..paths {
            router.add_path(ActiveOptimized);
        }
        Self {
            random: Random(seed),
            router,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            serial: 0,
            copies: BTreeMap::new(),
            losses: vec![0; paths],
            up: vec![true; paths],
            medium: vec![0; BLOCKS as usize],
            acknowledged: vec![0; BLOCKS as usize],
            waiting: BTreeMap::new(),
            failed: Vec::new(),
            writes: 0,
            done: 0,
            resets_work: !seed.is_multiple_of(3),
            is_fencing: false,
        }
    }

    fn after(&mut self, delay_ms: u64, event: Event) {
        self.serial += 1;
        self.events.insert((self.now + ms(delay_ms), self.serial), event);
    }

    fn run(&mut self, commands: u64) {
        for n in 0..commands {
            let at = self.random.below(20_000);
            self.after(at, Event::Submit);
            let path = PathId(self.random.below(self.up.len() as u64) as usize);
            let at = self.random.below(20_000);
            match n % 16 {
                0 | 8 => self.after(at, Event::Lose(path)),
                4 => {
                    self.after(at, Event::Silent(path, true));
                    self.after(at + 2000, Event::Silent(path, false));
                }
                12 => self.after(at, Event::Suspend(path)),
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

    fn act(&mut self) {
        while let Some(action) = self.router.poll_action() {
            match action {
                Action::Send { op, path } => self.send(op, path),
                Action::Fail { op, .. } => {
                    let (_, write, _, since) = self.waiting.remove(&op.slot).expect("it waited");
                    assert!(self.now - since >= LIMIT, "failed after {:?}", self.now - since);
                    self.failed.push(write);
                }
                Action::Fence { via } => {
                    assert!(!self.is_fencing, "one reset at a time");
                    self.is_fencing = true;
                    let doubts = self.router.doubts();
                    // It works only where the other path does.
                    let works = self.resets_work && self.up[via.0] && !self.random.one_in(4);
                    let end = if works { Event::Reset(doubts) } else { Event::NoReset };
                    self.after(1200, end);
                }
            }
        }
    }

    fn send(&mut self, op: OpId, path: PathId) {
        let &(known, write, blocks, _) = self.waiting.get(&op.slot).expect("it waits");
        assert_eq!(known, op);
        let loss = self.losses[path.0] + 1;
        self.serial += 1;
        let id = self.serial;
        if !self.up[path.0] || self.random.one_in(40) {
            self.copies.insert(id, Copy { op, path, write: 0, blocks, loss });
            if self.up[path.0] {
                // The session works all the same; its keeper says so.
                self.after(50, Event::Return(path));
            }
            return self.after(1, Event::Answer(id, Verdict::NotSent));
        }
        self.copies.insert(id, Copy { op, path, write, blocks, loss });
        let slow = if self.random.one_in(10) { 3000 } else { 20 };
        let delay = 1 + self.random.below(slow);
        match self.random.below(20) {
            0 => self.after(delay, Event::Answer(id, Verdict::Later { pause: ms(30) })),
            1 => self.after(delay, Event::Answer(id, Verdict::Again)),
            3 => self.after(delay, Event::Answer(id, Verdict::Repeat)),
            4 => self.after(delay, Event::Answer(id, Verdict::NotReady { pause: ms(250) })),
            2 => {
                // Applied, but its answer is an abort.
                self.after(delay, Event::Apply(id));
                self.after(delay + 1, Event::Answer(id, Verdict::Aborted));
            }
            _ => {
                let answer = delay + 1 + self.random.below(30);
                self.after(delay, Event::Apply(id));
                self.after(answer, Event::Answer(id, Verdict::Done));
            }
        }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Submit => self.submit(),
            Event::Apply(id) => self.apply(id),
            Event::Answer(id, verdict) => self.answer(id, verdict),
            Event::Lose(path) => self.lose(path),
            Event::Return(path) => {
                self.up[path.0] = true;
                let loss = self.losses[path.0];
                self.kill(path, loss);
                self.router.fenced(path, loss, self.now);
                self.router.returned(path, self.now);
            }
            Event::Reset(ref doubts) => {
                for &(path, loss) in doubts {
                    self.kill(path, loss);
                    self.router.fenced(path, loss, self.now);
                }
                self.is_fencing = false;
                self.router.fence_ended(self.now);
            }
            Event::NoReset => {
                self.is_fencing = false;
                self.router.fence_ended(self.now);
            }
            Event::Silent(path, is_silent) => self.silent(path, is_silent),
            Event::Suspend(path) => {
                if self.up[path.0] {
                    self.router.suspend(path);
                    self.after(30, Event::Return(path));
                }
            }
        }
    }

    /// Reads that have no answer are not waited for, if there is another path.
    fn silent(&mut self, path: PathId, is_silent: bool) {
        if !self.router.set_silent(path, is_silent) || !is_silent {
            return;
        }
        let loss = self.losses[path.0] + 1;
        let is_read = |copy: &Copy| copy.path == path && copy.loss == loss && copy.write == 0;
        let reads = self.copies.iter().filter(|(_, copy)| is_read(copy));
        let waits = |op: OpId| self.waiting.get(&op.slot).is_some_and(|it| it.0 == op && it.1 == 0);
        let reads = reads.filter(|(_, copy)| waits(copy.op));
        let reads: Vec<(u64, OpId)> = reads.map(|(&id, copy)| (id, copy.op)).collect();
        for (id, op) in reads {
            self.copies.remove(&id);
            self.router.tried(op, Verdict::Abandoned, self.now);
        }
    }

    fn submit(&mut self) {
        let first = self.random.below(BLOCKS - 4);
        let blocks = (first, first + 1 + self.random.below(4));
        let is_write = !self.random.one_in(4);
        let changes = is_write.then(|| blocks.0 * 512..blocks.1 * 512);
        self.writes += u64::from(is_write);
        let write = if is_write { self.writes } else { 0 };
        let op = self.router.submit(Shape { changes, len_bytes: 512, at: None }, self.now);
        self.waiting.insert(op.slot, (op, write, blocks, self.now));
    }

    /// The target writes: here is the promise.
    fn apply(&mut self, id: u64) {
        let Some(copy) = self.copies.get(&id).filter(|copy| copy.write > 0) else { return };
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

    fn answer(&mut self, id: u64, verdict: Verdict) {
        // Lost with its nexus: the verdict was given then.
        if self.copies.get(&id).is_none_or(|copy| copy.loss <= self.losses[copy.path.0]) {
            return;
        }
        let copy = self.copies.remove(&id).expect("it is there");
        if verdict == Verdict::Done {
            let (_, write, blocks, _) = self.waiting.remove(&copy.op.slot).expect("it waited");
            for block in blocks.0..blocks.1 {
                let newest = &mut self.acknowledged[block as usize];
                *newest = (*newest).max(write);
            }
            self.done += 1;
        }
        self.router.tried(copy.op, verdict, self.now);
    }

    /// The connection is gone. What it carried may still arrive, and be applied, much later.
    fn lose(&mut self, path: PathId) {
        if !self.up[path.0] {
            return;
        }
        self.up[path.0] = false;
        self.losses[path.0] += 1;
        let loss = self.losses[path.0];
        let carried: Vec<(u64, OpId)> = self
            .copies
            .iter()
            .filter(|(_, copy)| copy.path == path && copy.loss == loss)
            .map(|(&id, copy)| (id, copy.op))
            .collect();
        for (id, op) in carried {
            let late = if self.random.one_in(4) { 60_000 } else { 8000 };
            let late = self.random.below(late);
            self.after(late, Event::Apply(id));
            self.router.tried(op, Verdict::InDoubt { loss }, self.now);
        }
        self.router.lost(path);
        // Some stay away for longer than commands wait.
        let away = if self.random.one_in(6) { 40_000 } else { 6000 };
        let away = 1 + self.random.below(away);
        self.after(away, Event::Return(path));
    }

    fn kill(&mut self, path: PathId, loss: u64) {
        self.copies.retain(|_, copy| copy.path != path || copy.loss > loss);
    }

    /// What was acknowledged is there, unless something later that failed is.
    fn check_medium(&self) {
        for (block, &found) in self.medium.iter().enumerate() {
            let acknowledged = self.acknowledged[block];
            assert!(
                found == acknowledged || (found > acknowledged && self.failed.contains(&found)),
                "block {block} holds write {found}, acknowledged is {acknowledged}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_repeated_write_never_undoes_a_later_one(seed in any::<u64>(), paths in 1_usize..5, policy in 0_u8..4) {
        let policy = [
            Policy::Failover,
            Policy::RoundRobin { ios_per_path: 2 },
            Policy::LeastQueueDepth,
            Policy::ServiceTime,
        ][usize::from(policy)];
        let mut world = World::new(seed, paths, policy);
        world.run(200);
        world.check_medium();
        prop_assert_eq!(world.done + world.failed.len() as u64, 200, "every command has its end");
    }
}

#[test]
fn all_paths_down_for_ten_seconds_is_no_error() {
    let mut world = World::new(1, 2, Policy::LeastQueueDepth);
    for at in 0..100 {
        world.after(at * 50, Event::Submit);
    }
    for path in [PathId(0), PathId(1)] {
        world.after(1000, Event::Lose(path));
    }
    // The world lets them return at times of its own; these are not later than ten seconds.
    for path in [PathId(0), PathId(1)] {
        world.after(11_000, Event::Return(path));
    }
    world.run(0);
    world.check_medium();
    assert_eq!((world.done, world.failed.len()), (100, 0));
}
