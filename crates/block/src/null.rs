//! A device that stores nothing, to measure everything above it.

use ring::{Buf, Data};

use crate::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, WriteFlags,
    arguments, bytes,
};

/// Reads give zeroes, writes are checked and dropped: **for measuring only**, since every
/// write is answered as done and none is kept. A compare-and-write compares with zeroes.
#[derive(Debug)]
pub struct NullDisk(Geometry);

impl NullDisk {
    /// A disk of `blocks` blocks of `block_bytes` (512 or 4096).
    pub fn new(block_bytes: u32, blocks: u64) -> Self {
        Self(Geometry { thin: false, ..Geometry::new(block_bytes, blocks) })
    }

    /// As [`new`](Self::new), refusing writes.
    pub fn new_read_only(block_bytes: u32, blocks: u64) -> Self {
        Self(Geometry { read_only: true, ..Self::new(block_bytes, blocks).0 })
    }
}

impl BlockDevice for NullDisk {
    fn geometry(&self) -> Geometry {
        self.0
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        let zeroes = || bytes::zeroes(len);
        IoFuture::ready(arguments::read(&self.0, at, len).unwrap_or_else(zeroes))
    }

    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        Some(arguments::write(&self.0, at, bytes.len(), flags).unwrap_or(Ok(())))
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        IoFuture::ready(arguments::write(&self.0, at, data.len(), flags).unwrap_or(Ok(())))
    }

    fn flush(&self) -> IoFuture<()> {
        IoFuture::ready(Ok(()))
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        IoFuture::ready(arguments::unmap(&self.0, at, len).unwrap_or(Ok(())))
    }

    fn write_zeroes(&self, at: u64, len: u64, _may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        IoFuture::ready(arguments::write_zeroes(&self.0, at, len, flags).unwrap_or(Ok(())))
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        _flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let with_zeroes = || {
            let found = Buf::zeroed(compare.len()).ok_or(BlockError::NoMemory)?;
            Ok(match bytes::first_difference(&found, &compare)? {
                Some(offset_bytes) => Compared::Miscompare { offset_bytes },
                None => Compared::Equal,
            })
        };
        let answer = arguments::compare_and_write(&self.0, at, &compare, &write);
        IoFuture::ready(answer.unwrap_or_else(with_zeroes))
    }

    fn or_write(&self, at: u64, data: Data, _flags: WriteFlags) -> IoFuture<()> {
        IoFuture::ready(arguments::or_write(&self.0, at, data.len()).unwrap_or(Ok(())))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        IoFuture::ready(
            arguments::extent(&self.0, at).map(|()| Extent {
                len_bytes: self.0.size_bytes() - at,
                state: ExtentState::Mapped,
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{check_null_device, check_read_only};

    fn on_a_core(test: impl Future<Output = ()> + 'static) {
        ring::block_on(&ring::CoreConfig::default(), test).unwrap();
    }

    #[test]
    fn passes_the_device_suite_as_one_that_keeps_nothing() {
        for (seed, block_bytes) in [(1, 512), (2, 4096)] {
            let disk = NullDisk::new(block_bytes, (2 << 20) / u64::from(block_bytes));
            on_a_core(check_null_device(Arc::new(disk), seed));
        }
        on_a_core(check_read_only(Arc::new(NullDisk::new_read_only(512, 4096))));
    }

    fn done<T>(future: IoFuture<T>) -> Result<T, BlockError> {
        future.into_ready().expect("a null disk never waits")
    }

    #[test]
    fn reads_are_zeroes_of_any_length() {
        let disk = NullDisk::new(4096, 1024);
        for len in [0, 4096, 256 << 10, 1 << 20] {
            let data = done(disk.read(0, len)).unwrap();
            assert_eq!(data.as_slice().unwrap(), vec![0; len]);
        }
    }

    #[test]
    fn writes_are_dropped_but_still_checked() {
        let disk = NullDisk::new(512, 8);
        assert_eq!(disk.write_now(0, &[7; 512], WriteFlags::DURABLE), Some(Ok(())));
        assert_eq!(done(disk.read(0, 512)).unwrap().as_slice().unwrap(), [0; 512]);
        assert!(matches!(
            disk.write_now(4096, &[7; 512], WriteFlags::VOLATILE),
            Some(Err(BlockError::OutOfRange { .. }))
        ));
        let read_only = NullDisk::new_read_only(512, 8);
        assert_eq!(done(read_only.unmap(0, 512)), Err(BlockError::ReadOnly));
    }

    #[test]
    fn compare_and_write_compares_with_zeroes() {
        let disk = NullDisk::new(512, 8);
        let (zero, one) = (Data::from(&[0; 512][..]), Data::from(&[1; 512][..]));
        let flags = WriteFlags::VOLATILE;
        assert_eq!(done(disk.compare_and_write(0, zero, one.clone(), flags)), Ok(Compared::Equal));
        assert_eq!(
            done(disk.compare_and_write(0, one.clone(), one, flags)),
            Ok(Compared::Miscompare { offset_bytes: 0 })
        );
    }

    #[test]
    fn everything_counts_as_mapped() {
        let extent = done(NullDisk::new(512, 8).extent(1024)).unwrap();
        assert_eq!(extent, Extent { len_bytes: 3072, state: ExtentState::Mapped });
    }
}
