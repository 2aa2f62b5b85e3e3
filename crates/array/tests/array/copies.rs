//! Disks that are not what they were: copies of others.

use std::sync::Arc;

use array::{Array, ArrayError, Level, OpenOptions, RingEnv};
use block::BlockDevice;

use crate::common::{Shelf, bytes, data, read, run, spec, write};

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
