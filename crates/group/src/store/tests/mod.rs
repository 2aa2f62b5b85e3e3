//! The embedded store: the suite on each place, a model, and cuts of the power.

mod crash;
mod model;
mod properties;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::suite::{Subject, commit, everything, wait, watched};
use super::*;
use crate::bytes::testing::Disk;

/// Time that passes when a test says so.
#[derive(Debug, Clone, Default)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn pass(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).expect("tests are short");
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let now = self.0.clone();
        Arc::new(move || Duration::from_millis(now.load(Ordering::SeqCst)))
    }
}

#[derive(Debug)]
struct Opened {
    store: Embedded,
    time: Time,
}

impl Opened {
    fn at(place: Place) -> Self {
        let time = Time::default();
        let store = Embedded::open(place, time.clock(), Options::default());
        Self { store: store.expect("the store opens"), time }
    }
}

impl Subject for Opened {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn pass(&self, time: Duration) {
        self.time.pass(time);
    }
}

/// Room for what the tests store.
const DISK_BYTES: usize = 8 << 20;

#[test]
fn the_suite_passes_in_memory() {
    suite::all(&|| Box::new(Opened::at(Place::Memory)));
}

#[test]
fn the_suite_passes_on_a_device() {
    suite::all(&|| Box::new(Opened::at(Place::Device(Disk::new(DISK_BYTES).boxed()))));
}

#[test]
fn the_suite_passes_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let count = AtomicU64::new(0);
    suite::all(&|| {
        let path = dir.path().join(count.fetch_add(1, Ordering::SeqCst).to_string());
        Box::new(Opened::at(Place::File(path)))
    });
}

#[test]
fn a_file_is_opened_again_and_by_one_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Opened::at(Place::File(path.clone()));
    commit(&store, vec![Op::put("a", "1")]);
    let before = everything(&store);
    let second = Embedded::open(Place::File(path.clone()), store.time.clock(), Options::default());
    assert!(matches!(second, Err(StoreError::Failed(_))), "{second:?}");
    drop(store);
    assert_eq!(everything(&Opened::at(Place::File(path))), before);
}

#[test]
fn a_file_that_is_something_else_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("letter");
    std::fs::write(&path, "Dear operator, this is no store.").unwrap();
    let opened =
        Embedded::open(Place::File(path.clone()), Time::default().clock(), Options::default());
    assert!(matches!(opened, Err(StoreError::Failed(_))), "{opened:?}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "Dear operator, this is no store.");
}

#[test]
fn a_watch_hears_of_leases_that_end_and_of_the_end_of_the_store() {
    use futures_util::{FutureExt, StreamExt};
    let store = Opened::at(Place::Memory);
    let lease = wait(store.store().grant(Duration::from_secs(5))).unwrap();
    commit(&store, vec![Op::Put { key: "a".into(), value: Vec::new(), lease: Some(lease) }]);
    assert_eq!(store.store.expire().unwrap(), Some(Duration::from_secs(5)));
    let mut watch = store.store().watch(Selection::key("a"), 3);
    assert!(watch.next().now_or_never().is_none(), "nothing happened yet");
    store.pass(Duration::from_secs(5));
    assert_eq!(store.store.expire().unwrap(), None);
    let batch = wait(watch.next()).unwrap().unwrap();
    assert_eq!(batch.events, [Event::Delete { key: b"a".into(), mod_revision: 3 }]);
    drop(store);
    assert!(wait(watch.next()).is_none());
}

#[test]
fn history_is_compacted_by_itself_and_what_is_there_stays() {
    use futures_util::StreamExt;
    let options = Options { revisions_kept: 5, ..Options::default() };
    let store = Embedded::open(Place::Memory, Time::default().clock(), options).unwrap();
    let store = Opened { store, time: Time::default() };
    commit(&store, vec![Op::put("first", "")]);
    for _ in 0..20 {
        commit(&store, vec![Op::put("a", "")]);
    }
    assert_eq!(everything(&store).kvs.len(), 2);
    let said = wait(store.store().watch(Selection::prefix(""), 17).next()).unwrap();
    assert!(matches!(said, Err(StoreError::Compacted { compacted: 17 })), "{said:?}");
    assert_eq!(watched(&store, Selection::prefix(""), 18, 22).len(), 5);
}

/// As hosts of a cluster do that register anew again and again, on the device that a member has for its store.
#[test]
fn what_is_set_again_and_again_does_not_fill_a_device() {
    let disk = Disk::new(8 << 20);
    let store = Opened::at(Place::Device(disk.boxed()));
    commit(&store, vec![Op::put("small", "1")]);
    for number in 0..600 {
        commit(&store, vec![Op::put("image", vec![number as u8; 100_000])]);
    }
    assert_eq!(everything(&store).kvs.len(), 2);
    // The bound holds for what was there when it is opened, too.
    drop(store);
    let store = Opened::at(Place::Device(disk.boxed()));
    for number in 0..100 {
        commit(&store, vec![Op::put("image", vec![number; 100_000])]);
    }
    let last = everything(&store).revision;
    assert_eq!(watched(&store, Selection::prefix(""), last - 8, last).len(), 9, "a half is kept");
}

#[test]
fn a_store_that_did_not_count_its_history_counts_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Opened::at(Place::File(path.clone()));
    for _ in 0..10 {
        commit(&store, vec![Op::put("a", vec![1; 1000])]);
    }
    drop(store);
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    {
        let mut table = transaction.open_table(meta).unwrap();
        let counted = table.remove("history_bytes").unwrap().map(|counted| counted.value());
        assert_eq!(counted, Some(10 * 1001));
    }
    transaction.commit().unwrap();
    drop(database);
    let options = Options { history_bytes_max: 5000, ..Options::default() };
    let store = Embedded::open(Place::File(path), Time::default().clock(), options).unwrap();
    let store = Opened { store, time: Time::default() };
    commit(&store, vec![Op::put("a", vec![1; 1000])]);
    let last = everything(&store).revision;
    assert_eq!(watched(&store, Selection::prefix(""), last - 1, last).len(), 2);
}

#[test]
fn a_store_of_a_later_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    drop(Opened::at(Place::File(path.clone())));
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    transaction.open_table(meta).unwrap().insert("format", 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let opened = Embedded::open(Place::File(path), Time::default().clock(), Options::default());
    assert!(matches!(opened, Err(StoreError::Format { found: 2, known: 1 })), "{opened:?}");
}

#[test]
fn a_full_device_refuses_and_keeps_what_it_has() {
    let disk = Disk::new(2 << 20);
    let store = Opened::at(Place::Device(disk.boxed()));
    commit(&store, vec![Op::put("small", "1")]);
    let mut acknowledged = 2;
    let refused = loop {
        let big = Transaction::always(vec![Op::put("big", vec![1; 200_000])]);
        match wait(store.store().commit(big)) {
            Ok(outcome) => acknowledged = outcome.revision,
            Err(error) => break error,
        }
        assert!(acknowledged < 100, "the device has an end");
    };
    assert!(matches!(refused, StoreError::Failed(_)), "{refused:?}");
    drop(store);
    let store = Opened::at(Place::Device(disk.boxed()));
    assert_eq!(everything(&store).revision, acknowledged);
    commit(&store, vec![Op::put("small", "2")]);
}
