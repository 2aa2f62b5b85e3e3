//! Whole sets on disks that fail on order.

mod copies;
mod disk;
mod gone;
mod late;
mod model;
mod power;
mod reads;
mod updates;
mod upkeep;
mod writes;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use block::{BlockError, WriteFlags};
use ring::{Buf, CoreConfig, Data};

use disk::{Fuse, TestDisk, turn};

use super::{
    Change, Contents, Crcs, DiskFailed, Good, Heal, Layout, NO_CRCS, Proof, Raid, ReadError, Seat,
    Set, SetRecord, Update,
};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, DiskId, Level, SetId, block_checksum};

const STRIPES: u32 = 4;
const LAYOUT: Layout =
    Layout { data_start: 8192, chunk_bytes: STRIPES as u64 * CLUSTER_BYTES as u64 };
const FLAGS: WriteFlags = WriteFlags::VOLATILE;

/// Levels with the smallest and with wider sets.
const SETS: [(Option<Level>, u16); 9] = [
    (None, 3),
    (None, 4),
    (Some(Level::Raid0), 1),
    (Some(Level::Raid1), 2),
    (Some(Level::Raid10), 2),
    (Some(Level::Raid5), 3),
    (Some(Level::Raid50), 4),
    (Some(Level::Raid6), 4),
    (Some(Level::Raid6), 6),
];

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&CoreConfig::default(), test).unwrap();
}

/// The block that a seed stands for.
fn block(seed: u64) -> Vec<u8> {
    let words = (0..BLOCK_BYTES as u64 / 8).map(|i| {
        (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i).wrapping_mul(0xd6e8_feb8_6659_fd93)
    });
    words.flat_map(u64::to_le_bytes).collect()
}

fn blocks(seeds: &[u64]) -> Data {
    let mut buf = Buf::alloc(seeds.len() * BLOCK_BYTES).unwrap();
    for (to, seed) in buf.chunks_exact_mut(BLOCK_BYTES).zip(seeds) {
        to.copy_from_slice(&block(*seed));
    }
    buf.freeze()
}

/// The checksums of these blocks when they lie in a slot of the rigs' set, from block `first` on.
fn crcs(slot: u32, first: usize, seeds: &[u64]) -> Vec<u32> {
    let crc = |(row, seed): (usize, &u64)| block_checksum(SET, slot, row, &block(*seed));
    (first..).zip(seeds).map(crc).collect()
}

/// The set of all rigs.
const SET: SetId = SetId(5);

/// Seeds of a cluster, all different.
fn cluster(seed: u64) -> [u64; CLUSTER_BLOCKS] {
    std::array::from_fn(|i| seed * 100 + i as u64)
}

fn change(column: usize, first_block: usize, seeds: &[u64]) -> Change {
    Change { column, first_block, data: blocks(seeds) }
}

/// Writes down who failed; slow enough to see whether somebody waits.
#[derive(Debug, Default)]
struct Alarm {
    heard: Arc<Mutex<Vec<DiskId>>>,
    heals: Arc<Mutex<Vec<Heal>>>,
}

impl DiskFailed for Alarm {
    fn disk_failed(&self, disk: DiskId, _error: BlockError) -> Pin<Box<dyn Future<Output = ()>>> {
        let heard = Arc::clone(&self.heard);
        Box::pin(async move {
            turn().await;
            heard.lock().unwrap().push(disk);
        })
    }

    fn disk_silent(&self, _: DiskId) {}

    fn now(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn heal(&self, heals: Vec<Heal>) {
        self.heals.lock().unwrap().extend(heals);
    }

    /// A hundred times as fast as asked.
    fn sleep(&self, time: std::time::Duration) -> crate::Task {
        Box::pin(ring::sleep(time / 100))
    }

    fn spawn(&self, task: crate::Task) {
        ring::spawn(task);
    }

    fn disk_behind(&self, _: DiskId) {}
}

/// One set on its disks, and one more disk to replace a member with.
struct Rig {
    raid: Arc<Raid>,
    set: Arc<Set>,
    disks: Vec<TestDisk>,
    fuse: Arc<Fuse>,
    alarm: Arc<Mutex<Vec<DiskId>>>,
    /// What is to be rewritten of which nobody who reads was told.
    heals: Arc<Mutex<Vec<Heal>>>,
}

impl Rig {
    fn new(level: Option<Level>, members: u16) -> Self {
        let fuse = Arc::new(Fuse::default());
        let disks: Vec<_> = (0..=members).map(|_| TestDisk::new(&fuse, LAYOUT, 2)).collect();
        let seats = (0..members).map(|i| Seat { disk: DiskId(i), chunk: u32::from(i) % 2 });
        let set = Set::empty(SET, level, seats.collect(), LAYOUT).unwrap();
        Self::of(set, disks, fuse)
    }

    fn of(set: Set, disks: Vec<TestDisk>, fuse: Arc<Fuse>) -> Self {
        let (alarm, heals) = (Arc::default(), Arc::default());
        let told = Alarm { heard: Arc::clone(&alarm), heals: Arc::clone(&heals) };
        let raid = Raid::new(Arc::new(told));
        for (id, disk) in disks.iter().enumerate() {
            raid.disks().add(DiskId(id as u16), &format!("disk {id}"), Arc::new(disk.clone()));
        }
        Self { raid: Arc::new(raid), set: Arc::new(set), disks, fuse, alarm, heals }
    }

