//! One service action at a time: refusals, field pointers, generation, APTPL.

use super::*;
use ProutAction::*;
use ReservationType::*;

#[test]
fn the_basic_list_is_exactly_24_bytes() {
    let mut unit = Unit::with_three();
    for bytes in [0, 8, 23, 25, 48] {
        let list = vec![0; bytes];
        let refusal = unit.out(&nexus(0), Clear, 0, &list).unwrap_err();
        assert_eq!(refusal, illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR), "{bytes}");
    }
    // Less data than the CDB announced.
    let ports = Ports { target_ports: &[1], nexuses: &[] };
    let parameters = &basic((10, 0), 0)[..20];
    let command = PersistentOut { action: Clear, scope: 0, kind: 0, list_bytes: 24, parameters };
    let refusal = unit.state.persistent_out(&nexus(0), &command, &ports).unwrap_err();
    assert_eq!(refusal, illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR));
}

#[test]
fn register_with_two_zero_keys_does_nothing() {
    let mut unit = Unit::default();
    for action in [Register, RegisterAndIgnoreExistingKey] {
        // APTPL is not looked at either: nothing is done.
        let effects = unit.out(&nexus(0), action, 0, &basic((0, 0), 0x01)).unwrap();
        assert_eq!(effects, Effects::default());
    }
    assert_eq!((unit.keys(), unit.state.is_persistent()), ((0, vec![]), false));
}

#[test]
fn a_key_may_change_without_touching_the_reservation() {
    let mut unit = Unit::reserved(WriteExclusive);
    let _ = unit.run(&nexus(0), Register, WriteExclusive, (10, 99)).unwrap();
    assert_eq!(unit.held(), Some((99, WriteExclusive as u8)));
    assert_eq!(unit.keys().1, [99, 11, 12]);
}

#[test]
fn scope_and_type_are_checked_where_they_count() {
    let mut unit = Unit::with_three();
    let reserve = |unit: &mut Unit, scope, kind| {
        let ports = Ports { target_ports: &[1], nexuses: &[] };
        let parameters = &basic((10, 0), 0);
        let command = PersistentOut { action: Reserve, scope, kind, list_bytes: 24, parameters };
        unit.state.persistent_out(&nexus(0), &command, &ports)
    };
    let bad_cdb = |bit| Refusal::Check(Sense::invalid_field_in_cdb(2, Some(bit)));
    assert_eq!(reserve(&mut unit, 1, 1), Err(bad_cdb(7)));
    for kind in [0, 2, 4, 9, 15] {
        assert_eq!(reserve(&mut unit, 0, kind), Err(bad_cdb(3)), "type {kind}");
    }
    // REGISTER and CLEAR ignore both.
    assert!(unit.out(&nexus(0), Register, 0xf, &basic((10, 10), 0)).is_ok());
    assert!(unit.out(&nexus(0), Clear, 0xf, &basic((10, 0), 0)).is_ok());
}

#[test]
fn the_key_is_verified_before_anything_else_of_the_request() {
    let mut unit = Unit::reserved(WriteExclusive);
    for action in [Reserve, Release, Clear, Preempt, PreemptAndAbort] {
        assert_eq!(unit.out(&nexus(1), action, 0xf, &basic((10, 0), 0)), Err(Refusal::Conflict));
        assert_eq!(unit.out(&nexus(9), action, 0xf, &basic((0, 0), 0)), Err(Refusal::Conflict));
    }
}

#[test]
fn reserving_again_is_no_change_and_reserving_otherwise_a_conflict() {
    for kind in ReservationType::ALL {
        let mut unit = Unit::reserved(kind);
        let again = unit.run(&nexus(0), Reserve, kind, (10, 0)).unwrap();
        assert_eq!(again, Effects::default());
        for other in ReservationType::ALL.into_iter().filter(|&other| other != kind) {
            let refusal = unit.run(&nexus(0), Reserve, other, (10, 0)).unwrap_err();
            assert_eq!(refusal, Refusal::Conflict, "{kind:?} to {other:?}");
        }
        let by_another = unit.run(&nexus(1), Reserve, kind, (11, 0));
        assert_eq!(by_another.is_ok(), kind.is_all_registrants(), "{kind:?}");
    }
}

