//! Atomic operations from two cores at once: nothing lost, nothing half seen.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use block::{BlockDevice, BlockError, Compared, FileDisk, FileOptions, RamDisk, WriteFlags};
use ring::{Buf, CoreConfig, CoreId, Data};

const BLOCK_BYTES: usize = 512;
const BLOCKS: u64 = 4096;
const ATOMIC: WriteFlags = WriteFlags { durable: false, atomic: true };

/// A file that goes with the test.
struct Image(PathBuf);

impl Image {
    fn under(parent: &str, name: &str) -> (Self, FileDisk) {
        let path = PathBuf::from(parent).join(format!("drystone-{}-{name}", std::process::id()));
        let options = FileOptions {
            block_bytes: BLOCK_BYTES as u32,
            read_only: false,
            size_bytes: Some(BLOCKS * BLOCK_BYTES as u64),
            write_through: false,
            direct: false,
        };
        let disk = FileDisk::open_file(&path, &options).unwrap();
        (Self(path), disk)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

fn data(bytes: &[u8]) -> Data {
    let mut buf = Buf::alloc(bytes.len()).unwrap();
    buf.copy_from_slice(bytes);
    buf.into()
}

async fn bytes<F>(read: F) -> Vec<u8>
where
    F: Future<Output = Result<Data, BlockError>>,
{
    let read = read.await.unwrap();
    let mut bytes = vec![0; read.len()];
    read.copy_to(0, &mut bytes);
    bytes
}

/// Runs `work(core)` on two cores at once.
fn on_two_cores<F, Fut>(work: F)
where
    F: Fn(CoreId) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    ring::launch(2, &CoreConfig::default(), work).unwrap().join().unwrap();
}

async fn increment(device: &dyn BlockDevice, times: u64) {
    for _ in 0..times {
        loop {
            let before = bytes(device.read(0, BLOCK_BYTES)).await;
            let count = u64::from_le_bytes(before[..8].try_into().unwrap());
            let mut after = before.clone();
            after[..8].copy_from_slice(&(count + 1).to_le_bytes());
            let flags = WriteFlags::VOLATILE;
            let swap = device.compare_and_write(0, data(&before), data(&after), flags);
            if swap.await.unwrap() == Compared::Equal {
                break;
            }
        }
    }
}

/// Two cores count together by compare-and-write while both also write the next block plainly.
fn no_increment_is_lost(device: &Arc<dyn BlockDevice>, times: u64) {
    let shared = Arc::clone(device);
    on_two_cores(move |_core| {
        let device = Arc::clone(&shared);
        async move {
            for round in 0..10 {
                increment(&*device, times / 10).await;
                let neighbour = data(&[round; BLOCK_BYTES]);
                device.write(BLOCK_BYTES as u64, neighbour, WriteFlags::VOLATILE).await.unwrap();
            }
        }
    });
    let device = Arc::clone(device);
    ring::block_on(&CoreConfig::default(), async move {
        let end = bytes(device.read(0, BLOCK_BYTES)).await;
        assert_eq!(u64::from_le_bytes(end[..8].try_into().unwrap()), 2 * times);
    })
    .unwrap();
}

/// One core writes a range in one colour after the other, atomically; the other must never see
/// two colours in one read, nor OR into a mix.
fn no_atomic_write_is_half_seen(device: &Arc<dyn BlockDevice>, rounds: u32) {
    const LEN: usize = 64 << 10;
    let device = Arc::clone(device);
    // The first atomic operation on a stripe is the one that a lent read may still see half of.
    let first = Arc::clone(&device);
    ring::block_on(&CoreConfig::default(), async move {
        first.write(0, data(&[1; LEN]), ATOMIC).await.unwrap();
    })
    .unwrap();
    on_two_cores(move |core| {
        let device = Arc::clone(&device);
        async move {
            for round in 0..rounds {
                if core == CoreId::from(0) {
                    device.write(0, data(&[1 << (round % 8); LEN]), ATOMIC).await.unwrap();
                } else {
                    let seen = bytes(device.read(0, LEN)).await;
                    assert!(seen.iter().all(|&byte| byte == seen[0]), "a torn atomic write");
                }
            }
        }
    });
}

#[test]
fn ram_loses_no_increment() {
    no_increment_is_lost(&(Arc::new(RamDisk::new(512, BLOCKS).unwrap()) as _), 20_000);
}

#[test]
fn ram_tears_no_atomic_write() {
    no_atomic_write_is_half_seen(&(Arc::new(RamDisk::new(512, BLOCKS).unwrap()) as _), 5_000);
}

#[test]
fn files_lose_no_increment() {
    let (_image, disk) = Image::under("/dev/shm", "count");
    no_increment_is_lost(&(Arc::new(disk) as _), 1000);
    let (_image, disk) = Image::under(&std::env::temp_dir().to_string_lossy(), "count");
    no_increment_is_lost(&(Arc::new(disk) as _), 200);
}

#[test]
fn files_tear_no_atomic_write() {
    let (_image, disk) = Image::under("/dev/shm", "torn");
    no_atomic_write_is_half_seen(&(Arc::new(disk) as _), 2000);
    let (_image, disk) = Image::under(&std::env::temp_dir().to_string_lossy(), "torn");
    no_atomic_write_is_half_seen(&(Arc::new(disk) as _), 500);
}

/// Each core ORs its own bits into the same 4 KiB, byte by byte: all of them must be there.
#[test]
fn or_writes_from_two_cores_add_up() {
    const LEN: usize = 4096;
    let disk = Arc::new(RamDisk::new(512, BLOCKS).unwrap());
    let shared = Arc::clone(&disk);
    on_two_cores(move |core| {
        let disk = Arc::clone(&shared);
        async move {
            let bit = if core == CoreId::from(0) { 0x0f } else { 0xf0 };
            for byte in 0..LEN {
                let mut mask = [0u8; LEN];
                mask[byte] = bit;
                disk.or_write(0, data(&mask), WriteFlags::VOLATILE).await.unwrap();
            }
        }
    });
    ring::block_on(&CoreConfig::default(), async move {
        assert_eq!(bytes(disk.read(0, LEN)).await, [0xff; LEN]);
    })
    .unwrap();
}

/// While one core keeps a stripe busy with plain writes, an exclusive operation of another gets
/// through all the same, and the other way round.
#[test]
fn neither_side_starves() {
    let disk = Arc::new(RamDisk::new(512, BLOCKS).unwrap());
    on_two_cores(move |core| {
        let disk = Arc::clone(&disk);
        async move {
            let block = data(&[3; BLOCK_BYTES]);
            for _ in 0..2000 {
                let flags = if core == CoreId::from(0) { ATOMIC } else { WriteFlags::VOLATILE };
                disk.write(0, block.clone(), flags).await.unwrap();
            }
        }
    });
}
