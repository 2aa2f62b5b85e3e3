//! What homes say of slices, and what is done by that.

use super::*;
use crate::record::Setting;

fn question() -> Question {
    let asked = Question::of(&slice(SliceStage::Here));
    assert_eq!((&asked.slice, asked.home), (&slice_id(1), HOME));
    asked
}

fn stored(record: SpreadRecord) -> SpreadRecords {
    SpreadRecords::from([(record.id.clone(), Ok(record))])
}

fn says(spreads: Option<&SpreadRecords>, has_own_slice: bool) -> HomeSays {
    home_says(&question(), Some((&group(), HOME)), spreads, (ARRAY, has_own_slice))
}

#[test]
fn a_home_says_what_it_has_stored() {
    let nothing = SpreadRecords::new();
    let going = SpreadStage::Going { gone: set(&[1]) };
    for stage in [SpreadStage::Making, SpreadStage::Whole, going] {
        for has_own_slice in [true, false] {
            let said = says(Some(&stored(record(stage))), has_own_slice);
            assert_eq!(said, HomeSays::Have(stage), "also of one that has gone");
        }
    }
    assert_eq!(says(Some(&nothing), false), HomeSays::Gone);
}

#[test]
fn what_does_not_read_is_never_said_to_have_gone() {
    assert_eq!(says(None, false), HomeSays::Unread);
    let later = SpreadRecord::decode(br#"{"version":2,"value":{}}"#);
    let unread = SpreadRecords::from([(spread_id(), later)]);
    assert_eq!(says(Some(&unread), false), HomeSays::Unread);
    // The volume has another slice there than the one that asks.
    let mut record = record(SpreadStage::Whole);
    record.seats[1].slice = slice_id(7);
    assert_eq!(says(Some(&stored(record)), true), HomeSays::Unread);
}

/// Settings were given up there, and with them the record: the home's own slice goes before that.
#[test]
fn a_home_that_has_its_own_slice_and_no_record_does_not_say_that_it_has_gone() {
    assert_eq!(says(Some(&SpreadRecords::new()), true), HomeSays::Unread);
}

#[test]
fn only_the_home_as_it_was_says_that_a_volume_has_gone() {
    let (group, other_group) = (group(), "f".repeat(32).parse().expect("it is one"));
    let nothing = SpreadRecords::new();
    let record = slice(SliceStage::Here);
    for who in [Some((&group, MemberId(9))), Some((&other_group, HOME)), None] {
        let says = home_says(&question(), who, Some(&nothing), (ARRAY, false));
        assert_eq!(says, HomeSays::OtherGroup, "{who:?}");
    }
    let me = Some((&group, MemberId(2)));
    let fate = |heard| decide_slice(&record, me, true, heard);
    assert_eq!(fate(Some((HOME, HomeSays::Gone))), SliceFate::Go);
    assert_eq!(fate(Some((MemberId(3), HomeSays::Gone))), SliceFate::Keep);
    assert_eq!(fate(Some((MemberId(9), HomeSays::Gone))), SliceFate::Keep, "another life of it");
}

#[test]
fn a_slice_stays_by_all_other_words_and_by_none() {
    let (group, other_group) = (group(), "f".repeat(32).parse().expect("it is one"));
    let record = slice(SliceStage::Here);
    let fate = |who, is_home_there, heard| decide_slice(&record, who, is_home_there, heard);
    let me = Some((&group, MemberId(2)));
    assert_eq!(fate(me, true, None), SliceFate::Keep);
    let have = HomeSays::Have(SpreadStage::Going { gone: set(&[1]) });
    assert_eq!(fate(me, true, Some((HOME, have))), SliceFate::Keep, "it is asked to go");
    let said = |says| fate(me, true, Some((HOME, says)));
    assert_eq!(said(HomeSays::Unread), SliceFate::LeftOver(WhyLeft::HomeUnread(HOME)));
    assert_eq!(said(HomeSays::OtherGroup), SliceFate::LeftOver(WhyLeft::HomeElsewhere(HOME)));
    for heard in [None, Some((HOME, HomeSays::Gone))] {
        let removed = SliceFate::LeftOver(WhyLeft::HomeRemoved(HOME));
        assert_eq!(fate(me, false, heard), removed, "it speaks for the group no more");
        let other = SliceFate::LeftOver(WhyLeft::OtherMember);
        for who in [Some((&group, MemberId(9))), Some((&other_group, MemberId(2))), None] {
            assert_eq!(fate(who, true, heard), other, "{who:?}");
        }
    }
    let wanted = "its volume was at member 1, which is no member of the group any more: its data stay as long as nobody \
                  says that they are not needed";
    assert_eq!(WhyLeft::HomeRemoved(HOME).to_string(), wanted);
}

/// The disks of the home were put back from an image that knows nothing of the volume: its data are in the slices.
#[test]
fn a_slice_that_was_used_does_not_go_as_its_home_has_forgotten_it() {
    let (group, me) = (group(), MemberId(2));
    let heard = Some((HOME, HomeSays::Gone));
    for stage in [SliceStage::Making, SliceStage::Here] {
        let fate = decide_slice(&slice(stage), Some((&group, me)), true, heard);
        assert_eq!(fate, SliceFate::Go, "nobody has it open");
    }
    let fate = decide_slice(&used(SliceStage::Here), Some((&group, me)), true, heard);
    assert_eq!(fate, SliceFate::LeftOver(WhyLeft::HomeForgot(HOME)));
    let said = WhyLeft::HomeForgot(HOME).to_string();
    assert!(said.contains("put the newer ones back"), "{said}");
}

/// Its data directory says that it is the home, and other disks are in it.
#[test]
fn a_home_with_another_array_says_nothing_of_the_volume() {
    let nothing = SpreadRecords::new();
    for spreads in [Some(&nothing), Some(&stored(record(SpreadStage::Whole))), None] {
        let says = home_says(&question(), Some((&group(), HOME)), spreads, ("badcafe", false));
        assert_eq!(says, HomeSays::OtherGroup);
    }
    let why = WhyLeft::HomeElsewhere(HOME).to_string();
    assert!(why.contains("another member now or has other disks"), "{why}");
}

#[test]
fn nobody_is_told_to_delete_data_that_are_there() {
    let whys = [
        WhyLeft::OtherMember.to_string(),
        WhyLeft::HomeRemoved(HOME).to_string(),
        WhyLeft::HomeElsewhere(HOME).to_string(),
        WhyLeft::HomeUnread(HOME).to_string(),
        WhyLeft::HomeForgot(HOME).to_string(),
        SliceRefusal::OtherMember(HOME).to_string(),
        SliceRefusal::Unrecorded.to_string(),
        SliceRefusal::OldSlice.to_string(),
        SliceRefusal::OldHome(HOME).to_string(),
    ];
    for why in whys {
        assert!(!why.contains("delete"), "{why}");
    }
}
