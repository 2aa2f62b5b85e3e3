//! Error numbers of the system for what a device says.

use block::BlockError;

/// The number that programs using the disk get to see.
pub(crate) fn errno(error: &BlockError) -> i32 {
    match error {
        BlockError::OutOfRange { .. }
        | BlockError::Unaligned { .. }
        | BlockError::TooLong { .. }
        | BlockError::PayloadMismatch => libc::EINVAL,
        BlockError::ReadOnly => libc::EROFS,
        BlockError::NoSpace => libc::ENOSPC,
        BlockError::NoMemory => libc::ENOMEM,
        BlockError::Unsupported => libc::EOPNOTSUPP,
        BlockError::Medium { .. } | BlockError::LostWrites | BlockError::Busy => libc::EIO,
        BlockError::Unreachable | BlockError::InDoubt => libc::EHOSTUNREACH,
        BlockError::Reserved => libc::EBADE,
        BlockError::Os { errno } => *errno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_lost_one_can_be_told_apart() {
        assert_eq!(errno(&BlockError::NoSpace), libc::ENOSPC);
        assert_eq!(errno(&BlockError::Unreachable), libc::EHOSTUNREACH);
        assert_eq!(errno(&BlockError::InDoubt), libc::EHOSTUNREACH);
        assert_eq!(errno(&BlockError::Medium { at: 0 }), libc::EIO);
        assert_eq!(errno(&BlockError::Os { errno: libc::EIO }), libc::EIO);
    }
}
