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

/// It has itself taken for the latest one, with all that slices know of others; who is behind it stays so.
#[test]
fn a_home_that_is_taken_for_an_older_one_goes_on_by_a_word_alone() {
    let opening = |number: u32| (0..number).fold(Opening::NEVER, |last, _| last.next(number));
    let older = Openings { opened: opening(3), begun: opening(4) };
    let home = SpreadRecord {
        openings: vec![Openings::default(), older, Openings::answered(opening(7))],
        ..record(SpreadStage::Whole)
    };
    let of = |at: usize, begun: u32| SliceRecord {
        begun: opening(begun),
        opened: opening(begun),
        ..slice_record(at, SliceStanding { size_bytes: GIB, stage: SliceStage::Here })
    };
    let (later, behind) = (of(0, 6), of(1, 5));
    let records = [later.clone(), behind.clone()];
    let forward = |is_right| brought_forward(&home, &records, is_right);
    let unsaid = forward(false).expect_err("nobody has said so");
    assert_eq!(unsaid, NotRebuilt::Later(MemberId(2)));
    assert!(unsaid.to_string().contains("put the newer disks back"), "{unsaid}");
    let next = forward(true).expect("an operator has said so");
    assert!(next.openings[1].know(&later) && next.check_sound().is_ok());
    assert_eq!(next.openings[1], Openings::answered(later.begun));
    assert_eq!(check_begun(&behind, next.openings[2].begin(1)), Err(SliceRefusal::OldSlice));
    assert_eq!(SpreadRecord { openings: home.openings.clone(), ..next.clone() }, home, "no more");
    // And then all is as it should be.
    assert_eq!(brought_forward(&next, &records, true), Err(NotRebuilt::NotOlder));
    assert_eq!(brought_forward(&home, &[], true), Err(NotRebuilt::NotOlder));
    // The other one of the two is the older one then.
    let begun = check_begun(&later, next.openings[1].begin(1)).expect("it is the latest");
    let later = SliceRecord { begun, opened: begun, ..later };
    assert_eq!(
        check_begun(&later, Openings::answered(opening(6)).begin(2)),
        Err(SliceRefusal::OldHome(HOME))
    );

    let changes: [fn(&mut SliceRecord); 4] = [
        |record| record.home_array = "badcafe".to_owned(),
        |record| record.home = MemberId(9),
        |record| record.dealt.pattern = vec![0, 1, 2].try_into().expect("it is one"),
        |record| record.id = "b".repeat(32).parse().expect("it is one"),
    ];
    for change in changes {
        let mut record = records[0].clone();
        change(&mut record);
        assert_eq!(brought_forward(&home, &[record], true), Err(NotRebuilt::Differs(MemberId(2))));
    }
    // One that goes is in the way only where it has seen a later home.
    let known = SliceRecord { stage: SliceStage::Going, ..records[1].clone() };
    assert!(brought_forward(&home, &[records[0].clone(), known], true).is_ok());
    let going = SliceRecord { stage: SliceStage::Going, ..records[0].clone() };
    assert_eq!(brought_forward(&home, &[going], true), Err(NotRebuilt::NotHere(MemberId(2))));
}
