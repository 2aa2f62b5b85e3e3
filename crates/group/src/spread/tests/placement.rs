//! Where volumes are spread.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const TIB: u64 = 1 << 40;

fn rooms_of(free: &[(u16, u64)]) -> Vec<Room> {
    let room = |(member, free_bytes): &(u16, u64)| Room {
        member: MemberId(*member),
        free_bytes: *free_bytes,
    };
    free.iter().map(room).collect()
}

fn wanted(size_bytes: u64, members_max: usize) -> Wanted {
    Wanted { size_bytes, page_bytes: PAGE_BYTES, home: HOME, members_max }
}

fn placed(size_bytes: u64, members_max: usize, free: &[(u16, u64)]) -> Placed {
    place(&wanted(size_bytes, members_max), &rooms_of(free)).expect("it can be placed")
}

fn numbers(placed: &Placed) -> Vec<u16> {
    placed.members.iter().map(|member| member.0).collect()
}

#[test]
fn the_home_and_those_with_the_most_room_take_it_in_turn() {
    let alike = [(4, TIB), (2, TIB), (1, TIB), (3, TIB)];
    let found = placed(GIB, MEMBERS_DEFAULT, &alike);
    assert_eq!((numbers(&found), found.pattern.places()), (vec![1, 2, 3], &[0, 1, 2][..]));
    assert_eq!(found.shortage, None);
    let found = placed(GIB, 3, &[(1, TIB), (2, TIB), (3, 2 * TIB)]);
    assert_eq!((numbers(&found), found.pattern.places()), (vec![1, 3, 2], &[1, 0, 2, 1][..]));
    let found = placed(GIB, 2, &[(1, TIB), (2, 7 * TIB)]);
    assert_eq!(found.pattern.places(), [1, 1, 1, 0, 1, 1, 1, 1], "in turn, and not in blocks");
}

#[test]
fn what_is_small_or_for_one_member_lies_at_its_home_alone() {
    let alike = [(1, TIB), (2, TIB), (3, TIB)];
    for (size_bytes, members_max) in [(GIB - 1, 3), (4096, 16), (TIB, 1)] {
        let found = placed(size_bytes, members_max, &alike);
        assert_eq!((numbers(&found), found.pattern.places()), (vec![1], &[0][..]));
    }
}

#[test]
fn who_has_hardly_any_room_has_no_slice_but_the_home_has_one() {
    let found = placed(TIB, 3, &[(1, TIB), (2, TIB), (3, 16 * GIB)]);
    assert_eq!(numbers(&found), [1, 2]);
    let found = placed(GIB, 3, &[(1, GIB), (2, PAGE_BYTES - 1)]);
    assert_eq!(numbers(&found), [1], "not a page");
    let found = placed(TIB, 2, &[(1, GIB), (2, 100 * TIB)]);
    assert_eq!(found.pattern.pages_of(0, PATTERN_MAX as u64), 1);
    let shortage = found.shortage.expect("its part does not fit").to_string();
    let wanted = "member 1 is full when about 64 GiB of 1 TiB are written: add disks there before that, or spread the \
                  volume over more members";
    assert_eq!(shortage, wanted);
}

#[test]
fn what_cannot_be_placed_says_why() {
    let said = |wanted: Wanted, free: &[(u16, u64)]| {
        place(&wanted, &rooms_of(free)).expect_err("it is refused")
    };
    let alike = [(1, TIB), (2, TIB)];
    assert_eq!(said(wanted(0, 3), &alike), SpreadError::NoSize);
    assert_eq!(said(wanted(GIB, 0), &alike), SpreadError::Members(0));
    assert_eq!(said(wanted(GIB, 17), &alike), SpreadError::Members(17));
    assert_eq!(said(wanted(GIB, 3), &[(2, TIB)]), SpreadError::NoHome(HOME));
    let full = said(wanted(GIB, 3), &[(1, 0), (2, TIB)]).to_string();
    let wanted = "member 1 is to be the home of the volume and has no room: choose another home, add disks there, or \
                  delete volumes or snapshots of it";
    assert_eq!(full, wanted);
}

