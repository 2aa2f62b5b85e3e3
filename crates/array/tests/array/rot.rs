//! Data that rots unseen, and what operators and hosts do meanwhile.

use std::sync::Arc;
use std::time::Duration;

use array::api::DiskState;
use array::{
    Array, BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, Level, Member, OpenOptions, RingEnv, crc32c,
};
use block::{BlockDevice, BlockError, WriteFlags};

use crate::common::{Hasty, Shelf, all_online, data, read, run, sound, spec, until, write};

const MIB: u64 = 1 << 20;
/// What lies below this on a disk of 32 MiB are labels, checkpoints and the journal.
const CHUNKS_AT: u64 = 7 * MIB;

/// A cluster that says in each block which one it is, and of which writing.
fn cluster(number: u64, writing: u64) -> Vec<u8> {
    let block = |row: u64| {
        let seed = number << 32 | writing << 8 | row;
        let word = move |at: u64| (seed ^ at << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
        (0..BLOCK_BYTES as u64 / 8).flat_map(move |at| word(at).to_le_bytes())
    };
    (0..CLUSTER_BLOCKS as u64).flat_map(block).collect()
}

/// Writes a cluster in parts, which go through the journal and a checkpoint.
async fn write_small(device: &Arc<dyn BlockDevice>, number: u64, writing: u64) {
    let (bytes, at) = (cluster(number, writing), number * CLUSTER_BYTES as u64);
    let (first, second) = bytes.split_at(CLUSTER_BYTES / 2);
    write(device, at, first).await;
    write(device, at + first.len() as u64, second).await;
}

/// The same as a whole, if there is space.
async fn try_write(device: &Arc<dyn BlockDevice>, number: u64) -> Result<(), BlockError> {
    let bytes = data(&cluster(number, 3)[..CLUSTER_BYTES - BLOCK_BYTES]);
    device.write(number * CLUSTER_BYTES as u64, bytes, WriteFlags::DURABLE).await
}

async fn expect(device: &Arc<dyn BlockDevice>, clusters: u64, writing: impl Fn(u64) -> u64) {
    for number in 0..clusters {
        let found = read(device, number * CLUSTER_BYTES as u64, CLUSTER_BYTES).await;
        assert!(found == cluster(number, writing(number)), "cluster {number}");
    }
}

/// Where a disk has blocks for which `is_chosen` says so, and what they are.
async fn blocks_of(
    disk: &Arc<dyn BlockDevice>,
    is_chosen: impl Fn(&[u8]) -> bool,
) -> Vec<(u64, Vec<u8>)> {
    let end = disk.geometry().size_bytes() - MIB;
    let mut chosen = Vec::new();
    for at in (CHUNKS_AT..end).step_by(BLOCK_BYTES) {
        let block = read(disk, at, BLOCK_BYTES).await;
        if is_chosen(&block) {
            chosen.push((at, block));
        }
    }
    chosen
}

/// Overwrites the blocks of a disk for which `is_chosen` says so; how many there were.
async fn spoil(disk: &Arc<dyn BlockDevice>, is_chosen: impl Fn(&[u8]) -> bool) -> usize {
    let chosen = blocks_of(disk, is_chosen).await;
    for (at, _) in &chosen {
        let garbage = data(&cluster(*at, 99)[..BLOCK_BYTES]);
        disk.write(*at, garbage, WriteFlags::VOLATILE).await.expect("the disk takes it");
    }
    chosen.len()
}

/// Each disk in turn is away at a start, and back at the next: all data is there without it.
async fn without_each(shelf: &Shelf, mut array: Array, look: impl AsyncFn(&Array)) -> Array {
    for away in 0..shelf.0.len() {
        array.close().await.expect("it ends well");
        let mut members = shelf.members();
        members.remove(away);
        let open = Array::open(Arc::new(RingEnv), members, OpenOptions::default());
        array = open.await.expect("one may be away");
        look(&array).await;
        array.close().await.expect("it ends well");
        array = shelf.open().await;
        all_online(&array).await;
    }
    array
}

/// Disks that never rotted have made no error.
fn accuses_only(array: &Array, rotten: &str) {
    for disk in array.disks().iter().filter(|disk| disk.name != rotten) {
        assert_eq!((disk.errors_read, disk.state), (0, DiskState::Online), "{disk:?}");
    }
}

#[test]
fn replacing_healthy_disks_beside_a_rotten_one_loses_nothing() {
    for level in [Level::Raid10, Level::Raid5, Level::Raid6] {
        run(async move {
            let shelf = Shelf::new(6, 32);
            let array = shelf.create(level).await;
            array.create_volume(spec("v", 8)).await.unwrap();
            let volume = array.device("v").unwrap();
            for number in 0..128 {
                write(&volume, number * CLUSTER_BYTES as u64, &cluster(number, 1)).await;
            }
            array.checkpoint().await.unwrap();
            let rotten: Arc<dyn BlockDevice> = Arc::clone(&shelf.0[2]) as _;
            assert!(spoil(&rotten, |_| true).await > 1000);
            let new = Shelf::new(2, 32);
            for (old, new) in ["disk-1", "disk-4"].into_iter().zip(new.members()) {
                let name = format!("new-{old}");
                array.replace_disk(old, Member { name, ..new }).await.unwrap();
                until(&array, "the old one has left", |a| a.disks().iter().all(|d| d.name != old))
                    .await;
            }
            expect(&volume, 128, |_| 1).await;
            accuses_only(&array, "disk-2");
            let report = array.scrub().await.unwrap();
            assert_eq!((report.lost_blocks, report.problems), (0, vec![]), "{level}");
            accuses_only(&array, "disk-2");
            sound(&array).await;
            array.close().await.unwrap();
        });
    }
}

#[test]
fn a_block_that_nobody_can_give_is_written_over_beside_a_missing_disk() {
    run(async {
        let shelf = Shelf::new(3, 32);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 2)).await.unwrap();
        let volume = array.device("v").unwrap();
        for number in 0..16 {
            write_small(&volume, number, 1).await;
        }
        array.close().await.unwrap();
        // A block of cluster 0 rots; then a disk is away that has no part in it, nor the volume
        // in what only that one has.
        let rotten = &cluster(0, 1)[..BLOCK_BYTES];
        let mut home = None;
        for (index, disk) in shelf.0.iter().enumerate() {
            let disk: Arc<dyn BlockDevice> = Arc::clone(disk) as _;
            if spoil(&disk, |block| block == rotten).await > 0 {
                home = Some(index);
            }
        }
        let home = home.expect("it lies somewhere");
        for away in (0..3).filter(|disk| *disk != home) {
            let mut members = shelf.members();
            members.remove(away);
            let array =
                Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await.unwrap();
            let volume = array.device("v").unwrap();
            // What a host does that was told of a medium error.
            let new = cluster(0, 2);
            write(&volume, 0, &new[..BLOCK_BYTES]).await;
            array.checkpoint().await.expect("the rest goes on");
            assert_eq!(read(&volume, 0, BLOCK_BYTES).await, &new[..BLOCK_BYTES]);
            array.close().await.unwrap();
            let array = shelf.open().await;
            all_online(&array).await;
            let volume = array.device("v").unwrap();
            assert_eq!(read(&volume, 0, BLOCK_BYTES).await, &new[..BLOCK_BYTES]);
            for number in 1..16 {
                let found = read(&volume, number * CLUSTER_BYTES as u64, CLUSTER_BYTES).await;
                assert!(found == cluster(number, 1), "cluster {number}");
            }
            let report = array.scrub().await.unwrap();
            assert_eq!((report.lost_blocks, report.repaired_blocks), (0, 0), "{report:?}");
            array.close().await.unwrap();
            let disk: Arc<dyn BlockDevice> = Arc::clone(&shelf.0[home]) as _;
            assert!(spoil(&disk, |block| block == &new[..BLOCK_BYTES]).await > 0);
        }
    });
}

