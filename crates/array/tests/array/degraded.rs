//! Arrays of the fewest disks of their level that lack some: hosts go on, and new space too.

use std::sync::Arc;

use array::api::DiskState;
use array::{Array, Level, OpenOptions, RingEnv};

use crate::common::{Shelf, all_online, bytes, read, run, sound, spec, until, write};
use crate::process::crash;

const MIB: usize = 1 << 20;

/// Level, its fewest disks, and how many of them are away.
const CASES: [(Level, usize, usize); 6] = [
    (Level::Raid1, 2, 1),
    (Level::Raid10, 2, 1),
    (Level::Raid5, 3, 1),
    (Level::Raid6, 4, 1),
    (Level::Raid6, 4, 2),
    (Level::Raid50, 6, 1),
];

async fn open_without(shelf: &Shelf, away: std::ops::Range<usize>) -> Array {
    let members = shelf.members().into_iter().enumerate();
    let members = members.filter(|(at, _)| !away.contains(at)).map(|(_, member)| member);
    let opened = Array::open(Arc::new(RingEnv), members.collect(), OpenOptions::default()).await;
    opened.expect("an array opens by itself when its data is there")
}

/// What is written without the disks that are away is there with any that the level needs.
async fn grows_without(level: Level, disks: usize, away: usize, restarts: bool) {
    let shelf = Shelf::new(disks, 48);
    let array = shelf.create(level).await;
    array.create_volume(spec("v", 24)).await.expect("there is space");
    let volume = array.device("v").expect("it is served");
    let (one, two, three) = (bytes(MIB, 1), bytes(16 * MIB, 2), bytes(4096, 3));
    write(&volume, 0, &one).await;
    array.checkpoint().await.expect("a checkpoint");
    for disk in disks - away..disks {
        shelf.pull(disk);
    }
    // Small writes come to their places by checkpoints, large ones directly.
    for block in 0..64 {
        write(&volume, 20 * MIB as u64 + block * 16384, &three).await;
    }
    write(&volume, 2 * MIB as u64, &two).await;
    let holds = async |array: &Array, what: &str| {
        let volume = array.device("v").expect("it is served");
        assert_eq!(read(&volume, 0, MIB).await, one, "{level} {what}");
        assert_eq!(read(&volume, 2 * MIB as u64, two.len()).await, two, "{level} {what}");
        for block in 0..64 {
            let at = 20 * MIB as u64 + block * 16384;
            assert_eq!(read(&volume, at, 4096).await, three, "{level} {what}");
        }
    };
    array.checkpoint().await.expect("a checkpoint");
    holds(&array, "degraded").await;
    let missing = array.disks().iter().filter(|d| d.state == DiskState::Missing).count();
    assert_eq!(missing, away, "{level}");
    drop(volume);
    let mut array = array;
    if restarts {
        crash(array);
        array = open_without(&shelf, disks - away..disks).await;
        holds(&array, "after a start without them").await;
        crash(array);
        shelf.0.iter().for_each(|disk| disk.heal());
        array = shelf.open().await;
    } else {
        shelf.0.iter().for_each(|disk| disk.heal());
    }
    all_online(&array).await;
    sound(&array).await;
    array.close().await.expect("it can be closed");
    // Redundancy is real: others go, and what came back has everything.
    let array = open_without(&shelf, 0..away).await;
    holds(&array, "without the others").await;
    array.close().await.expect("it can be closed");
}

#[test]
fn new_space_is_given_without_disks_that_come_back() {
    for (level, disks, away) in CASES {
        run(grows_without(level, disks, away, false));
    }
}

#[test]
fn new_space_is_given_without_disks_that_come_back_at_another_start() {
    for (level, disks, away) in CASES {
        run(grows_without(level, disks, away, true));
    }
}

#[test]
fn what_was_written_without_a_failed_disk_goes_to_the_one_in_its_place() {
    run(async {
        let shelf = Shelf::new(3, 48);
        let two = Shelf(shelf.0[..2].to_vec());
        let array = two.create(Level::Raid1).await;
        array.create_volume(spec("v", 24)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(MIB, 1)).await;
        array.fail_disk("disk-1", false).await.unwrap();
        write(&volume, 0, &bytes(16 * MIB, 2)).await;
        array.checkpoint().await.unwrap();
        array.add_disk(shelf.members().remove(2)).await.unwrap();
        until(&array, "the failed disk has left", |array| array.disks().len() == 2).await;
        all_online(&array).await;
        sound(&array).await;
        drop(volume);
        array.close().await.unwrap();
        let array = open_without(&shelf, 0..2).await;
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 0, 16 * MIB).await, bytes(16 * MIB, 2));
    });
}

#[test]
fn without_more_disks_than_the_level_loses_there_is_no_new_space() {
    run(async {
        let shelf = Shelf::new(4, 48);
        let array = shelf.create(Level::Raid10).await;
        (1..4).for_each(|disk| shelf.pull(disk));
        let is_out = |a: &Array| a.disks().iter().filter(|d| d.state == DiskState::Online).count();
        array.checkpoint().await.unwrap();
        until(&array, "three are out", |array| is_out(array) == 1).await;
        let free = |array: &Array, level: Level| {
            let levels = array.info().free_by_level;
            levels.iter().find(|space| space.raid == level).map_or(0, |space| space.free_bytes)
        };
        assert_eq!(free(&array, Level::Raid6), 0);
        assert_eq!(free(&array, Level::Raid5), 0);
    });
}
