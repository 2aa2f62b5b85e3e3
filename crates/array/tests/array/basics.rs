//! Volumes: they are disks like any other, and keep what they were told.

use std::time::Duration;

use array::api::{Cache, VolumeSpec};
use array::{Array, Level};
use block::testing::{check_device, check_read_only};

use crate::common::{Shelf, bytes, read, run, sound, spec, write};
use crate::process::crash;

fn conforms(level: Level, disks: usize) {
    run(async move {
        let shelf = Shelf::new(disks, 32);
        let array = shelf.create(level).await;
        array.create_volume(spec("v", 16)).await.expect("it works");
        check_device(array.device("v").expect("it works"), 7).await;
        array.checkpoint().await.expect("it works");
        check_device(array.device("v").expect("it works"), 8).await;
        sound(&array).await;
        array.close().await.expect("it works");
    });
}

#[test]
fn a_raid0_volume_is_a_disk() {
    conforms(Level::Raid0, 2);
}

#[test]
fn a_raid10_volume_is_a_disk() {
    conforms(Level::Raid10, 4);
}

#[test]
fn a_raid5_volume_is_a_disk() {
    conforms(Level::Raid5, 4);
}

#[test]
fn a_raid6_volume_is_a_disk() {
    conforms(Level::Raid6, 5);
}

#[test]
fn a_raid50_volume_is_a_disk() {
    conforms(Level::Raid50, 6);
}

#[test]
fn volumes_of_every_kind_are_disks() {
    run(async {
        let shelf = Shelf::new(6, 64);
        let array = shelf.create(Level::Raid10).await;
        let kinds = [
            VolumeSpec { block_bytes: 4096, ..spec("blocks", 4) },
            VolumeSpec { cache: Cache::Volatile, ..spec("volatile", 4) },
            VolumeSpec { thick: true, ..spec("thick", 4) },
        ];
        for (seed, kind) in (9..).zip(kinds) {
            let name = kind.name.clone();
            array.create_volume(kind).await.expect("it works");
            check_device(array.device(&name).expect("it works"), seed).await;
        }
        sound(&array).await;
        array.close().await.expect("it works");
    });
}

#[test]
fn snapshots_views_and_clones_are_disks() {
    run(async {
        let shelf = Shelf::new(6, 64);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 4)).await.expect("it works");
        let volume = array.device("v").expect("it works");
        write(&volume, 512, &bytes(300 << 10, 1)).await;
        array.snapshot(&[("v", Some("s"))]).await.expect("it works");
        write(&volume, 4096, &bytes(300 << 10, 2)).await;
        check_read_only(array.snapshot_device("v", "s").expect("it works")).await;
        array.set_snapshot_writable("v", "s", false).await.expect("it works");
        check_device(array.snapshot_view_device("v", "s").expect("it works"), 12).await;
        array.clone_snapshot("v", "s", "c", true).await.expect("it works");
        check_device(array.device("c").expect("it works"), 13).await;
        // What all of them did to each other's clusters: nothing.
        check_device(volume, 14).await;
        check_read_only(array.snapshot_device("v", "s").expect("it works")).await;
        let snapshot = array.snapshot_device("v", "s").expect("it works");
        assert_eq!(read(&snapshot, 512, 300 << 10).await, bytes(300 << 10, 1));
        sound(&array).await;
        array.close().await.expect("it works");
    });
}

#[test]
fn what_was_written_is_there_after_opening_again() {
    for level in Level::ALL {
        run(async move {
            let shelf = Shelf::new(6, 32);
            let array = shelf.create(level).await;
            array.create_volume(spec("v", 16)).await.unwrap();
            let volume = array.device("v").unwrap();
            let (small, large) = (bytes(4096 * 3, 1), bytes(1 << 20, 2));
            write(&volume, 8192, &small).await;
            write(&volume, 4 << 20, &large).await;
            array.checkpoint().await.unwrap();
            write(&volume, (4 << 20) + 512, &small).await;
            // No orderly end: what is not in place is in the journal.
            crash((array, volume));
            let array = shelf.open().await;
            let volume = array.device("v").unwrap();
            assert_eq!(read(&volume, 8192, small.len()).await, small, "{level}");
            let mut expected = large.clone();
            expected[512..512 + small.len()].copy_from_slice(&small);
            assert_eq!(read(&volume, 4 << 20, large.len()).await, expected, "{level}");
            sound(&array).await;
            array.close().await.unwrap();
        });
    }
}

/// Waits for the next checkpoint, much less than it would take by the clock.
async fn checkpoint_after(array: &Array, number: u64) {
    for _ in 0..300 {
        if array.info().checkpoint > number {
            return;
        }
        ring::sleep(Duration::from_millis(10)).await;
    }
    panic!("there is none: {:?}", array.info());
}

#[test]
fn a_journal_that_fills_and_space_that_is_replaced_begin_a_checkpoint() {
    run(async {
        let shelf = Shelf::new(6, 64);
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 16)).await.unwrap();
        let volume = array.device("v").unwrap();
        let before = array.info();
        let small = bytes(60 << 10, 1);
        // Nothing lies in the journal before: the first write must wake who looks.
        for at in 0..before.journal_bytes / 2 / small.len() as u64 {
            write(&volume, at * (64 << 10), &small).await;
        }
        checkpoint_after(&array, before.checkpoint).await;

        array.checkpoint().await.unwrap();
        let before = array.info();
        let large = bytes(1 << 20, 2);
        for round in 0..before.size_bytes / 12 / large.len() as u64 {
            write(&volume, (round % 16) << 20, &large).await;
        }
        checkpoint_after(&array, before.checkpoint).await;
        array.close().await.unwrap();
    });
}
