//! What the store is asked and what it answers, in the words of etcd's API v3.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::error::StoreError;

/// Operations of one list of a transaction, and its comparisons: room for what is set for a thousand volumes at once.
/// etcd has to be started with `--max-txn-ops` of this.
pub(crate) const OPERATIONS_MAX: usize = 4096;

/// Bytes of the keys and values of one transaction, as etcd limits a request.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 1_536 * 1024;

/// For so long etcd keeps what was written over, and for twice as long before it looks again. Who was silent for longer
/// reads all anew.
pub(crate) const HISTORY_SECONDS: u64 = 5 * 60;

/// What the data may take, with their history, after which etcd refuses to write more.
pub(crate) const DATA_BYTES_MAX: u64 = 2 << 30;

/// The longest lease.
pub(crate) const LEASE_DAYS_MAX: u64 = 365;

/// The number of a change of the whole store; 1 before the first.
pub type Revision = u64;

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl Display for LeaseId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}", self.0)
    }
}

/// One key and all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key, at least one byte.
    pub key: Vec<u8>,
    /// What it was set to last.
    pub value: Vec<u8>,
    /// The revision in which it came to be, after it was deleted last.
    pub create_revision: Revision,
    /// The revision in which it was set last.
    pub mod_revision: Revision,
    /// How often it was set since it came to be; 1 at first.
    pub version: u64,
    /// The lease that it ends with.
    pub lease: Option<LeaseId>,
}

/// Which keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// One.
    Key(Vec<u8>),
    /// All that begin so; an empty prefix is all keys.
    Prefix(Vec<u8>),
}

impl Selection {
    /// One key.
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        Self::Key(key.into())
    }

    /// All keys that begin so.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        Self::Prefix(prefix.into())
    }

    /// Whether `key` is among them.
    #[must_use]
    pub fn includes(&self, key: &[u8]) -> bool {
        match self {
            Self::Key(one) => one == key,
            Self::Prefix(prefix) => key.starts_with(prefix),
        }
    }

    /// The key or prefix, where the keys that are meant begin.
    pub(crate) fn start(&self) -> &[u8] {
        match self {
            Self::Key(start) | Self::Prefix(start) => start,
        }
    }
}

/// What there is at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The revision of the whole store.
    pub revision: Revision,
    /// In the order of the keys.
    pub kvs: Vec<KeyValue>,
}

/// How two values must stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Both the same.
    Equal,
    /// Not the same.
    NotEqual,
    /// What is in the store is greater.
    Greater,
    /// What is in the store is less.
    Less,
}

impl Order {
    /// Whether `found` stands so to `wanted`.
    #[must_use]
    pub fn holds<T: Ord + ?Sized>(self, found: &T, wanted: &T) -> bool {
        match self {
            Self::Equal => found == wanted,
            Self::NotEqual => found != wanted,
            Self::Greater => found > wanted,
            Self::Less => found < wanted,
        }
    }
}

/// What of a key is compared, with the value it is compared to. A key that is not there has 0 for each
/// number, and no value: a comparison of its value fails, whichever it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Property {
    /// Its value, byte by byte.
    Value(Vec<u8>),
    /// Its version.
    Version(u64),
    /// Its create revision.
    Create(Revision),
    /// Its mod revision.
    Mod(Revision),
}

/// One condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// Of this key.
    pub key: Vec<u8>,
    /// How it must stand.
    pub order: Order,
    /// To what.
    pub property: Property,
}

impl Compare {
    /// The key is not there.
    pub fn absent(key: impl Into<Vec<u8>>) -> Self {
        Self::equal(key, Property::Create(0))
    }

    /// The key was not set since this revision; 0 is the key that is not there.
    pub fn unchanged(key: impl Into<Vec<u8>>, mod_revision: Revision) -> Self {
        Self::equal(key, Property::Mod(mod_revision))
    }

    /// The property is this.
    pub fn equal(key: impl Into<Vec<u8>>, property: Property) -> Self {
        Self { key: key.into(), order: Order::Equal, property }
    }

    /// Whether it holds for what is there under its key.
    #[must_use]
    pub fn holds(&self, found: Option<&KeyValue>) -> bool {
        let number = |of: fn(&KeyValue) -> u64| found.map_or(0, of);
        match &self.property {
            Property::Value(wanted) => {
                found.is_some_and(|kv| self.order.holds(kv.value.as_slice(), wanted))
            }
            Property::Version(wanted) => self.order.holds(&number(|kv| kv.version), wanted),
            Property::Create(wanted) => self.order.holds(&number(|kv| kv.create_revision), wanted),
            Property::Mod(wanted) => self.order.holds(&number(|kv| kv.mod_revision), wanted),
        }
    }
}

