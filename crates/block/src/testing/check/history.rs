//! One operation after the other, compared with a plain vector.

use std::ops::Range;

use super::{Keeps, Suite};
use crate::{BlockError, Compared, ExtentState, WriteFlags, zero_range};

const ROUNDS: usize = 300;
const BLOCKS_PER_OPERATION_MAX: u64 = 40;

impl Suite {
    pub(super) async fn history(&mut self) {
        for round in 0..ROUNDS {
            self.step(round).await;
            if round % 64 == 0 {
                self.extents_are_true().await;
            }
        }
        self.device.flush().await.expect("flush works");
        self.whole_device("after the history").await;
        if let Some(reopened) = self.device.reopened() {
            let opened = std::mem::replace(&mut self.device, reopened);
            self.whole_device("when it was opened anew").await;
            self.device = opened;
        }
    }

    async fn step(&mut self, round: usize) {
        let durable = self.random.below(8) == 0;
        let atomic = self.random.below(8) == 0 && self.has_atomics();
        let flags = WriteFlags { durable, atomic };
        let atomic_blocks =
            u64::from(self.geometry.atomic_bytes_max / self.geometry.block_bytes).max(1);
        let blocks_max = BLOCKS_PER_OPERATION_MAX;
        let short = blocks_max.min(atomic_blocks);
        let range = match self.random.below(10) {
            4 => self.unmap(blocks_max).await,
            5 => self.write_zeroes(durable, blocks_max).await,
            6 | 7 if self.has_atomics() => self.compare_and_write(flags, short).await,
            8 if self.has_atomics() => self.or_write(flags, short).await,
            9 => self.range(blocks_max),
            _ if atomic => self.write(flags, short).await,
            _ => self.write(flags, blocks_max).await,
        };
        // A little more than was touched, to see that the neighbours were left alone.
        let block = self.block();
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
                let data = self.any_data(&bytes);
                self.device.write(range.start as u64, data, flags).await.expect("write works");
            }
        }
        self.keep(&range, &bytes);
        range
    }

    async fn unmap(&mut self, blocks_max: u64) -> Range<usize> {
        let range = self.range(blocks_max);
        match self.device.unmap(range.start as u64, range.len() as u64).await {
            Err(BlockError::Unsupported) if !self.geometry.thin => {}
            done => done.expect("unmap works"),
        }
        self.keep_unmapped(&range).await;
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
        let (compare, new) = (self.any_data(&compare), self.any_data(&write));
        let answer = self.device.compare_and_write(at, compare, new, flags).await;
        match spoiled {
            true => assert_eq!(answer, Ok(Compared::Miscompare { offset_bytes })),
            false => {
                assert_eq!(answer, Ok(Compared::Equal));
                self.keep(&range, &write);
            }
        }
        range
    }

    async fn or_write(&mut self, flags: WriteFlags, blocks_max: u64) -> Range<usize> {
        let range = self.range(blocks_max);
        let bytes = self.random.bytes(range.len());
        let data = self.any_data(&bytes);
        let answer = self.device.or_write(range.start as u64, data, flags).await;
        answer.expect("or_write works");
        let old = &self.model[range.clone()];
        let merged: Vec<u8> = old.iter().zip(&bytes).map(|(old, new)| old | new).collect();
        self.keep(&range, &merged);
        range
    }

    /// The whole device in one operation each: zeroes with space, then nothing.
    pub(super) async fn end(&mut self) {
        let size_bytes = self.geometry.size_bytes();
        let flags = WriteFlags::VOLATILE;
        let zeroed = self.device.write_zeroes(0, size_bytes, false, flags).await;
        zeroed.expect("write_zeroes of everything works");
        self.model.fill(0);
        self.whole_device("after zeroes were written over everything").await;
        self.fully_mapped().await;
        match self.device.unmap(0, size_bytes).await {
            Err(BlockError::Unsupported) if !self.geometry.thin => {}
            done => done.expect("unmap of everything works"),
        }
        self.whole_device("after the unmap of everything").await;
        if self.geometry.thin {
            let extent = self.device.extent(0).await.expect("extent works");
            // A block device cannot be asked: it then counts as mapped from end to end.
            let untold = extent.state == ExtentState::Mapped && extent.len_bytes == size_bytes;
            let free = extent.state == ExtentState::Deallocated;
            assert!(free || untold, "{extent:?} after the unmap of everything");
        }
        if self.keeps == Keeps::Nothing || !self.geometry.thin {
            self.fully_mapped().await;
        }
    }

    async fn fully_mapped(&self) {
        let mut at = 0;
        while at < self.geometry.size_bytes() {
            let extent = self.device.extent(at).await.expect("extent works");
            assert_ne!(extent.state, ExtentState::Deallocated, "at {at}: {extent:?}");
            at += extent.len_bytes;
        }
    }
}
