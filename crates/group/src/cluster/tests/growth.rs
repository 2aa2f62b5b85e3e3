//! The plan, worked on real etcds while somebody writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::bed::Bed;
use crate::cluster::{Begin, Seat, Server, ServerState, Step, endpoints, next, seats};
use crate::ownership::MemberId;
use crate::store::suite::wait;
use crate::store::{
    Compare, Etcd, EtcdMember, EtcdMemberError, Op, Selection, Store, StoreError, Transaction,
};

/// Longer than a change of the seats takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Who works the plan, and all members of the group at once.
struct Work<'a> {
    bed: &'a Bed,
    store: &'a Etcd,
    members: BTreeMap<MemberId, bool>,
    leaving: BTreeSet<MemberId>,
    servers: BTreeMap<MemberId, Server>,
    steps: Vec<Step>,
}

impl Work<'_> {
    fn seats(&self, etcds: &[EtcdMember]) -> Vec<Seat> {
        let url = |member: &MemberId| (self.bed.peer_url(member.0), *member);
        seats(etcds, &self.members.keys().map(url).collect())
    }

    /// Starts the etcds that have a seat and do not run.
    fn start(&mut self, etcds: &[EtcdMember]) {
        for seat in self.seats(etcds) {
            let member = seat.member.expect("there are no others");
            let all = || etcds.iter().map(|etcd| (etcd.name.clone(), etcd.peer_urls[0].clone()));
            let start = || self.bed.start(member.0, Begin::Existing(all().collect()));
            self.servers.entry(member).or_insert_with(start);
        }
    }

    fn make(&mut self, step: Step) {
        let done = match step {
            Step::Add(member) => {
                wait(self.store.add_learner(self.bed.peer_url(member.0))).map(drop)
            }
            Step::Promote(id) => wait(self.store.promote(id)),
            Step::Remove(id) => wait(self.store.remove(id)),
        };
        match done {
            Ok(()) => self.steps.push(step),
            Err(EtcdMemberError::NotReady | EtcdMemberError::Unhealthy) => {}
            // While they elect; whether it was done, the list says.
            Err(EtcdMemberError::Store(StoreError::Failed(_))) => {}
            Err(other) => panic!("{step:?}: {other}"),
        }
    }

    /// Until nothing is left to do, and so many have a seat.
    fn until(&mut self, voters: usize) {
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < LIMIT, "not in time: {:?}", self.steps);
            thread::sleep(Duration::from_millis(100));
            let Ok(etcds) = wait(self.store.members()) else { continue };
            self.store.set_endpoints(endpoints(&etcds));
            self.start(&etcds);
            let seats = self.seats(&etcds);
            match next(&self.members, &seats, &BTreeSet::new(), &self.leaving) {
                Some(step) => self.make(step),
                None if seats.len() == voters && seats.iter().all(|seat| !seat.is_learner) => {
                    return;
                }
                None => {}
            }
        }
    }
}

/// Counts in a key, and gives what was acknowledged: never more than is there.
fn count_up(store: &Etcd, until: &AtomicBool) -> u64 {
    let mut acknowledged = 0;
    while !until.load(Ordering::SeqCst) {
        let Ok((count, at)) = counted(store) else { continue };
        assert!(count >= acknowledged, "{acknowledged} was acknowledged, {count} is there");
        let put = vec![Op::put("count", (count + 1).to_string())];
        let when = vec![Compare::unchanged("count", at)];
        let done = wait(store.commit(Transaction::when(when, put)));
        if done.is_ok_and(|outcome| outcome.succeeded) {
            acknowledged = count + 1;
        }
    }
    acknowledged
}

/// The count, and the revision that it is of.
fn counted(store: &Etcd) -> Result<(u64, u64), StoreError> {
    let found = wait(store.range(Selection::key("count")))?;
    Ok(found.kvs.first().map_or((0, 0), |kv| {
        let count = String::from_utf8_lossy(&kv.value).parse().expect("it is a number");
        (count, kv.mod_revision)
    }))
}

#[test]
fn the_store_grows_and_moves_under_a_writer() {
    let bed = Bed::new(3);
    let store = bed.store(&[1]);
    let mut work = Work {
        bed: &bed,
        store: &store,
        members: (1..=3).map(|member| (MemberId(member), true)).collect(),
        leaving: BTreeSet::new(),
        servers: BTreeMap::from([(MemberId(1), bed.start(1, Begin::New))]),
        steps: Vec::new(),
    };
    bed.put(&store, "1");
    let until = AtomicBool::new(false);
    let acknowledged = thread::scope(|scope| {
        let writer = scope.spawn(|| count_up(&store, &until));
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            work.until(3);
            // All three seats are on members that are there; the first one goes, and then one is enough.
            work.leaving.insert(MemberId(1));
            work.until(1);
        }));
        until.store(true, Ordering::SeqCst);
        let acknowledged = writer.join().expect("it counts");
        worked.expect("the plan is worked to its end");
        acknowledged
    });
    assert!(acknowledged > 20, "{acknowledged}");
    let added = work.steps.iter().filter(|step| matches!(step, Step::Add(_))).count();
    assert!(added >= 2, "{:?}", work.steps);

    // Whoever has lost its seat knows it, and the one that is left has everything.
    for member in [1, 3].map(MemberId) {
        let server = &work.servers[&member];
        bed.eventually("it knows that its seat is gone", || {
            (server.state() == ServerState::Removed).then_some(())
        });
    }
    let left = bed.store(&[2]);
    let (count, _) = bed.eventually("the last one answers", || counted(&left).ok());
    assert!(count >= acknowledged, "{acknowledged} was acknowledged, {count} is there");
    let etcds = wait(left.members()).expect("it answers");
    assert_eq!(etcds.iter().map(|etcd| etcd.name.as_str()).collect::<Vec<_>>(), ["m00002"]);
}
