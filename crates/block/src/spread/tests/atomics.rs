//! Atomic operations over a border, beside whoever works on one side of it or on both.

use super::*;

/// Four blocks on each side of the first border.
const AT: u64 = MIB - 4 * BLOCK;
const LEN: u64 = 8 * BLOCK;

/// A volume in which an atomic write over the border has changed slice 1, and not yet slice 0.
async fn half_done() -> (Faulty, IoFuture<()>) {
    let faulty = Faulty::of_two();
    faulty.disk.write(AT, summed(LEN, 1), VOLATILE).await.unwrap();
    faulty.slices[1].inject(Rule::always(Operation::Write, Fault::HoldAnswer).times(1));
    let mut atomic = faulty.disk.write(AT, summed(LEN, 2), ATOMIC);
    assert!(polled(&mut atomic).await.is_none());
    until_held(&faulty.slices[1], 1).await;
    let (old, new) = (bytes_of(&summed(LEN, 1)), bytes_of(&summed(LEN, 2)));
    assert!(read(&*faulty.slices[1], MIB, LEN / 2).await == new[LEN as usize / 2..]);
    assert!(read(&*faulty.slices[0], AT, LEN / 2).await == old[..LEN as usize / 2]);
    (faulty, atomic)
}

#[test]
fn who_reads_over_a_border_sees_all_of_it_or_nothing() {
    on_a_core(async {
        let (faulty, atomic) = half_done().await;
        let mut seen = faulty.disk.read(AT, LEN as usize);
        assert!(is_waiting(&mut seen).await, "half of an atomic write can be read");
        faulty.slices[1].release();
        atomic.await.unwrap();
        assert!(bytes_of(&seen.await.unwrap()) == bytes_of(&summed(LEN, 2)));
    });
}

/// Whoever has seen the new bytes on one side does not find the old ones on the other.
#[test]
fn who_reads_one_side_waits_for_the_other() {
    on_a_core(async {
        let (faulty, atomic) = half_done().await;
        let mut sides = [AT, MIB].map(|at| faulty.disk.read(at, LEN as usize / 2));
        for side in &mut sides {
            assert!(
                is_waiting(side).await,
                "one side of an atomic write can be read before the other"
            );
        }
        faulty.slices[1].release();
        atomic.await.unwrap();
        let new = bytes_of(&summed(LEN, 2));
        for (side, wanted) in sides.into_iter().zip(new.chunks(LEN as usize / 2)) {
            assert!(bytes_of(&side.await.unwrap()) == wanted);
        }
    });
}

#[test]
fn who_changes_one_side_waits_for_both() {
    on_a_core(async {
        let (faulty, atomic) = half_done().await;
        let disk = &faulty.disk;
        let mut plain = disk.write(AT, equal(BLOCK, 7), VOLATILE);
        assert!(is_waiting(&mut plain).await, "a write in the middle of an atomic one");
        assert_eq!(disk.write_now(AT + BLOCK, &[8; 512], VOLATILE), None);
        let mut unmap = disk.unmap(MIB, BLOCK);
        assert!(is_waiting(&mut unmap).await, "an unmap in the middle of an atomic write");
        let mut compared = disk.compare_and_write(
            MIB + BLOCK,
            summed(LEN, 1).slice(5 * 512..6 * 512),
            equal(BLOCK, 9),
            VOLATILE,
        );
        assert!(is_waiting(&mut compared).await, "a comparison in the middle of an atomic write");
        let mut both = disk.write(AT + 3 * BLOCK, equal(2 * BLOCK, 6), ATOMIC);
        assert!(is_waiting(&mut both).await, "an atomic write in the middle of another one");
        faulty.slices[1].release();
        atomic.await.unwrap();
        plain.await.unwrap();
        unmap.await.unwrap();
        both.await.unwrap();
        assert!(matches!(compared.await, Ok(Compared::Miscompare { .. })), "it compares the new");
        let mut wanted = bytes_of(&summed(LEN, 2));
        let mut put = |block: usize, byte: u8| wanted[block * 512..(block + 1) * 512].fill(byte);
        put(0, 7);
        put(3, 6);
        let found = read(&**disk, AT, LEN).await;
        // These two went to the same block, in any order.
        put(4, found[4 * 512]);
        assert!(found == wanted && [0, 6].contains(&found[4 * 512]));
    });
}

