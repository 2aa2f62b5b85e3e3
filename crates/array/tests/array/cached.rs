//! Blocks in memory: what is answered from there, and that it is never old.

use std::sync::Arc;

use array::api::VolumeSpec;
use array::{Array, BLOCK_BYTES, CLUSTER_BYTES, Level};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use crc_fast::{CrcAlgorithm, Digest};

use crate::common::{Shelf, bytes, data, read, run, spec, write};

const LEVELS: [Level; 4] = [Level::Raid0, Level::Raid10, Level::Raid5, Level::Raid6];
const CACHE_BYTES: u64 = 16 << 20;

/// The polynomial of CRC-64/NVME, its highest power in the lowest bit.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// A block of this number whose checksum is that of all others: its last eight bytes make up for what is before.
fn forged(number: u64) -> Vec<u8> {
    let mut block = bytes(BLOCK_BYTES, number as u8);
    block[..8].copy_from_slice(&number.to_le_bytes());
    let (head, tail) = block.split_at_mut(BLOCK_BYTES - 8);
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(head);
    // What is left after all is the same; before its last eight bytes it was this.
    let mut before = 0_u64;
    for _ in 0..64 {
        before = match before >> 63 {
            1 => (before ^ POLYNOMIAL) << 1 | 1,
            _ => before << 1,
        };
    }
    tail.copy_from_slice(&(before ^ !digest.finalize()).to_le_bytes());
    block
}

async fn cached(shelf: &Shelf, level: Level) -> (Array, Arc<dyn BlockDevice>) {
    let array = shelf.create(level).await;
    array.set_block_cache_bytes(CACHE_BYTES);
    array.create_volume(spec("v", 8)).await.expect("there is room");
    let volume = array.device("v").expect("it was just made");
    (array, volume)
}

/// No disk gives anything from now on.
fn blind(shelf: &Shelf) {
    for disk in &shelf.0 {
        disk.inject(Rule::always(Operation::Read, Fault::Fail(BlockError::Medium { at: 0 })));
    }
}

fn counted(array: &Array, name: &str) -> (u64, u64) {
    let info = array.volumes().into_iter().find(|volume| volume.name == name);
    let info = info.expect("it is there");
    (info.cache_hits, info.cache_misses)
}

#[test]
fn blocks_can_be_made_that_all_have_the_same_checksum() {
    let sums = (1..20).map(|number| crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &forged(number)));
    let sums: Vec<u64> = sums.collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:x?}");
    assert_ne!(forged(1), forged(2));
}

/// Checksums do not tell these blocks apart: what is in memory of a place ends when it is written.
#[test]
fn a_block_whose_checksum_is_that_of_the_one_before_is_read_as_it_was_written_last() {
    for level in LEVELS {
        run(async move {
            let shelf = Shelf::new(4, 32);
            let (array, volume) = cached(&shelf, level).await;
            write(&volume, 0, &bytes(16 * CLUSTER_BYTES, 3)).await;
            let at = 5 * CLUSTER_BYTES as u64 + 3 * BLOCK_BYTES as u64;
            for number in 1..8 {
                write(&volume, at, &forged(number)).await;
                array.checkpoint().await.unwrap();
                for _ in 0..2 {
                    let found = read(&volume, at, BLOCK_BYTES).await;
                    assert!(found == forged(number), "{level}: {number}");
                }
                if number == 4 {
                    // From here on the cluster is written to another place once.
                    array.snapshot(&[("v", Some("s"))]).await.unwrap();
                }
            }
            let snapshot = array.snapshot_device("v", "s").unwrap();
            assert!(read(&snapshot, at, BLOCK_BYTES).await == forged(4), "{level}: the snapshot");
            drop(snapshot);
            array.set_volume_online("v", false).await.unwrap();
            array.rollback("v", "s").await.unwrap();
            array.set_volume_online("v", true).await.unwrap();
            assert!(read(&volume, at, BLOCK_BYTES).await == forged(4), "{level}: rolled back");
            array.close().await.unwrap();
        });
    }
}

