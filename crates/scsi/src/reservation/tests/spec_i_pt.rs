//! Registering other initiator ports (SPEC_I_PT), and REGISTER AND MOVE: the parameter lists with
//! TransportIDs.

use super::*;
use ProutAction::{Clear, Register, RegisterAndIgnoreExistingKey, RegisterAndMove};
use ReservationType::*;
use proptest::prelude::*;

const SPEC_I_PT: u8 = 0x08;
const ALL_TG_PT: u8 = 0x04;

fn with_ids(keys: (u64, u64), flags: u8, ids: &[TransportId]) -> Vec<u8> {
    let mut list = basic(keys, flags);
    let mut bytes = Vec::new();
    ids.iter().for_each(|id| id.emit(&mut bytes));
    list.extend((bytes.len() as u32).to_be_bytes());
    list.extend(bytes);
    list
}

fn id_of(n: u8) -> TransportId {
    TransportId::from(&nexus(n))
}

/// REGISTER AND MOVE's list (SPC-4 table 217) to `id` on `target_port`.
fn moving(keys: (u64, u64), flags: u8, target_port: u16, id: &TransportId) -> Vec<u8> {
    let mut list = basic(keys, 0);
    list[17] = flags;
    list[18..20].copy_from_slice(&target_port.to_be_bytes());
    let mut bytes = Vec::new();
    id.emit(&mut bytes);
    list[20..24].copy_from_slice(&(bytes.len() as u32).to_be_bytes());
    list.extend(bytes);
    list
}

#[test]
fn the_sender_and_all_listed_ports_are_registered_in_one_step() {
    let mut unit = Unit::default();
    let list = with_ids((0, 6), SPEC_I_PT, &[id_of(1), id_of(2), id_of(1)]);
    let _ = unit.out(&nexus(0), Register, 0, &list).unwrap();
    assert_eq!(unit.keys(), (1, vec![6, 6, 6]));
    assert_eq!(unit.state.key_of(&nexus(2)), Some(6));
    let mut wide = Unit::default();
    let list = with_ids((0, 6), SPEC_I_PT | ALL_TG_PT, &[id_of(1)]);
    let _ = wide.out(&nexus(0), Register, 0, &list).unwrap();
    assert_eq!(wide.keys().1.len(), 4, "two initiator ports on two target ports");
}

#[test]
fn a_node_name_stands_for_its_known_ports() {
    let name_only = |name: &str| TransportId { name: name.into(), isid: None };
    let mut unit = Unit::default();
    let known = with_ids((0, 6), SPEC_I_PT, &[name_only(&nexus(1).initiator)]);
    let _ = unit.out(&nexus(0), Register, 0, &known).unwrap();
    assert_eq!(unit.state.key_of(&nexus(1)), Some(6));
    let stranger = with_ids((0, 6), SPEC_I_PT, &[name_only("iqn.stranger")]);
    let refusal = Unit::default().out(&nexus(0), Register, 0, &stranger).unwrap_err();
    assert_eq!(refusal, bad_parameter(28, None));
}

#[test]
fn nothing_is_registered_if_one_port_cannot_be() {
    let mut unit = Unit::default();
    unit.register(&nexus(2), 1);
    let list = with_ids((0, 6), SPEC_I_PT, &[id_of(1), id_of(2)]);
    let second = 28 + (list.len() - 28) / 2;
    let refusal = unit.out(&nexus(0), Register, 0, &list).unwrap_err();
    assert_eq!(refusal, bad_parameter(second as u16, None));
    assert_eq!(unit.keys(), (1, vec![1]));
}

#[test]
fn spec_i_pt_goes_with_register_from_an_unregistered_nexus_only() {
    let mut unit = Unit::with_three();
    let refusal = bad_parameter(20, Some(3));
    let list = |keys| with_ids(keys, SPEC_I_PT, &[id_of(5)]);
    assert_eq!(unit.out(&nexus(0), Register, 0, &list((10, 0))), Err(refusal));
    assert_eq!(unit.out(&nexus(0), Register, 0, &list((10, 3))), Err(refusal));
    assert_eq!(unit.out(&nexus(0), Register, 0, &list((9, 3))), Err(Refusal::Conflict));
    for action in [RegisterAndIgnoreExistingKey, Clear] {
        assert_eq!(unit.out(&nexus(0), action, 0, &list((10, 3))), Err(refusal), "{action:?}");
    }
    assert_eq!(unit.keys().0, 3);
}

