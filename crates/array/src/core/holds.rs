//! Holds: changes of volumes that wait while snapshots of several arrays are taken.
//!
//! ```text
//!   a change comes --> is a hold of its volume in force? -- no -----> it begins
//!                              | yes                                     ^
//!                              '--> waits until those have ended --------'
//! ```
//!
//! Invariant: a change that came while a hold was in force begins only when that hold is none any more, for
//! everybody: who finds that its time is over takes it out before anything else may go on. So a snapshot that
//! finds a hold under the lock of the array's state has none of the changes that came during it: those
//! take that lock later.
//!
//! A change waits for the holds that it found, not for those that began since: it was there before them. So
//! it waits for no longer than the longest hold, however many follow each other. Those that wait have no order:
//! nobody promises one of commands that are outstanding at the same time, and who wants one (ORDERED tasks) keeps
//! them apart before they come here.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::select;

use crate::mutants::{self, Mutant};
use crate::sync::Bell;
use crate::{Env, VersionId};

/// The holds of an array.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// Whether one is in force, for who has no time to look. Changed under the lock of the gates.
    is_any: AtomicBool,
    gates: Mutex<Gates>,
    /// Rings when a hold was ended.
    ended: Bell,
}

#[derive(Debug, Default)]
struct Gates {
    /// The number of the last hold ever.
    last: u64,
    /// By number.
    in_force: BTreeMap<u64, InForce>,
}

/// A hold that has not ended.
#[derive(Debug)]
struct InForce {
    volumes: BTreeSet<VersionId>,
    /// Then it ends by itself.
    until: Duration,
}

impl Gates {
    /// Until when a volume is held, at the longest, by holds up to this number.
    fn held_until(&self, volume: VersionId, last: u64) -> Option<Duration> {
        let holds = self.in_force.range(..=last).map(|(_, hold)| hold);
        holds.filter(|hold| hold.volumes.contains(&volume)).map(|hold| hold.until).max()
    }
}

impl Holds {
    fn gates(&self) -> MutexGuard<'_, Gates> {
        self.gates.lock().expect("nothing panics while it holds the gates")
    }

    /// The gates without the holds whose time is over.
    fn gates_at(&self, now: Duration) -> MutexGuard<'_, Gates> {
        let mut gates = self.gates();
        gates.in_force.retain(|_, hold| hold.until > now);
        self.tell(&gates);
        gates
    }

    /// Says whether there is a hold.
    fn tell(&self, gates: &Gates) {
        let last = gates.in_force.last_key_value();
        assert!(last.is_none_or(|(number, _)| *number <= gates.last), "numbers go up");
        self.is_any.store(last.is_some(), Ordering::Release);
    }

    /// Whether a change has to look closer. It does after every [`begin`](Self::begin) that has returned, until
    /// that hold has ended and somebody has looked.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Holds back the changes of these volumes that come from now on; says the hold's number.
    pub(crate) fn begin(&self, volumes: BTreeSet<VersionId>, until: Duration) -> u64 {
        let forever = Duration::from_secs(86_400);
        let until = if mutants::is(Mutant::HoldForever) { until + forever } else { until };
        let gates = &mut *self.gates();
        gates.last += 1;
        gates.in_force.insert(gates.last, InForce { volumes, until });
        self.tell(gates);
        gates.last
    }

    /// Ends a hold, if it is in force.
    pub(crate) fn end(&self, number: u64) {
        {
            let gates = &mut *self.gates();
            gates.in_force.remove(&number);
            self.tell(gates);
        }
        // Also when its time was over before: the bell keeps nothing of those who waited for it then.
        self.ended.ring();
    }

    /// Ends all of them: the array has stopped.
    pub(crate) fn end_all(&self) {
        {
            let gates = &mut *self.gates();
            gates.in_force.clear();
            self.tell(gates);
        }
        self.ended.ring();
    }

    /// Whether a hold is in force, and since it began without a break: one that has ended never comes back.
    pub(crate) fn is_in_force(&self, number: u64, now: Duration) -> bool {
        self.covers(number, &[], now)
    }

    /// Whether it is, and for all of these volumes.
    pub(crate) fn covers(&self, number: u64, volumes: &[VersionId], now: Duration) -> bool {
        let gates = &*self.gates_at(now);
        let hold = gates.in_force.get(&number);
        hold.is_some_and(|hold| volumes.iter().all(|volume| hold.volumes.contains(volume)))
    }

    /// Whether changes of a volume are held back.
    pub(crate) fn is_held(&self, volume: VersionId, now: Duration) -> bool {
        let gates = &*self.gates_at(now);
        gates.held_until(volume, gates.last).is_some()
    }

    /// Waits until the holds up to this number have ended for a volume.
    async fn ended(&self, env: &dyn Env, volume: VersionId, last: u64) {
        loop {
            let mark = self.ended.mark();
            let now = env.now();
            let until = self.gates_at(now).held_until(volume, last);
            let Some(until) = until else { return };
            let rung = pin!(self.ended.after(mark));
            select(rung, env.sleep(until.saturating_sub(now))).await;
        }
    }

    /// Lets a change of a volume go on once no hold that it found keeps it back.
    ///
    /// Dropped, it leaves nothing behind.
    pub(crate) async fn pass(&self, env: &dyn Env, volume: VersionId) {
        let last = self.gates().last;
        self.ended(env, volume, last).await;
    }
}

#[cfg(test)]
mod tests;
