//! More disks at once than a level survives, for a moment: nothing is lost, nothing stays lost.

use std::sync::Arc;

use array::api::{DiskState, VolumeSpec, VolumeState};
use array::{Array, ArrayError, Level, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};

use crate::common::{Hasty, Shelf, all_online, bytes, data, read, run, sound, spec, until, write};
use crate::process::crash;

const MIB: usize = 1 << 20;

fn is_served(array: &Array, name: &str) -> bool {
    array.volume(name).is_ok_and(|volume| volume.state == VolumeState::Online)
        && array.disks().iter().all(|disk| disk.state == DiskState::Online)
}

/// The disks of the set that the second MiB of a volume comes to.
async fn holders(shelf: &Shelf, array: &Array, device: &Arc<dyn BlockDevice>) -> Vec<usize> {
    write(device, 0, &bytes(MIB, 7)).await;
    array.checkpoint().await.expect("a checkpoint");
    let before: Vec<u64> = array.disks().iter().map(|disk| disk.used_bytes).collect();
    write(device, MIB as u64, &bytes(MIB, 7)).await;
    array.checkpoint().await.expect("a checkpoint");
    let after = array.disks();
    let grew = |at: &usize| after[*at].used_bytes > before[*at];
    (0..shelf.0.len()).filter(grew).collect()
}

#[test]
fn both_halves_of_a_mirror_refuse_a_write_and_the_volume_comes_back() {
    run(async {
        let shelf = Shelf::new(5, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        let pair = holders(&shelf, &array, &volume).await;
        assert_eq!(pair.len(), 2, "a mirror");
        let at = MIB as u64 + 4096;
        write(&volume, at, &bytes(4096, 9)).await;
        pair.iter().for_each(|disk| shelf.refuse_writes(*disk));
        // The block cannot be brought to its place: the volume is set aside.
        drop(array.checkpoint().await);
        for disk in &pair {
            shelf.0[*disk].heal();
        }
        until(&array, "served", |array| is_served(array, "v")).await;
        assert_eq!(read(&volume, at, 4096).await, bytes(4096, 9));
        assert_eq!(read(&volume, at + 4096, 4096).await, bytes(MIB, 7)[8192..12288]);
        array.checkpoint().await.unwrap();
        sound(&array).await;
        crash((volume, array));
        let array = shelf.open().await;
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, at, 4096).await, bytes(4096, 9));
    });
}

#[test]
fn what_a_lost_volume_that_is_purged_had_written_keeps_no_disk_from_leaving() {
    run(async {
        let (shelf, new) = (Shelf::new(3, 32), Shelf::new(1, 32));
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("weak", 8)).await.unwrap();
        let volume = array.device("weak").unwrap();
        write(&volume, 0, &bytes(MIB, 1)).await;
        array.checkpoint().await.unwrap();
        // A block for the old place, and clusters that are in new places already.
        write(&volume, 4096, &bytes(4096, 2)).await;
        write(&volume, MIB as u64, &bytes(MIB, 3)).await;
        [1, 2].into_iter().for_each(|disk| shelf.pull(disk));
        drop(array.checkpoint().await);
        let state = array.volume("weak").unwrap().state;
        assert_ne!(state, VolumeState::Online, "it is set aside");
        drop(volume);
        array.set_volume_online("weak", false).await.unwrap();
        array.delete_volume("weak").await.unwrap();
        array.purge_volume("weak").await.unwrap();
        shelf.0.iter().for_each(|disk| disk.heal());
        all_online(&array).await;
        let spare = new.members().remove(0);
        array.replace_disk("disk-0", array::Member { name: "new".into(), ..spare }).await.unwrap();
        let has_left = |array: &Array| array.disks().iter().all(|disk| disk.name != "disk-0");
        until(&array, "the old disk has left", has_left).await;
        sound(&array).await;
    });
}

