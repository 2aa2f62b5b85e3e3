//! The store in clusters of real etcd: the suite, namespaces, members that die or fall silent, history that is gone,
//! TLS and users.

mod cluster;
mod users;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::StreamExt;

use self::cluster::Cluster;
use super::*;
use crate::store::suite::{self, Subject, commit, everything, wait, watched};
use crate::store::types::{Batch, Op};

/// A store with the cluster that it is in.
struct Opened {
    store: Etcd,
    cluster: Cluster,
}

impl Opened {
    fn of(members: usize) -> Self {
        let cluster = Cluster::start(members);
        let store = Etcd::new(cluster.options("drystone/test/")).expect("a thread starts");
        Self { store, cluster }
    }
}

impl Subject for Opened {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    /// Leases of etcd go by its own clock, which looks for their ends twice a second.
    fn pass(&self, time: Duration) {
        thread::sleep(time + Duration::from_millis(600));
    }
}

#[test]
fn the_suite_passes() {
    suite::all(&|| Box::new(Opened::of(1)));
}

#[test]
fn namespaces_know_nothing_of_each_other() {
    let cluster = Cluster::start(1);
    let store = |namespace| Etcd::new(cluster.options(namespace)).expect("a thread starts");
    let (one, other, all) = (store("one/"), store("two/"), store(""));
    let put = |store: &Etcd, value| {
        let put = Transaction::always(vec![Op::put("key", value)]);
        wait(store.commit(put)).expect("it is taken").revision
    };
    let (first, second) = (put(&one, "1"), put(&other, "2"));
    let found = wait(one.range(Selection::prefix(""))).expect("it is read");
    assert_eq!((found.revision, found.kvs.len()), (second, 1));
    assert_eq!((&found.kvs[0].key[..], &found.kvs[0].value[..]), (&b"key"[..], &b"1"[..]));
    let whole = wait(all.range(Selection::prefix(""))).expect("it is read");
    let keys: Vec<_> = whole.kvs.iter().map(|kv| kv.key.as_slice()).collect();
    assert_eq!(keys, [&b"one/key"[..], b"two/key"]);
    wait(one.commit(Transaction::always(vec![Op::Delete(Selection::prefix(""))]))).expect("done");
    assert_eq!(wait(other.range(Selection::key("key"))).expect("it is read").kvs.len(), 1);
    let mut watch = one.watch(Selection::prefix(""), 1);
    let said =
        [wait(watch.next()), wait(watch.next())].map(|said| said.expect("more").expect("ok"));
    let [made, gone] = &said;
    assert_eq!((made.revision, gone.revision), (first, second + 1));
    assert_eq!(gone.events[0].key(), b"key");
}

/// One writer counts in a key of its own, comparing the revision that it knows, so that a request of which nobody
/// knows whether it was done cannot be done twice. What was answered is there in the end.
fn count_up(store: &Etcd, key: &str, until: &AtomicBool) -> u64 {
    let mut acknowledged = 0;
    while !until.load(Ordering::SeqCst) {
        let Ok(range) = wait(store.range(Selection::key(key))) else { continue };
        let (at, count) = range.kvs.first().map_or((0, 0), |kv| {
            let count: u64 = String::from_utf8_lossy(&kv.value).parse().expect("it is a number");
            (kv.mod_revision, count)
        });
        assert!(count >= acknowledged, "{key}: {acknowledged} was acknowledged, {count} is there");
        let put = vec![Op::put(key, (count + 1).to_string())];
        let when = vec![crate::store::Compare::unchanged(key, at)];
        let done = wait(store.commit(Transaction::when(when, put)));
        if done.is_ok_and(|outcome| outcome.succeeded) {
            acknowledged = count + 1;
        }
    }
    acknowledged
}

/// Every value once and in order, whatever it was that ended the connection in between.
fn numbers(batches: &[Batch], key: &str) -> Vec<u64> {
    let events = batches.iter().flat_map(|batch| &batch.events);
    let puts = events.filter(|event| event.key() == key.as_bytes()).map(|event| match event {
        crate::store::Event::Put(kv) => String::from_utf8_lossy(&kv.value).parse().expect("number"),
        crate::store::Event::Delete { .. } => panic!("nobody deletes"),
    });
    puts.collect()
}

