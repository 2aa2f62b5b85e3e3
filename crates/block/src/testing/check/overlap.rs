//! Operations that overlap in time: what they may see of each other, and what must come out.

use std::ops::Range;
use std::sync::Arc;

use super::join::{all, both};
use super::{Suite, blocks_are_of, bytes_of, data};
use crate::{BlockDevice, Compared, IoFuture, WriteFlags};

const ATOMIC: WriteFlags = WriteFlags { durable: false, atomic: true };
const VOLATILE: WriteFlags = WriteFlags::VOLATILE;

const ROUNDS: usize = 4;
const BLOCKS: usize = 24;
/// Reads of one reader beside writes.
const READS: usize = 4;

/// Those who count together, and how far each of them counts.
const COUNTERS: u64 = 4;
const COUNTS: u64 = 5;

impl Suite {
    pub(super) async fn overlap(&mut self) {
        for round in 0..ROUNDS {
            self.plain_writes(round).await;
            self.neighbours(round).await;
            if self.has_atomics() {
                self.atomic_writes(round).await;
            }
        }
        if self.has_atomics() {
            self.counters().await;
            self.bits().await;
        }
        self.whole_device("after operations that overlapped").await;
    }

    /// Reads the range again and again while others work. The first read begins now.
    fn reader(&self, range: &Range<usize>) -> IoFuture<Vec<Vec<u8>>> {
        let device = Arc::clone(&self.device);
        let (at, len) = (range.start as u64, range.len());
        let first = device.read(at, len);
        IoFuture::boxed(async move {
            let mut seen = vec![bytes_of(&first.await?)];
            for _ in 0..READS {
                seen.push(bytes_of(&device.read(at, len).await?));
                ring::turn_end().await;
            }
            Ok(seen)
        })
    }

    /// Two writes to the same blocks may mix, but block by block; whoever reads meanwhile sees bytes
    /// of before or of one of them.
    async fn plain_writes(&mut self, round: usize) {
        let first = (7 + round * 3 * BLOCKS) * self.block();
        let range = first..first + BLOCKS * self.block();
        let at = range.start as u64;
        let old = self.model[range.clone()].to_vec();
        let new = [self.random.bytes(range.len()), self.random.bytes(range.len())];
        let before = self.reader(&range);
        let durable = WriteFlags { durable: round % 2 == 1, atomic: false };
        let writes = vec![
            self.device.write(at, data(&new[0]), VOLATILE),
            self.device.write(at, data(&new[1]), durable),
        ];
        let (written, seen) = both(writes, vec![before, self.reader(&range)]).await;
        assert_eq!(written, [Ok(()), Ok(())], "writes that overlap");
        for seen in seen.into_iter().flat_map(|seen| seen.expect("a read beside writes")) {
            let is_right = |at: usize| [&old, &new[0], &new[1]].iter().any(|it| it[at] == seen[at]);
            let wrong = (0..seen.len()).find(|&at| !is_right(at));
            assert_eq!(wrong, None, "a read beside writes has a byte that nobody wrote");
        }
        let found = self.read_range(&range).await;
        blocks_are_of(&found, &[&new[0], &new[1]], self.block(), "after two plain writes");
        self.keep(&range, &found);
    }

    /// Blocks side by side, each changed by another operation: none undoes another, however much the
    /// device reads and writes as one.
    async fn neighbours(&mut self, round: usize) {
        let (block, first) = (self.block(), 5 + round * BLOCKS);
        let place = |index: usize| (first + index) * block..(first + index + 1) * block;
        let all_bytes = self.random.bytes(12 * block);
        let bytes = |index: usize| &all_bytes[index * block..(index + 1) * block];
        let at = |index: usize| place(index).start as u64;
        let device = Arc::clone(&self.device);
        let mut work: Vec<_> =
            (0..8).map(|index| device.write(at(index), data(bytes(index)), VOLATILE)).collect();
        work.push(device.write_zeroes(at(8), block as u64, true, VOLATILE));
        work.push(device.write_zeroes(at(9), block as u64, false, VOLATILE));
        if self.has_atomics() {
            work.push(device.or_write(at(10), data(bytes(10)), VOLATILE));
            let old = data(&self.model[place(11)]);
            let compared = device.compare_and_write(at(11), old, data(bytes(11)), VOLATILE);
            work.push(IoFuture::boxed(async {
                assert_eq!(compared.await?, Compared::Equal, "nobody else changes this block");
                Ok(())
            }));
        }
        for (index, done) in all(work).await.into_iter().enumerate() {
            assert_eq!(done, Ok(()), "operation {index} of those side by side");
        }
        (0..8).for_each(|index| self.keep(&place(index), bytes(index)));
        self.model[place(8)].fill(0);
        self.model[place(9)].fill(0);
        if self.has_atomics() {
            let old = &self.model[place(10)];
            let ored: Vec<u8> = old.iter().zip(bytes(10)).map(|(old, new)| old | new).collect();
            self.keep(&place(10), &ored);
            self.keep(&place(11), bytes(11));
        }
        self.same(place(0).start..place(11).end, "after changes side by side").await;
    }

