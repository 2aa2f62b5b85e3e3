//! What is noticed of an array that was put back from an older image.

use super::*;

/// Opens the slice, as all that store do, and says what is stored then on both sides.
fn open(
    home: Openings,
    slice: &SliceRecord,
    drawn: u32,
) -> Result<(Openings, SliceRecord), SliceRefusal> {
    let begun = check_begun(slice, home.begin(drawn))?;
    let slice = SliceRecord { begun, ..slice.clone() };
    check_opened(&slice, begun)?;
    Ok((Openings::answered(begun), SliceRecord { opened: begun, ..slice }))
}

#[test]
fn an_opening_is_stored_on_both_sides_and_goes_on_wherever_it_is_cut_off() {
    let (mut home, mut slice) = (Openings::default(), slice(SliceStage::Here));
    assert!(!slice.was_used());
    for number in 1..4_u32 {
        // Begun, and never sent; then answered, and not heard.
        let begun = home.begin(number * 3);
        assert_eq!(begun.begin(99), begun, "the same one");
        slice.begun = check_begun(&slice, begun).expect("they are of one time");
        assert_eq!(check_begun(&slice, begun), Ok(begun.begun), "it may come twice");
        (home, slice) = open(begun, &slice, 99).expect("they are of one time");
        assert_eq!((home.opened, slice.opened.number()), (slice.begun, u64::from(number)));
        assert_eq!(check_opened(&slice, home.opened), Ok(()), "it may be let in again");
        assert!(slice.was_used());
    }
    assert!(check_begun(&slice, home).is_err(), "none was begun");
}

#[test]
fn a_slice_that_was_put_back_to_an_older_state_is_not_served() {
    let never = slice(SliceStage::Here);
    let (first, old) = open(Openings::default(), &never, 1).expect("they are of one time");
    let (second, _) = open(first, &old, 2).expect("they are of one time");
    for slice in [never, old] {
        assert_eq!(open(second, &slice, 3), Err(SliceRefusal::OldSlice));
    }
    let said = SliceRefusal::OldSlice.to_string();
    assert!(said.contains("what was written since is not in it, so it is not served"), "{said}");
}

/// Its store was copied while the member of the slice was away.
#[test]
fn a_home_that_was_put_back_to_the_middle_of_an_opening_is_not_obeyed() {
    let slice = slice(SliceStage::Here);
    let image = Openings::default().begin(1);
    let (now, slice) = open(image, &slice, 9).expect("they are of one time");
    assert_eq!(now.opened, image.begun, "the same bits");
    assert_eq!(open(image, &slice, 2), Err(SliceRefusal::OldHome(HOME)));
    let whole = record(SpreadStage::Whole);
    let letter = Letter { openings: image, ..Letter::of(&whole, 1, Order::Go) };
    let refused = check_letter(&letter, HOME, Some((&group(), MemberId(2))), Some(&slice));
    assert_eq!(refused, Err(SliceRefusal::OldHome(HOME)));
    // A slice of before it is noticed as well.
    let old = SliceRecord { begun: Opening::NEVER, opened: Opening::NEVER, ..slice };
    assert_eq!(check_opened(&old, now.opened), Err(SliceRefusal::OldSlice));
}

/// Also one that begins the same number anew, however often it tries.
#[test]
fn a_home_that_was_put_back_to_an_older_state_is_not_obeyed() {
    let never = slice(SliceStage::Here);
    let old = Openings::default();
    let (older, slice) = open(old, &never, 1).expect("they are of one time");
    let (_, slice) = open(older, &slice, 2).expect("they are of one time");
    for home in [old, older, old.begin(5), older.begin(1), older.begin(3)] {
        assert_eq!(open(home, &slice, 4), Err(SliceRefusal::OldHome(HOME)), "{home:?}");
    }
    // As it was being made: a start gives that up, and asks the slices to go.
    let (group, me) = (group(), MemberId(2));
    let check = |openings| {
        let whole = record(SpreadStage::Whole);
        let letter = Letter { openings, ..Letter::of(&whole, 1, Order::Go) };
        check_letter(&letter, HOME, Some((&group, me)), Some(&slice))
    };
    assert_eq!(check(old), Err(SliceRefusal::OldHome(HOME)));
    assert_eq!(check(Openings::answered(slice.opened)), Ok(()));
    let newer = Openings::answered(slice.opened.next(1));
    assert_eq!(check(newer), Ok(()), "an older slice may go");
}

#[test]
fn only_a_slice_that_is_there_is_opened() {
    let begun = Openings::default().begin(1);
    let refused = |stage| check_begun(&slice(stage), begun);
    assert_eq!(refused(SliceStage::Making), Err(SliceRefusal::NotThere));
    assert_eq!(refused(SliceStage::Going), Err(SliceRefusal::Going));
}
