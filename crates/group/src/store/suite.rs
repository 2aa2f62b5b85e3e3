//! What every store must do, whatever keeps it. An implementation passes by running [`all`].

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_util::StreamExt;

use super::types::OPERATIONS_MAX;
use super::*;

/// A store under test, empty when it is made.
pub(crate) trait Subject: Sync {
    fn store(&self) -> &dyn Store;

    /// Lets time pass for leases.
    fn pass(&self, time: Duration);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs every test of the suite on a store of its own.
pub(crate) fn all(make: &dyn Fn() -> Box<dyn Subject>) {
    let tests: [fn(&dyn Subject); 13] = [
        revisions_begin_at_one_and_count_changes,
        versions_and_create_revisions_begin_again,
        ranges_are_sorted_and_end_with_their_prefix,
        comparisons_hold_as_their_table_says,
        a_transaction_runs_one_list_in_one_revision,
        steps_see_those_before_them,
        what_is_refused_changes_nothing,
        a_watch_gives_whole_revisions_in_order,
        a_watch_may_begin_in_the_future,
        a_compacted_revision_is_said,
        a_lease_takes_its_keys_along,
        a_key_leaves_its_lease,
        nothing_is_missed_among_many_writers,
    ];
    for test in tests {
        test(&*make());
    }
}

pub(crate) fn commit(subject: &dyn Subject, then: Vec<Op>) -> Outcome {
    wait(subject.store().commit(Transaction::always(then))).expect("the transaction is taken")
}

fn put(subject: &dyn Subject, key: &str, value: &str) -> Revision {
    commit(subject, vec![Op::put(key, value)]).revision
}

fn delete(subject: &dyn Subject, key: &str) -> Revision {
    commit(subject, vec![Op::Delete(Selection::key(key))]).revision
}

pub(crate) fn everything(subject: &dyn Subject) -> Range {
    wait(subject.store().range(Selection::prefix(""))).expect("the store is read")
}

fn keys(subject: &dyn Subject, selection: Selection) -> Vec<String> {
    let range = wait(subject.store().range(selection)).expect("the store is read");
    range.kvs.into_iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
}

/// What a watch says up to the revision `last`, which it has something of.
pub(crate) fn watched(
    subject: &dyn Subject,
    selection: Selection,
    from: Revision,
    last: Revision,
) -> Vec<Batch> {
    let mut watch = subject.store().watch(selection, from);
    let mut batches: Vec<Batch> = Vec::new();
    while batches.last().is_none_or(|batch| batch.revision < last) {
        let said = wait(watch.next()).expect("a watch does not end");
        batches.push(said.expect("nothing was compacted"));
    }
    batches
}

fn revisions_begin_at_one_and_count_changes(subject: &dyn Subject) {
    assert_eq!(everything(subject), Range { revision: 1, kvs: Vec::new() });
    assert_eq!(put(subject, "a", "1"), 2);
    assert_eq!(put(subject, "a", "1"), 3, "a put of the same value is a change");
    assert_eq!(delete(subject, "b"), 3, "what deletes nothing is none");
    assert_eq!(delete(subject, "a"), 4);
    let read = commit(subject, vec![Op::Range(Selection::key("a"))]);
    assert_eq!(read.revision, 4);
}

fn versions_and_create_revisions_begin_again(subject: &dyn Subject) {
    put(subject, "k", "1");
    put(subject, "k", "2");
    let kv = everything(subject).kvs.remove(0);
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (2, 3, 2));
    assert_eq!(kv.value, b"2");
    delete(subject, "k");
    put(subject, "k", "3");
    let kv = everything(subject).kvs.remove(0);
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (5, 5, 1));
}

