//! What the array does by itself: heals blocks, restores redundancy, takes disks back, scrubs.

mod heal;
mod jobs;
mod pace;
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
    /// Does whatever there is to do, as long as the array is open.
    pub(crate) async fn run_upkeep(self: Arc<Self>) {
        loop {
            let mark = self.upkeep.mark();
            if self.lock().stopped.is_some() {
                return;
            }
            self.put_out_silent_disks().await;
            self.heal_queued().await;
            let mut is_busy = self.take_back_disks().await;
            self.return_volumes();
            is_busy |= self.restore().await;
            if is_busy {
                continue;
            }
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
    }

    /// Whether no disk is away.
    fn is_whole(&self) -> bool {
        self.lock().away.is_empty()
    }
}
