//! Files and block devices.
//!
//! First `try_read_now` or `try_write_now`, and when they return `None` the asynchronous operation:
//! that is right for every kind of file. Measured per 4 KiB (Linux 6.18, virtual machine):
//!
//! | file | at once | ring, one at a time | ring, 32 at a time |
//! |---|---|---|---|
//! | tmpfs, read or write | 1.2 us | 11 us (a kernel thread) | 2.9 us |
//! | buffered ext4, cached read | 1.1 us | 1.7 us | 1.7 us |
//! | buffered ext4, write | `None` | 22 us (a kernel thread) | 9 us |
//! | `O_DIRECT`, read or write | `None` | 31 us of processor time | 4 to 5 us |

mod blocking;
mod lock;
mod op;
mod open;
mod space;
#[cfg(test)]
mod tests;
mod whole;

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::opcode;

use crate::mem::{Buf, Data};
use crate::runtime::SendBatch;
use crate::runtime::{FdRef, Kept, Op};

pub use blocking::blocking;
pub use op::{BufIo, DataIo, UnitIo};
pub use open::OpenOptions;
pub use space::{BlockLimits, FallocateMode};
pub use whole::{remove_file, replace_file, sync_parent};

/// An open file or block device. Any core may use it: an operation runs on the core that starts it
/// and keeps the file open until it is over, even when its future is dropped.
///
/// The futures of its operations start at once, not when first polled, and are plain structs that
/// can be embedded. Reads and writes may be short, as those of the kernel.
#[derive(Clone, Debug)]
pub struct File {
    fd: Arc<OwnedFd>,
    is_block_device: bool,
    now: Now,
}

/// How to move bytes without waiting for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    /// The file is memory (tmpfs): by a plain call, for tmpfs refuses `RWF_NOWAIT`.
    Plain,
    /// Through the page cache, with `RWF_NOWAIT`.
    NoWait,
    /// Direct I/O always goes to the disk: `RWF_NOWAIT` would wait for it all the same.
    Never,
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

    /// Whether reads and writes are copies from and to memory: always finished at once, and durable
    /// for as long as the machine runs.
    pub fn is_in_memory(&self) -> bool {
        self.now == Now::Plain
    }

    /// Reads what can be had without waiting for a disk: the bytes read (0 at the end of the file),
    /// or `None` when it would have to wait, or cannot tell.
    pub fn try_read_now(&self, at: u64, to: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(flags) = self.now_flags() else { return Ok(None) };
        let iovec = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
        let at = offset(at)?;
        // SAFETY: the vector describes `to`, which is exclusively borrowed during the call.
        let n = unsafe { libc::preadv2(self.fd.as_raw_fd(), &raw const iovec, 1, at, flags) };
        now_result(n)
    }

    /// Writes what can be written without waiting for a disk; `None` when it would have to wait, or
    /// cannot tell. Not durable. May be short.
    pub fn try_write_now(&self, at: u64, from: &[u8]) -> io::Result<Option<usize>> {
        let Some(flags) = self.now_flags() else { return Ok(None) };
        let iovec = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
        let at = offset(at)?;
        // SAFETY: the vector describes `from`, which is borrowed and only read.
        let n = unsafe { libc::pwritev2(self.fd.as_raw_fd(), &raw const iovec, 1, at, flags) };
        now_result(n)
    }

    fn now_flags(&self) -> Option<i32> {
        match self.now {
            Now::Plain => Some(0),
            Now::NoWait => Some(libc::RWF_NOWAIT),
            Now::Never => None,
        }
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
