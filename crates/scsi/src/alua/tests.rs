use super::*;
use crate::cdb::{Command, decode};
use crate::sense::{AdditionalSense, SenseKey};
use AccessState::*;
use proptest::prelude::*;

fn two_groups(explicit: bool) -> PortGroups {
    let groups = vec![
        PortGroup { preferred: true, ..PortGroup::new(1, ActiveOptimized, vec![1, 2]) },
        PortGroup::new(2, Standby, vec![3]),
    ];
    PortGroups::new(groups, explicit, 30).unwrap()
}

fn set_list(descriptors: &[(u8, u16)]) -> Vec<u8> {
    let mut list = vec![0; 4];
    for (state, id) in descriptors {
        list.extend([*state, 0]);
        list.extend(id.to_be_bytes());
    }
    list
}

#[test]
fn report_with_either_header() {
    let groups = two_groups(false);
    let body: Vec<u8> = [
        vec![0x80, 0xcf, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2],
        vec![0x02, 0xcf, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3],
    ]
    .concat();
    assert_eq!(groups.report(false), [vec![0, 0, 0, 28], body.clone()].concat());
    assert_eq!(groups.report(true), [vec![0, 0, 0, 32, 0x10, 30, 0, 0], body].concat());
}

#[test]
fn overlapping_groups_are_refused() {
    let group = |id, ports: &[u16]| PortGroup::new(id, Standby, ports.to_vec());
    let build = |groups| PortGroups::new(groups, false, 0).map(|_| ());
    assert_eq!(build(vec![group(1, &[1]), group(1, &[2])]), Err(Overlap(1)));
    assert_eq!(build(vec![group(1, &[1, 7]), group(2, &[7])]), Err(Overlap(7)));
    assert_eq!(build(vec![group(1, &[2]), group(2, &[1])]), Ok(()));
}

#[test]
fn ports_have_the_state_of_their_group() {
    let groups = two_groups(false);
    let state = |port| groups.state_of(port);
    assert_eq!([state(1), state(3), state(9)], [ActiveOptimized, Standby, Unavailable]);
    assert_eq!((groups.tpgs(), two_groups(true).tpgs()), (1, 3));
    let uniform = PortGroups::uniform(vec![1, 2]).unwrap();
    assert_eq!(uniform.group_of(2).map(|group| group.id), Some(1));
}

#[test]
fn explicit_changes() {
    let mut groups = two_groups(true);
    let changed = groups.set_explicit(&set_list(&[(1, 1), (2, 2)])).unwrap();
    assert_eq!(changed.groups, [1], "group 2 was in standby before");
    assert_eq!(groups.state_of(1), ActiveNonOptimized);
    assert_eq!(groups.report(false)[9], StateCause::Explicit as u8);
    assert_eq!(groups.set_explicit(&[]), Ok(Changed::default()), "an empty list is no error");
    assert_eq!(groups.set_explicit(&[0; 4]), Ok(Changed::default()));
}

#[test]
fn explicit_refusals_change_nothing() {
    let refusal = |list: &[u8]| {
        let mut groups = two_groups(true);
        let sense = groups.set_explicit(list).unwrap_err();
        assert_eq!(groups, two_groups(true));
        sense
    };
    let bad = Sense::invalid_field_in_parameter_list;
    for state in [4, 5, 0xd, 0xe, 0xf] {
        assert_eq!(refusal(&set_list(&[(0, 1), (state, 2)])), bad(8, Some(3)), "state {state:x}");
    }
    assert_eq!(refusal(&set_list(&[(1, 1), (1, 3)])), bad(10, None), "no such group");
    assert_eq!(refusal(&set_list(&[(1, 1), (2, 1)])), bad(10, None), "one group twice");
    for bytes in [1, 3, 5, 7] {
        assert_eq!(refusal(&vec![0; bytes]), Sense::parameter_list_length_error(), "{bytes}");
    }
    let implicit_only = two_groups(false).set_explicit(&set_list(&[(1, 1)]));
    assert_eq!(implicit_only, Err(Sense::invalid_field_in_cdb(1, Some(4))));
}

#[test]
fn implicit_changes_tell_what_changed() {
    let mut groups = two_groups(false);
    assert_eq!(groups.set_implicit(2, Transitioning).groups, [2]);
    assert_eq!(groups.set_implicit(2, Transitioning).groups, [], "no change, no unit attention");
    assert_eq!(groups.set_implicit(9, Standby).groups, []);
    assert_eq!(groups.report(false)[20 + 5], StateCause::Implicit as u8);
}

/// The commands of each column of SPC-4 5.16.2.4, and the sense of the others.
#[test]
fn what_each_state_admits() {
    let command = |cdb: &[u8]| -> Command { decode(cdb).unwrap().1 };
    let inquiry = command(&[0x12, 0, 0, 0, 255, 0]);
    let set = command(&[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]);
    let report = command(&[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]);
    let reserve_in = command(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    let mode_sense = command(&[0x1a, 0, 8, 0, 255, 0]);
    let ready = command(&[0; 6]);
    let read = command(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    let commands = [inquiry, report, set, reserve_in, mode_sense, ready, read];
    for (state, admitted, ascq) in [
        (ActiveOptimized, 7, 0),
        (ActiveNonOptimized, 7, 0),
        (Standby, 5, 0x0b),
        (Unavailable, 3, 0x0c),
        (Offline, 3, 0x12),
        (Transitioning, 2, 0x0a),
    ] {
        for (n, command) in commands.iter().enumerate() {
            let refusal = Sense::new(SenseKey::NotReady, AdditionalSense { asc: 0x04, ascq });
            let expected = if n < admitted { Ok(()) } else { Err(refusal) };
            assert_eq!(admits(state, command), expected, "{state:?} {command:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_list_panics_and_states_stay_settable_ones(
        lists in prop::collection::vec(prop::collection::vec(0_u8..6, 0..20), 0..6)
    ) {
        let mut groups = two_groups(true);
        for list in lists {
            let before = groups.clone();
            match groups.set_explicit(&list) {
                Ok(changed) => prop_assert_eq!(changed.groups.is_empty(), before == groups),
                Err(_) => prop_assert_eq!(&before, &groups),
            }
            prop_assert!(groups.groups().iter().all(|group| (group.state as u8) < 4));
        }
    }
}
