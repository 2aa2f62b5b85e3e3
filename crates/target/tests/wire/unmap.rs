//! UNMAP of much at once, beside a host that wants little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, RamDisk, WriteFlags};
use ring::Data;

use crate::common::{Command, Rig, config, inquiry_page, unmap, wait_until};

/// What one UNMAP gives back at most.
const UNMAP_BYTES_MAX: u64 = 512 << 20;
/// What a step of it costs the disk below.
const STEP_TIME: Duration = Duration::from_millis(50);

/// A disk of 1 GiB that gives space back at once, and at some cost.
#[derive(Debug)]
struct Costly {
    ram: RamDisk,
    unmapped_bytes: AtomicU64,
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
        self.ram.extent(at)
    }
}

fn disk() -> Arc<Costly> {
    let ram = RamDisk::new(512, 2 * UNMAP_BYTES_MAX / 512).unwrap();
    Arc::new(Costly { ram, unmapped_bytes: AtomicU64::new(0) })
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
