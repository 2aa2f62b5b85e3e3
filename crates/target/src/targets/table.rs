//! The targets of a server by name: asked at login and discovery, changed by the operator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::target::Target;
use crate::unit::Kept;

/// What is known by a name.
#[derive(Clone, Debug)]
enum Entry {
    Served(Arc<Target>),
    /// Hosts that try to log in are told to come back later. Their reservations are kept: nobody who
    /// was fenced off gets in because the target was away.
    Offline(Kept),
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Served(Arc<Target>),
    Offline,
    Unknown,
}

/// All targets, by their normalised names.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<BTreeMap<String, Entry>>);

impl Table {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().expect("nothing panics while it holds the table")
    }

    pub(crate) fn find(&self, name: &str) -> Found {
        match self.entries().get(name) {
            Some(Entry::Served(target)) => Found::Served(target.clone()),
            Some(Entry::Offline(_)) => Found::Offline,
            None => Found::Unknown,
        }
    }

    /// Enters a target; gives it back when its name is served already.
    pub(super) fn insert(&self, target: Target) -> Result<(), Target> {
        let name = target.name.as_str().to_owned();
        let mut entries = self.entries();
        if matches!(entries.get(&name), Some(Entry::Served(_))) {
            return Err(target);
        }
        entries.insert(name, Entry::Served(Arc::new(target)));
        Ok(())
    }

    /// Takes a target out, and keeps its name if it is to be `offline`. No session of it begins
    /// after this.
    pub(super) fn take(&self, name: &str, offline: bool) -> Option<Arc<Target>> {
        let mut entries = self.entries();
        let before = match entries.remove(name) {
            Some(Entry::Served(target)) => {
                target.close();
                Ok(target)
            }
            Some(Entry::Offline(kept)) => Err(kept),
            None => Err(Kept::new()),
        };
        if offline {
            let kept = before.as_ref().map_or_else(Kept::clone, |target| target.keep());
            entries.insert(name.to_owned(), Entry::Offline(kept));
        }
        before.ok()
    }

    /// The last session of a target has ended, which was taken out to be offline: what its hosts changed
    /// until then counts.
    pub(super) fn keep(&self, target: &Target) {
        if let Some(Entry::Offline(kept)) = self.entries().get_mut(target.name.as_str()) {
            *kept = target.keep();
        }
    }

    /// The reservations of a target that is offline.
    pub(super) fn kept(&self, name: &str) -> Kept {
        match self.entries().get(name) {
            Some(Entry::Offline(kept)) => kept.clone(),
            _ => Kept::new(),
        }
    }

    /// Takes all targets out, for good.
    pub(crate) fn take_all(&self) -> Vec<Arc<Target>> {
        let all = self.served();
        self.entries().clear();
        all.iter().for_each(|target| target.close());
        all
    }

    /// All that are served, in the order of their names.
    pub(crate) fn served(&self) -> Vec<Arc<Target>> {
        let entries = self.entries();
        let served = |entry: &Entry| match entry {
            Entry::Served(target) => Some(target.clone()),
            Entry::Offline(_) => None,
        };
        entries.values().filter_map(served).collect()
    }
}
