//! Who shares the lock of a border, and who does not.

use super::*;

use proptest::prelude::*;

use super::super::borders::Borders;
use crate::locks::Access;

const PAGE_BYTES: u64 = Dealing::PAGE_BYTES;

fn volume(pattern: &[u8], pages: u64) -> Faulty {
    let slices = usize::from(*pattern.iter().max().unwrap()) + 1;
    Faulty::new(slices, dealing(PAGE_BYTES, pattern), pages * PAGE_BYTES)
}

/// Writes over this border, which must not wait for anybody.
async fn write_over(faulty: &Faulty, border: u64) {
    let at = border * PAGE_BYTES - BLOCK;
    let mut atomic = faulty.disk.write(at, summed(2 * BLOCK, 3), ATOMIC);
    assert!(
        !is_waiting(&mut atomic).await,
        "border {border} waits for a slice that it has none of"
    );
    assert!(read(&*faulty.disk, at, 2 * BLOCK).await == bytes_of(&summed(2 * BLOCK, 3)));
}

/// A plain write that hangs holds borders of its own slice, however many pages there are.
#[test]
fn a_slice_that_hangs_holds_no_border_between_others() {
    on_a_core(async {
        let faulty = volume(&[0, 1, 2], 67);
        faulty.slices[1].inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let mut plain = faulty.disk.write(PAGE_BYTES, equal(BLOCK, 1), VOLATILE);
        assert!(is_waiting(&mut plain).await);
        // All those between slices 2 and 0.
        for border in (3..67).step_by(3) {
            write_over(&faulty, border).await;
        }
        let mut atomic = faulty.disk.write(PAGE_BYTES - BLOCK, summed(2 * BLOCK, 1), ATOMIC);
        assert!(is_waiting(&mut atomic).await, "an atomic write in the middle of a plain one");
        faulty.slices[1].release();
        plain.await.unwrap();
        atomic.await.unwrap();
    });
}

#[test]
fn the_middle_of_what_is_long_holds_nothing() {
    on_a_core(async {
        let faulty = volume(&[0, 0, 0, 0, 1, 2], 36);
        faulty.slices[0].inject(Rule::always(Operation::Unmap, Fault::Hang).times(1));
        let mut unmap = faulty.disk.unmap(0, 4 * PAGE_BYTES);
        assert!(is_waiting(&mut unmap).await);
        for border in (5..36).step_by(6) {
            write_over(&faulty, border).await;
        }
        faulty.slices[0].release();
        unmap.await.unwrap();
    });
}

/// The smallest pages: what is over one border ends near the next one.
#[test]
fn atomic_operations_over_neighbouring_borders_are_apart() {
    on_a_core(async {
        let faulty = Faulty::new(3, dealing(MIB, &[0, 1, 2]), 3 * MIB);
        let disk = &faulty.disk;
        faulty.slices[1].inject(Rule::always(Operation::Write, Fault::HoldAnswer).times(1));
        let mut first = disk.write(MIB - BLOCK, equal(MIB, 1), ATOMIC);
        assert!(is_waiting(&mut first).await);
        let mut second = disk.write(MIB + BLOCK, equal(MIB, 2), ATOMIC);
        assert!(is_waiting(&mut second).await, "both are about the page between");
        let mut beside = disk.write(2 * MIB - 2 * BLOCK, equal(BLOCK, 3), VOLATILE);
        assert!(is_waiting(&mut beside).await, "a plain write in the middle of an atomic one");
        faulty.slices[1].release();
        first.await.unwrap();
        second.await.unwrap();
        beside.await.unwrap();
    });
}

/// As there are more borders than words: 1024.
#[test]
fn borders_that_share_a_lock_are_between_the_same_slices() {
    let long: Vec<u8> = (0..1000u32).map(|page| (page * page % 13) as u8).collect();
    for pattern in [&[0, 1][..], &[0, 1, 2], &[0, 0, 0, 1], &[4, 0, 1, 2, 3], &long] {
        let dealing = dealing(PAGE_BYTES, pattern);
        let borders = Borders::new(&dealing, MIB as u32);
        let over = |border: u64| borders.near(border * PAGE_BYTES - BLOCK, 2 * BLOCK).unwrap();
        let sides =
            |border: u64| [border - 1, border].map(|page| dealing.slice_at(page * PAGE_BYTES));
        for held in [1, 2, 3, 999, 1023, 1024] {
            let _held = borders.try_lock(over(held), Access::Exclusive).unwrap();
            let is_shared =
                |border: &u64| borders.try_lock(over(*border), Access::Shared).is_none();
            let sharing: Vec<u64> = (1..5000).filter(is_shared).collect();
            assert!(sharing.contains(&held) && sharing.len() > 1, "{sharing:?}");
            for border in sharing {
                assert_eq!(sides(border), sides(held), "{border} and {held}");
            }
        }
    }
}

proptest! {
    /// Whatever the pages are: what is over a border keeps everybody away who is about one of its bytes.
    #[test]
    fn who_meets_an_atomic_operation_shares_a_lock_with_it(
        page_shift in 10..25u32,
        pattern in prop::collection::vec(0..4u8, 2..9),
        border in 1..3000u64,
        before in 1..2047u64,
        blocks in 1..2048u64,
        other in (0..1u64 << 40, 1..9000u64),
    ) {
        let dealing = dealing(1 << page_shift, &pattern);
        prop_assume!(!dealing.is_uniform());
        let borders = Borders::new(&dealing, MIB as u32);
        let len = (before + blocks).min(2048) * BLOCK;
        let at = (border << page_shift).saturating_sub(before * BLOCK);
        let held = borders.near(at, len).and_then(|near| borders.try_lock(near, Access::Exclusive));
        prop_assert!(held.is_some(), "it is over a border");
        // A range that ends behind its first byte and begins before its last one.
        let (place, blocks) = other;
        let from = at.saturating_sub((blocks - 1) * BLOCK);
        let from = from + place % (at + len - from) / BLOCK * BLOCK;
        let near = borders.near(from, blocks * BLOCK).unwrap();
        prop_assert!(borders.try_lock(near, Access::Shared).is_none());
    }
}
