//! What must be refused, and with which error; empty ranges; the longest atomic operations.

use std::fmt;

use ring::Data;

use super::{Suite, data};
use crate::{BlockError, Compared, IoFuture, WriteFlags};

const ATOMIC: WriteFlags = WriteFlags { durable: false, atomic: true };
const VOLATILE: WriteFlags = WriteFlags::VOLATILE;

/// Whether an error is the documented one.
type Right = fn(BlockError) -> bool;

const OUT_OF_RANGE: Right = |error| matches!(error, BlockError::OutOfRange { .. });
const UNALIGNED: Right = |error| matches!(error, BlockError::Unaligned { .. });

impl Suite {
    pub(super) async fn arguments(&mut self) {
        self.ranges().await;
        self.long_ranges().await;
        self.payloads_of_two_lengths().await;
        self.empty_ranges().await;
        self.whole_device("after refused operations").await;
        match self.has_atomics() {
            true => self.atomic_limit().await,
            false => self.no_atomics().await,
        }
        self.atomic_zeroes().await;
        self.whole_device("after atomic operations").await;
    }

    async fn ranges(&self) {
        let block = u64::from(self.geometry.block_bytes);
        let end = self.geometry.size_bytes();
        let past = [
            (end, block),
            (end - block, 2 * block),
            (u64::MAX - block + 1, block),
            // Though nothing is asked for.
            (end + block, 0),
            (u64::MAX - block + 1, 0),
        ];
        for (at, len) in past {
            self.refuses(at, len, OUT_OF_RANGE).await;
        }
        for (at, len) in [(1, block), (0, block - 1), (0, 1), (block / 2, block), (1, 0)] {
            self.refuses(at, len, UNALIGNED).await;
        }
        for at in [end, end + block, u64::MAX - block + 1] {
            assert!(OUT_OF_RANGE(error(self.device.extent(at), "extent").await), "extent at {at}");
        }
        for at in [1, block / 2] {
            assert!(UNALIGNED(error(self.device.extent(at), "extent").await), "extent at {at}");
        }
    }

    /// Every operation on this range is refused with the right error.
    async fn refuses(&self, at: u64, len: u64, right: Right) {
        let bytes = vec![0xee; len as usize];
        let now = self.device.write_now(at, &bytes, VOLATILE);
        assert!(now.is_none_or(|done| done.is_err_and(right)), "write_now at {at}+{len}");
        let read = error(self.device.read(at, len as usize), "read").await;
        assert!(right(read), "read at {at}+{len}: {read}");
        for (name, answer) in self.changes(at, &bytes, VOLATILE) {
            let error = error(answer, name).await;
            let lacks = error == BlockError::Unsupported && self.may_lack(name);
            assert!(right(error) || lacks, "{name} at {at}+{len}: {error}");
        }
    }

