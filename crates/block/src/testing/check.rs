//! The conformance suite of [`BlockDevice`]: one seed, one history, compared with a plain vector.

use std::ops::Range;
use std::sync::Arc;

use ring::{Buf, Data};

use crate::{
    BlockDevice, BlockError, Compared, ExtentState, Geometry, IoFuture, WriteFlags, zero_range,
};

const ROUNDS: usize = 300;
const BLOCKS_PER_OPERATION_MAX: u64 = 40;

/// Runs a random history on `device` and panics, naming `seed`, where the device differs from a
/// plain vector of bytes, does not refuse what it must refuse, or tells an untruth about its
/// holes. The device must be writable, of 1 to 64 MiB, and nobody else may use it meanwhile.
///
/// Must run on a core of the engine. Takes some milliseconds for a device in memory.
///
/// # Panics
/// Whenever the device does not conform.
pub async fn check_device(device: Arc<dyn BlockDevice>, seed: u64) {
    let geometry = device.geometry();
    assert!(!geometry.read_only, "the suite writes");
    assert!((1 << 20..=64 << 20).contains(&geometry.size_bytes()), "1 to 64 MiB");
    let mut suite = Suite { device, geometry, model: Vec::new(), random: Random::new(seed), seed };
    suite.model = suite.read(0, geometry.size_bytes() as usize).await;
    suite.refusals().await;
    suite.empty_ranges().await;
    for round in 0..ROUNDS {
        suite.step(round).await;
        if round % 64 == 0 {
            suite.extents_are_true().await;
        }
    }
    suite.device.flush().await.expect("flush works");
    suite.whole_device("after the history").await;
    suite.unmaps_everything().await;
}

struct Suite {
    device: Arc<dyn BlockDevice>,
    geometry: Geometry,
    model: Vec<u8>,
    random: Random,
    seed: u64,
}

