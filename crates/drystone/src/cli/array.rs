//! The options of `drystone array`.

use crate::cli::manage::MemberArgs;
use clap::{Args, Subcommand};
use member::memory::CacheMemory;
use member::spec::disk::MemberDisk;

/// Examples at the foot of `drystone array --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone array show
  drystone array scrub
          Read and compare everything; Ctrl-C leaves it running, 'drystone run cancel' ends it
  drystone array rebuild-status --wait
  drystone array rebalance
          Spread the data over all disks, also those that were added
  drystone array set --rebuild-share 20 --scrub-every 7
          A rebuild leaves 80 percent of the disks' time to hosts; a scrub
          begins a week after the last one has ended
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

    /// Spread the data evenly over all disks, also those that were added; Ctrl-C leaves it running.
    ///
    /// This begins by itself after 'disk add'. It takes the same share of the disks' time as a
    /// rebuild: see 'array set --rebuild-share'.
    #[command(after_long_help = "Examples:\n  drystone array rebalance")]
    Rebalance,

    /// Show what is being rebuilt, resynchronised or moved.
    #[command(
        after_long_help = "Examples:\n  drystone array rebuild-status\n  drystone array rebuild-status --wait"
    )]
    RebuildStatus {
        /// Wait until it is done.
        #[arg(long)]
        wait: bool,
    },

    /// Change what is set for the whole array; 'array show' tells what it is.
    #[command(
        after_long_help = "Examples:\n  drystone array set --rebuild-share 20\n  drystone array set --scrub-every 7 --warn-at 70,90\n  drystone array set --cache-memory 8G"
    )]
    Set(SetArgs),

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

/// What is set for the whole array.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct SetArgs {
    /// How much of the disks' time a rebuild or scrub may take while hosts are busy, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = crate::cli::number::percent)]
    pub(crate) rebuild_share: Option<u8>,

    /// Days from the end of a scrub to the next one; 0 for none but those that are asked for.
    #[arg(long, value_name = "DAYS", value_parser = crate::cli::number::days)]
    pub(crate) scrub_every: Option<u16>,

    /// Warn operators and hosts as the space in use reaches each of these, in percent.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',')]
    #[arg(value_parser = crate::cli::number::percent)]
    pub(crate) warn_at: Option<Vec<u8>>,

    /// Memory for the read cache until the member stops: such as 4G, at least 16M, or auto for a quarter of
    /// what the member may use. At its next start cache-memory in member.toml, or --cache-memory of drystone up,
    /// decides.
    #[arg(long, value_name = "SIZE|auto")]
    pub(crate) cache_memory: Option<CacheMemory>,
}
