//! The store's words and those of etcd's API, and the namespace between them.

use etcd_client::{
    Compare as EtcdCompare, CompareOp, DeleteOptions, GetOptions, KeyValue as EtcdKeyValue,
    PutOptions, ResponseHeader, Txn, TxnOp, TxnOpResponse, TxnResponse, WatchOptions,
};

use crate::store::types::{
    Answer, Compare, KeyValue, LeaseId, Op, Order, Outcome, Property, Revision, Selection,
    Transaction,
};
use crate::store::{Event, StoreError};

/// What all keys of the group begin with in the cluster.
#[derive(Debug, Clone)]
pub(super) struct Namespace(Vec<u8>);

/// etcd counts with a sign.
pub(super) fn number(unsigned: u64) -> Result<i64, StoreError> {
    i64::try_from(unsigned).map_err(StoreError::failed)
}

fn count(signed: i64) -> Result<u64, StoreError> {
    u64::try_from(signed).map_err(StoreError::failed)
}

/// The bits of a lease's number, whatever its sign.
pub(super) const fn lease_id(number: i64) -> LeaseId {
    LeaseId(number.cast_unsigned())
}

/// The other way round.
pub(super) const fn lease_number(lease: LeaseId) -> i64 {
    lease.0.cast_signed()
}

pub(super) fn revision(header: Option<&ResponseHeader>) -> Result<Revision, StoreError> {
    let header = header.ok_or_else(|| StoreError::failed("etcd has left the header out"))?;
    count(header.revision())
}

impl Namespace {
    pub(super) const fn new(start: Vec<u8>) -> Self {
        Self(start)
    }

    fn outside(&self, key: &[u8]) -> Vec<u8> {
        [&self.0, key].concat()
    }

    fn inside(&self, key: &[u8]) -> Result<Vec<u8>, StoreError> {
        let inside = key.strip_prefix(self.0.as_slice());
        inside.map(<[u8]>::to_vec).ok_or_else(|| StoreError::failed("etcd tells of a foreign key"))
    }

    /// The key to begin with; an empty prefix of an empty namespace is all keys, which etcd writes as a byte of zero.
    fn start(&self, selection: &Selection) -> (Vec<u8>, Reach) {
        let key = self.outside(selection.start());
        match selection {
            Selection::Key(_) => (key, Reach::One),
            Selection::Prefix(_) if key.is_empty() => (key, Reach::All),
            Selection::Prefix(_) => (key, Reach::Prefix),
        }
    }

    pub(super) fn get(&self, selection: &Selection) -> (Vec<u8>, GetOptions) {
        let (key, reach) = self.start(selection);
        let options = GetOptions::new();
        let options = match reach {
            Reach::One => options,
            Reach::Prefix => options.with_prefix(),
            Reach::All => options.with_all_keys(),
        };
        (key, options)
    }

    pub(super) fn watch(&self, selection: &Selection, from: i64) -> (Vec<u8>, WatchOptions) {
        let (key, reach) = self.start(selection);
        let options = WatchOptions::new().with_start_revision(from);
        let options = match reach {
            Reach::One => options,
            Reach::Prefix => options.with_prefix(),
            Reach::All => options.with_all_keys(),
        };
        (key, options)
    }

    fn delete(&self, selection: &Selection) -> TxnOp {
        let (key, reach) = self.start(selection);
        let options = DeleteOptions::new();
        let options = match reach {
            Reach::One => options,
            Reach::Prefix => options.with_prefix(),
            Reach::All => options.with_all_keys(),
        };
        TxnOp::delete(key, Some(options))
    }

    fn op(&self, op: &Op) -> TxnOp {
        match op {
            Op::Put { key, value, lease } => {
                let under = |lease| PutOptions::new().with_lease(lease_number(lease));
                TxnOp::put(self.outside(key), value.clone(), lease.map(under))
            }
            Op::Delete(selection) => self.delete(selection),
            Op::Range(selection) => {
                let (key, options) = self.get(selection);
                TxnOp::get(key, Some(options))
            }
        }
    }

    fn compare(&self, compare: &Compare) -> Result<EtcdCompare, StoreError> {
        let key = self.outside(&compare.key);
        let order = match compare.order {
            Order::Equal => CompareOp::Equal,
            Order::NotEqual => CompareOp::NotEqual,
            Order::Greater => CompareOp::Greater,
            Order::Less => CompareOp::Less,
        };
        Ok(match &compare.property {
            Property::Value(value) => EtcdCompare::value(key, order, value.clone()),
            Property::Version(version) => EtcdCompare::version(key, order, number(*version)?),
            Property::Create(at) => EtcdCompare::create_revision(key, order, number(*at)?),
            Property::Mod(at) => EtcdCompare::mod_revision(key, order, number(*at)?),
        })
    }

    pub(super) fn transaction(&self, transaction: &Transaction) -> Result<Txn, StoreError> {
        let compares = transaction.compares.iter().map(|compare| self.compare(compare));
        let steps = |ops: &[Op]| ops.iter().map(|op| self.op(op)).collect::<Vec<_>>();
        Ok(Txn::new()
            .when(compares.collect::<Result<Vec<_>, _>>()?)
            .and_then(steps(&transaction.then))
            .or_else(steps(&transaction.otherwise)))
    }

    pub(super) fn outcome(&self, answer: &TxnResponse) -> Result<Outcome, StoreError> {
        let said = |step| {
            Ok(match step {
                TxnOpResponse::Put(_) => Answer::Put,
                TxnOpResponse::Get(mut found) => {
                    let kvs = found.take_kvs().into_iter().map(|kv| self.kv(kv));
                    Answer::Found(kvs.collect::<Result<_, _>>()?)
                }
                TxnOpResponse::Delete(deleted) => {
                    Answer::Deleted(usize::try_from(deleted.deleted()).map_err(StoreError::failed)?)
                }
                TxnOpResponse::Txn(_) => {
                    return Err(StoreError::failed("etcd answers what was not asked"));
                }
            })
        };
        Ok(Outcome {
            succeeded: answer.succeeded(),
            revision: revision(answer.header())?,
            answers: answer.op_responses().into_iter().map(said).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn kv(&self, kv: EtcdKeyValue) -> Result<KeyValue, StoreError> {
        let lease = (kv.lease() != 0).then(|| lease_id(kv.lease()));
        let create_revision = count(kv.create_revision())?;
        let mod_revision = count(kv.mod_revision())?;
        let version = count(kv.version())?;
        let (key, value) = kv.into_key_value();
        Ok(KeyValue {
            key: self.inside(&key)?,
            value,
            create_revision,
            mod_revision,
            version,
            lease,
        })
    }

    /// A change as a watch tells it, and its revision.
    pub(super) fn event(
        &self,
        event: &etcd_client::Event,
    ) -> Result<(Revision, Event), StoreError> {
        let kv = event.kv().ok_or_else(|| StoreError::failed("etcd tells of no key"))?;
        let revision = count(kv.mod_revision())?;
        let event = match event.event_type() {
            etcd_client::EventType::Put => Event::Put(self.kv(kv.clone())?),
            etcd_client::EventType::Delete => {
                Event::Delete { key: self.inside(kv.key())?, mod_revision: revision }
            }
        };
        Ok((revision, event))
    }
}

/// How far a selection goes.
enum Reach {
    One,
    Prefix,
    All,
}
