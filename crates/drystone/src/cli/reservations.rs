//! The options of `drystone volume reservations` and `drystone snapshot reservations`.

use crate::cli::manage::Confirm;
use crate::cli::snapshot::Which;
use clap::Subcommand;

/// Examples at the foot of `drystone volume reservations --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone volume reservations show vm1
  drystone volume reservations clear vm1
          Where those who hold it are gone, or keep others out who should get in";

/// What hosts have reserved.
#[derive(Debug, Subcommand)]
pub(crate) enum ReservationsCommand {
    /// Show who has reserved a volume, and who is registered.
    #[command(
        after_long_help = "Examples:\n  drystone volume reservations show vm1\n  drystone volume reservations show vm1 --json | jq '.registrations[].host'"
    )]
    Show {
        /// The volume.
        #[arg(value_name = "VOLUME")]
        volume: String,
    },

    /// End all reservations of a volume; hosts that were registered are told.
    #[command(
        after_long_help = "Examples:\n  drystone volume reservations clear vm1\n  drystone volume reservations clear vm1 --yes"
    )]
    Clear {
        /// The volume.
        #[arg(value_name = "VOLUME")]
        volume: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },
}

/// Examples at the foot of `drystone snapshot reservations --help`.
pub(crate) const OF_SNAPSHOT_EXAMPLES: &str = "\
Examples:
  drystone snapshot reservations show vm1 monday
  drystone snapshot reservations clear vm1 monday
          A snapshot that is online has reservations of its own";

/// What hosts have reserved of a snapshot.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotReservationsCommand {
    /// Show who has reserved a snapshot, and who is registered.
    #[command(after_long_help = "Examples:\n  drystone snapshot reservations show vm1 monday")]
    Show {
        /// Which snapshot.
        #[command(flatten)]
        which: Which,
    },

    /// End all reservations of a snapshot; hosts that were registered are told.
    #[command(
        after_long_help = "Examples:\n  drystone snapshot reservations clear vm1 monday\n  drystone snapshot reservations clear vm1 monday --yes"
    )]
    Clear {
        /// Which snapshot.
        #[command(flatten)]
        which: Which,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },
}