/// Whoever tries again and again, as for a set of snapshots that is void, keeps nobody else waiting.
#[test]
fn a_snapshot_that_no_checkpoint_makes_is_refused_without_one() {
    run(async {
        const TRIES: u64 = 20;
        let shelf = Shelf::new(3, 32);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(MIB, 1)).await;
        array.checkpoint().await.unwrap();
        // That is in the journal, and has no place.
        write(&volume, 4096, &bytes(4096, 2)).await;
        array.snapshot(&[("v", Some("s"))]).await.unwrap();
        [1, 2].into_iter().for_each(|disk| shelf.pull(disk));
        drop(array.checkpoint().await);
        assert_eq!(array.volume("v").unwrap().state, VolumeState::Lost);
        let before = array.info().checkpoint;
        for _ in 0..TRIES {
            let refused = array.delete_snapshot("v", "s").await;
            assert!(matches!(refused, Err(ArrayError::Lost)), "{refused:?}");
        }
        let made = array.info().checkpoint - before;
        assert!(made < TRIES / 2, "{made} checkpoints for nothing");
        drop(volume);
        drop(array);
        shelf.0.iter().for_each(|disk| disk.heal());
        let array = shelf.open().await;
        all_online(&array).await;
        array.delete_snapshot("v", "s").await.unwrap();
        sound(&array).await;
    });
}

#[test]
fn a_volume_that_was_set_aside_is_not_rolled_back_or_compared() {
    run(async {
        let shelf = Shelf::new(3, 32);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(MIB, 1)).await;
        array.snapshot(&[("v", Some("s"))]).await.unwrap();
        array.checkpoint().await.unwrap();
        write(&volume, 4096, &bytes(4096, 2)).await;
        [1, 2].into_iter().for_each(|disk| shelf.pull(disk));
        drop(array.checkpoint().await);
        drop(volume);
        array.set_volume_online("v", false).await.unwrap();
        // The journal still has what was written after the snapshot.
        let differs = array.diff("v", Some("s"), None).await;
        assert!(matches!(differs, Err(ArrayError::Lost)), "{differs:?}");
        assert!(array.diff("v", None, Some("s")).await.is_ok(), "the snapshot itself is known");
        let refused = array.rollback("v", "s").await;
        assert!(matches!(refused, Err(ArrayError::Lost)), "{refused:?}");
        let refused = array.resize_volume("v", 4 << 20).await;
        assert!(matches!(refused, Err(ArrayError::Lost)), "{refused:?}");
        crash(array);
        shelf.0.iter().for_each(|disk| disk.heal());
        let array = shelf.open().await;
        all_online(&array).await;
        let differs = array.diff("v", Some("s"), None).await.unwrap();
        assert_eq!(differs.iter().map(|extent| extent.at).collect::<Vec<_>>(), [0]);
        array.rollback("v", "s").await.unwrap();
        array.set_volume_online("v", true).await.unwrap();
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 0, MIB).await, bytes(MIB, 1));
        sound(&array).await;
    });
}

#[test]
fn a_snapshot_that_waits_is_kept_when_its_volume_is_set_aside() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid1).await;
        let weak = VolumeSpec { level: Some(Level::Raid0), ..spec("weak", 8) };
        array.create_volume(weak).await.unwrap();
        array.create_volume(spec("other", 8)).await.unwrap();
        let (volume, other) = (array.device("weak").unwrap(), array.device("other").unwrap());
        write(&volume, 0, &bytes(MIB, 1)).await;
        write(&other, 0, &bytes(MIB, 1)).await;
        array.checkpoint().await.unwrap();
        // In the journal: a block, snapshots of two moments, and blocks after each.
        write(&volume, 4096, &bytes(4096, 2)).await;
        array.snapshot(&[("weak", Some("one"))]).await.unwrap();
        write(&volume, 4096, &bytes(4096, 3)).await;
        array.snapshot(&[("other", Some("between"))]).await.unwrap();
        array.snapshot(&[("weak", Some("two"))]).await.unwrap();
        write(&volume, 4096, &bytes(4096, 4)).await;
        let lost = [1, 2, 3];
        for disk in lost {
            let fault = Fault::Fail(block::BlockError::Medium { at: 0 });
            shelf.0[disk]
                .inject(Rule::always(Operation::Write, fault).at(7 * MIB as u64..u64::MAX));
        }
        drop(array.checkpoint().await);
        // As after a crash.
        crash((volume, other, array));
        shelf.0.iter().for_each(|disk| disk.heal());
        let array = shelf.open().await;
        until(&array, "served", |array| is_served(array, "weak")).await;
        let volume = array.device("weak").unwrap();
        assert_eq!(read(&volume, 4096, 4096).await, bytes(4096, 4));
        for (snapshot, seed) in [("one", 2), ("two", 3)] {
            let clone = format!("of-{snapshot}");
            array.clone_snapshot("weak", snapshot, &clone, true).await.unwrap();
            let device = array.device(&clone).unwrap();
            assert_eq!(read(&device, 4096, 4096).await, bytes(4096, seed), "{snapshot}");
        }
        sound(&array).await;
    });
}

