//! How destinations do, for whoever asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a destination does, since the member was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Messages that it has taken.
    pub delivered: u64,
    /// Attempts that have failed.
    pub failed: u64,
    /// Events that were given up, as it took none for too long.
    pub given_up: u64,
    /// Entries of the audit log that were still to be sent when it was looked last.
    pub audit_behind: u64,
    /// Entries of the audit log that were not sent, as the log had no room for them.
    pub audit_not_sent: u64,
    /// When it took something last, in seconds since 1970 (UTC).
    pub last_unix_seconds: Option<u64>,
    /// Why the last attempt has failed; `None` if it has not.
    pub failing: Option<String>,
    /// An event has told of that.
    pub(crate) is_told: bool,
}

/// How all destinations do, by name. All copies of the value are one.
#[derive(Debug, Clone, Default)]
pub struct Statuses(Arc<Mutex<BTreeMap<String, Status>>>);

impl Statuses {
    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Status>> {
        // Each change leaves numbers that mean what they say.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How one does; one that nothing was sent to yet does as well as can be.
    #[must_use]
    pub fn of(&self, name: &str) -> Status {
        self.held().get(name).cloned().unwrap_or_default()
    }

    /// How all do that something was sent to.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, Status> {
        self.held().clone()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.held().contains_key(name)
    }

    pub(crate) fn note(&self, name: &str, note: impl FnOnce(&mut Status)) {
        note(self.held().entry(name.to_owned()).or_default());
    }

    /// Forgets those that are gone: there are never more than there are destinations.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.held().retain(|name, _| is_there(name));
    }
}
