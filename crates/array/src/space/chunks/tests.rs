//! Chunks are handed out evenly, and what is kept stays.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn chunks(sizes: &[u32]) -> Chunks {
    let mut chunks = Chunks::default();
    for (id, size) in sizes.iter().enumerate() {
        chunks.add_disk(DiskId(id as u16), *size);
    }
    chunks
}

#[test]
fn sets_that_are_filled_side_by_side_lie_apart_and_pairs_change() {
    let mut chunks = chunks(&[100; 6]);
    let mut pairs = BTreeSet::new();
    for _ in 0..40 {
        let mut busy = Vec::new();
        for _ in 0..3 {
            let set = chunks.allocate_apart(2, &busy);
            let set = set.or_else(|| chunks.allocate(2, &[])).unwrap();
            assert!(set.iter().all(|(disk, _)| !busy.contains(disk)), "{set:?} beside {busy:?}");
            busy.extend(set.iter().map(|(disk, _)| *disk));
            let mut disks = [set[0].0, set[1].0];
            disks.sort_unstable();
            pairs.insert(disks);
        }
    }
    assert_eq!(pairs.len(), 15, "a rebuild of any disk reads from all others");
    let used: Vec<_> = (0..6).map(|id| chunks.counts(DiskId(id)).unwrap().1).collect();
    assert_eq!(used, [40; 6]);
}

#[test]
fn lying_apart_never_costs_space_or_evenness() {
    // The small ones would be full long before the large ones.
    let mut uneven = chunks(&[100, 100, 20, 20]);
    uneven.allocate(2, &[]).unwrap();
    for _ in 0..3 {
        assert!(uneven.allocate_apart(2, &[DiskId(2), DiskId(3)]).is_some());
    }
    assert_eq!(uneven.allocate_apart(2, &[DiskId(0), DiskId(1)]).map(|_| ()), Some(()));
    for _ in 0..4 {
        uneven.allocate_apart(2, &[DiskId(0), DiskId(1)]);
    }
    assert_eq!(uneven.allocate_apart(2, &[DiskId(0), DiskId(1)]), None, "too uneven");
    assert_eq!(uneven.allocate_apart(2, &[DiskId(1), DiskId(2), DiskId(3)]), None, "too few");
}

#[test]
fn spare_space_is_for_rebuilds() {
    let mut chunks = chunks(&[4, 4, 4]);
    chunks.set_spare(5);
    assert_eq!(chunks.sets_possible(2), 3);
    for _ in 0..3 {
        chunks.allocate(2, &[]).unwrap();
    }
    assert_eq!((chunks.allocate(2, &[]), chunks.free()), (None, 6));
    for _ in 0..6 {
        chunks.allocate_one(&[]).unwrap();
    }
    assert_eq!(chunks.allocate_one(&[]), None);
}

#[test]
fn a_rebuild_of_data_leaves_what_metadata_could_need() {
    let mut full = chunks(&[8, 8, 8]);
    full.set_spare(3);
    full.set_spare_sets(1, 3);
    for _ in 0..9 {
        full.allocate(2, &[]).unwrap();
    }
    full.set_gives(DiskId(0), Gives::Seats);
    let mut kept = (1..3).map(|id| (DiskId(id), 2)).collect();
    full.keep_maps(&mut kept);
    assert_eq!(kept.into_values().collect::<Vec<_>>(), [1, 1]);
    assert_eq!(full.takers(&[]), [DiskId(1), DiskId(2)]);
    for _ in 0..2 {
        assert!(full.allocate_beside_maps(&[DiskId(0)], &[]).is_some());
    }
    assert_eq!(
        (full.allocate_beside_maps(&[], &[]), full.takers(&[]), full.free()),
        (None, vec![], 2)
    );
    let metadata = full.allocate_one(&[]).unwrap();
    assert_ne!(full.allocate_one(&[metadata.0]).unwrap().0, metadata.0);
}

#[test]
fn what_is_kept_for_metadata_lies_on_as_many_disks_as_it_does() {
    let mut uneven = chunks(&[12, 2, 12]);
    uneven.set_spare_sets(1, 3);
    uneven.set_gives(DiskId(2), Gives::Seats);
    assert_eq!(uneven.allocate_beside_maps(&[DiskId(0)], &[]), Some((DiskId(1), 0)));
    assert_eq!(uneven.allocate_beside_maps(&[DiskId(0)], &[]), None, "the pair needs its last one");
    assert_eq!(uneven.takers(&[]), [DiskId(0)]);
    assert!(uneven.allocate_beside_maps(&[], &[]).is_some(), "of the large one");
    // Where none can be had at all, nothing is kept by waiting.
    uneven.allocate_on(DiskId(1)).unwrap();
    assert!(uneven.allocate_beside_maps(&[], &[]).is_some());
}

