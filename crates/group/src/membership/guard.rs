//! The key that every change compares, and which changes were made last.

use serde::{Deserialize, Serialize};

use super::MembershipError;
use crate::record::Setting;
use crate::store::{KeyValue, Revision};

/// Changes that the guard remembers. One of which nobody answered whether it was made is found among them, as long as
/// no more than so many others were made before who waits for the answer looks.
const REMEMBERED: usize = 32;

/// The key that every change compares and writes. Its value names the changes that were made last, so that who was cut
/// off while it made one can tell whether it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// When it changed last; 0 where no change was ever made.
    revision: Revision,
    made: Made,
}

/// Its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    /// The latest last.
    changes: Vec<String>,
}

impl Setting for Made {
    const WHAT: &'static str = "which changes of the group were made last";
}

/// What one change is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangeId(String);

impl ChangeId {
    pub(super) fn draw() -> Result<Self, MembershipError> {
        Ok(Self(format!("{:016x}", getrandom::u64()?)))
    }
}

impl Guard {
    pub(super) fn read(kv: &KeyValue) -> Result<Self, MembershipError> {
        Ok(Self { revision: kv.mod_revision, made: Made::decode(&kv.value)? })
    }

    pub(super) const fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether this change was made, and not long before.
    pub(super) fn has(&self, change: &ChangeId) -> bool {
        self.made.changes.contains(&change.0)
    }

    /// Its value once this change is made.
    pub(super) fn with(&self, change: &ChangeId) -> Vec<u8> {
        debug_assert!(!self.has(change), "a change is made once");
        let mut changes = self.made.changes.clone();
        changes.push(change.0.clone());
        let forgotten = changes.len().saturating_sub(REMEMBERED);
        changes.drain(..forgotten);
        Made { changes }.encode()
    }
}
