//! Disks on a regular file or a block device of this machine.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ring::{Buf, Data};

use crate::arguments::Answer;
use crate::locks::{Access, StripeLocks};
use crate::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, WriteFlags,
    arguments, bytes,
};

mod commit;
mod open;
mod probe;
#[cfg(test)]
mod tests;
mod transfer;

use commit::{Commit, Joined, Syncer};
pub use open::{FileOptions, OpenError};
pub(crate) use transfer::Transfer;

/// What one step of a long unmap covers: a file system holds up other changes of the file for
/// its duration, milliseconds even where every cluster is an extent of its own.
const UNMAP_STEP_BYTES: u64 = 1 << 30;

/// A disk on a regular file or on a block device.
///
/// - Files in memory (tmpfs, ramfs): reads and writes are one copying system call on the spot,
///   since they never wait for a disk (their kernel code cannot do `RWF_NOWAIT`, and through
///   the ring they would cost twice as much). A durable write is no different, and a flush does
///   nothing: such data is as safe as the machine's memory, and `fdatasync` there is empty too.
/// - Elsewhere reads come from the page cache: at once with `RWF_NOWAIT`, else by the ring.
/// - Writes of a write-through device ([`FileOptions::write_through`]) go past the page cache, as
///   `O_DIRECT` with `RWF_DSYNC`. On ext4 that does three times the writes per second of group
///   commit at any depth from 8 to 128, and errors belong to the write that met them: there are no
///   dirty pages that a failed sync could lose. The kernel drops the cached pages they replace.
/// - A direct device ([`FileOptions::direct`], for who keeps a cache of its own) does the same with
///   reads, and with `RWF_DSYNC` only where a write is to be durable. The others are with the disk
///   when they end, so their errors belong to them too, and a flush concerns only what the disk and
///   the file system hold back.
/// - Other writes go to the page cache by the ring, as they can wait for a journal or for dirty
///   pages to drain. Durable ones among them then share an `fdatasync` with their neighbours
///   in time. The two kinds are never mixed on one device: a cached write to one sector
///   of a page could carry the old contents of another sector over a direct write.
///
/// A regular file that was cut behind the back of the device stays as short as it is: once a read has met its
/// end, writes beyond it fail, as those of a block device do.
///
/// After a failed `fdatasync` durable writes and flushes fail with [`BlockError::LostWrites`]
/// until the device is opened anew, as by [`BlockDevice::reopened`]; reads and volatile writes go on.
#[derive(Debug, Clone)]
pub struct FileDisk(Arc<Store>);

#[derive(Debug)]
struct Store {
    /// For operations that may wait: they run on the ring of the core.
    file: ring::File,
    /// The same file past the page cache: then all writes go there.
    direct: Option<ring::File>,
    /// Reads go there too. Set only with `direct`.
    direct_reads: bool,
    /// Every write is durable when it ends. Set only with `direct`.
    write_through: bool,
    /// The same file for calls that cannot wait; holds the lock against other processes.
    handle: fs::File,
    /// Holds the lock of what the device lies in.
    behind: Option<Arc<fs::File>>,
    geometry: Geometry,
    /// A read met the end of the file before that of the device.
    is_cut: AtomicBool,
    in_memory: bool,
    locks: Arc<StripeLocks>,
    commit: Arc<Commit>,
    /// Makes syncs fail, for tests of what must happen then.
    #[cfg(test)]
    sync_errno: std::sync::atomic::AtomicI32,
}

/// Syncs the file of a store for its group commit.
struct StoreSync(Arc<Store>);

impl Syncer for StoreSync {
    async fn sync(&self) -> io::Result<()> {
        #[cfg(test)]
        match self.0.sync_errno.load(std::sync::atomic::Ordering::Relaxed) {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        self.0.file.fdatasync().await
    }
}

impl Store {
    fn new(
        file: ring::File,
        direct: Option<ring::File>,
        handle: fs::File,
        geometry: Geometry,
        options: &FileOptions,
        in_memory: bool,
    ) -> Self {
        assert!(direct.is_none() || !in_memory, "memory has no way past it");
        Self {
            direct_reads: options.direct && direct.is_some(),
            write_through: options.write_through && direct.is_some(),
            file,
            direct,
            handle,
            behind: None,
            geometry,
            is_cut: AtomicBool::new(false),
            in_memory,
            locks: Arc::default(),
            commit: Arc::default(),
            #[cfg(test)]
            sync_errno: Default::default(),
        }
    }

