//! The paper's examples, and what must hold for any configuration.

use proptest::prelude::*;

use super::*;

fn plan(members: u64, hosts: u64, volumes: u64) -> Plan {
    Configuration::new(members, hosts, volumes).plan().unwrap()
}

/// "a volume spanned across two member arrays in a storage pool and being accessed by five hosts"
#[test]
fn first_example_of_the_paper() {
    let plan = plan(2, 5, 1);
    assert_eq!((plan.slices, plan.per_volume, plan.total), (2, 20, 20));
    assert_eq!((plan.over, plan.remedies.len()), (0, 0));
}

/// "a storage pool with five member arrays and two hosts connecting to a single volume"
#[test]
fn second_example_of_the_paper() {
    let plan = plan(5, 2, 1);
    assert_eq!((plan.slices, plan.per_volume, plan.total), (3, 12, 12));
}

/// Table 3: two connections with one member, six with three.
#[test]
fn connections_of_one_host_as_in_table_3() {
    assert_eq!([1, 2, 3, 8].map(|members| plan(members, 1, 1).total), [2, 4, 6, 6]);
}

/// The 1,020 connections of the paper's runs, and a setting that would go beyond six per volume.
#[test]
fn a_volume_takes_six_connections_of_a_host_at_most() {
    let many = Configuration { per_slice: 4, ..Configuration::new(3, 17, 10) };
    assert_eq!(many.plan().unwrap().total, 1020);
    let raised = Configuration { per_volume_max: 12, ..many };
    assert_eq!(raised.plan().unwrap().total, 2040);
}

#[test]
fn a_guest_with_an_initiator_is_a_host() {
    let guests = Configuration { guest_initiators: 4, ..Configuration::new(3, 1, 17) };
    assert_eq!(guests.plan().unwrap().total, 510);
    let only = Configuration { hosts: 0, ..guests };
    assert_eq!(only.plan().unwrap().total, 408);
}

#[test]
fn the_limit_is_met_exactly_and_then_broken() {
    let fits = plan(1, 16, 32);
    assert_eq!((fits.total, fits.over), (1024, 0));
    let broken = plan(1, 16, 33);
    assert_eq!((broken.total, broken.over), (1056, 32));
    assert_eq!((broken.volumes_max, broken.hosts_max), (32, 15));
}

#[test]
fn each_remedy_tells_what_it_leaves() {
    let plan = plan(3, 10, 30);
    assert_eq!((plan.total, plan.over, plan.per_host), (1800, 776, 180));
    let found: Vec<(&Outcome, u64, u64, Option<u64>)> = plan
        .remedies
        .iter()
        .map(|remedy| (&remedy.outcome, remedy.total, remedy.saved, remedy.room))
        .collect();
    let pools = Outcome::MorePools {
        pools: 2,
        members: vec![2, 1],
        volumes: vec![15, 15],
        members_missing: 0,
        group_total: 900,
    };
    assert_eq!(
        found,
        [
            (&Outcome::OnePerSlice, 900, 900, Some(124)),
            (&Outcome::FewerVolumes { volumes: 17, size_percent: 177 }, 1020, 780, Some(4)),
            (&Outcome::AccessControl { hosts_per_volume: 5 }, 900, 900, Some(124)),
            (&pools, 600, 1200, Some(424)),
        ]
    );
    assert!(plan.combined.is_empty());
}

#[test]
fn pools_need_members_and_the_group_has_a_limit_too() {
    let one_member = plan(1, 20, 40);
    let pools = &one_member.remedies[3];
    assert_eq!((one_member.total, pools.total), (1600, 800));
    let Outcome::MorePools { pools: 2, members_missing: 1, .. } = pools.outcome else {
        panic!("{pools:?}");
    };
    let small_group = Configuration { group_limit: 1200, ..Configuration::new(1, 20, 40) };
    let plan = small_group.plan().unwrap();
    assert!(!plan.remedies[3].fits, "{:?}", plan.remedies[3]);
}

#[test]
fn where_nothing_suffices_alone_it_is_tried_with_one_connection_per_slice() {
    let plan = plan(3, 400, 2);
    assert_eq!(plan.total, 4800);
    let enough: Vec<bool> = plan.remedies.iter().map(|remedy| remedy.fits).collect();
    assert_eq!(enough, [false, false, true, true]);
    // Three pools of one member each: a volume has one slice then, and a pool has one volume.
    assert_eq!(plan.remedies[3].total, 800);
    let plan = Configuration { pool_limit: 5, ..Configuration::new(12, 1, 4) }.plan().unwrap();
    assert!(plan.remedies.iter().all(|remedy| !remedy.fits || remedy.total <= 5));
    assert_eq!(plan.combined[0].outcome, Outcome::FewerVolumes { volumes: 1, size_percent: 400 });
    assert_eq!(plan.combined[0].saved, 21);
}