fn ranges_are_sorted_and_end_with_their_prefix(subject: &dyn Subject) {
    for key in ["b/2", "a", "b/1", "c", "b", "b/", "b0"] {
        put(subject, key, "");
    }
    assert_eq!(keys(subject, Selection::prefix("b/")), ["b/", "b/1", "b/2"]);
    assert_eq!(keys(subject, Selection::key("b")), ["b"]);
    assert_eq!(keys(subject, Selection::prefix("d")), [""; 0]);
    assert_eq!(keys(subject, Selection::prefix("")), ["a", "b", "b/", "b/1", "b/2", "b0", "c"]);
    commit(subject, vec![Op::put([0xff, 0xff], "high"), Op::put([0xff], "")]);
    let high = wait(subject.store().range(Selection::prefix([0xff]))).expect("it is read");
    assert_eq!(high.kvs.len(), 2, "a prefix may have no successor");
    assert!(matches!(wait(subject.store().range(Selection::key(""))), Err(StoreError::EmptyKey)));
}

fn comparisons_hold_as_their_table_says(subject: &dyn Subject) {
    use Order::{Equal, Greater, Less, NotEqual};
    put(subject, "other", "");
    put(subject, "k", "m");
    put(subject, "k", "m");
    let value = |text: &str| Property::Value(text.into());
    let cases = [
        ("k", Equal, value("m"), true),
        ("k", Equal, value("n"), false),
        ("k", NotEqual, value("n"), true),
        ("k", Greater, value("l"), true),
        ("k", Less, value("mm"), true),
        ("k", Less, value("m"), false),
        ("k", Equal, Property::Create(3), true),
        ("k", Equal, Property::Mod(4), true),
        ("k", Greater, Property::Mod(4), false),
        ("k", Less, Property::Mod(5), true),
        ("k", Equal, Property::Version(2), true),
        ("k", NotEqual, Property::Version(2), false),
        ("absent", Equal, Property::Create(0), true),
        ("absent", Equal, Property::Mod(0), true),
        ("absent", Equal, Property::Version(0), true),
        ("absent", Greater, Property::Version(0), false),
        ("absent", Equal, value(""), false),
        ("absent", NotEqual, value("m"), false),
    ];
    for (key, order, property, holds) in cases {
        let compare = Compare { key: key.into(), order, property };
        let said = format!("{compare:?}");
        let transaction = Transaction::when(vec![compare], Vec::new());
        let outcome = wait(subject.store().commit(transaction)).expect("it is taken");
        assert_eq!(outcome.succeeded, holds, "{said}");
    }
}

fn a_transaction_runs_one_list_in_one_revision(subject: &dyn Subject) {
    put(subject, "a", "1");
    put(subject, "b", "1");
    let both = || vec![Compare::unchanged("a", 2), Compare::unchanged("b", 3)];
    let transaction = || Transaction {
        compares: both(),
        then: vec![Op::put("a", "2"), Op::Delete(Selection::key("b")), Op::put("c", "2")],
        otherwise: vec![Op::Range(Selection::prefix(""))],
    };
    let done = wait(subject.store().commit(transaction())).expect("it is taken");
    let answers = vec![Answer::Put, Answer::Deleted(1), Answer::Put];
    assert_eq!(done, Outcome { succeeded: true, revision: 4, answers });
    let now = everything(subject);
    assert!(now.kvs.iter().all(|kv| kv.mod_revision == 4), "{now:?}");
    assert_eq!(keys(subject, Selection::prefix("")), ["a", "c"]);
    let other = wait(subject.store().commit(transaction())).expect("it is taken");
    let answers = vec![Answer::Found(now.kvs)];
    assert_eq!(other, Outcome { succeeded: false, revision: 4, answers });
}

fn steps_see_those_before_them(subject: &dyn Subject) {
    put(subject, "a/1", "old");
    let ops = vec![
        Op::Range(Selection::prefix("a/")),
        Op::put("a/2", "new"),
        Op::Range(Selection::prefix("a/")),
        Op::Delete(Selection::key("a/1")),
        Op::Range(Selection::prefix("a/")),
    ];
    let found = |answer: &Answer| match answer {
        Answer::Found(kvs) => Some(kvs.len()),
        Answer::Put | Answer::Deleted(_) => None,
    };
    let counts: Vec<_> = commit(subject, ops).answers.iter().filter_map(found).collect();
    assert_eq!(counts, [1, 2, 1]);
}

