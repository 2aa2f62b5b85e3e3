//! Disks that are not what they were: cut short, copied, or put back as they were long ago.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use array::api::DiskState;
use array::label::{Found, Label, MemberState};
use array::{Array, ArrayError, Level, Member, OpenOptions, RingEnv, crc32c};
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, FileDisk, FileOptions};
use futures_util::future::Either;

use crate::common::{Shelf, all_online, bytes, data, read, run, spec, until, write};
use crate::process::{crash, end};

pub(crate) const MIB: usize = 1 << 20;

/// All that is on a disk.
pub(crate) async fn image(shelf: &Shelf, disk: usize) -> Vec<u8> {
    let size_bytes = shelf.0[disk].geometry().size_bytes() as usize;
    let mut image = vec![0; size_bytes];
    for (at, piece) in image.chunks_mut(MIB).enumerate() {
        let data = shelf.0[disk].read((at * MIB) as u64, piece.len()).await.expect("it is well");
        data.copy_to(0, piece);
    }
    image
}

/// Writes it over what a disk has from there on.
pub(crate) async fn put(shelf: &Shelf, disk: usize, from: usize, image: &[u8]) {
    for (at, piece) in image.chunks(MIB).enumerate() {
        let at = (from + at * MIB) as u64;
        shelf.0[disk].write(at, data(piece), block::WriteFlags::DURABLE).await.expect("it is well");
    }
}

/// Other disks with the same contents.
pub(crate) async fn copy(shelf: &Shelf, mib: usize) -> Shelf {
    let copy = Shelf::new(shelf.0.len(), mib as u64);
    for disk in 0..shelf.0.len() {
        put(&copy, disk, 0, &image(shelf, disk).await).await;
    }
    copy
}

/// RAID 5 on so many disks, and a volume `v` of 24 MiB of which so much is written.
pub(crate) async fn filled(disks: usize, mib: usize) -> (Shelf, Array, Vec<u8>) {
    let shelf = Shelf::new(disks, 32);
    let array = shelf.create(Level::Raid5).await;
    array.create_volume(spec("v", 24)).await.expect("a volume");
    let one = bytes(mib * MIB, 1);
    maps_first(&array, &one).await;
    write_all(&array, &one).await;
    (shelf, array, one)
}

/// Maps get their chunks with the first checkpoint. Before most of the data is there they lie in front of it, wherever
/// the checkpoints begin that fall into the writing: what is done to the tails of disks is not done to them.
async fn maps_first(array: &Array, all: &[u8]) {
    write(&array.device("v").expect("the volume"), 0, &all[..4096]).await;
    array.checkpoint().await.expect("there is room");
}

/// A disk loses what lies beyond `mib`, and is as large again.
async fn cut(shelf: &Shelf, disk: usize, mib: usize) {
    let size_bytes = shelf.0[disk].geometry().size_bytes() as usize;
    put(shelf, disk, mib * MIB, &vec![0; size_bytes - mib * MIB]).await;
}

/// A start that ends when it writes its first checkpoint: the labels say by then that a disk lacks all.
async fn end_at_checkpoint(shelf: &Shelf, lacking: usize) {
    let label = label(shelf, lacking).await;
    let slots = label.layout.checkpoint_at(0)..label.layout.redo_at();
    for disk in &shelf.0 {
        disk.inject(Rule::always(Operation::Write, Fault::Hang).at(slots.clone()));
    }
    // Nor is anything restored before.
    let chunks = label.layout.chunks_at()..label.own().size_bytes - label.layout.label_bytes;
    shelf.0[lacking].inject(Rule::always(Operation::Write, Fault::Hang).at(chunks));
    let members = shelf.members();
    let mut open = Box::pin(Array::open(Arc::new(RingEnv), members, OpenOptions::default()));
    while shelf.0.iter().all(|disk| disk.held() == 0) {
        let pause = Box::pin(ring::sleep(Duration::from_millis(5)));
        let Either::Right((_, waits)) = futures_util::future::select(open, pause).await else {
            panic!("it writes no checkpoint")
        };
        open = waits;
    }
    end();
    for disk in &shelf.0 {
        disk.heal();
    }
    for disk in 0..shelf.0.len() {
        let says = self::label(shelf, disk).await;
        assert!(says.member(label.disk).is_some_and(|record| record.state.lacks_all()));
    }
}

