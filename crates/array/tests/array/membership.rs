//! Disks that refuse, leave and come back between one start and the next: what was acknowledged is
//! found, and what cannot be is refused.

use std::sync::Arc;

use array::api::DiskState;
use array::{Array, ArrayError, Level, Member, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};

use crate::common::{Shelf, all_online, bytes, data, read, run, spec, until, write};
use crate::process::crash;

const MIB: usize = 1 << 20;

fn member(shelf: &Shelf, index: usize, name: &str) -> Member {
    Member { name: name.into(), ..shelf.members().remove(index) }
}

async fn open(members: Vec<Member>) -> Result<Array, ArrayError> {
    Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await
}

#[test]
fn the_only_journal_disk_refuses_writes_and_the_journal_goes_to_the_others() {
    run(async {
        let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(1, 16));
        let array = shelf.create_with_journal(&fast).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        let one = bytes(4096, 1);
        for block in 0..200u64 {
            if block == 100 {
                fast.refuse_writes(0);
            }
            write(&volume, block * 4096, &one).await;
        }
        // Cut off, and the journal disk is well again, or gone.
        crash((volume, array));
        fast.0[0].heal();
        for with_it in [false, true] {
            let mut members = shelf.members();
            if with_it {
                members.push(member(&fast, 0, "fast"));
            }
            let array = open(members).await.unwrap();
            let volume = array.device("v").unwrap();
            for block in 0..200u64 {
                assert_eq!(read(&volume, block * 4096, 4096).await, one, "block {block}");
            }
            crash((volume, array));
        }
    });
}

#[test]
fn all_holders_refuse_for_a_moment_and_the_array_opens_again() {
    run(async {
        let shelf = Shelf::new(6, 32);
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        let one = bytes(8192, 1);
        write(&volume, 4096, &one).await;
        (0..6).for_each(|disk| shelf.refuse_writes(disk));
        let two = data(&bytes(8192, 2));
        assert!(volume.write(65536, two, block::WriteFlags::DURABLE).await.is_err());
        assert!(array.checkpoint().await.is_err(), "it has stopped");
        crash((volume, array));
        shelf.0.iter().for_each(|disk| disk.heal());
        let array = shelf.open().await;
        assert_eq!(read(&array.device("v").unwrap(), 4096, one.len()).await, one);
        array.close().await.unwrap();
    });
}

/// The labels of these disks.
async fn labels(shelf: &Shelf) -> Vec<array::label::Found> {
    let mut labels = Vec::new();
    for member in shelf.members() {
        labels.push(array::probe(&array::RingEnv, &*member.device).await.expect("it can be read"));
    }
    labels
}

/// Disks that fail one after the other left one whose label said that it went on alone, although nobody was
/// answered any more: a start without it was another part of the array then, and neither opened.
#[test]
fn an_array_that_has_stopped_changes_no_label_any_more() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid10).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        let one = bytes(8192, 1);
        write(&volume, 4096, &one).await;
        // All that hold the checkpoints are gone; the last disk takes what it is given.
        (0..3).for_each(|disk| shelf.refuse_writes(disk));
        let two = data(&bytes(8192, 2));
        assert!(volume.write(65536, two, block::WriteFlags::DURABLE).await.is_err());
        assert!(array.checkpoint().await.is_err(), "it has stopped");
        shelf.0.iter().for_each(|disk| disk.heal());
        let before = labels(&shelf).await;
        assert!(array.fail_disk("disk-0", true).await.is_err());
        assert!(array.add_disk(member(&Shelf::new(1, 32), 0, "new")).await.is_err());
        assert_eq!(labels(&shelf).await, before);
        crash((volume, array));
        // Each of them may be missing at the next start, and is welcome at the one after.
        for missing in [3, 0] {
            let mut members = shelf.members();
            members.remove(missing);
            let array = open(members).await.unwrap();
            assert_eq!(read(&array.device("v").unwrap(), 4096, one.len()).await, one);
            array.close().await.unwrap();
            let array = shelf.open().await;
            all_online(&array).await;
            array.close().await.unwrap();
        }
    });
}

#[test]
fn a_mirror_of_two_opens_with_either_disk_and_two_histories_are_recognized() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        let both = bytes(MIB, 1);
        write(&volume, 0, &both).await;
        array.close().await.unwrap();
        drop(volume);
        for (disk, seed) in [(0usize, 7u8), (1, 8)] {
            let array = open(vec![member(&shelf, disk, "one")]).await.unwrap();
            let volume = array.device("v").unwrap();
            assert_eq!(read(&volume, 0, both.len()).await, both);
            write(&volume, 2 * MIB as u64, &bytes(8192, seed)).await;
            assert_eq!(array.disks().iter().filter(|d| d.state == DiskState::Missing).count(), 1);
            array.close().await.unwrap();
        }
        let refusal = open(shelf.members()).await.unwrap_err().to_string();
        assert!(refusal.contains("disk-0") && refusal.contains("disk-1"), "{refusal}");
        // One half goes on, and does not take the other in behind anybody's back.
        let array = open(vec![member(&shelf, 1, "one")]).await.unwrap();
        let refusal = array.add_disk(member(&shelf, 0, "zero")).await.unwrap_err().to_string();
        assert!(refusal.contains("without the others"), "{refusal}");
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 2 * MIB as u64, 8192).await, bytes(8192, 8));
        array.close().await.unwrap();
        let array = open(vec![member(&shelf, 0, "zero")]).await.unwrap();
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 2 * MIB as u64, 8192).await, bytes(8192, 7));
        array.close().await.unwrap();
    });
}