    /// Every operation that changes something, by its name.
    pub(super) fn changes(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> [(&'static str, IoFuture<()>); 6] {
        let (device, len) = (&self.device, bytes.len() as u64);
        let compared = device.compare_and_write(at, data(bytes), data(bytes), flags);
        [
            ("write", device.write(at, data(bytes), flags)),
            ("unmap", device.unmap(at, len)),
            ("write_zeroes with unmap", device.write_zeroes(at, len, true, flags)),
            ("write_zeroes", device.write_zeroes(at, len, false, flags)),
            ("or_write", device.or_write(at, data(bytes), flags)),
            ("compare_and_write", IoFuture::boxed(async { compared.await.map(drop) })),
        ]
    }

    /// Whether a device of this shape may have no such operation.
    fn may_lack(&self, name: &str) -> bool {
        match name {
            "unmap" => !self.geometry.thin,
            "or_write" | "compare_and_write" => !self.has_atomics(),
            _ => false,
        }
    }

    /// Lengths that no memory has.
    async fn long_ranges(&self) {
        let block = u64::from(self.geometry.block_bytes);
        let end = self.geometry.size_bytes();
        let all = u64::MAX - block + 1;
        for (at, len) in [(block, end), (0, end + block), (block, all), (0, all)] {
            let changes = [
                ("unmap", self.device.unmap(at, len)),
                ("zeroes", self.device.write_zeroes(at, len, true, VOLATILE)),
                ("zeroes", self.device.write_zeroes(at, len, false, VOLATILE)),
            ];
            for (name, answer) in changes {
                let error = error(answer, name).await;
                let lacks = error == BlockError::Unsupported && self.may_lack(name);
                assert!(OUT_OF_RANGE(error) || lacks, "{name} at {at}+{len}: {error}");
            }
        }
        let read = self.device.read(block, end as usize);
        assert!(OUT_OF_RANGE(error(read, "read").await), "read at {block}+{end}");
    }

    async fn payloads_of_two_lengths(&self) {
        let block = self.block();
        for (one, other) in [(block, 2 * block), (2 * block, block), (0, block)] {
            let (one, other) = (data(&vec![0; one]), data(&vec![0; other]));
            let answer = self.device.compare_and_write(0, one, other, VOLATILE).await;
            assert_eq!(answer, Err(BlockError::PayloadMismatch));
        }
    }

    async fn empty_ranges(&self) {
        let end = self.geometry.size_bytes();
        for at in [0, end] {
            assert_eq!(self.device.read(at, 0).await.expect("empty read").len(), 0);
            let now = self.device.write_now(at, &[], VOLATILE);
            assert!(matches!(now, None | Some(Ok(()))), "an empty write_now");
            for (name, answer) in self.changes(at, &[], VOLATILE) {
                let answer = answer.await;
                let lacks = answer == Err(BlockError::Unsupported) && self.may_lack(name);
                assert!(answer.is_ok() || lacks, "an empty {name}: {answer:?}");
            }
            if self.has_atomics() {
                assert_eq!(self.device.write(at, Data::default(), ATOMIC).await, Ok(()));
                let (compare, write) = (Data::default(), Data::default());
                let compared = self.device.compare_and_write(at, compare, write, VOLATILE).await;
                assert_eq!(compared, Ok(Compared::Equal));
            }
        }
    }

    /// What is as long as the geometry says works, and a block more is refused.
    async fn atomic_limit(&mut self) {
        let max = self.geometry.atomic_bytes_max as usize;
        let long = max + self.block();
        if long <= self.model.len() {
            let bytes = vec![0xee; long];
            let refused = |answer| matches!(answer, Err(BlockError::TooLong { .. }));
            let now = self.device.write_now(0, &bytes, ATOMIC);
            assert!(now.is_none_or(refused), "write_now of {long} bytes");
            assert!(refused(self.device.write(0, data(&bytes), ATOMIC).await));
            assert!(refused(self.device.or_write(0, data(&bytes), VOLATILE).await));
            let compared = self.device.compare_and_write(0, data(&bytes), data(&bytes), VOLATILE);
            assert!(refused(compared.await.map(drop)));
        }
        let range = self.model.len() - max.min(self.model.len())..self.model.len();
        let (at, bytes) = (range.start as u64, self.random.bytes(range.len()));
        let written = self.device.write(at, data(&bytes), ATOMIC).await;
        assert_eq!(written, Ok(()), "the longest atomic write");
        self.keep(&range, &bytes);
        let (old, new) = (data(&self.model[range.clone()]), data(&bytes));
        let compared = self.device.compare_and_write(at, old, new, VOLATILE).await;
        assert_eq!(compared, Ok(Compared::Equal), "the longest compare-and-write");
        let ored = self.device.or_write(at, data(&bytes), VOLATILE).await;
        assert_eq!(ored, Ok(()), "the longest or-write");
    }

    async fn no_atomics(&self) {
        let bytes = vec![0xee; self.block()];
        let refused = Err(BlockError::Unsupported);
        let now = self.device.write_now(0, &bytes, ATOMIC);
        assert!(now.is_none_or(|done| done == refused), "an atomic write_now: {now:?}");
        assert_eq!(self.device.write(0, data(&bytes), ATOMIC).await, refused);
        assert_eq!(self.device.or_write(0, data(&bytes), VOLATILE).await, refused);
        let compared = self.device.compare_and_write(0, data(&bytes), data(&bytes), VOLATILE);
        assert_eq!(compared.await.map(drop), refused);
    }

    /// Zeroes are never atomic: refused, and nothing changed; or, on a device that does not look at
    /// the flag, done as without it.
    async fn atomic_zeroes(&mut self) {
        let range = 0..self.block();
        let len = range.len() as u64;
        match self.device.write_zeroes(0, len, true, ATOMIC).await {
            Err(error) => assert_eq!(error, BlockError::Unsupported, "atomic zeroes"),
            Ok(()) => self.model[range].fill(0),
        }
    }
}

async fn error<T: fmt::Debug>(future: IoFuture<T>, name: &str) -> BlockError {
    let answer = future.await;
    answer.expect_err(&format!("{name}: what cannot be done is refused"))
}
