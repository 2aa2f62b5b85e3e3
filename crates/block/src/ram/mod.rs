//! A disk in memory: the fastest device, and the reference that others are compared with.

use std::io;
use std::sync::Arc;

use ring::{Buf, Data, Region};

use crate::locks::{Access, StripeLocks};
use crate::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, WriteFlags,
    arguments, bytes,
};

mod provision;
#[cfg(test)]
mod tests;

use provision::{PAGE_BYTES, ProvisionMap};

/// Memory that one step of a long unmap gives back: about a millisecond of the core.
const STEP_BYTES: u64 = 16 << 20;

/// A disk in memory, sparse: a page takes memory when it is first written and gives it back when
/// it is unmapped. Its contents end with the process; `durable` is a promise it keeps only
/// that long, as nothing on it outlives the process anyway.
///
/// Reads lend the disk's own memory ([`BlockDevice`]). Where an atomic operation ever
/// happened (per stripe of 256 KiB, in practice the lock blocks of a cluster file
/// system) reads copy under the stripe's lock instead, so that no reader sees half of one. What
/// remains: a read already lent out when the *first* atomic operation on its stripe begins may
/// still show part of that one.
#[derive(Debug, Clone)]
pub struct RamDisk(Arc<Ram>);

#[derive(Debug)]
struct Ram {
    geometry: Geometry,
    memory: Region,
    provisioned: ProvisionMap,
    locks: Arc<StripeLocks>,
}

impl RamDisk {
    /// A disk of `blocks` blocks of `block_bytes` (512 or 4096), all deallocated.
    ///
    /// # Errors
    /// What the kernel says when it cannot set the address space aside.
    pub fn new(block_bytes: u32, blocks: u64) -> io::Result<Self> {
        Self::with_geometry(Geometry::new(block_bytes, blocks))
    }

    /// As [`new`](Self::new), read-only: it reads as zeroes for ever.
    ///
    /// # Errors
    /// Those of `new`.
    pub fn new_read_only(block_bytes: u32, blocks: u64) -> io::Result<Self> {
        Self::with_geometry(Geometry { read_only: true, ..Geometry::new(block_bytes, blocks) })
    }

    fn with_geometry(geometry: Geometry) -> io::Result<Self> {
        let size_bytes = usize::try_from(geometry.size_bytes())
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self(Arc::new(Ram {
            geometry,
            memory: Region::new(size_bytes)?,
            provisioned: ProvisionMap::new(geometry.size_bytes()),
            locks: Arc::default(),
        })))
    }

    /// Does `change` under the locks of the range: now if they are free, else later.
    fn locked<T: 'static>(
        &self,
        at: u64,
        len: u64,
        access: Access,
        change: impl FnOnce(&Ram) -> Result<T, BlockError> + 'static,
    ) -> IoFuture<T> {
        if let Some(_guard) = self.0.locks.try_lock(at, len, access) {
            return IoFuture::ready(change(&self.0));
        }
        let ram = Arc::clone(&self.0);
        IoFuture::boxed(async move {
            let _guard = Arc::clone(&ram.locks).lock(at, len, access).await;
            change(&ram)
        })
    }
}

impl Ram {
    fn copy(&self, at: u64, len: usize) -> Result<Buf, BlockError> {
        let mut buf = Buf::alloc(len).ok_or(BlockError::NoMemory)?;
        self.memory.read_into(at as usize, &mut buf);
        Ok(buf)
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write(at as usize, bytes);
        self.provisioned.set(at, bytes.len() as u64);
    }

    /// Zeroes `len` bytes at `at`, a step at most, and gives back the whole pages among them.
    fn zero(&self, at: u64, len: u64) {
        debug_assert!(len <= STEP_BYTES);
        let end = at + len;
        // The page at a ragged end of the device counts as whole: nothing lies behind it.
        let tail = if end == self.geometry.size_bytes() {
            end.div_ceil(PAGE_BYTES)
        } else {
            end / PAGE_BYTES
        };
        self.provisioned.clear(at.div_ceil(PAGE_BYTES), tail);
        self.memory.discard(at as usize, len as usize);
    }

    /// The next piece to zero from `at` on, at most a step: skips what holds nothing.
    fn next_piece(&self, at: u64, end: u64) -> Option<(u64, u64)> {
        let mut at = at;
        while at < end {
            let (mapped, pages) = self.provisioned.run(at / PAGE_BYTES);
            let run_end = ((at / PAGE_BYTES + pages) * PAGE_BYTES).min(end);
            if mapped {
                return Some((at, (run_end - at).min(STEP_BYTES)));
            }
            at = run_end;
        }
        None
    }