/// What is told of a remedy that does not fit is what its total is of.
#[test]
fn what_does_not_fit_is_told_as_it_is() {
    let plan = Configuration { pool_limit: 5, ..Configuration::new(3, 10, 3) }.plan().unwrap();
    for remedy in plan.remedies.iter().chain(&plan.combined) {
        assert_eq!((remedy.fits, remedy.room), (false, None), "{remedy:?}");
        match &remedy.outcome {
            Outcome::FewerVolumes { volumes, size_percent } => {
                assert_eq!((*volumes, *size_percent), (1, 300));
            }
            Outcome::AccessControl { hosts_per_volume } => assert_eq!(*hosts_per_volume, 1),
            Outcome::MorePools { pools, volumes, .. } => {
                assert_eq!((*pools, &volumes[..]), (4, &[1, 1, 1, 0][..]));
            }
            Outcome::OnePerSlice => {}
        }
    }
    let exactly = Configuration { group_limit: 2000, ..Configuration::new(3, 1, 1000) };
    let pools = exactly.plan().unwrap().remedies.pop().unwrap();
    assert_eq!((pools.fits, pools.room), (true, Some(0)), "{pools:?}");
}

#[test]
fn what_cannot_be_planned_is_named() {
    let none = Configuration::new(1, 0, 1).plan().unwrap_err();
    assert_eq!(none, ConfigurationError::NoHost);
    let zero = Configuration::new(0, 1, 1).plan().unwrap_err();
    assert_eq!(zero.to_string(), "0 is not a number of members: 1 to 1000000 can be planned");
    assert!(Configuration::new(1, NUMBER_MAX + 1, 1).plan().is_err());
    let most = Configuration {
        per_slice: SESSIONS_MAX,
        per_volume_max: SESSIONS_MAX,
        guest_initiators: NUMBER_MAX,
        ..Configuration::new(NUMBER_MAX, NUMBER_MAX, NUMBER_MAX)
    };
    assert_eq!(most.plan().unwrap().total, 2_000_000_000_000_000);
}

prop_compose! {
    fn configurations()(
        members in 1_u64..20, hosts in 1_u64..80, guest_initiators in 0_u64..40,
        volumes in 1_u64..200, per_slice in 1_u64..5, pool_limit in 1_u64..2000,
        group_limit in 1_u64..6000,
    ) -> Configuration {
        Configuration {
            guest_initiators, per_slice, pool_limit, group_limit,
            ..Configuration::new(members, hosts, volumes)
        }
    }
}

proptest! {
    /// A remedy that claims to be enough is, when it is carried out; and no smaller step would be.
    #[test]
    fn remedies_hold_when_they_are_carried_out(before in configurations()) {
        let plan = before.plan().unwrap();
        prop_assert_eq!(plan.remedies.is_empty(), plan.over == 0);
        for remedy in plan.remedies.iter().filter(|remedy| remedy.fits) {
            let after = |changed: Configuration| changed.plan().unwrap();
            prop_assert!(remedy.total <= before.pool_limit);
            let of_group = match &remedy.outcome {
                Outcome::MorePools { group_total, .. } => *group_total,
                _ => remedy.total,
            };
            let room = (before.pool_limit - remedy.total).min(before.group_limit - of_group);
            prop_assert_eq!(remedy.room, Some(room));
            match &remedy.outcome {
                Outcome::OnePerSlice => {
                    let done = after(Configuration { per_slice: 1, ..before });
                    prop_assert_eq!((done.over, done.total), (0, remedy.total));
                }
                Outcome::FewerVolumes { volumes, size_percent } => {
                    let done = after(Configuration { volumes: *volumes, ..before });
                    prop_assert_eq!((done.over, done.total), (0, remedy.total));
                    prop_assert!(volumes * size_percent >= before.volumes * 100);
                    let more = after(Configuration { volumes: volumes + 1, ..before });
                    prop_assert!(more.over > 0);
                }
                Outcome::AccessControl { hosts_per_volume } => {
                    let hosts = *hosts_per_volume;
                    let with = |hosts| Configuration { hosts, guest_initiators: 0, ..before };
                    prop_assert_eq!(after(with(hosts)).over, 0);
                    prop_assert!(after(with(hosts + 1)).over > 0);
                }
                Outcome::MorePools { pools, members, volumes, group_total, .. } => {
                    prop_assert_eq!(members.len() as u64, *pools);
                    prop_assert_eq!(volumes.iter().sum::<u64>(), before.volumes);
                    let totals = members.iter().zip(volumes).map(|(&members, &volumes)| {
                        Configuration { members, volumes, ..before }.total()
                    });
                    let totals: Vec<u64> = totals.collect();
                    prop_assert!(totals.iter().all(|total| *total <= before.pool_limit));
                    prop_assert_eq!(totals.iter().sum::<u64>(), *group_total);
                    prop_assert!(*group_total <= before.group_limit);
                }
            }
        }
    }
}
