//! What a home does next, and what it never does.

use super::*;

const MAKE: Order = Order::Make { size_bytes: GIB };

const GROW: Order = Order::Grow { to_bytes: 2 * GIB };

fn standing(size_bytes: u64, stage: SpreadStage) -> SpreadStanding {
    SpreadStanding { size_bytes, stage }
}

fn going(gone: &[u8]) -> SpreadStanding {
    standing(GIB, SpreadStage::Going { gone: set(gone) })
}

fn whole(size_bytes: u64) -> Home {
    Home::found(3, standing(size_bytes, SpreadStage::Whole))
}

/// Stores what is to be stored, and says what.
fn store(home: &mut Home) -> SpreadStanding {
    let HomeStep::Store(standing) = home.step() else { panic!("{:?}", home.step()) };
    home.stored(standing);
    standing
}

fn all_do(home: &mut Home, order: Order) {
    for slice in [2, 0, 1] {
        home.heard(slice, order, Answer::Done);
    }
}

#[test]
fn a_volume_is_made_in_steps_each_of_which_is_stored_first() {
    let mut home = Home::create(3, GIB);
    assert_eq!((home.standing(), home.may_serve()), (None, None));
    assert_eq!(store(&mut home), standing(GIB, SpreadStage::Making));
    assert_eq!(home.step(), HomeStep::Ask(MAKE, set(&[0, 1, 2])));
    for (slice, left) in [(1, &[0, 2][..]), (0, &[2])] {
        home.heard(slice, MAKE, Answer::Done);
        assert_eq!(home.step(), HomeStep::Ask(MAKE, set(left)));
        assert_eq!(home.may_serve(), None, "not all of it is there");
    }
    home.heard(2, MAKE, Answer::Done);
    assert_eq!(home.may_serve(), None, "it is not stored yet");
    assert_eq!(store(&mut home), standing(GIB, SpreadStage::Whole));
    assert_eq!((home.step(), home.may_serve()), (HomeStep::Rest, Some(GIB)));
}

#[test]
fn what_cannot_be_made_goes_whatever_is_heard_of_it_later() {
    let refused = |home: &mut Home| home.heard(1, MAKE, Answer::Refused);
    for fails in [refused, Home::give_up, |home: &mut Home| home.delete().expect("it can")] {
        let mut home = Home::create(3, GIB);
        store(&mut home);
        home.heard(0, MAKE, Answer::Done);
        fails(&mut home);
        all_do(&mut home, MAKE);
        assert_eq!(store(&mut home), going(&[]));
        all_do(&mut home, MAKE);
        assert_eq!(home.step(), HomeStep::Ask(Order::Go, set(&[0, 1, 2])), "nobody was in");
    }
}

/// Who asked for it has heard no answer, and nobody drives it any more.
#[test]
fn a_start_undoes_what_was_half_done() {
    let mut making = Home::found(3, standing(GIB, SpreadStage::Making));
    assert_eq!((making.may_serve(), store(&mut making)), (None, going(&[])));
    let mut growing = Home::found(3, standing(GIB, SpreadStage::Growing { to_bytes: 2 * GIB }));
    assert_eq!(growing.may_serve(), Some(GIB), "hosts wait for nothing");
    assert_eq!(store(&mut growing), standing(GIB, SpreadStage::Whole));
    let home = Home::found(3, going(&[1]));
    assert_eq!(home.step(), HomeStep::Ask(Order::Go, set(&[0, 2])));
    assert_eq!(home.may_serve(), None);
}

#[test]
fn a_volume_is_larger_when_all_of_its_slices_are() {
    let mut home = whole(GIB);
    home.served();
    home.grow(2 * GIB).expect("it can");
    assert_eq!(store(&mut home), standing(GIB, SpreadStage::Growing { to_bytes: 2 * GIB }));
    assert_eq!(home.step(), HomeStep::Ask(GROW, set(&[0, 1, 2])));
    assert_eq!(home.may_serve(), Some(GIB));
    let again = home.grow(3 * GIB).expect_err("one at a time").to_string();
    let wanted =
        "the spread volume is being made or changed: wait until that has ended, and try again";
    assert_eq!(again, wanted);
    all_do(&mut home, GROW);
    assert_eq!(home.may_serve(), Some(GIB), "it is not stored yet");
    assert_eq!(store(&mut home), standing(2 * GIB, SpreadStage::Whole));
    assert_eq!(home.may_serve(), Some(2 * GIB));
    home.grow(2 * GIB).expect("it has that size");
    assert_eq!(home.step(), HomeStep::Rest);
    let smaller = home.grow(GIB).expect_err("data would be lost").to_string();
    let wanted = "the volume has 2 GiB, and a spread volume cannot be made smaller: make a new one of 1 GiB and copy \
                  what is needed";
    assert_eq!(smaller, wanted);
}