/// What is on a disk, as an opening sees it.
pub(crate) async fn label(shelf: &Shelf, disk: usize) -> Label {
    match array::probe(&array::RingEnv, &*shelf.0[disk]).await {
        Ok(Found::Label { label, .. }) => *label,
        other => panic!("no label: {other:?}"),
    }
}

async fn is_told(array: &Array, what: &str) {
    let (events, _) = array.events(0);
    assert!(events.iter().any(|event| event.text.contains(what)), "{what}: {events:?}");
}

/// Every disk has what it should, so that any one may go: nothing was read before.
pub(crate) async fn gives_all_without(array: &Array, shelf: &Shelf, disk: usize, all: &[u8]) {
    all_online(array).await;
    until(array, "it is whole", Array::is_settled).await;
    shelf.pull(disk);
    let volume = array.device("v").expect("the volume");
    for (at, piece) in all.chunks(MIB).enumerate() {
        assert_eq!(read(&volume, (at * MIB) as u64, piece.len()).await, piece, "MiB {at}");
    }
}

/// What lay in the tail read as zeroes, parity too, and counted as good: one more disk that failed, and blocks
/// were lost.
#[test]
fn a_disk_that_was_cut_short_says_so_and_comes_back_when_it_is_as_large_again() {
    run(async {
        let (shelf, array, one) = filled(4, 24).await;
        array.close().await.unwrap();
        shelf.0[3].resize(10 * 256);
        let array = shelf.open().await;
        let disk = array.disks().swap_remove(3);
        let reason = "too short, with 10485760 of the 33554432 bytes that it had when it joined";
        assert_eq!(disk.state, DiskState::Missing);
        assert!(disk.reason.contains(reason) && disk.reason.contains("as large again"), "{disk:?}");
        array.close().await.unwrap();
        shelf.0[3].resize(32 * 256);
        cut(&shelf, 3, 10).await;
        let array = shelf.open().await;
        gives_all_without(&array, &shelf, 0, &one).await;
        is_told(&array, "cut short").await;
    });
}

/// Who followed the advice to wipe it destroyed a good copy.
#[test]
fn a_disk_that_is_too_short_or_newer_is_refused_for_what_it_is() {
    run(async {
        let (shelf, array, one) = filled(4, 8).await;
        shelf.pull(3);
        write(&array.device("v").unwrap(), 0, &one[..4096]).await;
        until(&array, "it is out", |a| a.disks()[3].state == DiskState::Missing).await;
        shelf.0[3].heal();
        let refusal = async |member| array.add_disk(member).await.unwrap_err().to_string();
        shelf.0[3].resize(10 * 256);
        let refused = refusal(shelf.members().remove(3)).await;
        assert!(refused.contains("10485760 of the 33554432 bytes"), "{refused}");
        assert!(!refused.contains("wipe"), "{refused}");
        shelf.0[3].resize(32 * 256);
        let newer = Shelf::new(1, 32);
        put(&newer, 0, 0, &of_version(&image(&shelf, 3).await[..4096], 3)).await;
        let refused = refusal(newer.members().remove(0)).await;
        assert!(refused.contains("format version 3"), "{refused}");
    });
}

