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
    suite::all(&|| Box::new(Opened::at(Place::Device(Disk::new(DISK_BYTES).shared()))));
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
    let store = Opened::at(Place::Device(disk.shared()));
    commit(&store, vec![Op::put("small", "1")]);
    for number in 0..600 {
        commit(&store, vec![Op::put("image", vec![number as u8; 100_000])]);
    }
    assert_eq!(everything(&store).kvs.len(), 2);
    // The bound holds for what was there when it is opened, too.
    drop(store);
    let store = Opened::at(Place::Device(disk.shared()));
    for number in 0..100 {
        commit(&store, vec![Op::put("image", vec![number; 100_000])]);
    }
    let last = everything(&store).revision;
    assert_eq!(watched(&store, Selection::prefix(""), last - 8, last).len(), 9, "a half is kept");
}

/// As versions that did not count the history leave a store.
fn uncount(database: &redb::Database) -> Result<Option<u64>, redb::Error> {
    let transaction = database.begin_write()?;
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    let mut table = transaction.open_table(meta)?;
    let counted = table.remove("history_bytes")?.map(|counted| counted.value());
    drop(table);
    transaction.commit()?;
    Ok(counted)
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
    let counted = uncount(&redb::Database::create(&path).unwrap()).unwrap();
    assert_eq!(counted, Some(10 * 1001));
    let options = Options { history_bytes_max: 5000, ..Options::default() };
    let store = Embedded::open(Place::File(path), Time::default().clock(), options).unwrap();
    let store = Opened { store, time: Time::default() };
    commit(&store, vec![Op::put("a", vec![1; 1000])]);
    let last = everything(&store).revision;
    assert_eq!(watched(&store, Selection::prefix(""), last - 1, last).len(), 2);
}

/// Fills a device by the history of one key, with changes of these sizes in turn until the smallest does not fit.
fn full(disk: &Disk, sizes: &[usize]) -> Range {
    let options =
        Options { revisions_kept: u64::MAX, history_bytes_max: u64::MAX, ..Options::default() };
    let open = || {
        let place = Place::Device(disk.shared());
        let store = Embedded::open(place, Time::default().clock(), options).expect("it opens");
        Opened { store, time: Time::default() }
    };
    let mut store = open();
    for size in sizes {
        let put = || Transaction::always(vec![Op::put("a", vec![1; *size])]);
        while wait(store.store().commit(put())).is_ok() {}
        drop(store);
        store = open();
    }
    everything(&store)
}

/// Version 0667b19 kept 10,000 revisions, however much they took.
#[test]
fn a_store_that_its_history_has_filled_opens_and_is_changed() {
    for sizes in [&[100_000, 8000, 300, 1][..], &[3000, 1], &[8000]] {
        let disk = Disk::new(8 << 20);
        let before = full(&disk, sizes);
        let storage = crate::bytes::Resizable::open(disk.shared()).unwrap();
        // Where there is no room even for that, the number stays.
        let database = redb::Database::builder().create_with_backend(storage).unwrap();
        drop(uncount(&database));
        drop(database);
        let store = Opened::at(Place::Device(disk.shared()));
        assert_eq!(everything(&store).kvs, before.kvs, "{sizes:?}");
        for number in 0..200 {
            commit(&store, vec![Op::put("a", vec![number; 60_000])]);
        }
        assert_eq!(everything(&store).revision, before.revision + 200, "{sizes:?}");
    }
}

/// Filled to the last page, there is not even room to forget: what is there counts, and nothing more is taken.
#[test]
fn a_store_without_room_to_forget_is_read_all_the_same() {
    let disk = Disk::new(17 << 20);
    let before = full(&disk, &[142_569, 300, 1]);
    let storage = crate::bytes::Resizable::open(disk.shared()).unwrap();
    let database = redb::Database::builder().create_with_backend(storage).unwrap();
    drop(uncount(&database));
    drop(database);
    for _ in 0..2 {
        let store = Opened::at(Place::Device(disk.shared()));
        assert_eq!(everything(&store), before);
        let put = Transaction::always(vec![Op::put("a", vec![1; 60_000])]);
        let refused = wait(store.store().commit(put));
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
    }
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
    let store = Opened::at(Place::Device(disk.shared()));
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
    let store = Opened::at(Place::Device(disk.shared()));
    assert_eq!(everything(&store).revision, acknowledged);
    commit(&store, vec![Op::put("small", "2")]);
}