#[test]
fn a_mirror_that_was_cut_off_and_lost_a_disk_opens_and_takes_it_back() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        let one = bytes(8192, 1);
        write(&volume, 4096, &one).await;
        crash((volume, array));
        let array = open(vec![member(&shelf, 1, "left")]).await.unwrap();
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 4096, one.len()).await, one);
        write(&volume, MIB as u64, &one).await;
        let missing = array.disks().into_iter().find(|d| d.state == DiskState::Missing).unwrap();
        assert_eq!(missing.name, "disk-0", "by the path where it was last");
        crash((volume, array));
        let array = shelf.open().await;
        all_online(&array).await;
        let volume = array.device("v").unwrap();
        array.checkpoint().await.unwrap();
        // What it was given is good.
        for operation in [Operation::Read, Operation::Write, Operation::Flush] {
            let fault = Fault::Fail(block::BlockError::Medium { at: 0 });
            shelf.0[1].inject(Rule::always(operation, fault));
        }
        assert_eq!(read(&volume, 4096, one.len()).await, one);
        assert_eq!(read(&volume, MIB as u64, one.len()).await, one);
    });
}

#[test]
fn two_disks_are_added_in_the_same_instant() {
    run(async {
        let (shelf, more) = (Shelf::new(3, 32), Shelf::new(4, 32));
        let array = shelf.create(Level::Raid5).await;
        let adding: Vec<_> = (0..4)
            .map(|at| {
                let (array, disk) = (array.clone(), member(&more, at, &format!("more-{at}")));
                Box::pin(async move { array.add_disk(disk).await })
            })
            .collect();
        let mut numbers = Vec::new();
        for added in futures_util::future::join_all(adding).await {
            numbers.push(added.unwrap());
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), array.disks().len()), (4, 7));
        array.close().await.unwrap();
        let members = [shelf.members(), more.members()].concat();
        let array = open(members).await.unwrap();
        assert!(array.disks().iter().all(|disk| disk.state == DiskState::Online));
    });
}

#[test]
fn what_cannot_leave_is_refused_and_nothing_has_changed() {
    run(async {
        let shelf = Shelf::new(3, 32);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        let one = bytes(MIB, 1);
        write(&volume, 0, &one).await;
        let refusal = array.retire_disk("disk-0").await.unwrap_err();
        assert!(matches!(refusal, ArrayError::DiskNeeded { .. }), "{refusal}");
        // A replacement that is too small, or not blank: neither is taken in.
        let small = Shelf::new(1, 8);
        assert!(array.replace_disk("disk-0", member(&small, 0, "small")).await.is_err());
        let other = Shelf::new(2, 32);
        other.create(Level::Raid1).await.close().await.unwrap();
        assert!(array.replace_disk("disk-0", member(&other, 0, "other")).await.is_err());
        assert!(array.replace_disk("nobody", member(&small, 0, "small")).await.is_err());
        assert_eq!(array.disks().len(), 3);
        assert!(array.disks().iter().all(|disk| disk.state == DiskState::Online));
        array.close().await.unwrap();
        let array = shelf.open().await;
        assert_eq!(read(&array.device("v").unwrap(), 0, one.len()).await, one);
        // Two at once: one may go, when there is one disk to go to.
        let new = Shelf::new(1, 32);
        array.add_disk(member(&new, 0, "new")).await.unwrap();
        let retire = |name: &'static str| {
            let array = array.clone();
            Box::pin(async move { array.retire_disk(name).await })
        };
        let both = [retire("disk-0"), retire("disk-1")];
        let both = futures_util::future::join_all(both).await;
        assert_eq!(both.iter().filter(|done| done.is_ok()).count(), 1, "{both:?}");
        until(&array, "it has left", |a| a.disks().len() == 3).await;
        assert_eq!(read(&array.device("v").unwrap(), 0, one.len()).await, one);
        array.close().await.unwrap();
    });
}