/// The head of a label, as a program of another format would write it.
fn of_version(head: &[u8], version: u32) -> Vec<u8> {
    let mut head = head.to_vec();
    head[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c(&head[..60]);
    head[60..64].copy_from_slice(&crc.to_le_bytes());
    head
}

pub(crate) async fn write_all(array: &Array, all: &[u8]) {
    let volume = array.device("v").expect("the volume");
    for (at, piece) in all.chunks(MIB).enumerate() {
        write(&volume, (at * MIB) as u64, piece).await;
    }
}

#[test]
fn a_disk_that_was_cut_short_between_two_starts_gets_back_what_it_lost() {
    run(async {
        for mib in [10, 1] {
            let (shelf, array, one) = filled(4, 24).await;
            // Nothing is left in the journal that would tell.
            array.checkpoint().await.unwrap();
            array.close().await.unwrap();
            cut(&shelf, 1, mib).await;
            // The first start after it is cut off before a checkpoint says what is lacking: the labels do.
            end_at_checkpoint(&shelf, 1).await;
            let array = shelf.open().await;
            gives_all_without(&array, &shelf, 0, &one).await;
        }
    });
}

#[test]
fn a_disk_that_was_cut_short_while_it_was_out_gets_back_what_it_lost() {
    run(async {
        let (shelf, array, one) = filled(4, 24).await;
        array.checkpoint().await.unwrap();
        shelf.pull(3);
        write(&array.device("v").unwrap(), 0, &one[..4096]).await;
        array.checkpoint().await.unwrap();
        until(&array, "it is out", |a| a.disks()[3].state == DiskState::Missing).await;
        shelf.0[3].heal();
        cut(&shelf, 3, 10).await;
        gives_all_without(&array, &shelf, 0, &one).await;
        is_told(&array, "cut short").await;
    });
}

/// Files that go with the test.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("drystone-array-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    fn path(&self, disk: usize) -> PathBuf {
        self.0.join(format!("disk-{disk}"))
    }

    /// Disks on them, as an array has those of `file:`.
    fn shelf(&self, disks: usize, mib: u64) -> Shelf {
        let options = FileOptions {
            block_bytes: 4096,
            read_only: false,
            size_bytes: Some(mib << 20),
            write_through: false,
            direct: true,
        };
        let open = |disk| FileDisk::open_file(&self.path(disk), &options).expect("a file");
        Shelf((0..disks).map(|disk| Arc::new(FaultyDisk::new(Arc::new(open(disk))))).collect())
    }

    fn resize(&self, disk: usize, mib: u64) {
        let file = std::fs::OpenOptions::new().write(true).open(self.path(disk));
        file.expect("a file").set_len(mib << 20).expect("it can be resized");
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The next label, or whoever took it back, made the file as long as it had been, with a hole for a tail.
#[test]
fn a_file_that_is_cut_short_stays_so_until_an_operator_makes_it_as_large_again() {
    run(async {
        for is_out in [false, true] {
            let files = Files::new("cut");
            let shelf = files.shelf(4, 32);
            let array = shelf.create(Level::Raid5).await;
            array.create_volume(spec("v", 24)).await.expect("a volume");
            let one = bytes(24 * MIB, 1);
            write_all(&array, &one).await;
            array.checkpoint().await.unwrap();
            let is_missing = |array: &Array| array.disks()[3].state == DiskState::Missing;
            if is_out {
                shelf.pull(3);
                write(&array.device("v").unwrap(), 0, &one[..4096]).await;
                until(&array, "it is out", is_missing).await;
                files.resize(3, 10);
                shelf.0[3].heal();
            } else {
                files.resize(3, 10);
                array.add_disk(another()).await.expect("it is blank");
            }
            let is_told = |array: &Array| {
                is_missing(array) && array.disks()[3].reason.contains("too short, with 10485760")
            };
            until(&array, "it is too short", is_told).await;
            files.resize(3, 32);
            gives_all_without(&array, &shelf, 0, &one).await;
            self::is_told(&array, "cut short").await;
        }
    });
}

/// A blank disk. The labels change when it is taken in.
fn another() -> Member {
    Member { name: "another".into(), ..Shelf::new(1, 32).members().remove(0) }
}

/// A file that is as large again by the time when somebody looks: the end of it is blank.
#[test]
fn a_disk_that_was_cut_short_while_it_is_in_use_gets_back_what_it_lost() {
    run(async {
        let (shelf, array, one) = filled(4, 24).await;
        array.checkpoint().await.unwrap();
        cut(&shelf, 3, 10).await;
        array.add_disk(another()).await.expect("it is blank");
        gives_all_without(&array, &shelf, 0, &one).await;
        is_told(&array, "cut short").await;
    });
}

/// Disks that were made larger, all of them, have lost nothing.
#[test]
fn disks_that_have_grown_are_taken_for_what_they_are() {
    run(async {
        let shelf = Shelf::new(4, 32);
        shelf.0.iter().for_each(|disk| disk.resize(24 * 256));
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let one = bytes(8 * MIB, 1);
        write_all(&array, &one).await;
        array.close().await.unwrap();
        shelf.0.iter().for_each(|disk| disk.resize(32 * 256));
        let array = shelf.open().await;
        assert!(array.disks().iter().all(|disk| disk.state == DiskState::Online));
        gives_all_without(&array, &shelf, 0, &one).await;
    });
}

/// Both copies had changed no label, for all of their disks were there: disks of both passed for one array, and
/// what one of them had acknowledged was gone.
#[test]
fn two_copies_of_an_array_that_both_went_on_do_not_make_one() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        write(&array.device("v").unwrap(), 0, &bytes(MIB, 1)).await;
        array.close().await.unwrap();
        let other = copy(&shelf, 32).await;
        for (seed, shelf) in [(2, &shelf), (3, &other)] {
            let array = shelf.open().await;
            write(&array.device("v").unwrap(), 0, &bytes(8192, seed)).await;
            array.close().await.unwrap();
        }
        let mixed = vec![shelf.members().remove(0), other.members().remove(1)];
        let refusal = Array::open(Arc::new(RingEnv), mixed, OpenOptions::default()).await;
        let refusal = refusal.unwrap_err();
        assert!(matches!(refusal, ArrayError::Refused(_)), "{refusal}");
        assert!(refusal.to_string().contains("went on in two parts"), "{refusal}");
        for (seed, shelf) in [(2, &shelf), (3, &other)] {
            let array = shelf.open().await;
            let volume = array.device("v").unwrap();
            assert_eq!(read(&volume, 0, 8192).await, bytes(8192, seed));
            array.close().await.unwrap();
        }
    });
}

