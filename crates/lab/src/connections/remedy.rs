//! The paper's four ways to fewer connections, each tried by itself.

use serde::Serialize;

use super::{Configuration, POOLS_MAX};

/// One way, and what it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What to do.
    pub outcome: Outcome,
    /// Whether that brings the configuration below its limit.
    pub fits: bool,
    /// Connections of the fullest pool afterwards.
    pub total: u64,
    /// Connections fewer than before, in the fullest pool.
    pub saved: u64,
    /// How many more connections fit then, below the limits of pool and group; none if it does not fit.
    pub room: Option<u64>,
}

/// What to do. One that does not fit is as far as it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "remedy", rename_all = "kebab-case")]
pub enum Outcome {
    /// One connection per slice ("Max Sessions per Volume Slice").
    OnePerSlice,
    /// Fewer and larger volumes.
    FewerVolumes {
        /// How many may be left, one at least.
        volumes: u64,
        /// How much larger each one is, in percent of what it was.
        size_percent: u64,
    },
    /// Each volume for some of the hosts only, by its access list.
    AccessControl {
        /// How many hosts may have a volume, one at least.
        hosts_per_volume: u64,
    },
    /// More pools, over which volumes and members are divided.
    MorePools {
        /// How many.
        pools: u64,
        /// Members of each pool, the largest first.
        members: Vec<u64>,
        /// Volumes of each pool, in the same order.
        volumes: Vec<u64>,
        /// Members that must be bought, as each pool needs one.
        members_missing: u64,
        /// Connections of the whole group.
        group_total: u64,
    },
}

/// All remedies that change anything about `before`, the simplest first.
pub(super) fn each(before: &Configuration) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    if before.per_slice > 1 {
        let total = Configuration { per_slice: 1, ..*before }.total();
        remedies.push(remedy(before, Outcome::OnePerSlice, total));
    }
    remedies.push(fewer_volumes(before));
    remedies.push(access_control(before));
    remedies.push(more_pools(before));
    remedies
}

fn remedy(before: &Configuration, outcome: Outcome, total: u64) -> Remedy {
    let saved = before.total().saturating_sub(total);
    let room = match outcome {
        // Each pool has its own limit, and all of them that of the group.
        Outcome::MorePools { group_total, .. } => {
            let of_group = before.group_limit.checked_sub(group_total);
            before.pool_limit.checked_sub(total).zip(of_group).map(|(pool, group)| pool.min(group))
        }
        _ => before.limit().checked_sub(total),
    };
    Remedy { outcome, fits: room.is_some(), total, saved, room }
}

fn fewer_volumes(before: &Configuration) -> Remedy {
    let volumes = (before.limit() / before.per_volume()).clamp(1, before.volumes);
    // Rounded up: the volumes that are left must hold what all of them held.
    let size_percent = (before.volumes * 100).div_ceil(volumes);
    let total = volumes * before.per_volume();
    remedy(before, Outcome::FewerVolumes { volumes, size_percent }, total)
}

fn access_control(before: &Configuration) -> Remedy {
    let per_host = before.per_host_and_volume() * before.volumes;
    let hosts_per_volume = (before.limit() / per_host).clamp(1, before.initiators());
    let total = hosts_per_volume * per_host;
    remedy(before, Outcome::AccessControl { hosts_per_volume }, total)
}

/// The fewest pools that take the volumes; with the most there can be if even those are too few. A pool may be left
/// without a volume: its members are then none on which the others' volumes lie.
fn more_pools(before: &Configuration) -> Remedy {
    let mut last = None;
    for pools in 2..=POOLS_MAX {
        let members_missing = pools.saturating_sub(before.members);
        let members = shares(before.members + members_missing, pools);
        let volumes = shares(before.volumes, pools);
        let total_of = |(&members, &volumes): (&u64, &u64)| {
            Configuration { members, volumes, ..*before }.total()
        };
        let totals: Vec<u64> = members.iter().zip(&volumes).map(total_of).collect();
        let (fullest, group_total) =
            (totals.iter().copied().max().unwrap_or(0), totals.iter().sum::<u64>());
        let outcome = Outcome::MorePools { pools, members, volumes, members_missing, group_total };
        let found = remedy(before, outcome, fullest);
        if found.fits {
            return found;
        }
        last = Some(found);
    }
    last.expect("there are several numbers of pools")
}

/// `number` things in `parts` parts as even as can be, the larger parts first.
fn shares(number: u64, parts: u64) -> Vec<u64> {
    (0..parts).map(|part| number / parts + u64::from(part < number % parts)).collect()
}