#[test]
fn where_metadata_can_have_no_three_copies_data_leaves_it_two() {
    let mut full = chunks(&[40, 40, 2, 2]);
    full.set_spare_sets(1, 3);
    for disk in [2, 2, 3] {
        full.allocate_on(DiskId(disk)).unwrap();
    }
    full.set_gives(DiskId(3), Gives::Seats);
    let taken = std::iter::from_fn(|| full.allocate_beside_maps(&[], &[])).count();
    assert_eq!((taken, full.free()), (78, 2), "a chunk of each of two disks");
    assert_eq!(full.takers(&[]), []);
    let needed: Vec<bool> = (0..3).map(|disk| !full.maps_do_without(DiskId(disk))).collect();
    assert_eq!(needed, [true, true, false]);
    full.set_gives(DiskId(1), Gives::Nothing);
    assert!(!full.maps_do_without(DiskId(1)), "also when it is closed");
    full.set_gives(DiskId(1), Gives::Chunks);
    // Where there is none for two copies, waiting keeps nothing.
    full.allocate_on(DiskId(0)).unwrap();
    assert!(full.allocate_beside_maps(&[], &[]).is_some());
}

#[test]
fn metadata_that_goes_first_leaves_data_no_more_than_before() {
    let mut full = chunks(&[1, 1, 1]);
    full.set_spare_sets(1, 3);
    full.allocate_one(&[DiskId(0), DiskId(1)]).unwrap();
    assert_eq!(full.allocate_beside_maps(&[], &[]), None);
}

#[test]
fn what_is_kept_for_metadata_is_not_on_disks_that_leave() {
    let mut full = chunks(&[4, 4, 1, 1]);
    full.set_spare_sets(1, 3);
    let leaving = [DiskId(0), DiskId(1)];
    assert!(full.clone().allocate_beside_maps(&leaving, &[]).is_some());
    assert_eq!(full.allocate_beside_maps(&leaving, &leaving), None, "they stay with one each");
}

#[test]
fn who_takes_over_from_a_disk_does_not_depend_on_whether_it_is_closed() {
    let mut full = chunks(&[1, 1, 1, 8]);
    full.set_spare_sets(1, 3);
    let open = full.takers(&[DiskId(3)]);
    full.set_gives(DiskId(3), Gives::Nothing);
    assert_eq!(open, full.takers(&[DiskId(3)]));
}

#[test]
fn a_small_disk_does_not_keep_the_large_ones_from_being_used() {
    for (sizes, width) in [
        (&[1024, 1024, 32][..], 2),
        (&[2048, 2048, 16], 2),
        (&[1024, 32], 1),
        (&[64, 64, 64, 8], 3),
    ] {
        let mut chunks = chunks(sizes);
        let sets = u64::from(sizes.iter().sum::<u32>()) / 256 + 1;
        let copies = sizes.len().min(3);
        chunks.set_spare(sets * copies as u64);
        chunks.set_spare_sets(sets, copies);
        while chunks.allocate(width, &[]).is_some() {}
        let over = chunks.free() - chunks.spare();
        assert!(over < sets + 2 * width as u64, "{sizes:?}: {over} chunks are left over");
    }
}

#[test]
fn closed_and_avoided_disks_give_nothing() {
    let mut chunks = chunks(&[4, 4, 4]);
    chunks.set_gives(DiskId(1), Gives::Nothing);
    assert_eq!((chunks.free(), chunks.disks_open()), (8, 2));
    assert_eq!(chunks.allocate(3, &[]), None);
    assert_eq!(chunks.allocate(2, &[DiskId(0)]), None);
    assert_eq!(chunks.allocate_one(&[DiskId(0)]), Some((DiskId(2), 0)));
    assert_eq!(chunks.counts(DiskId(2)), Some((4, 1)));
}

#[test]
fn a_disk_that_is_away_gives_a_seat_where_it_is_needed() {
    let mut chunks = chunks(&[4, 4, 2]);
    chunks.set_gives(DiskId(2), Gives::Seats);
    assert_eq!((chunks.disks_open(), chunks.disks_away(), chunks.free()), (2, 1, 8));
    assert_eq!(chunks.allocate(3, &[]), None);
    assert_eq!(chunks.sets_possible_with_seats(3, 1), 2);
    let set = chunks.allocate_seats(3, 1, false).unwrap();
    assert_eq!(set.iter().map(|(disk, _)| disk.0).max(), Some(2));
    chunks.set_spare(5);
    assert_eq!(chunks.allocate_seats(3, 1, false), None, "that would be of what is kept");
    let kept = chunks.clone().allocate_seats(3, 1, true);
    assert!(kept.is_some(), "which is better than that nothing goes on");
    chunks.set_spare(0);
    assert!(chunks.allocate_seats(3, 1, false).is_some());
    assert_eq!(chunks.allocate_seats(3, 1, false), None, "the one that is away is full");
    assert_eq!(chunks.allocate_one(&[DiskId(0), DiskId(1)]), None, "nothing moves there");
}