#[test]
fn an_array_whose_journal_disk_is_gone_opens_when_that_is_accepted() {
    run(async {
        let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(1, 16));
        let array = shelf.create_with_journal(&fast).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(MIB, 1)).await;
        drop(volume);
        array.close().await.unwrap();
        let open = |accept_missing| {
            let options = OpenOptions { accept_missing, ..Default::default() };
            Array::open(Arc::new(RingEnv), shelf.members(), options)
        };
        let refusal: ArrayError = open(false).await.unwrap_err();
        assert!(refusal.to_string().contains("accept"), "{refusal}");
        let array = open(true).await.unwrap();
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 0, MIB).await, bytes(MIB, 1));
        let durable = volume.write(0, data(&bytes(4096, 2)), WriteFlags::DURABLE).await;
        durable.expect("the journal is elsewhere now");
        crash((volume, array));
        // It is not needed any more; when it comes back it is given what it missed.
        let array = open(false).await.unwrap();
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 0, 4096).await, bytes(4096, 2));
        crash((volume, array));
        let members = [shelf.members(), fast.members()].concat();
        let array = Array::open(Arc::new(RingEnv), members, OpenOptions::default())
            .await
            .expect("it works");
        all_online(&array).await;
        let volume = array.device("v").expect("it works");
        assert_eq!(read(&volume, 0, 4096).await, bytes(4096, 2));
        sound(&array).await;
    });
}

/// What is in a volume of three disks, of which the first is gone: clusters of which the journal has
/// the first block, because another disk refuses writes for so long that a checkpoint gives up on it.
pub(crate) async fn one_gone_and_one_that_refuses(shelf: &Shelf, refuses: usize) -> Array {
    let array = shelf.create_in(Arc::new(Hasty), Level::Raid5).await;
    array.create_volume(spec("v", 8)).await.expect("it works");
    let volume = array.device("v").expect("it works");
    write(&volume, 0, &bytes(MIB, 2)).await;
    array.checkpoint().await.expect("it works");
    shelf.pull(0);
    write(&volume, 0, &bytes(4096, 3)).await;
    array.checkpoint().await.expect("it works");
    for cluster in 0..16 {
        write(&volume, cluster << 16, &bytes(4096, 4)).await;
    }
    let bad = Fault::Fail(BlockError::Medium { at: 0 });
    let rule = Rule::always(Operation::Write, bad).at(7 * MIB as u64..u64::MAX);
    shelf.0[refuses].inject(rule);
    array.checkpoint().await.expect("it works");
    assert_eq!(array.volume("v").expect("it works").state, VolumeState::Lost);
    array
}

/// Whether a block of the volume is as it must be; none is ever wrong.
pub(crate) async fn has(volume: &Arc<dyn BlockDevice>, at: u64) -> bool {
    let is_new = at.is_multiple_of(1 << 16);
    let wanted = if is_new { bytes(4096, 4) } else { bytes(MIB, 2)[at as usize..][..4096].into() };
    match volume.read(at, 4096).await {
        Ok(_) => {
            assert!(read(volume, at, 4096).await == wanted, "byte {at}");
            true
        }
        Err(error) => {
            assert!(matches!(error, BlockError::Medium { .. }) && !is_new, "byte {at}: {error}");
            false
        }
    }
}

pub(crate) fn is_served_degraded(array: &Array) -> bool {
    array.volume("v").is_ok_and(|volume| volume.state != VolumeState::Lost)
}

#[test]
fn beside_a_disk_that_is_gone_one_that_was_out_for_long_gets_its_part_of_a_checkpoint() {
    run(async {
        for refuses in [1, 2] {
            let shelf = Shelf::new(4, 32);
            let three = Shelf(shelf.0[..3].to_vec());
            let array = one_gone_and_one_that_refuses(&three, refuses).await;
            shelf.0[refuses].heal();
            until(&array, "served", is_served_degraded).await;
            is_whole_beside(&shelf, &array, refuses, shelf.members().remove(3)).await;
        }
    });
}

