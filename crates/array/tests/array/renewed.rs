//! What one disk alone has when the power goes, the next start gives to the others that hold it too, before it
//! makes anything that could be cut off.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use array::checkpoint::slots::read_slots;
use array::label::{Found, Label, Layout};
use array::{Array, DiskId, Level, OpenOptions, RingEnv};
use block::BlockDevice;
use block::testing::{Fault, Operation, Rule};

use crate::common::{Shelf, bytes, read, run, sound, spec, write};
use crate::process;

const CLUSTER: usize = 64 << 10;
const DISK_MIB: u64 = 32;

async fn label(shelf: &Shelf) -> Label {
    match array::probe(&array::RingEnv, &*shelf.0[0]).await {
        Ok(Found::Label { label, .. }) => *label,
        other => panic!("no label: {other:?}"),
    }
}

/// The newest checkpoint that a disk has.
async fn newest(shelf: &Shelf, label: &Label, disk: usize) -> u64 {
    let device = Arc::clone(&shelf.0[disk]) as Arc<dyn BlockDevice>;
    let slot = read_slots(&[device], &label.layout, label.array).await;
    slot.expect("there is a checkpoint").number
}

/// Writes of these bytes do not come onto the disk any more.
fn hold(shelf: &Shelf, disk: usize, bytes: Range<u64>) {
    shelf.0[disk].inject(Rule::always(Operation::Write, Fault::Hang).at(bytes));
}

/// What follows the head of a record of a checkpoint: a mark is a head alone.
fn record(layout: &Layout, number: u64) -> Range<u64> {
    let at = layout.checkpoint_at(number % 2) + 4096;
    at..at + 4096
}

/// Each of these disks holds more than the others did when `before` was looked up.
async fn more_held(shelf: &Shelf, disks: &[usize], before: &[usize]) {
    for _ in 0..6000 {
        if disks.iter().all(|disk| shelf.0[*disk].held() > before[*disk]) {
            return;
        }
        ring::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing is held");
}

fn held(shelf: &Shelf) -> Vec<usize> {
    shelf.0.iter().map(|disk| disk.held()).collect()
}

/// The process ends with what it had not brought onto the disks.
fn end(shelf: &Shelf) {
    process::end();
    shelf.0.iter().for_each(|disk| disk.heal());
}

fn begin_a_checkpoint(array: &Array) {
    let asking = array.clone();
    ring::spawn(async move { drop(asking.checkpoint().await) });
}

fn begin_to_open(shelf: &Shelf) {
    let members = shelf.members();
    ring::spawn(async move {
        drop(Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await);
    });
}

async fn open_without(shelf: &Shelf, disk: usize) -> Array {
    let mut members = shelf.members();
    members.remove(disk);
    let opened = Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await;
    opened.expect("one may be away")
}

/// The next checkpoint is written over the one before on the disks that have nothing newer.
#[test]
fn a_checkpoint_that_one_disk_has_is_on_others_before_a_start_makes_another() {
    run(async {
        let shelf = Shelf::new(3, DISK_MIB);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(CLUSTER, 1)).await;
        array.checkpoint().await.unwrap();
        let label = label(&shelf).await;
        let number = newest(&shelf, &label, 0).await + 1;
        write(&volume, CLUSTER as u64, &bytes(CLUSTER, 2)).await;
        (1..3).for_each(|disk| hold(&shelf, disk, record(&label.layout, number)));
        begin_a_checkpoint(&array);
        more_held(&shelf, &[1, 2], &[0; 3]).await;
        end(&shelf);
        let numbers = [newest(&shelf, &label, 0).await, newest(&shelf, &label, 1).await];
        assert_eq!(numbers, [number, number - 1], "one has it");
        // The start marks the disks for its own checkpoint, and gets no record onto any.
        (0..3).for_each(|disk| hold(&shelf, disk, record(&label.layout, number + 1)));
        let before = held(&shelf);
        begin_to_open(&shelf);
        more_held(&shelf, &[0, 1, 2], &before).await;
        end(&shelf);
        let array = open_without(&shelf, 0).await;
        let volume = array.device("v").unwrap();
        for cluster in 0..2 {
            let found = read(&volume, cluster * CLUSTER as u64, CLUSTER).await;
            assert!(found == bytes(CLUSTER, cluster as u8 + 1), "cluster {cluster}");
        }
        array.close().await.unwrap();
        sound(&shelf.open().await).await;
    });
}

/// Most of a cluster, so that it is changed where it lies.
const CHANGED: usize = 48 << 10;
const CLUSTERS: u64 = 24;

fn is_changed(cluster: u64) -> bool {
    cluster.is_multiple_of(4)
}

/// The disks that hold waves.
const HOLDERS: Range<usize> = 0..3;

/// A start that is cut off while it does a wave again that disk `alone` had: disk `torn` did not get its part.
async fn cut_off_again(alone: usize, torn: usize) -> Shelf {
    let shelf = Shelf::new(5, DISK_MIB);
    let array = shelf.create(Level::Raid5).await;
    array.create_volume(spec("v", 8)).await.expect("it works");
    let volume = array.device("v").expect("it works");
    for cluster in 0..CLUSTERS {
        write(&volume, cluster * CLUSTER as u64, &bytes(CLUSTER, cluster as u8)).await;
    }
    array.checkpoint().await.expect("it works");
    let label = label(&shelf).await;
    assert_eq!(label.holders, [0, 1, 2].map(DiskId));
    for cluster in (0..CLUSTERS).filter(|cluster| is_changed(*cluster)) {
        write(&volume, cluster * CLUSTER as u64, &bytes(CHANGED, 100 + cluster as u8)).await;
    }
    let layout = &label.layout;
    let others: Vec<usize> = HOLDERS.filter(|disk| *disk != alone).collect();
    others.iter().for_each(|disk| hold(&shelf, *disk, layout.redo_at()..layout.journal_at()));
    begin_a_checkpoint(&array);
    more_held(&shelf, &others, &[0; 5]).await;
    end(&shelf);
    let chunks = layout.chunks_at()..layout.chunk_at(layout.chunks(DISK_MIB << 20));
    hold(&shelf, torn, chunks);
    let before = held(&shelf);
    begin_to_open(&shelf);
    more_held(&shelf, &[torn], &before).await;
    end(&shelf);
    shelf
}

/// All that was written, as it was before a checkpoint and in the journal since.
async fn holds_all(array: &Array, what: &str) {
    let volume = array.device("v").expect("it is served");
    for cluster in 0..CLUSTERS {
        let mut wanted = bytes(CLUSTER, cluster as u8);
        if is_changed(cluster) {
            wanted[..CHANGED].copy_from_slice(&bytes(CHANGED, 100 + cluster as u8));
        }
        let found = read(&volume, cluster * CLUSTER as u64, CLUSTER).await;
        assert!(found == wanted, "cluster {cluster}, {what}");
    }
}

/// Data and parity of a stripe do not agree: only the wave gives what the disk has that is gone.
#[test]
fn a_wave_that_one_disk_has_is_on_others_before_a_start_does_it_again() {
    for (alone, torn) in HOLDERS.flat_map(|alone| (0..5).map(move |torn| (alone, torn))) {
        if alone == torn {
            continue;
        }
        run(async move {
            let shelf = cut_off_again(alone, torn).await;
            let what = format!("a wave of disk {alone} alone, torn on {torn}");
            let array = open_without(&shelf, alone).await;
            holds_all(&array, &what).await;
            array.checkpoint().await.unwrap();
            holds_all(&array, &what).await;
            array.close().await.unwrap();
        });
    }
}
