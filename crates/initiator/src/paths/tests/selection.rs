//! Which path each policy chooses.

use std::time::Duration;

use proptest::prelude::*;
use scsi::alua::AccessState::{ActiveNonOptimized, ActiveOptimized, Standby};

use super::super::select::{PathId, PathState, Paths};
use super::super::{PageMap, Policy, PolicyError};
use super::ms;

const PROBATION: Duration = Duration::from_secs(4);

fn paths(policy: Policy, count: usize) -> Paths {
    let mut paths = Paths::new(policy, PROBATION);
    for _ in 0..count {
        paths.add(ActiveOptimized, None);
    }
    paths
}

fn choose(paths: &mut Paths) -> usize {
    paths.choose(ms(0), None, None).expect("a path is there").0
}

fn end(paths: &mut Paths, path: usize, took: u64, now: u64) {
    paths.over(PathId(path), ms(now - took), ms(now), Some(4096));
}

#[test]
fn failover_stays_until_it_must_go() {
    let mut paths = paths(Policy::Failover, 3);
    assert_eq!([choose(&mut paths), choose(&mut paths)], [0, 0]);
    paths.lost(PathId(0));
    assert_eq!([choose(&mut paths), choose(&mut paths)], [1, 1]);
    paths.on_probation(PathId(0), ms(0));
    paths.tick(PROBATION);
    assert_eq!(choose(&mut paths), 1, "a path that returned takes nothing away");
}

