//! The options of `drystone volume reservations`.

use crate::cli::manage::Confirm;
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
