//! RAID sets over chunks of disks: every read is checked and repaired, every write reaches all
//! copies and parities that are there.
//!
//! [`Raid`] does the I/O, [`Disks`] are what it is done on, a [`Set`] says where things lie.
//!
//! - A **read** ([`Raid::read`]) takes one copy. If that fails, or does not match its checksums, it
//!   takes the stripe's lock and tries everything else: other mirrors, parity, and with two
//!   parities also that one more strip is silently wrong.
//!   If its disk is late, the others give the same.
//! - A **write** changes a stripe under its lock: [`Raid::write_fresh`] one without live data,
//!   [`Raid::write_slot`] mirrors in place. A parity stripe with live data changes in two steps,
//!   [`Raid::plan_update`] and [`Raid::apply`], between which the update stands in the [`redo`]
//!   area: a crash in the middle is repaired by doing it again.
//! - A disk that misses a write gets a bit in the set's stale mask and is not used for that
//!   stripe until [`Raid::refresh_stripe`] has brought it up to date. No write counts as done
//!   without a disk before [`DiskFailed`] has made the loss known.
//!
//! Futures of changes must be run to their end: one that is dropped leaves its stripe half written.

mod disks;
mod geometry;
mod half;
mod heal;
mod io;
mod late;
mod locks;
mod read;
mod record;
pub mod redo;
mod refresh;
mod revocable;
mod rows;
mod run;
mod scrub;
mod set;
#[cfg(test)]
mod tests;
mod times;
mod update;
mod write;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use block::BlockError;

use crate::{DiskId, Level, SetId, Task};
use io::WaitFor;

pub use disks::{Access, Counts, Disk, Disks};
pub use geometry::{COLUMNS_MAX, Layout, MEMBERS_MAX, Shape};
pub use half::Half;
pub use heal::{Heal, Healed};
pub(crate) use io::{PASSING_TRIES_MAX, is_passing};
pub use locks::Left;
pub use read::{Good, Read};
pub use record::{BadRecord, Replacement, Seat, SetRecord, bytes_max};
pub use refresh::{Proof, Refreshed};
pub use rows::{Crcs, NO_CRCS};
pub use scrub::{Contents, Scrubbed};
pub use set::{BadSet, REPLACEMENT, Set};
pub use times::SetTimes;
pub use update::{Change, Update};
pub use write::Put;

/// What the rest of the array does when a disk fails.
pub trait DiskFailed: Send + Sync + Debug {
    /// Makes it durable that `disk` has no part in what is written from now on. Ends when that is
    /// done. It is called while stripes are locked and must wait for none; it may be called
    /// several times for one failure.
    fn disk_failed(&self, disk: DiskId, error: BlockError) -> Pin<Box<dyn Future<Output = ()>>>;

    /// A disk does not answer, and is asked nothing more until it is put out and comes back.
    fn disk_silent(&self, disk: DiskId);

    /// The time, from some moment on.
    fn now(&self) -> Duration;

    /// Blocks were found to be wrong, or could not be read, when nobody waited for them any more: they are to be rewritten.
    fn heal(&self, heals: Vec<Heal>);

    /// Ends after so long.
    fn sleep(&self, time: Duration) -> Task;

    /// Runs `task` on this core, until it ends.
    fn spawn(&self, task: Task);

    /// A disk that is in use lacks a stripe that it had: it is to be brought up to date.
    fn disk_behind(&self, disk: DiskId);
}

/// Why a read gives no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The disks are there, but no copy of this block is what was written.
    #[error("block {block} of the cluster is damaged on every disk that holds it")]
    Damaged {
        /// Counted from the start of the slot.
        block: usize,
    },
    /// More members are missing than the level survives.
    #[error("more disks are missing than the RAID level survives")]
    Lost,
    /// Data and parity of a stripe disagree, and which is wrong is not known here.
    #[error("data and parity of a stripe disagree")]
    Unproved,
    /// Nothing is wrong with the data; the same read can work a moment later.
    #[error("not now: {0}")]
    Later(BlockError),
}

/// Why a write is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// More members are missing than the level survives.
    #[error("more disks are missing than the RAID level survives")]
    Lost,
    /// The same, and it was found when some of it was written.
    #[error("more disks went out meanwhile than the RAID level survives")]
    Half,
    /// The stripe may be half written: repeat the same write until it is done.
    #[error("not now: {0}")]
    Later(BlockError),
}

/// The RAID layer of an array. Shared by all cores.
#[derive(Debug)]
pub struct Raid {
    disks: Disks,
    locks: locks::StripeLocks,
    half: half::HalfDone,
    times: times::Times,
    failed: Arc<dyn DiskFailed>,
}

impl Raid {
    /// A layer without disks yet; `failed` is asked before a write is counted as done without a
    /// disk.
    #[must_use]
    pub fn new(failed: Arc<dyn DiskFailed>) -> Self {
        Self {
            disks: Disks::default(),
            locks: locks::StripeLocks::default(),
            half: half::HalfDone::default(),
            times: times::Times::default(),
            failed,
        }
    }

    /// Stripes that somebody holds and others wait for, each with a number of that holding.
    #[must_use]
    pub fn contended(&self) -> Vec<((SetId, u32), u64)> {
        self.locks.contended()
    }

    /// How long sets of a level have taken; `None` for those of metadata.
    #[must_use]
    pub fn times(&self, level: Option<Level>) -> SetTimes {
        self.times.counted(level)
    }

    /// The member disks.
    #[must_use]
    pub fn disks(&self) -> &Disks {
        &self.disks
    }
}
