//! How many sessions a host should have to each slice of each volume, and between which ports.

use std::collections::{BTreeMap, BTreeSet};

/// The bounds of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Sessions to one slice.
    pub per_slice: u32,
    /// Sessions to one volume.
    pub per_volume: u32,
    /// Sessions of one host.
    pub per_host: u32,
    /// The plan stays below this share of the sessions that the pool allows, so that hosts which
    /// come later find room.
    pub pool_percent: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self { per_slice: 2, per_volume: 6, per_host: 512, pool_percent: 90 }
    }
}

/// The part of a volume that one member holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The member.
    pub member: u32,
    /// Its ports that can be reached now.
    pub ports: Vec<u32>,
}

/// A volume that the host uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Its number.
    pub id: u64,
    /// Its slices.
    pub slices: Vec<Slice>,
}

/// What a plan is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The host's ports that work now.
    pub host_ports: Vec<u32>,
    /// The volumes that it uses.
    pub volumes: Vec<Volume>,
    /// The sessions of its other volumes, by their ends: the ports of both sides are shared.
    pub others: Vec<Ends>,
    /// Sessions that the pool allows.
    pub pool_sessions_max: u32,
    /// Those that other hosts have.
    pub pool_sessions_of_others: u32,
    /// The bounds.
    pub rules: Rules,
    /// Where no way leads from a port of the host to one of a member.
    pub cut_off: BTreeSet<Ends>,
}

/// The ends of a way or a session: a port of the host, a member, and a port of that member.
pub type Ends = (u32, u32, u32);

/// One session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Planned {
    /// To this volume,
    pub volume: u64,
    /// at this member,
    pub member: u32,
    /// from this port of the host
    pub host_port: u32,
    /// to this port of the member.
    pub target_port: u32,
    /// Of several between the same ports, from 0.
    pub copy: u32,
}

/// What to do to get from the sessions there are to those there should be. Open before closing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Sessions to open.
    pub open: Vec<Planned>,
    /// Sessions to close.
    pub close: Vec<Planned>,
}

/// The sessions there should be. `current` are those there are: they stay where that leaves the
/// load even.
///
/// A slice gets one session for each port that either side can fill with it, within the rules. When
/// they do not suffice for all, every volume gets its first session before any gets its second.
#[must_use]
pub fn plan(world: &World, current: &[Planned]) -> Vec<Planned> {
    let mut draft = Draft::new(world, current);
    let mut budget = budget(world);
    let slices_max = world.volumes.iter().map(|volume| volume.slices.len()).max().unwrap_or(0);
    for round in 0..world.rules.per_slice {
        for n in 0..slices_max {
            for volume in &world.volumes {
                let Some(slice) = volume.slices.get(n) else { continue };
                if budget == 0 {
                    return draft.planned;
                }
                let has = draft.of_volume(volume.id).count();
                let is_full = has >= world.rules.per_volume as usize;
                if !is_full && round < wanted(world, slice) {
                    draft.add(volume.id, slice);
                    budget -= 1;
                }
            }
        }
    }
    draft.planned
}

/// From `current` to `planned`.
#[must_use]
pub fn changes(current: &[Planned], planned: &[Planned]) -> Changes {
    let missing = |of: &[Planned], from: &[Planned]| -> Vec<Planned> {
        of.iter().filter(|it| !from.contains(it)).copied().collect()
    };
    Changes { open: missing(planned, current), close: missing(current, planned) }
}

/// How many sessions the host may have.
fn budget(world: &World) -> u32 {
    let share = u64::from(world.pool_sessions_max) * u64::from(world.rules.pool_percent);
    // Less than the share, not up to it.
    let below = u32::try_from(share.div_ceil(100).saturating_sub(1)).unwrap_or(u32::MAX);
    // A volume without a session is none, so a host with many may have one for each.
    let others = u32::try_from(world.others.len()).unwrap_or(u32::MAX);
    let volumes = u32::try_from(world.volumes.len()).unwrap_or(u32::MAX);
    let per_host = world.rules.per_host.saturating_sub(others).max(volumes);
    below.saturating_sub(world.pool_sessions_of_others).min(per_host)
}

/// How many sessions fill the smaller side of a slice, counting the ports that can be used.
fn wanted(world: &World, slice: &Slice) -> u32 {
    let ways: Vec<(u32, u32)> = ways(world, slice).collect();
    let hosts: BTreeSet<u32> = ways.iter().map(|way| way.0).collect();
    let targets: BTreeSet<u32> = ways.iter().map(|way| way.1).collect();
    let fill = hosts.len().min(targets.len());
    world.rules.per_slice.min(u32::try_from(fill).unwrap_or(u32::MAX))
}

/// Pairs of a host port and a port of the slice's member with a way between them.
fn ways<'a>(world: &'a World, slice: &'a Slice) -> impl Iterator<Item = (u32, u32)> + 'a {
    let pairs = world.host_ports.iter().flat_map(move |&host_port| {
        slice.ports.iter().map(move |&target_port| (host_port, target_port))
    });
    pairs.filter(|&(host, target)| !world.cut_off.contains(&(host, slice.member, target)))
}

