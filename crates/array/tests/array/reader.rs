//! Sequences that readers of the code found: each lost something, or stopped the array.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use array::Level;
use array::api::DiskState;
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use futures_util::future::{join, join_all};

use crate::common::{Shelf, bytes, data, read, run, sound, spec, until, write};

const BLOCK: usize = 4096;
const CLUSTER: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

/// Where data lies on the disks of a shelf.
const DATA: Range<u64> = 8 * MIB..u64::MAX;

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
        /// A wave changes three stripes, and has one of 128 notes.
        const BLOCKS: usize = 860;
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
        drop((volume, array));
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

/// Where checkpoints lie on the disks of a shelf.
const CHECKPOINTS: Range<u64> = 64 << 10..(64 << 10) + 2 * MIB;

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
        shelf.0[1].inject(Rule::always(Operation::Write, Fault::Hang).at(CHECKPOINTS));
        until(&array, "about to have one", |_| shelf.0[1].held() > 0).await;
        let released = async {
            ring::sleep(Duration::from_millis(200)).await;
            shelf.0[1].heal();
            shelf.0[1].release();
        };
        join(array.fail_disk("disk-0"), released).await.0.expect("there is another now");
        array.checkpoint().await.expect("the array has not stopped");
        drop((volume, array));
        let array = shelf.open().await;
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 0, MIB as usize).await, bytes(MIB as usize, 2));
    });
}
