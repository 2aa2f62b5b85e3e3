//! What became of copies.

use super::*;

fn nexus(n: u8) -> NexusKey {
    NexusKey { initiator: "iqn.x:host".into(), isid: [0, 0, 0, 0, 0, n], target_port: 1 }
}

fn id(n: u8, action: CopyAction, list_id: u32) -> CopyId {
    CopyId { nexus: nexus(n), action, list_id }
}

fn outcome(status: OperationStatus, sense: Option<Sense>) -> CopyOutcome {
    CopyOutcome { status, sense, token: None }
}

const UNKNOWN: Sense = Sense::invalid_field_in_cdb(2, None);
use CopyAction::{ExtendedCopy, WriteUsingToken};

#[test]
fn receive_copy_results_copy_status() {
    let mut registry = CopyRegistry::new();
    assert_eq!(registry.status_lid1(&nexus(0), 1), Err(UNKNOWN), "no copy in progress");
    let copy = id(0, ExtendedCopy, 1);
    registry.begin(copy.clone(), false).unwrap();
    registry.progress(&copy, CopyProgress { segments: 1, transferred: 4096, operations: 2 });
    let running = registry.status_lid1(&nexus(0), 1).unwrap();
    assert_eq!(running, [0, 0, 0, 8, 0x00, 0, 1, 0, 0, 0, 0x10, 0]);
    assert_eq!(registry.status_lid1(&nexus(1), 1), Err(UNKNOWN), "another nexus");
    let progress = CopyProgress { segments: 2, transferred: 6 << 30, operations: 4 };
    registry.finish(&copy, progress, outcome(OperationStatus::Completed, None));
    let done = registry.status_lid1(&nexus(0), 1).unwrap();
    assert_eq!(done, [0, 0, 0, 8, 0x01, 0, 2, 1, 0, 0x60, 0, 0], "6 Mi kibibytes");
    assert_eq!(registry.status_lid1(&nexus(0), 1), Err(UNKNOWN), "told once");
}

#[test]
fn failed_segment_details() {
    let mut registry = CopyRegistry::new();
    let copy = id(0, ExtendedCopy, 9);
    registry.begin(copy.clone(), false).unwrap();
    let details =
        |registry: &mut CopyRegistry, room| registry.failure_details(&nexus(0), 9, false, room);
    assert_eq!(details(&mut registry, 255), Err(UNKNOWN), "still running");
    assert_eq!(registry.held_data(&nexus(0), 9), Err(UNKNOWN));
    let sense = segment_failure(3, AdditionalSense::THIRD_PARTY_DEVICE_FAILURE);
    let end = outcome(OperationStatus::CompletedWithErrors, Some(sense));
    registry.finish(&copy, CopyProgress::default(), end);
    assert_eq!(registry.status_lid1(&nexus(0), 9).unwrap()[4], 0x02);
    let data = details(&mut registry, 20).unwrap();
    assert_eq!(data[..4], ((data.len() - 4) as u32).to_be_bytes());
    assert_eq!((data[56], data[59]), (0x02, 18), "CHECK CONDITION and fixed sense data");
    assert_eq!(data[60..], *sense.to_bytes(false));
    assert_eq!(details(&mut registry, 255).unwrap(), data, "the first answer was cut short");
    assert_eq!(details(&mut registry, 255).unwrap(), [0; 4], "told");
    assert_eq!(registry.held_data(&nexus(0), 9), Ok(vec![0; 4]));
}

#[test]
fn token_information_of_populate_token() {
    let mut registry = CopyRegistry::new();
    let mut tokens = TokenRegistry::new();
    let source = TokenSource { unit: naa(1), target_name: "iqn.x", block_bytes: 512 };
    let ranges = vec![TokenRange { lba: 0, blocks: 8 }];
    let request = PopulateToken { immediate: true, inactivity_timeout_s: 30, ranges };
    let now = std::time::Duration::ZERO;
    let token = tokens.create((1, ()), &source, &request, now, &[7; 256]).unwrap();
    let copy = id(0, CopyAction::PopulateToken, 0x0102_0304);
    registry.begin(copy.clone(), true).unwrap();
    let ask = |registry: &mut CopyRegistry, room| {
        registry.token_information(&nexus(0), 0x0102_0304, true, room).unwrap()
    };
    let running = ask(&mut registry, 600);
    assert_eq!(running[..16], [0, 0, 0, 32, 0x10, 0x12, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0xf1]);
    let progress = CopyProgress { segments: 0, transferred: 8, operations: 1 };
    let end =
        CopyOutcome { token: Some(token.clone()), ..outcome(OperationStatus::Completed, None) };
    registry.finish(&copy, progress, end);
    let data = ask(&mut registry, 36);
    assert_eq!(data.len(), 36 + 2 + 512);
    assert_eq!(data[..8], [0, 0, 0x02, 0x22, 0x10, 0x01, 0, 1]);
    assert_eq!(data[8..16], [0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0xf1]);
    assert_eq!(data[16..26], [0, 0, 0, 0, 0, 0, 0, 8, 0, 0], "blocks, and no segments");
    assert_eq!(data[32..38], [0, 0, 0x02, 0x02, 0, 0]);
    assert_eq!(data[38..], token.bytes()[..]);
    assert_eq!(ask(&mut registry, 1024), data, "36 bytes had no room for the token");
    let told = ask(&mut registry, 1024);
    assert_eq!((told.len(), told[5]), (36, 0x01), "the token is told once, the status stays");
}