#[test]
fn release_by_a_registrant_that_holds_nothing_is_good_and_does_nothing() {
    let mut unit = Unit::reserved(ExclusiveAccess);
    let effects = unit.run(&nexus(1), Release, ExclusiveAccess, (11, 0)).unwrap();
    assert_eq!(effects, Effects::default());
    assert!(unit.held().is_some());
}

#[test]
fn release_with_another_type_is_an_invalid_release() {
    for kind in ReservationType::ALL {
        let mut unit = Unit::reserved(kind);
        for other in (0..16).filter(|&other| other != kind as u8) {
            let refusal = unit.out(&nexus(0), Release, other, &basic((10, 0), 0)).unwrap_err();
            let code = AdditionalSense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION;
            assert_eq!(refusal, illegal(code));
        }
    }
}

#[test]
fn release_of_a_shared_type_tells_the_other_registrants() {
    for kind in ReservationType::ALL {
        let mut unit = Unit::reserved(kind);
        let effects = unit.run(&nexus(0), Release, kind, (10, 0)).unwrap();
        let code = AdditionalSense::RESERVATIONS_RELEASED;
        let told = [(1, code), (2, code)];
        let expected: &[_] = if kind.admits_registrants() { &told } else { &[] };
        assert_eq!(attentions(&effects), expected, "{kind:?}");
        assert_eq!(unit.keys().1.len(), 3);
    }
}

#[test]
fn all_target_ports_registers_and_unregisters_each_port() {
    let mut unit = Unit::default();
    let through = |port| NexusKey { target_port: port, ..nexus(0) };
    let _ = unit.out(&nexus(0), Register, 0, &basic((0, 7), 0x04)).unwrap();
    assert_eq!(unit.keys(), (1, vec![7, 7]));
    assert_eq!(unit.state.key_of(&through(2)), Some(7));
    // One port has another key by now: as if sent to it, the request conflicts, and does nothing.
    unit.register(&through(2), 8);
    let refusal = unit.out(&nexus(0), Register, 0, &basic((7, 0), 0x04)).unwrap_err();
    assert_eq!(refusal, Refusal::Conflict);
    let _ = unit.out(&nexus(0), RegisterAndIgnoreExistingKey, 0, &basic((0, 0), 0x04)).unwrap();
    assert_eq!(unit.keys(), (3, vec![]));
}

#[test]
fn aptpl_is_that_of_the_last_registration_and_asks_for_a_save() {
    let mut unit = Unit::default();
    let plain = unit.out(&nexus(0), Register, 0, &basic((0, 1), 0)).unwrap();
    assert!(plain.changed && !plain.save);
    let on = unit.out(&nexus(1), Register, 0, &basic((0, 2), 0x01)).unwrap();
    assert!(on.save && unit.state.is_persistent());
    let reserve = unit.run(&nexus(0), Reserve, WriteExclusive, (1, 0)).unwrap();
    assert!(reserve.save, "the reservation has to survive as well");
    let off = unit.out(&nexus(1), Register, 0, &basic((2, 2), 0)).unwrap();
    assert!(off.save && !unit.state.is_persistent(), "the saved image must not come back");
}

#[test]
fn the_number_of_registrations_is_bounded() {
    let mut unit = Unit::default();
    let many = |n: usize| nexus_key(&format!("iqn.{}", n / 8), [0, 0, 0, 0, 0, n as u8], 1);
    for n in 0..REGISTRATIONS_MAX - 16 {
        unit.register(&many(n), 1);
    }
    for n in 0..16 {
        unit.register(&nexus(n), 1);
    }
    let full = illegal(AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES);
    let next = many(REGISTRATIONS_MAX);
    assert_eq!(unit.run(&next, Register, WriteExclusive, (0, 1)), Err(full));
    // Those that are registered may still change their key, and make room.
    unit.register(&many(3), 2);
    let _ = unit.run(&many(3), Register, WriteExclusive, (2, 0)).unwrap();
    unit.register(&next, 1);
    assert_eq!(unit.keys().1.len(), REGISTRATIONS_MAX);
}