#[test]
fn members_that_die_and_fall_silent_lose_and_repeat_nothing() {
    let mut opened = Opened::of(3);
    let until = AtomicBool::new(false);
    let first = commit(&opened, vec![Op::put("begin", "")]).revision;
    let (store, cluster) = (&opened.store, &mut opened.cluster);
    let keys = ["a", "b"];
    let acknowledged = thread::scope(|scope| {
        let writers = keys.map(|key| scope.spawn(|| count_up(store, key, &until)));
        for member in 0..3 {
            thread::sleep(Duration::from_millis(700));
            cluster.kill(member);
            thread::sleep(Duration::from_millis(1_500));
            cluster.start_again(member);
            cluster.await_health();
            let silent = (member + 1) % 3;
            cluster.pause(silent);
            thread::sleep(Duration::from_millis(2_500));
            cluster.go_on(silent);
        }
        until.store(true, Ordering::SeqCst);
        writers.map(|writer| writer.join().expect("it counts"))
    });
    let last = everything(&opened);
    let heard = watched(&opened, Selection::prefix(""), first + 1, last.revision);
    let revisions: BTreeSet<_> = heard.iter().map(|batch| batch.revision).collect();
    assert_eq!(revisions.len(), heard.len(), "no revision comes twice");
    for (key, acknowledged) in keys.into_iter().zip(acknowledged) {
        let kv = last.kvs.iter().find(|kv| kv.key == key.as_bytes()).expect("it was counted");
        let count: u64 = String::from_utf8_lossy(&kv.value).parse().expect("it is a number");
        assert!(count >= acknowledged && acknowledged > 20, "{key}: {acknowledged} of {count}");
        assert_eq!(numbers(&heard, key), (1..=count).collect::<Vec<_>>(), "{key}");
    }
}

/// A watch that hears while its member dies again and again.
#[test]
fn a_watch_goes_on_over_members_that_die() {
    let mut opened = Opened::of(3);
    let first = commit(&opened, vec![Op::put("begin", "")]).revision;
    let until = AtomicBool::new(false);
    let (store, cluster) = (&opened.store, &mut opened.cluster);
    let heard = thread::scope(|scope| {
        let writer = scope.spawn(|| count_up(store, "a", &until));
        let follower = scope.spawn(|| {
            let mut watch = store.watch(Selection::key("a"), first + 1);
            let mut heard = Vec::new();
            while heard.last().is_none_or(|batch: &Batch| !ends(batch)) {
                heard.push(wait(watch.next()).expect("a watch does not end").expect("it is whole"));
            }
            heard
        });
        for member in 0..3 {
            thread::sleep(Duration::from_millis(500));
            cluster.kill(member);
            thread::sleep(Duration::from_millis(1_000));
            cluster.start_again(member);
            cluster.await_health();
        }
        until.store(true, Ordering::SeqCst);
        writer.join().expect("it counts");
        wait(store.commit(Transaction::always(vec![Op::put("a", "0")]))).expect("it is taken");
        follower.join().expect("it follows")
    });
    let mut counted = numbers(&heard, "a");
    assert_eq!(counted.pop(), Some(0));
    let count = u64::try_from(counted.len()).expect("few");
    assert!(count > 20, "{count}");
    assert_eq!(counted, (1..=count).collect::<Vec<_>>());
}

/// What the test writes last.
fn ends(batch: &Batch) -> bool {
    matches!(&batch.events[..], [crate::store::Event::Put(kv)] if kv.value == b"0")
}