/// The last label of its start puts a disk out, of which the other copy has one that was in: as if that start had been cut
/// off before its last label.
#[test]
fn a_copy_that_lost_a_disk_at_its_start_does_not_join_the_other_one() {
    run(async {
        let (shelf, array, _) = filled(3, 8).await;
        array.close().await.unwrap();
        let other = copy(&shelf, 32).await;
        shelf.pull(1);
        let array = shelf.open().await;
        write(&array.device("v").unwrap(), 0, &bytes(8192, 2)).await;
        array.close().await.unwrap();

        let layout = label(&other, 2).await.layout;
        let front = 0..layout.label_bytes;
        let takes = Rule::always(Operation::Write, Fault::Delay(Duration::ZERO)).at(front.clone());
        other.0[2].inject(takes.times(1));
        let refuses = Fault::Fail(BlockError::Medium { at: 0 });
        other.0[2].inject(Rule::always(Operation::Write, refuses).at(front));
        let array = other.open().await;
        write(&array.device("v").unwrap(), 0, &bytes(8192, 3)).await;
        array.close().await.unwrap();
        assert_ne!(label(&other, 2).await.generation, label(&other, 1).await.generation);

        let mut mixed = shelf.members();
        mixed.truncate(1);
        mixed.push(shelf.members().remove(2));
        mixed.push(other.members().remove(1));
        let refusal = Array::open(Arc::new(RingEnv), mixed, OpenOptions::default()).await;
        let refusal = refusal.unwrap_err();
        assert!(matches!(refusal, ArrayError::Refused(_)), "{refusal}");
        assert!(refusal.to_string().contains("went on in two parts"), "{refusal}");
    });
}

/// An image of a disk that holds checkpoints, put back when the others had gone on: by its label it had all.
#[test]
fn an_old_image_of_a_holder_gets_what_it_lacks() {
    run(async {
        let (shelf, array, _) = filled(4, 8).await;
        array.checkpoint().await.unwrap();
        let old = image(&shelf, 0).await;
        let two = bytes(24 * MIB, 2);
        write_all(&array, &two).await;
        for at in 0..3 {
            array.checkpoint().await.unwrap();
            write(&array.device("v").unwrap(), at * 4096, &two[at as usize * 4096..][..4096]).await;
        }
        array.close().await.unwrap();
        put(&shelf, 0, 0, &old).await;
        let array = shelf.open().await;
        gives_all_without(&array, &shelf, 1, &two).await;
        is_told(&array, "older").await;
    });
}

/// The same of a disk that holds data alone: the labels tell.
#[test]
fn an_image_from_before_the_last_start_gets_what_it_lacks() {
    run(async {
        let (shelf, array, _) = filled(5, 8).await;
        array.close().await.unwrap();
        let old = image(&shelf, 4).await;
        let label = label(&shelf, 4).await;
        assert!(!label.holders.contains(&label.disk));
        let array = shelf.open().await;
        let two = bytes(24 * MIB, 2);
        write_all(&array, &two).await;
        array.close().await.unwrap();
        put(&shelf, 4, 0, &old).await;
        let array = shelf.open().await;
        gives_all_without(&array, &shelf, 1, &two).await;
        is_told(&array, "older").await;
    });
}

