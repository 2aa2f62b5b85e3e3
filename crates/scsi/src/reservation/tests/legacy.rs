//! RESERVE and RELEASE of SPC-2, and how they meet persistent reservations (SPC-4 5.13.3).

use super::*;
use crate::cdb::AccessClass::*;
use ReservationType::*;

fn reserved_by_0() -> Reservations {
    let mut state = Reservations::new();
    state.reserve(&nexus(0)).unwrap();
    state
}

#[test]
fn reserve_keeps_all_but_the_harmless_commands_of_others_out() {
    let state = reserved_by_0();
    for class in [Always, AlwaysPersistent, Read, Write, Reservation] {
        assert!(!state.conflicts(&nexus(0), class));
        let passes = matches!(class, Always | Reservation);
        assert_eq!(state.conflicts(&nexus(1), class), !passes, "{class:?}");
    }
}

#[test]
fn only_the_holder_releases() {
    let mut state = reserved_by_0();
    assert_eq!(state.reserve(&nexus(0)), Ok(()), "reserving again is no error");
    assert_eq!(state.reserve(&nexus(1)), Err(Refusal::Conflict));
    assert_eq!(state.release_legacy(&nexus(1)), Ok(()), "GOOD, without effect");
    assert!(state.conflicts(&nexus(1), Write));
    state.release_legacy(&nexus(0)).unwrap();
    assert!(!state.conflicts(&nexus(1), Write));
}

#[test]
fn it_ends_with_the_nexus_and_with_a_reset() {
    let mut state = reserved_by_0();
    state.nexus_lost(&nexus(1));
    assert!(state.conflicts(&nexus(1), Write), "another nexus was lost");
    let revision = state.revision();
    state.nexus_lost(&nexus(0));
    assert!(!state.conflicts(&nexus(1), Write) && state.revision() > revision);
    let mut state = reserved_by_0();
    assert!(state.logical_unit_reset());
    assert!(!state.logical_unit_reset());
    assert!(!state.conflicts(&nexus(1), Write));
}

#[test]
fn persistent_reservations_survive_both() {
    let mut unit = Unit::reserved(WriteExclusive);
    let before = unit.state.clone();
    unit.state.nexus_lost(&nexus(0));
    assert!(!unit.state.logical_unit_reset());
    assert_eq!(unit.state, before);
}

#[test]
fn persistent_commands_conflict_with_a_reserve_even_of_the_same_nexus() {
    let mut unit = Unit { state: reserved_by_0() };
    let refusal = unit.out(&nexus(0), ProutAction::Register, 0, &basic((0, 1), 0));
    assert_eq!(refusal, Err(Refusal::Conflict));
    assert_eq!(unit.state.persistent_in(PrinAction::ReadKeys), Err(Refusal::Conflict));
}

#[test]
fn compatible_reservation_handling() {
    for kind in ReservationType::ALL {
        let mut unit = Unit::reserved(kind);
        let before = unit.state.clone();
        assert_eq!(unit.state.reserve(&nexus(0)), Ok(()));
        assert_eq!(unit.state.release_legacy(&nexus(0)), Ok(()));
        let registrant = if kind.admits_registrants() { Ok(()) } else { Err(Refusal::Conflict) };
        assert_eq!(unit.state.reserve(&nexus(1)), registrant, "{kind:?}");
        assert_eq!(unit.state.release_legacy(&nexus(1)), registrant, "{kind:?}");
        assert_eq!(unit.state.reserve(&nexus(9)), Err(Refusal::Conflict));
        assert_eq!(unit.state, before, "nothing of it has an effect");
    }
}

#[test]
fn registrations_alone_are_in_the_way_of_reserve() {
    let mut unit = Unit::with_three();
    assert_eq!(unit.state.reserve(&nexus(0)), Err(Refusal::Conflict));
    assert_eq!(unit.state.release_legacy(&nexus(0)), Err(Refusal::Conflict));
}
