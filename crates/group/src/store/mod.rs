//! The configuration store: keys and values under one global revision, as etcd has them.
//!
//! The words and the rules are those of etcd's API v3 (KV, Watch, Lease), so that one suite of tests
//! (`suite`) holds for every implementation. What a group of one needs no etcd for is done by
//! [`Embedded`]; [`Etcd`] is the same over a cluster of etcd.

mod embedded;
mod error;
mod etcd;
mod types;

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

pub use embedded::{Clock, Embedded, Options, Place};
pub use error::StoreError;
pub use etcd::{Etcd, EtcdMember, EtcdMemberError, EtcdOptions, EtcdTls};
pub use types::{
    Answer, Batch, Compare, Event, KeyValue, LeaseId, Op, Order, Outcome, Property, Range,
    Revision, Selection, Transaction,
};
pub(crate) use types::{DATA_BYTES_MAX, HISTORY_SECONDS, OPERATIONS_MAX, TRANSACTION_BYTES_MAX};

/// What a request to the store is answered with, once it is.
pub type Pending<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// What a watch says, one item for each revision. After an error nothing follows.
pub type Watch = BoxStream<'static, Result<Batch, StoreError>>;

/// Keys and values under one revision (etcd API v3).
///
/// An empty store is at revision 1. Each transaction that changes anything makes one new revision,
/// however many keys it changes; one that changes nothing makes none.
pub trait Store: Send + Sync {
    /// What is there now, in the order of the keys.
    ///
    /// # Errors
    /// [`StoreError::EmptyKey`], or the store cannot be read.
    fn range(&self, selection: Selection) -> Pending<'_, Range>;

    /// Makes the comparisons and then runs one of the two lists, all in one: others see everything of
    /// it or nothing. When this is answered, it outlives a loss of power.
    ///
    /// # Errors
    /// What is wrong with the transaction, of which nothing was done then. After
    /// [`StoreError::Failed`] it is not known whether it was done.
    fn commit(&self, transaction: Transaction) -> Pending<'_, Outcome>;

    /// Every change of these keys from a revision on, which may lie in the future. No revision is left
    /// out or said twice; one that has been compacted is [`StoreError::Compacted`].
    fn watch(&self, selection: Selection, from: Revision) -> Watch;

    /// Forgets the history up to a revision. What is there now stays.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if it was forgotten before, [`StoreError::Future`] if it is not there yet.
    fn compact(&self, revision: Revision) -> Pending<'_, ()>;

    /// A new lease: keys that are put under it go when it ends, in one revision.
    ///
    /// # Errors
    /// [`StoreError::LeaseTime`] for less than a second, or the store cannot be written.
    fn grant(&self, ttl: Duration) -> Pending<'_, LeaseId>;

    /// Lets the lease begin its time again, which is the answer.
    ///
    /// # Errors
    /// [`StoreError::NoLease`] if it has ended.
    fn keep_alive(&self, lease: LeaseId) -> Pending<'_, Duration>;

    /// Ends a lease now, and its keys.
    ///
    /// # Errors
    /// [`StoreError::NoLease`] if it has ended.
    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()>;
}

#[cfg(test)]
pub(crate) mod suite;
#[cfg(test)]
mod tests;