/// The same of one that was made since the last start, when all disks have the label that they have today: the
/// number of the last checkpoint before which the disk was written to tells, whether the disk was out or not.
#[test]
fn an_image_of_this_life_gets_what_it_lacks() {
    run(async {
        for was_out in [None, Some(false), Some(true)] {
            let (shelf, array, _) = filled(5, 8).await;
            array.checkpoint().await.unwrap();
            let label = label(&shelf, 4).await;
            assert!(!label.holders.contains(&label.disk));
            let old = image(&shelf, 4).await;
            let two = bytes(24 * MIB, 2);
            write_all(&array, &two).await;
            array.checkpoint().await.unwrap();
            if was_out.is_some() {
                shelf.pull(4);
                write(&array.device("v").unwrap(), 0, &two[..4096]).await;
                array.checkpoint().await.unwrap();
                until(&array, "it is out", |a| a.disks()[4].state == DiskState::Missing).await;
            }
            let array = if was_out == Some(true) {
                shelf.0[4].heal();
                put(&shelf, 4, 0, &old).await;
                array
            } else {
                array.close().await.unwrap();
                shelf.0[4].heal();
                put(&shelf, 4, 0, &old).await;
                shelf.open().await
            };
            gives_all_without(&array, &shelf, 1, &two).await;
            is_told(&array, "older").await;
        }
    });
}

/// The holders too, though they lack but one checkpoint, and no disk of three is anything else.
#[test]
fn an_image_of_a_holder_from_before_the_last_checkpoint_gets_what_it_lacks() {
    run(async {
        let (shelf, array, _) = filled(3, 8).await;
        array.checkpoint().await.unwrap();
        let old = image(&shelf, 2).await;
        let before = array.info().checkpoint;
        // Not so much that the journal asks for another checkpoint.
        let two = bytes(MIB, 2);
        write_all(&array, &two).await;
        array.checkpoint().await.unwrap();
        assert_eq!(array.info().checkpoint, before + 1);
        crash(array);
        put(&shelf, 2, 0, &old).await;
        let array = shelf.open().await;
        gives_all_without(&array, &shelf, 1, &two).await;
        is_told(&array, "older").await;
    });
}

/// Of two old images in one set one is used as it is: volumes stay online, and a scrub finds what it lacks.
#[test]
fn old_images_of_more_disks_than_a_set_bears_are_used_block_by_block() {
    run(async {
        let (shelf, array, one) = filled(6, 8).await;
        array.checkpoint().await.unwrap();
        let old = [image(&shelf, 4).await, image(&shelf, 5).await];
        write(&array.device("v").unwrap(), 0, &bytes(MIB, 2)).await;
        array.checkpoint().await.unwrap();
        array.close().await.unwrap();
        for (disk, old) in [4, 5].into_iter().zip(old) {
            put(&shelf, disk, 0, &old).await;
        }
        let array = shelf.open().await;
        is_told(&array, "start a scrub").await;
        let volume = array.device("v").unwrap();
        let rest = read(&volume, 4 * MIB as u64, 4 * MIB).await;
        assert!(rest == one[4 * MIB..], "what neither lacks is there");
        write(&volume, 6 * MIB as u64, &bytes(MIB, 3)).await;
        array.checkpoint().await.unwrap();
        assert_eq!(array.volumes()[0].state, array::api::VolumeState::Online);
    });
}

/// A disk that cannot be marked has lost nothing: it stays, and with it all that needs it.
#[test]
fn a_disk_whose_mark_cannot_be_written_stays_in() {
    run(async {
        let (shelf, array, _) = filled(5, 8).await;
        array.checkpoint().await.unwrap();
        let layout = label(&shelf, 4).await.layout;
        for slot in 0..2 {
            let at = layout.checkpoint_at(slot);
            let bad = Fault::Fail(BlockError::Medium { at });
            shelf.0[4].inject(Rule::always(Operation::Write, bad).at(at..at + 4096));
        }
        let two = bytes(24 * MIB, 2);
        write_all(&array, &two).await;
        array.checkpoint().await.unwrap();
        all_online(&array).await;
        array.close().await.unwrap();
        let array = shelf.open().await;
        all_online(&array).await;
        let events = array.events(0).0;
        assert!(events.iter().all(|event| !event.text.contains("older")), "{events:?}");
    });
}

