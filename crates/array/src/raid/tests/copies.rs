//! What is copied is compared first: blocks that look right where they are, and are older than what was written
//! last.

use super::upkeep::redundant;
use super::*;
use crate::crc32c;
use crate::raid::{Heal, Healed};

/// The stripe that is looked at.
const STRIPE: u32 = 1;

/// A block that ends in its own CRC, as those of file systems do: an older one looks as right as the newest.
fn sealed(column: usize, row: usize, version: u64) -> Vec<u8> {
    let mut block = block(column as u64 * 100 + row as u64 + version * 10_000);
    let crc = crc32c(&block[..BLOCK_BYTES - 4]).to_le_bytes();
    block[BLOCK_BYTES - 4..].copy_from_slice(&crc);
    block
}

const NEWEST: u64 = 9;

/// A rig with such blocks in one stripe.
async fn written(level: Option<Level>, members: u16) -> Rig {
    let rig = Rig::new(level, members);
    let column = |column: usize| {
        let mut buf = Buf::alloc(CLUSTER_BYTES).unwrap();
        for (row, to) in buf.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            to.copy_from_slice(&sealed(column, row, NEWEST));
        }
        (column, buf.freeze())
    };
    let data: Vec<_> = (0..rig.set.shape().columns()).map(column).collect();
    rig.raid.write_fresh(&rig.set, STRIPE, &data, FLAGS).await.unwrap();
    rig
}

/// What their owner knows of them.
fn known(rig: &Rig) -> impl Fn(usize, usize) -> Option<u32> + use<> {
    let shape = rig.set.shape();
    move |column, row| {
        let slot = shape.slot(STRIPE, column);
        Some(block_checksum(SET, slot, row, &sealed(column, row, NEWEST)))
    }
}

/// The places of a block: the disk, and its byte.
fn places(rig: &Rig, strip: usize, row: usize) -> Vec<(usize, u64)> {
    let holders = rig.set.holders(STRIPE, strip);
    let place = |seat: Seat| (usize::from(seat.disk.0), rig.set.byte_at(seat, STRIPE, row));
    holders.iter().map(|holder| place(holder.seat)).collect()
}

/// A disk has an older version of a block, as when it lost what was written last.
fn age(rig: &Rig, (disk, at): (usize, u64), row: usize, version: u64) {
    rig.disks[disk].put(at, &sealed(0, row, version));
}

fn held(rig: &Rig, (disk, at): (usize, u64)) -> Vec<u8> {
    rig.disks[disk].held(at)
}

/// Nobody has a block of column 0 any more: each copy of it is another older one, and the parities have rotted.
fn lose(rig: &Rig, row: usize) -> Vec<((usize, u64), Vec<u8>)> {
    let shape = rig.set.shape();
    for (version, place) in (1..).zip(places(rig, 0, row)) {
        age(rig, place, row, version);
    }
    for parity in shape.columns()..shape.strips() {
        rig.corrupt(STRIPE, parity, row);
    }
    let strips = (0..1).chain(shape.columns()..shape.strips());
    let all = strips.flat_map(|strip| places(rig, strip, row));
    all.map(|place| (place, held(rig, place))).collect()
}

fn heal_of(rig: &Rig, row: usize) -> Heal {
    let (slot, crc) = (rig.set.shape().slot(STRIPE, 0), known(rig)(0, row).unwrap());
    let (disk, _) = places(rig, 0, row)[0];
    Heal { set: SET, slot, block: row, crc, disk: DiskId(disk as u16) }
}

#[test]
fn a_heal_takes_nothing_that_is_not_what_was_written_last() {
    on_a_core(async {
        for (level, members) in redundant() {
            let rig = written(level, members).await;
            let before = lose(&rig, 7);
            let healed = rig.raid.heal(&rig.set, &heal_of(&rig, 7)).await;
            assert_eq!(healed, Ok(Healed::NoSource), "{level:?}");
            for (place, bytes) in before {
                assert!(held(&rig, place) == bytes, "{level:?}: it is not written over");
            }
        }
        // What one copy of three, or one parity of two, has wrong the other one gives.
        for (level, members) in [(None, 3), (Some(Level::Raid6), 4)] {
            let rig = written(level, members).await;
            let broken = places(&rig, 0, 7);
            age(&rig, broken[0], 7, 1);
            match level {
                None => age(&rig, broken[1], 7, 2),
                Some(_) => _ = rig.corrupt(STRIPE, rig.set.shape().columns(), 7),
            }
            let healed = rig.raid.heal(&rig.set, &heal_of(&rig, 7)).await;
            assert_eq!(healed, Ok(Healed::Healed), "{level:?}");
            assert!(held(&rig, broken[0]) == sealed(0, 7, NEWEST), "{level:?}");
        }
    });
}

