//! A device of blocks that takes any bytes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, WriteFlags, zeroes,
};
use ring::Data;
use ring::wait::{Turn, join_all};

use crate::Stats;
use crate::pieces::{PIECE_BYTES, Parts, pieces};

/// How zeroes are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zeroing {
    /// The space may be given back.
    pub may_unmap: bool,
    /// Rather fail with [`BlockError::Unsupported`] than take as long as writing data.
    pub fast: bool,
}

/// A device under clients that know no blocks: a request may start and end at any byte, and may be
/// of any length. Whole blocks go straight to the device, long requests in pieces that run at the
/// same time.
///
/// Part of a block is changed by compare-and-write, so that what another client, host or path
/// writes to the rest of the block meanwhile is never undone. Only a device without that command
/// gets the block read and written back.
#[derive(Debug)]
pub struct Disk {
    device: Arc<dyn BlockDevice>,
    /// As it was at first. A device may grow; the rest stays.
    geometry: Geometry,
    stats: Stats,
    /// One change of part of a block is under way. Such changes are rare and take turns.
    patching: Turn,
    /// Counts twice for each change: when it begins and when it is over.
    changes: AtomicU64,
    /// What `changes` was before the last flush that did its work.
    flushed: AtomicU64,
    /// How often a flush said that what was answered is lost.
    losses: AtomicU64,
}

/// A user of a disk: each hears of each loss once, by his next flush and by those under way.
#[derive(Debug)]
pub struct User {
    /// How many losses he knows of.
    told: AtomicU64,
}

/// A change of the medium, while it is under way.
struct Changing<'a>(&'a AtomicU64);