    /// Readers see one colour, never two, and one is left.
    async fn atomic_writes(&mut self, round: usize) {
        let block = self.block();
        // Not where anything of the device begins, and as long as it may be.
        let atomic_bytes = self.geometry.atomic_bytes_max as usize;
        let len = atomic_bytes.min(self.model.len() / 2);
        let len = len / block * block;
        let range = (1 + round) * block..(1 + round) * block + len;
        let at = range.start as u64;
        let colours = [1, 2, 4].map(|colour: u8| vec![colour << (round % 2); len]);
        // What a read lends may show the first atomic operation on its blocks by halves.
        let first = self.device.write(at, data(&colours[0]), ATOMIC).await;
        assert_eq!(first, Ok(()), "an atomic write");
        let before = self.reader(&range);
        let writes = vec![
            self.device.write(at, data(&colours[1]), ATOMIC),
            self.device.write(at, data(&colours[2]), ATOMIC),
        ];
        let (written, seen) = both(writes, vec![before, self.reader(&range)]).await;
        assert_eq!(written, [Ok(()), Ok(())], "atomic writes that overlap");
        for seen in seen.into_iter().flat_map(|seen| seen.expect("a read beside atomic writes")) {
            let is_whole = colours.contains(&seen);
            assert!(is_whole, "seed {}: a read saw {len} atomic bytes by halves", self.seed);
        }
        let found = self.read_range(&range).await;
        assert!(colours[1..].contains(&found), "two atomic writes have mixed");
        self.keep(&range, &found);
    }

    /// Compare-and-writes of several hosts: no count is lost.
    async fn counters(&mut self) {
        let block = self.block();
        let range = 3 * block..4 * block;
        let at = range.start as u64;
        let start = self.model[range.clone()].to_vec();
        let counters: Vec<_> = (0..COUNTERS)
            .map(|_| {
                let (device, start) = (Arc::clone(&self.device), start.clone());
                IoFuture::boxed(async move {
                    for _ in 0..COUNTS {
                        count(&*device, at, start.len()).await;
                    }
                    Ok(())
                })
            })
            .collect();
        all(counters).await.into_iter().for_each(|done| assert_eq!(done, Ok(())));
        let mut end = start;
        for _ in 0..COUNTERS * COUNTS {
            step(&mut end);
        }
        self.keep(&range, &end);
        self.same(range, "after several counted in one block").await;
    }

    /// Or-writes of one bit each: all are there.
    async fn bits(&mut self) {
        let block = self.block();
        let range = 9 * block..10 * block;
        let zeroed = self.device.write_zeroes(range.start as u64, block as u64, true, VOLATILE);
        assert_eq!(zeroed.await, Ok(()));
        let bits = (0..8).map(|bit| {
            let bytes = vec![1 << bit; block];
            self.device.or_write(range.start as u64, data(&bytes), VOLATILE)
        });
        all(bits.collect()).await.into_iter().for_each(|done| assert_eq!(done, Ok(())));
        self.keep(&range, &vec![0xff; block]);
        self.same(range, "after or-writes of one bit each").await;
    }
}

fn step(bytes: &mut [u8]) {
    let (head, _) = bytes.split_first_chunk_mut().expect("a block");
    *head = u64::from_le_bytes(*head).wrapping_add(1).to_le_bytes();
}

/// Adds one to the number at the start of a block.
async fn count(device: &dyn BlockDevice, at: u64, len: usize) {
    loop {
        let old = bytes_of(&device.read(at, len).await.expect("a read"));
        let mut new = old.clone();
        step(&mut new);
        let compared = device.compare_and_write(at, data(&old), data(&new), VOLATILE).await;
        if compared.expect("a compare-and-write") == Compared::Equal {
            return;
        }
    }
}