#[test]
fn sets_that_exist_claim_their_chunks() {
    let mut chunks = chunks(&[2]);
    assert!(chunks.claim(DiskId(0), 0));
    assert!(!chunks.claim(DiskId(0), 0) && !chunks.claim(DiskId(0), 2));
    assert!(!chunks.claim(DiskId(1), 0));
    assert_eq!(chunks.allocate_one(&[]), Some((DiskId(0), 1)));
    chunks.release(DiskId(0), 0);
    chunks.release(DiskId(0), 1);
    chunks.remove_disk(DiskId(0));
}

#[test]
fn equal_disks_meet_each_other() {
    let mut chunks = chunks(&[40; 6]);
    let pairs: BTreeSet<_> = (0..60)
        .map(|_| {
            let mut pair = chunks.allocate(2, &[]).unwrap();
            pair.sort();
            (pair[0].0, pair[1].0)
        })
        .collect();
    assert_eq!(pairs.len(), 15, "every disk shares sets with every other");
}

proptest! {
    /// Greedy in one step is greedy in all: nothing is left that could have made a set.
    #[test]
    fn disks_of_any_size_are_used_as_far_as_possible(
        sizes in prop::collection::vec(0..30_u32, 1..8),
        width in 1..5_usize,
    ) {
        let mut chunks = chunks(&sizes);
        let possible = chunks.sets_possible(width);
        let mut taken = BTreeSet::new();
        let mut sets = 0;
        while let Some(set) = chunks.allocate(width, &[]) {
            let disks: BTreeSet<_> = set.iter().map(|(disk, _)| *disk).collect();
            prop_assert_eq!(disks.len(), width);
            for chunk in set {
                prop_assert!(chunk.1 < sizes[chunk.0.0 as usize] && taken.insert(chunk));
            }
            sets += 1;
        }
        prop_assert_eq!(sets, possible);
        // The bound is exact: with one set more, some set would need two chunks of a disk.
        let more: u64 = sizes.iter().map(|size| u64::from(*size).min(sets + 1)).sum();
        prop_assert!(more < (sets + 1) * width as u64);
    }

    /// What is told to be possible is, and where none is told to be there is none.
    #[test]
    fn what_is_kept_for_metadata_is_kept_and_counted(
        sizes in prop::collection::vec(1..60_u32, 1..8),
        width in 1..5_usize,
        reserve in 1..6_u64,
    ) {
        let mut chunks = chunks(&sizes);
        chunks.set_spare_sets(reserve, sizes.len().min(3));
        let possible = chunks.sets_possible(width);
        let had_room = chunks.keeps_maps(&sizes);
        let sets = std::iter::from_fn(|| chunks.allocate(width, &[])).count() as u64;
        prop_assert!(sets >= possible, "{} of {}", sets, possible);
        prop_assert_eq!(chunks.sets_possible(width), 0);
        let free: Vec<u32> = chunks.candidates(&[]).iter().map(|disk| disk.free).collect();
        prop_assert_eq!(chunks.keeps_maps(&free), had_room);
    }

    #[test]
    fn equal_disks_fill_up_evenly(disks in 1..9_usize, width in 1..5_usize, sets in 0..60) {
        let mut chunks = chunks(&vec![30; disks]);
        for _ in 0..sets {
            chunks.allocate(width, &[]);
            let used: Vec<u32> =
                (0..disks).map(|id| chunks.counts(DiskId(id as u16)).unwrap().1).collect();
            prop_assert!(used.iter().max().unwrap() - used.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn disks_of_different_sizes_fill_up_in_proportion(sets in 1..20_u32) {
        let mut chunks = chunks(&[20, 40, 20, 40]);
        for _ in 0..sets {
            chunks.allocate(2, &[]).unwrap();
        }
        let small = chunks.counts(DiskId(0)).unwrap().1;
        let large = chunks.counts(DiskId(1)).unwrap().1;
        prop_assert!((2 * small).abs_diff(large) <= 3, "{} of 20, {} of 40", small, large);
    }
}