    /// The same file with a commit of its own: what failed before is not remembered. One that is shorter by
    /// now is a smaller device.
    fn reopened(&self) -> io::Result<Self> {
        Ok(Self {
            file: self.file.clone(),
            direct: self.direct.clone(),
            direct_reads: self.direct_reads,
            write_through: self.write_through,
            // The lock against other processes goes on with it.
            handle: self.handle.try_clone()?,
            behind: self.behind.clone(),
            geometry: self.measured()?,
            is_cut: AtomicBool::new(false),
            in_memory: self.in_memory,
            // Operations on the old one may still be under way.
            locks: Arc::clone(&self.locks),
            commit: Arc::default(),
            #[cfg(test)]
            sync_errno: Default::default(),
        })
    }

    /// The shape of the device as it is now, if it was cut; it has one block at least.
    fn measured(&self) -> io::Result<Geometry> {
        let blocks = open::size_of(&self.handle)? / u64::from(self.geometry.block_bytes);
        Ok(Geometry { blocks: blocks.clamp(1, self.geometry.blocks), ..self.geometry })
    }

    /// Refuses what would make a file longer that was cut, once its arguments have no `answer`: who looks at its
    /// end must find that it was.
    fn refuse_beyond_end<T>(&self, answer: Answer<T>, at: u64, len: u64) -> Answer<T> {
        answer.or_else(|| {
            let is_beyond =
                || open::size_of(&self.handle).is_ok_and(|size_bytes| at + len > size_bytes);
            (self.is_cut.load(Relaxed) && is_beyond()).then_some(Err(BlockError::Medium { at }))
        })
    }

    fn join_sync(self: &Arc<Self>, at: u64) -> Joined {
        self.commit.join(at, || StoreSync(Arc::clone(self)))
    }

    /// Refuses durable changes after a failed flush, once their arguments have no `answer`.
    fn refuse_lost<T>(&self, answer: Answer<T>, flags: WriteFlags) -> Answer<T> {
        let is_lost = flags.durable && self.commit.has_failed();
        answer.or_else(|| is_lost.then_some(Err(BlockError::LostWrites)))
    }

    fn answer_write(&self, at: u64, len: usize, flags: WriteFlags) -> Answer<()> {
        let answer = self.refuse_lost(arguments::write(&self.geometry, at, len, flags), flags);
        self.refuse_beyond_end(answer, at, len as u64)
    }

    /// Whether more has to be done for a write with these flags than for a volatile one.
    fn needs_sync(&self, flags: WriteFlags) -> bool {
        flags.durable && !self.in_memory && !self.write_through
    }

    /// `data` as it can be written: direct I/O wants its memory aligned.
    fn writable(&self, data: Data) -> Result<Data, BlockError> {
        if self.direct.is_none() || data.is_aligned_to(ring::PAGE_BYTES) {
            return Ok(data);
        }
        data.to_buf().map(Data::from).ok_or(BlockError::NoMemory)
    }

    fn start_read(&self, buf: Buf, range: Range<usize>, at: u64) -> ring::BufIo {
        match &self.direct {
            Some(direct) if self.direct_reads => direct.read_at(buf, range, at),
            _ => self.file.read_at(buf, range, at),
        }
    }

    /// Starts to write `data`. Past the page cache it is durable at its end if that is asked for,
    /// or the device writes through; what goes to the page cache is not.
    fn start_write(&self, data: Data, at: u64, durable: bool) -> ring::DataIo {
        match &self.direct {
            Some(direct) => direct.write_data_at(data, at, durable || self.write_through),
            None => self.file.write_data_at(data, at, false),
        }
    }

    /// Reads what is there without waiting: how many bytes, short for any reason.
    fn read_now(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        if self.in_memory {
            self.handle.read_at(to, at)
        } else if self.direct_reads {
            Ok(0)
        } else {
            Ok(self.file.try_read_now(at, to)?.unwrap_or(0))
        }
    }

    /// Writes `data` under stripes that the caller holds; volatile.
    async fn write_held(self: &Arc<Self>, at: u64, data: Data) -> Result<(), BlockError> {
        let data = self.writable(data)?;
        Transfer::write(self, None, at, data, false).await.map(drop)
    }

    async fn read_held(self: &Arc<Self>, at: u64, len: usize) -> Result<Data, BlockError> {
        let buf = Buf::alloc(len).ok_or(BlockError::NoMemory)?;
        Transfer::read(self, None, at, buf, 0).await
    }

    async fn sync_if(self: &Arc<Self>, needed: bool, at: u64) -> Result<(), BlockError> {
        match needed {
            true => Transfer::sync(self, at).await.map(drop),
            false => Ok(()),
        }
    }