#[test]
fn what_was_written_or_read_is_read_again_without_disks() {
    for level in LEVELS {
        run(async move {
            let shelf = Shelf::new(4, 32);
            let (array, volume) = cached(&shelf, level).await;
            let whole = bytes(4 * CLUSTER_BYTES, 1);
            write(&volume, 0, &whole).await;
            // Not a whole cluster: by the journal, and by a checkpoint to its place.
            let part = bytes(3 * BLOCK_BYTES, 2);
            write(&volume, 6 * CLUSTER_BYTES as u64, &part).await;
            array.checkpoint().await.unwrap();
            let (hits, misses) = counted(&array, "v");
            assert_eq!((hits, misses), (0, 0), "nobody has read");
            blind(&shelf);
            let check = async || {
                assert!(read(&volume, 0, whole.len()).await == whole, "{level}");
                assert!(read(&volume, 4096, 512).await == whole[4096..4608], "{level}");
                let found = read(&volume, 6 * CLUSTER_BYTES as u64, part.len()).await;
                assert!(found == part, "{level}");
            };
            check().await;
            assert_eq!(counted(&array, "v"), (64 + 1 + 3, 0), "{level}");
            // Less memory than that: gone, and the disks give it again.
            array.set_block_cache_bytes(0);
            shelf.0.iter().for_each(|disk| disk.heal());
            check().await;
            assert_eq!(counted(&array, "v").1, 64 + 1 + 3, "{level}");
            array.set_block_cache_bytes(CACHE_BYTES);
            check().await;
            blind(&shelf);
            check().await;
            shelf.0.iter().for_each(|disk| disk.heal());
            array.close().await.unwrap();
        });
    }
}

#[test]
fn snapshots_and_clones_are_in_memory_once() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let (array, volume) = cached(&shelf, Level::Raid5).await;
        let whole = bytes(8 * CLUSTER_BYTES, 1);
        write(&volume, 0, &whole).await;
        array.snapshot(&[("v", Some("s"))]).await.unwrap();
        array.clone_snapshot("v", "s", "w", true).await.unwrap();
        array.checkpoint().await.unwrap();
        let before = array.info().cache_memory.bytes;
        blind(&shelf);
        let snapshot = array.snapshot_device("v", "s").unwrap();
        let clone = array.device("w").unwrap();
        for device in [&volume, &snapshot, &clone] {
            assert!(read(device, 0, whole.len()).await == whole);
        }
        assert_eq!(array.info().cache_memory.bytes, before);
        assert_eq!((counted(&array, "v"), counted(&array, "w")), ((256, 0), (128, 0)));
        shelf.0.iter().for_each(|disk| disk.heal());
        array.close().await.unwrap();
    });
}

#[test]
fn a_volume_that_is_left_out_takes_no_memory() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let (array, volume) = cached(&shelf, Level::Raid10).await;
        let spec = VolumeSpec { cached: false, ..spec("w", 8) };
        array.create_volume(spec).await.unwrap();
        let other = array.device("w").unwrap();
        for device in [&volume, &other] {
            write(device, 0, &bytes(4 * CLUSTER_BYTES, 1)).await;
            write(device, 4 * CLUSTER_BYTES as u64, &bytes(BLOCK_BYTES, 1)).await;
            array.checkpoint().await.unwrap();
            for _ in 0..2 {
                // Neither on and on nor whole clusters: nothing is fetched ahead.
                for block in [5, 2, 9, 64] {
                    read(device, block * BLOCK_BYTES as u64, BLOCK_BYTES).await;
                }
            }
        }
        assert_eq!(counted(&array, "v"), (8, 0));
        assert_eq!(counted(&array, "w"), (0, 8));
        array.close().await.unwrap();
    });
}

