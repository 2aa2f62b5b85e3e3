//! Any run of requests gives what the model gives, across closing and opening too.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use proptest::collection::vec;
use proptest::prelude::*;

use super::model::Model;
use super::{DISK_BYTES, Disk, Opened, Time, everything, wait};
use crate::store::suite::Subject;
use crate::store::*;

#[derive(Debug, Clone)]
enum Request {
    Commit(Transaction),
    Range(Selection),
    Watch(Selection, Revision),
    /// Back from the present.
    Compact(u64),
    Grant(u64),
    KeepAlive(LeaseId),
    Revoke(LeaseId),
    Pass(u64),
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![b"a".to_vec(), b"ab".into(), b"b".into(), b"b/1".into(), vec![0xff]])
}

fn selection() -> impl Strategy<Value = Selection> {
    prop_oneof![
        key().prop_map(Selection::Key),
        key().prop_map(Selection::Prefix),
        Just(Selection::prefix("")),
    ]
}

fn lease() -> impl Strategy<Value = LeaseId> {
    (1u64..5).prop_map(LeaseId)
}

fn compare() -> impl Strategy<Value = Compare> {
    let order =
        prop::sample::select(vec![Order::Equal, Order::NotEqual, Order::Greater, Order::Less]);
    let property = prop_oneof![
        vec(any::<u8>(), 0..2).prop_map(Property::Value),
        (0u64..3).prop_map(Property::Version),
        (0u64..12).prop_map(Property::Create),
        (0u64..12).prop_map(Property::Mod),
    ];
    (key(), order, property).prop_map(|(key, order, property)| Compare { key, order, property })
}

fn op() -> impl Strategy<Value = Op> {
    let put = (key(), vec(any::<u8>(), 0..2), prop::option::weighted(0.3, lease()));
    prop_oneof![
        4 => put.prop_map(|(key, value, lease)| Op::Put { key, value, lease }),
        1 => selection().prop_map(Op::Delete),
        1 => selection().prop_map(Op::Range),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let transaction = (vec(compare(), 0..3), vec(op(), 0..4), vec(op(), 0..3))
        .prop_map(|(compares, then, otherwise)| Transaction { compares, then, otherwise });
    prop_oneof![
        10 => transaction.prop_map(Request::Commit),
        2 => selection().prop_map(Request::Range),
        3 => (selection(), 0u64..15).prop_map(|(selection, from)| Request::Watch(selection, from)),
        1 => (0u64..6).prop_map(Request::Compact),
        2 => (0u64..6).prop_map(Request::Grant),
        1 => lease().prop_map(Request::KeepAlive),
        1 => lease().prop_map(Request::Revoke),
        2 => (0u64..4).prop_map(Request::Pass),
        1 => Just(Request::Reopen),
    ]
}

/// What the watch says without waiting.
fn told(store: &dyn Store, selection: Selection, from: Revision) -> Option<Vec<Batch>> {
    let mut watch = store.watch(selection, from);
    let mut batches = Vec::new();
    while let Some(said) = watch.next().now_or_never() {
        batches.push(said?.ok()?);
    }
    Some(batches)
}

/// Does the same to both, and compares what they answer.
fn step(opened: Opened, disk: &Disk, model: &mut Model, request: Request) -> Opened {
    let store = opened.store();
    match request {
        Request::Commit(transaction) => {
            let outcome = wait(store.commit(transaction.clone())).ok();
            assert_eq!(outcome, model.commit(&transaction));
        }
        Request::Range(selection) => {
            let range = wait(store.range(selection.clone())).expect("it is read");
            assert_eq!(range, Range { revision: model.revision, kvs: model.range(&selection) });
        }
        Request::Watch(selection, from) => {
            assert_eq!(told(store, selection.clone(), from), model.watched(&selection, from));
        }
        Request::Compact(back) => {
            let revision = (model.revision + 1).saturating_sub(back);
            assert_eq!(wait(store.compact(revision)).ok(), model.compact(revision));
        }
        Request::Grant(seconds) => {
            let ttl = Duration::from_secs(seconds);
            assert_eq!(wait(store.grant(ttl)).ok(), model.grant(ttl));
        }
        Request::KeepAlive(lease) => {
            assert_eq!(wait(store.keep_alive(lease)).ok(), model.keep_alive(lease));
        }
        Request::Revoke(lease) => {
            assert_eq!(wait(store.revoke(lease)).ok(), model.revoke(lease));
        }
        Request::Pass(seconds) => {
            let time = Duration::from_secs(seconds);
            opened.pass(time);
            model.pass(time);
            opened.store.expire().expect("leases end");
        }
        Request::Reopen => {
            let time: Time = opened.time.clone();
            drop(opened);
            model.reopen();
            let place = Place::Device(disk.shared());
            let store = Embedded::open(place, time.clock(), Options::default());
            return Opened { store: store.expect("the store opens"), time };
        }
    }
    opened
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_store_does_what_the_model_does(requests in vec(request(), 1..40)) {
        let disk = Disk::new(DISK_BYTES);
        let mut opened = Opened::at(Place::Device(disk.shared()));
        let mut model = Model::new();
        for request in requests {
            opened = step(opened, &disk, &mut model, request);
        }
        let all = model.range(&Selection::prefix(""));
        prop_assert_eq!(everything(&opened), Range { revision: model.revision, kvs: all });
        let from = model.compacted + 1;
        let selection = Selection::prefix("");
        prop_assert_eq!(told(opened.store(), selection.clone(), from), model.watched(&selection, from));
    }
}
