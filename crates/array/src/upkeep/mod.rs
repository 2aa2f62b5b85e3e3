//! What the array does by itself: heals blocks, restores redundancy, takes disks back, scrubs.

mod closing;
mod heal;
mod jobs;
mod pace;
mod rebalance;
mod refresh;
mod returning;
mod scrub;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::core::Core;

pub(crate) use heal::HealQueue;
pub(crate) use jobs::{Job, Progress};
pub(crate) use refresh::is_suspect;
pub(crate) use scrub::Findings;

/// How long a disk may be away before its data is restored on others.
const GRACE: Duration = Duration::from_secs(60);
/// How often absent disks are looked for.
const LOOK: Duration = Duration::from_secs(5);

impl Core {
    /// Restores redundancy and moves data, as long as the array is open.
    pub(crate) async fn run_upkeep(self: Arc<Self>) {
        let mut rebalance = None;
        loop {
            let mark = self.upkeep.mark();
            if self.lock().stopped.is_some() {
                return;
            }
            self.upkeep_beat.at("disks to take their part");
            if self.restore().await || self.rebalance(&mut rebalance).await {
                continue;
            }
            self.upkeep_beat.rest();
            self.await_upkeep(mark).await;
        }
    }

    /// Heals blocks and takes disks back, as long as the array is open: beside rebuilds, which may
    /// take hours.
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
            self.repair_beat.at("disks that are back");
            if self.take_back_disks().await {
                self.upkeep.ring();
            }
            self.return_volumes();
            self.repair_beat.rest();
            self.await_upkeep(mark).await;
        }
    }

    /// Waits for something to do.
    async fn await_upkeep(&self, mark: u64) {
        let rung = std::pin::pin!(self.upkeep.after(mark));
        if self.is_whole() {
            rung.await;
        } else {
            // Somebody is away: look again now and then.
            match select(self.env.sleep(LOOK), rung).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }

    /// Whether no disk is away.
    fn is_whole(&self) -> bool {
        self.lock().away.is_empty()
    }
}
