//! The options of `drystone run`.

use crate::cli::manage::MemberArgs;
use clap::{Args, Subcommand};

/// Examples at the foot of `drystone run --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone run list
  drystone run cancel
          The one that goes on, if there is one only
  drystone run cancel 6745c1f0-3";

/// What to do with runs.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: RunCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with runs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// List the last runs: scrubs, checks, rebalancings and moves of volumes that were asked for.
    ///
    /// The last 64 since the member was started. A scrub that began because it was due is none of them; 'array
    /// rebuild-status' shows it.
    #[command(after_long_help = "Examples:\n  drystone run list")]
    List,

    /// Cancel a scrub, a check, a rebalancing or the move of a volume, and say how far it had come.
    ///
    /// What it has repaired stays repaired, and what it has moved stays where it is. A volume that was to go to another
    /// member stays, and nothing of it is left there; a move can be cancelled until the volume is handed over.
    /// A rebalancing that began by itself is none of the runs: ask for it by 'array rebalance', leave that by Ctrl-C,
    /// and cancel this run. 'array set --rebuild-share' makes one slower.
    #[command(
        after_long_help = "Examples:\n  drystone run cancel\n  drystone run cancel 6745c1f0-3"
    )]
    Cancel {
        /// Which, as 'run list' shows it; without it, the only one that goes on.
        #[arg(value_name = "RUN")]
        id: Option<String>,
    },
}