#[test]
fn token_information_of_a_write_that_fell_short() {
    let mut registry = CopyRegistry::new();
    let copy = id(0, WriteUsingToken, 5);
    registry.begin(copy.clone(), false).unwrap();
    let progress = CopyProgress { segments: 0, transferred: 3, operations: 1 };
    let sense = underrun(3);
    registry.finish(&copy, progress, outcome(OperationStatus::CompletedPartially, Some(sense)));
    let data = registry.token_information(&nexus(0), 5, false, 255).unwrap();
    assert_eq!(data[4..6], [0x11, 0x03]);
    assert_eq!(data[12..16], [0x02, 20, 18, 0xf1], "CHECK CONDITION, padded sense data");
    assert_eq!(data[32..50], *sense.to_bytes(false));
    assert_eq!(data[50..], [0; 6], "padding and no token");
    let status = registry.status_lid4(&nexus(0), 5, false).unwrap();
    assert_eq!((status.len(), &status[4..]), (52, &data[4..52]));
}

#[test]
fn a_terminated_copy_stays_terminated() {
    let mut registry = CopyRegistry::new();
    let copy = id(0, WriteUsingToken, 5);
    registry.begin(copy.clone(), true).unwrap();
    registry.terminate(&nexus(1));
    assert_eq!(registry.status_lid4(&nexus(0), 5, false).unwrap()[5], 0x12);
    registry.terminate(&nexus(0));
    registry.finish(&copy, CopyProgress::default(), outcome(OperationStatus::Completed, None));
    let status = registry.status_lid4(&nexus(0), 5, false).unwrap();
    assert_eq!((status[5], status[12]), (0x60, 0x40), "TASK ABORTED");
}

#[test]
fn identifiers_are_of_the_nexus_and_the_kind_of_command() {
    let mut registry = CopyRegistry::new();
    let in_progress = Err(illegal(AdditionalSense::OPERATION_IN_PROGRESS));
    assert_eq!(registry.begin(id(0, CopyAction::PopulateToken, 1), false), Ok(()));
    assert_eq!(registry.begin(id(0, WriteUsingToken, 1), false), in_progress);
    assert_eq!(registry.begin(id(0, ExtendedCopy, 1), false), Ok(()));
    assert_eq!(registry.begin(id(1, WriteUsingToken, 1), false), Ok(()));
    let end = outcome(OperationStatus::Completed, None);
    registry.finish(&id(0, CopyAction::PopulateToken, 1), CopyProgress::default(), end);
    assert_eq!(registry.begin(id(0, WriteUsingToken, 1), false), Ok(()), "the old one has ended");
    assert_eq!(registry.status_lid4(&nexus(0), 1, false).unwrap()[4], 0x11);
    registry.nexus_lost(&nexus(0));
    assert_eq!(registry.status_lid4(&nexus(0), 1, false), Err(UNKNOWN));
    assert!(registry.status_lid4(&nexus(1), 1, false).is_ok());
    registry.logical_unit_reset();
    assert_eq!(registry.status_lid4(&nexus(1), 1, false), Err(UNKNOWN));
}

#[test]
fn an_initiator_leaves_room_for_the_copies_of_others() {
    let mut registry = CopyRegistry::new();
    let other = NexusKey { initiator: "iqn.x:other".into(), ..nexus(0) };
    let other = |n| CopyId { nexus: other.clone(), action: WriteUsingToken, list_id: n };
    let ports = |n: u32| id((n % 3) as u8, WriteUsingToken, n);
    let mut began = |which: &dyn Fn(u32) -> CopyId| {
        (0..).take_while(|&n| registry.begin(which(n), true).is_ok()).count()
    };
    assert_eq!(began(&ports), COPIES_MAX / 2, "by whichever of its ports");
    assert_eq!(began(&other), COPIES_MAX / 4);
    let refused = registry.begin(ports(1000), true);
    assert_eq!(refused, Err(Sense::insufficient_resources()));
}

