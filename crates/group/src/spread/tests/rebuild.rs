//! Volumes that are made of their slices again.

use super::*;
use crate::record::Setting;

/// What the others have stored of a volume, which was opened and made larger.
fn others(sizes: [u64; 2]) -> Vec<SliceRecord> {
    let of = |(at, size_bytes)| SliceRecord {
        begun: Opening::NEVER.next(at as u32 + 4),
        ..slice_record(at, SliceStanding { size_bytes, stage: SliceStage::Here })
    };
    sizes.into_iter().enumerate().map(of).collect()
}

#[test]
fn a_home_that_has_lost_its_settings_has_the_volume_made_of_its_slices() {
    let records = others([2 * GIB, 3 * GIB]);
    let found = rebuilt(&records, Some(4 * GIB)).expect("all have told");
    let openings = [0, 1, 2].map(|slice| match slice {
        0 => Openings::default(),
        slice => Openings::answered(records[slice - 1].begun),
    });
    let wanted = SpreadRecord {
        size_bytes: 2 * GIB,
        openings: openings.to_vec(),
        ..record(SpreadStage::Whole)
    };
    assert_eq!(found, wanted);
    assert_eq!(SpreadRecord::decode(&found.encode()).expect("it reads"), wanted);
    assert!(found.is_of(Some((&group(), HOME))));
    let own_is_small = rebuilt(&records, Some(GIB)).expect("all have told");
    assert_eq!(own_is_small.size_bytes, GIB, "all slices are as large");
}

#[test]
fn a_volume_is_made_again_only_of_all_that_belongs_together() {
    let records = others([GIB, GIB]);
    assert_eq!(rebuilt(&[], Some(GIB)), Err(NotRebuilt::Nothing));
    assert_eq!(rebuilt(&records, None), Err(NotRebuilt::NoOwnSlice(HOME)));
    let missing = rebuilt(&records[..1], Some(GIB)).expect_err("one may be smaller, or going");
    assert_eq!(missing, NotRebuilt::Missing(vec![MemberId(3)]));
    let wanted = "member 3 has a slice of the volume and has not told what it has stored: start it, and try again";
    assert_eq!(missing.to_string(), wanted);
    for stage in [SliceStage::Making, SliceStage::Going] {
        let mut records = records.clone();
        records[1].stage = stage;
        assert_eq!(rebuilt(&records, Some(GIB)), Err(NotRebuilt::NotHere(MemberId(3))));
    }
    let changes: [fn(&mut SliceRecord); 5] = [
        |record| record.spread = "b".repeat(32).parse().expect("it is one"),
        |record| record.group = "f".repeat(32).parse().expect("it is one"),
        |record| record.home_array = "badcafe".to_owned(),
        |record| record.dealt.pattern = vec![0, 1, 2].try_into().expect("it is one"),
        |record| record.size_bytes = 0,
    ];
    for change in changes {
        let mut records = records.clone();
        change(&mut records[1]);
        assert_eq!(rebuilt(&records, Some(GIB)), Err(NotRebuilt::Differs(MemberId(3))));
    }
}