/// An atomic operation may not read, or write, between two moments of a change that was there first.
#[test]
fn an_atomic_operation_waits_for_changes_of_one_side() {
    on_a_core(async {
        let faulty = Faulty::of_two();
        let (disk, slice) = (&faulty.disk, &faulty.slices[1]);
        disk.write(AT, summed(LEN, 1), VOLATILE).await.unwrap();
        slice.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let mut plain = disk.write(MIB, equal(BLOCK, 7), VOLATILE);
        assert!(polled(&mut plain).await.is_none());
        let mut compared = disk.compare_and_write(AT, summed(LEN, 1), summed(LEN, 2), VOLATILE);
        assert!(is_waiting(&mut compared).await, "it compares while a write is under way");
        slice.release();
        plain.await.unwrap();
        let first_of_slice_1 = 4 * 512;
        let offset_bytes = first_of_slice_1;
        assert_eq!(compared.await, Ok(Compared::Miscompare { offset_bytes }));
        let found = read(&**disk, AT, LEN).await;
        assert!(found[..first_of_slice_1] == bytes_of(&summed(LEN, 1))[..first_of_slice_1]);
        assert!(found[first_of_slice_1..][..512] == [7; 512]);
    });
}

/// Pages of 4 MiB, atomic operations of 1 MiB: the middle of a page is out of their reach.
#[test]
fn who_is_far_from_a_border_waits_for_nobody() {
    on_a_core(async {
        let faulty = Faulty::new(2, dealing(4 * MIB, &[0, 1]), 16 * MIB);
        let disk = &faulty.disk;
        let border = 4 * MIB;
        faulty.slices[1].inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        // As far to either side as it can be.
        let mut first = disk.write(border - MIB + BLOCK, equal(MIB, 1), ATOMIC);
        let mut second = disk.write(border - BLOCK, equal(MIB, 1), ATOMIC);
        assert!(is_waiting(&mut first).await && is_waiting(&mut second).await);
        for at in [border - MIB - BLOCK, border + MIB, MIB, 7 * MIB - BLOCK] {
            assert_eq!(disk.write_now(at, &[3; 512], VOLATILE), Some(Ok(())), "{at}");
            assert_eq!(polled(&mut disk.unmap(at, BLOCK)).await, Some(Ok(())), "{at}");
            let mut read = disk.read(at, 512);
            assert!(polled(&mut read).await.is_some(), "{at}");
        }
        for at in [border - MIB + BLOCK, border + MIB - 2 * BLOCK] {
            assert_eq!(disk.write_now(at, &[3; 512], VOLATILE), None, "{at}");
        }
        // Another border, whose stripes are others.
        assert_eq!(disk.write_now(8 * MIB, &[3; 512], VOLATILE), Some(Ok(())));
        faulty.slices[1].release();
        first.await.unwrap();
        second.await.unwrap();
    });
}

#[test]
fn if_the_side_of_another_slice_fails_nothing_is_changed() {
    for at in [AT, AT + MIB] {
        on_a_core(async move {
            let faulty = Faulty::of_two();
            let disk = &faulty.disk;
            disk.write(at, summed(LEN, 1), VOLATILE).await.unwrap();
            let refused = BlockError::Unreachable;
            for operation in [Operation::Write, Operation::ReadModifyWrite] {
                faulty.slices[1].inject(Rule::always(operation, Fault::Fail(refused)));
            }
            let written = disk.write(at, summed(LEN, 2), ATOMIC).await;
            let compared = disk.compare_and_write(at, summed(LEN, 1), summed(LEN, 3), VOLATILE);
            assert_eq!((written, compared.await), (Err(refused), Err(refused)));
            assert_eq!(disk.or_write(at, equal(LEN, 0xff), VOLATILE).await, Err(refused));
            faulty.slices[1].heal();
            assert!(read(&**disk, at, LEN).await == bytes_of(&summed(LEN, 1)));
        });
    }
}

/// The place of a difference counts from the start of the whole range, and nothing is written on either side.
#[test]
fn a_miscompare_names_its_place_on_either_side() {
    on_a_core(async {
        let faulty = Faulty::of_two();
        let disk = &faulty.disk;
        for at in [AT, AT + MIB, AT + 2 * MIB] {
            disk.write(at, summed(LEN, 1), VOLATILE).await.unwrap();
            for offset_bytes in [0, 4 * 512 - 1, 4 * 512, LEN as usize - 1] {
                let mut compare = bytes_of(&summed(LEN, 1));
                compare[offset_bytes] ^= 0x80;
                let compare = data(compare);
                let compared = disk.compare_and_write(at, compare, equal(LEN, 2), VOLATILE).await;
                assert_eq!(compared, Ok(Compared::Miscompare { offset_bytes }));
            }
            assert!(read(&**disk, at, LEN).await == bytes_of(&summed(LEN, 1)), "at {at}");
        }
    });
}
