//! The label of a device: what is refused, and that no cut loses a length.

use super::*;
use crate::bytes::testing::{Disk, Unsynced};

const SIZE: usize = 256 * 1024;

fn open(disk: &Disk) -> io::Result<Resizable> {
    Resizable::open(disk.shared())
}

#[test]
fn lengths_and_data_are_there_after_opening_again() {
    let disk = Disk::new(SIZE);
    for (len, fill) in [(0, 0), (4096, 1), (100_000, 2), (10, 3)] {
        let storage = open(&disk).unwrap();
        storage.set_len(len).unwrap();
        let data = vec![fill; usize::try_from(len).unwrap()];
        storage.write(0, &data).unwrap();
        storage.sync_data().unwrap();
        let storage = open(&disk).unwrap();
        assert_eq!(storage.len().unwrap(), len);
        let mut found = vec![9; data.len()];
        storage.read(0, &mut found).unwrap();
        assert_eq!(found, data);
    }
}

#[test]
fn what_was_cut_off_is_zero_when_it_comes_back() {
    let storage = open(&Disk::new(SIZE)).unwrap();
    storage.set_len(1000).unwrap();
    storage.write(0, &[7; 1000]).unwrap();
    storage.set_len(10).unwrap();
    storage.set_len(1000).unwrap();
    let mut found = [1; 1000];
    storage.read(0, &mut found).unwrap();
    assert_eq!(found[..10], [7; 10]);
    assert_eq!(found[10..], [0; 990]);
}

#[test]
fn what_is_not_right_is_refused_and_left_alone() {
    let refusal = |result: io::Result<()>| result.unwrap_err().to_string();
    let small = open(&Disk::new(4096)).map(drop);
    assert!(refusal(small).contains("too small"));
    let foreign = Disk::with(vec![7; SIZE]);
    assert!(refusal(open(&foreign).map(drop)).contains("nothing was written"));
    assert_eq!(foreign.steps(), 0);
    let storage = open(&Disk::new(SIZE)).unwrap();
    storage.set_len(100).unwrap();
    assert!(refusal(storage.write(90, &[0; 11])).contains("beyond the end at 100"));
    assert!(refusal(storage.read(101, &mut [])).contains("beyond"));
    assert!(refusal(storage.set_len(SIZE as u64)).contains("is full"));
    assert_eq!(storage.len().unwrap(), 100);
}

#[test]
fn what_a_device_holds_is_told_and_left_as_it_is() {
    let disk = Disk::new(SIZE);
    assert_eq!(contents(&disk).unwrap(), Contents::Nothing);
    open(&disk).unwrap().set_len(10).unwrap();
    let steps = disk.steps();
    assert_eq!(contents(&disk).unwrap(), Contents::Store);
    assert_eq!(disk.steps(), steps);
    let mut image = disk.cut(steps, Unsynced::Kept);
    image[..8192].fill(0);
    image[60_000] = 1;
    assert_eq!(contents(&Disk::with(image)).unwrap(), Contents::Other);
    assert_eq!(contents(&Disk::new(4096)).unwrap(), Contents::Other);
}

#[test]
fn a_device_that_shrank_is_refused() {
    let disk = Disk::new(SIZE);
    open(&disk).unwrap().set_len(200_000).unwrap();
    let mut image = disk.cut(disk.steps(), Unsynced::Kept);
    image.truncate(100_000);
    assert!(open(&Disk::with(image)).is_err());
}

#[test]
fn a_label_with_any_flipped_bit_does_not_count() {
    let disk = Disk::new(SIZE);
    for len in [100, 200] {
        open(&disk).unwrap().set_len(len).unwrap();
    }
    let image = disk.cut(disk.steps(), Unsynced::Kept);
    for bit in 0..LABEL_BYTES * 8 {
        let mut damaged = image.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let storage = open(&Disk::with(damaged)).unwrap();
        assert_eq!(storage.len().unwrap(), 100, "slot 0 had 200 and bit {bit} of it is wrong");
    }
}

/// After a cut at any step the length is the last one that was synced, or a later one.
#[test]
fn no_cut_loses_a_length() {
    let disk = Disk::new(SIZE);
    let lens = [10, 70_000, 3, 5, 100_000, 0, 9];
    let storage = open(&disk).unwrap();
    let mut synced = vec![(disk.steps(), 0)];
    for (at, len) in lens.into_iter().enumerate() {
        storage.set_len(len).unwrap();
        if at % 2 == 0 {
            storage.sync_data().unwrap();
            synced.push((disk.steps(), at + 1));
        }
    }
    for steps in 0..=disk.steps() {
        let kept = synced.iter().rev().find(|(at, _)| *at <= steps).map_or(0, |(_, count)| *count);
        let torn = (0..8).map(Unsynced::Torn);
        for unsynced in torn.chain([Unsynced::Lost, Unsynced::Kept]) {
            let image = disk.cut(steps, unsynced);
            let found = open(&Disk::with(image)).unwrap().len().unwrap();
            let all: Vec<u64> = [0].into_iter().chain(lens).collect();
            assert!(all[kept..].contains(&found), "cut at {steps}: {found}, {unsynced:?}");
        }
    }
}
