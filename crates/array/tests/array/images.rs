//! Old images of disks of which nobody else has what they should hold: such a start is refused before anything is
//! written, unless an operator goes back to what they hold.

use std::sync::Arc;
use std::time::Duration;

use array::api::DiskState;
use array::{Array, ArrayError, Level, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};

use crate::common::{Shelf, bytes, run, spec, until, write};
use crate::copies::{MIB, copy, filled, gives_all_without, image, label, mirrored, put, write_all};
use crate::process;

/// Those that hold checkpoints were put back as they were before the last start, the others had gone on: it was
/// opened with what had been long ago, and what had been acknowledged since was gone, without a word.
#[test]
fn old_images_of_all_holders_are_refused_and_the_right_disks_are_well_after() {
    run(async {
        for level in [Level::Raid10, Level::Raid5, Level::Raid6] {
            for is_of_this_life in [false, true] {
                old_holders(level, is_of_this_life).await;
            }
        }
    });
}

async fn old_holders(level: Level, is_of_this_life: bool) {
    let shelf = Shelf::new(6, 32);
    let array = shelf.create(level).await;
    array.create_volume(spec("v", 24)).await.expect("a volume");
    write_all(&array, &bytes(24 * MIB, 1)).await;
    let array = go_on(array, &shelf, is_of_this_life).await;
    let holders = label(&shelf, 0).await.holders;
    let mut old = Vec::new();
    for disk in &holders {
        old.push(image(&shelf, usize::from(disk.0)).await);
    }
    let array = go_on(array, &shelf, is_of_this_life).await;
    let two = bytes(24 * MIB, 2);
    for _ in 0..2 {
        write_all(&array, &two).await;
        array.checkpoint().await.expect("it works");
    }
    array.close().await.expect("it works");
    let mut right = Vec::new();
    for disk in 0..6 {
        right.push(image(&shelf, disk).await);
    }
    for (disk, old) in holders.iter().zip(&old) {
        put(&shelf, usize::from(disk.0), 0, old).await;
    }
    let refused = open(&shelf).await.expect_err("nobody has the last checkpoint");
    assert!(refused.to_string().contains("are older than disk-"), "{refused}");
    let ArrayError::Incomplete(refusal) = refused else { panic!("{refused}") };
    assert!(refusal.can_be_accepted() && refusal.missing().len() == holders.len(), "{refusal}");
    for (disk, right) in right.iter().enumerate() {
        let is_old = holders.iter().any(|holder| usize::from(holder.0) == disk);
        assert!(is_old || image(&shelf, disk).await == *right, "disk {disk} was written to");
    }
    // An operator has nothing else: it opens, now and the next time, with whoever was not there.
    let kept = copy(&shelf, 32).await;
    kept.pull(5);
    accepted(&kept).await.close().await.expect("it works");
    kept.0[5].heal();
    for _ in 0..3 {
        let array = kept.open().await;
        assert_eq!(array.volumes().len(), 1);
        array.close().await.expect("it works");
    }

    for disk in &holders {
        put(&shelf, usize::from(disk.0), 0, &right[usize::from(disk.0)]).await;
    }
    let array = shelf.open().await;
    gives_all_without(&array, &shelf, 0, &two).await;
}

/// An operator accepts what that loses.
async fn accepted(shelf: &Shelf) -> Array {
    let accept = OpenOptions { accept_missing: true, ..Default::default() };
    Array::open(Arc::new(RingEnv), shelf.members(), accept).await.expect("it is accepted")
}

/// Of images of several moments the newest is gone back to, whichever disk it is of.
#[test]
fn who_goes_back_to_images_goes_to_the_newest() {
    run(async {
        for newest in 0..3 {
            let (shelf, array, _) = filled(5, 8).await;
            let old = [image(&shelf, 0).await, image(&shelf, 1).await, image(&shelf, 2).await];
            array.create_volume(spec("later", 4)).await.unwrap();
            let array = go_on(array, &shelf, false).await;
            let less_old = image(&shelf, newest).await;
            go_on(array, &shelf, false).await.close().await.unwrap();
            for (disk, old) in old.iter().enumerate() {
                put(&shelf, disk, 0, if disk == newest { &less_old } else { old }).await;
            }
            assert!(open(&shelf).await.is_err(), "all holders are old");
            let array = accepted(&shelf).await;
            let names: Vec<String> = array.volumes().into_iter().map(|one| one.name).collect();
            assert_eq!(names, ["v", "later"]);
            array.close().await.unwrap();
        }
    });
}

/// One that is being restored knows of checkpoints, too.
#[test]
fn an_old_image_beside_a_disk_that_is_being_restored_is_refused() {
    run(async {
        let (shelf, array, one) = mirrored().await;
        write_all(&array, &one).await;
        array.checkpoint().await.unwrap();
        shelf.pull(1);
        write_all(&array, &bytes(24 * MIB, 2)).await;
        array.checkpoint().await.unwrap();
        until(&array, "it is out", |a| a.disks()[1].state == DiskState::Missing).await;
        shelf.0[1].heal();
        let chunks = label(&shelf, 0).await.layout.chunks_at()..64 << 20;
        let slow = Fault::Delay(Duration::from_millis(100));
        shelf.0[1].inject(Rule::always(Operation::Write, slow).at(chunks));
        until(&array, "it is back", |a| a.disks()[1].state == DiskState::Resyncing).await;
        let old = image(&shelf, 0).await;
        for seed in 3..7 {
            write(&array.device("v").unwrap(), 0, &bytes(8192, seed)).await;
            array.checkpoint().await.unwrap();
        }
        assert_eq!(array.disks()[1].state, DiskState::Resyncing);
        process::end();
        shelf.0[1].heal();
        put(&shelf, 0, 0, &old).await;
        let refused = open(&shelf).await.expect_err("the last checkpoint is not there").to_string();
        assert!(refused.contains("disk-0) are older than disk-1"), "{refused}");
    });
}

/// With a start between, or none.
async fn go_on(array: Array, shelf: &Shelf, is_of_this_life: bool) -> Array {
    array.checkpoint().await.expect("it works");
    if is_of_this_life {
        return array;
    }
    array.close().await.expect("it works");
    shelf.open().await
}

async fn open(shelf: &Shelf) -> Result<Array, ArrayError> {
    Array::open(Arc::new(RingEnv), shelf.members(), OpenOptions::default()).await
}
