//! How many iSCSI connections a pool of members gets, where its limit is, and what brings it under.
//!
//! The arithmetic is that of the PS Series paper on connection counts: a host opens so many
//! connections to each slice of a volume, a volume lies on three members at most, and all hosts
//! connect to all volumes.

mod remedy;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use remedy::{Outcome, Remedy};

/// Members that a volume is spread over, at most, under normal circumstances.
pub const SLICES_MAX: u64 = 3;
/// Pools of a group.
pub const POOLS_MAX: u64 = 4;
/// The largest number that any part of a configuration may be. It keeps every product below 2^64.
pub const NUMBER_MAX: u64 = 1_000_000;
/// As [`NUMBER_MAX`], for connections per slice and per volume.
pub const SESSIONS_MAX: u64 = 1_000;

/// What one host system can open, as the paper found it: connections, and whose limit that is.
pub const HOST_LIMITS: [(u64, &str); 3] = [
    (255, "Windows Server"),
    (512, "ESXi with MEM as it comes"),
    (1024, "ESXi with its software initiator"),
];

/// One pool, its hosts and its volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// Members of the pool.
    pub members: u64,
    /// Hosts that connect to every volume. A hypervisor is one host, whatever it runs.
    pub hosts: u64,
    /// Virtual machines with an initiator of their own: each counts as a host.
    pub guest_initiators: u64,
    /// Volumes of the pool.
    pub volumes: u64,
    /// Connections that a host opens to each slice of a volume.
    pub per_slice: u64,
    /// Connections that a host opens to one volume, at most.
    pub per_volume_max: u64,
    /// Connections that a pool takes.
    pub pool_limit: u64,
    /// Connections that a group takes, over all its pools.
    pub group_limit: u64,
}

/// A configuration that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// Nobody would connect.
    #[error("there is no host: give at least one host or guest initiator")]
    NoHost,
    /// A part that there must be some of, but not endlessly many.
    #[error("{found} is not a number of {what}: 1 to {max} can be planned")]
    OutOfRange {
        /// What was counted.
        what: &'static str,
        /// How many.
        found: u64,
        /// The most.
        max: u64,
    },
}

/// What a configuration comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What was asked.
    pub configuration: Configuration,
    /// Slices of each volume.
    pub slices: u64,
    /// Connections of one host to one volume.
    pub per_host_and_volume: u64,
    /// Connections of each host to all volumes.
    pub per_host: u64,
    /// Connections of all hosts to one volume.
    pub per_volume: u64,
    /// Connections of the pool.
    pub total: u64,
    /// The smaller of the pool's and the group's limit.
    pub limit: u64,
    /// How many connections there are too many; 0 if it fits.
    pub over: u64,
    /// Volumes that fit below the limit, with these hosts.
    pub volumes_max: u64,
    /// Hosts, guest initiators included, that fit below the limit, with these volumes.
    pub hosts_max: u64,
    /// Each remedy by itself; empty if it fits as it is.
    pub remedies: Vec<Remedy>,
    /// Each of the others together with one connection per slice; filled in if none suffices alone.
    pub combined: Vec<Remedy>,
}

impl Configuration {
    /// The defaults of the paper: two connections per slice and six per volume, 1,024 connections
    /// per pool and 4,096 per group.
    #[must_use]
    pub fn new(members: u64, hosts: u64, volumes: u64) -> Self {
        Self {
            members,
            hosts,
            guest_initiators: 0,
            volumes,
            per_slice: 2,
            per_volume_max: 6,
            pool_limit: 1024,
            group_limit: 4096,
        }
    }

    /// Does the arithmetic.
    ///
    /// # Errors
    /// A number that is zero, or too large to be meant.
    pub fn plan(self) -> Result<Plan, ConfigurationError> {
        self.check()?;
        let (per_volume, total, limit) = (self.per_volume(), self.total(), self.limit());
        let over = total.saturating_sub(limit);
        let remedies = if over > 0 { remedy::each(&self) } else { Vec::new() };
        let none_suffices = remedies.iter().all(|remedy| !remedy.fits);
        let combined = if over > 0 && none_suffices && self.per_slice > 1 {
            let mut rest = remedy::each(&Self { per_slice: 1, ..self });
            for remedy in &mut rest {
                remedy.saved = total.saturating_sub(remedy.total);
            }
            rest
        } else {
            Vec::new()
        };
        Ok(Plan {
            configuration: self,
            slices: self.slices(),
            per_host_and_volume: self.per_host_and_volume(),
            per_host: self.per_host_and_volume() * self.volumes,
            per_volume,
            total,
            limit,
            over,
            volumes_max: limit / per_volume,
            hosts_max: limit / (self.per_host_and_volume() * self.volumes),
            remedies,
            combined,
        })
    }

    fn check(&self) -> Result<(), ConfigurationError> {
        let counted = [
            ("members", self.members, NUMBER_MAX),
            ("volumes", self.volumes, NUMBER_MAX),
            ("connections per slice", self.per_slice, SESSIONS_MAX),
            ("connections per volume", self.per_volume_max, SESSIONS_MAX),
            ("connections of a pool", self.pool_limit, NUMBER_MAX),
            ("connections of a group", self.group_limit, NUMBER_MAX),
        ];
        for (what, found, max) in counted {
            if !(1..=max).contains(&found) {
                return Err(ConfigurationError::OutOfRange { what, found, max });
            }
        }
        for (what, found) in [("hosts", self.hosts), ("guest initiators", self.guest_initiators)] {
            if found > NUMBER_MAX {
                return Err(ConfigurationError::OutOfRange { what, found, max: NUMBER_MAX });
            }
        }
        if self.initiators() == 0 { Err(ConfigurationError::NoHost) } else { Ok(()) }
    }

    fn slices(&self) -> u64 {
        self.members.min(SLICES_MAX)
    }

    fn initiators(&self) -> u64 {
        self.hosts + self.guest_initiators
    }

    fn per_host_and_volume(&self) -> u64 {
        (self.slices() * self.per_slice).min(self.per_volume_max)
    }

    fn per_volume(&self) -> u64 {
        self.per_host_and_volume() * self.initiators()
    }

    fn total(&self) -> u64 {
        self.per_volume() * self.volumes
    }

    fn limit(&self) -> u64 {
        self.pool_limit.min(self.group_limit)
    }
}
