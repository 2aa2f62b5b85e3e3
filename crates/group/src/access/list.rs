//! The records of a volume, and policies, which are records that several volumes share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::AccessError;
use super::record::{Record, Scope};
use crate::record::Setting;

/// How many entries a volume has at most.
pub const ENTRIES_MAX: usize = 16;

/// How many records a policy has at most.
pub const POLICY_RECORDS_MAX: usize = 256;

/// How long the name of a policy is at most, in bytes.
pub const POLICY_NAME_BYTES_MAX: usize = 63;

/// Policies by their names.
pub type Policies = BTreeMap<String, Policy>;

/// Things that keep their numbers when others go: a number is not used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Numbered<T> {
    next: u32,
    items: BTreeMap<u32, T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { next: 1, items: BTreeMap::new() }
    }
}

impl<T: PartialEq> Numbered<T> {
    fn add(&mut self, item: T, max: usize) -> Result<u32, AccessError> {
        if let Some((number, _)) = self.items.iter().find(|(_, there)| **there == item) {
            return Err(AccessError::ThereAlready(*number));
        }
        if self.items.len() >= max {
            return Err(AccessError::Full(max));
        }
        let last = self.items.keys().next_back().copied().unwrap_or(0);
        let number = self.next.max(last.saturating_add(1));
        self.next = number.checked_add(1).ok_or(AccessError::Full(max))?;
        let before = self.items.insert(number, item);
        debug_assert!(before.is_none(), "numbers are not used again");
        Ok(number)
    }

    fn remove(&mut self, number: u32) -> Result<T, AccessError> {
        self.items.remove(&number).ok_or(AccessError::NoSuchRecord(number))
    }

    /// Holds these from now on. What was there already keeps its number.
    fn replace(&mut self, items: &[T], max: usize) -> Result<(), AccessError>
    where
        T: Clone,
    {
        self.items.retain(|_, there| items.contains(there));
        for item in items {
            match self.add(item.clone(), max) {
                Ok(_) | Err(AccessError::ThereAlready(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What a volume's list names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// A record.
    Record(Record),
    /// All records of a policy, as far as they are for this too.
    Policy {
        /// Its name.
        name: String,
        /// What they are for here.
        #[serde(rename = "for")]
        scope: Scope,
    },
}

/// Who may use a volume and its snapshots, by at most [`ENTRIES_MAX`] entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccessList {
    entries: Numbered<Entry>,
}

impl Setting for AccessList {
    const WHAT: &'static str = "the access list of a volume";
}

impl AccessList {
    /// Adds an entry and says its number.
    ///
    /// # Errors
    /// [`AccessError::Full`] or [`AccessError::ThereAlready`].
    pub fn add(&mut self, entry: Entry) -> Result<u32, AccessError> {
        self.entries.add(entry, ENTRIES_MAX)
    }

    /// Takes an entry away.
    ///
    /// # Errors
    /// [`AccessError::NoSuchRecord`]
    pub fn remove(&mut self, number: u32) -> Result<Entry, AccessError> {
        self.entries.remove(number)
    }

    /// Has these entries from now on; those that were there already keep their numbers.
    ///
    /// # Errors
    /// [`AccessError::Full`]; then it is to be thrown away.
    pub fn replace(&mut self, entries: &[Entry]) -> Result<(), AccessError> {
        self.entries.replace(entries, ENTRIES_MAX)
    }

    /// With their numbers.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.entries.items.iter().map(|(number, entry)| (*number, entry))
    }

    /// Nothing was said of who may use it: the rule for all such volumes holds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.items.is_empty()
    }

    /// All records, those of policies too. A policy that is not there admits nobody.
    #[must_use]
    pub fn records(&self, policies: &Policies) -> Vec<Record> {
        let mut records = Vec::new();
        for (_, entry) in self.entries() {
            match entry {
                Entry::Record(record) => records.push(record.clone()),
                Entry::Policy { name, scope } => {
                    let policy = policies.get(name).into_iter();
                    let all = policy.flat_map(Policy::records);
                    records.extend(all.filter_map(|(_, record)| record.within(*scope)));
                }
            }
        }
        records
    }
}

/// Records that several volumes share, at most [`POLICY_RECORDS_MAX`]. One without records admits
/// nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policy {
    records: Numbered<Record>,
}

impl Setting for Policy {
    const WHAT: &'static str = "an access policy";
}

impl Policy {
    /// Adds a record and says its number.
    ///
    /// # Errors
    /// [`AccessError::Full`] or [`AccessError::ThereAlready`].
    pub fn add(&mut self, record: Record) -> Result<u32, AccessError> {
        self.records.add(record, POLICY_RECORDS_MAX)
    }

    /// Takes a record away.
    ///
    /// # Errors
    /// [`AccessError::NoSuchRecord`]
    pub fn remove(&mut self, number: u32) -> Result<Record, AccessError> {
        self.records.remove(number)
    }

    /// Has these records from now on; those that were there already keep their numbers.
    ///
    /// # Errors
    /// [`AccessError::Full`]; then it is to be thrown away.
    pub fn replace(&mut self, records: &[Record]) -> Result<(), AccessError> {
        self.records.replace(records, POLICY_RECORDS_MAX)
    }

    /// With their numbers.
    pub fn records(&self) -> impl Iterator<Item = (u32, &Record)> {
        self.records.items.iter().map(|(number, record)| (*number, record))
    }
}

/// A name that a policy can have.
///
/// # Errors
/// [`AccessError::PolicyName`]
pub fn check_policy_name(name: &str) -> Result<(), AccessError> {
    let belongs = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if (1..=POLICY_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(belongs) {
        return Ok(());
    }
    Err(AccessError::PolicyName(name.to_owned()))
}