#[test]
fn a_disk_that_was_to_leave_may_stay() {
    run(async {
        let shelf = Shelf::new(5, 32);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 16)).await.unwrap();
        let one = bytes(8 * MIB, 1);
        write(&array.device("v").unwrap(), 0, &one).await;
        let refusal = array.cancel_retire("disk-1").await.unwrap_err();
        assert_eq!(refusal, ArrayError::NotRetiring("disk-1".into()));
        array.retire_disk("disk-1").await.unwrap();
        array.cancel_retire("disk-1").await.unwrap();
        array.checkpoint().await.unwrap();
        until(&array, "it stays", |a| {
            a.disks().iter().all(|disk| disk.state == DiskState::Online) && a.jobs().is_empty()
        })
        .await;
        assert_eq!(array.disks().len(), 5);
        assert_eq!(read(&array.device("v").unwrap(), 0, one.len()).await, one);
        array.close().await.unwrap();
    });
}

#[test]
fn two_disks_whose_flush_fails_once_lose_nothing_that_was_answered() {
    for level in [Level::Raid5, Level::Raid10] {
        run(async move {
            let shelf = Shelf::new(4, 32);
            let array = shelf.create(level).await;
            array.create_volume(spec("v", 8)).await.unwrap();
            let volume = array.device("v").unwrap();
            let mut now = bytes(4 * MIB, 1);
            write(&volume, 0, &now).await;
            array.checkpoint().await.unwrap();
            for block in 0..40usize {
                let new = bytes(4096, block as u8);
                let at = block * 81920;
                now[at..at + 4096].copy_from_slice(&new);
                write(&volume, at as u64, &new).await;
            }
            for disk in 0..4 {
                let fault = Fault::Fail(block::BlockError::Medium { at: 0 });
                shelf.0[disk].inject(Rule::always(Operation::Flush, fault).times(1));
            }
            let checkpoint = std::pin::pin!(array.checkpoint());
            let pause = std::pin::pin!(ring::sleep(std::time::Duration::from_secs(1)));
            futures_util::future::select(checkpoint, pause).await;
            drop(volume);
            shelf.0.iter().for_each(|disk| disk.heal());
            let array = shelf.open().await;
            let volume = array.device("v").unwrap();
            assert_eq!(read(&volume, 0, now.len()).await, now, "{level}");
            array.close().await.unwrap();
        });
    }
}

#[test]
fn the_only_journal_disk_retires_and_commands_are_answered() {
    run(async {
        let (shelf, fast) = (Shelf::new(3, 32), Shelf::new(1, 16));
        let array = shelf.create_with_journal(&fast).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(4096, 1)).await;
        // Nobody else has the journal when this is asked.
        array.retire_disk("fast-0").await.unwrap();
        until(&array, "gone", |array| array.disks().len() == 3).await;
        write(&volume, 4096, &bytes(4096, 2)).await;
        crash((volume, array));
        let array = shelf.open().await;
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 4096, 4096).await, bytes(4096, 2));
    });
}

/// One disk of a mirror went on alone and far, then the other went on and got the first one back as a blank
/// disk: what was left of its journal and its checkpoints was newer than anything, and the array did not open
/// any more, or with what the other had.
#[test]
fn a_disk_of_another_life_that_was_wiped_brings_nothing_of_it() {
    run(async {
        for (lives, writes, is_closed) in
            [(1, 100, true), (1, 5, true), (2, 30, false), (3, 8, true), (4, 60, false)]
        {
            let shelf = Shelf::new(2, 32);
            let array = shelf.create(Level::Raid1).await;
            array.create_volume(spec("v", 8)).await.unwrap();
            write(&array.device("v").unwrap(), 0, &bytes(4096, 1)).await;
            array.close().await.unwrap();
            for life in 0..lives {
                let array = open(vec![member(&shelf, 0, "zero")]).await.unwrap();
                let volume = array.device("v").unwrap();
                for block in 0..writes {
                    write(&volume, block * 65536, &bytes(4096, 100 + life)).await;
                }
                if is_closed {
                    array.close().await.unwrap();
                }
                drop((volume, array));
            }
            let array = open(vec![member(&shelf, 1, "one")]).await.unwrap();
            let volume = array.device("v").unwrap();
            for block in 0..5u64 {
                write(&volume, block * 65536, &bytes(4096, 3)).await;
            }
            // Its data is restored at once.
            array.fail_disk("0", false).await.unwrap();
            let other = member(&shelf, 0, "zero");
            array::label::erase(&*other.device).await.unwrap();
            array.add_disk(other).await.unwrap();
            until(&array, "it is whole", Array::is_settled).await;
            array.close().await.unwrap();
            drop((volume, array));
            for disks in [vec![0, 1], vec![0]] {
                let members = disks.iter().map(|disk| member(&shelf, *disk, &format!("{disk}")));
                let array = open(members.collect()).await.unwrap();
                let volume = array.device("v").unwrap();
                for block in 0..5u64 {
                    let found = read(&volume, block * 65536, 4096).await;
                    assert_eq!(found, bytes(4096, 3), "{lives} lives, block {block} on {disks:?}");
                }
                assert_eq!(read(&volume, 6 * 65536, 4096).await, vec![0; 4096]);
                array.close().await.unwrap();
            }
        }
    });
}