#[test]
fn lengths_of_the_list_of_transport_ids() {
    let length_error = illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
    let whole = with_ids((0, 6), SPEC_I_PT, &[id_of(1)]);
    for bytes in 24..whole.len() {
        let refusal = Unit::default().out(&nexus(0), Register, 0, &whole[..bytes]).unwrap_err();
        assert_eq!(refusal, length_error, "cut to {bytes}");
    }
    let mut split = whole.clone();
    split[27] -= 4; // the length ends within the TransportID
    let refusal = Unit::default().out(&nexus(0), Register, 0, &split).unwrap_err();
    assert_eq!(refusal, bad_parameter(30, None), "at ADDITIONAL LENGTH");
}

#[test]
fn a_thousand_listed_ports_are_refused_without_effect() {
    let ids: Vec<_> = (0..1000_u32)
        .map(|n| TransportId { name: format!("iqn.{n}"), isid: Some([0; 6]) })
        .collect();
    let mut unit = Unit::default();
    let refusal = unit.out(&nexus(0), Register, 0, &with_ids((0, 6), SPEC_I_PT, &ids)).unwrap_err();
    assert_eq!(refusal, illegal(AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES));
    assert_eq!(unit.keys(), (0, vec![]));
}

#[test]
fn who_lists_others_leaves_a_quarter_to_those_who_come_themselves() {
    let full = illegal(AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES);
    let mut unit = Unit::default();
    let mut list = |round: u8| {
        let id = |n: u8| TransportId { name: format!("iqn.{round}.{n}"), isid: Some([0; 6]) };
        let ids: Vec<_> = (0..96).map(id).collect();
        let by = nexus_key(&format!("iqn.by.{round}"), [0; 6], 1);
        unit.out(&by, Register, 0, &with_ids((0, 6), SPEC_I_PT, &ids)).map(drop)
    };
    assert!((0..3).all(|round| list(round).is_ok()));
    assert_eq!(list(3), Err(full), "4 * 97 are more than three quarters");
    let comes = (0..100).filter(|n| {
        let port = nexus_key(&format!("iqn.new.{n}"), [0; 6], 1);
        unit.out(&port, Register, 0, &basic((0, 1), 0)).is_ok()
    });
    assert_eq!(comes.count(), 100);
}

/// Names that one invents count as his own: otherwise one command takes what others need.
#[test]
fn who_lists_others_has_no_more_than_his_share() {
    let full = illegal(AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES);
    let mut unit = Unit::default();
    let id = |n: u16| TransportId { name: format!("iqn.invented.{n}"), isid: Some([0; 6]) };
    let list = |count| with_ids((0, 6), SPEC_I_PT, &(0..count).map(id).collect::<Vec<_>>());
    let by = nexus_key("iqn.by", [0; 6], 1);
    assert_eq!(unit.out(&by, Register, 0, &list(383)), Err(full));
    assert!(unit.out(&by, Register, 0, &list(255)).is_ok());
    let other = nexus_key("iqn.other", [0; 6], 1);
    let ids: Vec<_> = (0..100).map(|n| id(1000 + n)).collect();
    assert!(unit.out(&other, Register, 0, &with_ids((0, 6), SPEC_I_PT, &ids)).is_ok());
    let counted = unit.state.registrants();
    assert_eq!(counted.into_values().collect::<Vec<_>>(), [256, 101], "by who has made them");
}

/// Who has nothing yet may take one of the last, and not all of them at once.
#[test]
fn the_first_command_of_a_host_does_not_take_all() {
    let mut unit = Unit::default();
    let by = nexus_key("iqn.greedy", [0; 6], 1);
    let id = |n: u16| TransportId {
        name: "iqn.greedy".to_owned(),
        isid: Some([0, 0, 0, 1, (n >> 8) as u8, n as u8]),
    };
    let list = |count: u16| with_ids((0, 6), SPEC_I_PT, &(0..count).map(id).collect::<Vec<_>>());
    let full = illegal(AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES);
    assert_eq!(unit.out(&by, Register, 0, &list(511)), Err(full));
    assert_eq!(unit.out(&by, Register, 0, &list(497)), Err(full));
    assert!(unit.out(&by, Register, 0, &list(7)).is_ok());
}

