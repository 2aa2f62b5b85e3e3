//! What is stored, and the order in which it is.

use super::*;
use crate::record::Setting;

#[test]
fn stages_follow_each_other_as_drawn_and_what_goes_does_not_come_back() {
    use SpreadStage::{Growing, Making, Whole};
    let at = |size_bytes, stage| SpreadStanding { size_bytes, stage };
    let going = |gone: &[u8]| at(1, SpreadStage::Going { gone: set(gone) });
    let all = [
        at(1, Making),
        at(1, Whole),
        at(1, Growing { to_bytes: 2 }),
        at(2, Whole),
        going(&[]),
        going(&[1]),
    ];
    // Where each of them leads, by number.
    let leads: [&[usize]; 6] = [&[1, 4, 5], &[2, 4, 5], &[1, 3, 4, 5], &[], &[4, 5], &[5]];
    for (from, leads) in all.iter().zip(leads) {
        for (number, to) in all.iter().enumerate() {
            assert_eq!(from.may_become(*to), leads.contains(&number), "{from:?} {to:?}");
        }
    }
}

#[test]
fn a_slice_goes_from_making_to_nothing_and_never_back() {
    use SliceStage::{Going, Here, Making};
    let at = |size_bytes, stage| SliceStanding { size_bytes, stage };
    let all = [at(1, Making), at(1, Here), at(2, Here), at(1, Going), at(2, Going)];
    let leads: [&[usize]; 5] = [&[1, 3], &[2, 3], &[4], &[], &[]];
    for (from, leads) in all.iter().zip(leads) {
        for (number, to) in all.iter().enumerate() {
            assert_eq!(from.may_become(*to), leads.contains(&number), "{from:?} {to:?}");
        }
    }
}

#[test]
fn a_record_that_cannot_be_is_as_good_as_damaged() {
    let said = |change: fn(&mut SpreadRecord)| {
        let mut changed = record(SpreadStage::Whole);
        change(&mut changed);
        SpreadRecord::decode(&changed.encode()).expect_err("it is refused").to_string()
    };
    let one_seat_less = said(|record| drop(record.seats.pop()));
    let wanted = "a volume that is spread over several members cannot be read from the configuration store: its pages \
                  are dealt to 3 slices, and it has 2";
    assert_eq!(one_seat_less, wanted);
    let others: [fn(&mut SpreadRecord); 11] = [
        |record| record.home_array.clear(),
        |record| _ = record.openings.pop(),
        |record| record.openings[1].begun = Opening::NEVER.next(1).next(1),
        |record| record.seats[2].member = HOME,
        |record| record.seats[2].slice = slice_id(0),
        |record| record.seats.clear(),
        |record| record.size_bytes = 0,
        |record| record.page_bytes = 0,
        |record| record.page_bytes += 1,
        |record| record.stage = SpreadStage::Growing { to_bytes: GIB },
        |record| record.stage = SpreadStage::Going { gone: set(&[3]) },
    ];
    for other in others {
        assert!(said(other).contains("cannot be read"));
    }

    let said = |change: fn(&mut SliceRecord)| {
        let mut changed = slice(SliceStage::Here);
        change(&mut changed);
        SliceRecord::decode(&changed.encode()).expect_err("it is refused").to_string()
    };
    let of_operator = said(|record| record.volume = "vm".to_owned());
    let wanted = format!("'vm' is not the volume of a slice of {}", spread_id());
    assert!(of_operator.ends_with(&wanted), "{of_operator}");
    let of_another = said(|record| {
        record.volume = hidden_name(&"b".repeat(32).parse().expect("it is one"));
    });
    assert!(of_another.contains("is not the volume of a slice of"), "{of_another}");
    let others: [fn(&mut SliceRecord); 6] = [
        |record| record.home_array.clear(),
        |record| record.id = slice_id(2),
        |record| record.me = MemberId(3),
        |record| record.home = MemberId(9),
        |record| drop(record.dealt.seats.pop()),
        |record| record.dealt.page_bytes = 0,
    ];
    for other in others {
        assert!(said(other).contains("cannot be read"));
    }
    let own = said(|record| record.me = HOME);
    assert!(own.ends_with("it says of member 1 that it is another member's"), "{own}");
    assert!(said(|record| record.size_bytes = 0).ends_with("it has no size"));
}

#[test]
fn what_is_drawn_is_another_volume_each_time() {
    let members = vec![MemberId(4), MemberId(2)];
    let pattern = vec![1, 0, 1].try_into().expect("it is one");
    let placed = Placed { members, pattern, shortage: None };
    let draw = || {
        let drawn = SpreadRecord::draw((&group(), ARRAY), "vm", (GIB, PAGE_BYTES), &placed);
        drawn.expect("there is randomness")
    };
    let (first, second) = (draw(), draw());
    assert_eq!((first.home(), first.stage), (MemberId(4), SpreadStage::Making));
    assert_eq!(SpreadRecord::decode(&first.encode()).expect("it reads"), first);
    assert_ne!(first.id, second.id);
    for seat in &first.seats {
        assert!(second.seats.iter().all(|other| other.slice != seat.slice));
    }
}

/// What has such a name is deleted with its slice: it must be none that an operator has given.
#[test]
fn a_hidden_name_is_one_of_a_slice_and_no_other() {
    let name = hidden_name(&spread_id());
    assert!(is_hidden_name(&name) && name.len() <= 63, "{name}");
    let digits = "a".repeat(31);
    for other in ["vm", ".slice-", ".slice-of-a-cake", &format!(".slice-{digits}")] {
        assert!(!is_hidden_name(other), "{other}");
    }
    assert!(!is_hidden_name(&name.to_uppercase()) && !is_hidden_name(&name[1..]));
}

#[test]
fn a_record_is_of_one_member_in_one_group() {
    let (group, other_group) = (group(), "f".repeat(32).parse().expect("it is one"));
    let (record, slice) = (record(SpreadStage::Whole), slice(SliceStage::Here));
    assert!(record.is_of(Some((&group, HOME))) && slice.is_of(Some((&group, MemberId(2)))));
    for who in [None, Some((&other_group, HOME)), Some((&group, MemberId(9)))] {
        assert!(!record.is_of(who), "{who:?}");
    }
    for who in [None, Some((&other_group, MemberId(2))), Some((&group, HOME))] {
        assert!(!slice.is_of(who), "{who:?}");
    }
}
