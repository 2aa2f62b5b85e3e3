//! The targets of a server by name: asked at login and discovery, changed by the operator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::target::Target;

/// What is known by a name.
#[derive(Clone, Debug)]
enum Entry {
    Served(Arc<Target>),
    /// Hosts that try to log in are told to come back later.
    Offline,
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
            Some(Entry::Offline) => Found::Offline,
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
        let before = if offline {
            entries.insert(name.to_owned(), Entry::Offline)
        } else {
            entries.remove(name)
        };
        match before {
            Some(Entry::Served(target)) => {
                target.close();
                Some(target)
            }
            Some(Entry::Offline) | None => None,
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
            Entry::Offline => None,
        };
        entries.values().filter_map(served).collect()
    }
}
