//! Disks for the journal alone: when one of two is gone for good, another disk takes its copy over, and
//! operators see it.

use std::sync::Arc;

use array::api::{DiskRole, DiskState};
use array::{Array, ArrayError, Member, OpenOptions, RingEnv};
use block::{BlockDevice, WriteFlags};

use crate::common::{Hasty, Shelf, all_online, bytes, data, read, run, spec, until, write};
use crate::process::crash;

/// The data disks, and those for the journal that are named.
fn members(shelf: &Shelf, fast: &Shelf, present: &[usize]) -> Vec<Member> {
    let named = |at: &usize| Member { name: format!("fast-{at}"), ..fast.members().remove(*at) };
    shelf.members().into_iter().chain(present.iter().map(named)).collect()
}

async fn open(members: Vec<Member>) -> Result<Array, ArrayError> {
    Array::open(Arc::new(RingEnv), members, OpenOptions::default()).await
}

/// What an operator sees of a disk, if it is there.
fn seen(array: &Array, name: &str) -> Option<(DiskState, String)> {
    let disk = array.disks().into_iter().find(|disk| disk.name == name)?;
    Some((disk.state, disk.reason))
}

/// Disks of a mirror for the journal that go one after the other.
async fn one_after_the_other(declared: bool) {
    let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(2, 16));
    shelf.create_with_journal(&fast).await.close().await.expect("it works");
    // Here a minute is two seconds.
    let array = Array::open(Arc::new(Hasty), members(&shelf, &fast, &[0, 1]), Default::default());
    let array = array.await.expect("it works");
    array.create_volume(spec("v", 8)).await.expect("it works");
    let volume = array.device("v").expect("it works");
    let one = bytes(12288, 1);
    write(&volume, 4096, &one).await;
    let gone = match declared {
        true => {
            array.fail_disk("fast-0", false).await.expect("it works");
            DiskState::Failed
        }
        false => {
            fast.pull(0);
            DiskState::Missing
        }
    };
    write(&volume, 65536, &one).await;
    until(&array, "a disk stands in", |array| {
        seen(array, "fast-0").is_some_and(|(_, reason)| reason.contains("disk-0"))
    })
    .await;
    // For more than a minute, and longer than what is restored elsewhere waits.
    ring::sleep(std::time::Duration::from_secs(4)).await;
    let (state, reason) = seen(&array, "fast-0").expect("it is still shown");
    assert_eq!(state, gone);
    assert!(reason.contains("the journal is on") && reason.contains("retire"), "{reason}");
    let warnings = array.info().warnings;
    assert!(warnings.iter().any(|text| text.contains("fast-0")), "{warnings:?}");
    // What comes now is on the disk that stands in, too.
    write(&volume, 131_072, &one).await;
    crash((volume, array));
    let array = open(members(&shelf, &fast, &[])).await.expect("a data disk has the journal");
    let volume = array.device("v").expect("it works");
    for at in [4096, 65536, 131_072] {
        assert_eq!(read(&volume, at, one.len()).await, one, "at {at}");
    }
    array.close().await.expect("it works");
}

#[test]
fn a_data_disk_takes_over_from_one_of_two_journal_disks_that_fails() {
    run(one_after_the_other(false));
}

#[test]
fn a_data_disk_takes_over_from_one_of_two_journal_disks_that_is_declared_failed() {
    run(one_after_the_other(true));
}

#[test]
fn a_journal_disk_that_is_missing_at_a_start_is_stood_in_for_until_it_is_back() {
    run(async {
        let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(2, 16));
        shelf.create_with_journal(&fast).await.close().await.unwrap();
        let array = open(members(&shelf, &fast, &[1])).await.unwrap();
        array.create_volume(spec("v", 8)).await.unwrap();
        let one = bytes(12288, 1);
        write(&array.device("v").unwrap(), 4096, &one).await;
        crash(array);
        // The other one is missing at the next start, and the first is still away.
        let array = open(members(&shelf, &fast, &[])).await.unwrap();
        assert_eq!(read(&array.device("v").unwrap(), 4096, one.len()).await, one);
        array.close().await.unwrap();
        // Both are back: the journal is theirs alone again.
        let array = open(members(&shelf, &fast, &[0, 1])).await.unwrap();
        all_online(&array).await;
        array.checkpoint().await.unwrap();
        crash(array);
        let refusal = open(members(&shelf, &fast, &[])).await.unwrap_err().to_string();
        assert!(refusal.contains("fast-0") && refusal.contains("journal"), "{refusal}");
        let array = open(members(&shelf, &fast, &[0])).await.unwrap();
        assert_eq!(read(&array.device("v").unwrap(), 4096, one.len()).await, one);
        array.close().await.unwrap();
    });
}

