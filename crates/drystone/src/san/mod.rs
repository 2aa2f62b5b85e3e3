//! The configuration of a member as a file: what it is set to, whole, and where the two differ.
//!
//! ```text
//!   a member ─▶ of_member ─▶ San ─▶ write ─▶ text
//!                             │
//!       text ─▶ read ─▶ San ─┴─▶ diff ─▶ differences ─▶ plan ─▶ a change of the member
//! ```
//!
//! A [`San`] has sections, each with a kind and a name, and keys whose values are as the [`schema`] says. What the
//! sentences of a member say stands there once, in its normal form, so that equal means the same.

mod destinations;
pub(crate) mod diff;
pub(crate) mod of_member;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod schema;
pub(crate) mod write;

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What stands behind a key, in its normal form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Switch(bool),
    Number(u64),
    Text(String),
    Texts(Vec<String>),
}

/// The keys of a section. What is not there is not said.
pub(crate) type Keys = BTreeMap<&'static str, Value>;

/// All sections, by their kinds and names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct San {
    pub(crate) sections: BTreeMap<&'static str, BTreeMap<String, Keys>>,
    /// Sections of a member whose secrets are lost: the key that they were encrypted with is not there. In a file there
    /// are none.
    pub(crate) lost: BTreeSet<(&'static str, String)>,
}

impl San {
    /// Puts a section in the place of one of the same kind and name.
    pub(crate) fn put(&mut self, kind: &'static str, name: String, keys: Keys) {
        self.sections.entry(kind).or_default().insert(name, keys);
    }

    /// Leaves schedules out all of whose volumes are deleted: a file can neither name those nor none.
    pub(crate) fn without_idle(mut self) -> Self {
        if let Some(schedules) = self.sections.get_mut(SCHEDULE) {
            schedules.retain(|_, keys| !is_idle(keys));
        }
        self.sections.retain(|_, all| !all.is_empty());
        self
    }
}

const SCHEDULE: &str = "schedule";

/// Whether a schedule has no volume to take a snapshot of.
fn is_idle(schedule: &Keys) -> bool {
    schedule.get("volumes") == Some(&Value::Texts(Vec::new()))
}

#[cfg(test)]
mod tests;
