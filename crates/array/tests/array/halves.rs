//! What a checkpoint left half done, and what may happen before a record says that it was given.

use std::sync::Arc;
use std::time::Duration;

use array::api::VolumeState;
use array::{Array, CreateOptions, Level, OpenOptions};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};

use crate::beyond::{has, is_served_degraded, one_gone_and_one_that_refuses};
use crate::common::{Hasty, Shelf, bytes, run, spec, until, write};
use crate::process::crash;

const MIB: usize = 1 << 20;
/// Where the area of chunks is.
const CHUNKS: std::ops::Range<u64> = 7 << 20..u64::MAX;
/// Half of the redo area.
const WAVE_BYTES_MAX: u32 = 768 << 10;

fn refusal() -> Fault {
    Fault::Fail(BlockError::Medium { at: 0 })
}

/// What the disks have now, as after the end of the process; the first is gone.
async fn copied(shelf: &Shelf) -> Shelf {
    let new = Shelf::new(shelf.0.len(), 32);
    new.pull(0);
    for (from, to) in shelf.0.iter().zip(&new.0).skip(1) {
        for mib in 0..32 {
            let got = from.read(mib << 20, MIB).await.expect("it can be read");
            to.write(mib << 20, got, WriteFlags::DURABLE).await.expect("it can be written");
        }
    }
    new
}

async fn is_whole(array: &Array) {
    until(array, "served", is_served_degraded).await;
    let volume = array.device("v").expect("it is served");
    for block in 0..256 {
        assert!(has(&volume, block << 12).await, "block {block}");
    }
}

#[test]
fn a_start_that_ends_before_its_first_record_takes_nothing_away() {
    run(async {
        for refuses in [1, 2] {
            let shelf = Shelf::new(3, 32);
            drop(one_gone_and_one_that_refuses(&shelf, refuses).await);
            shelf.0[refuses].heal();
            let image = copied(&shelf).await;
            (0..image.0.len()).for_each(|disk| image.at_records(disk, Fault::Hang));
            let (members, options) = (image.members(), OpenOptions::default());
            ring::spawn(async move {
                drop(Array::open(Arc::new(Hasty), members, options).await);
            });
            while image.0.iter().all(|disk| disk.held() == 0) {
                ring::sleep(Duration::from_millis(5)).await;
            }
            let again = copied(&image).await;
            let array = Array::open(Arc::new(Hasty), again.members(), OpenOptions::default())
                .await
                .unwrap();
            is_whole(&array).await;
        }
    });
}

#[test]
fn a_disk_that_goes_out_again_in_the_middle_of_its_parts_gets_them_all_the_same() {
    run(async {
        for (refuses, count) in [(1, 1), (2, 1), (2, 2)] {
            let shelf = Shelf::new(3, 32);
            let array = one_gone_and_one_that_refuses(&shelf, refuses).await;
            let disk = &shelf.0[refuses];
            disk.heal();
            let well = Rule::always(Operation::Write, Fault::Delay(Duration::ZERO));
            disk.inject(well.at(CHUNKS).times(count));
            disk.inject(Rule::always(Operation::Write, refusal()).at(CHUNKS));
            let text = format!("disk disk-{refuses} is out");
            let is_out = |array: &Array| {
                let events = array.events(0).0;
                events.iter().filter(|event| event.text.contains(&text)).count() == 2
            };
            until(&array, "out again", is_out).await;
            disk.heal();
            crash(array);
            let options = OpenOptions::default();
            let array = Array::open(Arc::new(Hasty), shelf.members(), options).await.unwrap();
            is_whole(&array).await;
        }
    });
}

/// The waves in the redo area of a disk: bytes, and how many updates are half done.
async fn waves(disk: &Arc<block::testing::FaultyDisk>) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    for block in 0..4096_u64 {
        let got = disk.read(block << 12, 4096).await.expect("it can be read");
        let mut bytes = [0; 56];
        got.copy_to(0, &mut bytes);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        if bytes.starts_with(b"DRYSREDO") {
            found.push((word(12), word(52)));
        }
    }
    found
}