impl<'a> Changing<'a> {
    fn begin(changes: &'a AtomicU64) -> Self {
        changes.fetch_add(1, Ordering::Relaxed);
        Self(changes)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Disk {
    /// The disk over `device`.
    pub fn new(device: Arc<dyn BlockDevice>) -> Disk {
        let geometry = device.geometry();
        Disk {
            device,
            geometry,
            stats: Stats::default(),
            patching: Turn::default(),
            changes: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            losses: AtomicU64::new(0),
        }
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// The shape of the device now.
    pub fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    /// Capacity in bytes, which can become more.
    pub fn size_bytes(&self) -> u64 {
        self.geometry().size_bytes()
    }

    /// What the disk's clients have done.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Says that its users have written before this was made, and may not have flushed it.
    pub fn take_over(&self) {
        drop(Changing::begin(&self.changes));
    }

    /// Whether something was changed, or is being changed, that no flush since then has made durable.
    pub fn is_dirty(&self) -> bool {
        self.changes.load(Ordering::Relaxed) != self.flushed.load(Ordering::Relaxed)
    }

    fn block_bytes(&self) -> u64 {
        u64::from(self.geometry.block_bytes)
    }

    /// Whether the device can take the range as it is, in one operation.
    pub(crate) fn is_plain(&self, at: u64, len: usize) -> bool {
        (at | len as u64) & (self.block_bytes() - 1) == 0 && len as u64 <= PIECE_BYTES
    }

    /// Reads `len` bytes from `at`, in one part or more.
    ///
    /// # Errors
    /// Those of the device, [`BlockError::OutOfRange`] among them.
    pub async fn read(&self, at: u64, len: usize) -> Result<Vec<Data>, BlockError> {
        let end = at.checked_add(len as u64).ok_or_else(|| self.out_of_range(at, len as u64))?;
        let block = self.block_bytes();
        let whole = at / block * block..end.checked_next_multiple_of(block).unwrap_or(u64::MAX);
        let (skip, mut left) = ((at - whole.start) as usize, len);
        let reads = pieces(whole)
            .map(|piece| self.device.read(piece.start, (piece.end - piece.start) as usize));
        let mut parts = join_all::<_, Result<Vec<_>, _>>(reads).await?;
        for (i, part) in parts.iter_mut().enumerate() {
            let start = if i == 0 { skip } else { 0 };
            let end = part.len().min(start + left);
            *part = std::mem::take(part).into_slice(start..end);
            left -= end - start;
        }
        Ok(parts)
    }

    /// Writes `parts`, which [`pieces`] of the range filled in order, from `at` on.
    pub(crate) async fn write_parts(
        &self,
        at: u64,
        parts: Vec<Data>,
        flags: WriteFlags,
    ) -> Result<(), BlockError> {
        let _change = Changing::begin(&self.changes);
        let mut at = at;
        let mut writes = Vec::with_capacity(parts.len());
        let mut edges = Vec::new();
        for data in parts {
            let range = at..at + data.len() as u64;
            at = range.end;
            let part = |of: &Range<u64>| {
                data.slice((of.start - range.start) as usize..(of.end - range.start) as usize)
            };
            let Parts { head, body, tail } = Parts::of(&range, self.block_bytes());
            if !body.is_empty() {
                writes.push(self.device.write(body.start, part(&body), flags));
            }
            edges.extend([head, tail].iter().filter(|e| !e.is_empty()).map(|e| (e.start, part(e))));
        }
        let written: Result<(), _> = join_all(writes).await;
        for (at, data) in edges {
            self.patch(at, &data, flags).await?;
        }
        written
    }

    /// Writes `data` at `at`.
    ///
    /// # Errors
    /// Those of the device. Part of the range may have been written.
    pub async fn write(&self, at: u64, data: Data, flags: WriteFlags) -> Result<(), BlockError> {
        let len = data.len() as u64;
        let end = at.checked_add(len).ok_or_else(|| self.out_of_range(at, len))?;
        let parts = pieces(at..end)
            .map(|piece| data.slice((piece.start - at) as usize..(piece.end - at) as usize))
            .collect();
        self.write_parts(at, parts, flags).await
    }

    /// Makes every write that was answered before durable.
    ///
    /// # Errors
    /// Those of the device, which says once to all that writes are lost: users ask by
    /// [`flush_for`](Self::flush_for).
    pub async fn flush(&self) -> Result<(), BlockError> {
        let before = self.changes.load(Ordering::Relaxed);
        let result = self.device.flush().await;
        match result {
            Ok(()) => _ = self.flushed.fetch_max(before, Ordering::Relaxed),
            Err(BlockError::LostWrites) => _ = self.losses.fetch_add(1, Ordering::Relaxed),
            Err(_) => {}
        }
        result
    }

    /// A user who begins now.
    pub fn user(&self) -> User {
        User { told: AtomicU64::new(self.losses.load(Ordering::Relaxed)) }
    }

    /// The same for a user.
    ///
    /// # Errors
    /// Those of the device; [`BlockError::LostWrites`] also if somebody else's flush, or a trim, was the one
    /// that heard of the loss.
    pub async fn flush_for(&self, user: &User) -> Result<(), BlockError> {
        let told = user.told.load(Ordering::Relaxed);
        let result = self.flush().await;
        if !matches!(result, Ok(()) | Err(BlockError::LostWrites)) {
            return result;
        }
        let losses = self.losses.load(Ordering::Relaxed);
        user.told.fetch_max(losses, Ordering::Relaxed);
        if told < losses { Err(BlockError::LostWrites) } else { Ok(()) }
    }

    /// Writes `bytes` from where they are, if the device does so within the call.
    pub(crate) fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        let _change = Changing::begin(&self.changes);
        self.device.write_now(at, bytes, flags)
    }

    /// Tells the device that the range is not needed any more; what it holds then is open. Parts of
    /// blocks stay.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn trim(&self, at: u64, len: u64, durable: bool) -> Result<(), BlockError> {
        let end = at.checked_add(len).ok_or_else(|| self.out_of_range(at, len))?;
        let body = Parts::of(&(at..end), self.block_bytes()).body;
        let change = Changing::begin(&self.changes);
        if !body.is_empty() {
            self.device.unmap(body.start, body.end - body.start).await?;
        }
        drop(change);
        // An unmap is volatile until a flush.
        if durable { self.flush().await } else { Ok(()) }
    }

    /// Makes the range read as zeroes. A device that cannot do so by itself gets zeroes written.
    ///
    /// # Errors
    /// Those of the device; [`BlockError::Unsupported`] when it should be fast and is not.
    pub async fn write_zeroes(
        &self,
        at: u64,
        len: u64,
        how: Zeroing,
        flags: WriteFlags,
    ) -> Result<(), BlockError> {
        let end = at.checked_add(len).ok_or_else(|| self.out_of_range(at, len))?;
        // Only giving space back takes no time that grows with the length.
        if how.fast && !(how.may_unmap && self.geometry.thin) {
            return Err(BlockError::Unsupported);
        }
        let _change = Changing::begin(&self.changes);
        let Parts { head, body, tail } = Parts::of(&(at..end), self.block_bytes());
        if !body.is_empty() {
            let len = body.end - body.start;
            match self.device.write_zeroes(body.start, len, how.may_unmap, flags).await {
                Err(BlockError::Unsupported) if !how.fast => self.fill(body, flags).await?,
                result => result?,
            }
        }
        for edge in [head, tail] {
            if !edge.is_empty() {
                let zeroes = zeroes((edge.end - edge.start) as usize)?;
                self.patch(edge.start, &zeroes, flags).await?;
            }
        }
        Ok(())
    }

    /// Writes zeroes as data, one piece after the other: the range can be large.
    async fn fill(&self, range: Range<u64>, flags: WriteFlags) -> Result<(), BlockError> {
        let zeroes = zeroes(PIECE_BYTES as usize)?;
        for piece in pieces(range) {
            let data = zeroes.slice(0..(piece.end - piece.start) as usize);
            self.device.write(piece.start, data, flags).await?;
        }
        Ok(())
    }

    /// The provisioning of the range, at most `count_max` extents from its start. A device that
    /// does not know is taken as mapped.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn extents(
        &self,
        at: u64,
        len: u64,
        count_max: usize,
    ) -> Result<Vec<Extent>, BlockError> {
        let end = at.checked_add(len).ok_or_else(|| self.out_of_range(at, len))?;
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = at;
        while at < end {
            let down = at / self.block_bytes() * self.block_bytes();
            let found = match self.device.extent(down).await {
                Ok(extent) => extent,
                Err(BlockError::Unsupported) => {
                    Extent { len_bytes: end - down, state: ExtentState::Mapped }
                }
                Err(error) => return Err(error),
            };
            let found_end = down.saturating_add(found.len_bytes).clamp(at + 1, end);
            let len_bytes = found_end - at;
            let full = extents.len() == count_max;
            match extents.last_mut() {
                Some(last) if last.state == found.state => last.len_bytes += len_bytes,
                _ if full => break,
                _ => extents.push(Extent { len_bytes, state: found.state }),
            }
            at = found_end;
        }
        Ok(extents)
    }