    /// Changes `len` bytes at `at` by `change` while nobody else reads or writes them.
    fn alone<T: 'static, F>(
        self: &Arc<Self>,
        at: u64,
        len: u64,
        flags: WriteFlags,
        change: impl FnOnce(Arc<Store>) -> F + 'static,
    ) -> IoFuture<T>
    where
        F: Future<Output = Result<T, BlockError>>,
    {
        let store = Arc::clone(self);
        IoFuture::detached(async move {
            let guard = Arc::clone(&store.locks).lock(at, len, Access::Exclusive).await;
            let answer = change(Arc::clone(&store)).await?;
            drop(guard);
            store.sync_if(store.needs_sync(flags), at).await?;
            Ok(answer)
        })
    }

    /// Zeroes the range by writing: it is mapped afterwards.
    async fn write_zeroes_plain(self: &Arc<Self>, at: u64, len: u64) -> Result<(), BlockError> {
        let end = at + len;
        let mut at = at;
        while at < end {
            let step = (end - at).min(bytes::ZEROES.len() as u64);
            let guard = Arc::clone(&self.locks).lock(at, step, Access::Shared).await;
            self.write_held(at, Data::from(&bytes::ZEROES[..step as usize])).await?;
            drop(guard);
            at += step;
        }
        Ok(())
    }

    /// Applies `mode` in steps; where the file system or device cannot, writes zeroes.
    async fn free_or_zero(
        self: &Arc<Self>,
        mode: ring::FallocateMode,
        at: u64,
        len: u64,
    ) -> Result<(), BlockError> {
        let end = at + len;
        let mut at = at;
        while at < end {
            let step = (end - at).min(UNMAP_STEP_BYTES);
            let guard = Arc::clone(&self.locks).lock(at, step, Access::Shared).await;
            let done = self.file.fallocate(mode, at, step).await;
            drop(guard);
            match done.map_err(|error| BlockError::from_io(&error, at)) {
                Ok(()) => {}
                Err(BlockError::Unsupported) => self.write_zeroes_plain(at, step).await?,
                Err(error) => return Err(error),
            }
            at += step;
        }
        Ok(())
    }

    /// Where the state at `at` ends, and what it is, as the file system tells.
    fn find_extent(&self, at: u64) -> io::Result<Extent> {
        let size_bytes = self.geometry.size_bytes();
        let block_bytes = u64::from(self.geometry.block_bytes);
        let data = self.file.next_data(at)?.unwrap_or(size_bytes).min(size_bytes);
        // A block that holds any data is mapped, so a hole counts in whole blocks.
        let hole_end = data - data % block_bytes;
        if hole_end > at {
            return Ok(Extent { len_bytes: hole_end - at, state: ExtentState::Deallocated });
        }
        let hole = self.file.next_hole(data)?.unwrap_or(size_bytes);
        let end = hole.next_multiple_of(block_bytes).min(size_bytes);
        // The hole may have been filled, or the data punched, between the two questions.
        let len_bytes = end.saturating_sub(at).max(block_bytes);
        Ok(Extent { len_bytes, state: ExtentState::Mapped })
    }

    fn write_inline(&self, at: u64, from: &[u8]) -> Result<(), BlockError> {
        self.handle.write_all_at(from, at).map_err(|error| BlockError::from_io(&error, at))
    }
}