fn what_is_refused_changes_nothing(subject: &dyn Subject) {
    put(subject, "a", "1");
    let before = everything(subject);
    let under = |lease| Op::Put { key: "b".into(), value: Vec::new(), lease: Some(lease) };
    let refused = [
        vec![Op::put("x", "1"), Op::put("", "2")],
        vec![Op::put("x", "1"), Op::put("x", "2")],
        vec![Op::put("x", "1"), Op::Delete(Selection::prefix("x"))],
        vec![Op::Delete(Selection::prefix("")), Op::put("x", "1")],
        vec![Op::put("x", "1"), under(LeaseId(77))],
        (0..=OPERATIONS_MAX).map(|number| Op::put(format!("{number}"), "")).collect(),
        vec![Op::put("x", vec![0; 2 << 20])],
    ];
    for ops in refused {
        let said = format!("{:?}", ops.first());
        let result = wait(subject.store().commit(Transaction::always(ops)));
        assert!(result.is_err(), "{said}");
        assert_eq!(everything(subject), before, "{said}");
    }
    let no_lease = wait(subject.store().keep_alive(LeaseId(77)));
    assert!(matches!(no_lease, Err(StoreError::NoLease(LeaseId(77)))));
    assert!(matches!(wait(subject.store().revoke(LeaseId(77))), Err(StoreError::NoLease(_))));
    assert!(matches!(wait(subject.store().grant(Duration::ZERO)), Err(StoreError::LeaseTime)));
}

fn a_watch_gives_whole_revisions_in_order(subject: &dyn Subject) {
    put(subject, "w/1", "1");
    put(subject, "elsewhere", "1");
    commit(subject, vec![Op::put("w/2", "2"), Op::put("not", ""), Op::put("w/1", "2")]);
    let last = commit(subject, vec![Op::Delete(Selection::prefix("w/"))]).revision;
    let batches = watched(subject, Selection::prefix("w/"), 1, last);
    let told: Vec<(Revision, Vec<_>)> = batches
        .iter()
        .map(|batch| {
            let events = batch.events.iter();
            let told = events.map(|event| (event.key(), matches!(event, Event::Put(_))));
            (batch.revision, told.collect())
        })
        .collect();
    assert_eq!(
        told,
        [
            (2, vec![(&b"w/1"[..], true)]),
            (4, vec![(&b"w/2"[..], true), (&b"w/1"[..], true)]),
            (5, vec![(&b"w/1"[..], false), (&b"w/2"[..], false)]),
        ]
    );
    let Event::Put(kv) = &batches[1].events[1] else { panic!("{batches:?}") };
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (2, 4, 2));
    assert_eq!(kv.value, b"2");
    let later = watched(subject, Selection::prefix("w/"), 3, last);
    assert_eq!(later, batches[1..]);
}

fn a_watch_may_begin_in_the_future(subject: &dyn Subject) {
    let mut watch = subject.store().watch(Selection::key("a"), 4);
    let writer = || {
        for value in ["1", "2", "3"] {
            put(subject, "a", value);
        }
    };
    let first = thread::scope(|scope| {
        scope.spawn(writer);
        wait(watch.next())
    });
    let batch = first.expect("a watch does not end").expect("nothing is compacted");
    assert_eq!(batch.revision, 4);
}

fn a_compacted_revision_is_said(subject: &dyn Subject) {
    for value in ["1", "2", "3"] {
        put(subject, "a", value);
    }
    let before = everything(subject);
    wait(subject.store().compact(3)).expect("revision 3 is there");
    assert_eq!(everything(subject), before, "what is there stays");
    let mut watch = subject.store().watch(Selection::key("a"), 2);
    let said = wait(watch.next());
    assert!(matches!(said, Some(Err(StoreError::Compacted { compacted: 3 }))), "{said:?}");
    assert!(wait(watch.next()).is_none(), "after an error nothing follows");
    assert_eq!(watched(subject, Selection::key("a"), 4, 4).len(), 1);
    let again = wait(subject.store().compact(2));
    assert!(matches!(again, Err(StoreError::Compacted { .. })), "{again:?}");
    let future = wait(subject.store().compact(99));
    assert!(matches!(future, Err(StoreError::Future { asked: 99, present: 4 })), "{future:?}");
}

fn put_under(subject: &dyn Subject, key: &str, lease: Option<LeaseId>) {
    commit(subject, vec![Op::Put { key: key.into(), value: Vec::new(), lease }]);
}