    /// Changes part of one block.
    async fn patch(&self, at: u64, data: &Data, flags: WriteFlags) -> Result<(), BlockError> {
        let block = self.block_bytes();
        let start = at / block * block;
        let from = (at - start) as usize;
        assert!(from + data.len() <= block as usize, "a patch stays inside of its block");
        let _turn = self.patching.take().await;
        loop {
            let found = self.device.read(start, block as usize).await?;
            let found = found.to_buf().ok_or(BlockError::NoMemory)?.freeze();
            let mut changed = found.to_buf().ok_or(BlockError::NoMemory)?;
            data.copy_to(0, &mut changed[from..from + data.len()]);
            let changed = changed.freeze();
            let swap = self.device.compare_and_write(start, found, changed.clone(), flags);
            match swap.await {
                Ok(Compared::Equal) => return Ok(()),
                Ok(Compared::Miscompare { .. }) => {} // somebody was faster: on top of theirs
                Err(BlockError::Unsupported) => {
                    return self.device.write(start, changed, flags).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts a read that [`is_plain`](Self::is_plain).
    pub(crate) fn read_plain(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.device.read(at, len)
    }

    fn out_of_range(&self, at: u64, len: u64) -> BlockError {
        BlockError::OutOfRange { at, len, size_bytes: self.size_bytes() }
    }
}

#[cfg(test)]
mod tests;
