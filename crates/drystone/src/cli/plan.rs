//! The options of `drystone plan`.

use clap::{Args, Subcommand};
use lab::connections::{NUMBER_MAX, SESSIONS_MAX};

use crate::cli::number;

/// What stands above the options of `plan connections` in the long help.
pub(crate) const CONNECTIONS_ABOUT: &str = "\
Count the iSCSI connections of a pool, before there are too many.

A host opens so many connections to each slice of a volume; a volume lies on up
to three members of its pool, and all hosts connect to all volumes. The answer
tells where the limit is met, and what brings the pool under it, by how much:
one connection per slice, fewer and larger volumes, access control, more pools.

Moving volumes and replication open a few more connections for a while.";

/// Examples at the foot of `drystone plan --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone plan connections --members 5 --hosts 2 --volumes 1
          Twelve: three slices, two hosts, two connections to each slice
  drystone plan connections --members 3 --hosts 10 --volumes 30
          Too many for one pool, and what to do about it";

/// Examples at the foot of `drystone plan connections --help`.
pub(crate) const CONNECTIONS_EXAMPLES: &str = "\
Examples:
  drystone plan connections --members 2 --hosts 5 --volumes 1
          Twenty connections
  drystone plan connections --members 3 --hosts 2 --guest-initiators 8 \\
          --volumes 30
          Virtual machines with an initiator of their own count as hosts
  drystone plan connections --members 3 --hosts 10 --volumes 30 --json |
          jq '.remedies[] | select(.fits) | .outcome.remedy'

Exit status:
  0  planned, whether or not it fits
  2  the numbers cannot be meant; stderr says why";

/// Plan a SAN before it is built.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct PlanArgs {
    /// What to plan.
    #[command(subcommand)]
    pub(crate) what: PlanCommand,
}

/// What can be planned.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Count the iSCSI connections of a pool, before there are too many.
    #[command(long_about = CONNECTIONS_ABOUT, after_long_help = CONNECTIONS_EXAMPLES)]
    Connections(ConnectionsArgs),
}

/// Count the iSCSI connections of a pool.
#[derive(Debug, Args)]
pub(crate) struct ConnectionsArgs {
    /// Members of the pool. A volume lies on three of them at most.
    #[arg(long, value_name = "M", value_parser = planned)]
    pub(crate) members: u64,

    /// Hosts that connect to every volume. A hypervisor is one, whatever it runs.
    #[arg(long, value_name = "H", value_parser = planned_or_none)]
    pub(crate) hosts: u64,

    /// Volumes of the pool.
    #[arg(long, value_name = "V", value_parser = planned)]
    pub(crate) volumes: u64,

    /// Virtual machines that connect by themselves: each counts as a host.
    #[arg(long, value_name = "N", default_value = "0", value_parser = planned_or_none)]
    pub(crate) guest_initiators: u64,

    /// Connections of a host to each slice of a volume.
    #[arg(long, value_name = "N", default_value = "2", value_parser = sessions)]
    pub(crate) per_slice: u64,

    /// Connections of a host to one volume, at most.
    #[arg(long, value_name = "N", default_value = "6", value_parser = sessions)]
    pub(crate) per_volume: u64,

    /// Connections that a pool takes.
    #[arg(long, value_name = "N", default_value = "1024", value_parser = planned)]
    pub(crate) pool_limit: u64,

    /// Connections that the group takes, over up to four pools.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = planned)]
    pub(crate) group_limit: u64,

    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

fn planned(text: &str) -> Result<u64, number::NumberError> {
    number::parse(text, "things to plan", 1, NUMBER_MAX)
}

fn planned_or_none(text: &str) -> Result<u64, number::NumberError> {
    number::parse(text, "things to plan", 0, NUMBER_MAX)
}

fn sessions(text: &str) -> Result<u64, number::NumberError> {
    number::parse(text, "connections", 1, SESSIONS_MAX)
}
