//! The options of `drystone array`.

use crate::cli::manage::MemberArgs;
use crate::spec::member::MemberDisk;
use clap::{Args, Subcommand};

/// Examples at the foot of `drystone array --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone array show
  drystone array scrub
          Read and compare everything; Ctrl-C leaves it running
  drystone array rebuild-status --wait
  drystone array rebuild-share 20
          A rebuild leaves 80 percent of the disks' time to hosts
  drystone array check
          Verify everything while it is served
  drystone array check --disk /dev/sdb --disk /dev/sdc --disk /dev/sdd
          The same for an array that no member serves";

/// What to do with the array.
#[derive(Debug, Args)]
pub(crate) struct ArrayArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: ArrayCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with the array.
#[derive(Debug, Subcommand)]
pub(crate) enum ArrayCommand {
    /// Show the array: space, disks, journal, what needs attention.
    #[command(
        after_long_help = "Examples:\n  drystone array show\n  drystone array show --json | jq .free_bytes"
    )]
    Show,

    /// Read and compare everything, and repair what differs.
    #[command(after_long_help = "Examples:\n  drystone array scrub")]
    Scrub,

    /// Show what is being rebuilt, resynchronised or moved.
    #[command(
        after_long_help = "Examples:\n  drystone array rebuild-status\n  drystone array rebuild-status --wait"
    )]
    RebuildStatus {
        /// Wait until it is done.
        #[arg(long)]
        wait: bool,
    },

    /// Say how much of the disks' time a rebuild may take while hosts are busy.
    #[command(after_long_help = "Examples:\n  drystone array rebuild-share 20")]
    RebuildShare {
        /// 1 to 100.
        #[arg(value_name = "PERCENT", value_parser = crate::cli::number::percent)]
        percent: u8,
    },

    /// Verify everything: checksums, parity, maps, free space. Exit status 1 if something is wrong.
    #[command(
        after_long_help = "Examples:\n  drystone array check\n  drystone array check --disk /dev/sdb --disk /dev/sdc"
    )]
    Check {
        /// Check the array on these disks, which no member may be serving: PATH; once for each.
        #[arg(long = "disk", value_name = "PATH")]
        disks: Vec<MemberDisk>,
    },
}
