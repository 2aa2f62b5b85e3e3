//! How many writes become transactions: one as long as they fit, else several in an order that lets nobody in who is
//! let in neither before nor after.
//!
//! A policy of before that names a user of after, or the other way round, might. So policies that go or become others
//! are taken away first; then all else is written, and then policies. Whoever is cut off between begins again with what
//! is different still.

use super::State;
use super::state::{POLICIES, Writes};
use crate::store::{Op, Selection};

/// Bytes of one transaction, well below what a store takes: the embedded one writes them beside what is there, and into
/// its history.
const STEP_BYTES_MAX: usize = 512 << 10;

/// Operations of one transaction. The store holds each of them against each other one.
pub(super) const STEP_OPS_MAX: usize = 2048;

/// The next transaction of these writes to what is there; it holds at least one of them if there are any.
pub(super) fn step(state: &State, writes: Writes) -> Vec<Op> {
    if fits(&writes) {
        return writes.into_iter().map(op).collect();
    }
    let is_there = |key: &&String| state.sizes.contains_key(key.as_bytes());
    let policies = writes.keys().filter(|key| key.starts_with(POLICIES));
    let old: Writes = policies.filter(is_there).map(|key| (key.clone(), None)).collect();
    if !old.is_empty() {
        return first_of(old);
    }
    let (policies, others): (Writes, Writes) =
        writes.into_iter().partition(|(key, _)| key.starts_with(POLICIES));
    first_of(if others.is_empty() { policies } else { others })
}

fn fits(writes: &Writes) -> bool {
    let sizes = writes.iter().map(|(key, value)| size_bytes(key, value.as_deref()));
    writes.len() <= STEP_OPS_MAX && sizes.sum::<usize>() <= STEP_BYTES_MAX
}

fn size_bytes(key: &str, value: Option<&[u8]>) -> usize {
    key.len() + value.map_or(0, <[u8]>::len)
}

/// As many as fit, those first that go: they make room.
fn first_of(writes: Writes) -> Vec<Op> {
    let (gone, others): (Writes, Writes) =
        writes.into_iter().partition(|(_, value)| value.is_none());
    let (mut ops, mut sum_bytes) = (Vec::new(), 0);
    for (key, value) in gone.into_iter().chain(others) {
        sum_bytes += size_bytes(&key, value.as_deref());
        let is_full = ops.len() >= STEP_OPS_MAX || sum_bytes > STEP_BYTES_MAX;
        if is_full && !ops.is_empty() {
            break;
        }
        ops.push(op((key, value)));
    }
    ops
}

fn op((key, value): (String, Option<Vec<u8>>)) -> Op {
    match value {
        Some(value) => Op::put(key, value),
        None => Op::Delete(Selection::key(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(ops: &[Op]) -> Vec<String> {
        let key = |op: &Op| match op {
            Op::Put { key, .. } => String::from_utf8_lossy(key).into_owned(),
            Op::Delete(Selection::Key(key)) => format!("-{}", String::from_utf8_lossy(key)),
            other => panic!("{other:?}"),
        };
        ops.iter().map(key).collect()
    }

    fn writes(all: &[(&str, Option<usize>)]) -> Writes {
        let write =
            |(key, len): &(&str, Option<usize>)| ((*key).to_owned(), len.map(|len| vec![0; len]));
        all.iter().map(write).collect()
    }

    #[test]
    fn what_fits_is_written_at_once_and_what_does_not_in_an_order() {
        let mut state = State::default();
        for key in ["policies/old", "policies/gone", "chap/users/gone"] {
            state.sizes.insert(key.into(), 1);
        }
        let small = writes(&[("chap/users/gone", None), ("policies/old", Some(10))]);
        assert_eq!(keys(&step(&state, small)), ["-chap/users/gone", "policies/old"]);

        let large = STEP_BYTES_MAX - 20;
        let mut left = writes(&[
            ("accounts/a", Some(large)),
            ("chap/users/gone", None),
            ("policies/gone", None),
            ("policies/new", Some(large)),
            ("policies/old", Some(1)),
        ]);
        assert_eq!(keys(&step(&state, left.clone())), ["-policies/gone", "-policies/old"]);
        state.sizes.retain(|key, _| !key.starts_with(b"policies/"));
        left.remove("policies/gone");
        // The account would fit without what goes.
        assert_eq!(keys(&step(&state, left.clone())), ["-chap/users/gone"]);
        left.remove("chap/users/gone");
        assert_eq!(keys(&step(&state, left.clone())), ["accounts/a"]);
        left.remove("accounts/a");
        assert_eq!(keys(&step(&state, left.clone())), ["policies/new"]);
        left.remove("policies/new");
        assert_eq!(keys(&step(&state, left)), ["policies/old"]);

        let alone = writes(&[("policies/huge", Some(STEP_BYTES_MAX + 1))]);
        assert_eq!(keys(&step(&state, alone)), ["policies/huge"], "else nothing would go on");
        assert!(step(&state, Writes::new()).is_empty());
    }

    #[test]
    fn no_step_has_more_operations_than_it_may() {
        let write = |number: usize| (format!("policies/{number}"), Some(Vec::new()));
        let all: Writes = (0..=STEP_OPS_MAX).map(write).collect();
        assert_eq!(step(&State::default(), all).len(), STEP_OPS_MAX);
    }
}