#[test]
fn a_cluster_without_a_majority_is_said_in_time_and_waited_for() {
    let opened = Opened::of(3);
    let first = commit(&opened, vec![Op::put("a", "1")]).revision;
    let mut watch = opened.store.watch(Selection::key("a"), first + 1);
    opened.cluster.pause(0);
    opened.cluster.pause(1);
    let begin = Instant::now();
    let read = wait(opened.store.range(Selection::key("a")));
    let written = wait(opened.store.commit(Transaction::always(vec![Op::put("a", "2")])));
    let took = begin.elapsed();
    assert!(took < 2 * REQUEST_TIME + Duration::from_secs(1), "{took:?}");
    for refused in [read.map(|_| ()), written.map(|_| ())] {
        assert!(matches!(&refused, Err(StoreError::Failed(_))), "{refused:?}");
    }
    opened.cluster.go_on(0);
    opened.cluster.go_on(1);
    opened.cluster.await_health();
    commit(&opened, vec![Op::put("a", "3")]);
    // The write that nobody knew about may have been done.
    loop {
        let batch = wait(watch.next()).expect("a watch does not end").expect("nothing is gone");
        let crate::store::Event::Put(kv) = &batch.events[0] else { panic!("{batch:?}") };
        match &kv.value[..] {
            b"2" => {}
            b"3" => break,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_watch_that_slept_through_a_compaction_says_so() {
    let mut opened = Opened::of(1);
    let first = commit(&opened, vec![Op::put("a", "1")]).revision;
    let mut watch = opened.store.watch(Selection::key("a"), first);
    assert_eq!(wait(watch.next()).expect("more").expect("whole").revision, first);
    opened.cluster.kill(0);
    // Nobody else speaks for the store of the test while its cluster is away.
    opened.cluster.start_again(0);
    opened.cluster.await_health();
    let other = Etcd::new(opened.cluster.options("drystone/test/")).expect("a thread starts");
    let put = |value: &str| Transaction::always(vec![Op::put("a", value)]);
    let mut last = first;
    for value in 0..5 {
        last = wait(other.commit(put(&value.to_string()))).expect("it is taken").revision;
    }
    wait(other.compact(last)).expect("it is there");
    let mut behind = other.watch(Selection::key("a"), first + 1);
    let said = wait(behind.next());
    assert!(matches!(said, Some(Err(StoreError::Compacted { .. }))), "{said:?}");
    assert!(wait(behind.next()).is_none());
    // At the revision of the compaction itself, what was deleted in it would be left out.
    let gone = wait(other.commit(Transaction::always(vec![Op::Delete(Selection::key("a"))])));
    let gone = gone.expect("it is taken").revision;
    wait(other.compact(gone)).expect("it is there");
    let said = wait(other.watch(Selection::key("a"), gone).next());
    assert!(matches!(said, Some(Err(StoreError::Compacted { .. }))), "{said:?}");
    let later = wait(other.commit(put("later"))).expect("it is taken").revision;
    let said = wait(other.watch(Selection::key("a"), gone + 1).next()).expect("more");
    assert_eq!(said.expect("it is whole").revision, later);
}

#[test]
fn what_etcd_does_not_take_is_said_with_what_to_do() {
    let cluster = Cluster::start_with(1, &["--max-txn-ops=8"]);
    let store = Etcd::new(cluster.options("x/")).expect("a thread starts");
    let puts = (0..9).map(|number| Op::put(format!("{number}"), "")).collect();
    let said = wait(store.commit(Transaction::always(puts))).expect_err("they are too many");
    assert!(said.to_string().contains("--max-txn-ops=4096"), "{said}");
}

#[test]
fn a_cluster_that_is_not_there_is_said_in_time() {
    let mut cluster = Cluster::start(1);
    let store = Etcd::new(cluster.options("x/")).expect("a thread starts");
    cluster.kill(0);
    let begin = Instant::now();
    let said = wait(store.range(Selection::prefix(""))).expect_err("nobody is there");
    assert!(begin.elapsed() <= REQUEST_TIME + Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(said.to_string().contains("etcd"), "{said}");
    cluster.start_again(0);
    cluster.await_health();
    wait(store.range(Selection::prefix(""))).expect("it is there again");
}

#[test]
fn a_store_that_is_dropped_ends_its_watches_and_its_thread() {
    let opened = Opened::of(1);
    let mut watch = opened.store.watch(Selection::prefix(""), 1);
    let Opened { store, cluster } = opened;
    drop(store);
    assert!(wait(watch.next()).is_none());
    drop(cluster);
}

#[test]
fn requests_and_watches_go_where_the_endpoints_are_now() {
    let mut cluster = Cluster::start(3);
    let endpoints = cluster.endpoints();
    let first_alone = EtcdOptions { endpoints: endpoints[..1].to_vec(), ..cluster.options("x/") };
    let store = Etcd::new(first_alone).expect("a thread starts");
    let put = |value: &str| Transaction::always(vec![Op::put("a", value)]);
    let first = wait(store.commit(put("1"))).expect("it is taken").revision;
    let mut watch = store.watch(Selection::key("a"), first);
    assert_eq!(wait(watch.next()).expect("more").expect("whole").revision, first);
    store.set_endpoints(Vec::new());
    wait(store.range(Selection::key("a"))).expect("no endpoints are those that were");
    store.set_endpoints(endpoints[1..].to_vec());
    cluster.kill(0);
    // The others may have to elect a leader.
    let begin = Instant::now();
    while let Err(error) = wait(store.range(Selection::key("a"))) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{error}\n{}", cluster.logs());
    }
    assert_eq!(wait(store.members()).expect("two of three answer").len(), 3);
    let second = wait(store.commit(put("2"))).expect("it is taken").revision;
    assert_eq!(wait(watch.next()).expect("more").expect("whole").revision, second);
}

#[test]
fn members_of_the_cluster_come_and_go_one_at_a_time() {
    let cluster = Cluster::start(1);
    let store = Etcd::new(cluster.options("x/")).expect("a thread starts");
    let alone = wait(store.members()).expect("it answers");
    assert_eq!(alone.len(), 1);
    let first = &alone[0];
    assert!(first.is_started() && !first.is_learner, "{first:?}");
    assert_eq!((first.name.as_str(), &first.client_urls), ("m0", &cluster.endpoints()));
    let url = "http://127.0.0.1:1".to_owned();
    let id = wait(store.add_learner(url.clone())).expect("it is added");
    assert_eq!(wait(store.add_learner(url.clone())).expect("it is there"), id);
    let second = wait(store.add_learner("http://127.0.0.1:2".into()));
    assert!(matches!(second, Err(EtcdMemberError::Unhealthy)), "one learner: {second:?}");
    let early = wait(store.promote(id));
    assert!(matches!(early, Err(EtcdMemberError::NotReady)), "it was never there: {early:?}");
    let members = wait(store.members()).expect("it answers");
    let learner = members.iter().find(|member| member.id == id).expect("it is told");
    assert!(learner.is_learner && !learner.is_started(), "{learner:?}");
    assert_eq!((&learner.peer_urls, learner.client_urls.len()), (&vec![url], 0));
    for _ in 0..2 {
        wait(store.remove(id)).expect("it is gone, and then it is not there");
    }
    wait(store.promote(first.id)).expect("it has its vote");
    assert_eq!(wait(store.members()).expect("it answers").len(), 1);
}