#[test]
fn the_number_of_copies_is_bounded_and_the_oldest_ended_makes_room() {
    let mut registry = CopyRegistry::new();
    let end = || outcome(OperationStatus::Completed, None);
    for n in 0..COPIES_MAX as u32 {
        registry.begin(id(0, WriteUsingToken, n), false).unwrap();
        if n >= 31 {
            registry.finish(&id(0, WriteUsingToken, n), CopyProgress::default(), end());
        }
    }
    let next = || id(0, WriteUsingToken, 1000);
    registry.finish(&id(0, WriteUsingToken, 7), CopyProgress::default(), end());
    registry.finish(&id(0, WriteUsingToken, 3), CopyProgress::default(), end());
    assert_eq!(registry.begin(next(), false), Ok(()));
    assert_eq!(registry.status_lid4(&nexus(0), 3, false), Err(UNKNOWN));
    assert!(registry.status_lid4(&nexus(0), 7, false).is_ok());
}

/// Something that happens to the copies of a unit: of which port of the initiator, and which copy.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin(u8, CopyAction, u32, bool),
    Finish(u8, CopyAction, u32, OperationStatus),
    Terminate(u8),
    NexusLost(u8),
    Reset,
}

fn any_step() -> impl Strategy<Value = Step> {
    use OperationStatus::{Completed, CompletedWithErrors};
    let which = || {
        let actions = vec![ExtendedCopy, CopyAction::PopulateToken, WriteUsingToken];
        (0..3_u8, prop::sample::select(actions), 0..4_u32)
    };
    let ends = prop::sample::select(vec![Completed, CompletedWithErrors]);
    prop_oneof![
        6 => (which(), any::<bool>()).prop_map(|((n, action, list), b)| Step::Begin(n, action, list, b)),
        4 => (which(), ends).prop_map(|((n, action, list), end)| Step::Finish(n, action, list, end)),
        1 => (0..3_u8).prop_map(Step::Terminate),
        1 => (0..3_u8).prop_map(Step::NexusLost),
        1 => Just(Step::Reset),
    ]
}

proptest! {
    /// Whatever several ports do to the copies of one unit, each is told of its own, and the truth.
    #[test]
    fn histories_of_copies_match_the_model(steps in prop::collection::vec(any_step(), 1..80)) {
        let mut registry = CopyRegistry::new();
        // By port, by whether the identifier is short, and by that.
        let mut model = std::collections::BTreeMap::new();
        for step in steps {
            let is_short = |action| action == ExtendedCopy;
            match step {
                Step::Begin(n, action, list, background) => {
                    let key = (n, is_short(action), list);
                    let runs = model.get(&key).is_some_and(|&(_, s): &(_, OperationStatus)| s.is_in_progress());
                    prop_assert_eq!(registry.begin(id(n, action, list), background).is_err(), runs);
                    let status = match background {
                        true => OperationStatus::InBackground,
                        false => OperationStatus::InForeground,
                    };
                    if !runs {
                        model.insert(key, (action, status));
                    }
                }
                Step::Finish(n, action, list, status) => {
                    registry.finish(&id(n, action, list), CopyProgress::default(), outcome(status, None));
                    if let Some(known) = model.get_mut(&(n, is_short(action), list))
                        && known.0 == action
                        && known.1.is_in_progress()
                    {
                        known.1 = status;
                    }
                }
                Step::Terminate(n) => {
                    registry.terminate(&nexus(n));
                    let own = model.iter_mut().filter(|((of, ..), _)| *of == n);
                    for (_, known) in own.filter(|(_, known)| known.1.is_in_progress()) {
                        known.1 = OperationStatus::Terminated;
                    }
                }
                Step::NexusLost(n) => {
                    registry.nexus_lost(&nexus(n));
                    model.retain(|(of, ..), _| *of != n);
                }
                Step::Reset => {
                    registry.logical_unit_reset();
                    model.clear();
                }
            }
            for (n, list) in (0..3).flat_map(|n| (0..4).map(move |list| (n, list))) {
                let told = registry.status_lid4(&nexus(n), list, false).ok().map(|data| (data[4], data[5]));
                let known = model.get(&(n, false, list)).map(|&(action, s)| (action as u8, s as u8));
                prop_assert_eq!(told, known);
            }
        }
    }
}