fn a_lease_takes_its_keys_along(subject: &dyn Subject) {
    let ttl = Duration::from_secs(10);
    let grant = || wait(subject.store().grant(ttl)).expect("a lease is granted");
    let (kept, left, ended) = (grant(), grant(), grant());
    put_under(subject, "kept", Some(kept));
    put_under(subject, "left/1", Some(left));
    put_under(subject, "left/2", Some(left));
    put_under(subject, "ended", Some(ended));
    put_under(subject, "free", None);
    wait(subject.store().revoke(ended)).expect("the lease is there");
    assert_eq!(keys(subject, Selection::prefix("")), ["free", "kept", "left/1", "left/2"]);
    subject.pass(Duration::from_secs(6));
    assert_eq!(wait(subject.store().keep_alive(kept)).expect("it has not ended"), ttl);
    assert_eq!(keys(subject, Selection::prefix("left")).len(), 2);
    subject.pass(Duration::from_secs(6));
    assert_eq!(keys(subject, Selection::prefix("")), ["free", "kept"]);
    assert!(matches!(wait(subject.store().keep_alive(left)), Err(StoreError::NoLease(_))));
    let last = everything(subject).revision;
    let gone = watched(subject, Selection::prefix("left/"), 1, last).pop().expect("some");
    assert_eq!(gone.events.len(), 2, "the keys of a lease end in one revision: {gone:?}");
    subject.pass(ttl);
    assert_eq!(keys(subject, Selection::prefix("")), ["free"]);
}

fn a_key_leaves_its_lease(subject: &dyn Subject) {
    let ttl = Duration::from_secs(10);
    let first = wait(subject.store().grant(ttl)).expect("a lease is granted");
    let second = wait(subject.store().grant(5 * ttl)).expect("a lease is granted");
    put_under(subject, "freed", Some(first));
    put_under(subject, "moved", Some(first));
    put_under(subject, "made again", Some(first));
    put_under(subject, "freed", None);
    put_under(subject, "moved", Some(second));
    delete(subject, "made again");
    put_under(subject, "made again", None);
    wait(subject.store().revoke(first)).expect("the lease is there");
    assert_eq!(keys(subject, Selection::prefix("")), ["freed", "made again", "moved"]);
    wait(subject.store().revoke(second)).expect("the lease is there");
    assert_eq!(keys(subject, Selection::prefix("")), ["freed", "made again"]);
}

/// Writers count one number up by comparing and setting, each note beside it; no count is lost, and every
/// watch hears of each revision once, in order.
fn nothing_is_missed_among_many_writers(subject: &dyn Subject) {
    const WRITERS: u64 = 4;
    const EACH: u64 = 25;
    put(subject, "count", "0");
    let first = everything(subject).revision;
    let count_up = |writer: u64| {
        for turn in 0..EACH {
            while !try_count(subject, &format!("note/{writer}/{turn}")) {}
        }
    };
    let follow = || {
        let last = first + WRITERS * EACH;
        let batches = watched(subject, Selection::prefix(""), first + 1, last);
        let revisions: Vec<_> = batches.iter().map(|batch| batch.revision).collect();
        assert_eq!(revisions, (first + 1..=last).collect::<Vec<_>>());
        assert!(batches.iter().all(|batch| batch.events.len() == 2), "{batches:?}");
    };
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || count_up(writer));
            scope.spawn(follow);
        }
    });
    let total = (WRITERS * EACH).to_string();
    assert_eq!(everything(subject).kvs[0].value, total.as_bytes());
}

fn try_count(subject: &dyn Subject, note: &str) -> bool {
    let range = wait(subject.store().range(Selection::key("count"))).expect("it is read");
    let kv = &range.kvs[0];
    let count: u64 = String::from_utf8_lossy(&kv.value).parse().expect("it is a number");
    let then = vec![Op::put("count", (count + 1).to_string()), Op::put(note, "")];
    let when = vec![Compare::unchanged("count", kv.mod_revision)];
    wait(subject.store().commit(Transaction::when(when, then))).expect("it is taken").succeeded
}
