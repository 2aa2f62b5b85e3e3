//! Changes that read first: parts of a block, compare-and-write, or-write. They hold their
//! clusters, so that no other change comes between reading and writing.

use std::sync::Arc;

use block::{BlockError, Compared, IoFuture, WriteFlags};
use ring::{Buf, Data};

use super::Device;
use super::plan::Of;
use super::read::Blocks;
use super::write::{Change, RECORD_BLOCKS_MAX, Waited};
use crate::core::Core;
use crate::journal::{PAYLOAD_BLOCKS_MAX, Ticket};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, VersionId};

impl Device {
    pub(super) fn compare_device(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        if compare.len() != write.len() {
            return IoFuture::ready(Err(BlockError::PayloadMismatch));
        }
        let checked = self.shape().check_atomic(at, compare.len() as u64);
        match checked.and_then(|()| self.volume()) {
            Err(error) => IoFuture::ready(Err(error)),
            Ok(_) if compare.is_empty() => IoFuture::ready(Ok(Compared::Equal)),
            Ok(volume) => {
                let core = Arc::clone(&self.core);
                let durable = flags.durable;
                IoFuture::boxed(compare_and_write(core, volume, at, compare, write, durable))
            }
        }
    }

    pub(super) fn or_device(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let checked = self.shape().check_atomic(at, data.len() as u64);
        match checked.and_then(|()| self.volume()) {
            Err(error) => IoFuture::ready(Err(error)),
            Ok(_) if data.is_empty() => IoFuture::ready(Ok(())),
            Ok(volume) => {
                let core = Arc::clone(&self.core);
                IoFuture::boxed(or_write(core, volume, at, data, flags.durable))
            }
        }
    }
}

/// Clusters that are held; dropped, they are free again.
#[derive(Debug)]
struct Held {
    core: Arc<Core>,
    volume: VersionId,
    clusters: std::ops::RangeInclusive<u64>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(live) = self.core.lock().live.get_mut(&self.volume) {
            for cluster in self.clusters.clone() {
                live.locked.remove(&cluster);
            }
        }
        self.core.unlocked.ring();
    }
}

async fn hold(core: &Arc<Core>, volume: VersionId, blocks: Blocks) -> Result<Held, BlockError> {
    let last = blocks.first + blocks.count as u64 - 1;
    let clusters = blocks.first / CLUSTER_BLOCKS as u64..=last / CLUSTER_BLOCKS as u64;
    // Before anything is held: others must not wait for who waits for room.
    core.wait_to_go(volume, blocks.count as u64).await;
    loop {
        let mark = core.unlocked.mark();
        {
            let mut state = core.lock();
            let live = state.live.get_mut(&volume);
            let live = live.ok_or(BlockError::Os { errno: libc::ENODEV })?;
            if live.locked.range(clusters.clone()).next().is_none() {
                live.locked.extend(clusters.clone());
                return Ok(Held { core: Arc::clone(core), volume, clusters });
            }
        }
        core.unlocked.after(mark).await;
    }
}

impl Held {
    async fn read(&self, blocks: Blocks) -> Result<Data, BlockError> {
        let cached = self.core.cache.volume(self.volume);
        self.core.read(Of::Head(self.volume), blocks.first, blocks.count, &cached).await
    }

    /// Writes whole blocks in one step: all of them are seen at once, and survive together.
    async fn write(&self, first: u64, data: Data) -> Result<Ticket, BlockError> {
        let count = data.len() / BLOCK_BYTES;
        let change = Change::Write(data);
        let mut waited = Waited::default();
        loop {
            let tried = {
                let state = &mut *self.core.lock();
                self.core.change_now(state, self.volume, first, count, &change)
            };
            match tried {
                Ok(ticket) => return Ok(ticket),
                Err(wait) => self.core.wait(wait, first, &mut waited).await?,
            }
        }
    }

    /// Puts `data` into the blocks that cover it, and writes them.
    async fn patch(&self, blocks: Blocks, old: &Data, data: &Data) -> Result<Ticket, BlockError> {
        let mut buf = old.to_buf().ok_or(BlockError::NoMemory)?;
        data.copy_to(0, &mut buf[blocks.skip..blocks.skip + data.len()]);
        self.write(blocks.first, buf.freeze()).await
    }
}

