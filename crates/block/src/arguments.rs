//! The arguments of every operation, judged in one place.
//!
//! Each function gives the answer to a request that needs no look at the medium: why it is refused,
//! or what an empty range gives. `None` means that there is work to do, on whole blocks inside the
//! device. So a device begins each operation with
//!
//! ```text
//! if let Some(answer) = arguments::write(&geometry, at, data.len(), flags) {
//!     return IoFuture::ready(answer);
//! }
//! ```
//!
//! and all devices refuse the same things with the same errors, in the same order.

use ring::Data;

use crate::{BlockError, Compared, Geometry, WriteFlags};

/// The answer, if the arguments alone give one.
pub type Answer<T> = Option<Result<T, BlockError>>;

/// What is left of `checked`: nothing to do for an empty range, which gives `empty`.
#[inline]
fn answer<T>(
    checked: Result<(), BlockError>,
    is_empty: bool,
    empty: impl FnOnce() -> T,
) -> Answer<T> {
    match checked {
        Err(error) => Some(Err(error)),
        Ok(()) if is_empty => Some(Ok(empty())),
        Ok(()) => None,
    }
}

/// [`BlockDevice::read`](crate::BlockDevice::read).
#[inline]
pub fn read(geometry: &Geometry, at: u64, len: usize) -> Answer<Data> {
    answer(geometry.check(at, len as u64), len == 0, Data::default)
}

/// [`BlockDevice::write`](crate::BlockDevice::write) and `write_now`.
#[inline]
pub fn write(geometry: &Geometry, at: u64, len: usize, flags: WriteFlags) -> Answer<()> {
    let checked = match flags.atomic {
        true => geometry.check_atomic(at, len as u64),
        false => geometry.check_change(at, len as u64),
    };
    answer(checked, len == 0, || ())
}

/// [`BlockDevice::unmap`](crate::BlockDevice::unmap).
pub fn unmap(geometry: &Geometry, at: u64, len: u64) -> Answer<()> {
    answer(geometry.check_change(at, len), len == 0, || ())
}

/// [`BlockDevice::write_zeroes`](crate::BlockDevice::write_zeroes).
pub fn write_zeroes(geometry: &Geometry, at: u64, len: u64, flags: WriteFlags) -> Answer<()> {
    // A promise that nobody keeps must not be made: zeroes are written in steps.
    let checked = geometry.check_change(at, len).and(match flags.atomic {
        true => Err(BlockError::Unsupported),
        false => Ok(()),
    });
    answer(checked, len == 0, || ())
}

/// [`BlockDevice::compare_and_write`](crate::BlockDevice::compare_and_write).
pub fn compare_and_write(
    geometry: &Geometry,
    at: u64,
    compare: &Data,
    write: &Data,
) -> Answer<Compared> {
    let (len, write_len) = (compare.len(), write.len());
    let checked = match len == write_len {
        true => geometry.check_atomic(at, len as u64),
        false => Err(BlockError::PayloadMismatch),
    };
    answer(checked, len == 0, || Compared::Equal)
}

/// [`BlockDevice::or_write`](crate::BlockDevice::or_write).
pub fn or_write(geometry: &Geometry, at: u64, len: usize) -> Answer<()> {
    answer(geometry.check_atomic(at, len as u64), len == 0, || ())
}

/// [`BlockDevice::extent`](crate::BlockDevice::extent): a whole block must lie at `at`.
///
/// # Errors
/// [`BlockError::OutOfRange`] or [`BlockError::Unaligned`].
pub fn extent(geometry: &Geometry, at: u64) -> Result<(), BlockError> {
    geometry.check(at, u64::from(geometry.block_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATOMIC: WriteFlags = WriteFlags { durable: false, atomic: true };

    fn data(len: usize) -> Data {
        ring::Buf::zeroed(len).unwrap().freeze()
    }

    #[test]
    fn only_whole_blocks_inside_the_device_are_work() {
        let disk = Geometry::new(512, 8);
        let flags = WriteFlags::VOLATILE;
        assert!(read(&disk, 3584, 512).is_none() && write(&disk, 0, 4096, flags).is_none());
        assert!(unmap(&disk, 0, 4096).is_none() && write_zeroes(&disk, 512, 512, flags).is_none());
        assert!(or_write(&disk, 0, 512).is_none() && extent(&disk, 3584).is_ok());
        assert!(compare_and_write(&disk, 0, &data(512), &data(512)).is_none());
        assert!(matches!(read(&disk, 4096, 512), Some(Err(BlockError::OutOfRange { .. }))));
        assert!(matches!(
            unmap(&disk, 512, u64::MAX - 511),
            Some(Err(BlockError::OutOfRange { .. }))
        ));
        assert!(matches!(write(&disk, 1, 512, flags), Some(Err(BlockError::Unaligned { .. }))));
        assert!(matches!(extent(&disk, 4096), Err(BlockError::OutOfRange { .. })));
    }

    #[test]
    fn an_empty_range_is_answered_and_a_bad_one_is_refused_though_it_is_empty() {
        let disk = Geometry::new(512, 8);
        assert_eq!(write(&disk, 4096, 0, ATOMIC), Some(Ok(())));
        assert_eq!(compare_and_write(&disk, 0, &data(0), &data(0)), Some(Ok(Compared::Equal)));
        assert_eq!(read(&disk, 0, 0).map(|read| read.map(|data| data.len())), Some(Ok(0)));
        assert!(matches!(or_write(&disk, 4608, 0), Some(Err(BlockError::OutOfRange { .. }))));
        assert!(matches!(unmap(&disk, 1, 0), Some(Err(BlockError::Unaligned { .. }))));
    }

    #[test]
    fn what_cannot_be_atomic_is_refused() {
        let disk = Geometry { atomic_bytes_max: 1024, ..Geometry::new(512, 8) };
        let long = BlockError::TooLong { len: 1536, max: 1024 };
        assert_eq!(write(&disk, 0, 1536, ATOMIC), Some(Err(long)));
        assert_eq!(or_write(&disk, 0, 1536), Some(Err(long)));
        assert_eq!(compare_and_write(&disk, 0, &data(1536), &data(1536)), Some(Err(long)));
        assert_eq!(
            compare_and_write(&disk, 0, &data(512), &data(1024)),
            Some(Err(BlockError::PayloadMismatch))
        );
        assert_eq!(write_zeroes(&disk, 0, 512, ATOMIC), Some(Err(BlockError::Unsupported)));
        let without = Geometry { atomic_bytes_max: 0, ..disk };
        assert_eq!(or_write(&without, 0, 512), Some(Err(BlockError::Unsupported)));
        assert_eq!(write(&without, 0, 512, ATOMIC), Some(Err(BlockError::Unsupported)));
        assert_eq!(write(&without, 0, 512, WriteFlags::VOLATILE), None);
    }

    #[test]
    fn a_read_only_device_refuses_every_change_first() {
        let disk = Geometry { read_only: true, atomic_bytes_max: 0, ..Geometry::new(512, 8) };
        let refused = Some(Err(BlockError::ReadOnly));
        assert_eq!(write(&disk, 0, 512, ATOMIC), refused);
        assert_eq!(unmap(&disk, 1, 512), refused);
        assert_eq!(write_zeroes(&disk, 0, 512, ATOMIC), refused);
        assert_eq!(or_write(&disk, 0, 512), refused);
        assert_eq!(
            compare_and_write(&disk, 0, &data(512), &data(512)),
            Some(Err(BlockError::ReadOnly))
        );
        assert!(read(&disk, 0, 512).is_none());
    }
}
