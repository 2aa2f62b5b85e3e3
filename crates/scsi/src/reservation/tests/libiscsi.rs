//! The PR families of libiscsi's test suite, told again against the pure state.

use super::*;
use crate::cdb::{AccessClass, Command};
use ProutAction::*;
use ReservationType::*;

#[test]
fn prin_read_keys_simple_and_truncate() {
    let unit = Unit::with_three();
    let (generation, keys) = unit.keys();
    assert_eq!((generation, keys), (3, vec![10, 11, 12]));
    assert_eq!(Unit::default().keys(), (0, vec![]), "an empty list has its header");
}

#[test]
fn prin_serviceaction_range() {
    let command = |action| crate::cdb::decode(&[0x5e, action, 0, 0, 0, 0, 0, 0, 255, 0]);
    for action in 0..0x20 {
        match (action, command(action)) {
            (0..=3, Ok((_, Command::PersistentReserveIn { action, .. }))) => {
                assert!(Unit::with_three().state.persistent_in(action).is_ok());
            }
            (4.., Err(sense)) => assert_eq!(sense, Sense::invalid_field_in_cdb(1, Some(4))),
            (_, other) => panic!("service action {action:#x}: {other:?}"),
        }
    }
}

#[test]
fn prin_report_capabilities_simple() {
    let mut unit = Unit::default();
    let report = |unit: &Unit| unit.state.persistent_in(PrinAction::ReportCapabilities).unwrap();
    // CRH, SIP_C, ATP_C, PTPL_C; TMV and ALLOW COMMANDS 001b; all six types.
    assert_eq!(report(&unit), [0, 8, 0x1d, 0x90, 0xea, 0x01, 0, 0]);
    let _ = unit.out(&nexus(0), Register, 0, &basic((0, 1), 0x01)).unwrap();
    assert_eq!(report(&unit)[3], 0x91, "PTPL_A follows APTPL");
}

#[test]
fn prout_register_simple() {
    let mut unit = Unit::default();
    unit.register(&nexus(0), 5);
    assert_eq!(unit.keys(), (1, vec![5]));
    let wrong = unit.run(&nexus(0), Register, WriteExclusive, (6, 0));
    assert_eq!(wrong, Err(Refusal::Conflict), "unregister with the wrong key");
    let _ = unit.run(&nexus(0), Register, WriteExclusive, (5, 0)).unwrap();
    assert_eq!(unit.keys(), (2, vec![]));
    // Unregistered now, and a key: table 67, row 4.
    assert_eq!(unit.run(&nexus(0), Register, WriteExclusive, (5, 0)), Err(Refusal::Conflict));
}

#[test]
fn prout_reserve_simple() {
    for kind in ReservationType::ALL {
        let mut unit = Unit::default();
        assert_eq!(unit.run(&nexus(0), Reserve, kind, (1, 0)), Err(Refusal::Conflict));
        unit.register(&nexus(0), 1);
        let _ = unit.run(&nexus(0), Reserve, kind, (1, 0)).unwrap();
        let shown = if kind.is_all_registrants() { 0 } else { 1 };
        assert_eq!(unit.held(), Some((shown, kind as u8)));
        let _ = unit.run(&nexus(0), Release, kind, (1, 0)).unwrap();
        assert_eq!(unit.held(), None);
        assert_eq!(unit.keys(), (1, vec![1]), "neither changes the generation");
    }
}

/// ProutReserve.Access*: may nexus 1 read and write, registered and not?
#[test]
fn prout_reserve_access() {
    use AccessClass::{Read, Write};
    for (kind, registered, unregistered) in [
        (ExclusiveAccess, (false, false), (false, false)),
        (WriteExclusive, (true, false), (true, false)),
        (ExclusiveAccessRegistrantsOnly, (true, true), (false, false)),
        (WriteExclusiveRegistrantsOnly, (true, true), (true, false)),
        (ExclusiveAccessAllRegistrants, (true, true), (false, false)),
        (WriteExclusiveAllRegistrants, (true, true), (true, false)),
    ] {
        let mut unit = Unit::reserved(kind);
        let may = |unit: &Unit, n| {
            let passes = |class| !unit.state.conflicts(&nexus(n), class);
            (passes(Read), passes(Write))
        };
        assert_eq!(may(&unit, 0), (true, true), "{kind:?}: the holder");
        assert_eq!(may(&unit, 1), registered, "{kind:?}: registered");
        assert_eq!(may(&unit, 9), unregistered, "{kind:?}: unregistered");
        let revision = unit.state.revision();
        let _ = unit.run(&nexus(1), Register, kind, (11, 0)).unwrap();
        assert_eq!(may(&unit, 1), unregistered, "{kind:?}: no longer registered");
        assert!(unit.state.revision() > revision, "a cached access must be looked up again");
        for class in [AccessClass::Always, AccessClass::AlwaysPersistent] {
            assert!(!unit.state.conflicts(&nexus(1), class), "{kind:?} {class:?}");
        }
    }
}

/// ProutReserve.Ownership*: the reservation goes with its holder's registration, except that the
/// all registrants types stay with the others.
#[test]
fn prout_reserve_ownership() {
    for kind in ReservationType::ALL {
        let mut unit = Unit::default();
        unit.register(&nexus(0), 10);
        unit.register(&nexus(1), 11);
        let _ = unit.run(&nexus(0), Reserve, kind, (10, 0)).unwrap();
        let effects = unit.run(&nexus(0), Register, kind, (10, 0)).unwrap();
        if kind.is_all_registrants() {
            assert_eq!(unit.held(), Some((0, kind as u8)));
            assert_eq!(attentions(&effects), []);
            let _ = unit.run(&nexus(1), Release, kind, (11, 0)).unwrap();
        } else {
            let told = [(1, AdditionalSense::RESERVATIONS_RELEASED)];
            let expected: &[_] = if kind.admits_registrants() { &told } else { &[] };
            assert_eq!(attentions(&effects), expected, "{kind:?}");
        }
        assert_eq!(unit.held(), None, "{kind:?}");
        let _ = unit.run(&nexus(1), Register, kind, (11, 0)).unwrap();
        assert_eq!(unit.keys().1, []);
    }
}

#[test]
fn prout_clear_simple() {
    let mut unit = Unit::reserved(ExclusiveAccess);
    assert_eq!(unit.run(&nexus(9), Clear, WriteExclusive, (10, 0)), Err(Refusal::Conflict));
    let effects = unit.run(&nexus(1), Clear, WriteExclusive, (11, 0)).unwrap();
    assert_eq!((unit.held(), unit.keys()), (None, (4, vec![])));
    let code = AdditionalSense::RESERVATIONS_PREEMPTED;
    assert_eq!(attentions(&effects), [(0, code), (2, code)]);
}

#[test]
fn prout_preempt_remove_registration() {
    let mut unit = Unit::default();
    unit.register(&nexus(0), 1);
    unit.register(&nexus(1), 2);
    let (generation, _) = unit.keys();
    let effects = unit.run(&nexus(1), Preempt, ExclusiveAccess, (2, 1)).unwrap();
    assert_eq!(attentions(&effects), [(0, AdditionalSense::REGISTRATIONS_PREEMPTED)]);
    assert_eq!(unit.keys(), (generation + 1, vec![2]));
    assert_eq!(unit.held(), None, "there was no reservation to take over");
}
