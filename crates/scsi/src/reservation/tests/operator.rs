//! What an operator sees, and ends.

use super::*;

#[test]
fn an_operator_sees_who_is_registered_and_clears_it_as_a_host_does() {
    let mut unit = Unit::reserved(ReservationType::ExclusiveAccess);
    let list = basic((10, 10), 1);
    let _ = unit.out(&nexus(0), ProutAction::RegisterAndIgnoreExistingKey, 0, &list).unwrap();
    let info = unit.state.info();
    assert_eq!((info.kind, info.is_persistent), (Some(ReservationType::ExclusiveAccess), true));
    let seen: Vec<_> = info.registrants.iter().map(|one| (one.key, one.is_holder)).collect();
    assert_eq!(seen, [(10, true), (11, false), (12, false)]);

    let by_host =
        unit.clone().run(&nexus(9), ProutAction::Clear, ReservationType::ExclusiveAccess, (10, 0));
    assert_eq!(by_host, Err(Refusal::Conflict), "no host that is not registered can");
    let (before, _) = unit.keys();
    let done = unit.state.clear();
    assert!(done.changed && done.save, "it outlives a loss of power, too");
    let told: Vec<_> = done.attentions.iter().map(|(nexus, what)| (nexus.clone(), *what)).collect();
    let wanted = [0, 1, 2].map(|n| (nexus(n), AdditionalSense::RESERVATIONS_PREEMPTED));
    assert_eq!(told, wanted);
    assert_eq!((unit.keys(), unit.held()), ((before + 1, vec![]), None));
    assert_eq!(unit.state.clear(), Effects::default(), "there is nothing more to clear");
}

#[test]
fn an_operator_ends_the_older_reservation_too() {
    let mut unit = Unit::default();
    unit.state.reserve(&nexus(1)).expect("it is free");
    assert_eq!(unit.state.info().legacy, Some(nexus(1)));
    assert_eq!(unit.state.clear(), Effects::default());
    assert_eq!(unit.state.end_legacy(), Some(nexus(1)));
    assert_eq!((unit.state.end_legacy(), unit.state.info().legacy), (None, None));
    unit.state.reserve(&nexus(2)).expect("it is free again");
}
