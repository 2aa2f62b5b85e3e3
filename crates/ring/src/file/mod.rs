//! Files and block devices.
//!
//! Which call for which file:
//! - `O_DIRECT` files and block devices: the asynchronous operations; they never occupy the core.
//! - Page cache (tmpfs, buffered ext4 or xfs): first [`File::try_read_now`], one system call and no
//!   turn of the loop when the pages are there; when it returns `None`, the asynchronous read.

mod blocking;
mod lock;
mod op;
mod open;
mod space;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::opcode;

use crate::mem::{Buf, Data};
use crate::net::SendBatch;
use crate::runtime::{FdRef, Kept, Op};

pub use blocking::blocking;
pub use op::{BufIo, DataIo, UnitIo};
pub use open::OpenOptions;
pub use space::{BlockLimits, FallocateMode};

/// An open file or block device. Any core may use it: an operation runs on the core that starts it
/// and keeps the file open until it is over, even when its future is dropped.
///
/// The futures of its operations start at once, not when first polled, and are plain structs that
/// can be embedded. Reads and writes may be short, as those of the kernel.
#[derive(Clone, Debug)]
pub struct File {
    fd: Arc<OwnedFd>,
    is_block_device: bool,
}

impl File {
    /// Reads into `range` of `buf` from byte `at` of the file. With direct I/O the file offset, the
    /// address and the length must be multiples of the device's logical block.
    ///
    /// # Panics
    /// When `range` is outside of `buf`; outside of a core.
    pub fn read_at(&self, mut buf: Buf, range: Range<usize>, at: u64) -> BufIo {
        let (ptr, len) = buf.part(&range);
        let fd = self.fd_ref();
        let entry = opcode::Read::new(fd.raw(), ptr, len).offset(at).build();
        // SAFETY: the entry points into the buffer's memory, which does not move with it.
        BufIo(unsafe { Op::start(entry, fd, Kept::Buf(buf)) })
    }

    /// Writes `range` of `buf` at byte `at`; when `durable` it has reached stable storage at the
    /// end, as after `fdatasync` of these bytes alone.
    ///
    /// # Panics
    /// When `range` is outside of `buf`; outside of a core.
    pub fn write_at(&self, mut buf: Buf, range: Range<usize>, at: u64, durable: bool) -> BufIo {
        let (ptr, len) = buf.part(&range);
        let fd = self.fd_ref();
        let flags = rw_flags(durable);
        let entry = opcode::Write::new(fd.raw(), ptr, len).offset(at).rw_flags(flags).build();
        // SAFETY: the entry points into the buffer's memory, which does not move with it.
        BufIo(unsafe { Op::start(entry, fd, Kept::Buf(buf)) })
    }

    /// Writes `data` at byte `at`; `durable` as for [`File::write_at`].
    ///
    /// # Panics
    /// When `data` is 4 GiB or more; outside of a core.
    pub fn write_data_at(&self, data: Data, at: u64, durable: bool) -> DataIo {
        let (ptr, len) = data.raw();
        let len = u32::try_from(len).expect("one I/O is below 4 GiB");
        let fd = self.fd_ref();
        let flags = rw_flags(durable);
        let entry = opcode::Write::new(fd.raw(), ptr, len).offset(at).rw_flags(flags).build();
        // SAFETY: the entry points into memory that the data keeps in place.
        DataIo(unsafe { Op::start(entry, fd, Kept::Data { _data: data }) })
    }

    /// Writes the parts of `batch` one after the other at byte `at`, at most 1024 of them.
    ///
    /// # Panics
    /// Outside of a core.
    pub fn write_batch_at(&self, mut batch: SendBatch, at: u64, durable: bool) -> DataIo {
        batch.seal();
        let (iovecs, count) = batch.iovecs();
        let count = u32::try_from(count).expect("at most UIO_MAXIOV");
        let fd = self.fd_ref();
        let flags = rw_flags(durable);
        let entry = opcode::Writev::new(fd.raw(), iovecs, count).offset(at).rw_flags(flags).build();
        // SAFETY: vectors and bytes are on the heap side of the batch, which keeps them in place.
        DataIo(unsafe { Op::start(entry, fd, Kept::Batch(batch)) })
    }

    /// Makes everything written so far durable, with the metadata needed to read it back.
    ///
    /// # Panics
    /// Outside of a core.
    pub fn fdatasync(&self) -> UnitIo {
        let fd = self.fd_ref();
        let flags = io_uring::types::FsyncFlags::DATASYNC;
        let entry = opcode::Fsync::new(fd.raw()).flags(flags).build();
        // SAFETY: the entry points to nothing.
        UnitIo(unsafe { Op::start(entry, fd, Kept::Nothing) })
    }

    /// Allocates, punches or zeroes a range of a file; punches (discards) and zeroes a range of a
    /// block device. `EOPNOTSUPP` where the file system or device cannot.
    ///
    /// # Panics
    /// Outside of a core.
    pub fn fallocate(&self, mode: FallocateMode, at: u64, len: u64) -> UnitIo {
        let fd = self.fd_ref();
        let entry = opcode::Fallocate::new(fd.raw(), len).offset(at).mode(mode.bits()).build();
        // SAFETY: the entry points to nothing.
        UnitIo(unsafe { Op::start(entry, fd, Kept::Nothing) })
    }

    /// Reads what can be had without waiting: the bytes read (0 at the end of the file), or `None`
    /// when it would have to wait for a disk, or the file system cannot tell.
    pub fn try_read_now(&self, at: u64, to: &mut [u8]) -> io::Result<Option<usize>> {
        let iovec = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
        let at = offset(at)?;
        // SAFETY: the vector describes `to`, which is exclusively borrowed during the call.
        let n = unsafe {
            libc::preadv2(self.fd.as_raw_fd(), &raw const iovec, 1, at, libc::RWF_NOWAIT)
        };
        now_result(n)
    }

    /// Writes what can be written without waiting; `None` when it would have to wait, or the file
    /// system cannot tell. Not durable. May be short.
    pub fn try_write_now(&self, at: u64, from: &[u8]) -> io::Result<Option<usize>> {
        let iovec = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
        let at = offset(at)?;
        // SAFETY: the vector describes `from`, which is borrowed and only read.
        let n = unsafe {
            libc::pwritev2(self.fd.as_raw_fd(), &raw const iovec, 1, at, libc::RWF_NOWAIT)
        };
        now_result(n)
    }

    fn fd_ref(&self) -> FdRef {
        FdRef::Shared(self.fd.clone())
    }
}

fn rw_flags(durable: bool) -> i32 {
    if durable { libc::RWF_DSYNC } else { 0 }
}

fn offset(at: u64) -> io::Result<i64> {
    i64::try_from(at).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn now_result(n: isize) -> io::Result<Option<usize>> {
    if let Ok(n) = usize::try_from(n) {
        return Ok(Some(n));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::EINTR) => Ok(None),
        _ => Err(error),
    }
}
