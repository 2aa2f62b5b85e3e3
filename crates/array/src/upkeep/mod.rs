//! What the array does by itself: heals blocks, restores redundancy, takes disks back, scrubs.

mod closing;
mod departing;
mod expected;
mod heal;
mod held;
mod jobs;
mod lost;
mod pace;
mod rebalance;
mod recorded;
mod refresh;
mod returning;
mod scrub;
mod waived;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::core::Core;
use crate::error::ArrayError;

pub(crate) use heal::HealQueue;
pub(crate) use jobs::{Job, Progress};
pub(crate) use lost::LostBlocks;
pub(crate) use refresh::is_suspect;
pub(crate) use returning::Return;
pub(crate) use scrub::Findings;

/// How long a disk may be away before its data is restored on others.
pub(crate) const GRACE: Duration = Duration::from_secs(60);
/// How often absent disks are looked for.
const LOOK: Duration = Duration::from_secs(5);
/// When stripes are tried again that could not be restored.
const AGAIN: Duration = Duration::from_secs(60);
/// What the upkeep of RAID sets waits for while it moves data.
const RESTORING: &str = "disks to take their part";

impl Core {
    /// Restores redundancy and moves data, as long as the array is open.
    pub(crate) async fn run_upkeep(self: Arc<Self>) {
        let mut rebalance = None;
        loop {
            let mark = self.upkeep.mark();
            if self.lock().stopped.is_some() {
                return;
            }
            self.upkeep_beat.at(RESTORING);
            if self.restore().await || self.rebalance(&mut rebalance).await {
                continue;
            }
            self.return_volumes();
            self.upkeep_beat.rest();
            self.settled.store(mark, Ordering::Relaxed);
            // What could not be read may be readable later.
            let again = self.has_stale_work().then_some(AGAIN);
            // A chunk that somebody still uses keeps a disk from leaving.
            let is_leaving = {
                let state = &mut *self.lock();
                state.empty_limbo();
                !state.vacated.is_empty()
            };
            let again = if is_leaving { Some(LOOK) } else { again };
            self.await_upkeep(mark, again).await;
        }
    }

    /// Waits for a checkpoint, which says itself what it waits for: the upkeep has nothing to do meanwhile.
    async fn checkpointed_for_upkeep(self: &Arc<Self>) -> Result<(), ArrayError> {
        self.upkeep_beat.rest();
        let done = self.checkpointed().await;
        self.upkeep_beat.at(RESTORING);
        done
    }

    /// Whether nothing is left to restore or to move that could be now.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed) == self.upkeep.mark()
    }

    /// Puts out disks that do not answer and heals blocks, as long as the array is open: beside
    /// rebuilds, which may take hours.
    pub(crate) async fn run_repairs(self: Arc<Self>) {
        loop {
            let mark = self.upkeep.mark();
            if self.lock().stopped.is_some() {
                return;
            }
            self.repair_beat.at("disks that do not answer");
            self.put_out_silent_disks().await;
            self.repair_beat.at("a block to be rewritten");
            self.heal_queued().await;
            self.return_volumes();
            self.repair_beat.at("what was lost");
            let again = self.look_for_lost().await;
            self.repair_beat.rest();
            self.await_upkeep(mark, again).await;
        }
    }

    /// Takes disks back, as long as the array is open. Nobody else waits for this: to be asked
    /// whether it is back a disk may take minutes.
    pub(crate) async fn run_returns(self: Arc<Self>) {
        loop {
            let mark = self.upkeep.mark();
            if self.lock().stopped.is_some() {
                return;
            }
            self.take_back_disks();
            self.await_upkeep(mark, None).await;
        }
    }

    /// Waits for something to do, for so long only if that is said, or if somebody is away: then it
    /// is looked now and then.
    async fn await_upkeep(&self, mark: u64, again: Option<Duration>) {
        let rung = std::pin::pin!(self.upkeep.after(mark));
        let look = (!self.is_whole()).then_some(LOOK);
        let again = again.into_iter().chain(look).min();
        match again {
            None => rung.await,
            Some(time) => match select(self.env.sleep(time), rung).await {
                Either::Left(_) | Either::Right(_) => {}
            },
        }
    }

    /// Whether no disk is away, or has less than it counts as having.
    fn is_whole(&self) -> bool {
        let state = self.lock();
        state.away.is_empty() && state.waived.is_empty()
    }
}
