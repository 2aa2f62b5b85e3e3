//! Space that goes where it is needed: to other levels, and to disks that are added.

use std::sync::Arc;
use std::time::Duration;

use array::api::VolumeSpec;
use array::{Array, ArrayError, Level, Member, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, WriteFlags};

use crate::common::{Shelf, bytes, data, in_turns, read, run, sound, spec, until};

const CLUSTER: u64 = 64 << 10;
/// Where each data disk keeps its chunks.
const CHUNKS_AT: u64 = 8 << 20;

fn cluster(number: u64) -> Vec<u8> {
    bytes(CLUSTER as usize, number as u8)
}

/// Writes so many clusters, or all that there is space for; how many were written.
async fn put(array: &Array, volume: &str, clusters: u64) -> u64 {
    let device = array.device(volume).expect("it is there");
    for number in 0..clusters {
        let whole = data(&cluster(number));
        if device.write(number * CLUSTER, whole, WriteFlags::DURABLE).await.is_err() {
            return number;
        }
    }
    clusters
}

/// What a thick volume of this level may have at most.
async fn room(array: &Array, level: Level) -> u64 {
    let huge = VolumeSpec { thick: true, level: Some(level), ..spec("huge", 1 << 20) };
    match array.create_volume(huge).await {
        Err(ArrayError::NoSpace { free_bytes, .. }) => free_bytes,
        other => panic!("a terabyte fits: {other:?}"),
    }
}

#[test]
fn space_of_a_deleted_volume_is_for_every_level() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid10).await;
        let before = room(&array, Level::Raid5).await;
        array.create_volume(spec("v", 256)).await.unwrap();
        assert!(put(&array, "v", 4096).await > 100);
        let full = room(&array, Level::Raid5).await;
        assert!(full < before / 4, "{full} of {before} are left");
        array.set_volume_online("v", false).await.unwrap();
        array.delete_volume("v").await.unwrap();
        array.purge_volume("v").await.unwrap();
        let mut after = 0;
        for _ in 0..50 {
            array.checkpoint().await.unwrap();
            after = room(&array, Level::Raid5).await;
            if after > before * 9 / 10 {
                break;
            }
        }
        assert!(after > before * 9 / 10, "{after} of {before} came back");
        array
            .create_volume(VolumeSpec { level: Some(Level::Raid5), ..spec("w", 256) })
            .await
            .unwrap();
        let written = put(&array, "w", 200).await;
        assert_eq!(written, 200);
        sound(&array).await;
        array.close().await.unwrap();
        let array = shelf.open().await;
        let device = array.device("w").unwrap();
        assert_eq!(read(&device, 199 * CLUSTER, CLUSTER as usize).await, cluster(199));
        sound(&array).await;
        array.close().await.unwrap();
    });
}

/// The disks as they are at this moment, as a loss of power leaves them.
async fn copy_of(shelf: &Shelf, mib: u64) -> Shelf {
    let copy = Shelf::new(shelf.0.len(), mib);
    for (from, to) in shelf.0.iter().zip(&copy.0) {
        for at in (0..mib << 20).step_by(1 << 20) {
            let piece = from.read(at, 1 << 20).await.expect("it is read");
            to.write(at, piece, WriteFlags::VOLATILE).await.expect("it is written");
        }
    }
    copy
}