impl BlockDevice for FileDisk {
    fn reopened(&self) -> Option<Arc<dyn BlockDevice>> {
        match self.0.reopened() {
            Ok(store) => Some(Arc::new(Self(Arc::new(store)))),
            Err(error) => {
                tracing::warn!(%error, "a file cannot be opened anew");
                None
            }
        }
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        let store = &self.0;
        if let Some(answer) = arguments::read(&store.geometry, at, len) {
            return IoFuture::ready(answer);
        }
        let Some(mut buf) = Buf::alloc(len) else {
            return IoFuture::ready(Err(BlockError::NoMemory));
        };
        if let Some(guard) = store.locks.try_lock(at, len as u64, Access::Shared) {
            // An error here is met again, with its exact place, on the way through the ring.
            let done = store.read_now(at, &mut buf).unwrap_or(0);
            if done == len {
                return IoFuture::ready(Ok(buf.into()));
            }
            let held = Some(guard.into_owned(&store.locks));
            return IoFuture::read(Transfer::read(store, held, at, buf, done));
        }
        let store = Arc::clone(store);
        IoFuture::boxed(async move {
            let locks = Arc::clone(&store.locks);
            let guard = locks.lock(at, len as u64, Access::Shared).await;
            Transfer::read(&store, Some(guard), at, buf, 0).await
        })
    }

    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        let store = &self.0;
        if !store.in_memory {
            return None;
        }
        if let Some(answer) = store.answer_write(at, bytes.len(), flags) {
            return Some(answer);
        }
        let _guard = store.locks.try_lock(at, bytes.len() as u64, flags.access())?;
        Some(store.write_inline(at, bytes))
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let (store, len) = (&self.0, data.len() as u64);
        if let Some(answer) = store.answer_write(at, data.len(), flags) {
            return IoFuture::ready(answer);
        }
        if let (true, Some(bytes)) = (store.in_memory, data.as_slice())
            && let Some(_guard) = store.locks.try_lock(at, len, flags.access())
        {
            return IoFuture::ready(store.write_inline(at, bytes));
        }
        if flags.atomic {
            return store.alone(at, len, flags, move |store| async move {
                store.write_held(at, data).await
            });
        }
        let data = match store.writable(data) {
            Ok(data) => data,
            Err(error) => return IoFuture::ready(Err(error)),
        };
        let durable = store.needs_sync(flags);
        if let Some(guard) = store.locks.try_lock_owned(at, len, Access::Shared) {
            return IoFuture::written(Transfer::write(store, Some(guard), at, data, durable));
        }
        let store = Arc::clone(store);
        IoFuture::boxed(async move {
            let guard = Arc::clone(&store.locks).lock(at, len, Access::Shared).await;
            Transfer::write(&store, Some(guard), at, data, durable).await.map(drop)
        })
    }

    fn flush(&self) -> IoFuture<()> {
        if self.0.in_memory || self.0.geometry.read_only {
            return IoFuture::ready(Ok(()));
        }
        if self.0.commit.has_failed() {
            return IoFuture::ready(Err(BlockError::LostWrites));
        }
        IoFuture::written(Transfer::sync(&self.0, 0))
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        if let Some(answer) = arguments::unmap(&self.0.geometry, at, len) {
            return IoFuture::ready(answer);
        }
        let store = Arc::clone(&self.0);
        IoFuture::detached(async move {
            store.free_or_zero(ring::FallocateMode::PunchHole, at, len).await
        })
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        let answer = arguments::write_zeroes(&self.0.geometry, at, len, flags);
        let answer = self.0.refuse_lost(answer, flags);
        if let Some(answer) = self.0.refuse_beyond_end(answer, at, len) {
            return IoFuture::ready(answer);
        }
        let store = Arc::clone(&self.0);
        IoFuture::detached(async move {
            match (may_unmap, store.file.is_block_device()) {
                (true, _) => store.free_or_zero(ring::FallocateMode::PunchHole, at, len).await?,
                (false, true) => {
                    store.free_or_zero(ring::FallocateMode::ZeroRange, at, len).await?;
                }
                // ZeroRange would leave unwritten extents, which count as holes to the file
                // system and so to GET LBA STATUS: these zeroes are to be mapped.
                (false, false) => {
                    store.write_zeroes_plain(at, len).await?;
                    return store.sync_if(store.needs_sync(flags), at).await;
                }
            }
            store.sync_if(flags.durable && !store.in_memory, at).await
        })
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let answer = arguments::compare_and_write(&self.0.geometry, at, &compare, &write);
        if let Some(answer) = self.0.refuse_lost(answer, flags) {
            return IoFuture::ready(answer);
        }
        let len = write.len() as u64;
        self.0.alone(at, len, flags, move |store| async move {
            let found = store.read_held(at, compare.len()).await?;
            let found = found.as_slice().expect("a file is read into a buffer");
            if let Some(offset_bytes) = bytes::first_difference(found, &compare)? {
                return Ok(Compared::Miscompare { offset_bytes });
            }
            store.write_held(at, write).await?;
            Ok(Compared::Equal)
        })
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let answer = arguments::or_write(&self.0.geometry, at, data.len());
        if let Some(answer) = self.0.refuse_lost(answer, flags) {
            return IoFuture::ready(answer);
        }
        let len = data.len() as u64;
        self.0.alone(at, len, flags, move |store| async move {
            let found = store.read_held(at, data.len()).await?;
            let mut merged = found.to_buf().ok_or(BlockError::NoMemory)?;
            bytes::or_into(&mut merged, &data)?;
            store.write_held(at, merged.into()).await
        })
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        let geometry = self.0.geometry;
        if let Err(error) = arguments::extent(&geometry, at) {
            return IoFuture::ready(Err(error));
        }
        if self.0.file.is_block_device() {
            // The kernel has no way to ask a device what it holds.
            let len_bytes = geometry.size_bytes() - at;
            return IoFuture::ready(Ok(Extent { len_bytes, state: ExtentState::Mapped }));
        }
        let store = Arc::clone(&self.0);
        IoFuture::boxed(async move {
            // On a helper thread: the question can wait for metadata from the disk.
            let found = ring::blocking(move || store.find_extent(at)).await;
            found.map_err(|error| BlockError::from_io(&error, at))
        })
    }
}
