//! Sizes, holes and allocation.

use std::io;
use std::os::fd::AsRawFd;

use super::{File, offset};

/// What a block device says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// The unit it addresses, and of direct I/O.
    pub logical_block_bytes: u32,
    /// The unit it writes without a read.
    pub physical_block_bytes: u32,
    /// Whether it has moving heads.
    pub rotational: bool,
}

/// What [`File::fallocate`] does with a range. None of them changes the length of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// Reserves space; contents stay.
    Allocate,
    /// Frees space; reads as zeroes afterwards. Discards on a block device.
    PunchHole,
    /// Reads as zeroes afterwards; space stays reserved.
    ZeroRange,
}

impl FallocateMode {
    pub(super) fn bits(self) -> i32 {
        libc::FALLOC_FL_KEEP_SIZE
            | match self {
                FallocateMode::Allocate => 0,
                FallocateMode::PunchHole => libc::FALLOC_FL_PUNCH_HOLE,
                FallocateMode::ZeroRange => libc::FALLOC_FL_ZERO_RANGE,
            }
    }
}

// From linux/fs.h: _IOR(0x12, 114, size_t), _IO(0x12, 104), _IO(0x12, 123), _IO(0x12, 126).
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const BLKSSZGET: libc::c_ulong = 0x1268;
const BLKPBSZGET: libc::c_ulong = 0x127b;
const BLKROTATIONAL: libc::c_ulong = 0x127e;

impl File {
    /// Length in bytes of the file or device.
    pub fn len_bytes(&self) -> io::Result<u64> {
        if self.is_block_device {
            return self.ioctl::<u64>(BLKGETSIZE64);
        }
        // SAFETY: the structure is numbers, for which zeroes are valid.
        let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills exactly this structure.
        check(unsafe { libc::fstat64(self.fd.as_raw_fd(), &raw mut stat) })?;
        u64::try_from(stat.st_size).map_err(io::Error::other)
    }

    /// Grows (sparsely) or cuts a regular file.
    pub fn set_len_bytes(&self, len: u64) -> io::Result<()> {
        let len = offset(len)?;
        // SAFETY: takes two numbers.
        check(unsafe { libc::ftruncate64(self.fd.as_raw_fd(), len) })
    }

    /// The block sizes of a block device; `None` for a regular file.
    pub fn block_limits(&self) -> io::Result<Option<BlockLimits>> {
        if !self.is_block_device {
            return Ok(None);
        }
        Ok(Some(BlockLimits {
            logical_block_bytes: self.ioctl(BLKSSZGET)?,
            physical_block_bytes: self.ioctl(BLKPBSZGET)?,
            rotational: self.ioctl::<u16>(BLKROTATIONAL)? != 0,
        }))
    }

    /// The first byte of data at or after `at`; `None` when there is only a hole up to the end.
    pub fn next_data(&self, at: u64) -> io::Result<Option<u64>> {
        self.seek(at, libc::SEEK_DATA)
    }

    /// The first byte of a hole at or after `at`, where the end of the file counts as one; `None`
    /// when `at` lies at or past the end.
    pub fn next_hole(&self, at: u64) -> io::Result<Option<u64>> {
        self.seek(at, libc::SEEK_HOLE)
    }

    fn seek(&self, at: u64, whence: i32) -> io::Result<Option<u64>> {
        let at = offset(at)?;
        // SAFETY: takes numbers. The file position it moves is used by nothing else here.
        let found = unsafe { libc::lseek64(self.fd.as_raw_fd(), at, whence) };
        if let Ok(found) = u64::try_from(found) {
            return Ok(Some(found));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENXIO) { Ok(None) } else { Err(error) }
    }

    /// A number that the device driver reports. `T` must be what `request` is defined to write.
    fn ioctl<T: Copy + Default>(&self, request: libc::c_ulong) -> io::Result<T> {
        let mut value = T::default();
        // SAFETY: the requests above write one number: BLKGETSIZE64 a u64, BLKSSZGET and
        // BLKPBSZGET an int, BLKROTATIONAL an unsigned short, as their callers choose `T`.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, &raw mut value) })?;
        Ok(value)
    }
}

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