/// Writes bytes whose ends are parts of a block.
pub(super) async fn write_parts(
    core: Arc<Core>,
    volume: VersionId,
    at: u64,
    data: Data,
    durable: bool,
) -> Result<(), BlockError> {
    let mut done = 0;
    let mut ticket = None;
    while done < data.len() {
        // Pieces end on a block, so that only the outer ends are read.
        let from = at + done as u64;
        let end = (from / BLOCK_BYTES as u64 + RECORD_BLOCKS_MAX as u64) * BLOCK_BYTES as u64;
        let len = usize::try_from(end - from).expect("a record").min(data.len() - done);
        let piece = data.slice(done..done + len);
        let blocks = Blocks::covering(from, len);
        let held = hold(&core, volume, blocks).await?;
        let old = held.read(blocks).await?;
        ticket = Some(held.patch(blocks, &old, &piece).await?);
        done += len;
    }
    let ticket = ticket.expect("an empty write does not come here");
    core.journal.answered(ticket, durable).await
}

/// Writes bytes that readers see together: one record, however long they are and wherever they begin.
pub(super) async fn write_atomic(
    core: Arc<Core>,
    volume: VersionId,
    at: u64,
    data: Data,
    durable: bool,
) -> Result<(), BlockError> {
    let blocks = Blocks::covering(at, data.len());
    assert!(blocks.count as u64 <= PAYLOAD_BLOCKS_MAX, "checked against the longest one");
    let held = hold(&core, volume, blocks).await?;
    let ticket = match data.len() == blocks.count * BLOCK_BYTES {
        true => held.write(blocks.first, data).await?,
        false => {
            let old = held.read(blocks).await?;
            held.patch(blocks, &old, &data).await?
        }
    };
    drop(held);
    core.journal.answered(ticket, durable).await
}

/// Makes bytes read as zeroes: whole clusters lose their space, parts of clusters are written.
pub(super) async fn zero_parts(
    core: Arc<Core>,
    volume: VersionId,
    at: u64,
    len: u64,
    durable: bool,
) -> Result<(), BlockError> {
    let (block, cluster) = (BLOCK_BYTES as u64, CLUSTER_BYTES as u64);
    let (start, end) = (at.next_multiple_of(cluster), (at + len) / cluster * cluster);
    if start >= end {
        // Within one cluster, or two parts that touch.
        return write_parts(core, volume, at, zeroes(len)?, durable).await;
    }
    // The ends are written, because they may need space: a cluster that a snapshot shares is
    // copied. What needs none must work on an array that is full.
    if at < start {
        write_parts(Arc::clone(&core), volume, at, zeroes(start - at)?, durable).await?;
    }
    if end < at + len {
        write_parts(Arc::clone(&core), volume, end, zeroes(at + len - end)?, durable).await?;
    }
    let count = usize::try_from((end - start) / block).expect("a volume's blocks fit");
    let ticket = core.change_counted(volume, start / block, count, &Change::Zero).await?;
    core.journal.answered(ticket, durable).await
}

pub(super) fn zeroes(len: u64) -> Result<Data, BlockError> {
    let len = usize::try_from(len).expect("parts of blocks are short");
    Buf::zeroed(len).map(Buf::freeze).ok_or(BlockError::NoMemory)
}

/// Writes `write` where `compare` is found (SBC-4 5.3).
async fn compare_and_write(
    core: Arc<Core>,
    volume: VersionId,
    at: u64,
    compare: Data,
    write: Data,
    durable: bool,
) -> Result<Compared, BlockError> {
    let blocks = Blocks::covering(at, compare.len());
    let held = hold(&core, volume, blocks).await?;
    let old = held.read(blocks).await?;
    let found = old.slice(blocks.skip..blocks.skip + compare.len());
    let (found, wanted) = (still(&found)?, still(&compare)?);
    let differs = found.iter().zip(wanted.iter()).position(|(a, b)| a != b);
    if let Some(offset_bytes) = differs {
        return Ok(Compared::Miscompare { offset_bytes });
    }
    let ticket = held.patch(blocks, &old, &write).await?;
    drop(held);
    core.journal.answered(ticket, durable).await?;
    Ok(Compared::Equal)
}

/// ORs `data` into the volume (SBC-4 5.16).
async fn or_write(
    core: Arc<Core>,
    volume: VersionId,
    at: u64,
    data: Data,
    durable: bool,
) -> Result<(), BlockError> {
    let blocks = Blocks::covering(at, data.len());
    let held = hold(&core, volume, blocks).await?;
    let old = held.read(blocks).await?;
    let mut merged = still(&old.slice(blocks.skip..blocks.skip + data.len()))?;
    for (into, byte) in merged.iter_mut().zip(still(&data)?.iter()) {
        *into |= byte;
    }
    let ticket = held.patch(blocks, &old, &merged.freeze()).await?;
    drop(held);
    core.journal.answered(ticket, durable).await
}

/// A copy that nobody changes.
fn still(data: &Data) -> Result<Buf, BlockError> {
    data.to_buf().ok_or(BlockError::NoMemory)
}
