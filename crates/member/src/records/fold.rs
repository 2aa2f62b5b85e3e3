//! Repeats are counted: one bad disk, or one host that tries again and again, must not push out the rest.
//! It reads no clock: the time is given to it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Recorded;

/// How long what was recorded is only counted when it happens again, where nothing else is said.
pub(crate) const PAUSE: Duration = Duration::from_secs(60);

/// How repeats of something are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Each by itself.
    Never,
    /// What has the same text here is one thing that repeats itself.
    By(String),
}

/// What was recorded lately.
#[derive(Debug)]
pub(super) struct Folds<T> {
    by_key: HashMap<String, Counted<T>>,
}

#[derive(Debug)]
struct Counted<T> {
    since: Instant,
    /// How long it is only counted.
    pause: Duration,
    /// How often it happened since.
    more: u64,
    /// What happened last.
    last: T,
}

impl<T: Recorded> Counted<T> {
    fn new(last: T, since: Instant) -> Self {
        Self { since, pause: last.pause(), more: 0, last }
    }
}

impl<T: Recorded> Folds<T> {
    pub(super) fn new() -> Self {
        Self { by_key: HashMap::new() }
    }

    /// Something happened so many `times`; what is to be recorded of it now, if anything.
    pub(super) fn take(&mut self, what: T, times: u64, now: Instant) -> Option<T> {
        let Fold::By(key) = what.fold() else { return Some(what) };
        if let Some(counted) = self.by_key.get_mut(&key) {
            counted.more += times;
            counted.last = what;
            return None;
        }
        if self.has_room(what.owner()) {
            self.by_key.insert(key, Counted::new(what.clone(), now));
            return Some(what);
        }
        let Some(others) = what.others() else { return Some(what) };
        let Fold::By(key) = others.fold() else { return Some(others) };
        let counted = self.by_key.entry(key).or_insert_with(|| Counted::new(others, now));
        counted.more += times;
        None
    }

    /// Whether one more kind of repeats of this owner is told apart. No other one takes it that room.
    fn has_room(&self, owner: Option<&str>) -> bool {
        let own = self.by_key.values().filter(|counted| counted.last.owner() == owner).count();
        own < if owner.is_some() { T::FOLDS_OF_OWNER_MAX } else { T::FOLDS_MAX }
    }

    /// What was only counted for long enough, and how often it happened. Of what goes on the next is due a
    /// minute later.
    pub(super) fn due(&mut self, now: Instant, is_end: bool) -> Vec<(T, u64)> {
        let mut due = Vec::new();
        self.by_key.retain(|_, counted| {
            if !is_end && now.saturating_duration_since(counted.since) < counted.pause {
                return true;
            }
            let is_again = counted.more > 0;
            if is_again {
                due.push((counted.last.clone(), counted.more));
                (counted.since, counted.more) = (now, 0);
            }
            is_again && !is_end
        });
        due
    }

    /// When to ask for what is [due](Self::due) next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_key.values().map(|counted| counted.since + counted.pause).min()
    }
}