#[test]
fn chunks_of_a_dissolved_set_are_free_only_when_its_record_is_gone() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 256)).await.unwrap();
        array
            .create_volume(VolumeSpec { level: Some(Level::Raid5), ..spec("w", 256) })
            .await
            .unwrap();
        let device = array.device("w").unwrap();
        assert!(put(&array, "v", 4096).await > 100);
        array.set_volume_online("v", false).await.unwrap();
        array.delete_volume("v").await.unwrap();
        array.purge_volume("v").await.unwrap();
        let (mut number, mut answered) = (0, 0);
        for _ in 0..8 {
            // The record of this checkpoint does not get to any disk before the power goes.
            (0..shelf.0.len()).for_each(|disk| shelf.at_records(disk, Fault::Hang));
            let asking = array.clone();
            let (done, ended) = ring::oneshot();
            ring::spawn(async move { done.send(asking.checkpoint().await) });
            until(&array, "the record", |_| shelf.0.iter().any(|disk| disk.held() > 0)).await;
            // Meanwhile new sets are made, as far as there are chunks.
            while number < 600 {
                let whole =
                    data(&[cluster(number), cluster(number + 1), cluster(number + 2)].concat());
                let write = device.write(number * CLUSTER, whole, WriteFlags::DURABLE);
                if !matches!(in_turns(50, write).await, Some(Ok(()))) {
                    break;
                }
                number += 3;
                answered = number;
            }
            let left = copy_of(&shelf, 32).await;
            let opened = left.open().await;
            sound(&opened).await;
            let found = opened.device("w").unwrap();
            for number in 0..answered {
                let bytes = read(&found, number * CLUSTER, CLUSTER as usize).await;
                assert_eq!(bytes, cluster(number), "cluster {number} of {answered}");
            }
            opened.close().await.unwrap();
            for disk in &shelf.0 {
                disk.heal();
                disk.release();
            }
            ended.await.unwrap().unwrap();
        }
        assert!(answered >= 300, "{answered}: the space of the old volume was used");
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn sets_that_are_in_use_stay_when_they_are_emptied_and_filled_in_turn() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 64)).await.unwrap();
        for _ in 0..5 {
            assert_eq!(put(&array, "v", 300).await, 300);
            array.device("v").unwrap().unmap(0, 300 * CLUSTER).await.unwrap();
            array.checkpoint().await.unwrap();
            array.checkpoint().await.unwrap();
        }
        sound(&array).await;
        array.close().await.unwrap();
        sound(&shelf.open().await).await;
    });
}

fn shares(array: &Array) -> Vec<u64> {
    let share = |disk: &array::api::DiskInfo| disk.used_bytes * 100 / disk.size_bytes;
    array.disks().iter().map(share).collect()
}

fn added(shelf: &Shelf, name: &str) -> Member {
    Member { name: name.into(), ..shelf.members().remove(0) }
}

#[test]
fn an_added_disk_takes_its_share_of_the_data() {
    for (level, disks) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4)] {
        run(async move {
            let (shelf, new) = (Shelf::new(disks, 32), Shelf::new(1, 32));
            let array = shelf.create(level).await;
            array.create_volume(spec("v", 256)).await.unwrap();
            let written = put(&array, "v", 4096).await;
            assert_eq!(put(&array, "v", 4096).await, written, "{level}: it is full");
            array.add_disk(added(&new, "new")).await.unwrap();
            if level == Level::Raid10 {
                // It begins by itself.
                for _ in 0..6000 {
                    ring::sleep(Duration::from_millis(10)).await;
                    if array.is_settled() && shares(&array)[disks] + 10 > shares(&array)[0] {
                        break;
                    }
                }
            } else {
                assert!(array.rebalance().await.unwrap());
            }
            let shares = shares(&array);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(most - least <= 10, "{level}: {shares:?}");
            let device = array.device("v").unwrap();
            for number in 0..written {
                let found = read(&device, number * CLUSTER, CLUSTER as usize).await;
                assert_eq!(found, cluster(number), "{level}");
            }
            // There is room on all of them now.
            let more = put(&array, "v", 4096).await;
            assert!(more > written, "{level}: {more} of {written}");
            // Nothing is left to do: nothing moves back.
            assert!(array.rebalance().await.unwrap());
            let before = array.disks();
            assert!(array.rebalance().await.unwrap());
            assert_eq!(array.disks(), before, "{level}");
            sound(&array).await;
            array.close().await.unwrap();
        });
    }
}

