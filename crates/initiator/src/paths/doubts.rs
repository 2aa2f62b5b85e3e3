//! Losses with changes in doubt, and when another path is asked to end them.

use std::time::Duration;

use super::PathId;

/// How often a path for a reset is looked for.
const ASK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Doubt {
    path: PathId,
    /// Its number.
    loss: u64,
    /// When another path is to be asked.
    ask_at: Duration,
}

/// A reset ends the work of all hosts: one at a time, for all losses that are known then.
#[derive(Debug)]
pub(super) struct Doubts {
    all: Vec<Doubt>,
    /// How long a lost session has to fence its loss itself.
    wait: Duration,
    is_asked: bool,
}

impl Doubts {
    pub(super) fn new(wait: Duration) -> Self {
        Self { all: Vec::new(), wait, is_asked: false }
    }

    pub(super) fn note(&mut self, path: PathId, loss: u64, now: Duration) {
        if !self.all.iter().any(|doubt| doubt.path == path && doubt.loss == loss) {
            self.all.push(Doubt { path, loss, ask_at: now + self.wait });
        }
    }

    /// The session of this path will not fence its losses.
    pub(super) fn hurry(&mut self, path: PathId, now: Duration) {
        for doubt in self.all.iter_mut().filter(|doubt| doubt.path == path) {
            doubt.ask_at = doubt.ask_at.min(now);
        }
    }

    pub(super) fn fenced(&mut self, path: PathId, loss: u64) {
        self.all.retain(|doubt| doubt.path != path || doubt.loss > loss);
    }

    /// The last loss in doubt of each path.
    pub(super) fn known(&self) -> Vec<(PathId, u64)> {
        let mut known: Vec<(PathId, u64)> = Vec::new();
        for doubt in &self.all {
            match known.iter_mut().find(|(path, _)| *path == doubt.path) {
                Some((_, loss)) => *loss = doubt.loss.max(*loss),
                None => known.push((doubt.path, doubt.loss)),
            }
        }
        known
    }

    /// When [`Self::due`] may have something.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        if self.is_asked { None } else { self.all.iter().map(|doubt| doubt.ask_at).min() }
    }

    /// A path whose loss another one is to be asked to end.
    pub(super) fn due(&self, now: Duration) -> Option<PathId> {
        let due = self.all.iter().find(|doubt| now >= doubt.ask_at).map(|doubt| doubt.path);
        due.filter(|_| !self.is_asked)
    }

    /// A path is asked for all of them.
    pub(super) fn asked(&mut self) {
        self.is_asked = true;
    }

    /// There is none that could be asked.
    pub(super) fn put_off(&mut self, now: Duration) {
        self.wait_for(ASK_AGAIN, now);
    }

    /// What was asked for is over. Where it failed, the target may still be at it.
    pub(super) fn over(&mut self, now: Duration) {
        self.is_asked = false;
        self.wait_for(self.wait, now);
    }

    fn wait_for(&mut self, pause: Duration, now: Duration) {
        for doubt in self.all.iter_mut().filter(|doubt| now >= doubt.ask_at) {
            doubt.ask_at = now + pause;
        }
    }
}