#[test]
fn register_and_move_moves() {
    let mut unit = Unit::reserved(WriteExclusive);
    let list = moving((10, 50), 0x01, 2, &id_of(7));
    let effects = unit.out(&nexus(0), RegisterAndMove, 0, &list).unwrap();
    assert!(effects.save && effects.attentions.is_empty());
    assert_eq!(unit.held(), Some((50, WriteExclusive as u8)));
    let target = NexusKey { target_port: 2, ..nexus(7) };
    assert_eq!(unit.state.key_of(&target), Some(50));
    assert_eq!(unit.keys(), (4, vec![10, 11, 12, 50]));
}

#[test]
fn register_and_move_may_unregister_the_sender_and_rekey_the_target() {
    let mut unit = Unit::reserved(ExclusiveAccessRegistrantsOnly);
    let list = moving((10, 50), 0x02, 1, &id_of(1));
    let effects = unit.out(&nexus(0), RegisterAndMove, 0, &list).unwrap();
    assert_eq!(effects.attentions, [], "the reservation went on, so nobody is told it ended");
    assert_eq!(unit.keys(), (4, vec![50, 12]));
    assert_eq!(unit.held(), Some((50, ExclusiveAccessRegistrantsOnly as u8)));
}

#[test]
fn register_and_move_refusals() {
    let run = |unit: &mut Unit, from: u8, list: &[u8]| {
        let before = unit.state.clone();
        let refusal = unit.out(&nexus(from), RegisterAndMove, 0, list).unwrap_err();
        assert_eq!(unit.state, before);
        refusal
    };
    let held = &mut Unit::reserved(WriteExclusive);
    let list = |keys| moving(keys, 0, 1, &id_of(7));
    assert_eq!(run(held, 9, &list((0, 5))), Refusal::Conflict, "unregistered");
    assert_eq!(run(held, 0, &list((1, 5))), Refusal::Conflict, "wrong key");
    assert_eq!(run(held, 1, &list((11, 5))), Refusal::Conflict, "not the holder");
    assert_eq!(run(held, 0, &list((10, 0))), bad_parameter(8, None));
    let to_self = moving((10, 5), 0, 2, &id_of(0));
    assert_eq!(run(held, 0, &to_self), bad_parameter(24, None), "the sender's own port");
    let no_port = moving((10, 5), 0, 3, &id_of(7));
    assert_eq!(run(held, 0, &no_port), bad_parameter(18, None), "no such target port");
    let node = TransportId { isid: None, ..id_of(7) };
    assert_eq!(run(held, 0, &moving((10, 5), 0, 1, &node)), bad_parameter(24, Some(7)));
    let mut short = list((10, 5));
    short.pop();
    assert_eq!(run(held, 0, &short), illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR));
    let mut odd = list((10, 5));
    odd[23] -= 1;
    assert_eq!(run(held, 0, &odd), bad_parameter(20, None), "TRANSPORTID LENGTH");
    let free = &mut Unit::with_three();
    let no_reservation = Refusal::Check(Sense::invalid_field_in_cdb(1, Some(4)));
    assert_eq!(run(free, 0, &list((10, 5))), no_reservation);
    let all = &mut Unit::reserved(WriteExclusiveAllRegistrants);
    assert_eq!(run(all, 0, &list((10, 5))), Refusal::Conflict);
}

proptest! {
    /// No parameter list panics, and a refusal leaves everything as it was.
    #[test]
    fn any_parameter_list_is_answered(
        action in prop::sample::select(vec![
            Register, RegisterAndIgnoreExistingKey, RegisterAndMove, Clear,
            ProutAction::Preempt, ProutAction::Reserve, ProutAction::Release,
        ]),
        kind in 0_u8..16, key in 9_u64..13, flags in any::<u8>(),
        tail in prop::collection::vec(any::<u8>(), 0..120), cut in 0_usize..200,
    ) {
        let mut unit = Unit::reserved(WriteExclusive);
        let mut list = basic((key, 5), flags);
        list.extend(&tail);
        list.truncate(cut);
        let before = unit.state.clone();
        if unit.out(&nexus(0), action, kind, &list).is_err() {
            prop_assert_eq!(unit.state, before);
        }
    }
}
