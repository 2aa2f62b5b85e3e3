//! The options of `drystone top`.

use std::time::Duration;

use crate::cli::manage::MemberArgs;
use crate::cli::number;
use clap::{Args, ValueEnum};

/// Examples at the foot of `drystone top --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone top
  drystone top --view hosts --sort latency --interval 5
  drystone top --once --filter db
          One table of what has db in its name
  drystone top --json --count 60 > minute.jsonl
          A line of JSON each second for a minute";

/// What lines stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// A volume, or a snapshot that is served.
    Volumes,
    /// A host, by its iSCSI name.
    Hosts,
    /// An address of the member.
    Portals,
    /// A disk of the array.
    Disks,
}

/// What lines are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Their names.
    Name,
    /// SCSI commands a second.
    Iops,
    /// Bytes a second, read and written.
    Bytes,
    /// The mean latency.
    Latency,
    /// The latency that 99 % of the commands did not exceed.
    P99,
    /// Commands that have not been answered.
    Queue,
}

/// What to look at, and for how long.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// What lines stand for at first.
    #[arg(long, value_enum, default_value = "volumes")]
    pub(crate) view: View,

    /// What lines are sorted by at first, the largest on top.
    #[arg(long, value_enum, default_value = "iops")]
    pub(crate) sort: Sort,

    /// Only what has this text in its name.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,

    /// The time over which rates are measured.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = number::seconds)]
    pub(crate) interval: Duration,

    /// Print one table and end, as where the output is no terminal.
    #[arg(long)]
    pub(crate) once: bool,

    /// With --json: end after so many lines.
    #[arg(long, value_name = "N", requires = "json", conflicts_with = "once")]
    #[arg(value_parser = number::lines)]
    pub(crate) count: Option<u64>,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}
