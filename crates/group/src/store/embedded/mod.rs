//! The store of a group of one: an embedded database (redb) on a file or on any device of bytes.
//!
//! A request does its work, and waits for its device, when it is first polled: let it be polled by a
//! thread that may block. Leases end by a clock that is given; a store that is opened lets those it finds
//! begin their time again, since nobody could keep them alive meanwhile.

mod bell;
mod place;
mod tables;
mod watch;

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableError};

use super::error::StoreError;
use super::types::{
    Answer, Event, LeaseId, Op, Outcome, Range, Revision, Selection, Transaction, check_selection,
    lease_seconds,
};
use super::{Pending, Store, Watch};
use crate::mutants::{self, Mutant};
use bell::Bell;
use tables::{FORMAT, HISTORY, HISTORY_BYTES, KEYS, LEASES, META, Tables, failed, number};

pub use place::Place;

/// The time since some moment, never less than before. It ends leases.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// How an embedded store is kept.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many revisions a watch may be behind: older history is compacted away by itself.
    pub revisions_kept: u64,
    /// Bytes of keys and values in that history: what is set again and again must not fill a small device.
    pub history_bytes_max: u64,
    /// Memory for pages that were read or wait to be written.
    pub cache_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { revisions_kept: 10_000, history_bytes_max: 2 << 20, cache_bytes: 4 << 20 }
    }
}

impl Options {
    /// Those of a store that nobody watches from afar, on a device of few MiB.
    #[must_use]
    pub fn on_small_device() -> Self {
        Self { history_bytes_max: 256 << 10, ..Self::default() }
    }
}

/// What is forgotten first of a history that may have filled its device: to forget takes room, too, the more of
/// it the more is forgotten at once.
const FIRST_CUT_BYTES: u64 = 16 << 10;

/// A store in an embedded database. Dropping it closes it and ends its watches.
pub struct Embedded {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    database: Database,
    clock: Clock,
    options: Options,
    bell: Arc<Bell>,
    /// Whoever changes the database holds it.
    held: Mutex<Held>,
}

/// What is known of the database beside what it says itself.
struct Held {
    /// When each lease ends.
    leases: Leases,
    /// What the history takes. Earlier versions did not write it down.
    history_bytes: u64,
}

type Leases = BTreeMap<LeaseId, Duration>;

impl Debug for Embedded {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Embedded").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.bell.close();
    }
}

impl Embedded {
    /// Opens the store at this place, or makes an empty one where there is nothing. A history that is longer
    /// than it may be, as earlier versions left it, is cut first: it may have filled its device.
    ///
    /// # Errors
    /// What the place holds is no store, is damaged or of a later format, or it cannot be read or written.
    #[expect(clippy::needless_pass_by_value, reason = "who opens a store gives its place away")]
    pub fn open(place: Place, clock: Clock, options: Options) -> Result<Self, StoreError> {
        let shared = Shared::open(&place, &clock, options)?;
        let is_cut = shared.cut_history(&mut shared.held(), FIRST_CUT_BYTES);
        let shared = match is_cut {
            Ok(()) => shared,
            // It can be read all the same, if it is opened anew: after a write that fails redb takes none.
            Err(_) => {
                drop(shared);
                Shared::open(&place, &clock, options)?
            }
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Ends the leases whose time has come, and says how long it is until the next one ends. Each
    /// request does so too: this is for watches, who shall hear of it even if nobody asks for anything.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn expire(&self) -> Result<Option<Duration>, StoreError> {
        let mut held = self.shared.held();
        let now = self.shared.end_leases_due(&mut held)?;
        Ok(held.leases.values().min().map(|end| end.saturating_sub(now)))
    }
}

/// What a database says when it is opened, where leases begin their time again; `None` if it has no tables.
fn look(database: &Database, now: Duration) -> Result<Option<(Revision, Held)>, StoreError> {
    let transaction = database.begin_read().map_err(failed)?;
    let meta = match transaction.open_table(META) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        meta => meta.map_err(failed)?,
    };
    let found = number(&meta, "format")?;
    if found != FORMAT {
        return Err(StoreError::Format { found, known: FORMAT });
    }
    let mut leases = Leases::new();
    let stored = transaction.open_table(LEASES).map_err(failed)?;
    for entry in stored.iter().map_err(failed)? {
        let (lease, seconds) = entry.map_err(failed)?;
        leases.insert(LeaseId(lease.value()), now + Duration::from_secs(seconds.value()));
    }
    let counted = meta.get(HISTORY_BYTES).map_err(failed)?.map(|bytes| bytes.value());
    let history_bytes = match counted {
        Some(bytes) => bytes,
        None => tables::history_bytes(&transaction.open_table(HISTORY).map_err(failed)?)?,
    };
    Ok(Some((number(&meta, "revision")?, Held { leases, history_bytes })))
}

