//! Volumes: they are disks like any other, and keep what they were told.

use array::Level;
use block::testing::check_device;

use crate::common::{Shelf, bytes, read, run, sound, spec, write};

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
            drop((array, volume));
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