#[test]
fn a_journal_disk_that_is_gone_leaves_when_it_is_told_to() {
    run(async {
        let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(2, 16));
        shelf.create_with_journal(&fast).await.close().await.unwrap();
        let array = open(members(&shelf, &fast, &[1])).await.unwrap();
        assert_eq!(seen(&array, "fast-0").unwrap().0, DiskState::Missing);
        array.retire_disk("fast-0").await.unwrap();
        until(&array, "it has left", |array| seen(array, "fast-0").is_none()).await;
        all_online(&array).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let one = bytes(12288, 1);
        write(&array.device("v").unwrap(), 4096, &one).await;
        crash(array);
        let array = open(members(&shelf, &fast, &[])).await.expect("two disks have the journal");
        assert_eq!(read(&array.device("v").unwrap(), 4096, one.len()).await, one);
        array.close().await.unwrap();
    });
}

/// What replaces a disk for the journal alone is one, too.
#[test]
fn a_journal_disk_is_replaced_by_a_journal_disk() {
    run(async {
        let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(3, 16));
        let two = Shelf(fast.0[..2].to_vec());
        shelf.create_with_journal(&two).await.close().await.unwrap();
        let array = open(members(&shelf, &fast, &[0, 1])).await.unwrap();
        let new = members(&shelf, &fast, &[2]).pop().unwrap();
        array.replace_disk("fast-0", new).await.unwrap();
        until(&array, "it has left", |array| seen(array, "fast-0").is_none()).await;
        let role = |name: &str| array.disks().iter().find(|d| d.name == name).unwrap().role;
        assert_eq!(role("fast-2"), DiskRole::Journal);
        array.create_volume(spec("v", 8)).await.unwrap();
        let one = bytes(12288, 1);
        write(&array.device("v").unwrap(), 4096, &one).await;
        crash(array);
        let array = open(members(&shelf, &fast, &[2])).await.expect("it has the journal");
        assert_eq!(read(&array.device("v").unwrap(), 4096, one.len()).await, one);
        array.close().await.unwrap();
    });
}

#[test]
fn the_journal_does_not_move_from_three_disks_to_one() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(array::Level::Raid10).await;
        let new = Shelf::new(1, 16).members().remove(0);
        let refused = array.add_journal_disk(new).await.unwrap_err().to_string();
        assert!(refused.contains("the only disk for the journal"), "{refused}");
        assert_eq!(array.disks().len(), 4);
        array.close().await.unwrap();
    });
}

#[test]
fn a_new_disk_for_the_journal_takes_it_from_those_that_stand_in() {
    run(async {
        let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(4, 16));
        let two = Shelf(fast.0[..2].to_vec());
        shelf.create_with_journal(&two).await.close().await.unwrap();
        // Both are gone, one after the other.
        crash(open(members(&shelf, &fast, &[1])).await.unwrap());
        let array = open(members(&shelf, &fast, &[])).await.unwrap();
        array.create_volume(spec("v", 8)).await.unwrap();
        let one = bytes(12288, 1);
        write(&array.device("v").unwrap(), 4096, &one).await;
        let small = Shelf::new(1, 1);
        let refused = array.add_journal_disk(small.members().remove(0)).await.unwrap_err();
        assert!(matches!(refused, ArrayError::BadDisk(_)), "{refused}");
        for at in [2, 3] {
            let new = members(&shelf, &fast, &[at]).pop().expect("it was asked for");
            array.add_journal_disk(new).await.unwrap();
        }
        for gone in ["fast-0", "fast-1"] {
            array.retire_disk(gone).await.unwrap();
        }
        until(&array, "they have left", |array| array.disks().len() == 6).await;
        all_online(&array).await;
        array.checkpoint().await.unwrap();
        let roles = array.disks().into_iter().filter(|disk| disk.role == DiskRole::Journal);
        assert_eq!(roles.map(|disk| disk.used_bytes).collect::<Vec<_>>(), [0, 0]);
        write(&array.device("v").unwrap(), 65536, &one).await;
        crash(array);
        let refusal = open(members(&shelf, &fast, &[])).await.unwrap_err().to_string();
        assert!(refusal.contains("fast-2") && refusal.contains("journal"), "{refusal}");
        let array = open(members(&shelf, &fast, &[3])).await.unwrap();
        for at in [4096, 65536] {
            assert_eq!(read(&array.device("v").unwrap(), at, one.len()).await, one, "at {at}");
        }
        array.close().await.unwrap();
    });
}

