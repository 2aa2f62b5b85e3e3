//! What etcd says when it refuses, in the words of the store.
//!
//! It tells errors apart by their text (`api/v3rpc/rpctypes`), not by gRPC's few codes.

use std::time::Duration;

use etcd_client::Error;

use crate::store::StoreError;
use crate::store::types::{OPERATIONS_MAX, Transaction};

fn says(error: &Error, words: &str) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains(words))
}

/// No connection was made, so nothing was asked: the words are those of the client (`hyper-util`, `HttpConnector`), and
/// all that it says then.
pub(super) fn is_unsent(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message() == "tcp connect error")
}

pub(super) fn is_compacted(error: &Error) -> bool {
    says(error, "required revision has been compacted")
}

pub(super) fn is_future(error: &Error) -> bool {
    says(error, "required revision is a future revision")
}

pub(super) fn is_no_lease(error: &Error) -> bool {
    says(error, "requested lease not found")
}

/// A member of the cluster is there already, where a new one was to be.
pub(super) fn is_member_there(error: &Error) -> bool {
    says(error, "Peer URLs already exists") || says(error, "member ID already exist")
}

/// A member of the cluster is not there, or was removed.
pub(super) fn is_no_member(error: &Error) -> bool {
    says(error, "member not found")
}

/// A learner has not heard of all changes yet.
pub(super) fn is_behind(error: &Error) -> bool {
    says(error, "can only promote a learner member which is in sync with leader")
}

/// A member that was to get a vote has one.
pub(super) fn is_voter(error: &Error) -> bool {
    says(error, "can only promote a learner member") && !is_behind(error)
}

/// The members of the cluster are not changed now, and may be a while later.
pub(super) fn is_unhealthy(error: &Error) -> bool {
    let busy = [
        "unhealthy cluster",
        "not enough started members",
        "too many learner members",
        "leader changed",
        "no leader",
    ];
    busy.iter().any(|words| says(error, words))
}

/// What is wrong, with what to do where that is known.
fn said(error: &Error) -> String {
    let advice = [
        ("too many operations in txn request", "start etcd with --max-txn-ops=4096"),
        ("request is too large", "start etcd with --max-request-bytes=4194304"),
        (
            "database space exceeded",
            "compact and defragment etcd, then disarm its alarm (etcdctl alarm disarm)",
        ),
        ("invalid user ID or password", "give the user and the password that the cluster knows"),
        ("permission denied", "let this user of etcd read and write the group's keys"),
        ("user name is empty", "the cluster asks for a user and a password: give them"),
        (
            "no leader",
            "start the members of etcd that are away: more than half of them must be there",
        ),
    ];
    let text = match error {
        Error::GRpcStatus(status) => status.message().to_owned(),
        // What is wrong with a connection stands in what the error is due to.
        other => reasons(other),
    };
    match advice.iter().find(|(words, _)| text.contains(words)) {
        Some((_, what_to_do)) => format!("etcd says '{text}': {what_to_do}"),
        None => format!("etcd: {text}"),
    }
}

/// An error with all that it is due to.
fn reasons(error: &Error) -> String {
    let mut said = error.to_string();
    let mut due_to = match error {
        Error::TransportError(error) => std::error::Error::source(error),
        _ => None,
    };
    while let Some(reason) = due_to {
        said = format!("{said}: {reason}");
        due_to = reason.source();
    }
    said
}

/// Whatever cannot be said in the words of the store.
pub(super) fn of(error: &Error) -> StoreError {
    StoreError::failed(said(error))
}

/// The same for a transaction, which may name a lease.
pub(super) fn of_commit(error: &Error, transaction: &Transaction) -> StoreError {
    use crate::store::Op;
    let lists = transaction.then.iter().chain(&transaction.otherwise);
    let mut lease = lists.filter_map(|op| match op {
        Op::Put { lease, .. } => *lease,
        Op::Delete(_) | Op::Range(_) => None,
    });
    match lease.next_back() {
        // Which of several it is, etcd does not say.
        Some(lease) if is_no_lease(error) => StoreError::NoLease(lease),
        _ => of(error),
    }
}

/// Nobody answers.
pub(super) fn silent(time: Duration) -> StoreError {
    let seconds = time.as_secs();
    StoreError::failed(format!(
        "etcd has not answered for {seconds} s: see that its members run and can be reached"
    ))
}

/// The limit that etcd must have been given, for who starts one.
const _: () = assert!(OPERATIONS_MAX == 4096, "the advice above names it");

/// A revision that was said before: no cluster of the same history does that.
pub(super) fn repeats(revision: u64) -> StoreError {
    StoreError::failed(format!(
        "etcd tells of revision {revision} again: its data was restored or replaced, so everything has to be read anew"
    ))
}