#[test]
fn a_large_volume_over_many_members_is_placed_in_no_time() {
    let free =
        |number: u16| (number, (3 + u64::from(number)) * TIB - u64::from(number) * (GIB + 1));
    let begun = Instant::now();
    let found = placed(15 * TIB, 16, &(1..=8).map(free).collect::<Vec<_>>());
    // Milliseconds, on a machine that has nothing else to do.
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!((found.members.len(), found.shortage), (8, None));
}

#[test]
fn a_pattern_that_cannot_be_is_not_read() {
    let read = |places: &[u8]| Pattern::try_from(places.to_vec()).map(|pattern| pattern.slices());
    assert_eq!(read(&[0, 2, 1]), Ok(3));
    assert_eq!(read(&[]), Err(PatternError::Places(0)));
    assert_eq!(read(&[0; 65]), Err(PatternError::Places(65)));
    assert_eq!(read(&[0, 16]), Err(PatternError::Number(16)));
    assert_eq!(read(&[0, 2]), Err(PatternError::Unused(1)));
    assert_eq!(SliceSet::try_from(vec![1, 16]), Err(PatternError::Number(16)));
    assert_eq!(Vec::from(set(&[2, 0])), [0, 2]);
}

/// Of members that are alike, very different, and nearly full.
fn any_rooms() -> impl Strategy<Value = Vec<(u16, u64)>> {
    let free = prop_oneof![
        Just(TIB),
        (1_u64..64).prop_map(|gib| gib * GIB),
        1_u64..20 * TIB,
        (0_u64..100).prop_map(|pages| pages * PAGE_BYTES),
    ];
    let free = proptest::collection::vec(free, 1..12);
    free.prop_filter("a home has room", |free| free[0] > 0)
        .prop_map(|free| (1..).zip(free).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_has_pages_by_its_room(
        (free, members_max, pages) in (any_rooms(), 1_usize..=16, 64_u64..1 << 20)
    ) {
        let size_bytes = pages * PAGE_BYTES;
        let found = placed(size_bytes, members_max, &free);
        let mut turned = free.clone();
        turned.reverse();
        prop_assert_eq!(&placed(size_bytes, members_max, &turned), &found);
        let members = found.members.len();
        prop_assert!(members <= members_max && found.members[0] == HOME);

        let free_of = |member: &MemberId| u128::from(free[usize::from(member.0) - 1].1);
        let room: u128 = found.members.iter().map(free_of).sum();
        let places = found.pattern.places();
        let len = places.len() as u128;
        let is_home_worth_it = free_of(&HOME) * 64 >= room;
        let mut fits = true;
        for (slice, member) in (0_u8..).zip(&found.members) {
            let weight = places.iter().filter(|it| **it == slice).count() as u128;
            let (part, dealt) = (free_of(member), found.pattern.pages_of(slice, pages));
            prop_assert!(weight > 0 && dealt > 0, "each has a page");
            let counted = (0..pages.min(999)).filter(|page| found.pattern.slice_of(*page) == slice);
            prop_assert_eq!(counted.count() as u64, found.pattern.pages_of(slice, pages.min(999)));
            fits &= u128::from(dealt) * u128::from(PAGE_BYTES) <= part;
            if is_home_worth_it {
                prop_assert!((weight + 1) * room >= len * part, "{weight} of {len} for {part}");
                prop_assert!(weight * room * 64 <= len * part * (64 + members as u128));
            }
            // In turn: none waits for twice as long as it would if all were dealt evenly.
            let twice = places.iter().chain(places).collect::<Vec<_>>();
            let of_slice = twice.iter().enumerate().filter(|(_, it)| ***it == slice);
            let at: Vec<usize> = of_slice.map(|(at, _)| at).collect();
            let gap = at.windows(2).map(|pair| pair[1] - pair[0]).max().expect("two rounds");
            prop_assert!(gap as u128 <= 2 * len.div_ceil(weight), "{places:?}: {gap}");
        }
        prop_assert_eq!(found.shortage.is_none(), fits);
        // What the rounding of the pattern takes, and the last round of it.
        let needs = u128::from(size_bytes) * (64 + members as u128) / 64;
        let last = 128 * members as u128 * u128::from(PAGE_BYTES);
        if is_home_worth_it && needs + last <= room {
            prop_assert_eq!(found.shortage, None);
        }
    }
}
