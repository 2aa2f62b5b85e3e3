//! Any history of commands and events, from three hosts.

use super::*;
use proptest::prelude::*;

/// The word must say after any history what the state says.
#[derive(Debug, Clone)]
enum Step {
    Send(u8, Vec<u8>, Vec<u8>),
    Reset,
    Reattach(u8),
    Group(u16, u8),
    SanitizeEnd(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    let rows = crate::cdb::commands().len();
    let cdb = (0..rows, any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(row, noise, mask)| {
        let usage = crate::cdb::commands()[row].usage_data();
        let mut cdb: Vec<u8> =
            usage.iter().zip(noise).zip(mask).map(|((u, n), m)| u & n & m).collect();
        (cdb[0], cdb[1]) = (usage[0], cdb[1] & 0xe0 | usage[1] & 0x1f);
        cdb
    });
    let data = proptest::collection::vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..64);
    prop_oneof![
        8 => (0u8..3, cdb, data).prop_map(|(host, cdb, data)| Step::Send(host, cdb, data)),
        1 => Just(Step::Reset),
        1 => (0u8..3).prop_map(Step::Reattach),
        1 => (1u16..3, 0u8..4).prop_map(|(group, state)| Step::Group(group, state)),
        1 => any::<bool>().prop_map(Step::SanitizeEnd),
    ]
}

proptest! {
    #[test]
    fn any_history_leaves_the_gates_true(steps in proptest::collection::vec(any_step(), 1..60)) {
        let bench = Bench::new();
        let mut hosts: Vec<_> = (0..3).map(|n| bench.attach(n, u16::from(n % 2) + 1)).collect();
        for step in steps {
            match step {
                Step::Send(host, cdb, data) => {
                    let outcome = bench.send_data(&hosts[usize::from(host)], &cdb, &data);
                    let check = outcome.status == Status::CheckCondition;
                    prop_assert_eq!(check, outcome.sense.is_some());
                    if let Ok((_, command)) = decode(&cdb) {
                        let max = command.data_in_bytes_max(512);
                        prop_assert!(outcome.data_in.len() as u64 <= max, "{:?}", command);
                    }
                }
                Step::Reset => {
                    bench.unit.reset_begins();
                    drop(bench.unit.logical_unit_reset());
                }
                Step::Reattach(n) => {
                    bench.unit.detach(&hosts[usize::from(n)]);
                    hosts[usize::from(n)] = bench.attach(n, u16::from(n % 2) + 1);
                }
                Step::Group(group, state) => {
                    use AccessState::*;
                    let states = [ActiveOptimized, ActiveNonOptimized, Standby, Transitioning];
                    bench.unit.set_port_group(group, states[usize::from(state)]);
                }
                Step::SanitizeEnd(good) => bench.unit.sanitize_end(good),
            }
            let before: Vec<_> = hosts.iter().map(|nexus| nexus.gate()).collect();
            let state = bench.unit.state();
            bench.unit.refresh(&state);
            prop_assert_eq!(state.nexuses.len(), 3);
            drop(state);
            let after: Vec<_> = hosts.iter().map(|nexus| nexus.gate()).collect();
            prop_assert_eq!(before, after, "a change was not followed by refresh");
        }
    }
}