/// A disk that nothing was written to for long is as new as the others, and so is each after an end without a stop.
#[test]
fn a_disk_that_was_idle_or_cut_off_is_not_taken_for_an_image() {
    run(async {
        let (shelf, array, _) = filled(6, 8).await;
        for at in 0..20 {
            write(&array.device("v").unwrap(), 0, &bytes(4096, at)).await;
            array.checkpoint().await.unwrap();
        }
        crash(array);
        for _ in 0..2 {
            let array = shelf.open().await;
            all_online(&array).await;
            let events = array.events(0).0;
            assert!(events.iter().all(|event| !event.text.contains("older")), "{events:?}");
            array.close().await.unwrap();
        }
    });
}

/// A disk had failed, and an older image of it was put back: it was given what had changed since it went out, and
/// nothing of what had changed between the image and that.
#[test]
fn an_old_image_of_a_disk_that_was_out_gets_what_it_lacks() {
    run(async {
        for is_started_anew in [false, true] {
            let (shelf, array, _) = filled(5, 8).await;
            array.close().await.unwrap();
            let old = image(&shelf, 4).await;
            let array = shelf.open().await;
            let two = bytes(24 * MIB, 2);
            write_all(&array, &two).await;
            array.checkpoint().await.unwrap();
            shelf.pull(4);
            for at in (0..24).map(|mib| mib * MIB) {
                write(&array.device("v").unwrap(), at as u64, &two[at..][..4096]).await;
            }
            array.checkpoint().await.unwrap();
            until(&array, "it is out", |a| a.disks()[4].state == DiskState::Missing).await;
            if is_started_anew {
                array.close().await.unwrap();
            }
            shelf.0[4].heal();
            put(&shelf, 4, 0, &old).await;
            let array = if is_started_anew { shelf.open().await } else { array };
            gives_all_without(&array, &shelf, 1, &two).await;
            is_told(&array, "older").await;
        }
    });
}

/// Its label is what it was when the disk went out; the checkpoints are not.
#[test]
fn an_old_image_of_a_holder_that_was_out_gets_what_it_lacks() {
    run(async {
        for is_started_anew in [false, true] {
            let (shelf, array, _) = filled(3, 8).await;
            array.checkpoint().await.unwrap();
            let old = image(&shelf, 2).await;
            let two = bytes(24 * MIB, 2);
            for _ in 0..3 {
                write_all(&array, &two).await;
                array.checkpoint().await.unwrap();
            }
            shelf.pull(2);
            write(&array.device("v").unwrap(), 0, &two[..4096]).await;
            array.checkpoint().await.unwrap();
            until(&array, "it is out", |a| a.disks()[2].state == DiskState::Missing).await;
            if is_started_anew {
                array.close().await.unwrap();
            }
            shelf.0[2].heal();
            put(&shelf, 2, 0, &old).await;
            let array = if is_started_anew { shelf.open().await } else { array };
            gives_all_without(&array, &shelf, 1, &two).await;
            is_told(&array, "older").await;
        }
    });
}

/// Until a disk is given all that it lost, which was waived at first.
async fn until_restored(array: &Array) {
    until(array, "what was lost is restored", |array| {
        let is_it =
            |text: &str| text.contains("as large again: all that it should hold is restored");
        array.events(0).0.iter().any(|event| is_it(&event.text))
    })
    .await;
}

/// What a disk that was cut short has of checkpoint and journal was not even asked for, though nobody else gave it.
#[test]
fn a_disk_that_was_cut_short_gives_the_checkpoint_that_has_rotted_elsewhere() {
    run(async {
        let (shelf, array, one) = mirrored().await;
        array.checkpoint().await.unwrap();
        write_all(&array, &one).await;
        array.checkpoint().await.unwrap();
        array.close().await.unwrap();
        cut(&shelf, 1, 20).await;
        let layout = label(&shelf, 0).await.layout;
        // Both of its slots: no checkpoint is left there.
        for slot in 0..2 {
            put(&shelf, 0, layout.checkpoint_at(slot) as usize, &bytes(4096, 9)).await;
        }
        let array = shelf.open().await;
        is_told(&array, "no other disk has the checkpoints").await;
        until_restored(&array).await;
        gives_all_without(&array, &shelf, 0, &one).await;
    });
}

