//! PREEMPT and PREEMPT AND ABORT (SPC-4 5.13.11.2.4 to 5.13.11.2.6, table 72).

use super::*;
use ProutAction::{Preempt, PreemptAndAbort, Reserve};
use ReservationType::*;

const PREEMPTED: AdditionalSense = AdditionalSense::REGISTRATIONS_PREEMPTED;
const RELEASED: AdditionalSense = AdditionalSense::RESERVATIONS_RELEASED;

#[test]
fn a_zero_key_needs_an_all_registrants_reservation() {
    let refusal = bad_parameter(8, None);
    assert_eq!(Unit::with_three().run(&nexus(0), Preempt, WriteExclusive, (10, 0)), Err(refusal));
    for kind in ReservationType::ALL {
        let mut unit = Unit::reserved(kind);
        let outcome = unit.run(&nexus(1), Preempt, ExclusiveAccess, (11, 0));
        if kind.is_all_registrants() {
            assert_eq!(attentions(&outcome.unwrap()), [(0, PREEMPTED), (2, PREEMPTED)]);
            assert_eq!(unit.keys(), (4, vec![11]));
            assert_eq!(unit.held(), Some((11, ExclusiveAccess as u8)));
        } else {
            assert_eq!(outcome, Err(refusal), "{kind:?}");
        }
    }
}

#[test]
fn an_unknown_key_is_a_conflict_and_changes_nothing() {
    for kind in ReservationType::ALL {
        let mut unit = Unit::reserved(kind);
        let before = unit.state.clone();
        let refusal = unit.run(&nexus(1), PreemptAndAbort, kind, (11, 77)).unwrap_err();
        assert_eq!(refusal, Refusal::Conflict);
        assert_eq!(unit.state, before);
    }
}

#[test]
fn the_holders_key_moves_the_reservation() {
    let mut unit = Unit::reserved(WriteExclusive);
    let effects = unit.run(&nexus(1), Preempt, WriteExclusive, (11, 10)).unwrap();
    assert_eq!(attentions(&effects), [(0, PREEMPTED)], "same type: nobody else is told");
    assert_eq!(unit.held(), Some((11, WriteExclusive as u8)));
    assert_eq!(unit.keys(), (4, vec![11, 12]));
}

#[test]
fn a_changed_type_is_told_to_those_who_stay() {
    let mut unit = Unit::reserved(WriteExclusive);
    let effects = unit.run(&nexus(1), Preempt, ExclusiveAccess, (11, 10)).unwrap();
    assert_eq!(attentions(&effects), [(0, PREEMPTED), (2, RELEASED)]);
}

#[test]
fn the_type_is_checked_only_when_a_reservation_is_made() {
    let mut unit = Unit::reserved(WriteExclusive);
    let bad = Refusal::Check(Sense::invalid_field_in_cdb(2, Some(3)));
    assert_eq!(unit.out(&nexus(1), Preempt, 0, &basic((11, 10), 0)), Err(bad));
    assert!(unit.out(&nexus(1), Preempt, 0, &basic((11, 12), 0)).is_ok());
    assert_eq!(unit.keys().1, [10, 11]);
    assert_eq!(unit.held(), Some((10, WriteExclusive as u8)), "the holder is not touched");
}

#[test]
fn a_holder_may_preempt_itself_and_keeps_its_registration() {
    let mut unit = Unit::reserved(WriteExclusive);
    let kind = ExclusiveAccessRegistrantsOnly;
    let effects = unit.run(&nexus(0), Preempt, kind, (10, 10)).unwrap();
    assert_eq!(attentions(&effects), [(1, RELEASED), (2, RELEASED)]);
    assert_eq!(unit.held(), Some((10, kind as u8)));
    assert_eq!(unit.keys().1.len(), 3);
}

#[test]
fn preempting_ones_own_key_without_holding_removes_it_without_attention() {
    let mut unit = Unit::reserved(WriteExclusive);
    let effects = unit.run(&nexus(1), PreemptAndAbort, WriteExclusive, (11, 11)).unwrap();
    assert_eq!(effects.attentions, []);
    assert_eq!(effects.aborted, [nexus(1)]);
    assert_eq!(unit.keys().1, [10, 12]);
}

#[test]
fn all_registrants_with_a_key_loses_registrations_and_ends_with_the_last() {
    let mut unit = Unit::reserved(ExclusiveAccessAllRegistrants);
    let effects = unit.run(&nexus(1), Preempt, WriteExclusive, (11, 10)).unwrap();
    assert_eq!(attentions(&effects), [(0, PREEMPTED)]);
    assert_eq!(unit.held(), Some((0, ExclusiveAccessAllRegistrants as u8)));
    let _ = unit.run(&nexus(1), Preempt, WriteExclusive, (11, 12)).unwrap();
    let _ = unit.run(&nexus(1), Preempt, WriteExclusive, (11, 11)).unwrap();
    assert_eq!((unit.held(), unit.keys().1), (None, vec![]));
}

#[test]
fn equal_keys_fall_together_and_only_the_sender_stays() {
    let mut unit = Unit::default();
    (0..3).for_each(|n| unit.register(&nexus(n), 5));
    let _ = unit.run(&nexus(0), Reserve, WriteExclusive, (5, 0)).unwrap();
    let effects = unit.run(&nexus(2), PreemptAndAbort, WriteExclusive, (5, 5)).unwrap();
    assert_eq!(attentions(&effects), [(0, PREEMPTED), (1, PREEMPTED)]);
    assert_eq!(effects.aborted, [nexus(0), nexus(1), nexus(2)]);
    assert_eq!(unit.keys().1, [5]);
    assert!(!unit.state.conflicts(&nexus(2), crate::cdb::AccessClass::Write));
}

#[test]
fn only_preempt_and_abort_aborts() {
    for kind in ReservationType::ALL {
        let mut unit = Unit::reserved(kind);
        let plain = unit.clone().run(&nexus(1), Preempt, kind, (11, 12)).unwrap();
        assert_eq!(plain.aborted, []);
        let abort = unit.run(&nexus(1), PreemptAndAbort, kind, (11, 12)).unwrap();
        assert_eq!(abort.aborted, [nexus(2)], "{kind:?}");
        assert_eq!(abort.attentions, plain.attentions);
    }
}
