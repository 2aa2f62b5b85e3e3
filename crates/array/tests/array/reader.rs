//! Sequences that readers of the code found: each lost something, or stopped the array.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use array::api::DiskState;
use array::{Array, Level};
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use futures_util::future::{join, join_all};

use crate::common::{Shelf, bytes, data, read, run, sound, spec, until, write};
use crate::process::crash;

const BLOCK: usize = 4096;
const CLUSTER: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

/// Where data lies on the disks of a shelf.
const DATA: Range<u64> = 8 * MIB..u64::MAX;

/// All that is neither label nor journal, nor what checkpoints write beside the data.
const CHUNKS: Range<u64> = 7 * MIB..31 * MIB;

/// A checkpoint copies a cluster that a snapshot shares; a block of it is bad on one disk, and the
/// disk with the other copy answers again some seconds later.
#[test]
fn what_a_disk_that_is_out_for_a_moment_has_is_waited_for() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(CLUSTER as usize, 1)).await;
        array.snapshot(&[("v", Some("s"))]).await.unwrap();
        array.checkpoint().await.unwrap();
        shelf.pull(1);
        let bad = Fault::Fail(BlockError::Medium { at: 0 });
        shelf.0[0].inject(Rule::always(Operation::Read, bad).at(DATA));
        let back = async {
            ring::sleep(Duration::from_secs(3)).await;
            shelf.0[1].heal();
        };
        let copied = async {
            write(&volume, 0, &bytes(BLOCK, 2)).await;
            array.checkpoint().await
        };
        join(copied, back).await.0.unwrap();
        shelf.0[0].heal();
        until(&array, "back", |array| array.disks()[1].state == DiskState::Online).await;
        let rest = read(&volume, BLOCK as u64, CLUSTER as usize - BLOCK).await;
        assert!(rest == bytes(CLUSTER as usize, 1)[BLOCK..], "nothing of it was given up");
        sound(&array).await;
    });
}

/// All of a volume, in pieces of a cluster, until there is no space; how many were written.
async fn fill(volume: &Arc<dyn BlockDevice>) -> u64 {
    let clusters = volume.geometry().size_bytes() / CLUSTER;
    for cluster in 0..clusters {
        let one = data(&bytes(CLUSTER as usize, 3));
        match volume.write(cluster * CLUSTER, one, WriteFlags::DURABLE).await {
            Ok(()) => {}
            Err(BlockError::NoSpace) => return cluster,
            Err(error) => panic!("cluster {cluster}: {error}"),
        }
    }
    clusters
}

/// The first block of each of these clusters, all at the same time.
async fn write_blocks(volume: &Arc<dyn BlockDevice>, clusters: &[u64]) {
    let writes = clusters.iter().map(|cluster| {
        volume.write(cluster * CLUSTER, data(&bytes(BLOCK, 4)), WriteFlags::DURABLE)
    });
    for written in join_all(writes).await {
        written.expect("the journal has room");
    }
}

/// A checkpoint that changes more stripes in place than the journal has room to note.
#[test]
fn a_checkpoint_with_more_waves_than_it_can_note_ends_and_the_array_opens() {
    run(async {
        /// A wave changes three stripes, and has one of 128 notes. All of them wait in the journal, and as each waits for
        /// the one before while a checkpoint runs, each takes two of its 896 blocks.
        const BLOCKS: usize = 440;
        let shelf = Shelf::new(5, 96);
        let array = shelf.create(Level::Raid6).await;
        array.create_volume(spec("v", 320)).await.unwrap();
        let volume = array.device("v").unwrap();
        let filled = fill(&volume).await;
        array.checkpoint().await.unwrap();
        // A hole in every stripe, and no stripe that is free.
        for cluster in (0..filled).step_by(3) {
            volume.unmap(cluster * CLUSTER, CLUSTER).await.unwrap();
        }
        array.checkpoint().await.unwrap();
        array.checkpoint().await.unwrap();
        let blocks: Vec<u64> = (0..filled).step_by(3).take(BLOCKS + 1).collect();
        write_blocks(&volume, &blocks[..1]).await;
        // A checkpoint is held up while the journal fills: the next one has all of that.
        for disk in &shelf.0 {
            disk.inject(Rule::always(Operation::Write, Fault::Hang).at(DATA));
        }
        let held = async {
            until(&array, "held up", |_| shelf.0.iter().any(|disk| disk.held() > 0)).await;
            write_blocks(&volume, &blocks[1..]).await;
            for disk in &shelf.0 {
                disk.heal();
                disk.release();
            }
        };
        join(array.checkpoint(), held).await.0.unwrap();
        array.checkpoint().await.expect("the array goes on");
        crash((volume, array));
        let array = shelf.open().await;
        let volume = array.device("v").unwrap();
        for cluster in 0..filled {
            let found = read(&volume, cluster * CLUSTER, CLUSTER as usize).await;
            let is_new = blocks.contains(&cluster);
            let wanted = match () {
                () if is_new => [bytes(BLOCK, 4), vec![0; CLUSTER as usize - BLOCK]].concat(),
                () if cluster % 3 == 0 => vec![0; CLUSTER as usize],
                () => bytes(CLUSTER as usize, 3),
            };
            assert!(found == wanted, "cluster {cluster}");
        }
        sound(&array).await;
    });
}