/// A mirror of two with 24 MiB to be written to `v`.
pub(crate) async fn mirrored() -> (Shelf, Array, Vec<u8>) {
    let shelf = Shelf::new(2, 64);
    let array = shelf.create(Level::Raid1).await;
    array.create_volume(spec("v", 24)).await.expect("a volume");
    (shelf, array, bytes(24 * MIB, 1))
}

#[test]
fn a_disk_that_was_cut_short_gives_the_journal_that_cannot_be_read_elsewhere() {
    run(async {
        let (shelf, array, mut one) = mirrored().await;
        write_all(&array, &one).await;
        array.checkpoint().await.unwrap();
        one[..4096].copy_from_slice(&bytes(4096, 5));
        write(&array.device("v").unwrap(), 0, &one[..4096]).await;
        end();
        cut(&shelf, 1, 20).await;
        let layout = label(&shelf, 0).await.layout;
        let journal = layout.journal_at()..layout.chunks_at();
        let fault = Fault::Fail(BlockError::Medium { at: layout.journal_at() });
        shelf.0[0].inject(Rule::always(Operation::Read, fault).at(journal));
        let array = shelf.open().await;
        shelf.0[0].heal();
        until_restored(&array).await;
        gives_all_without(&array, &shelf, 0, &one).await;
    });
}

/// It was the only one that was there. When the other one was back nothing told any more that it had lost
/// its tail, and that was redundant no more.
#[test]
fn a_disk_that_was_cut_short_and_ran_alone_gets_back_what_it_lost() {
    run(async {
        let (shelf, array, mut one) = mirrored().await;
        maps_first(&array, &one).await;
        write_all(&array, &one).await;
        array.checkpoint().await.unwrap();
        array.close().await.unwrap();
        cut(&shelf, 1, 20).await;
        shelf.pull(0);
        let array = shelf.open().await;
        is_told(&array, "it is used nevertheless").await;
        one[..4096].copy_from_slice(&bytes(4096, 5));
        write(&array.device("v").unwrap(), 0, &one[..4096]).await;
        array.checkpoint().await.unwrap();
        shelf.0[0].heal();
        array.add_disk(shelf.members().remove(0)).await.expect("it is back");
        until_restored(&array).await;
        gives_all_without(&array, &shelf, 0, &one).await;
    });
}

/// All of it was given anew when the disk had been away for a moment, or after a start: a resync of many hours
/// never ended.
#[test]
fn what_a_disk_was_given_that_lacked_all_is_not_given_again() {
    run(async {
        let (shelf, array, one) = filled(4, 24).await;
        array.close().await.unwrap();
        cut(&shelf, 1, 1).await;
        let layout = label(&shelf, 0).await.layout;
        let chunks = layout.chunks_at();
        let given = |from: u64| shelf.0[1].written_bytes() - from;
        let begin = shelf.0[1].written_bytes();
        let array = shelf.open().await;
        all_online(&array).await;
        let all = given(begin);
        array.close().await.unwrap();
        cut(&shelf, 1, 1).await;
        // A part of it is given, and no more.
        let rest = chunks + 5 * layout.chunk_bytes..shelf.0[1].geometry().size_bytes() - (64 << 10);
        shelf.0[1].inject(Rule::always(Operation::Write, Fault::Hang).at(rest));
        let begin = shelf.0[1].written_bytes();
        let array = shelf.open().await;
        for _ in 0..1000 {
            let own = label(&shelf, 1).await.own().state;
            if shelf.0[1].held() > 0 && !own.lacks_all() {
                break;
            }
            assert!(matches!(own, MemberState::Stale(_)));
            ring::sleep(Duration::from_millis(5)).await;
        }
        assert!(!label(&shelf, 1).await.own().state.lacks_all(), "it is recorded what it lacks");
        array.checkpoint().await.unwrap();
        assert!(given(begin) > all / 3, "{} of {all}", given(begin));
        end();
        shelf.0[1].heal();
        let begin = shelf.0[1].written_bytes();
        let array = shelf.open().await;
        all_online(&array).await;
        assert!(given(begin) < all * 3 / 4, "{} of {all}", given(begin));
        gives_all_without(&array, &shelf, 0, &one).await;
    });
}
