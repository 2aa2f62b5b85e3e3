//! What stands still: who waits for what, and for how long.
//!
//! Every few seconds a task looks at a handful of counts that move as long as the array works. What
//! is waited for and has not moved for [`STALL`] is a stall: operators see it, and it is logged
//! once, and once more when it goes on. No I/O pays for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::core::{Core, State};

/// What stands still for so long is told.
const STALL: Duration = Duration::from_secs(10);
/// How often it is looked.
const LOOK: Duration = Duration::from_secs(2);

/// Work that says where it is.
#[derive(Debug, Default)]
pub(crate) struct Beat(Mutex<(Option<&'static str>, u64)>);

impl Beat {
    fn inner(&self) -> MutexGuard<'_, (Option<&'static str>, u64)> {
        // Nothing in here panics, and a count has no half-way state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It waits for this from now on, or goes on with it.
    pub(crate) fn at(&self, step: &'static str) {
        let mut inner = self.inner();
        *inner = (Some(step), inner.1 + 1);
    }

    /// A part of the step is done.
    pub(crate) fn tick(&self) {
        self.inner().1 += 1;
    }

    /// It has nothing to do.
    pub(crate) fn rest(&self) {
        self.inner().0 = None;
    }

    /// What it waits for.
    pub(crate) fn step(&self) -> Option<&'static str> {
        self.inner().0
    }

    /// How often it has got on.
    fn count(&self) -> u64 {
        self.inner().1
    }

    fn wait(&self, who: &'static str) -> Option<(Wait, u64)> {
        let (step, count) = *self.inner();
        step.map(|step| (Wait::Step(who, step), count))
    }
}

/// Who waits for what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wait {
    /// Writes, for the disks with the journal.
    Journal,
    /// Writes, for room in the journal.
    Room,
    /// Commands, for a checkpoint.
    Commands,
    /// This work, for this.
    Step(&'static str, &'static str),
    /// Others, for who holds a stripe of a set.
    Stripe { set: u32, stripe: u32 },
    /// Everything that changes who is a member, for who changes it now.
    Labels,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal => f.write_str("writes wait for the disks that hold the journal"),
            Self::Room => f.write_str("writes wait for a checkpoint to make room in the journal"),
            Self::Commands => f.write_str("commands wait for the next checkpoint"),
            Self::Step(who, step) => write!(f, "{who} waits for {step}"),
            Self::Stripe { set, stripe } => {
                write!(f, "reads and writes wait for stripe {stripe} of RAID set {set}")
            }
            Self::Labels => f.write_str("changes of the disks' labels wait for a disk"),
        }
    }
}

/// What is waited for, where it stood when it last moved, and when that was.
#[derive(Debug, Default)]
pub(crate) struct Watch(BTreeMap<Wait, Still>);

#[derive(Debug)]
struct Still {
    count: u64,
    since: Duration,
    is_told: bool,
}

impl Watch {
    /// Takes in what is waited for at `now`, each with a count that changes when it goes on; gives
    /// what has begun to stand still and what goes on again.
    fn look(
        &mut self,
        now: Duration,
        waits: impl IntoIterator<Item = (Wait, u64)>,
    ) -> (Vec<Wait>, Vec<Wait>) {
        let mut before = std::mem::take(&mut self.0);
        let mut begun = Vec::new();
        for (wait, count) in waits {
            let still = match before.remove_entry(&wait) {
                Some((_, still)) if still.count == count => still,
                Some((gone, still)) if still.is_told => {
                    before.insert(gone, still);
                    Still { count, since: now, is_told: false }
                }
                _ => Still { count, since: now, is_told: false },
            };
            let is_stall = now.saturating_sub(still.since) >= STALL;
            if is_stall && !still.is_told {
                begun.push(wait.clone());
            }
            let is_told = still.is_told || is_stall;
            self.0.insert(wait, Still { is_told, ..still });
        }
        let ended = before.into_iter().filter(|(_, still)| still.is_told);
        (begun, ended.map(|(wait, _)| wait).collect())
    }

    /// What stands still, one sentence each.
    pub(crate) fn stalls(&self, now: Duration) -> Vec<String> {
        let told = self.0.iter().filter(|(_, still)| still.is_told);
        let text = |(wait, still): (&Wait, &Still)| {
            let seconds = now.saturating_sub(still.since).as_secs();
            format!("{wait}, for {seconds} seconds now")
        };
        told.map(text).collect()
    }
}

impl Core {
    /// Looks what stands still, as long as the array is open.
    pub(crate) async fn run_watch(self: Arc<Self>) {
        while self.lock().stopped.is_none() {
            let now = self.env.now();
            let (begun, ended) = self.watch().look(now, self.waits());
            for wait in begun {
                tracing::warn!("for {} seconds {wait}", STALL.as_secs());
            }
            for wait in ended {
                tracing::info!("it goes on: no longer {wait}");
            }
            self.env.sleep(LOOK).await;
        }
        *self.watch() = Watch::default();
    }

    pub(crate) fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().expect("nothing panics while it holds the list")
    }

    /// A count that moves as long as checkpoints get on.
    pub(crate) fn checkpoint_count(&self) -> u64 {
        self.count_in(&self.lock())
    }

    fn count_in(&self, state: &State) -> u64 {
        state.checkpoint + self.checkpoint_beat.count()
    }

    /// What is waited for now.
    fn waits(&self) -> Vec<(Wait, u64)> {
        let mut waits = Vec::new();
        let (durable, room) = self.journal.waits();
        waits.extend(durable.map(|count| (Wait::Journal, count)));
        waits.extend(room.map(|count| (Wait::Room, count)));
        {
            let state = self.lock();
            let is_asked = !state.requests.is_empty();
            // The one before theirs may take minutes on slow disks, and get on all the time.
            waits.extend(is_asked.then_some((Wait::Commands, self.count_in(&state))));
        }
        waits.extend(self.checkpoint_beat.wait("the checkpoint"));
        waits.extend(self.upkeep_beat.wait("the upkeep of RAID sets"));
        waits.extend(self.repair_beat.wait("the repair of blocks and disks"));
        waits.extend(
            self.raid
                .contended()
                .into_iter()
                .map(|((set, stripe), count)| (Wait::Stripe { set: set.0, stripe }, count)),
        );
        waits.extend(self.labelling.held().map(|count| (Wait::Labels, count)));
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_move_for_ten_seconds_is_told_once_until_it_goes_on() {
        let mut watch = Watch::default();
        let at = Duration::from_secs;
        let wait = || Wait::Stripe { set: 3, stripe: 7 };
        assert_eq!(watch.look(at(0), [(wait(), 1)]), (vec![], vec![]));
        assert_eq!(watch.look(at(9), [(wait(), 2)]), (vec![], vec![]), "it moved");
        assert_eq!(watch.look(at(18), [(wait(), 2)]), (vec![], vec![]));
        assert_eq!(watch.look(at(19), [(wait(), 2)]), (vec![wait()], vec![]));
        let text = "reads and writes wait for stripe 7 of RAID set 3, for 11 seconds now";
        assert_eq!(watch.stalls(at(20)), [text]);
        assert_eq!(watch.look(at(21), [(wait(), 2)]), (vec![], vec![]), "told once");
        assert_eq!(watch.look(at(23), [(wait(), 3)]), (vec![], vec![wait()]));
        assert_eq!(watch.stalls(at(23)), Vec::<String>::new());
        watch.look(at(34), [(wait(), 3)]);
        assert_eq!(watch.look(at(35), []), (vec![], vec![wait()]), "nobody waits any more");
    }
}
