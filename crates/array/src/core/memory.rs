//! Memory for the array's own work.
//!
//! A host whose I/O finds no memory is told so and tries again. What was acknowledged must get to
//! its place all the same: checkpoints wait for memory, and because hosts wait for them with their
//! buffers in hand, a part of the pool is kept for checkpoints alone.

use std::time::Duration;

use ring::Buf;

use super::{Core, RETRY};
use crate::mutants::{self, Mutant};

/// What is kept: a batch of a checkpoint with all that reads, merges and parity take of it.
pub(crate) const RESERVE_BYTES: usize = 32 << 20;
/// What one cluster of a batch takes of that at most: itself, what lay there, its part of a stripe.
const CLUSTER_SHARE_BYTES: usize = 512 << 10;
/// Clusters whose data is on its way at the same time, where memory is plenty.
const BATCH_CLUSTERS: usize = 64;

/// How many clusters a checkpoint may have on their way at the same time on this core.
pub(crate) fn batch_clusters() -> usize {
    (ring::pool_reserve() / CLUSTER_SHARE_BYTES).clamp(1, BATCH_CLUSTERS)
}

impl Core {
    /// A buffer for the array's own work, as soon as there is memory.
    pub(crate) async fn buffer(&self, len: usize) -> Buf {
        loop {
            match Buf::alloc(len) {
                Some(buf) => return buf,
                None => self.env.sleep(RETRY).await,
            }
        }
    }
}

/// What a core does in between is done when this is over.
const BREATH: Duration = Duration::from_micros(1);

impl Core {
    /// Lets others on this core go on, in the middle of work that waits for nothing. By the clock, as a task that wakes
    /// itself is polled a thousand times before its core looks at sockets and disks again: a timer ends in a later turn
    /// of the core, and who is busy is late for it by as much as the others take.
    pub(crate) async fn let_others_run(&self) {
        if mutants::is(Mutant::KeepCore) {
            return;
        }
        self.env.sleep(BREATH).await;
    }
}
