//! The tables of the database, and what is read and written in them within one redb transaction.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `format`, `revision`, `compacted`, `next_lease`, `history_bytes` | a number |
//! | `keys` | key | create revision, mod revision, version, lease or 0, value |
//! | `history` | revision, place in it | whether it was a put, key, create revision, version, lease or 0, value |
//! | `leases` | lease | its seconds |
//! | `attached` | lease, key | |
//!
//! What always holds: `history` has every change of the revisions above `compacted` and up to
//! `revision`, and none else; `history_bytes` is what its keys and values take; `attached` has exactly the keys of `keys` that name a lease, and that
//! lease is in `leases`.

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use crate::store::error::StoreError;
use crate::store::types::{Event, KeyValue, LeaseId, Revision, Selection};

/// The format of these tables.
pub(super) const FORMAT: u64 = 1;

pub(super) const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
pub(super) const KEYS: TableDefinition<'static, &[u8], Stored> = TableDefinition::new("keys");
pub(super) const HISTORY: TableDefinition<'static, (Revision, u32), Change> =
    TableDefinition::new("history");
pub(super) const LEASES: TableDefinition<'static, u64, u64> = TableDefinition::new("leases");
pub(super) const ATTACHED: TableDefinition<'static, (u64, &[u8]), ()> =
    TableDefinition::new("attached");

type Stored = (u64, u64, u64, u64, &'static [u8]);
type ChangeNow<'a> = (bool, &'a [u8], u64, u64, u64, &'a [u8]);
type Change = (bool, &'static [u8], u64, u64, u64, &'static [u8]);

/// Turns any of redb's errors into one of the store.
pub(super) fn failed(error: impl Into<redb::Error>) -> StoreError {
    StoreError::failed(error.into())
}

/// A number of `meta`, 0 before it is set.
pub(super) fn number(
    meta: &impl ReadableTable<&'static str, u64>,
    name: &str,
) -> Result<u64, StoreError> {
    Ok(meta.get(name).map_err(failed)?.map_or(0, |found| found.value()))
}

fn kv_of(
    key: &[u8],
    (create, changed, version, lease, value): (u64, u64, u64, u64, &[u8]),
) -> KeyValue {
    KeyValue {
        key: key.to_vec(),
        value: value.to_vec(),
        create_revision: create,
        mod_revision: changed,
        version,
        lease: (lease != 0).then_some(LeaseId(lease)),
    }
}

/// The keys of a selection, in their order.
pub(super) fn select(
    keys: &impl ReadableTable<&'static [u8], Stored>,
    selection: &Selection,
) -> Result<Vec<KeyValue>, StoreError> {
    if let Selection::Key(key) = selection {
        let found = keys.get(key.as_slice()).map_err(failed)?;
        return Ok(found.map(|found| kv_of(key, found.value())).into_iter().collect());
    }
    let mut kvs = Vec::new();
    for entry in keys.range(selection.start()..).map_err(failed)? {
        let (key, value) = entry.map_err(failed)?;
        if !selection.includes(key.value()) {
            break;
        }
        kvs.push(kv_of(key.value(), value.value()));
    }
    Ok(kvs)
}

/// The changes from a revision on, with the revision of each, until `events_max` of them were looked
/// at; a revision that was begun is given as a whole.
pub(super) fn changes(
    history: &impl ReadableTable<(Revision, u32), Change>,
    from: Revision,
    events_max: usize,
) -> Result<Vec<(Revision, Event)>, StoreError> {
    let mut found: Vec<(Revision, Event)> = Vec::new();
    for entry in history.range((from, 0)..).map_err(failed)? {
        let (place, change) = entry.map_err(failed)?;
        let (revision, _) = place.value();
        if found.len() >= events_max && found.last().is_some_and(|(last, _)| *last != revision) {
            break;
        }
        let (is_put, key, create, version, lease, value) = change.value();
        let event = if is_put {
            Event::Put(kv_of(key, (create, revision, version, lease, value)))
        } else {
            Event::Delete { key: key.to_vec(), mod_revision: revision }
        };
        found.push((revision, event));
    }
    Ok(found)
}

/// All tables, open for writing, and the revision that the changes belong to.
pub(super) struct Tables<'t> {
    pub(super) meta: redb::Table<'t, &'static str, u64>,
    keys: redb::Table<'t, &'static [u8], Stored>,
    history: redb::Table<'t, (Revision, u32), Change>,
    pub(super) leases: redb::Table<'t, u64, u64>,
    attached: redb::Table<'t, (u64, &'static [u8]), ()>,
    before: Revision,
    /// Changes so far; the first makes a new revision.
    changes: u32,
    history_bytes: u64,
}

pub(super) const HISTORY_BYTES: &str = "history_bytes";

/// What a change takes in the history.
fn size_of((_, key, _, _, _, value): ChangeNow<'_>) -> u64 {
    (key.len() + value.len()) as u64
}

/// What the whole history takes, counted anew.
pub(super) fn history_bytes(
    history: &impl ReadableTable<(Revision, u32), Change>,
) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for entry in history.iter().map_err(failed)? {
        let (_, change) = entry.map_err(failed)?;
        bytes += size_of(change.value());
    }
    Ok(bytes)
}

