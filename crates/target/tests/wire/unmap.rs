//! UNMAP of much at once, beside a host that wants little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, RamDisk, WriteFlags,
};
use ring::Data;

use crate::common::{Command, Rig, config, inquiry_page, unmap, wait_until};

/// What one UNMAP gives back at most.
const UNMAP_BYTES_MAX: u64 = 512 << 20;
/// What a step of it costs the disk below.
const STEP_TIME: Duration = Duration::from_millis(50);

/// Each other part of this length is mapped.
const EXTENT_BYTES: u64 = 1 << 20;
/// What it costs to find the end of one.
const LOOK_TIME: Duration = Duration::from_millis(5);

/// A disk of 1 GiB that gives space back at once, and at some cost.
#[derive(Debug)]
struct Costly {
    ram: RamDisk,
    unmapped_bytes: AtomicU64,
    extents: AtomicU64,
}

impl BlockDevice for Costly {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.ram.read(at, len)
    }

    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        self.ram.write_now(at, bytes, flags)
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.ram.write(at, data, flags)
    }

    fn flush(&self) -> IoFuture<()> {
        self.ram.flush()
    }

    fn unmap(&self, _at: u64, len: u64) -> IoFuture<()> {
        std::thread::sleep(STEP_TIME);
        self.unmapped_bytes.fetch_add(len, Ordering::Relaxed);
        IoFuture::ready(Ok(()))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        self.ram.write_zeroes(at, len, may_unmap, flags)
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        self.ram.compare_and_write(at, compare, write, flags)
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.ram.or_write(at, data, flags)
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        std::thread::sleep(LOOK_TIME);
        self.extents.fetch_add(1, Ordering::Relaxed);
        let number = at / EXTENT_BYTES;
        let state =
            if number.is_multiple_of(2) { ExtentState::Mapped } else { ExtentState::Deallocated };
        IoFuture::ready(Ok(Extent { len_bytes: (number + 1) * EXTENT_BYTES - at, state }))
    }
}

fn disk() -> Arc<Costly> {
    let ram = RamDisk::new(512, 2 * UNMAP_BYTES_MAX / 512).unwrap();
    Arc::new(Costly { ram, unmapped_bytes: AtomicU64::new(0), extents: AtomicU64::new(0) })
}

#[test]
fn the_longest_unmap_is_announced_and_keeps_nobody_waiting() {
    let disk = disk();
    let rig = Rig::start(config([disk.clone() as Arc<dyn BlockDevice>]));
    let (mut host, mut other) = (rig.ready("host"), rig.ready("other"));
    let limits = host.run(&Command::new(inquiry_page(0xb0)).reading(64)).good();
    let blocks = u32::from_be_bytes(limits[20..24].try_into().unwrap());
    assert_eq!(u64::from(blocks) * 512, UNMAP_BYTES_MAX, "MAXIMUM UNMAP LBA COUNT");
    // More than that in one command, in one descriptor or in several.
    for ranges in [&[(0, blocks + 1)][..], &[(0, blocks), (1 << 20, 1)]] {
        assert_eq!(host.run(&unmap(ranges)).check(), (0x05, 0x26, 0x00));
    }
    let itt = host.issue(&unmap(&[(0, blocks)]).immediate_data());
    wait_until("it has begun", || disk.unmapped_bytes.load(Ordering::Relaxed) > 0);
    let begun = Instant::now();
    other.run(&Command::read(0, 1)).good();
    let took = begun.elapsed();
    let unmapped_bytes = disk.unmapped_bytes.load(Ordering::Relaxed);
    assert!(unmapped_bytes < UNMAP_BYTES_MAX / 2, "the read waited {took:?} for {unmapped_bytes}");
    host.finish(itt).good();
    assert_eq!(disk.unmapped_bytes.load(Ordering::Relaxed), UNMAP_BYTES_MAX);
}

/// One command of 16 bytes looked through a map of any size before anybody else on its core had an answer.
#[test]
fn a_look_through_a_map_keeps_nobody_waiting() {
    let disk = disk();
    let rig = Rig::start(config([disk.clone() as Arc<dyn BlockDevice>]));
    let (mut host, mut other) = (rig.ready("host"), rig.ready("other"));
    const RUNS: usize = 800;
    let allocation_bytes = 8 + 16 * RUNS as u32;
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x9e, 0x12]);
    cdb[10..14].copy_from_slice(&allocation_bytes.to_be_bytes());
    let itt = host.issue(&Command::new(cdb).reading(allocation_bytes));
    wait_until("it has begun", || disk.extents.load(Ordering::Relaxed) > 0);
    other.run(&Command::read(0, 1)).good();
    let looked = disk.extents.load(Ordering::Relaxed);
    assert!(looked < RUNS as u64, "the read waited for all {looked} extents");
    let answer = host.finish(itt).good();
    assert_eq!(answer.len(), 8 + 16 * RUNS);
    let is_mapped = |run: &[u8]| run[12] == 0;
    let mapped = answer[8..].chunks(16).filter(|run| is_mapped(run)).count();
    assert_eq!(mapped, RUNS / 2);
    // Of a host that has gone nobody wants to know.
    host.issue(&Command::new(cdb).reading(allocation_bytes));
    wait_until("it has begun again", || disk.extents.load(Ordering::Relaxed) > RUNS as u64 + 2);
    drop(host);
    wait_until("nobody looks any more", || {
        let before = disk.extents.load(Ordering::Relaxed);
        std::thread::sleep(10 * LOOK_TIME);
        disk.extents.load(Ordering::Relaxed) == before
    });
    let looked = disk.extents.load(Ordering::Relaxed);
    assert!(looked < 2 * RUNS as u64, "all {looked} were looked at");
}
