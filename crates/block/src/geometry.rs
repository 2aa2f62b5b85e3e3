//! The shape of a device: what READ CAPACITY and the block VPD pages report (SBC-4 5.20, 6.6).

use crate::BlockError;

/// The largest range that the local devices change in one atomic operation: 1 MiB, what
/// VMware and Windows ask for at most, and few enough lock stripes to take them in one go.
pub const ATOMIC_BYTES_MAX: u32 = 1 << 20;

/// The shape of a device, of which only `blocks` may change while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Logical block: 512 or 4096 bytes.
    pub block_bytes: u32,
    /// Capacity in logical blocks.
    pub blocks: u64,
    /// Physical block of the disk below; a multiple of `block_bytes`. Memory and files have none,
    /// so it is the logical block there.
    pub physical_block_bytes: u32,
    /// Aligned multiples of this are written without reading first; a multiple of
    /// `physical_block_bytes`.
    pub transfer_granularity_bytes: u32,
    /// Unit in which space is given back. Smaller pieces of an unmap are zeroed in place.
    pub unmap_granularity_bytes: u32,
    /// Offset of the first unmap unit.
    pub unmap_alignment_bytes: u32,
    /// Longest atomic write, compare-and-write and or-write; zero where the device has none of
    /// them.
    pub atomic_bytes_max: u32,
    /// The transfer length that costs the device least per byte.
    pub optimal_transfer_bytes: u32,
    /// Every change is refused with [`BlockError::ReadOnly`].
    pub read_only: bool,
    /// Seeks are slow (MEDIUM ROTATION RATE of VPD page B1).
    pub rotational: bool,
    /// Space is allocated when written and given back by unmap (LBPME).
    pub thin: bool,
}

impl Geometry {
    /// A read-write thin device with 4 KiB units: the base that the local devices adapt.
    pub fn new(block_bytes: u32, blocks: u64) -> Self {
        assert!(block_bytes == 512 || block_bytes == 4096, "logical blocks are 512 or 4096 bytes");
        Self {
            block_bytes,
            blocks,
            physical_block_bytes: block_bytes,
            transfer_granularity_bytes: 4096,
            unmap_granularity_bytes: 4096,
            unmap_alignment_bytes: 0,
            atomic_bytes_max: ATOMIC_BYTES_MAX,
            optimal_transfer_bytes: 256 << 10,
            read_only: false,
            rotational: false,
            thin: true,
        }
    }

    /// Capacity in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_bytes)
    }

    /// Refuses a range that is not whole blocks inside the device. An empty range may stand at
    /// the very end.
    ///
    /// # Errors
    /// [`BlockError::OutOfRange`] or [`BlockError::Unaligned`].
    #[inline]
    pub fn check(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let size_bytes = self.size_bytes();
        if at.checked_add(len).is_none_or(|end| end > size_bytes) {
            return Err(BlockError::OutOfRange { at, len, size_bytes });
        }
        // Blocks are a power of two (asserted in `new`), so one mask checks both numbers.
        if (at | len) & u64::from(self.block_bytes - 1) != 0 {
            return Err(BlockError::Unaligned { at, len, block_bytes: self.block_bytes });
        }
        Ok(())
    }

    /// As [`check`](Self::check), for an operation that changes the medium.
    ///
    /// # Errors
    /// Those of `check`, and [`BlockError::ReadOnly`].
    #[inline]
    pub fn check_change(&self, at: u64, len: u64) -> Result<(), BlockError> {
        if self.read_only {
            return Err(BlockError::ReadOnly);
        }
        self.check(at, len)
    }

    /// As [`check_change`](Self::check_change), for one atomic operation.
    ///
    /// # Errors
    /// Those of `check_change`, [`BlockError::TooLong`], and [`BlockError::Unsupported`] where the
    /// device has no atomic operations.
    pub fn check_atomic(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.check_change(at, len)?;
        if self.atomic_bytes_max == 0 {
            return Err(BlockError::Unsupported);
        }
        if len > u64::from(self.atomic_bytes_max) {
            return Err(BlockError::TooLong { len, max: self.atomic_bytes_max });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_to_the_byte() {
        let disk = Geometry::new(512, 8);
        assert_eq!(disk.check(0, 4096), Ok(()));
        assert_eq!(disk.check(4096, 0), Ok(()));
        assert!(matches!(disk.check(4096, 512), Err(BlockError::OutOfRange { .. })));
        assert!(matches!(disk.check(3584, 1024), Err(BlockError::OutOfRange { .. })));
        assert!(matches!(disk.check(u64::MAX - 511, 512), Err(BlockError::OutOfRange { .. })));
        assert!(matches!(disk.check(1, 512), Err(BlockError::Unaligned { .. })));
        assert!(matches!(disk.check(512, 513), Err(BlockError::Unaligned { .. })));
    }

    #[test]
    fn a_read_only_device_refuses_changes_but_not_reads() {
        let disk = Geometry { read_only: true, ..Geometry::new(4096, 2) };
        assert_eq!(disk.check(0, 4096), Ok(()));
        assert_eq!(disk.check_change(0, 4096), Err(BlockError::ReadOnly));
    }

    #[test]
    fn atomic_operations_have_a_limit() {
        let disk = Geometry { atomic_bytes_max: 8192, ..Geometry::new(4096, 16) };
        assert_eq!(disk.check_atomic(0, 8192), Ok(()));
        assert_eq!(disk.check_atomic(0, 12288), Err(BlockError::TooLong { len: 12288, max: 8192 }));
    }
}
