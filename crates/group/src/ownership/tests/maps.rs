//! Page maps against a plain list of owners.

use proptest::prelude::*;

use super::super::{MemberId, PageMap, PageMapError};

fn members(count: u16) -> Vec<MemberId> {
    (0..count).map(MemberId).collect()
}

fn owners(map: &PageMap) -> Vec<MemberId> {
    (0..map.pages()).map(|page| map.owner(page).unwrap()).collect()
}

proptest! {
    #[test]
    fn a_map_says_what_a_list_says(
        pages in 1_u32..200,
        dealt in 1_u16..5,
        run in 1_u32..20,
        gifts in prop::collection::vec((0_u32..200, 1_u32..60, 0_u16..6), 0..40),
    ) {
        let mut map = PageMap::deal(pages, members(dealt), run).unwrap();
        let mut list: Vec<_> =
            (0..pages).map(|page| MemberId((page / run % u32::from(dealt)) as u16)).collect();
        for (first, count, member) in gifts {
            let range = first..first + count;
            let version = map.version();
            match map.give(range.clone(), MemberId(member)) {
                Ok(()) => {
                    list[first as usize..(first + count) as usize].fill(MemberId(member));
                    prop_assert_eq!(map.version(), version + 1);
                }
                Err(error) => {
                    prop_assert!(range.end > pages, "{}", error);
                    prop_assert_eq!(map.version(), version);
                }
            }
            prop_assert_eq!(&owners(&map), &list);
            let flat = map.runs(0).flat_map(|(run, owner)| run.map(move |_| owner));
            prop_assert_eq!(&flat.collect::<Vec<_>>(), &list);
            let stored = serde_json::to_vec(&map).unwrap();
            prop_assert_eq!(&serde_json::from_slice::<PageMap>(&stored).unwrap(), &map);
        }
    }
}

#[test]
fn a_map_of_fifteen_tebibytes_is_small_until_pages_move() {
    // Pages of 16 MiB.
    let mut map = PageMap::deal(983_040, members(8), 64).unwrap();
    assert!(serde_json::to_vec(&map).unwrap().len() < 100);
    assert_eq!(map.owned_by(MemberId(3)), 983_040 / 8);
    map.give(0..983_040, MemberId(9)).unwrap();
    assert_eq!(map.owned_by(MemberId(9)), 983_040);
    assert_eq!(map.exceptions(), 1, "runs that touch are one");
    // Back to where they were dealt: nothing is an exception any more.
    for first in (0..983_040).step_by(64) {
        map.give(first..first + 64, MemberId((first / 64 % 8) as u16)).unwrap();
    }
    assert_eq!(map.exceptions(), 0);
}

#[test]
fn what_cannot_be_a_map_is_refused() {
    assert_eq!(PageMap::deal(9, Vec::new(), 1), Err(PageMapError::NoMembers));
    assert_eq!(PageMap::deal(9, members(2), 0), Err(PageMapError::NoRun));
    let mut map = PageMap::deal(9, members(2), 1).unwrap();
    assert_eq!(map.owner(9), None);
    #[expect(clippy::reversed_empty_ranges)]
    for range in [3..3, 4..3, 8..10] {
        let refused = PageMapError::NoSuchPages { range: range.clone(), pages: 9 };
        assert_eq!(map.give(range, MemberId(0)), Err(refused));
    }
    for exceptions in ["[[3,3,1]]", "[[3,5,1],[4,6,0]]", "[[8,10,1]]", "[[3,4,1],[3,5,1]]"] {
        let stored = format!(
            r#"{{"version":2,"pages":9,"members":[0,1],"run":1,"exceptions":{exceptions}}}"#
        );
        let error = serde_json::from_str::<PageMap>(&stored).unwrap_err();
        assert!(error.to_string().starts_with("the page map is damaged"), "{exceptions}: {error}");
    }
}