/// As many small changes as the redo area holds, and all of them are left half done: to say so takes more
/// room than they took.
#[test]
fn what_is_half_done_never_outgrows_the_redo_area() {
    run(async {
        let shelf = Shelf::new(10, 64);
        let (level, chunk_bytes) = (Level::Raid5, Some(4 << 20));
        let options = CreateOptions { level, chunk_bytes, ..Default::default() };
        let array = Array::create(Arc::new(Hasty), shelf.members(), options).await.unwrap();
        array.create_volume(spec("v", 64)).await.unwrap();
        let volume = array.device("v").unwrap();
        for mib in 0..32 {
            write(&volume, mib << 20, &bytes(MIB, 2)).await;
        }
        array.checkpoint().await.unwrap();
        let (gone, refuses) = (9, 1);
        shelf.pull(gone);
        write(&volume, 0, &bytes(4096, 3)).await;
        array.checkpoint().await.unwrap();
        array.checkpoint().await.unwrap();
        for stripe in 0..48_u64 {
            let second = if stripe == 20 { (1 << 16, 0) } else { (0, 2 << 12) };
            let at = (stripe * 8 + 1) << 16;
            write(&volume, at, &bytes(4096, 4)).await;
            write(&volume, at + second.0 + second.1, &bytes(4096, 4)).await;
        }
        for disk in &shelf.0 {
            let slow = Fault::Delay(Duration::from_millis(500));
            disk.inject(Rule::always(Operation::Write, slow).at(10 << 20..u64::MAX));
        }
        let asking = array.clone();
        ring::spawn(async move { drop(asking.checkpoint().await) });
        ring::sleep(Duration::from_millis(250)).await;
        shelf.0[refuses].heal();
        shelf.0[refuses].inject(Rule::always(Operation::Write, refusal()));
        write(&volume, 40 << 20, &bytes(4096, 9)).await;
        until(&array, "set aside", |array| {
            array.volume("v").is_ok_and(|volume| volume.state == VolumeState::Lost)
        })
        .await;
        (0..10)
            .filter(|disk| ![gone, refuses].contains(disk))
            .for_each(|disk| shelf.0[disk].heal());
        array.checkpoint().await.unwrap();
        array.checkpoint().await.unwrap();
        let waves = waves(&shelf.0[0]).await;
        assert!(waves.iter().any(|(_, halves)| *halves > 40), "{waves:?}");
        assert!(waves.iter().all(|(bytes, _)| *bytes <= WAVE_BYTES_MAX), "{waves:?}");
    });
}

/// Many stripes change while one disk is gone and another one goes out: after a crash that one lacks only
/// what it was to get, and that it is given.
#[test]
fn a_disk_that_was_out_when_a_crash_came_lacks_only_what_it_was_to_get() {
    run(async {
        for refuses in [3, 4] {
            let shelf = Shelf::new(6, 32);
            let array = shelf.create_in(Arc::new(Hasty), Level::Raid5).await;
            let names = ["a", "b", "v"];
            let mut volumes = Vec::new();
            for name in names {
                array.create_volume(spec(name, 8)).await.unwrap();
                volumes.push(array.device(name).unwrap());
            }
            for cluster in 0..8 {
                for volume in &volumes {
                    write(volume, cluster << 16, &bytes(1 << 16, 2)).await;
                }
                array.checkpoint().await.unwrap();
            }
            shelf.pull(0);
            write(&volumes[1], 1 << 20, &bytes(4096, 3)).await;
            array.checkpoint().await.unwrap();
            for cluster in 0..8 {
                write(&volumes[2], cluster << 16, &bytes(8192, 4)).await;
            }
            shelf.0[refuses].inject(Rule::always(Operation::Write, refusal()).at(CHUNKS));
            (0..shelf.0.len()).for_each(|disk| shelf.at_records(disk, Fault::Hang));
            let asking = array.clone();
            ring::spawn(async move { drop(asking.checkpoint().await) });
            let is_held = |_: &Array| shelf.0.iter().any(|disk| disk.held() > 0);
            until(&array, "the record is written", is_held).await;
            let image = copied(&shelf).await;
            let options = OpenOptions::default();
            let array = Array::open(Arc::new(Hasty), image.members(), options).await.unwrap();
            until(&array, "served", is_served_degraded).await;
            let volume = array.device("v").unwrap();
            for cluster in 0..8 {
                let mut wanted = bytes(1 << 16, 2);
                wanted[..8192].copy_from_slice(&bytes(8192, 4));
                let found = crate::common::read(&volume, cluster << 16, 1 << 16).await;
                assert!(found == wanted, "cluster {cluster}");
            }
        }
    });
}
