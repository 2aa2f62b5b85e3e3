//! Disks that are not what they were: cut short, copied, or put back as they were long ago.

use std::sync::Arc;
use std::time::Duration;

use array::api::DiskState;
use array::label::{Found, Label};
use array::{Array, ArrayError, Level, OpenOptions, RingEnv};
use block::BlockDevice;
use block::testing::{Fault, Operation, Rule};
use futures_util::future::Either;

use crate::common::{Shelf, all_online, bytes, data, read, run, spec, until, write};
use crate::process;

const MIB: usize = 1 << 20;

/// All that is on a disk.
async fn image(shelf: &Shelf, disk: usize) -> Vec<u8> {
    let size_bytes = shelf.0[disk].geometry().size_bytes() as usize;
    let mut image = vec![0; size_bytes];
    for (at, piece) in image.chunks_mut(MIB).enumerate() {
        let data = shelf.0[disk].read((at * MIB) as u64, piece.len()).await.expect("it is well");
        data.copy_to(0, piece);
    }
    image
}

/// Writes it over what a disk has from there on.
async fn put(shelf: &Shelf, disk: usize, from: usize, image: &[u8]) {
    for (at, piece) in image.chunks(MIB).enumerate() {
        let at = (from + at * MIB) as u64;
        shelf.0[disk].write(at, data(piece), block::WriteFlags::DURABLE).await.expect("it is well");
    }
}

/// Other disks with the same contents.
async fn copy(shelf: &Shelf, mib: usize) -> Shelf {
    let copy = Shelf::new(shelf.0.len(), mib as u64);
    for disk in 0..shelf.0.len() {
        put(&copy, disk, 0, &image(shelf, disk).await).await;
    }
    copy
}

/// RAID 5 on so many disks, and a volume `v` of 24 MiB of which so much is written.
async fn filled(disks: usize, mib: usize) -> (Shelf, Array, Vec<u8>) {
    let shelf = Shelf::new(disks, 32);
    let array = shelf.create(Level::Raid5).await;
    array.create_volume(spec("v", 24)).await.expect("a volume");
    let one = bytes(mib * MIB, 1);
    write_all(&array, &one).await;
    (shelf, array, one)
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
    process::end();
    for disk in &shelf.0 {
        disk.heal();
    }
    for disk in 0..shelf.0.len() {
        let says = self::label(shelf, disk).await;
        assert!(says.member(label.disk).is_some_and(|record| record.state.lacks_all()));
    }
}

/// What is on a disk, as an opening sees it.
async fn label(shelf: &Shelf, disk: usize) -> Label {
    match array::probe(&*shelf.0[disk]).await {
        Ok(Found::Label { label, .. }) => *label,
        other => panic!("no label: {other:?}"),
    }
}

async fn is_told(array: &Array, what: &str) {
    let (events, _) = array.events(0);
    assert!(events.iter().any(|event| event.text.contains(what)), "{what}: {events:?}");
}

/// Every disk has what it should, so that any one may go: nothing was read before.
async fn gives_all_without(array: &Array, shelf: &Shelf, disk: usize, all: &[u8]) {
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

async fn write_all(array: &Array, all: &[u8]) {
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