#[test]
fn a_rebalancing_that_is_cut_off_goes_on_after_the_restart() {
    run(async {
        let (shelf, new) = (Shelf::new(4, 32), Shelf::new(1, 32));
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 256)).await.unwrap();
        let written = put(&array, "v", 500).await;
        array.add_disk(added(&new, "new")).await.unwrap();
        array.close().await.unwrap();
        let members = || shelf.members().into_iter().chain([added(&new, "new")]).collect();
        let array = Array::open(Arc::new(RingEnv), members(), OpenOptions::default());
        let array = array.await.unwrap();
        assert!(array.rebalance().await.unwrap());
        let shares = shares(&array);
        assert!(shares[4] + 10 > shares[0], "{shares:?}");
        let device = array.device("v").unwrap();
        for number in 0..written {
            assert_eq!(read(&device, number * CLUSTER, CLUSTER as usize).await, cluster(number));
        }
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn a_rebalancing_that_is_cancelled_stays_so_until_it_is_asked_for_again() {
    run(async {
        let (shelf, new) = (Shelf::new(4, 128), Shelf::new(1, 128));
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 256)).await.unwrap();
        let written = put(&array, "v", 2000).await;
        let before = array.begin_rebalance().await.unwrap();
        assert!(array.balanced(before).await.unwrap());
        array.add_disk(added(&new, "new")).await.unwrap();
        let order = array.begin_rebalance().await.unwrap();
        array.cancel_rebalance(before).await.unwrap();
        array.cancel_rebalance(order).await.unwrap();
        assert!(!array.balanced(order).await.unwrap());
        while !array.is_settled() {
            ring::sleep(Duration::from_millis(5)).await;
        }
        let left = shares(&array);
        assert!(left[4] + 10 < left[0], "it was over before: {left:?}");
        array.close().await.unwrap();
        let members = || shelf.members().into_iter().chain([added(&new, "new")]).collect();
        let array = Array::open(Arc::new(RingEnv), members(), OpenOptions::default());
        let array = array.await.unwrap();
        for _ in 0..20 {
            array.checkpoint().await.unwrap();
        }
        assert_eq!(shares(&array), left);
        let device = array.device("v").unwrap();
        for number in 0..written {
            assert_eq!(read(&device, number * CLUSTER, CLUSTER as usize).await, cluster(number));
        }
        let slow = Rule::always(Operation::Write, Fault::Delay(Duration::from_millis(20)));
        new.0[0].inject(slow.at(CHUNKS_AT..127 << 20));
        // Who waits for it hears that it did not go to its end.
        let order = array.begin_rebalance().await.unwrap();
        let (asking, (done, ended)) = (array.clone(), ring::oneshot());
        ring::spawn(async move { done.send(asking.balanced(order).await.unwrap()) });
        while !array.jobs().iter().any(|job| job.kind == array::api::JobKind::Rebalance) {
            ring::sleep(Duration::from_millis(1)).await;
        }
        // Who orders it after that is not cancelled by a word about the order before.
        let later = array.begin_rebalance().await.unwrap();
        array.cancel_rebalance(order).await.unwrap();
        assert!(array.jobs().iter().any(|job| job.kind == array::api::JobKind::Rebalance));
        array.cancel_rebalance(later).await.unwrap();
        assert_eq!(ended.await, Some(false));
        new.0[0].heal();
        assert!(array.rebalance().await.unwrap());
        let even = shares(&array);
        assert!(even[4] + 10 > even[0], "{even:?}");
        sound(&array).await;
        array.close().await.unwrap();
    });
}

#[test]
fn what_can_be_stored_is_told_by_level_and_full_is_full() {
    run(async {
        // The second disk has far more than the first can mirror.
        let (small, large) = (Shelf::new(1, 32), Shelf::new(1, 200));
        let members = vec![added(&small, "small"), added(&large, "large")];
        let options = array::CreateOptions {
            level: Level::Raid10,
            chunk_bytes: Some(1 << 20),
            ..Default::default()
        };
        let array = Array::create(Arc::new(RingEnv), members, options).await.unwrap();
        array.create_volume(spec("v", 256)).await.unwrap();
        let info = array.info();
        let mirrors = info.free_by_level.iter().find(|space| space.raid == Level::Raid10).unwrap();
        assert!(mirrors.free_bytes < 32 << 20, "{mirrors:?}");
        assert_eq!(info.promised_bytes, 256 << 20);
        assert!(info.warnings.is_empty(), "{:?}", info.warnings);
        let free = mirrors.free_bytes;
        let written = put(&array, "v", 4096).await;
        assert!(written * CLUSTER >= free * 9 / 10, "{written} of {free}");
        array.checkpoint().await.unwrap();
        let info = array.info();
        assert!(info.used_percent() >= 95 && info.used_percent() <= 100, "{info:?}");
        assert!(info.used_bytes <= info.size_bytes, "{info:?}");
        let warned = info.warnings.iter().any(|text| text.contains("raid10"));
        assert!(warned, "{:?}", info.warnings);
        array.close().await.unwrap();
    });
}