/// A mirror whose second disk lacks nothing any more, but holds no checkpoint yet.
#[test]
fn the_only_disk_with_a_checkpoint_is_not_declared_failed_before_another_has_one() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        shelf.pull(1);
        write(&volume, 0, &bytes(MIB as usize, 2)).await;
        array.checkpoint().await.unwrap();
        shelf.0[1].heal();
        shelf.at_records(1, Fault::Hang);
        until(&array, "about to have one", |_| shelf.0[1].held() > 0).await;
        let released = async {
            ring::sleep(Duration::from_millis(200)).await;
            shelf.0[1].heal();
            shelf.0[1].release();
        };
        join(array.fail_disk("disk-0", false), released).await.0.expect("there is another now");
        array.checkpoint().await.expect("the array has not stopped");
        crash((volume, array));
        let array = shelf.open().await;
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 0, MIB as usize).await, bytes(MIB as usize, 2));
    });
}

/// A disk is gone, and while a checkpoint changes stripes another one refuses writes for a moment.
#[test]
fn what_two_disks_did_not_take_of_a_checkpoint_waits_for_the_one_that_is_back_soon() {
    run(async {
        for hiccup in [1, 2] {
            let shelf = Shelf::new(3, 32);
            let array = shelf.create(Level::Raid5).await;
            array.create_volume(spec("v", 8)).await.unwrap();
            let volume = array.device("v").unwrap();
            write(&volume, 0, &bytes(MIB as usize, 2)).await;
            array.checkpoint().await.unwrap();
            shelf.pull(0);
            write(&volume, 0, &bytes(BLOCK, 3)).await;
            array.checkpoint().await.unwrap();
            for cluster in 0..16 {
                write(&volume, cluster * CLUSTER, &bytes(BLOCK, 4)).await;
            }
            let bad = Fault::Fail(BlockError::Medium { at: 0 });
            shelf.0[hiccup].inject(Rule::always(Operation::Write, bad).at(DATA));
            let back = async {
                ring::sleep(Duration::from_secs(2)).await;
                shelf.0[hiccup].heal();
            };
            join(array.checkpoint(), back).await.0.unwrap();
            // The checkpoint has waited: the volume did not go offline meanwhile.
            let events = format!("{:?}", array.events(0));
            assert!(!events.contains("the journal keeps"), "{events}");
            let is_online = |array: &array::Array| array.disks()[hiccup].state == DiskState::Online;
            until(&array, "back", is_online).await;
            for cluster in 0..16 {
                let mut wanted = bytes(MIB as usize, 2).split_off((cluster * CLUSTER) as usize);
                wanted.truncate(CLUSTER as usize);
                wanted[..BLOCK].copy_from_slice(&bytes(BLOCK, 4));
                let found = read(&volume, cluster * CLUSTER, CLUSTER as usize).await;
                assert!(found == wanted, "cluster {cluster} beside disk {hiccup}");
            }
            sound(&array).await;
        }
    });
}

/// All that a disk holds.
async fn image(disk: &FaultyDisk) -> Vec<u8> {
    let mut all = Vec::new();
    for at in (0..disk.geometry().size_bytes()).step_by(MIB as usize) {
        let mut piece = vec![0; MIB as usize];
        disk.read(at, MIB as usize).await.expect("it is well").copy_to(0, &mut piece);
        all.extend(piece);
    }
    all
}

/// What a drive may lose of a write that it says it has taken.
#[derive(Clone, Copy, PartialEq)]
enum Lost {
    Data,
    Parity,
}

impl Lost {
    /// Whether a block that changed like this is it, when `old` became `new`.
    fn is_at(self, (was, is): (&[u8], &[u8]), (old, new): (&[u8], &[u8])) -> bool {
        let is_data = (was, is) == (old, new);
        let differs = was.iter().zip(is).map(|(a, b)| a ^ b);
        let is_parity = !is_data && differs.eq(old.iter().zip(new).map(|(a, b)| a ^ b));
        if self == Self::Data { is_data } else { is_parity }
    }
}