#[test]
fn no_initiator_takes_all_registrations() {
    let full = illegal(AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES);
    let mut unit = Unit::default();
    let port = |name: &str, n: usize| nexus_key(name, [0, 0, 0, 0, (n >> 8) as u8, n as u8], 1);
    let mut take = |name: &str| {
        let mut taken = 0;
        let refusal = loop {
            match unit.run(&port(name, taken), Register, WriteExclusive, (0, 1)) {
                Ok(_) => taken += 1,
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(refusal, full);
        taken
    };
    assert_eq!(take("iqn.greedy"), REGISTRATIONS_MAX / 2);
    assert_eq!(take("iqn.other"), REGISTRATIONS_MAX / 4);
    // Whoever comes has what its paths need, or one at least, and can fence the others off.
    assert!((0..3).all(|n| take(&format!("iqn.{n}")) >= 8));
    assert!((3..19).all(|n| take(&format!("iqn.{n}")) == 1));
}

/// A name is a claim: who is known by more than that has one share under all of his names, and a host that comes then
/// can take his registrations away.
#[test]
fn who_comes_under_many_names_leaves_others_what_fences_him_off() {
    let full = Err(illegal(AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES));
    let mut unit = Unit::default();
    let by = |owner: &str, name: &str, n: usize| {
        let nexus = nexus_key(name, [0, 0, 0, 0, (n >> 8) as u8, n as u8], 1);
        Registrar { nexus, owner: owner.into() }
    };
    let register =
        |unit: &mut Unit, by: Registrar| unit.out(by, Register, 0, &basic((0, 0x666), 1)).map(drop);
    let take = |unit: &mut Unit, owner: &str| {
        let names = (0..40).map(|n| format!("iqn.{owner}.{n}"));
        let ports = names.flat_map(|name| (0..64).map(move |n| (name.clone(), n)));
        ports.filter(|(name, n)| register(unit, by(owner, name, *n)).is_ok()).count()
    };
    assert_eq!(take(&mut unit, "bob"), REGISTRATIONS_MAX / 2);
    let reserve = unit.out(by("bob", "iqn.bob.0", 0), Reserve, 3, &basic((0x666, 0), 0));
    assert!(reserve.is_ok());
    // Even where many work together, there is room for those who have nothing yet.
    let mut owners = 0;
    while take(&mut unit, &format!("friend{owners}")) > 1 {
        owners += 1;
    }
    assert_eq!(unit.keys().1.len(), REGISTRATIONS_MAX - 15);
    assert_eq!(
        register(&mut unit, by("bob", "iqn.new", 0)),
        full,
        "another name is not another owner"
    );
    let alice = by("alice", "iqn.alice", 0);
    assert_eq!(register(&mut unit, alice.clone()), Ok(()));
    assert_eq!(register(&mut unit, by("alice", "iqn.alice", 1)), full, "the rest is for others");
    assert!(unit.out(alice, Clear, 0, &basic((0x666, 0), 0)).is_ok());
    assert_eq!(unit.keys().1, []);
}

#[test]
fn full_status_names_ports_and_holders() {
    let unit = Unit::reserved(WriteExclusiveRegistrantsOnly);
    let data = unit.state.persistent_in(PrinAction::ReadFullStatus).unwrap();
    assert_eq!(data[..4], [0, 0, 0, 3]);
    assert_eq!(data[4..8], ((data.len() - 8) as u32).to_be_bytes());
    let mut rest = &data[8..];
    for n in 0..3_u8 {
        let (fixed, more) = rest.split_at(24);
        assert_eq!(fixed[..8], (10 + u64::from(n)).to_be_bytes());
        let holds = n == 0;
        assert_eq!(fixed[12..14], if holds { [1, 5] } else { [0, 0] });
        assert_eq!(fixed[18..20], [0, 1], "relative target port");
        let id_bytes = u32::from_be_bytes(fixed[20..24].try_into().unwrap()) as usize;
        let (id, used) = TransportId::parse(more).unwrap();
        assert_eq!((id, used), (TransportId::from(&nexus(n)), id_bytes));
        rest = &more[id_bytes..];
    }
    assert_eq!(rest, []);
}
