//! The array's state and what all its parts share.

mod disks;
mod holds;
mod known;
mod layers;
mod membership;
mod memory;
mod pages;
mod record;
mod sets;
mod space;
mod state;
mod touched;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::cache::BlockCache;
use crate::journal::Journal;
use crate::label::{ArrayId, Layout};
use crate::raid::Raid;
use crate::sync::{Bell, Turn};
use crate::volume::Ahead;
use crate::watch::{Beat, Watch};
use crate::{DiskId, Env, Level};

pub(crate) use holds::Holds;
pub(crate) use known::{Knowledge, Known, Met, Shapes};
pub(crate) use layers::Layer;
pub(crate) use membership::{Alarm, CONDEMNED, HOLDERS};
pub(crate) use memory::{RESERVE_BYTES, batch_clusters};
pub(crate) use record::{RecordRoom, UNCACHED_BYTES, VERSION_BYTES, VOLUME_BYTES, taken_bytes};
pub(crate) use sets::{Sets, set_layout, until_done};
pub(crate) use space::{Image, Space};
pub(crate) use state::{Asker, Limbo, Live, Redone, Request, State, Wanted};
pub(crate) use touched::{Stripe, Touched, Witness};

/// Before what failed for a passing reason is tried again.
pub(crate) const RETRY: Duration = Duration::from_millis(1);

/// One array, open.
///
/// Locks: `state` is taken for short, never over an await. The journal and the RAID layer have
/// short locks of their own, as have the holds, which may be taken inside of it, never the other way round.
pub(crate) struct Core {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) id: ArrayId,
    pub(crate) layout: Layout,
    /// Level of volumes that name none.
    pub(crate) level: Level,
    pub(crate) raid: Arc<Raid>,
    pub(crate) sets: Sets,
    pub(crate) journal: Arc<Journal>,
    pub(crate) state: Mutex<State>,
    pub(crate) alarm: Arc<Alarm>,
    /// Stripes that were written to and not flushed.
    pub(crate) touched: Touched,
    /// Blocks in memory.
    pub(crate) cache: BlockCache,
    pub(crate) ahead: Ahead,
    /// Reads and writes of hosts, ever.
    pub(crate) host_ops: AtomicU64,
    /// A checkpoint runs, or somebody keeps it from running.
    pub(crate) checkpointing: Turn,
    /// Rings when the upkeep should look whether there is work.
    pub(crate) upkeep: Bell,
    /// The ring after which it found nothing to do.
    pub(crate) settled: AtomicU64,
    /// One change of the labels at a time.
    pub(crate) labelling: Turn,
    /// One command about disks at a time: what it found to be right holds until it is done. But for the one
    /// that declares a disk failed, which may be what the others wait for.
    pub(crate) disk_commands: Turn,
    /// One decision at a time that a disk has failed.
    pub(crate) condemning: Mutex<()>,
    /// One attempt at a time to take a disk back.
    pub(crate) taking_back: Mutex<BTreeMap<DiskId, Arc<Turn>>>,
    /// Rings when the checkpointer should look whether there is work.
    pub(crate) work: Bell,
    /// Rings when clusters that an atomic operation held are free again.
    pub(crate) unlocked: Bell,
    /// Changes of volumes that wait while snapshots of several arrays are taken.
    pub(crate) holds: Holds,
    /// Rings when a rebalancing has ended.
    pub(crate) balanced: Bell,
    /// Where checkpoints, upkeep and repairs are.
    pub(crate) checkpoint_beat: Beat,
    /// How fast writers may go while a checkpoint runs.
    pub(crate) throttle: crate::volume::Throttle,
    pub(crate) upkeep_beat: Beat,
    pub(crate) repair_beat: Beat,
    /// What stands still.
    pub(crate) watch: Mutex<Watch>,
}

impl Core {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while it was held may have left half a change: nothing may go on from there.
        self.state.lock().expect("the state of the array is whole")
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("id", &self.id).finish_non_exhaustive()
    }
}