#[test]
fn round_robin_counts() {
    let mut paths = paths(Policy::RoundRobin { ios_per_path: 3 }, 2);
    let order: Vec<usize> = (0..12).map(|_| choose(&mut paths)).collect();
    assert_eq!(order, [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
}

#[test]
fn least_queue_depth_evens_out() {
    let mut paths = paths(Policy::LeastQueueDepth, 3);
    for _ in 0..30 {
        choose(&mut paths);
    }
    for _ in 0..5 {
        end(&mut paths, 1, 1, 10);
    }
    let next: Vec<usize> = (0..5).map(|_| choose(&mut paths)).collect();
    assert_eq!(next, [1; 5]);
}

#[test]
fn service_time_prefers_the_faster_and_tries_the_slower_again() {
    let mut paths = paths(Policy::ServiceTime, 2);
    for _ in 0..4 {
        let path = choose(&mut paths);
        end(&mut paths, path, if path == 0 { 8 } else { 1 }, 100);
    }
    let at = |paths: &mut Paths, now| paths.choose(now, None, None).unwrap().0;
    let burst: Vec<usize> = (0..9).map(|_| at(&mut paths, ms(100))).collect();
    assert_eq!(burst.iter().filter(|&&path| path == 1).count(), 8, "one in nine: 8 times slower");
    for path in burst {
        paths.over(PathId(path), ms(100), ms(100), None);
    }
    // After seconds without news the slow one is worth a try.
    paths.over(PathId(1), ms(9_999), ms(10_000), Some(1));
    assert_eq!(at(&mut paths, ms(10_000)), 0);
}

#[test]
fn optimized_paths_go_first_and_standby_ones_never() {
    let mut paths = Paths::new(Policy::LeastQueueDepth, PROBATION);
    let [slow, fast, idle] =
        [ActiveNonOptimized, ActiveOptimized, Standby].map(|access| paths.add(access, None));
    for _ in 0..10 {
        assert_eq!(choose(&mut paths), fast.0, "however long its queue");
    }
    paths.lost(fast);
    assert_eq!(choose(&mut paths), slow.0);
    paths.lost(slow);
    assert_eq!(paths.choose(ms(0), None, None), None);
    paths.status(idle).access = ActiveOptimized;
    assert_eq!(choose(&mut paths), idle.0);
}

#[test]
fn probation_is_for_paths_that_nobody_needs_and_grows_with_each_failure() {
    let mut paths = paths(Policy::LeastQueueDepth, 2);
    let until = |paths: &mut Paths| match paths.status(PathId(0)).state {
        PathState::Probation { until } => until,
        other => panic!("{other:?}"),
    };
    paths.lost(PathId(0));
    paths.on_probation(PathId(0), ms(0));
    assert_eq!(until(&mut paths), PROBATION);
    assert_eq!([choose(&mut paths), choose(&mut paths)], [1, 1]);
    paths.lost(PathId(0));
    paths.on_probation(PathId(0), ms(0));
    assert_eq!(until(&mut paths), PROBATION * 2);
    paths.lost(PathId(1));
    assert_eq!(choose(&mut paths), 0, "better than none");
    paths.tick(PROBATION * 2);
    assert_eq!(paths.status(PathId(0)).state, PathState::Active);
    assert_eq!(paths.next_deadline(), None);
}

#[test]
fn policies_have_names() {
    for policy in [
        Policy::Failover,
        Policy::RoundRobin { ios_per_path: 7 },
        Policy::LeastQueueDepth,
        Policy::ServiceTime,
        Policy::Routed,
    ] {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert_eq!("round-robin".parse(), Ok(Policy::RoundRobin { ios_per_path: 1 }));
    for text in ["", "owner", "round-robin:0", "failover:1", "round-robin:x"] {
        assert_eq!(text.parse::<Policy>(), Err(PolicyError), "{text:?}");
    }
}

proptest! {
    /// Whatever happens: a choice is usable, none is better, and the counts of commands under way
    /// are right.
    #[test]
    fn a_choice_is_always_among_the_best(
        policy in prop_oneof![
            Just(Policy::Failover), Just(Policy::RoundRobin { ios_per_path: 3 }),
            Just(Policy::LeastQueueDepth), Just(Policy::ServiceTime),
            Just(Policy::Routed),
        ],
        events in proptest::collection::vec((0_u8..7, 0_usize..4, 0_u64..50), 1..200),
    ) {
        let mut paths = paths(policy, 4);
        let mut under_way: Vec<(usize, u64)> = Vec::new();
        let mut now = 0;
        for (kind, path, time) in events {
            now += time * 100;
            let id = PathId(path);
            match kind {
                0 => paths.lost(id),
                1 if paths.status(id).state == PathState::Failed => paths.on_probation(id, ms(now)),
                2 => paths.status(id).access =
                    [ActiveOptimized, ActiveNonOptimized, Standby][path % 3],
                3 => paths.tick(ms(now)),
                4 if !under_way.is_empty() => {
                    let (path, since) = under_way.swap_remove(path % under_way.len());
                    end(&mut paths, path, now - since, now);
                }
                _ => {
                    let rank = |n: usize| {
                        let status = paths.all[n].status;
                        let access = match status.access {
                            ActiveOptimized => 0,
                            ActiveNonOptimized => 1,
                            _ => return None,
                        };
                        match status.state {
                            PathState::Active => Some(access),
                            PathState::Probation { .. } => Some(2 + access),
                            PathState::Silent => Some(4 + access),
                            PathState::Suspended | PathState::Failed | PathState::Retired => None,
                        }
                    };
                    let ranks: Vec<Option<u8>> = (0..4).map(rank).collect();
                    match paths.choose(ms(now), None, None) {
                        Some(chosen) => {
                            prop_assert_eq!(ranks[chosen.0], ranks.iter().flatten().min().copied());
                            under_way.push((chosen.0, now));
                        }
                        None => prop_assert!(ranks.iter().all(Option::is_none)),
                    }
                }
            }
            for n in 0..4 {
                let count = under_way.iter().filter(|(path, _)| *path == n).count();
                prop_assert_eq!(paths.all[n].status.in_flight as usize, count);
            }
        }
    }
}

#[test]
fn routed_goes_to_the_owner_while_it_can() {
    let mut paths = paths(Policy::Routed, 4);
    for (path, group) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
        paths.set_group(PathId(path), Some(group));
    }
    let at = |paths: &mut Paths, at| paths.choose(ms(0), Some(at), None).unwrap().0;
    let spread: Vec<usize> = (0..4).map(|_| at(&mut paths, 5)).collect();
    assert_eq!(spread, [0, 1, 2, 3], "without a map all paths are alike");
    let mut map = PageMap::new(20);
    map.learn([(0..10, vec![1]), (10..20, vec![2])]);
    paths.set_map(map);
    assert_eq!((paths.run_end(0..20), paths.run_end(10..20)), (10, 20));
    let first: Vec<usize> = (0..4).map(|_| at(&mut paths, 9)).collect();
    assert_eq!(first, [0, 1, 0, 1], "least queue depth among those that lead there");
    assert!(at(&mut paths, 10) >= 2);
    // Better another port of the owner than a better port of another.
    paths.status(PathId(0)).access = Standby;
    paths.status(PathId(1)).access = ActiveNonOptimized;
    assert_eq!(at(&mut paths, 9), 1);
    paths.on_probation(PathId(1), ms(0));
    assert!(at(&mut paths, 9) >= 2, "any that works is better than one that has to show it");
    paths.lost(PathId(2));
    paths.lost(PathId(3));
    assert_eq!([at(&mut paths, 9), at(&mut paths, 15)], [1, 1], "the last one takes all");
}

#[test]
fn a_retired_path_takes_nothing_and_stays_so() {
    let mut paths = paths(Policy::LeastQueueDepth, 2);
    paths.status(PathId(0)).state = PathState::Retired;
    paths.lost(PathId(0));
    paths.on_probation(PathId(0), ms(0));
    assert_eq!([choose(&mut paths), choose(&mut paths)], [1, 1]);
    assert_eq!(paths.status(PathId(0)).state, PathState::Retired);
}