/// Makes the tables of an empty database.
fn make(database: &Database) -> Result<(Revision, Held), StoreError> {
    let transaction = database.begin_write().map_err(failed)?;
    let mut tables = Tables::open(&transaction, 0)?;
    for (name, value) in [("format", FORMAT), ("revision", 1), ("compacted", 0), ("next_lease", 1)]
    {
        tables.meta.insert(name, value).map_err(failed)?;
    }
    let (revision, history_bytes) = tables.finish(u64::MAX)?;
    transaction.commit().map_err(failed)?;
    Ok((revision, Held { leases: Leases::new(), history_bytes }))
}

impl Shared {
    /// Opens what is there, or makes it. What is there is read and not written.
    fn open(place: &Place, clock: &Clock, options: Options) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(options.cache_bytes);
        let database = place.open(&builder)?;
        let (revision, held) = match look(&database, clock())? {
            Some(found) => found,
            None => make(&database)?,
        };
        let bell = Arc::new(Bell::default());
        bell.ring(revision);
        Ok(Self { database, clock: clock.clone(), options, bell, held: Mutex::new(held) })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on the tables and commits what it changed; nothing of it if it fails.
    fn change<T>(
        &self,
        held: &mut Held,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, StoreError>,
    ) -> Result<(T, Revision), StoreError> {
        self.cut_history(held, u64::MAX)?;
        self.transact(held, work)
    }