/// A scrub has looked up what it must find, a host changes a block, and a drive loses its part.
fn scrub_beside_a_lost_write(level: Level, disks: usize, loses: Lost) {
    run(async move {
        const LEN: usize = 4 << 20;
        const AT: usize = LEN - CLUSTER as usize;
        let shelf = Shelf::new(disks, 32);
        let array = shelf.create(level).await;
        array.create_volume(spec("v", 8)).await.expect("there is space");
        let volume = array.device("v").expect("it is there");
        write(&volume, 0, &bytes(LEN, 1)).await;
        array.checkpoint().await.expect("it works");
        let (old, new) = (bytes(LEN, 1)[AT..][..BLOCK].to_vec(), bytes(BLOCK, 9));
        let before = join_all(shelf.0.iter().map(|disk| image(disk))).await;
        for disk in &shelf.0 {
            disk.inject(Rule::always(Operation::Read, Fault::Hang).at(CHUNKS).times(24));
        }
        let scrub = array.scrub();
        let beside = async {
            let held = || shelf.0.iter().map(|disk| disk.held()).sum::<usize>();
            let is_at_data = |_: &Array| {
                // Pages of maps come first, and few at a time.
                let is_so = held() >= 8;
                shelf.0.iter().filter(|_| !is_so).for_each(|disk| disk.release());
                is_so
            };
            until(&array, "under way", is_at_data).await;
            shelf.0.iter().for_each(|disk| disk.heal());
            write(&volume, AT as u64, &new).await;
            array.checkpoint().await.expect("it works");
            let mut lost = None;
            for (disk, before) in shelf.0.iter().zip(&before) {
                let after = image(disk).await;
                let blocks = before.chunks(BLOCK).zip(after.chunks(BLOCK));
                let mut blocks = blocks.enumerate().skip(CHUNKS.start as usize / BLOCK);
                let found = blocks.find(|(_, change)| loses.is_at(*change, (&old, &new)));
                lost = lost.or(found.map(|(at, (was, _))| (disk, at, was.to_vec())));
            }
            let (disk, at, was) = lost.expect("one that holds it");
            disk.write((at * BLOCK) as u64, data(&was), WriteFlags::DURABLE)
                .await
                .expect("it is well");
            shelf.0.iter().for_each(|disk| disk.release());
        };
        let report = join(scrub, beside).await.0.expect("it works");
        assert_eq!(report.lost_blocks, 0, "{report:?}");
        assert!(read(&volume, AT as u64, BLOCK).await == new);
        sound(&array).await;
        assert!(read(&volume, AT as u64, BLOCK).await == new);
        let errors: Vec<u64> = array.disks().iter().map(|disk| disk.errors_read).collect();
        let accused = errors.iter().filter(|errors| **errors > 0).count();
        assert_eq!((errors.iter().sum::<u64>(), accused), (1, 1), "only the one that lost it");
    });
}

#[test]
fn a_scrub_gives_no_copy_back_what_it_held_before_a_write() {
    scrub_beside_a_lost_write(Level::Raid1, 2, Lost::Data);
}

#[test]
fn a_scrub_gives_no_column_back_what_it_held_before_a_write() {
    scrub_beside_a_lost_write(Level::Raid5, 3, Lost::Data);
}

#[test]
fn a_scrub_believes_no_parity_of_before_a_write() {
    scrub_beside_a_lost_write(Level::Raid5, 3, Lost::Parity);
}

/// All copies of a block are bad, and a host reads only a part of its cluster.
#[test]
fn a_block_that_is_lost_is_named_by_its_place_in_the_volume() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(CLUSTER as usize, 1)).await;
        write(&volume, CLUSTER, &bytes(CLUSTER as usize, 2)).await;
        array.checkpoint().await.unwrap();
        let wanted = bytes(CLUSTER as usize, 2)[5 * BLOCK..][..BLOCK].to_vec();
        for disk in &shelf.0 {
            let all = image(disk).await;
            let blocks = all.chunks(BLOCK).enumerate().skip(CHUNKS.start as usize / BLOCK);
            for (at, _) in blocks.filter(|(_, block)| *block == wanted) {
                let zeroes = data(&[0; BLOCK]);
                disk.write((at * BLOCK) as u64, zeroes, WriteFlags::DURABLE).await.unwrap();
            }
        }
        let lost = CLUSTER + 5 * BLOCK as u64;
        for (at, len) in [(0, 2 * CLUSTER), (CLUSTER, CLUSTER), (lost - 4096, 8192), (lost, 4096)] {
            let read = volume.read(at, len as usize).await;
            let Err(BlockError::Medium { at: named }) = read else { panic!("{at}: {read:?}") };
            assert_eq!(named, lost, "of {len} bytes from {at}");
        }
    });
}
