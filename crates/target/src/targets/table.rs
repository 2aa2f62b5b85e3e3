//! The targets of a server by name: asked at login and discovery, changed by the operator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::target::Target;
use crate::unit::{Kept, KeptUnit, Unit};

/// What is known by a name.
#[derive(Debug)]
enum Entry {
    Served(Arc<Target>),
    /// Hosts that try to log in are told to come back later. The units it had then.
    Offline(Vec<String>),
}

impl Entry {
    fn has_unit(&self, serial: &str) -> bool {
        match self {
            Self::Served(target) => target.units.iter().any(|unit| unit.serial == serial),
            Self::Offline(serials) => serials.iter().any(|known| known == serial),
        }
    }
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Served(Arc<Target>),
    Offline,
    Unknown,
}

/// All targets, and what is known of units that are not served.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By their normalised names.
    entries: BTreeMap<String, Entry>,
    /// Reservations and figures of units of offline targets: nobody who was fenced off gets in because the target was
    /// away. They go with the unit, not with the name: a volume that was renamed keeps them, and what it
    /// was under an old name never comes back.
    kept: Kept,
    /// Units that were taken away and may still be at work for their last hosts, by serial number.
    leaving: BTreeMap<String, Weak<Unit>>,
    /// There may be targets under names that are not known yet.
    is_incomplete: bool,
}

impl Inner {
    /// Whether the last life of this unit is not over.
    fn is_leaving(&mut self, serial: &str) -> bool {
        self.leaving.retain(|_, unit| unit.strong_count() > 0);
        self.leaving.contains_key(serial)
    }

    /// What is known of a unit that no name leads to any more.
    fn forget(&mut self, serial: &str) {
        if !self.entries.values().any(|entry| entry.has_unit(serial)) {
            self.kept.remove(serial);
        }
    }
}

impl Table {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nothing panics while it holds the table")
    }

    pub(crate) fn find(&self, name: &str) -> Found {
        let inner = self.inner();
        match inner.entries.get(name) {
            Some(Entry::Served(target)) => Found::Served(target.clone()),
            Some(Entry::Offline(_)) => Found::Offline,
            // It may be one of those.
            None if inner.is_incomplete => Found::Offline,
            None => Found::Unknown,
        }
    }

    /// Whether there may be targets under names that are not known yet.
    pub(crate) fn set_incomplete(&self, is_incomplete: bool) {
        self.inner().is_incomplete = is_incomplete;
    }

    /// Enters a target; gives it back when its name is served already. What was kept of its units it has
    /// taken over.
    pub(crate) fn insert(&self, target: Target) -> Result<(), Target> {
        let name = target.name.as_str().to_owned();
        let mut inner = self.inner();
        if matches!(inner.entries.get(&name), Some(Entry::Served(_))) {
            return Err(target);
        }
        for unit in &target.units {
            inner.kept.remove(&unit.serial);
        }
        inner.entries.insert(name, Entry::Served(Arc::new(target)));
        Ok(())
    }

    /// Takes a target out, and keeps its name if it is to be `offline`. No session of it begins
    /// after this, and its units are served again only when they have [left](Self::left).
    pub(crate) fn take(&self, name: &str, offline: bool) -> Option<Arc<Target>> {
        let mut inner = self.inner();
        let before = inner.entries.remove(name);
        let (target, serials) = match before {
            Some(Entry::Served(target)) => {
                target.close();
                let serials = target.units.iter().map(|unit| unit.serial.clone()).collect();
                (Some(target), serials)
            }
            Some(Entry::Offline(serials)) => (None, serials),
            None => (None, Vec::new()),
        };
        if let Some(target) = &target {
            inner.kept.extend(target.keep());
            let leaving =
                target.units.iter().map(|unit| (unit.serial.clone(), Arc::downgrade(unit)));
            inner.leaving.extend(leaving);
        }
        if offline {
            inner.entries.insert(name.to_owned(), Entry::Offline(serials));
        } else {
            serials.iter().for_each(|serial| inner.forget(serial));
        }
        target
    }

    /// Names of offline targets that are not known any more lead nowhere; what is kept of their units stays.
    pub(crate) fn retain_names(&self, is_known: impl Fn(&str) -> bool) {
        let is_there = |entry: &Entry| matches!(entry, Entry::Served(_));
        self.inner().entries.retain(|name, entry| is_there(entry) || is_known(name));
    }

    /// The hosts of a target that was taken out have gone: what they changed until then counts. Its units have
    /// left, unless one of their disks `is_busy` for them yet.
    pub(crate) fn left(&self, target: &Target, is_busy: bool) {
        let mut inner = self.inner();
        for unit in target.units.iter().filter(|_| !is_busy) {
            inner.leaving.remove(&unit.serial);
        }
        for (serial, now) in target.keep() {
            if let Some(kept) = inner.kept.get_mut(&serial) {
                *kept = now;
            }
        }
    }

    /// What is kept of units with these serial numbers that are not served, and whether one of them is
    /// still at work for its last hosts.
    pub(crate) fn kept<'a>(&self, serials: impl Iterator<Item = &'a str>) -> (Kept, bool) {
        let mut inner = self.inner();
        let mut is_leaving = false;
        let mut kept = Kept::new();
        for serial in serials {
            is_leaving |= inner.is_leaving(serial);
            kept.extend(inner.kept.get(serial).map(|unit| (serial.to_owned(), unit.clone())));
        }
        (kept, is_leaving)
    }

    /// The reservations that are kept of a unit which is not served, and was in the life of this server.
    pub(crate) fn kept_reservations(&self, serial: &str) -> Option<Vec<u8>> {
        self.inner().kept.get(serial).map(|unit| unit.reservations().to_vec())
    }

    /// A unit that is not served has these reservations when it is; without any, what is saved of it counts.
    pub(crate) fn keep_reservations(&self, serial: &str, image: Option<Vec<u8>>) {
        let mut inner = self.inner();
        debug_assert!(
            !inner.entries.values().any(|it| matches!(it, Entry::Served(_)) && it.has_unit(serial)),
            "a unit that is served has its reservations"
        );
        match image {
            Some(image) => inner.kept.insert(serial.to_owned(), KeptUnit::arrived(image)),
            None => inner.kept.remove(serial),
        };
    }

    /// Takes all targets out, for good.
    pub(crate) fn take_all(&self) -> Vec<Arc<Target>> {
        let all = self.served();
        self.inner().entries.clear();
        all.iter().for_each(|target| target.close());
        all
    }

    /// All that are served, in the order of their names.
    pub(crate) fn served(&self) -> Vec<Arc<Target>> {
        let inner = self.inner();
        let served = |entry: &Entry| match entry {
            Entry::Served(target) => Some(target.clone()),
            Entry::Offline(_) => None,
        };
        inner.entries.values().filter_map(served).collect()
    }
}