/// All of the volume is there, and is so without the disk that missed a checkpoint when another one is whole.
async fn is_whole_beside(shelf: &Shelf, array: &Array, refuses: usize, spare: array::Member) {
    let volume = array.device("v").expect("it works");
    for block in 0..256 {
        assert!(has(&volume, block << 12).await, "block {block}");
    }
    array.checkpoint().await.expect("it works");
    array.add_disk(spare).await.expect("it works");
    until(array, "whole", |array| {
        let mut disks = array.disks().into_iter();
        disks.all(|disk| disk.state == DiskState::Online) && array.jobs().is_empty()
    })
    .await;
    sound(array).await;
    shelf.pull(refuses);
    for block in 0..256 {
        assert!(has(&volume, block << 12).await, "block {block}");
    }
}

/// The process ends while a disk that was out lacks its part of a checkpoint that has ended.
#[test]
fn a_disk_that_was_out_for_long_gets_its_part_of_a_checkpoint_after_a_crash_too() {
    run(async {
        for (refuses, starts) in [(1, 1), (2, 1), (1, 3), (2, 3)] {
            let shelf = Shelf::new(4, 32);
            let three = Shelf(shelf.0[..3].to_vec());
            let mut array = one_gone_and_one_that_refuses(&three, refuses).await;
            for start in 0..starts {
                crash(array);
                if start + 1 == starts {
                    shelf.0[refuses].heal();
                }
                let (members, options) = (three.members(), OpenOptions::default());
                array = Array::open(Arc::new(Hasty), members, options).await.unwrap();
            }
            until(&array, "served", is_served_degraded).await;
            is_whole_beside(&shelf, &array, refuses, shelf.members().remove(3)).await;
        }
    });
}

/// A disk that was out is back, and before it has got what it missed another one goes for good.
#[test]
fn a_disk_that_is_gone_is_given_up_beside_one_that_lacks_something_when_that_is_accepted() {
    run(async {
        for hiccup in [1, 2] {
            let shelf = Shelf::new(4, 32);
            let three = Shelf(shelf.0[..3].to_vec());
            let array = three.create_in(Arc::new(Hasty), Level::Raid5).await;
            array.create_volume(spec("v", 8)).await.unwrap();
            let volume = array.device("v").unwrap();
            write(&volume, 0, &bytes(MIB, 2)).await;
            array.checkpoint().await.unwrap();
            shelf.pull(hiccup);
            write(&volume, 0, &bytes(MIB / 2, 3)).await;
            array.checkpoint().await.unwrap();
            shelf.pull(0);
            shelf.0[hiccup].heal();
            let is_back = |array: &Array| array.disks()[hiccup].state == DiskState::Resyncing;
            until(&array, "back", is_back).await;
            let refusal = array.fail_disk("disk-0", false).await.unwrap_err().to_string();
            assert!(refusal.contains("accept that what only it has is lost"), "{refusal}");
            array.fail_disk("disk-0", true).await.unwrap();
            until(&array, "served", is_served_degraded).await;
            // What only the failed disk had gives an error, and nothing else does.
            let mut lost = 0;
            for block in 0..256 {
                let at = block * 4096;
                let wanted = &bytes(MIB, if at < MIB / 2 { 3 } else { 2 })[at..at + 4096];
                match volume.read(at as u64, 4096).await {
                    Ok(_) => assert!(read(&volume, at as u64, 4096).await == wanted, "{block}"),
                    Err(error) => {
                        assert!(matches!(error, BlockError::Medium { .. }), "{block}: {error}");
                        assert!(at < MIB / 2, "block {block} was there all the time");
                        lost += 1;
                    }
                }
            }
            assert!((1..=128).contains(&lost), "{lost}");
            let added = shelf.members().remove(3);
            array.add_disk(added).await.unwrap();
            until(&array, "whole", |array| {
                let mut disks = array.disks().into_iter();
                disks.all(|disk| disk.state == DiskState::Online) && array.jobs().is_empty()
            })
            .await;
            write(&volume, 0, &bytes(MIB, 5)).await;
            array.checkpoint().await.unwrap();
            shelf.pull(hiccup);
            assert!(read(&volume, 0, MIB).await == bytes(MIB, 5));
        }
    });
}

/// A disk takes what it is given and gives nothing, its label neither, and nobody knows yet that it is gone: its
/// parity is all that gives a block which another one cannot read. The parity was made anew without that
/// block, which was lost for good although the disk came back.
#[test]
fn no_parity_is_made_anew_beside_a_silent_disk_that_may_have_the_rest() {
    run(async {
        for cluster in 0..4 {
            beside_a_silent_disk(cluster).await;
        }
    });
}