/// Exactly `count` sessions to one volume, evenly over its slices and over the ports that can be
/// used, whatever the rules say; none if no port can be used.
#[must_use]
pub fn deal(world: &World, volume: &Volume, count: u32, current: &[Planned]) -> Vec<Planned> {
    let mut draft = Draft::new(world, current);
    let reached = volume.slices.iter().filter(|slice| ways(world, slice).next().is_some());
    let reached: Vec<&Slice> = reached.collect();
    for slice in reached.iter().cycle().take(count as usize) {
        draft.add(volume.id, slice);
    }
    draft.planned
}

#[derive(Default)]
struct Loads {
    host: BTreeMap<u32, u32>,
    target: BTreeMap<(u32, u32), u32>,
}

impl Loads {
    fn add(&mut self, (host_port, member, target_port): Ends) {
        *self.host.entry(host_port).or_default() += 1;
        *self.target.entry((member, target_port)).or_default() += 1;
    }
}

struct Draft<'a> {
    world: &'a World,
    current: &'a [Planned],
    planned: Vec<Planned>,
    loads: Loads,
}

impl<'a> Draft<'a> {
    fn new(world: &'a World, current: &'a [Planned]) -> Self {
        let mut loads = Loads::default();
        for &ends in &world.others {
            loads.add(ends);
        }
        Self { world, current, planned: Vec::new(), loads }
    }

    fn of_volume(&self, volume: u64) -> impl Iterator<Item = &Planned> {
        self.planned.iter().filter(move |it| it.volume == volume)
    }