#[test]
fn a_lost_block_that_a_snapshot_shares_is_told_of_its_volume() {
    run(async {
        let shelf = Shelf::new(1, 32);
        let array = shelf.create(Level::Raid0).await;
        array.create_volume(spec("v", 2)).await.unwrap();
        let volume = array.device("v").unwrap();
        write_small(&volume, 0, 1).await;
        write_small(&volume, 1, 1).await;
        array.snapshot(&[("v", Some("s"))]).await.unwrap();
        array.checkpoint().await.unwrap();
        // The volume has changed the second one since.
        write(&volume, CLUSTER_BYTES as u64, &cluster(1, 2)[..BLOCK_BYTES]).await;
        array.checkpoint().await.unwrap();
        let disk: Arc<dyn BlockDevice> = Arc::clone(&shelf.0[0]) as _;
        let (shared, own) = (cluster(0, 1), cluster(1, 1));
        let rotten = [&shared[..BLOCK_BYTES], &own[..BLOCK_BYTES]];
        assert_eq!(spoil(&disk, |block| rotten.contains(&block)).await, 2);
        let mut problems = array.scrub().await.unwrap().problems;
        problems.sort();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("snapshot s has lost the 4 KiB at byte 65536"));
        assert!(problems[1].starts_with("volume v has lost the 4 KiB at byte 0"), "{problems:?}");
    });
}

