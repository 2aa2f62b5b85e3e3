//! The store as one would write it without a disk: a map, and a list of all that ever happened.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::store::types::lease_seconds;
use crate::store::*;

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    pub(super) keys: BTreeMap<Vec<u8>, KeyValue>,
    pub(super) history: Vec<Batch>,
    /// With their time and when they end.
    leases: BTreeMap<LeaseId, (Duration, Duration)>,
    pub(super) granted: u64,
    now: Duration,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            revision: 1,
            compacted: 0,
            keys: BTreeMap::new(),
            history: Vec::new(),
            leases: BTreeMap::new(),
            granted: 0,
            now: Duration::ZERO,
        }
    }

    pub(super) fn range(&self, selection: &Selection) -> Vec<KeyValue> {
        self.keys.values().filter(|kv| selection.includes(&kv.key)).cloned().collect()
    }

    /// `None` where the store refuses.
    pub(super) fn commit(&mut self, transaction: &Transaction) -> Option<Outcome> {
        let lists = [&transaction.then, &transaction.otherwise];
        if lists.into_iter().any(|ops| changes_a_key_twice(ops)) {
            return None;
        }
        let holds = |compare: &Compare| compare.holds(self.keys.get(&compare.key));
        let succeeded = transaction.compares.iter().all(holds);
        let ops = if succeeded { &transaction.then } else { &transaction.otherwise };
        let mut next = self.clone();
        let mut events = Vec::new();
        let mut answers = Vec::new();
        for op in ops {
            answers.push(match op {
                Op::Put { key, value, lease } => {
                    next.put(key, value, *lease, &mut events)?;
                    Answer::Put
                }
                Op::Delete(selection) => Answer::Deleted(next.delete(selection, &mut events)),
                Op::Range(selection) => Answer::Found(next.range(selection)),
            });
        }
        next.note(events);
        *self = next;
        Some(Outcome { succeeded, revision: self.revision, answers })
    }

    fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        lease: Option<LeaseId>,
        events: &mut Vec<Event>,
    ) -> Option<()> {
        if let Some(lease) = lease {
            self.leases.get(&lease)?;
        }
        let old = self.keys.get(key);
        let kv = KeyValue {
            key: key.to_vec(),
            value: value.to_vec(),
            create_revision: old.map_or(self.revision + 1, |kv| kv.create_revision),
            mod_revision: self.revision + 1,
            version: old.map_or(0, |kv| kv.version) + 1,
            lease,
        };
        self.keys.insert(key.to_vec(), kv.clone());
        events.push(Event::Put(kv));
        Some(())
    }

    fn delete(&mut self, selection: &Selection, events: &mut Vec<Event>) -> usize {
        let gone = self.range(selection);
        for kv in &gone {
            self.keys.remove(&kv.key);
            events.push(Event::Delete { key: kv.key.clone(), mod_revision: self.revision + 1 });
        }
        gone.len()
    }

    fn note(&mut self, events: Vec<Event>) {
        if !events.is_empty() {
            self.revision += 1;
            self.history.push(Batch { revision: self.revision, events });
        }
    }

    pub(super) fn compact(&mut self, revision: Revision) -> Option<()> {
        (self.compacted < revision && revision <= self.revision).then(|| self.compacted = revision)
    }

    pub(super) fn grant(&mut self, ttl: Duration) -> Option<LeaseId> {
        lease_seconds(ttl).ok()?;
        self.granted += 1;
        self.leases.insert(LeaseId(self.granted), (ttl, self.now + ttl));
        Some(LeaseId(self.granted))
    }

    pub(super) fn keep_alive(&mut self, lease: LeaseId) -> Option<Duration> {
        let (ttl, end) = self.leases.get_mut(&lease)?;
        *end = self.now + *ttl;
        Some(*ttl)
    }

    pub(super) fn revoke(&mut self, lease: LeaseId) -> Option<()> {
        self.leases.remove(&lease)?;
        let mut events = Vec::new();
        let attached: Vec<_> = self
            .keys
            .values()
            .filter(|kv| kv.lease == Some(lease))
            .map(|kv| kv.key.clone())
            .collect();
        for key in attached {
            self.delete(&Selection::Key(key), &mut events);
        }
        self.note(events);
        Some(())
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        let due: BTreeSet<LeaseId> = self
            .leases
            .iter()
            .filter(|(_, (_, end))| *end <= self.now)
            .map(|(id, _)| *id)
            .collect();
        for lease in due {
            self.revoke(lease);
        }
    }

    pub(super) fn reopen(&mut self) {
        for (ttl, end) in self.leases.values_mut() {
            *end = self.now + *ttl;
        }
    }

    /// What a watch says of these keys from `from` on, `None` if that was compacted.
    pub(super) fn watched(&self, selection: &Selection, from: Revision) -> Option<Vec<Batch>> {
        let of = |batch: &Batch| {
            let events = batch.events.iter().filter(|event| selection.includes(event.key()));
            Batch { revision: batch.revision, events: events.cloned().collect() }
        };
        let later = self.history.iter().filter(|batch| batch.revision >= from).map(of);
        let told = later.filter(|batch| !batch.events.is_empty()).collect();
        (from > self.compacted).then_some(told)
    }
}

fn changes_a_key_twice(ops: &[Op]) -> bool {
    let puts: Vec<&Vec<u8>> = ops
        .iter()
        .filter_map(|op| match op {
            Op::Put { key, .. } => Some(key),
            Op::Delete(_) | Op::Range(_) => None,
        })
        .collect();
    let distinct: BTreeSet<_> = puts.iter().collect();
    let is_deleted = |key: &[u8]| {
        ops.iter().any(|op| matches!(op, Op::Delete(selection) if selection.includes(key)))
    };
    distinct.len() < puts.len() || puts.iter().any(|key| is_deleted(key))
}