impl<'t> Tables<'t> {
    /// Opens them, and makes them in an empty database. The history takes so many bytes now.
    pub(super) fn open(
        transaction: &'t WriteTransaction,
        history_bytes: u64,
    ) -> Result<Self, StoreError> {
        let meta = transaction.open_table(META).map_err(failed)?;
        let before = number(&meta, "revision")?;
        Ok(Self {
            meta,
            keys: transaction.open_table(KEYS).map_err(failed)?,
            history: transaction.open_table(HISTORY).map_err(failed)?,
            leases: transaction.open_table(LEASES).map_err(failed)?,
            attached: transaction.open_table(ATTACHED).map_err(failed)?,
            before,
            changes: 0,
            history_bytes,
        })
    }

    fn note(&mut self, place: (Revision, u32), change: ChangeNow<'_>) -> Result<(), StoreError> {
        self.history_bytes += size_of(change);
        self.history.insert(place, change).map_err(failed)?;
        Ok(())
    }

    /// The revision of the store, if this were committed now.
    pub(super) fn revision(&self) -> Revision {
        self.before + u64::from(self.changes > 0)
    }

    /// What is there, with what was changed so far.
    pub(super) fn select(&self, selection: &Selection) -> Result<Vec<KeyValue>, StoreError> {
        select(&self.keys, selection)
    }

    /// Sets a key.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        lease: Option<LeaseId>,
    ) -> Result<(), StoreError> {
        if let Some(lease) = lease {
            self.leases.get(lease.0).map_err(failed)?.ok_or(StoreError::NoLease(lease))?;
        }
        let old = self.select(&Selection::key(key))?.pop();
        let place = self.next_place();
        let create = old.as_ref().map_or(place.0, |kv| kv.create_revision);
        let version = old.as_ref().map_or(1, |kv| kv.version + 1);
        if let Some(old) = old.and_then(|kv| kv.lease) {
            self.attached.remove((old.0, key)).map_err(failed)?;
        }
        let number = lease.map_or(0, |lease| lease.0);
        if lease.is_some() {
            self.attached.insert((number, key), ()).map_err(failed)?;
        }
        self.keys.insert(key, (create, place.0, version, number, value)).map_err(failed)?;
        self.note(place, (true, key, create, version, number, value))
    }

    /// Takes keys away and says how many.
    pub(super) fn delete(&mut self, selection: &Selection) -> Result<usize, StoreError> {
        let kvs = self.select(selection)?;
        for kv in &kvs {
            let key = kv.key.as_slice();
            self.keys.remove(key).map_err(failed)?;
            if let Some(lease) = kv.lease {
                self.attached.remove((lease.0, key)).map_err(failed)?;
            }
            let place = self.next_place();
            self.note(place, (false, key, 0, 0, 0, &[]))?;
        }
        Ok(kvs.len())
    }

    /// Ends a lease and its keys, in one revision.
    pub(super) fn end_lease(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        self.leases.remove(lease.0).map_err(failed)?.ok_or(StoreError::NoLease(lease))?;
        let mut keys = Vec::new();
        for entry in self.attached.range((lease.0, &[][..])..).map_err(failed)? {
            let (place, ()) =
                entry.map(|(place, nothing)| (place, nothing.value())).map_err(failed)?;
            let (of, key) = place.value();
            if of != lease.0 {
                break;
            }
            keys.push(key.to_vec());
        }
        for key in keys {
            let gone = self.delete(&Selection::Key(key))?;
            debug_assert_eq!(gone, 1, "an attached key is there");
        }
        Ok(())
    }

    /// Forgets the history up to `revision`, which is there.
    pub(super) fn compact(&mut self, revision: Revision) -> Result<(), StoreError> {
        debug_assert!(revision <= self.revision(), "what is not there is not forgotten");
        let mut freed = 0;
        let gone = self.history.retain_in(..(revision + 1, 0), |_, change| {
            freed += size_of(change);
            false
        });
        gone.map_err(failed)?;
        debug_assert!(freed <= self.history_bytes, "all that is in the history was counted");
        self.history_bytes = self.history_bytes.saturating_sub(freed);
        self.meta.insert("compacted", revision).map_err(failed)?;
        Ok(())
    }

    /// Forgets the oldest of the history until it takes no more than this, or the newest revision alone is left.
    pub(super) fn cut_history(&mut self, bytes_max: u64) -> Result<(), StoreError> {
        let excess = self.history_bytes.saturating_sub(bytes_max);
        let forgotten = self.oldest(excess)?.min(self.before.saturating_sub(1));
        if excess > 0 && forgotten > number(&self.meta, "compacted")? {
            self.compact(forgotten)?;
        }
        Ok(())
    }

    /// Notes the revision, forgets older ones than so many, and says what the history takes.
    pub(super) fn finish(mut self, revisions_kept: u64) -> Result<(Revision, u64), StoreError> {
        let revision = self.revision();
        if self.changes > 0 {
            self.meta.insert("revision", revision).map_err(failed)?;
            let forgotten = revision.saturating_sub(revisions_kept);
            if forgotten > number(&self.meta, "compacted")? {
                self.compact(forgotten)?;
            }
        }
        self.meta.insert(HISTORY_BYTES, self.history_bytes).map_err(failed)?;
        Ok((revision, self.history_bytes))
    }

    /// The revision up to which the history takes so many bytes.
    fn oldest(&self, bytes: u64) -> Result<Revision, StoreError> {
        let mut found = 0;
        for entry in self.history.iter().map_err(failed)? {
            let (place, change) = entry.map_err(failed)?;
            found += size_of(change.value());
            if found >= bytes {
                return Ok(place.value().0);
            }
        }
        Ok(self.before)
    }

    fn next_place(&mut self) -> (Revision, u32) {
        let place = (self.before + 1, self.changes);
        self.changes += 1;
        place
    }
}