#[test]
fn blocks_that_are_lost_are_told_of_until_they_are_written_anew_or_found_again() {
    run(async {
        // Of a block that a host reads, and of one that a scrub comes by.
        for is_scrubbed in [false, true] {
            let shelf = Shelf::new(3, 32);
            // Here ten seconds are a third of one.
            let array = shelf.create_in(Arc::new(Hasty), Level::Raid5).await;
            array.create_volume(spec("v", 2)).await.unwrap();
            let volume = array.device("v").unwrap();
            write(&volume, 0, &cluster(0, 1)).await;
            array.checkpoint().await.unwrap();
            assert_eq!(array.info().warnings, Vec::<String>::new());
            // As nothing else is in its stripe the parity is the same bytes.
            let whole = cluster(0, 1);
            let rows: Vec<&[u8]> = whole.chunks(BLOCK_BYTES).collect();
            let disks: Vec<Arc<dyn BlockDevice>> =
                shelf.0.iter().map(|disk| Arc::clone(disk) as _).collect();
            let mut before = Vec::new();
            for (index, disk) in disks.iter().enumerate() {
                let blocks = blocks_of(disk, |block| rows[1..].contains(&block)).await;
                before.extend(blocks.into_iter().map(|(at, block)| (index, at, block)));
                assert!(matches!(spoil(disk, |block| rows.contains(&block)).await, 0 | 16));
            }
            let mut lost = 1;
            if is_scrubbed {
                assert_eq!(array.scrub().await.unwrap().lost_blocks, 16);
                lost = 16;
            } else {
                let read = volume.read(0, BLOCK_BYTES).await;
                assert_eq!(read.err(), Some(BlockError::Medium { at: 0 }));
                assert_eq!(array.info().warnings, Vec::<String>::new(), "it may pass");
                until(&array, "it is sure", |array| !array.info().warnings.is_empty()).await;
            }
            let told = |lost: usize| {
                vec![format!(
                    "{lost} blocks of 4096 bytes are lost, no disk holds them ({lost} of volume v): \
                     restore them from a backup"
                )]
            };
            let warnings = || {
                let all = array.info().warnings;
                all.into_iter().filter(|text| text.contains("lost")).collect::<Vec<_>>()
            };
            assert_eq!(warnings(), told(lost));
            if is_scrubbed {
                write(&volume, 0, &cluster(0, 2)[..BLOCK_BYTES]).await;
                assert_eq!(warnings(), told(15));
                for (disk, at, block) in before {
                    disks[disk].write(at, data(&block), WriteFlags::VOLATILE).await.unwrap();
                }
                array.scrub().await.unwrap();
            } else {
                write(&volume, 0, &cluster(0, 2)[..BLOCK_BYTES]).await;
            }
            assert_eq!(warnings(), Vec::<String>::new());
        }
    });
}

#[test]
fn rot_in_free_space_costs_nothing_when_it_is_used_again() {
    for level in [Level::Raid5, Level::Raid6] {
        for rotten in 0..2 {
            run(async move {
                let shelf = Shelf::new(5, 32);
                let array = shelf.create(level).await;
                array.create_volume(spec("v", 16)).await.unwrap();
                let volume = array.device("v").unwrap();
                for number in 0..256 {
                    write_small(&volume, number, 1).await;
                }
                array.checkpoint().await.unwrap();
                for number in (1..256).step_by(2) {
                    let at = number * CLUSTER_BYTES as u64;
                    volume.unmap(at, CLUSTER_BYTES as u64).await.unwrap();
                }
                // What one frees comes back with the next.
                array.checkpoint().await.unwrap();
                array.checkpoint().await.unwrap();
                let free: Vec<u8> =
                    (1..256).step_by(2).flat_map(|number| cluster(number, 1)).collect();
                let free: std::collections::HashSet<&[u8]> = free.chunks(BLOCK_BYTES).collect();
                let disk: Arc<dyn BlockDevice> = Arc::clone(&shelf.0[rotten]) as _;
                assert!(spoil(&disk, |block| free.contains(block)).await > 100);
                for number in (1..256).step_by(2) {
                    write_small(&volume, number, 2).await;
                }
                // More than fresh stripes have room for, so that slots are used again.
                array.create_volume(spec("w", 64)).await.unwrap();
                let other = array.device("w").unwrap();
                let mut written = 0;
                while try_write(&other, written).await.is_ok() {
                    written += 1;
                }
                array.checkpoint().await.unwrap();
                let writing = |number: u64| 1 + number % 2;
                expect(&volume, 256, writing).await;
                accuses_only(&array, &format!("disk-{rotten}"));
                let look = async |array: &Array| {
                    expect(&array.device("v").unwrap(), 256, writing).await;
                    let other = array.device("w").unwrap();
                    for number in 0..written {
                        let len = CLUSTER_BYTES - BLOCK_BYTES;
                        let found = read(&other, number * CLUSTER_BYTES as u64, len).await;
                        assert!(found == cluster(number, 3)[..len], "cluster {number}");
                    }
                };
                let array = without_each(&shelf, array, look).await;
                accuses_only(&array, &format!("disk-{rotten}"));
                array.close().await.unwrap();
            });
        }
    }
}

