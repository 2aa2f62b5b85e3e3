//! What goes wrong: connections, sessions, resets, whole hosts.

use scsi::alua::AccessState::ActiveOptimized;

use super::super::super::{PathId, Policy, Verdict};
use super::Mistake;
use super::world::{Event, Link, Sent, World, router};

impl World {
    /// At its own portal group: its login has ended what the lost nexus had.
    pub(super) fn come_back(&mut self, path: PathId) {
        let Some(link) = self.links.get_mut(&path) else { return };
        link.is_up = true;
        let (loss, is_fence) = (link.losses, !link.has_moved);
        self.hear_of_power();
        if is_fence {
            self.kill(path, loss);
            self.router.fenced(path, loss, self.now);
        }
        self.router.returned(path, self.now);
        self.ask_for_reset(path);
    }

    pub(super) fn come_back_elsewhere(&mut self, path: PathId) {
        let Some(link) = self.links.get_mut(&path).filter(|link| !link.is_up) else { return };
        link.is_up = true;
        link.has_moved = true;
        let loss = link.losses;
        self.hear_of_power();
        if self.mistake == Mistake::AMoveIsAFence {
            self.router.fenced(path, loss, self.now);
        }
        self.router.returned(path, self.now);
        self.ask_for_reset(path);
    }

    /// As the keeper of a path does that came back in another portal group.
    pub(super) fn ask_for_reset(&mut self, path: PathId) {
        let Some(link) = self.links.get_mut(&path).filter(|link| link.has_moved) else { return };
        if self.router.is_in_doubt(path) {
            self.router.needs_reset(path, self.now);
        } else {
            link.has_moved = false;
        }
    }

    /// It ends the tasks of all nexuses; those that are up find out and repeat them.
    pub(super) fn reset(&mut self, doubts: &[(PathId, u64)]) {
        let ended: Vec<u64> = self.copies.keys().copied().collect();
        for id in ended {
            let (now, sent) = (self.now, &self.copies[&id]);
            if !sent.is_orphan && sent.leaves <= now && self.random.one_in(2) {
                self.after(1 + id % 30, Event::Answer(id, Verdict::Repeat));
                self.copies.get_mut(&id).expect("it is there").blocks = (0, 0);
            }
        }
        for &(path, loss) in doubts {
            self.kill(path, loss);
            if let Some(link) = self.links.get_mut(&path).filter(|link| link.losses == loss) {
                link.has_moved = false;
            }
            // The path may have been replaced meanwhile.
            self.router.fenced(path, loss, self.now);
        }
        self.is_fencing = false;
        self.router.fence_ended(self.now);
    }

    pub(super) fn replace(&mut self, path: PathId) {
        let Some(link) = self.links.get_mut(&path) else { return };
        link.is_retired = true;
        self.router.retire(path);
        if !self.router.is_quiet(path) {
            return self.after(50, Event::Replace(path));
        }
        let loss = link.losses + 1;
        self.links.remove(&path);
        self.kill(path, loss);
        self.router.release(path);
        let fresh = self.router.add_path(ActiveOptimized);
        assert_ne!(fresh, path, "an id is used once");
        self.hear_of_power();
        self.links.insert(fresh, Link { is_up: true, ..Link::default() });
        // News of the path that has gone.
        self.router.fenced(path, loss + 5, self.now);
        self.router.lost(path);
    }

    /// Everything of this process is gone, but what the target has received.
    pub(super) fn crash(&mut self) {
        let here = |sent: &Sent| sent.leaves > self.now;
        match self.mistake {
            Mistake::QueuesOutliveTheirOwners => {}
            _ => self.copies.retain(|_, sent| !here(sent)),
        }
        let left: Vec<u64> = self.copies.keys().copied().collect();
        for id in left {
            let late = self.random.below(20_000);
            self.after(late, Event::Apply(id));
            let sent = self.copies.get_mut(&id).expect("it is there");
            sent.is_orphan = true;
            sent.is_here = sent.leaves > self.now;
        }
        for gone in std::mem::take(&mut self.waiting).into_values() {
            self.failed.push(gone.write);
        }
        // The next one ends what is left before its first write.
        if self.mistake != Mistake::LeftoversLive {
            self.copies.retain(|_, sent| sent.is_here);
        }
        // Nobody flushes what the killed one has written: it is as if it had never been promised.
        self.power.crash(&self.acknowledged);
        let count = self.links.len();
        self.events.retain(|_, event| {
            matches!(event, Event::Submit | Event::Apply(_) | Event::Lose(..) | Event::PowerLoss)
        });
        (self.is_fencing, self.router) = (false, router(Policy::LeastQueueDepth));
        let link = Link { is_up: true, ..Link::default() };
        self.links = (0..count).map(|_| (self.router.add_path(ActiveOptimized), link)).collect();
    }

    /// The connection is gone. What the target has may still be applied, much later.
    pub(super) fn lose(&mut self, path: PathId, away: Option<u64>) {
        let Some(link) = self.links.get_mut(&path).filter(|link| link.is_up) else { return };
        link.is_up = false;
        link.losses += 1;
        let loss = link.losses;
        let carried: Vec<u64> = self
            .copies
            .iter()
            .filter(|(_, copy)| copy.path == path && !copy.is_orphan)
            .map(|(&id, _)| id)
            .collect();
        for id in carried {
            let late = if self.random.one_in(4) { 60_000 } else { 8000 };
            let late = self.random.below(late);
            self.after(late, Event::Apply(id));
            let copy = self.copies.get_mut(&id).expect("it is there");
            let op = copy.op;
            if copy.is_straggler {
                self.copies.remove(&id);
                self.router.straggler_over(path, self.now);
                continue;
            }
            let told = copy.clone();
            copy.is_orphan = true;
            copy.is_here = copy.leaves > self.now;
            if copy.is_here && self.mistake != Mistake::QueuesOutliveTheirOwners {
                // The connection was abortive from its first moment.
                self.copies.remove(&id);
            }
            let verdict = match self.mistake {
                Mistake::LostIsNotSent => Verdict::NotSent,
                _ => Verdict::InDoubt { loss },
            };
            self.tell(op, &told, verdict);
        }
        self.router.lost(path);
        // Some stay away for longer than commands wait, and some come back elsewhere.
        let long = if self.random.one_in(6) { 40_000 } else { 6000 };
        let some_time = 1 + self.random.below(long);
        let elsewhere = self.random.one_in(4) && away.is_none();
        let back = if elsewhere { Event::Move(path) } else { Event::Return(path) };
        self.after(away.unwrap_or(some_time), back);
    }

    pub(super) fn kill(&mut self, path: PathId, loss: u64) {
        self.copies.retain(|_, copy| copy.is_here || copy.path != path || copy.loss > loss);
    }
}