/// One step of a transaction. Each sees what those before it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Sets a key, under a lease or under none.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its new value.
        value: Vec<u8>,
        /// What it ends with from now on.
        lease: Option<LeaseId>,
    },
    /// Takes keys away.
    Delete(Selection),
    /// Reads keys.
    Range(Selection),
}

impl Op {
    /// Sets a key under no lease.
    pub fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self::Put { key: key.into(), value: value.into(), lease: None }
    }
}

/// If all comparisons hold, then these steps, else those.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The conditions.
    pub compares: Vec<Compare>,
    /// What is done if all of them hold.
    pub then: Vec<Op>,
    /// What is done otherwise.
    pub otherwise: Vec<Op>,
}

impl Transaction {
    /// These steps, whatever there is.
    #[must_use]
    pub fn always(then: Vec<Op>) -> Self {
        Self { then, ..Self::default() }
    }

    /// These steps if the conditions hold, and nothing otherwise.
    #[must_use]
    pub fn when(compares: Vec<Compare>, then: Vec<Op>) -> Self {
        Self { compares, then, ..Self::default() }
    }

    /// Refuses what no store takes, before anything is done of it.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let count = self.compares.len().max(self.then.len()).max(self.otherwise.len());
        if count > OPERATIONS_MAX {
            return Err(StoreError::TooManyOperations { count, max: OPERATIONS_MAX });
        }
        let mut size_bytes = 0;
        for compare in &self.compares {
            not_empty(&compare.key)?;
            size_bytes += compare.key.len();
            if let Property::Value(value) = &compare.property {
                size_bytes += value.len();
            }
        }
        for ops in [&self.then, &self.otherwise] {
            size_bytes += check_list(ops)?;
        }
        if size_bytes > TRANSACTION_BYTES_MAX {
            return Err(StoreError::TooLarge { size_bytes, bytes_max: TRANSACTION_BYTES_MAX });
        }
        Ok(())
    }
}

/// Checks one list of steps and counts its bytes.
fn check_list(ops: &[Op]) -> Result<usize, StoreError> {
    let mut size_bytes = 0;
    for (at, op) in ops.iter().enumerate() {
        match op {
            Op::Put { key, value, .. } => {
                not_empty(key)?;
                size_bytes += key.len() + value.len();
                let changes_too = |(other, op): (usize, &Op)| match op {
                    Op::Put { key: second, .. } => other > at && second == key,
                    Op::Delete(selection) => selection.includes(key),
                    Op::Range(_) => false,
                };
                if ops.iter().enumerate().any(changes_too) {
                    return Err(StoreError::DuplicateKey(String::from_utf8_lossy(key).into()));
                }
            }
            Op::Delete(selection) | Op::Range(selection) => {
                check_selection(selection)?;
                size_bytes += selection.start().len();
            }
        }
    }
    Ok(size_bytes)
}

/// A single key has at least one byte.
pub(crate) fn check_selection(selection: &Selection) -> Result<(), StoreError> {
    match selection {
        Selection::Key(key) => not_empty(key),
        Selection::Prefix(_) => Ok(()),
    }
}

const fn not_empty(key: &[u8]) -> Result<(), StoreError> {
    if key.is_empty() { Err(StoreError::EmptyKey) } else { Ok(()) }
}

/// The whole seconds of a lease.
pub(crate) fn lease_seconds(ttl: Duration) -> Result<u64, StoreError> {
    let seconds = ttl.as_secs();
    let is_possible = (1..=LEASE_DAYS_MAX * 24 * 60 * 60).contains(&seconds);
    if is_possible { Ok(seconds) } else { Err(StoreError::LeaseTime) }
}

/// What a step of a transaction answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The key is set.
    Put,
    /// How many keys went.
    Deleted(usize),
    /// What was found.
    Found(Vec<KeyValue>),
}

/// What a transaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether all comparisons held.
    pub succeeded: bool,
    /// The revision that it made, or found if it changed nothing.
    pub revision: Revision,
    /// One for each step of the list that was run.
    pub answers: Vec<Answer>,
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It was set to this.
    Put(KeyValue),
    /// It was deleted.
    Delete {
        /// The key.
        key: Vec<u8>,
        /// The revision in which it went.
        mod_revision: Revision,
    },
}

impl Event {
    /// The key that changed.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Put(kv) => &kv.key,
            Self::Delete { key, .. } => key,
        }
    }
}

/// The changes of one revision, as far as they are watched: at least one, in the order in which they
/// were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The revision.
    pub revision: Revision,
    /// Its changes.
    pub events: Vec<Event>,
}
