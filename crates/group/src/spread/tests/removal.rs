//! What keeps a member in its group.

use super::*;
use crate::record::Setting;

fn found(
    member: u16,
    spreads: &SpreadRecords,
    slices: &SliceRecords,
) -> (Vec<String>, Vec<String>, bool) {
    let found = in_the_way(MemberId(member), &group(), (spreads, slices));
    let list = |names: std::collections::BTreeSet<String>| names.into_iter().collect();
    (list(found.home_of), list(found.slice_of), found.unread.is_some())
}

#[test]
fn who_has_a_part_of_a_spread_volume_is_named_by_all_that_know_of_it() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let record = record(SpreadStage::Whole);
    let spreads = SpreadRecords::from([(record.id.clone(), Ok(record))]);
    let none = SliceRecords::new();
    assert_eq!(found(1, &spreads, &none), (names(&["vm"]), names(&[]), false));
    assert_eq!(found(3, &spreads, &none), (names(&[]), names(&["vm"]), false));
    assert_eq!(found(4, &spreads, &none), (names(&[]), names(&[]), false));

    let slice = slice(SliceStage::Here);
    let slices = SliceRecords::from([(slice.id.clone(), Ok(slice))]);
    let none = SpreadRecords::new();
    assert_eq!(found(1, &none, &slices), (names(&["vm"]), names(&[]), false));
    assert_eq!(found(2, &none, &slices), (names(&[]), names(&["vm"]), false));
    assert_eq!(found(4, &none, &slices), (names(&[]), names(&[]), false));
    // Numbers of members say nothing in another group.
    let other_group = "f".repeat(32).parse().expect("it is one");
    let found = in_the_way(HOME, &other_group, (&spreads, &slices));
    assert!(found.is_nothing(), "{found:?}");
}

#[test]
fn what_does_not_read_keeps_everybody() {
    let none = SpreadRecords::new();
    let later = SliceRecord::decode(br#"{"version":2,"value":{}}"#);
    let unread = SliceRecords::from([(slice_id(5), later)]);
    assert_eq!(found(4, &none, &unread), (Vec::new(), Vec::new(), true));
    let later = SpreadRecord::decode(br#"{"version":2,"value":{}}"#);
    let unread = SpreadRecords::from([(spread_id(), later)]);
    assert_eq!(found(4, &unread, &SliceRecords::new()), (Vec::new(), Vec::new(), true));
}

#[test]
fn it_is_said_what_is_lost_and_what_to_do() {
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let one = InTheWay { home_of: of(&["vm"]), ..InTheWay::default() };
    let wanted = "it is the home of the spread volume 'vm', and their data there are lost with it: delete those volumes \
                  first, or say that they may be lost";
    assert_eq!(one.to_string(), wanted);
    let other = InTheWay { slice_of: of(&["a", "b", "c", "d", "e"]), ..InTheWay::default() };
    let unread = InTheWay { unread: Some("it is of a later version".to_owned()), ..other };
    let wanted = "it is the home of the spread volume 'vm' and it has a slice of the spread volumes 'a', 'b', 'c' and 2 \
                  more, and their data there are lost with it: delete those volumes first, or say that they may be lost; \
                  and it is not known whether these are all: it is of a later version";
    assert_eq!(one.and(unread).to_string(), wanted);
    let unread = InTheWay { unread: Some("why".to_owned()), ..InTheWay::default() };
    assert_eq!(unread.to_string(), "it is not known what spread volumes it has: why");
}

/// Else removing a dead member waits for the deletion, and that for the member.
#[test]
fn a_volume_that_is_being_deleted_holds_no_member_that_has_a_slice_of_it() {
    let record = record(SpreadStage::Going { gone: set(&[1]) });
    let spreads = SpreadRecords::from([(record.id.clone(), Ok(record))]);
    let slice = slice(SliceStage::Going);
    let slices = SliceRecords::from([(slice.id.clone(), Ok(slice))]);
    let found = |member, spreads: &SpreadRecords, slices: &SliceRecords| {
        in_the_way(MemberId(member), &group(), (spreads, slices))
    };
    let none = (SpreadRecords::new(), SliceRecords::new());
    let gone = found(2, &spreads, &none.1);
    assert_eq!(gone, InTheWay::default(), "it has said that its slice has gone");
    for waits in [found(3, &spreads, &none.1), found(2, &none.0, &slices)] {
        assert!(waits.is_nothing(), "{waits:?}");
        let wanted = "what is being deleted waits for it: the spread volume 'vm'; if it does not come back, remove it and \
                      give its slice up";
        assert_eq!(waits.to_string(), wanted);
    }
    assert!(!found(1, &spreads, &none.1).is_nothing(), "the home deletes it");
}