impl Suite {
    async fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // Pieces, so that the buffers of a small pool are enough.
        for start in (0..len).step_by(1 << 20) {
            let piece = (len - start).min(1 << 20);
            let data = self.device.read(at + start as u64, piece).await.expect("read works");
            assert_eq!(data.len(), piece, "reads give all they were asked for");
            data.copy_to(0, &mut bytes[start..start + piece]);
        }
        bytes
    }

    async fn same(&self, range: Range<usize>, after: &str) {
        let found = self.read(range.start as u64, range.len()).await;
        let wanted = &self.model[range.clone()];
        if let Some(place) = found.iter().zip(wanted).position(|(a, b)| a != b) {
            panic!(
                "seed {}: byte {} is {:#x}, should be {:#x}, {after}",
                self.seed,
                range.start + place,
                found[place],
                wanted[place]
            );
        }
    }

    async fn whole_device(&self, after: &str) {
        self.same(0..self.model.len(), after).await;
    }

    /// A range of 1 to `blocks_max` blocks, often where others are, sometimes at the very end.
    fn range(&mut self, blocks_max: u64) -> Range<usize> {
        let block = u64::from(self.geometry.block_bytes);
        let blocks = 1 + self.random.below(blocks_max);
        let last = self.geometry.blocks - blocks;
        let first = match self.random.below(8) {
            0 => last,
            1..4 => self.random.below(last.min(64) + 1),
            _ => self.random.below(last + 1),
        };
        (first * block) as usize..((first + blocks) * block) as usize
    }

    async fn step(&mut self, round: usize) {
        let flags =
            WriteFlags { durable: self.random.below(8) == 0, atomic: self.random.below(8) == 0 };
        let atomic_blocks =
            u64::from(self.geometry.atomic_bytes_max / self.geometry.block_bytes).max(1);
        let blocks_max = BLOCKS_PER_OPERATION_MAX;
        let range = match self.random.below(10) {
            0..4 => self.write(flags, blocks_max.min(atomic_blocks)).await,
            4 => self.unmap(blocks_max).await,
            5 => self.write_zeroes(flags.durable, blocks_max).await,
            6 | 7 => self.compare_and_write(flags, blocks_max.min(atomic_blocks)).await,
            8 => self.or_write(flags, blocks_max.min(atomic_blocks)).await,
            _ => self.range(blocks_max),
        };
        // A little more than was touched, to see that the neighbours were left alone.
        let block = self.geometry.block_bytes as usize;
        let around = range.start.saturating_sub(block)..(range.end + block).min(self.model.len());
        self.same(around, &format!("after round {round} touched {range:?}")).await;
    }

    async fn write(&mut self, flags: WriteFlags, blocks_max: u64) -> Range<usize> {
        let range = self.range(blocks_max);
        let bytes = self.random.bytes(range.len());
        let now = match self.random.below(2) {
            0 => self.device.write_now(range.start as u64, &bytes, flags),
            _ => None,
        };
        match now {
            Some(done) => done.expect("write_now works"),
            None => {
                let data = data(&bytes);
                self.device.write(range.start as u64, data, flags).await.expect("write works");
            }
        }
        self.model[range.clone()].copy_from_slice(&bytes);
        range
    }

    async fn unmap(&mut self, blocks_max: u64) -> Range<usize> {
        let range = self.range(blocks_max);
        self.device.unmap(range.start as u64, range.len() as u64).await.expect("unmap works");
        self.model[range.clone()].fill(0);
        range
    }

    async fn write_zeroes(&mut self, durable: bool, blocks_max: u64) -> Range<usize> {
        let range = self.range(blocks_max);
        let (at, len) = (range.start as u64, range.len() as u64);
        let may_unmap = self.random.below(2) == 0;
        let flags = WriteFlags { durable, atomic: false };
        match self.random.below(2) {
            0 => self.device.write_zeroes(at, len, may_unmap, flags).await,
            _ => zero_range(&*self.device, at, len, may_unmap, flags).await,
        }
        .expect("write_zeroes works");
        self.model[range.clone()].fill(0);
        if !may_unmap && self.geometry.thin {
            let extent = self.device.extent(at).await.expect("extent works");
            assert_ne!(extent.state, ExtentState::Deallocated, "zeroes that may not be unmapped");
        }
        range
    }

    async fn compare_and_write(&mut self, flags: WriteFlags, blocks_max: u64) -> Range<usize> {
        let range = self.range(blocks_max);
        let at = range.start as u64;
        let mut compare = self.model[range.clone()].to_vec();
        let write = self.random.bytes(range.len());
        let spoiled = self.random.below(2) == 0;
        let offset_bytes = self.random.below(range.len() as u64) as usize;
        if spoiled {
            compare[offset_bytes] ^= 0x10;
        }
        let answer = self.device.compare_and_write(at, data(&compare), data(&write), flags).await;
        match spoiled {
            true => assert_eq!(answer, Ok(Compared::Miscompare { offset_bytes })),
            false => {
                assert_eq!(answer, Ok(Compared::Equal));
                self.model[range.clone()].copy_from_slice(&write);
            }
        }
        range
    }

    async fn or_write(&mut self, flags: WriteFlags, blocks_max: u64) -> Range<usize> {
        let range = self.range(blocks_max);
        let bytes = self.random.bytes(range.len());
        let answer = self.device.or_write(range.start as u64, data(&bytes), flags).await;
        answer.expect("or_write works");
        for (into, byte) in self.model[range.clone()].iter_mut().zip(&bytes) {
            *into |= byte;
        }
        range
    }

    /// Extents cover the device without a gap, in whole blocks, and holes hold no data.
    async fn extents_are_true(&self) {
        let mut at = 0;
        while at < self.geometry.size_bytes() {
            let extent = self.device.extent(at).await.expect("extent works");
            let end = at + extent.len_bytes;
            assert!(extent.len_bytes > 0 && end <= self.geometry.size_bytes(), "{extent:?}");
            assert_eq!(end % u64::from(self.geometry.block_bytes), 0, "{extent:?}");
            let zero = self.model[at as usize..end as usize].iter().all(|&byte| byte == 0);
            assert!(
                extent.state == ExtentState::Mapped || zero,
                "seed {}: {extent:?} at {at} holds data",
                self.seed
            );
            at = end;
        }
    }

    async fn unmaps_everything(&mut self) {
        let size_bytes = self.geometry.size_bytes();
        self.device.unmap(0, size_bytes).await.expect("unmap works");
        self.model.fill(0);
        self.whole_device("after the unmap of everything").await;
        if self.geometry.thin {
            let extent = self.device.extent(0).await.expect("extent works");
            // A block device cannot be asked: it then counts as mapped from end to end.
            let untold = extent.state == ExtentState::Mapped && extent.len_bytes == size_bytes;
            let free = extent.state == ExtentState::Deallocated;
            assert!(free || untold, "{extent:?} after the unmap of everything");
        }
    }

    async fn empty_ranges(&self) {
        let end = self.geometry.size_bytes();
        for at in [0, end] {
            assert_eq!(self.device.read(at, 0).await.expect("empty read").len(), 0);
            let flags = WriteFlags::VOLATILE;
            assert!(matches!(self.device.write_now(at, &[], flags), None | Some(Ok(()))));
            assert_eq!(self.device.write(at, Data::default(), flags).await, Ok(()));
            assert_eq!(self.device.or_write(at, Data::default(), flags).await, Ok(()));
            let (compare, write) = (Data::default(), Data::default());
            let compared = self.device.compare_and_write(at, compare, write, flags).await;
            assert_eq!(compared, Ok(Compared::Equal));
            assert_eq!(self.device.unmap(at, 0).await, Ok(()));
            assert_eq!(self.device.write_zeroes(at, 0, true, flags).await, Ok(()));
            assert_eq!(self.device.write_zeroes(at, 0, false, flags).await, Ok(()));
        }
    }

    async fn refusals(&self) {
        let block = u64::from(self.geometry.block_bytes);
        let end = self.geometry.size_bytes();
        for (at, len) in [(end, block), (end - block, 2 * block), (u64::MAX - block + 1, block)] {
            self.refuses(at, len, |e| matches!(e, BlockError::OutOfRange { .. })).await;
        }
        for (at, len) in [(1, block), (0, block - 1), (block / 2, block)] {
            self.refuses(at, len, |e| matches!(e, BlockError::Unaligned { .. })).await;
        }
        assert!(matches!(self.device.extent(end).await, Err(BlockError::OutOfRange { .. })));
        let (one, two) = (data(&vec![0; block as usize]), data(&vec![0; 2 * block as usize]));
        let answer = self.device.compare_and_write(0, one, two, WriteFlags::VOLATILE).await;
        assert_eq!(answer, Err(BlockError::PayloadMismatch));
        let long = u64::from(self.geometry.atomic_bytes_max) + block;
        if long <= end {
            let data = data(&vec![0; long as usize]);
            let atomic = WriteFlags { atomic: true, durable: false };
            let refused = |answer| matches!(answer, Err(BlockError::TooLong { .. }));
            assert!(refused(self.device.write(0, data.clone(), atomic).await));
            assert!(refused(self.device.or_write(0, data, WriteFlags::VOLATILE).await));
        }
        self.whole_device("after refused operations").await;
    }

    /// Every operation on this range is refused with an error that `right` accepts.
    async fn refuses(&self, at: u64, len: u64, right: fn(BlockError) -> bool) {
        async fn error<T: std::fmt::Debug>(future: IoFuture<T>) -> BlockError {
            future.await.expect_err("a bad range is refused")
        }
        let flags = WriteFlags::VOLATILE;
        let bytes = vec![0xee; len as usize];
        let now = self.device.write_now(at, &bytes, flags);
        assert!(now.is_none_or(|done| done.is_err_and(right)), "write_now at {at}+{len}");
        let (device, data) = (&self.device, || data(&bytes));
        assert!(right(error(device.read(at, len as usize)).await), "read at {at}+{len}");
        assert!(right(error(device.write(at, data(), flags)).await), "write at {at}+{len}");
        assert!(right(error(device.unmap(at, len)).await), "unmap at {at}+{len}");
        assert!(right(error(device.write_zeroes(at, len, true, flags)).await), "{at}+{len}");
        assert!(right(error(device.write_zeroes(at, len, false, flags)).await), "{at}+{len}");
        assert!(right(error(device.or_write(at, data(), flags)).await), "or_write at {at}+{len}");
        let compared = device.compare_and_write(at, data(), data(), flags);
        assert!(right(error(compared).await), "compare_and_write at {at}+{len}");
    }
}

fn data(bytes: &[u8]) -> Data {
    let mut buf = Buf::alloc(bytes.len()).expect("the suite needs buffers for single operations");
    buf.copy_from_slice(bytes);
    buf.freeze()
}

/// A small generator (splitmix64): a history must replay from its seed for ever, whatever
/// happens to random-number crates.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
