//! Walks over the maps of a large volume, beside hosts that write and checkpoints that use the pages
//! of former maps again.

use std::sync::Arc;
use std::time::Duration;

use array::api::{DiskState, VolumeSpec};
use array::{Array, Level, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use futures_util::future::join_all;

use crate::common::{Shelf, bytes, data, read, run, sound, spec, until, write};

/// What one leaf of a map tells of.
const LEAF_BYTES: u64 = 51 * 65536;
/// More than one step of a walk looks at.
const LEAVES: u64 = 360;
const BLOCK: usize = 4096;
/// Neither labels nor journal.
const DATA: std::ops::Range<u64> = (8 << 20)..u64::MAX;

fn block(leaf: u64, round: u64) -> Vec<u8> {
    let mut all = bytes(BLOCK, leaf as u8);
    all[..8].copy_from_slice(&leaf.to_le_bytes());
    all[8..16].copy_from_slice(&round.to_le_bytes());
    all
}

/// An array with a volume that has a block in each of its leaves, with nothing in the cache.
async fn cold(shelf: &Shelf, cache_bytes: usize) -> Array {
    let array = shelf.create(Level::Raid1).await;
    array.create_volume(spec("v", 2048)).await.unwrap();
    let volume = array.device("v").unwrap();
    for leaf in 0..LEAVES {
        write(&volume, leaf * LEAF_BYTES, &block(leaf, 0)).await;
    }
    array.close().await.unwrap();
    drop((array, volume));
    reopen(shelf, cache_bytes).await
}

async fn reopen(shelf: &Shelf, cache_bytes: usize) -> Array {
    let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
    Array::open(Arc::new(RingEnv), shelf.members(), options).await.unwrap()
}

/// Writes a block to each of the last `writers` leaves.
async fn write_round(volume: &Arc<dyn BlockDevice>, writers: u64, round: u64) {
    let write =
        |leaf: u64| volume.write(leaf * LEAF_BYTES, data(&block(leaf, round)), WriteFlags::DURABLE);
    for result in join_all((LEAVES - writers..LEAVES).map(write)).await {
        result.expect("the write is done");
    }
}

/// Walks all of the volume while hosts write to the end of it: so many rounds, or (`None`) until the
/// walk has ended. With `refuses` one disk takes no writes from soon after the beginning on.
async fn walk_beside_writers(writers: u64, rounds: Option<u64>, refuses: bool) {
    let shelf = Shelf::new(3, 256);
    let array = cold(&shelf, 128 << 20).await;
    let slow = Fault::Delay(Duration::from_millis(2));
    shelf.0.iter().for_each(|disk| disk.inject(Rule::always(Operation::Read, slow)));
    let (done, mut answer) = ring::oneshot();
    let asked = array.clone();
    ring::spawn(async move {
        done.send((asked.diff("v", None, None).await, asked.space("v", None).await))
    });
    ring::sleep(Duration::from_millis(60)).await;
    if refuses {
        shelf.refuse_writes(2);
    }
    let volume = array.device("v").unwrap();
    let (mut round, mut walked) = (0, None);
    while rounds.map_or(walked.is_none(), |rounds| round < rounds) {
        round += 1;
        write_round(&volume, writers, round).await;
        array.checkpoint().await.unwrap();
        if walked.is_none() {
            walked = ring::timeout(Duration::from_millis(1), &mut answer).await;
        }
    }
    let walked = match walked {
        Some(walked) => walked,
        None => answer.await,
    };
    let (changed, space) = walked.expect("the walks end");
    let changed = changed.expect("a healthy array is not called damaged");
    assert_eq!(changed.len() as u64, LEAVES, "each leaf has one cluster");
    assert_eq!(space.expect("nor by the other walk").unique_bytes, LEAVES * 65536);
    shelf.0.iter().for_each(|disk| disk.heal());
    array.close().await.unwrap();
    drop((array, volume));
    let array = reopen(&shelf, 128 << 20).await;
    let volume = array.device("v").unwrap();
    for leaf in 0..LEAVES {
        let round = if leaf < LEAVES - writers { 0 } else { round };
        assert!(read(&volume, leaf * LEAF_BYTES, BLOCK).await == block(leaf, round), "leaf {leaf}");
    }
    sound(&array).await;
}

#[test]
fn a_walk_beside_writers_calls_nothing_damaged() {
    run(walk_beside_writers(6, None, false));
}

#[test]
fn a_walk_beside_writers_and_a_disk_that_refuses_writes_loses_nothing() {
    run(walk_beside_writers(24, Some(6), true));
}

#[test]
fn a_snapshot_that_is_deleted_under_a_walk_ends_it_with_its_name() {
    run(async {
        let shelf = Shelf::new(3, 256);
        let array = cold(&shelf, 128 << 20).await;
        array.snapshot(&[("v", Some("s"))]).await.unwrap();
        array.checkpoint().await.unwrap();
        let slow = Fault::Delay(Duration::from_millis(2));
        shelf.0.iter().for_each(|disk| disk.inject(Rule::always(Operation::Read, slow)));
        let delete = async {
            ring::sleep(Duration::from_millis(60)).await;
            array.delete_snapshot("v", "s").await
        };
        let walk = array.diff("v", None, Some("s"));
        let (walked, deleted) = futures_util::future::join(walk, delete).await;
        deleted.unwrap();
        assert!(walked.unwrap_err().to_string().contains("no snapshot \"s\""));
        shelf.0.iter().for_each(|disk| disk.heal());
        sound(&array).await;
    });
}

/// A checkpoint needs a page for each of sixty leaves, and the cache has room for sixteen.
#[test]
fn a_cache_smaller_than_what_a_checkpoint_changes_delays_it_and_no_more() {
    run(async {
        let shelf = Shelf::new(3, 256);
        let array = cold(&shelf, 0).await;
        let volume = array.device("v").unwrap();
        write_round(&volume, 60, 1).await;
        let done = ring::timeout(Duration::from_secs(60), array.checkpoint()).await;
        done.expect("it does not read for ever").unwrap();
        sound(&array).await;
    });
}

/// Nine bad sectors, all healed long ago, and then no memory for a look at the label.
#[test]
fn want_of_memory_puts_out_no_disk() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        let plain = VolumeSpec { read_ahead_bytes: Some(0), ..spec("v", 8) };
        array.create_volume(plain).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(1 << 20, 1)).await;
        array.checkpoint().await.unwrap();
        let medium = Fault::Fail(BlockError::Medium { at: 0 });
        shelf.0.iter().for_each(|disk| {
            disk.inject(Rule::always(Operation::Read, medium).at(DATA).times(20));
        });
        for block in (0..256).chain(0..256) {
            _ = volume.read(block * BLOCK as u64, BLOCK).await;
        }
        shelf.0.iter().for_each(|disk| disk.heal());
        let count = |at: usize| array.disks()[at].errors_read;
        assert!(count(0) > 8 || count(1) > 8, "it is asked: {:?}", array.disks());
        let scarce = Fault::Fail(BlockError::NoMemory);
        shelf.0.iter().for_each(|disk| {
            disk.inject(Rule::always(Operation::Read, scarce));
        });
        // Longer than from one look to the next.
        ring::sleep(Duration::from_secs(7)).await;
        let states: Vec<_> = array.disks().iter().map(|disk| disk.state).collect();
        assert_eq!(states, [DiskState::Online; 2]);
        shelf.0.iter().for_each(|disk| disk.heal());
        sound(&array).await;
    });
}

/// A file that failed to flush once takes nothing durable any more, until it is opened anew.
#[test]
fn a_disk_that_never_forgets_a_failed_flush_is_opened_anew_and_comes_back() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        shelf.0[1].remember_failures();
        let medium = Fault::Fail(BlockError::Medium { at: 0 });
        shelf.0[1].inject(Rule::always(Operation::Flush, medium).times(1));
        write(&volume, 0, &bytes(1 << 20, 1)).await;
        array.checkpoint().await.unwrap();
        until(&array, "out", |array| array.disks()[1].state != DiskState::Online).await;
        until(&array, "back", |array| array.disks()[1].state == DiskState::Online).await;
        write(&volume, 65536, &bytes(65536, 2)).await;
        array.checkpoint().await.unwrap();
        assert_eq!(array.disks()[1].state, DiskState::Online, "and it stays");
        sound(&array).await;
    });
}