/// A block of this cluster cannot be read, the parity of its stripe is on a silent disk, and the cluster beside it
/// changes there.
async fn beside_a_silent_disk(cluster: u64) {
    let shelf = Shelf::new(3, 32);
    let array = shelf.create_in(Arc::new(Hasty), Level::Raid5).await;
    array.create_volume(spec("v", 8)).await.expect("it works");
    let volume = array.device("v").expect("it works");
    // No two blocks are alike, and no two pairs have the same parity.
    let word = |at: u64| {
        (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29 ^ at).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let mut wanted: Vec<u8> =
        (1..=MIB as u64).map(|at| (word(at.wrapping_mul(0x2545_f491)) >> 56) as u8).collect();
    write(&volume, 0, &wanted).await;
    array.checkpoint().await.expect("it works");
    let at = (cluster << 16) as usize;
    let home = place_of(&shelf, &wanted[at..][..4096]).await.expect("it is on a disk");
    let (beside, silent) = beside(&shelf, &wanted, at).await;
    let fault = || Fault::Fail(BlockError::Medium { at: 0 });
    let bad = home.1..home.1 + 4096;
    shelf.0[home.0].inject(Rule::always(Operation::Read, fault()).at(bad));
    shelf.0[silent].inject(Rule::always(Operation::Read, fault()));
    let new = bytes(4096, 88);
    write(&volume, beside as u64, &new).await;
    wanted[beside..][..4096].copy_from_slice(&new);
    array.checkpoint().await.expect("it works");
    shelf.0[silent].heal();
    until(&array, "served", |array| is_served(array, "v")).await;
    assert!(read(&volume, 0, MIB).await == wanted, "cluster {cluster}");
    shelf.0[home.0].heal();
    all_online(&array).await;
    array.scrub().await.expect("it works");
    sound(&array).await;
}

/// A snapshot has a cluster, of which the volume gets one of its own for a small write, while two disks give nothing for
/// a moment. What could not be read just then was lost for the volume, for good.
#[test]
fn what_a_merge_needs_of_silent_disks_is_not_given_up() {
    run(async {
        let shelf = Shelf::new(3, 32);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.expect("it works");
        let volume = array.device("v").expect("it works");
        let mut wanted = bytes(MIB, 2);
        write(&volume, 0, &wanted).await;
        array.checkpoint().await.expect("it works");
        array.snapshot(&[("v", Some("s"))]).await.expect("it works");
        let fault = || Fault::Fail(BlockError::Medium { at: 0 });
        for silent in &shelf.0[1..] {
            silent.inject(Rule::always(Operation::Read, fault()));
        }
        for cluster in 0..16 {
            let (at, new) = ((cluster << 16) + 8192, bytes(4096, 88));
            write(&volume, at as u64, &new).await;
            wanted[at..][..4096].copy_from_slice(&new);
        }
        array.checkpoint().await.expect("it works");
        shelf.0.iter().for_each(|disk| disk.heal());
        until(&array, "served", |array| is_served(array, "v")).await;
        assert!(read(&volume, 0, MIB).await == wanted);
        all_online(&array).await;
        array.scrub().await.expect("it works");
        sound(&array).await;
    });
}

/// Another cluster of the stripe that the block at `at` lies in, and the disk that has the parity of both.
async fn beside(shelf: &Shelf, all: &[u8], at: usize) -> (usize, usize) {
    for other in (0..16).map(|cluster| cluster << 16).filter(|other| *other != at) {
        let pairs = all[at..][..4096].iter().zip(&all[other..]);
        let parity: Vec<u8> = pairs.map(|(one, two)| one ^ two).collect();
        if let Some((disk, _)) = place_of(shelf, &parity).await {
            return (other, disk);
        }
    }
    panic!("no disk has a parity of the block");
}

/// The disk that has a block, and where.
async fn place_of(shelf: &Shelf, block: &[u8]) -> Option<(usize, u64)> {
    for (number, disk) in shelf.0.iter().enumerate() {
        for mib in 7..31 {
            let got = disk.read(mib << 20, MIB).await.expect("it can be read");
            let mut all = vec![0; MIB];
            got.copy_to(0, &mut all);
            if let Some(at) = all.chunks(4096).position(|one| one == block) {
                return Some((number, (mib << 20) + at as u64 * 4096));
            }
        }
    }
    None
}