    /// Zeroes pieces of `at..end`, in steps with turns of the core between them.
    async fn zero_in_steps(&self, at: u64, end: u64) {
        let mut at = at;
        while let Some((piece, len)) = self.next_piece(at, end) {
            let guard = Arc::clone(&self.locks).lock(piece, len, Access::Shared).await;
            self.zero(piece, len);
            drop(guard);
            at = piece + len;
            ring::turn_end().await;
        }
    }

    async fn map_zeroes_in_steps(&self, at: u64, end: u64) {
        let mut at = at;
        while at < end {
            let len = STEP_BYTES.min(end - at);
            let guard = Arc::clone(&self.locks).lock(at, len, Access::Shared).await;
            self.map_zeroes(at, len);
            drop(guard);
            at += len;
            ring::turn_end().await;
        }
    }

    /// Zeroes a step at most and counts it as mapped; memory comes back when it is written.
    fn map_zeroes(&self, at: u64, len: u64) {
        self.zero(at, len);
        self.provisioned.set(at, len);
    }
}

impl BlockDevice for RamDisk {
    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    #[inline]
    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Some(answer) = arguments::read(&self.0.geometry, at, len) {
            return IoFuture::ready(answer);
        }
        if !self.0.locks.is_marked(at, len as u64) {
            return IoFuture::ready(Ok(self.0.memory.slice(at as usize, len)));
        }
        self.locked(at, len as u64, Access::Shared, move |ram| ram.copy(at, len).map(Data::from))
    }

    #[inline]
    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        if let Some(answer) = arguments::write(&self.0.geometry, at, bytes.len(), flags) {
            return Some(answer);
        }
        let _guard = self.0.locks.try_lock(at, bytes.len() as u64, flags.access())?;
        self.0.put(at, bytes);
        Some(Ok(()))
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write(&self.0.geometry, at, data.len(), flags) {
            return IoFuture::ready(answer);
        }
        self.locked(at, data.len() as u64, flags.access(), move |ram| {
            ram.memory.write_data(at as usize, &data);
            ram.provisioned.set(at, data.len() as u64);
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<()> {
        IoFuture::ready(Ok(()))
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        if let Some(answer) = arguments::unmap(&self.0.geometry, at, len) {
            return IoFuture::ready(answer);
        }
        let end = at + len;
        match self.0.next_piece(at, end) {
            None => return IoFuture::ready(Ok(())),
            // Small unmaps, and those of space with one written run, end within the call.
            Some((piece, len)) if self.0.next_piece(piece + len, end).is_none() => {
                return self.locked(piece, len, Access::Shared, move |ram| {
                    ram.zero(piece, len);
                    Ok(())
                });
            }
            Some(_) => {}
        }
        let ram = Arc::clone(&self.0);
        IoFuture::detached(async move {
            ram.zero_in_steps(at, end).await;
            Ok(())
        })
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write_zeroes(&self.0.geometry, at, len, flags) {
            return IoFuture::ready(answer);
        }
        if may_unmap {
            return self.unmap(at, len);
        }
        if len <= STEP_BYTES {
            return self.locked(at, len, Access::Shared, move |ram| {
                ram.map_zeroes(at, len);
                Ok(())
            });
        }
        let ram = Arc::clone(&self.0);
        IoFuture::detached(async move {
            ram.map_zeroes_in_steps(at, at + len).await;
            Ok(())
        })
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        _flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let answer = arguments::compare_and_write(&self.0.geometry, at, &compare, &write);
        if let Some(answer) = answer {
            return IoFuture::ready(answer);
        }
        let len = compare.len();
        self.locked(at, len as u64, Access::Exclusive, move |ram| {
            let found = ram.copy(at, len)?;
            if let Some(offset_bytes) = bytes::first_difference(&found, &compare)? {
                return Ok(Compared::Miscompare { offset_bytes });
            }
            ram.memory.write_data(at as usize, &write);
            ram.provisioned.set(at, len as u64);
            Ok(Compared::Equal)
        })
    }

    fn or_write(&self, at: u64, data: Data, _flags: WriteFlags) -> IoFuture<()> {
        let len = data.len();
        if let Some(answer) = arguments::or_write(&self.0.geometry, at, len) {
            return IoFuture::ready(answer);
        }
        self.locked(at, len as u64, Access::Exclusive, move |ram| {
            let mut merged = ram.copy(at, len)?;
            bytes::or_into(&mut merged, &data)?;
            ram.put(at, &merged);
            Ok(())
        })
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        let geometry = &self.0.geometry;
        if let Err(error) = arguments::extent(geometry, at) {
            return IoFuture::ready(Err(error));
        }
        let (mapped, pages) = self.0.provisioned.run(at / PAGE_BYTES);
        let end = ((at / PAGE_BYTES + pages) * PAGE_BYTES).min(geometry.size_bytes());
        let state = if mapped { ExtentState::Mapped } else { ExtentState::Deallocated };
        IoFuture::ready(Ok(Extent { len_bytes: end - at, state }))
    }
}
