//! What a member does about a slice.

use super::*;

const MAKE: Option<Order> = Some(Order::Make { size_bytes: GIB });

const GROW: Option<Order> = Some(Order::Grow { to_bytes: 2 * GIB });

const GO: Option<Order> = Some(Order::Go);

/// An array with or without the volume of one slice, and what is stored of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bed {
    stored: Option<SliceStanding>,
    volume: Option<u64>,
}

impl Bed {
    fn of(stage: SliceStage, volume: Option<u64>) -> Self {
        Self { stored: Some(SliceStanding { size_bytes: GIB, stage }), volume }
    }

    /// One step, and whether that was not the last.
    fn step(&mut self, order: Option<Order>) -> Option<Result<(), SliceRefusal>> {
        match slice_step(order, self.stored, self.volume) {
            SliceStep::Store(standing) => {
                assert!(self.stored.is_none_or(|it| it.may_become(standing)), "{self:?}");
                self.stored = Some(standing);
            }
            SliceStep::Make(size_bytes) => {
                assert_eq!(self.volume.replace(size_bytes), None);
            }
            SliceStep::Grow(size_bytes) => {
                assert!(self.volume.replace(size_bytes) < Some(size_bytes));
            }
            SliceStep::Delete => assert!(self.volume.take().is_some()),
            SliceStep::Forget => self.stored = None,
            SliceStep::Done => return Some(Ok(())),
            SliceStep::Refuse(why) => return Some(Err(why)),
        }
        assert!(self.stored.is_some() || self.volume.is_none(), "{self:?}: nobody knows of it");
        None
    }

    /// All steps of an order.
    fn carry_out(&mut self, order: Option<Order>) -> Result<(), SliceRefusal> {
        (0..5).find_map(|_| self.step(order)).expect("it ends")
    }
}

/// Wherever a member is cut off, the same order goes on from there, and nothing is on the array that is not stored.
#[test]
fn an_order_that_is_cut_off_is_finished_by_the_next_one() {
    let here = Bed::of(SliceStage::Here, Some(GIB));
    let nothing = Bed { stored: None, volume: None };
    let large = SliceStanding { size_bytes: 2 * GIB, stage: SliceStage::Here };
    let larger = Bed { stored: Some(large), volume: Some(2 * GIB) };
    for (order, from, to) in [
        (MAKE, nothing, here),
        (GROW, here, larger),
        (GO, here, nothing),
        (GO, Bed::of(SliceStage::Making, None), nothing),
        (GO, Bed::of(SliceStage::Making, Some(GIB)), nothing),
        (MAKE, larger, larger),
        (GO, nothing, nothing),
    ] {
        for cut in 0..4 {
            let mut bed = from;
            for _ in 0..cut {
                bed.step(order);
            }
            assert_eq!(bed.carry_out(order), Ok(()), "{order:?} {from:?} {cut}");
            assert_eq!(bed, to, "{order:?} {from:?} {cut}");
            assert_eq!(bed.carry_out(order), Ok(()), "it may be asked again");
        }
    }
}

#[test]
fn a_start_finishes_what_goes_and_what_was_to_be_larger() {
    let mut bed = Bed::of(SliceStage::Going, Some(GIB));
    assert_eq!(bed.carry_out(None), Ok(()));
    assert_eq!(bed, Bed { stored: None, volume: None });
    let large = SliceStanding { size_bytes: 2 * GIB, stage: SliceStage::Here };
    let mut bed = Bed { stored: Some(large), volume: Some(GIB) };
    assert_eq!(bed.carry_out(None), Ok(()));
    assert_eq!(bed.volume, Some(2 * GIB));
    let mut bed = Bed::of(SliceStage::Making, Some(GIB));
    assert_eq!(bed.carry_out(None), Ok(()));
    assert_eq!(bed, Bed::of(SliceStage::Making, Some(GIB)), "its home says what becomes of it");
}

/// The array cannot have volumes so large, or not now.
#[test]
fn a_size_that_a_slice_cannot_have_is_not_in_the_way_of_the_next_one() {
    let mut bed = Bed::of(SliceStage::Here, Some(GIB));
    let refused = Some(Order::Grow { to_bytes: 60 * GIB });
    assert_eq!(slice_step(refused, bed.stored, bed.volume), SliceStep::Grow(60 * GIB));
    assert_eq!(bed.carry_out(None), Ok(()), "nothing is left of it");
    assert_eq!(bed, Bed::of(SliceStage::Here, Some(GIB)));
    assert_eq!(bed.carry_out(GROW), Ok(()));
    assert_eq!(bed.volume, Some(2 * GIB));
    // Its volume was made larger, and the size is not stored: a later order does it.
    let mut bed = Bed::of(SliceStage::Here, Some(4 * GIB));
    assert_eq!((bed.carry_out(None), bed.carry_out(MAKE)), (Ok(()), Ok(())));
    assert_eq!(bed, Bed::of(SliceStage::Here, Some(4 * GIB)));
    assert_eq!(bed.carry_out(GROW), Ok(()));
    assert_eq!(bed.stored.map(|it| it.size_bytes), Some(2 * GIB));
}