/// A block that ends in its own CRC.
fn superblock(version: u64) -> Vec<u8> {
    let mut block = cluster(0, version)[..BLOCK_BYTES].to_vec();
    let crc = crc32c(&block[..BLOCK_BYTES - 4]).to_le_bytes();
    block[BLOCK_BYTES - 4..].copy_from_slice(&crc);
    block
}

/// The only disk has an older block than was written last, and a host writes another one of the same cluster,
/// which is to lie elsewhere: nothing that could pass for a block of the host goes there with it.
#[test]
fn a_block_that_nobody_has_stays_lost_when_its_cluster_is_written_elsewhere() {
    run(async {
        let shelf = Shelf::new(1, 32);
        let array = shelf.create(Level::Raid0).await;
        array.create_volume(spec("v", 2)).await.unwrap();
        let volume = array.device("v").unwrap();
        let mut wanted = cluster(0, 1);
        wanted[3 * BLOCK_BYTES..4 * BLOCK_BYTES].copy_from_slice(&superblock(2));
        write(&volume, 0, &wanted).await;
        array.snapshot(&[("v", Some("s"))]).await.unwrap();
        array.checkpoint().await.unwrap();
        let disk: Arc<dyn BlockDevice> = Arc::clone(&shelf.0[0]) as _;
        let copies = blocks_of(&disk, |block| block == superblock(2)).await;
        assert_eq!(copies.len(), 1);
        write(&disk, copies[0].0, &superblock(1)).await;
        // The snapshot keeps the cluster where it is.
        let new = &cluster(9, 9)[..BLOCK_BYTES];
        write(&volume, 5 * BLOCK_BYTES as u64, new).await;
        array.checkpoint().await.unwrap();
        wanted[5 * BLOCK_BYTES..6 * BLOCK_BYTES].copy_from_slice(new);
        for (row, block) in wanted.chunks(BLOCK_BYTES).enumerate() {
            let at = (row * BLOCK_BYTES) as u64;
            match row {
                3 => {
                    let lost = volume.read(at, BLOCK_BYTES).await.map(|_| "something");
                    assert_eq!(lost, Err(BlockError::Medium { at }));
                }
                _ => assert!(read(&volume, at, BLOCK_BYTES).await == block, "block {row}"),
            }
        }
        array.close().await.unwrap();
    });
}

#[test]
fn a_block_that_ends_in_its_own_crc_is_read_as_it_was_written_last() {
    for level in [Level::Raid0, Level::Raid10, Level::Raid5, Level::Raid6] {
        run(async move {
            let shelf = Shelf::new(4, 32);
            let array = shelf.create(level).await;
            array.create_volume(spec("v", 8)).await.unwrap();
            let volume = array.device("v").unwrap();
            for number in 0..16 {
                write(&volume, number * CLUSTER_BYTES as u64, &cluster(number, 1)).await;
            }
            for version in 1..6 {
                let at = CLUSTER_BYTES as u64 * 5;
                write(&volume, at, &superblock(version)).await;
                array.checkpoint().await.unwrap();
                // As blkid and the like do: from the start on, which begins a read-ahead.
                for number in 0..8 {
                    read(&volume, number * 4 * BLOCK_BYTES as u64, 4 * BLOCK_BYTES).await;
                }
                ring::sleep(Duration::from_millis(2)).await;
                let found = read(&volume, at, BLOCK_BYTES).await;
                assert!(found == superblock(version), "{level}: version {version}");
            }
            array.close().await.unwrap();
        });
    }
}
