//! Devices that refuse every change.

use std::sync::Arc;

use super::{Keeps, Suite, data, stage};
use crate::{BlockDevice, BlockError, WriteFlags};

/// Every change of `device` is refused with [`BlockError::ReadOnly`] and changes nothing; everything
/// else works as on other devices. It has 1 to 64 MiB, and nobody changes it meanwhile.
///
/// # Panics
/// Whenever the device does not conform.
pub async fn check_read_only(device: Arc<dyn BlockDevice>) {
    let mut suite = Suite::new(device, 0, Keeps::Everything).await;
    assert!(suite.geometry.read_only, "the device is not read-only");
    stage("read-only", suite.read_only()).await;
}

impl Suite {
    async fn read_only(&mut self) {
        let (block, end) = (self.block(), self.geometry.size_bytes());
        for at in [0, end / 2 / block as u64 * block as u64, end - block as u64] {
            for durable in [false, true] {
                // Zeroes too: what is a change does not depend on what is there.
                self.refuses_changes(at, &vec![0; block], durable).await;
                self.refuses_changes(at, &vec![0xee; block], durable).await;
            }
        }
        // All of it, and more than that.
        for len in [end, end + block as u64] {
            let refused = Err(BlockError::ReadOnly);
            assert_eq!(self.device.unmap(0, len).await, refused, "unmap of {len}");
            let zeroed = self.device.write_zeroes(0, len, true, WriteFlags::VOLATILE).await;
            assert_eq!(zeroed, refused, "zeroes of {len}");
        }
        assert_eq!(self.device.flush().await, Ok(()), "a flush has nothing to do");
        self.still_reads().await;
        self.extents_are_true().await;
        self.whole_device("after refused changes").await;
        if let Some(reopened) = self.device.reopened() {
            self.device = reopened;
            self.whole_device("when it was opened anew").await;
        }
    }

    async fn refuses_changes(&mut self, at: u64, bytes: &[u8], durable: bool) {
        let refused = Err(BlockError::ReadOnly);
        for atomic in [false, true] {
            let flags = WriteFlags { durable, atomic };
            let now = self.device.write_now(at, bytes, flags);
            assert!(now.is_none_or(|done| done == refused), "write_now at {at}: {now:?}");
            let data = self.any_data(bytes);
            let written = self.device.write(at, data, flags).await;
            assert_eq!(written, refused, "write at {at}");
        }
        for (name, answer) in self.changes(at, bytes, WriteFlags { durable, atomic: false }) {
            assert_eq!(answer.await, refused, "{name} at {at}");
        }
        // What is there, with the same again: no change of the bytes, but of the medium.
        let same = self.read(at, bytes.len()).await;
        let flags = WriteFlags { durable, atomic: false };
        let compared = self.device.compare_and_write(at, data(&same), data(&same), flags).await;
        assert_eq!(compared.map(drop), refused, "compare_and_write of the same at {at}");
    }

    async fn still_reads(&self) {
        let (block, end) = (self.block(), self.geometry.size_bytes());
        assert_eq!(self.device.read(end, 0).await.expect("an empty read").len(), 0);
        let past = [(end, block), (u64::MAX - block as u64 + 1, block), (end - 1, block)];
        for (at, len) in past {
            let refused = self.device.read(at, len).await;
            assert!(matches!(refused, Err(BlockError::OutOfRange { .. })), "read at {at}+{len}");
        }
        let refused = self.device.read(1, block).await;
        assert!(matches!(refused, Err(BlockError::Unaligned { .. })), "read at 1");
    }
}
