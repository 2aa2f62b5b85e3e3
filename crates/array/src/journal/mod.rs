//! The journal: what was changed since the last checkpoint, in order, on several disks.
//!
//! ```text
//!   append ──▶ open batch ──▶ sealed ──▶ in flight ──▶ written ──▶ durable ──▶ trimmed
//!     Journal::append   seal      take       settle        flush       Journal::trim
//! ```
//!
//! A change becomes part of the open batch at once. [`Journal::run`] writes one batch after the
//! other to all holders, up to [`IN_FLIGHT_MAX`] at a time, and acknowledges them strictly in
//! order. While a batch is on its way the next one grows: so many writers share one wait for the
//! disks, and a single one does not wait for others.
//!
//! A batch is written durably and skips the state between, unless all of it is volatile: such a
//! batch is answered when it is written, which the end of the process cannot undo, and a flush makes
//! it durable when somebody asks for that or [`FLUSH_BYTES`] are in doubt. What follows a batch in
//! doubt is durable only with it, and so waits for a flush too.
//!
//! # The ring
//!
//! Positions count bytes from the birth of the array and never go back; position `p` lies at byte
//! `p % journal_bytes` of the journal area of each holder, and at the same byte of the image in
//! memory. A batch is
//!
//! ```text
//!  start                                                              start + blocks
//!  +------+---------------------+-----------+- - -+-----------+----------------------+
//!  | head | records, first part | payload 0 |     | payload n | records, second part |
//!  +------+---------------------+-----------+- - -+-----------+----------------------+
//!  0     96                   4 KiB                            (whole blocks, or none)
//!
//!  head:  0 magic  8 array  24 sequence  32 previous  40 start  48 durable  56 blocks
//!        60 payload blocks  64 record bytes  68 records  72 skip blocks
//!        76 crc of the payload  80 crc of the records  84 zeroes  92 crc of bytes 0..92
//! ```
//!
//! The second part of the records stands behind the payload because a payload gets its place
//! before it is known how many records will share the batch.
//!
//! 1. A batch never wraps. What does not fit before the end of the ring is preceded by a batch
//!    without records whose `skip blocks` reach exactly to that end; they are not written.
//! 2. Every bit of a batch is under one of its three checksums: that of the records covers the
//!    first block from byte 96 on and all of the second part, zeroes included.
//! 3. `sequence` is larger than any that was ever seen in this ring, and `previous` is that of the
//!    batch before. So a batch that an earlier life of the array left behind half acknowledged
//!    is not taken for the successor of a new batch in the place of the old one. Each life begins
//!    with a batch before anything is served: what was left behind where the one before ended, and
//!    could not be read at this opening, does not fit any more at the next.
//! 4. Everything before position `durable` was durable on all holders when the batch was written:
//!    it must be found again.
//! 5. A batch is submitted only when all but the [`IN_FLIGHT_MAX`] `- 1` before it are written, and
//!    when it ends at most [`IN_DOUBT_BYTES_MAX`] after `durable`.
//! 6. `tail <= durable <= written <= end <= tail + journal_bytes`.
//!
//! # What a crash leaves
//!
//! The batches in flight, after a loss of power all that are not durable, may be whole on some
//! holders and not on others. Recovery takes each batch from any holder that has it whole and stops
//! at the first that none has: what is durable, after the end of the process alone what is written,
//! is whole everywhere, so it is never among what is dropped. What was volatile is lost from its end
//! on, never from the middle. If what stopped it is
//! damage instead, later batches say so by their `durable`, and [`scan`](fn@scan) refuses. Damage
//! to the last batches alone cannot be told from a crash: more than one holder guards against it.

mod answers;
mod batch;
mod filled;
mod log;
mod record;
mod scan;
mod share;
#[cfg(test)]
mod tests;
mod writer;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, BlockError};
use serde::{Deserialize, Serialize};

use crate::{BLOCK_BYTES, DiskId, Task};

pub use log::Journal;
pub use record::{Changed, Placed, Record, Taken};
pub(crate) use share::AGAIN_BYTES;

pub use scan::{Believed, JournalDamage, Scanned, given_up, scan};

/// Batches that are written at the same time: one that the disks work on, and one that waits in
/// their queue, so that they never idle.
pub const IN_FLIGHT_MAX: usize = 2;
/// What may be written and not durable until a flush begins by itself.
pub const FLUSH_BYTES: u64 = 2 << 20;
/// What may be submitted and not durable: less than a recovery looks ahead.
pub const IN_DOUBT_BYTES_MAX: u64 = 8 << 20;
/// Blocks of a batch, so that one read of a window holds any batch.
pub const BATCH_BLOCKS_MAX: u64 = 320;
/// Payload of one record: 1 MiB, the longest atomic operation, which may begin within a block.
pub const PAYLOAD_BLOCKS_MAX: u64 = 257;
/// Encoded length of one record: a snapshot of 1,700 volumes, 9,000 stripes.
pub const RECORD_BYTES_MAX: usize = 128 << 10;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A border between two batches: where a checkpoint lets the journal begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// Where the next batch starts.
    pub position: u64,
    /// Sequence number of the batch before; 0 when there was none.
    pub sequence: u64,
}

/// The batch that something was put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Its sequence number.
    batch: u64,
    /// Whether the answer waits for more than the write.
    is_durable: bool,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Of the first block of its payload; the others follow without a gap.
    pub position: u64,
    /// What to wait for.
    pub ticket: Ticket,
    /// Blocks of the ring that are in use now.
    pub used_blocks: u64,
}

/// How full the ring is, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// In use.
    pub used: u64,
    /// What may be, of what is not a checkpoint's own.
    pub limit: u64,
}

/// Why a record was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The ring is full: wait with [`Journal::room`]. Also when the journal has failed, which
    /// `room` then tells.
    #[error("the journal is full")]
    Full,
    /// The record alone exceeds [`RECORD_BYTES_MAX`]: split it.
    #[error("a record of {bytes} bytes does not fit into the journal")]
    TooLong {
        /// Its encoded length.
        bytes: usize,
    },
}

/// A disk that holds the journal.
#[derive(Debug, Clone)]
pub struct Holder {
    /// Its number.
    pub disk: DiskId,
    /// The disk.
    pub device: Arc<dyn BlockDevice>,
}

/// What the rest of the array does about holders.
pub trait HolderFailed: Send + Sync {
    /// A write to `disk` failed; the journal no longer uses it. The task must end only when the
    /// labels say so: nothing is acknowledged before, or the stale copy of the journal could be
    /// taken for the newest after a crash.
    fn holder_failed(&self, disk: DiskId, error: BlockError) -> Task;

    /// A flush of `disk` failed; told at once, [`holder_failed`](Self::holder_failed) follows when all
    /// holders have answered. Until then nobody may take another flush of it for good.
    fn flush_failed(&self, disk: DiskId, error: BlockError);

    /// A moment, after which there may be memory again.
    fn pause(&self) -> Task;

    /// The time, from some moment on.
    fn now(&self) -> Duration;

    /// No holder is left: who could take the journal over?
    fn successors(&self, failed: &[DiskId]) -> Vec<Holder>;

    /// All of the journal is durable on these disks. Ends when the labels say so; false if they
    /// cannot.
    fn moved(&self, to: Vec<DiskId>) -> Pin<Box<dyn Future<Output = bool>>>;
}
