//! How fast writers may fill the journal while a checkpoint runs.
//!
//! A checkpoint gives room back only when it has ended. Writers that go on at their own pace until the
//! journal is full then all wait for the rest of it, and that was seconds. So each write waits a little
//! instead, long before: as long as spreads the room that is left over the time that the checkpoint
//! still takes.
//!
//! ```text
//!            delay of a write = time left / room left * its blocks * share
//!
//!    share
//!      1                  ,----------------     used by the journal, in parts of
//!                     ,-´                       what writers may use of it
//!      0   -------,-´
//!          0     KNEE    FULL             1
//! ```
//!
//! The time left is measured: what each cluster took of this checkpoint and of those before, and what
//! follows the last one. Nothing here is an error, and nobody waits while no checkpoint runs, or as long as
//! less than [`KNEE_PERCENT`] is in use. The delay of one write has a [limit](delay_max), a low one while the checkpoint
//! stands still, so that one that finds no end does not stop hosts that write now and then.
//!
//! Who waits stands in line: first with those of the same volume, then each volume with its first one. So
//! volumes take turns, however many writes each has under way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::VersionId;
use crate::core::Core;
use crate::journal::Fill;
use crate::mutants::{self, Mutant};
use crate::sync::Turn;

/// Writers wait from here on, in parts of a hundred of what they may use of the journal: a checkpoint begins at 46. Who is
/// slower than the room asks for waits for nothing there either ...
const KNEE_PERCENT: u64 = 40;
/// ... and wait as long as the room asks for from here on: the sooner all go at one pace, the less the last ones wait.
const FULL_PERCENT: u64 = 55;
/// What is not given out as long as there is more, and sparingly then, so that an estimate that was too low does not end
/// in a full journal.
const KEPT_PERCENT: u64 = 6;
/// The delay of one write at most while the checkpoint stands still, as disks do that do not answer. The next one waits as
/// long after it: that must not make minutes of what the journal has room for.
const STILL_DELAY_MAX: Duration = Duration::from_millis(5);
/// The same for each block while the checkpoint gets on: disks that seek, and are restored to beside it, put fewer clusters
/// in place than hosts would write at less, and a full journal stops all of them for seconds.
const BLOCK_DELAY_MAX: Duration = Duration::from_millis(50);
/// The same for a write of many blocks: as many hosts as a queue has room for must not wait for half a minute.
const DELAY_MAX: Duration = Duration::from_millis(250);
/// A checkpoint that has put nothing in its place for so long stands still: slow disks take seconds for a batch.
const STILL: Duration = Duration::from_secs(10);
/// Writes that could have gone before go at once, up to so much of the time: timers are not exact.
const CREDIT_MAX: Duration = Duration::from_millis(1);
/// Who waits at all waits so long, and goes with all that may go by then: each batch of the journal has a block of its own.
const TOGETHER: Duration = Duration::from_millis(1);
/// What is measured counts as so many times what was known at most: one disk that hung must not make hosts wait in all
/// checkpoints to come.
const SURPRISE_MAX: u32 = 4;
/// Clusters that what was measured before counts for, in parts of a checkpoint.
const FORMER_PART: u64 = 8;
/// The end is expected so much later than it was: nothing tells how far it is, and who trusts it gives all that is left
/// to the writers of its last millisecond.
const ENDING_FACTOR: u32 = 2;
/// Clusters that count as done before the first ones are.
const FIRST_CLUSTERS: u64 = 64;

/// Lets writers have the journal's room at the pace at which a checkpoint frees it.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Whether a checkpoint runs, for who has no time to look.
    is_running: AtomicBool,
    pace: Mutex<Pace>,
    /// One of each volume's writers is next.
    turn: Turn,
    /// By volume, those of it that wait.
    lines: Mutex<BTreeMap<VersionId, Arc<Turn>>>,
}

/// The checkpoint that runs, and what those before took.
#[derive(Debug, Default)]
struct Pace {
    running: Option<Progress>,
    /// For one cluster; zero as long as nobody knows.
    per_cluster: Duration,
    /// From the last cluster to the end.
    ending: Duration,
    /// When the write before went.
    last: Duration,
}

/// How far a checkpoint is.
#[derive(Debug)]
struct Progress {
    began: Duration,
    /// When it came to its clusters.
    placing: Option<Duration>,
    clusters: u64,
    done: u64,
    /// When it got on last.
    moved: Duration,
    /// When all clusters were in place.
    placed: Option<Duration>,
}

impl Progress {
    /// From when on time was spent on its clusters.
    fn since(&self) -> Duration {
        self.placing.unwrap_or(self.began)
    }

    fn stands_still(&self, now: Duration) -> bool {
        now.saturating_sub(self.moved) >= STILL
    }
}

impl Throttle {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().expect("nothing panics while it holds the pace")
    }

    /// A checkpoint begins that has so many clusters to put in place.
    pub(crate) fn begin(&self, now: Duration, clusters: u64) {
        let pace = &mut *self.pace();
        assert!(pace.running.is_none(), "one checkpoint at a time");
        pace.running = Some(Progress {
            began: now,
            placing: None,
            clusters,
            done: 0,
            moved: now,
            placed: None,
        });
        self.lines().retain(|_, line| Arc::strong_count(line) > 1);
        self.is_running.store(true, Ordering::Relaxed);
    }

    /// From here on it puts them there.
    pub(crate) fn placing(&self, now: Duration) {
        if let Some(progress) = &mut self.pace().running {
            (progress.placing, progress.moved) = (Some(now), now);
        }
    }

    /// So many more of them are in place.
    pub(crate) fn done(&self, now: Duration, clusters: u64) {
        if let Some(progress) = &mut self.pace().running {
            progress.done += clusters;
            progress.moved = now;
        }
    }

    /// All of them are.
    pub(crate) fn placed(&self, now: Duration) {
        self.pace().placed(now);
    }

    /// The room is there, or never will be.
    pub(crate) fn end(&self, now: Duration) {
        self.is_running.store(false, Ordering::Relaxed);
        self.pace().end(now);
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<VersionId, Arc<Turn>>> {
        self.lines.lock().expect("nothing panics while it holds the lines")
    }

    fn line_of(&self, volume: VersionId) -> Arc<Turn> {
        Arc::clone(self.lines().entry(volume).or_default())
    }
}