/// A merge makes something of blocks that nobody has; their checksums say that it is nothing.
#[test]
fn a_block_that_nobody_has_is_not_found_in_memory() {
    run(async {
        let shelf = Shelf::new(1, 32);
        let (array, volume) = cached(&shelf, Level::Raid0).await;
        write(&volume, 0, &bytes(CLUSTER_BYTES, 1)).await;
        array.snapshot(&[("v", Some("s"))]).await.unwrap();
        array.checkpoint().await.unwrap();
        array.set_block_cache_bytes(0);
        array.set_block_cache_bytes(CACHE_BYTES);
        // The disk has something else in the place of one block, and the cluster goes to another place.
        let wanted = &bytes(CLUSTER_BYTES, 1)[3 * BLOCK_BYTES..4 * BLOCK_BYTES];
        let disk: Arc<dyn BlockDevice> = Arc::clone(&shelf.0[0]) as _;
        let at = (0..32 << 8).map(|block| block * BLOCK_BYTES as u64);
        let mut spoiled = 0;
        for at in at {
            if read(&disk, at, BLOCK_BYTES).await == wanted {
                write(&disk, at, &bytes(BLOCK_BYTES, 77)).await;
                spoiled += 1;
            }
        }
        assert_eq!(spoiled, 1, "the block lies somewhere");
        write(&volume, 5 * BLOCK_BYTES as u64, &bytes(BLOCK_BYTES, 9)).await;
        array.checkpoint().await.unwrap();
        assert!(read(&volume, 5 * BLOCK_BYTES as u64, BLOCK_BYTES).await == bytes(BLOCK_BYTES, 9));
        let lost = volume.read(3 * BLOCK_BYTES as u64, BLOCK_BYTES).await.map(|_| "something");
        assert_eq!(lost, Err(BlockError::Medium { at: 3 * BLOCK_BYTES as u64 }));
        array.close().await.unwrap();
    });
}

/// Reads and writes of the same blocks beside checkpoints, with less memory than there are blocks.
#[test]
fn reads_beside_writes_and_checkpoints_are_never_old() {
    for level in [Level::Raid10, Level::Raid5] {
        run(async move {
            let shelf = Shelf::new(4, 32);
            let (array, volume) = cached(&shelf, level).await;
            array.set_block_cache_bytes(1 << 20);
            let clusters = 48_u64;
            let mut newest = vec![0_u64; clusters as usize * 16];
            for round in 1..40_u64 {
                for step in 0..200_u64 {
                    let number = (round * 7919 + step * 104_729) % (clusters * 16);
                    let version = round << 16 | step | 1;
                    let payload = data(&forged(version));
                    let at = number * BLOCK_BYTES as u64;
                    volume.write(at, payload, WriteFlags::DURABLE).await.unwrap();
                    newest[number as usize] = version;
                    let other = (number * 31 + step) % (clusters * 16);
                    let found = read(&volume, other * BLOCK_BYTES as u64, BLOCK_BYTES).await;
                    match newest[other as usize] {
                        0 => assert!(found.iter().all(|byte| *byte == 0), "{level}: {other}"),
                        version => assert!(found == forged(version), "{level}: {other}"),
                    }
                }
                if round % 3 == 0 {
                    array.checkpoint().await.unwrap();
                }
            }
            array.close().await.unwrap();
        });
    }
}

/// It says what it costs on a release build, with `--nocapture`.
#[test]
fn what_a_read_from_memory_costs() {
    const READS: u64 = 200_000;
    run(async {
        let shelf = Shelf::new(4, 128);
        let array = shelf.create(Level::Raid10).await;
        array.set_block_cache_bytes(256 << 20);
        array.create_volume(spec("v", 64)).await.unwrap();
        let volume = array.device("v").unwrap();
        for at in (0..64 << 20).step_by(16 * CLUSTER_BYTES) {
            write(&volume, at, &bytes(16 * CLUSTER_BYTES, 5)).await;
        }
        array.checkpoint().await.unwrap();
        for (what, len, reads) in
            [("4 KiB", BLOCK_BYTES, READS), ("256 KiB", 4 * CLUSTER_BYTES, READS / 50)]
        {
            let began = std::time::Instant::now();
            for number in 0..reads {
                let at = number.wrapping_mul(104_729) % ((64 << 20) / len as u64) * len as u64;
                let read = volume.read(at, len).into_ready();
                assert!(read.is_ok_and(|read| read.is_ok_and(|data| data.len() == len)));
            }
            let each = began.elapsed().as_nanos() as u64 / reads;
            eprintln!("a read of {what} from memory: {each} ns");
        }
        let (hits, misses) = counted(&array, "v");
        assert_eq!((hits, misses), (READS + READS / 50 * 64, 0));
        array.close().await.unwrap();
    });
}