    /// The same disks after a crash, with what a checkpoint had kept of the set.
    fn restarted(self, record: SetRecord) -> Self {
        self.fuse.mend();
        Self::of(Set::new(record, LAYOUT).unwrap(), self.disks, self.fuse)
    }

    /// Gives all stripes what they lack, the second one with this proof, and makes it durable.
    async fn refresh_all(&self, proof: Proof<'_>) {
        for stripe in 0..self.set.stripes() {
            let proof = if stripe == 1 { proof } else { Proof::NOTHING };
            self.raid.refresh_stripe(&self.set, stripe, proof).await.unwrap();
        }
        self.set.flush_begins();
        self.set.flush_ends();
    }

    /// Gives the second stripe what it lacks: first the columns, then the parity, which is made anew of them.
    async fn refresh_twice(&self, proof: Proof<'_>) {
        for _ in 0..2 {
            self.raid.refresh_stripe(&self.set, 1, proof).await.unwrap();
        }
    }

    fn members(&self) -> usize {
        self.set.shape().members()
    }

    /// How many members may be away.
    fn losses_max(&self) -> usize {
        let shape = self.set.shape();
        if shape.parity() == 0 { shape.members() - 1 } else { shape.parity() }
    }

    fn lose(&self, disks: &[usize]) {
        for disk in disks {
            self.disks[*disk].kill();
        }
    }

    /// The disk is back, with what it held.
    fn bring_back(&self, disk: usize) {
        self.disks[disk].revive();
        let id = DiskId(disk as u16);
        self.raid.disks().add(id, "back", Arc::new(self.disks[disk].clone()));
    }

    fn heard(&self) -> Vec<DiskId> {
        let mut heard = self.alarm.lock().unwrap().clone();
        heard.sort_unstable();
        heard.dedup();
        heard
    }

    /// Fills columns of a stripe: column `c` with the cluster of `seed + c`.
    async fn fill(&self, stripe: u32, columns: &[usize], seed: u64) {
        let data = columns.iter().map(|c| (*c, blocks(&cluster(seed + *c as u64))));
        let data: Vec<_> = data.collect();
        self.raid.write_fresh(&self.set, stripe, &data, FLAGS).await.unwrap();
    }

    async fn read(&self, slot: u32, first: usize, seeds: &[u64]) -> Result<Good, ReadError> {
        let read = self.raid.read(&self.set, slot, first, &crcs(slot, first, seeds)).await;
        if let Ok(good) = &read {
            assert_eq!(good.data.as_slice().unwrap(), blocks(seeds).as_slice().unwrap());
        }
        read
    }

    /// Reads a cluster as a whole and a part of it.
    async fn expect(&self, stripe: u32, column: usize, seeds: &[u64; CLUSTER_BLOCKS]) {
        let slot = self.set.shape().slot(stripe, column);
        let whole = self.read(slot, 0, seeds).await;
        assert!(whole.is_ok(), "stripe {stripe} column {column}: {whole:?}");
        assert!(self.read(slot, 5, &seeds[5..6]).await.is_ok());
    }

    /// What the owner of column `c` of a stripe knows when it holds the cluster of `seed + c`.
    fn known(&self, stripe: u32, seed: u64) -> impl Fn(usize, usize) -> Option<u32> + use<> {
        let shape = self.set.shape();
        move |column, row| {
            let slot = shape.slot(stripe, column);
            Some(crcs(slot, 0, &cluster(seed + column as u64))[row])
        }
    }

    async fn plan(&self, stripe: u32, changes: &[Change]) -> Update {
        // What changes is known; the stripe was filled from seed 1.
        let all = self.known(stripe, 1);
        let known = |column: usize, row: usize| {
            changes.iter().any(|change| change.column == column).then(|| all(column, row))?
        };
        self.raid.plan_update(&self.set, stripe, changes, &known).await.unwrap()
    }

    /// The disk, and its byte, of a block of a column.
    fn place(&self, stripe: u32, strip: usize, block: usize) -> (usize, u64) {
        let seat = self.set.holders(stripe, strip)[0].seat;
        (usize::from(seat.disk.0), self.set.byte_at(seat, stripe, block))
    }

    fn corrupt(&self, stripe: u32, strip: usize, block: usize) -> usize {
        let (disk, at) = self.place(stripe, strip, block);
        self.disks[disk].flip(at + 100);
        disk
    }
}

/// What a scrub is told when nothing else lives in the stripe.
fn contents(crcs: Crcs<'_>) -> Contents<'_> {
    Contents { crcs, is_taken: &|_| false, is_current: &|| true }
}

/// All choices of at most `max` of `count` things.
fn choices(count: usize, max: usize) -> Vec<Vec<usize>> {
    let masks = (0u32..1 << count).filter(|mask| mask.count_ones() as usize <= max);
    masks.map(|mask| (0..count).filter(|i| mask >> i & 1 == 1).collect()).collect()
}

/// Puts a replacement in its member's place, as a checkpoint does; the chunk that is free then.
fn promote(set: &Set) -> Option<Seat> {
    set.promote_replacement();
    let _ = set.record();
    set.recorded().map(|left| left.seat)
}