/// Of the only disk for the journal an old copy is put in its place: what was acknowledged since is not on
/// it, and that is known from the checkpoint on the other disks.
#[test]
fn an_old_copy_of_the_journal_disk_is_refused() {
    run(async {
        let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(1, 16));
        let array = shelf.create_with_journal(&fast).await;
        array.create_volume(spec("v", 8)).await.expect("it works");
        let volume = array.device("v").expect("it works");
        let (one, two) = (bytes(12288, 1), bytes(12288, 2));
        write(&volume, 4096, &one).await;
        let disk: Arc<dyn BlockDevice> = Arc::clone(&fast.0[0]) as _;
        let whole = disk.geometry().size_bytes() as usize;
        let copy = read(&disk, 0, whole).await;
        write(&volume, 4096, &two).await;
        crash((volume, array));
        let array = open(members(&shelf, &fast, &[0])).await.expect("it is whole");
        let volume = array.device("v").expect("it works");
        write(&volume, 65536, &two).await;
        crash((volume, array));
        for at in (0..whole).step_by(1 << 20) {
            let part = data(&copy[at..at + (1 << 20)]);
            disk.write(at as u64, part, WriteFlags::VOLATILE).await.expect("it takes it");
        }
        let refused = open(members(&shelf, &fast, &[0])).await.expect_err("it is old");
        let text = refused.to_string();
        assert!(text.contains("fast-0 is older than its last checkpoint"), "{text}");
        let ArrayError::Incomplete(refusal) = refused else { panic!("{text}") };
        assert!(refusal.can_be_accepted());
        // What the operator accepts: all is as the checkpoint had it.
        let accept = OpenOptions { accept_missing: true, ..Default::default() };
        let array = Array::open(Arc::new(RingEnv), members(&shelf, &fast, &[0]), accept);
        let array = array.await.expect("it is accepted");
        let said = array.events(0).0;
        assert!(said.iter().any(|event| event.text.contains("was given up")), "{said:?}");
        let volume = array.device("v").expect("it works");
        assert_eq!(read(&volume, 4096, two.len()).await, two);
        write(&volume, 65536, &one).await;
        crash((volume, array));
        let array = open(members(&shelf, &fast, &[0])).await.expect("it is whole again");
        let volume = array.device("v").expect("it works");
        assert_eq!(read(&volume, 65536, one.len()).await, one);
        array.close().await.expect("it works");
    });
}

/// The same with a copy from before the last start, after which no checkpoint came: that did not tell, and the
/// labels do.
#[test]
fn an_image_of_the_journal_disk_from_before_the_last_start_is_refused() {
    run(async {
        let (shelf, fast) = (Shelf::new(4, 32), Shelf::new(1, 16));
        let array = shelf.create_with_journal(&fast).await;
        array.create_volume(spec("v", 8)).await.expect("it works");
        write(&array.device("v").expect("it works"), 4096, &bytes(12288, 1)).await;
        array.close().await.expect("it works");
        let disk: Arc<dyn BlockDevice> = Arc::clone(&fast.0[0]) as _;
        let whole = disk.geometry().size_bytes() as usize;
        let old = read(&disk, 0, whole).await;
        let array = open(members(&shelf, &fast, &[0])).await.expect("it is whole");
        let two = bytes(12288, 2);
        write(&array.device("v").expect("it works"), 4096, &two).await;
        crash(array);
        let right = read(&disk, 0, whole).await;
        let put = async |all: &[u8]| {
            for at in (0..whole).step_by(1 << 20) {
                let part = data(&all[at..at + (1 << 20)]);
                disk.write(at as u64, part, WriteFlags::VOLATILE).await.expect("it takes it");
            }
        };
        put(&old).await;
        let refused = open(members(&shelf, &fast, &[0])).await.expect_err("it is old");
        assert!(refused.to_string().contains("the journal of array"), "{refused}");
        put(&right).await;
        let array = open(members(&shelf, &fast, &[0])).await.expect("it is whole again");
        assert_eq!(read(&array.device("v").expect("it works"), 4096, two.len()).await, two);
        array.close().await.expect("it works");
    });
}
