//! What can go wrong on a device, in the words that the layers above can act on.

use std::io;

/// Why a block operation failed. One place in `target` maps each variant to SCSI status and
/// sense; nothing else interprets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The range leaves the device (SBC-4 4.6: LOGICAL BLOCK ADDRESS OUT OF RANGE).
    #[error("bytes {at} to {at}+{len} leave the device, which ends at {size_bytes}")]
    OutOfRange {
        /// First byte asked for.
        at: u64,
        /// Bytes asked for.
        len: u64,
        /// Size of the device.
        size_bytes: u64,
    },
    /// Position or length is no multiple of the logical block.
    #[error("bytes {at} to {at}+{len} are no whole blocks of {block_bytes} bytes")]
    Unaligned {
        /// First byte asked for.
        at: u64,
        /// Bytes asked for.
        len: u64,
        /// The logical block of the device.
        block_bytes: u32,
    },
    /// An atomic operation is larger than [`Geometry::atomic_bytes_max`](crate::Geometry).
    #[error("an atomic operation of {len} bytes exceeds the {max} bytes that the device does")]
    TooLong {
        /// Bytes asked for.
        len: u64,
        /// Bytes that the device does at once.
        max: u32,
    },
    /// The two payloads of a compare-and-write differ in length.
    #[error("compare and write payloads differ in length")]
    PayloadMismatch,
    /// The device was opened read-only.
    #[error("the device is read-only")]
    ReadOnly,
    /// No space behind a thin device (ENOSPC, EDQUOT).
    #[error("no space left behind the device")]
    NoSpace,
    /// The medium lost or cannot store data near byte `at` (EIO, EUCLEAN, short read, ...).
    #[error("medium error at byte {at}")]
    Medium {
        /// First byte known to be affected; a multiple of the logical block.
        at: u64,
    },
    /// An earlier flush failed: writes that were accepted as volatile may be lost, and no later
    /// write can be promised durable until the device is opened again.
    #[error("an earlier flush failed; open the device again after checking its storage")]
    LostWrites,
    /// The buffer pool of this core is used up; the same request can work a moment later.
    #[error("out of I/O buffers")]
    NoMemory,
    /// The device cannot take the request now; the same request can work a moment later.
    #[error("the device is busy")]
    Busy,
    /// The device has no such function.
    #[error("the device does not support this")]
    Unsupported,
    /// Nothing that leads to the device has worked for as long as its owner waits. Nothing of what a
    /// request was to change in one step has been changed, nor will be: it was never sent.
    #[error("the device cannot be reached")]
    Unreachable,
    /// A change was sent to the device, and given up without an answer: it may have been done, may not
    /// have been, or may be done yet.
    #[error("the device has not answered, and may have done what it was asked for")]
    InDoubt,
    /// Another host has reserved the device (SPC-5 5.13, RESERVATION CONFLICT).
    #[error("another host has reserved the device")]
    Reserved,
    /// Any other failure of the operating system.
    #[error("operating system error {errno}")]
    Os {
        /// The value of `errno`.
        errno: i32,
    },
}

impl BlockError {
    /// Whether it says nothing about the device: the same request can work a moment later.
    #[must_use]
    pub fn is_passing(self) -> bool {
        matches!(self, Self::NoMemory | Self::Busy)
    }

    /// Sorts the result of a system call on bytes from `at` on.
    ///
    /// Errors that speak of the medium or of the path to it become [`BlockError::Medium`], so that
    /// EIO never turns into anything a host would take for success or for its own mistake.
    pub fn from_io(error: &io::Error, at: u64) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Self::NoSpace,
            Some(
                libc::EIO
                | libc::EUCLEAN
                | libc::EBADMSG
                | libc::ENODATA
                | libc::EREMOTEIO
                | libc::EILSEQ
                | libc::ENXIO
                | libc::ENODEV
                | libc::ETIMEDOUT
                | libc::ENOLINK,
            ) => Self::Medium { at },
            Some(libc::EROFS | libc::EPERM) => Self::ReadOnly,
            Some(libc::ENOMEM | libc::ENOBUFS) => Self::NoMemory,
            Some(libc::EAGAIN | libc::EBUSY) => Self::Busy,
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => Self::Unsupported,
            Some(errno) => Self::Os { errno },
            None => Self::Medium { at },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errno: i32) -> BlockError {
        BlockError::from_io(&io::Error::from_raw_os_error(errno), 4096)
    }

    #[test]
    fn errno_maps_to_what_a_host_must_be_told() {
        assert_eq!(of(libc::EIO), BlockError::Medium { at: 4096 });
        assert_eq!(of(libc::ENODEV), BlockError::Medium { at: 4096 }, "a disk that was pulled");
        assert_eq!(of(libc::ENXIO), BlockError::Medium { at: 4096 });
        assert_eq!(of(libc::EUCLEAN), BlockError::Medium { at: 4096 });
        assert_eq!(of(libc::ENOSPC), BlockError::NoSpace);
        assert_eq!(of(libc::EDQUOT), BlockError::NoSpace);
        assert_eq!(of(libc::EROFS), BlockError::ReadOnly);
        assert_eq!(of(libc::ENOMEM), BlockError::NoMemory);
        assert_eq!(of(libc::EOPNOTSUPP), BlockError::Unsupported);
        assert_eq!(of(libc::EINVAL), BlockError::Os { errno: libc::EINVAL });
    }

    #[test]
    fn an_error_without_errno_is_a_medium_error() {
        let short = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(BlockError::from_io(&short, 512), BlockError::Medium { at: 512 });
    }
}
