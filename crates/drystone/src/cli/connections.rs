//! The options of `drystone connections`.

use std::time::Duration;

use crate::cli::manage::MemberArgs;
use crate::cli::number;
use clap::Args;

/// Examples at the foot of `drystone connections --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone connections
  drystone connections --volume db
          Also those to its snapshots
  drystone connections --host 10.1.2. --interval 10
          Of hosts whose name or address has this in it, with rates over ten seconds
  drystone connections --json | jq 'map(.waiting) | add'";

/// Whose connections, and how long to look.
#[derive(Debug, Args)]
pub(crate) struct ConnectionsArgs {
    /// Only those to this volume and its snapshots.
    #[arg(long, value_name = "NAME")]
    pub(crate) volume: Option<String>,

    /// Only those of hosts whose iSCSI name or address has this text in it.
    #[arg(long, value_name = "TEXT")]
    pub(crate) host: Option<String>,

    /// The time over which rates are measured.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = number::seconds)]
    pub(crate) interval: Duration,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}