#[test]
fn what_does_not_grow_keeps_its_size_and_may_be_tried_again() {
    let mut home = whole(GIB);
    home.grow(2 * GIB).expect("it can");
    store(&mut home);
    home.heard(0, GROW, Answer::Done);
    home.heard(1, GROW, Answer::Refused);
    assert_eq!(store(&mut home), standing(GIB, SpreadStage::Whole));
    home.heard(2, GROW, Answer::Done);
    assert_eq!(home.step(), HomeStep::Rest, "that was of the first attempt");
    home.grow(2 * GIB).expect("it can");
    store(&mut home);
    assert_eq!(home.step(), HomeStep::Ask(GROW, set(&[0, 1, 2])), "all are asked again");
}

#[test]
fn an_answer_to_another_order_says_nothing() {
    let mut home = whole(GIB);
    home.grow(2 * GIB).expect("it can");
    store(&mut home);
    all_do(&mut home, MAKE);
    all_do(&mut home, Order::Grow { to_bytes: GIB + 1 });
    all_do(&mut home, Order::Go);
    assert_eq!(home.step(), HomeStep::Ask(GROW, set(&[0, 1, 2])));
    home.heard(1, MAKE, Answer::Refused);
    assert_eq!(home.step(), HomeStep::Ask(GROW, set(&[0, 1, 2])));
}

#[test]
fn hosts_are_out_before_the_first_slice_goes() {
    let mut home = whole(GIB);
    home.served();
    home.delete().expect("it can");
    assert_eq!(home.may_serve(), None, "nobody is let in any more");
    assert_eq!(store(&mut home), going(&[]));
    assert_eq!(home.step(), HomeStep::ShutOut);
    home.shut_out();
    assert_eq!(home.step(), HomeStep::Ask(Order::Go, set(&[0, 1, 2])));
    home.delete().expect("whoever asks again has it done");
    assert_eq!(home.step(), HomeStep::Ask(Order::Go, set(&[0, 1, 2])));
    assert!(home.grow(2 * GIB).is_err());
}

#[test]
fn a_volume_is_forgotten_when_all_slices_have_said_that_they_have_gone() {
    let mut home = Home::found(3, going(&[]));
    home.heard(2, Order::Go, Answer::Done);
    assert_eq!(store(&mut home), going(&[2]));
    home.heard(1, Order::Go, Answer::Refused);
    home.give_up();
    assert_eq!(home.step(), HomeStep::Ask(Order::Go, set(&[0, 1])), "for as long as it takes");
    home.heard(2, Order::Go, Answer::Done);
    assert_eq!(home.step(), HomeStep::Ask(Order::Go, set(&[0, 1])), "it is known");
    home.heard(0, Order::Go, Answer::Done);
    home.heard(1, Order::Go, Answer::Done);
    assert_eq!(store(&mut home), going(&[0, 1, 2]));
    assert_eq!(home.step(), HomeStep::Forget);
}

#[test]
fn only_the_slice_of_who_was_removed_is_given_up() {
    let mut home = whole(GIB);
    let removed = (MemberId(2), false);
    assert_eq!(home.forget_seat(1, removed), Err(SpreadError::NotGoing));
    home.delete().expect("it can");
    store(&mut home);
    assert_eq!(home.forget_seat(3, removed), Err(SpreadError::NoSuchSlice(3)));
    assert_eq!(home.forget_seat(0, (HOME, false)), Err(SpreadError::OwnSlice));
    let there = home.forget_seat(1, (MemberId(2), true)).expect_err("it deletes it itself");
    let wanted = "member 2 is a member of the group and deletes its slice when it is reached: start it, or remove it \
                  from the group first";
    assert_eq!(there.to_string(), wanted);
    home.forget_seat(1, removed).expect("nobody else ends it");
    assert_eq!(store(&mut home), going(&[1]));
    home.heard(0, Order::Go, Answer::Done);
    home.heard(2, Order::Go, Answer::Done);
    assert_eq!(store(&mut home), going(&[0, 1, 2]));
}

#[test]
fn what_is_about_to_be_stored_is_not_passed_over() {
    let mut home = Home::create(1, GIB);
    let wanted = "the spread volume is being made: wait until that has ended, and try again";
    assert_eq!(home.delete().expect_err("it is not stored").to_string(), wanted);
    store(&mut home);
    home.heard(0, MAKE, Answer::Done);
    home.give_up();
    assert_eq!(store(&mut home), standing(GIB, SpreadStage::Whole), "it was whole before that");
}

/// The store says no, and may have stored it for all that: hosts use the volume as before.
#[test]
fn hosts_that_are_in_are_shut_out_first_whatever_was_not_stored_before() {
    for is_done in [true, false] {
        let mut home = whole(GIB);
        home.served();
        home.grow(2 * GIB).expect("it can");
        let growing = standing(GIB, SpreadStage::Growing { to_bytes: 2 * GIB });
        home.reread(if is_done { growing } else { standing(GIB, SpreadStage::Whole) });
        if is_done {
            assert_eq!(store(&mut home), standing(GIB, SpreadStage::Whole));
        }
        assert_eq!(home.may_serve(), Some(GIB));
        home.delete().expect("it can");
        home.reread(if is_done { going(&[]) } else { standing(GIB, SpreadStage::Whole) });
        if !is_done {
            home.delete().expect("it can");
            store(&mut home);
        }
        assert_eq!(home.step(), HomeStep::ShutOut, "{is_done}");
    }
}