#[test]
fn a_scrub_repairs_nothing_with_what_is_not_what_was_written_last() {
    on_a_core(async {
        for (level, members) in redundant() {
            let rig = written(level, members).await;
            let known = known(&rig);
            let before = lose(&rig, 7);
            let found = rig.raid.scrub_stripe(&rig.set, STRIPE, contents(&known)).await.unwrap();
            assert_eq!(found.doubted, [(0, 7)], "{level:?}: it may be lost");
            assert_eq!((found.bad, found.repaired), (0, 0), "{level:?}: nothing proves more");
            for (place, bytes) in before {
                assert!(held(&rig, place) == bytes, "{level:?}: it is not written over");
            }
        }
    });
}

/// An older block of the data does not become what the parity counts on.
#[test]
fn a_scrub_restores_what_was_written_last() {
    on_a_core(async {
        for (level, members) in redundant() {
            let rig = written(level, members).await;
            let shape = rig.set.shape();
            let known = known(&rig);
            // As many as the level bears.
            let mut wrong = places(&rig, 0, 7);
            wrong.truncate(rig.losses_max());
            wrong.iter().for_each(|place| age(&rig, *place, 7, 1));
            if shape.parity() == 2 {
                rig.corrupt(STRIPE, shape.columns(), 7);
            }
            let found = rig.raid.scrub_stripe(&rig.set, STRIPE, contents(&known)).await.unwrap();
            let bad = rig.losses_max() as u32;
            assert_eq!((found.bad, found.repaired), (bad, bad), "{level:?} {found:?}");
            for place in places(&rig, 0, 7) {
                assert!(held(&rig, place) == sealed(0, 7, NEWEST), "{level:?}");
            }
            let again = rig.raid.scrub_stripe(&rig.set, STRIPE, contents(&known)).await.unwrap();
            assert_eq!((again.bad, again.doubted), (0, vec![]), "{level:?}: all agree");
        }
    });
}

/// A disk that says that it took a block, and has something else when it is asked.
#[test]
fn what_a_disk_does_not_keep_is_not_repaired() {
    on_a_core(async {
        for (level, members) in redundant() {
            for is_scrub in [false, true] {
                let rig = written(level, members).await;
                let (disk, at) = places(&rig, 0, 7)[0];
                age(&rig, (disk, at), 7, 1);
                // It is read once to be looked at, and once when it was written.
                rig.disks[disk].flip_after(1, at + 100);
                match is_scrub {
                    false => {
                        let healed = rig.raid.heal(&rig.set, &heal_of(&rig, 7)).await;
                        assert_eq!(healed, Ok(Healed::NotWritten), "{level:?}");
                    }
                    true => {
                        let known = known(&rig);
                        let found = rig.raid.scrub_stripe(&rig.set, STRIPE, contents(&known)).await;
                        let found = found.unwrap();
                        let counts = (found.bad, found.repaired, found.refused);
                        assert_eq!(counts, (1, 0, 1), "{level:?}");
                    }
                }
                let counts = rig.raid.disks().get(DiskId(disk as u16)).unwrap().counts();
                assert_eq!((counts.healed, counts.mismatches), (0, 2), "{level:?}: twice wrong");
            }
        }
    });
}

/// It is no error of the new disk, and restored there like any other block when somebody has it again.
#[test]
fn what_nobody_has_comes_to_a_new_disk_as_lost() {
    on_a_core(async {
        for is_scrub in [false, true] {
            let rig = written(Some(Level::Raid1), 2).await;
            let (known, slot) = (known(&rig), rig.set.shape().slot(STRIPE, 0));
            let [old, gone] = places(&rig, 0, 7)[..] else { panic!("a mirror of two") };
            age(&rig, old, 7, 1);
            rig.raid.disks().remove(DiskId(gone.0 as u16));
            let seat = Seat { disk: DiskId(2), chunk: 1 };
            rig.set.set_replacement(1, seat).unwrap();
            let proof = Proof { crcs: &known, is_sure: true, ..Proof::NOTHING };
            let done = rig.raid.refresh_stripe(&rig.set, STRIPE, proof).await.unwrap();
            assert_eq!((done.left, done.unproved), (0, vec![(0, 7)]));
            rig.raid.blame_lost(&rig.set, slot, 7).await;
            rig.disks[old.0].put(old.1, &sealed(0, 7, NEWEST));
            if is_scrub {
                let found = rig.raid.scrub_stripe(&rig.set, STRIPE, contents(&known)).await;
                assert_eq!(found.map(|found| (found.bad, found.repaired)), Ok((1, 1)));
            } else {
                let heal = Heal { disk: seat.disk, ..heal_of(&rig, 7) };
                assert_eq!(rig.raid.heal(&rig.set, &heal).await, Ok(Healed::Healed));
            }
            let place = (2, rig.set.byte_at(seat, STRIPE, 7));
            assert!(held(&rig, place) == sealed(0, 7, NEWEST));
            let mismatches = |disk| rig.raid.disks().get(DiskId(disk)).unwrap().counts().mismatches;
            assert_eq!([mismatches(old.0 as u16), mismatches(2)], [1, 0]);
        }
    });
}