    fn transact<T>(
        &self,
        held: &mut Held,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, StoreError>,
    ) -> Result<(T, Revision), StoreError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        if mutants::is(Mutant::EarlyAnswer) {
            transaction.set_durability(Durability::None).map_err(failed)?;
        }
        let mut tables = Tables::open(&transaction, held.history_bytes)?;
        // What fails leaves here, and redb takes back a transaction that is dropped.
        let answer = work(&mut tables)?;
        let (revision, history_bytes) = tables.finish(self.options.revisions_kept)?;
        transaction.commit().map_err(failed)?;
        held.history_bytes = history_bytes;
        self.bell.ring(revision);
        Ok((answer, revision))
    }

    /// Leaves a half of what the history may take, where it takes more: else each change from now on would have
    /// to look for the next that goes. It does so before a change, and not with it: the change needs the room.
    /// The first transaction forgets `step` bytes, each of those behind it twice as many as the one before.
    fn cut_history(&self, held: &mut Held, mut step_bytes: u64) -> Result<(), StoreError> {
        let bytes_max = self.options.history_bytes_max;
        if held.history_bytes <= bytes_max {
            return Ok(());
        }
        loop {
            let before = held.history_bytes;
            let left = before.saturating_sub(step_bytes).max(bytes_max / 2);
            self.transact(held, |tables| tables.cut_history(left))?;
            // What one transaction of redb frees is written to by those behind the next one.
            self.transact(held, |_| Ok(()))?;
            // The newest revision stays, however large it is.
            if left == bytes_max / 2 || held.history_bytes == before {
                return Ok(());
            }
            step_bytes = step_bytes.saturating_mul(2);
        }
    }

    /// Ends each lease whose time has come in a revision of its own, and says what time it is.
    fn end_leases_due(&self, held: &mut Held) -> Result<Duration, StoreError> {
        let now = (self.clock)();
        let ended = held.leases.iter().filter(|(_, end)| **end <= now);
        let due: Vec<LeaseId> = ended.map(|(lease, _)| *lease).collect();
        for lease in due {
            self.change(held, |tables| tables.end_lease(lease))?;
            held.leases.remove(&lease);
        }
        Ok(now)
    }

    fn range(&self, selection: &Selection) -> Result<Range, StoreError> {
        check_selection(selection)?;
        self.end_leases_due(&mut self.held())?;
        let transaction = self.database.begin_read().map_err(failed)?;
        let meta = transaction.open_table(META).map_err(failed)?;
        let keys = transaction.open_table(KEYS).map_err(failed)?;
        let kvs = tables::select(&keys, selection)?;
        Ok(Range { revision: number(&meta, "revision")?, kvs })
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        transaction.check()?;
        let mut held = self.held();
        self.end_leases_due(&mut held)?;
        let run = |tables: &mut Tables<'_>| {
            let mut succeeded = true;
            for compare in &transaction.compares {
                let found = tables.select(&Selection::key(compare.key.as_slice()))?.pop();
                succeeded &= compare.holds(found.as_ref());
            }
            let ops = if succeeded { &transaction.then } else { &transaction.otherwise };
            let answers = ops.iter().map(|op| apply(tables, op)).collect::<Result<_, _>>()?;
            Ok((succeeded, answers))
        };
        let ((succeeded, answers), revision) = self.change(&mut held, run)?;
        Ok(Outcome { succeeded, revision, answers })
    }

    fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        self.change(&mut self.held(), |tables| {
            let (present, compacted) = (tables.revision(), number(&tables.meta, "compacted")?);
            if revision > present {
                return Err(StoreError::Future { asked: revision, present });
            }
            if revision <= compacted {
                return Err(StoreError::Compacted { compacted });
            }
            tables.compact(revision)
        })?;
        Ok(())
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        let seconds = lease_seconds(ttl)?;
        let mut held = self.held();
        let now = self.end_leases_due(&mut held)?;
        let (lease, _) = self.change(&mut held, |tables| {
            let lease = number(&tables.meta, "next_lease")?;
            tables.meta.insert("next_lease", lease + 1).map_err(failed)?;
            tables.leases.insert(lease, seconds).map_err(failed)?;
            Ok(LeaseId(lease))
        })?;
        held.leases.insert(lease, now + Duration::from_secs(seconds));
        Ok(lease)
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<Duration, StoreError> {
        let mut held = self.held();
        let now = self.end_leases_due(&mut held)?;
        let end = held.leases.get_mut(&lease).ok_or(StoreError::NoLease(lease))?;
        let transaction = self.database.begin_read().map_err(failed)?;
        let table = transaction.open_table(LEASES).map_err(failed)?;
        let seconds = number_of(&table, lease)?;
        *end = now + seconds;
        Ok(seconds)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let mut held = self.held();
        self.end_leases_due(&mut held)?;
        self.change(&mut held, |tables| tables.end_lease(lease))?;
        held.leases.remove(&lease);
        Ok(())
    }

    /// The changes from `from` on, at least `events` of them if there are, and the revision up to which
    /// these are all.
    fn changes(
        &self,
        from: Revision,
        events: usize,
    ) -> Result<(Vec<(Revision, Event)>, Revision), StoreError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let meta = transaction.open_table(META).map_err(failed)?;
        let compacted = number(&meta, "compacted")?;
        if from <= compacted {
            return Err(StoreError::Compacted { compacted });
        }
        let history = transaction.open_table(HISTORY).map_err(failed)?;
        let found = tables::changes(&history, from, events)?;
        let reached = match found.last() {
            Some((last, _)) if found.len() >= events => *last,
            _ => number(&meta, "revision")?,
        };
        Ok((found, reached))
    }
}

/// The time of a lease as it was granted.
fn number_of(
    table: &impl redb::ReadableTable<u64, u64>,
    lease: LeaseId,
) -> Result<Duration, StoreError> {
    let seconds = table.get(lease.0).map_err(failed)?.ok_or(StoreError::NoLease(lease))?;
    Ok(Duration::from_secs(seconds.value()))
}

fn apply(tables: &mut Tables<'_>, op: &Op) -> Result<Answer, StoreError> {
    Ok(match op {
        Op::Put { key, value, lease } => {
            tables.put(key, value, *lease)?;
            Answer::Put
        }
        Op::Delete(selection) => Answer::Deleted(tables.delete(selection)?),
        Op::Range(selection) => Answer::Found(tables.select(selection)?),
    })
}

impl Store for Embedded {
    fn range(&self, selection: Selection) -> Pending<'_, Range> {
        async move { self.shared.range(&selection) }.boxed()
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Outcome> {
        async move { self.shared.commit(&transaction) }.boxed()
    }

    fn watch(&self, selection: Selection, from: Revision) -> Watch {
        watch::watch(&self.shared, selection, from)
    }

    fn compact(&self, revision: Revision) -> Pending<'_, ()> {
        async move { self.shared.compact(revision) }.boxed()
    }

    fn grant(&self, ttl: Duration) -> Pending<'_, LeaseId> {
        async move { self.shared.grant(ttl) }.boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> Pending<'_, Duration> {
        async move { self.shared.keep_alive(lease) }.boxed()
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        async move { self.shared.revoke(lease) }.boxed()
    }
}