impl Pace {
    fn placed(&mut self, now: Duration) {
        let Some(progress) = &mut self.running else { return };
        (progress.placed, progress.moved) = (Some(now), now);
        // What a small one takes has little to do with how many clusters it has.
        if progress.done >= FIRST_CLUSTERS {
            let took = now.saturating_sub(progress.since()) / whole(progress.done);
            self.per_cluster = average(self.per_cluster, took);
        }
    }

    fn end(&mut self, now: Duration) {
        let Some(progress) = self.running.take() else { return };
        // One that failed tells nothing about the next one, and a small one little.
        if let Some(placed) = progress.placed.filter(|_| progress.done >= FIRST_CLUSTERS) {
            self.ending = average(self.ending, now.saturating_sub(placed));
        }
    }

    /// How long the checkpoint that runs still takes, by all that is known.
    fn time_left(&self, progress: &Progress, now: Duration) -> Duration {
        if let Some(placed) = progress.placed {
            let since = now.saturating_sub(placed);
            return (self.ending * ENDING_FACTOR).saturating_sub(since).max(since / 2);
        }
        let spent = now.saturating_sub(progress.since());
        if progress.done == 0 {
            // How much of it was for clusters nobody knows.
            let known = self.per_cluster * whole(progress.clusters);
            return spent + known + self.ending * ENDING_FACTOR;
        }
        let counts = match self.per_cluster.is_zero() {
            true => FIRST_CLUSTERS,
            false => progress.clusters / FORMER_PART + 1,
        };
        let known = spent + self.per_cluster * whole(counts);
        let left = progress.clusters.saturating_sub(progress.done);
        known * whole(left) / whole(progress.done + counts) + self.ending * ENDING_FACTOR
    }

    /// Lets a write of so many blocks go, or says how long it has to wait.
    fn pass(&mut self, now: Duration, fill: Fill, blocks: u64) -> Result<(), Duration> {
        let Some(progress) = &self.running else { return Ok(()) };
        let max = delay_max(blocks, progress.stands_still(now));
        let delay = delay(fill, blocks, self.time_left(progress, now)).min(max);
        let due = self.last + delay;
        if due > now && !delay.is_zero() && !mutants::is(Mutant::RushOn) {
            return Err(due - now);
        }
        self.last = due.max(now.saturating_sub(CREDIT_MAX));
        Ok(())
    }
}

/// How long after the one before a write of so many blocks goes when the next room is `left` away.
fn delay(fill: Fill, blocks: u64, left: Duration) -> Duration {
    let Fill { used, limit } = fill;
    let (knee, full) = (limit * KNEE_PERCENT / 100, limit * FULL_PERCENT / 100);
    if used <= knee {
        return Duration::ZERO;
    }
    let (share, of) = ((used - knee).min(full - knee), (full - knee).max(1));
    let given = (limit - limit * KEPT_PERCENT / 100).saturating_sub(used);
    let room = given.max(limit.saturating_sub(used) / 4).max(1);
    let nanos = left.as_nanos() * u128::from(blocks) * u128::from(share);
    let nanos = nanos / u128::from(room) / u128::from(of);
    u64::try_from(nanos).map_or(DELAY_MAX, |nanos| DELAY_MAX.min(Duration::from_nanos(nanos)))
}

/// How long after the one before it a write of so many blocks goes in any case.
fn delay_max(blocks: u64, stands_still: bool) -> Duration {
    if stands_still || mutants::is(Mutant::HastyWriters) {
        return STILL_DELAY_MAX;
    }
    DELAY_MAX.min(BLOCK_DELAY_MAX * whole(blocks))
}

/// What is measured counts half, and all the first time.
fn average(before: Duration, now: Duration) -> Duration {
    if before.is_zero() { now } else { (before + now.min(before * SURPRISE_MAX)) / 2 }
}

fn whole(clusters: u64) -> u32 {
    u32::try_from(clusters.max(1)).unwrap_or(u32::MAX)
}

impl Core {
    /// Whether a write of so many blocks may go at once; then it counts as gone.
    pub(super) fn may_go(&self, blocks: u64) -> bool {
        let throttle = &self.throttle;
        if !throttle.is_running.load(Ordering::Relaxed) {
            return true;
        }
        throttle.turn.held().is_none() && self.pass(blocks).is_ok()
    }

    /// Waits until a write of so many blocks may go. Whoever holds clusters of the volume must have asked before.
    pub(super) async fn wait_to_go(&self, volume: VersionId, blocks: u64) {
        if self.may_go(blocks) {
            return;
        }
        let throttle = &self.throttle;
        let line = throttle.line_of(volume);
        let _first_of_volume = line.take().await;
        let _next = throttle.turn.take().await;
        while let Err(wait) = self.pass(blocks) {
            // A journal that has failed has no room to wait for, and tells whoever asks it.
            if self.journal.failure().is_some() {
                return;
            }
            self.env.sleep(wait.max(TOGETHER)).await;
        }
    }

    fn pass(&self, blocks: u64) -> Result<(), Duration> {
        let fill = self.journal.fill_level();
        self.throttle.pace().pass(self.env.now(), fill, blocks)
    }
}

#[cfg(test)]
mod tests;