#[test]
fn what_goes_does_not_come_back_and_what_is_lost_is_said() {
    for order in [MAKE, GROW] {
        let mut bed = Bed::of(SliceStage::Going, Some(GIB));
        assert_eq!(bed.carry_out(order), Err(SliceRefusal::Going));
        assert_eq!(bed, Bed::of(SliceStage::Going, Some(GIB)));
        let mut bed = Bed::of(SliceStage::Here, None);
        assert_eq!(bed.carry_out(order), Err(SliceRefusal::Lost), "an empty one is not the same");
    }
    let mut bed = Bed { stored: None, volume: None };
    assert_eq!(bed.carry_out(GROW), Err(SliceRefusal::NotThere), "only making makes one");
    let mut bed = Bed::of(SliceStage::Making, None);
    assert_eq!(bed.carry_out(GROW), Err(SliceRefusal::NotThere));
}

/// It was made by nothing that is remembered: it may be all that is left of a volume.
#[test]
fn a_volume_of_which_nothing_is_stored_is_left_alone() {
    for order in [MAKE, GROW, GO] {
        let step = slice_step(order, None, Some(GIB));
        assert_eq!(step, SliceStep::Refuse(SliceRefusal::Unrecorded), "{order:?}");
        let is_stored = matches!(slice_step(order, None, None), SliceStep::Store(_));
        assert_eq!(is_stored, order == MAKE);
    }
    assert_eq!(slice_step(None, None, Some(GIB)), SliceStep::Done);
}

#[test]
fn orders_are_taken_from_the_home_alone_by_the_member_that_has_the_slice() {
    let record = slice(SliceStage::Here);
    let letter = Letter::of(&super::record(SpreadStage::Whole), 1, Order::Go);
    assert_eq!((&letter.slice, letter.to, letter.home), (&slice_id(1), MemberId(2), HOME));
    let (group, other_group) = (group(), "f".repeat(32).parse().expect("it is one"));
    let who = Some((&group, MemberId(2)));
    assert_eq!(check_letter(&letter, HOME, who, Some(&record)), Ok(()));
    assert_eq!(check_letter(&letter, HOME, who, None), Ok(()));

    // It has joined again since, or is elsewhere, or nowhere.
    for who in [Some((&group, MemberId(9))), Some((&other_group, MemberId(2))), None] {
        for record in [Some(&record), None] {
            let refused = check_letter(&letter, HOME, who, record);
            assert_eq!(refused, Err(SliceRefusal::OtherMember(MemberId(2))), "{who:?}");
        }
    }
    let again = Letter { to: MemberId(9), ..letter.clone() };
    let refused = check_letter(&again, HOME, Some((&group, MemberId(9))), Some(&record));
    assert_eq!(refused, Err(SliceRefusal::OtherMember(MemberId(2))), "another life has it");

    // Another member asks, or the home in another life.
    let not_home = |asked| Err(SliceRefusal::NotHome { asked: MemberId(asked), home: HOME });
    for record in [Some(&record), None] {
        assert_eq!(check_letter(&letter, MemberId(3), who, record), not_home(3));
    }
    let of_other = Letter { home: MemberId(3), ..letter.clone() };
    assert_eq!(check_letter(&of_other, MemberId(3), who, Some(&record)), not_home(3));
    let of_other = Letter { spread: "b".repeat(32).parse().expect("it is one"), ..letter };
    let refused = check_letter(&of_other, HOME, who, Some(&record));
    assert_eq!(refused, Err(SliceRefusal::OtherVolume));
}

#[test]
fn a_letter_that_cannot_be_is_not_obeyed() {
    let whole = super::record(SpreadStage::Whole);
    let letter = Letter::of(&whole, 1, Order::Make { size_bytes: GIB });
    let check = |letter: &Letter| {
        let (group, me) = (group(), letter.to);
        match check_letter(letter, HOME, Some((&group, me)), None) {
            Err(SliceRefusal::Unsound(_)) => Err(()),
            other => Ok(other),
        }
    };
    assert_eq!(check(&letter), Ok(Ok(())));
    assert_eq!(check(&Letter::of(&whole, 0, Order::Go)), Err(()), "to the home itself");
    for other in [
        Letter { order: Order::Make { size_bytes: 0 }, ..letter.clone() },
        Letter { order: Order::Grow { to_bytes: 0 }, ..letter.clone() },
        Letter { home_array: String::new(), ..letter.clone() },
        Letter { slice: slice_id(2), ..letter.clone() },
    ] {
        assert_eq!(check(&other), Err(()), "{other:?}");
    }
    // Of another volume than the one that the slice was made for.
    let (group, record) = (group(), slice(SliceStage::Here));
    let mut other = letter.clone();
    other.dealt.pattern = vec![0, 1, 2].try_into().expect("it is one");
    for other in [other, Letter { home_array: "badcafe".to_owned(), ..letter }] {
        let refused = check_letter(&other, HOME, Some((&group, MemberId(2))), Some(&record));
        assert_eq!(refused, Err(SliceRefusal::OtherVolume));
    }
}