    /// One more session to a slice: between ports that the slice does not use yet, on those that
    /// carry least, preferably where there is one already.
    fn add(&mut self, volume: u64, slice: &Slice) {
        let member = slice.member;
        let pairs = ways(self.world, slice).map(|(host_port, target_port)| {
            let first = Planned { volume, member, host_port, target_port, copy: 0 };
            let same = |it: &&Planned| Planned { copy: 0, ..**it } == first;
            let copies = self.planned.iter().filter(same).count();
            Planned { copy: u32::try_from(copies).unwrap_or(u32::MAX), ..first }
        });
        let best = pairs.min_by_key(|pair| {
            let mine = || self.of_volume(volume).filter(|it| it.member == member);
            let host_used = mine().filter(|it| it.host_port == pair.host_port).count();
            let target_used = mine().filter(|it| it.target_port == pair.target_port).count();
            let host = self.loads.host.get(&pair.host_port).copied().unwrap_or(0);
            let target = self.loads.target.get(&(member, pair.target_port)).copied().unwrap_or(0);
            // To stay is worth one session of imbalance.
            let moves = 2 * u32::from(!self.current.contains(pair));
            (host_used + target_used, host + target + moves, *pair)
        });
        let pair = best.expect("a slice that wants a session has ports on both sides");
        self.loads.add((pair.host_port, member, pair.target_port));
        self.planned.push(pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn world(host_ports: u32, volumes: u64, slices: u32, ports: u32) -> World {
        let slice = |member| Slice { member, ports: (0..ports).collect() };
        let volume = |id| Volume { id, slices: (0..slices).map(slice).collect() };
        World {
            host_ports: (0..host_ports).collect(),
            volumes: (0..volumes).map(volume).collect(),
            others: Vec::new(),
            pool_sessions_max: 1024,
            pool_sessions_of_others: 0,
            rules: Rules::default(),
            cut_off: BTreeSet::new(),
        }
    }

    /// Two networks without a way between them: host port n reaches target port n only.
    fn two_networks() -> World {
        World { cut_off: BTreeSet::from([(0, 0, 1), (1, 0, 0)]), ..world(2, 1, 1, 2) }
    }

    #[test]
    fn sessions_stay_within_their_networks() {
        let ports = |planned: &[Planned]| -> Vec<(u32, u32)> {
            planned.iter().map(|it| (it.host_port, it.target_port)).collect()
        };
        assert_eq!(ports(&plan(&two_networks(), &[])), [(0, 0), (1, 1)]);
        let world = two_networks();
        let dealt = deal(&world, &world.volumes[0], 4, &[]);
        assert_eq!(ports(&dealt), [(0, 0), (1, 1), (0, 0), (1, 1)]);
        assert_eq!(dealt.iter().map(|it| it.copy).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert_eq!(deal(&world, &world.volumes[0], 4, &dealt), dealt);
        let mut cut = two_networks();
        cut.cut_off.insert((0, 0, 0));
        assert_eq!(ports(&plan(&cut, &[])), [(1, 1)], "the other network fails");
        cut.cut_off.insert((1, 0, 1));
        assert_eq!(plan(&cut, &[]), []);
        assert_eq!(deal(&cut, &cut.volumes[0], 4, &[]), []);
    }

    #[test]
    fn a_fixed_number_is_spread_over_members_and_ports() {
        let world = world(2, 1, 2, 2);
        let dealt = deal(&world, &world.volumes[0], 8, &[]);
        for n in 0..2 {
            assert_eq!(dealt.iter().filter(|it| it.member == n).count(), 4);
            assert_eq!(dealt.iter().filter(|it| it.host_port == n).count(), 4);
            assert_eq!(dealt.iter().filter(|it| it.target_port == n).count(), 4);
        }
        let distinct: BTreeSet<&Planned> = dealt.iter().collect();
        assert_eq!(distinct.len(), 8);
    }

    #[test]
    fn two_per_slice_and_six_per_volume() {
        assert_eq!(plan(&world(2, 1, 1, 4), &[]).len(), 2);
        assert_eq!(plan(&world(2, 1, 3, 4), &[]).len(), 6);
        assert_eq!(plan(&world(2, 1, 5, 4), &[]).len(), 6);
        assert_eq!(plan(&world(1, 1, 1, 4), &[]).len(), 1, "one host port is full with one");
        assert_eq!(plan(&world(4, 1, 1, 1), &[]).len(), 1, "and so is one member port");
    }

    #[test]
    fn a_slice_uses_different_ports_on_both_sides() {
        let two = plan(&world(2, 1, 1, 2), &[]);
        assert_ne!(two[0].host_port, two[1].host_port);
        assert_ne!(two[0].target_port, two[1].target_port);
    }

    #[test]
    fn volumes_share_the_ports_of_both_sides() {
        let ends = |it: &Planned| (it.host_port, it.member, it.target_port);
        let mut alone = two_networks();
        for n in 0..10 {
            let dealt = deal(&alone, &alone.volumes[0], 1, &[]);
            alone.others.extend(dealt.iter().map(ends));
            let load = |port| alone.others.iter().filter(|it| it.0 == port).count();
            assert!(load(0).abs_diff(load(1)) <= 1, "{} volumes: {:?}", n + 1, alone.others);
        }
        let mut full = world(1, 1, 1, 1);
        full.others = vec![(0, 0, 0); 600];
        assert_eq!(plan(&full, &[]).len(), 1, "no volume is without a session");
    }

    #[test]
    fn host_and_pool_are_not_exhausted() {
        assert_eq!(plan(&world(4, 400, 2, 4), &[]).len(), 512);
        let mut small = world(4, 400, 2, 4);
        small.pool_sessions_max = 100;
        assert_eq!(plan(&small, &[]).len(), 89, "less than 90 of 100");
        small.pool_sessions_of_others = 50;
        let planned = plan(&small, &[]);
        assert_eq!(planned.len(), 39);
        let volumes: std::collections::BTreeSet<u64> = planned.iter().map(|it| it.volume).collect();
        assert_eq!(volumes.len(), 39, "no volume has two while others have none");
        small.pool_sessions_of_others = 200;
        assert_eq!(plan(&small, &[]), []);
    }

    #[test]
    fn a_port_that_goes_takes_only_its_sessions_along() {
        let before = world(3, 10, 2, 3);
        let current = plan(&before, &[]);
        assert_eq!(changes(&current, &plan(&before, &current)), Changes::default());
        let mut after = before.clone();
        after.host_ports.retain(|&port| port != 1);
        let planned = plan(&after, &current);
        assert!(planned.iter().all(|it| it.host_port != 1));
        assert_eq!(planned.len(), current.len());
        let moved = changes(&current, &planned);
        let gone = current.iter().filter(|it| it.host_port == 1).count();
        assert!(moved.close.len() <= gone + gone / 2, "{} for {gone}", moved.close.len());
    }

    proptest! {
        #[test]
        fn every_plan_keeps_the_rules_and_spreads(
            host_ports in 0_u32..6, volumes in 0_u64..20, slices in 0_u32..5, ports in 0_u32..5,
            pool in 0_u32..200, others in 0_u32..50,
        ) {
            let world = World {
                pool_sessions_max: pool, pool_sessions_of_others: others,
                ..world(host_ports, volumes, slices, ports)
            };
            let planned = plan(&world, &[]);
            prop_assert!(planned.len() <= 512);
            prop_assert!(planned.is_empty() || (planned.len() as u32 + others) * 100 < pool * 90);
            for id in 0..volumes {
                let of_volume = planned.iter().filter(|it| it.volume == id);
                prop_assert!(of_volume.clone().count() <= 6);
                for member in 0..slices {
                    prop_assert!(of_volume.clone().filter(|it| it.member == member).count() <= 2);
                }
            }
            let load = |port| planned.iter().filter(|it| it.host_port == port).count();
            let loads: Vec<usize> = (0..host_ports).map(load).collect();
            if let (Some(most), Some(least)) = (loads.iter().max(), loads.iter().min()) {
                prop_assert!(most - least <= 2 + planned.len() / 4, "{loads:?}");
            }
            prop_assert_eq!(plan(&world, &planned), planned);
        }
    }
}
