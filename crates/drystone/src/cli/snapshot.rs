//! The options of `drystone snapshot`.

use crate::cli::manage::{Confirm, Follow, MemberArgs};
use crate::cli::reservations::{self, SnapshotReservationsCommand};
use clap::{Args, Subcommand};

/// Examples at the foot of `drystone snapshot --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone snapshot create vm1 before-update
  drystone snapshot create db,log nightly
          Two volumes at the same moment
  drystone snapshot list vm1 --space
          With what each holds alone and shares
  drystone snapshot online vm1 before-update
          Serve it read-only, to look into it
  drystone snapshot online vm1 before-update --writable
          Let hosts write to it; the snapshot keeps its moment all the same
  drystone snapshot clone vm1 before-update vm1-test
          A volume that can be written
  drystone snapshot diff vm1 monday tuesday --json
          What was changed in between";

/// What to do with snapshots.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: SnapshotCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// A snapshot.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The volume.
    #[arg(value_name = "VOLUME")]
    pub(crate) volume: String,

    /// The name of the snapshot.
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) name: String,
}

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Take a snapshot of a volume, or of several at the same moment.
    #[command(
        after_long_help = "Examples:\n  drystone snapshot create vm1 before-update\n  drystone snapshot create db,log nightly"
    )]
    Create {
        /// The volume, or several with commas between them, also of several members of a group.
        #[arg(value_name = "VOLUME[,VOLUME]...")]
        volumes: String,

        /// The name of the snapshot; without it one is made from the time.
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },

    /// List the snapshots of a volume, or of all.
    #[command(
        after_long_help = "Examples:\n  drystone snapshot list\n  drystone snapshot list vm1 --space"
    )]
    List {
        /// The volume.
        #[arg(value_name = "VOLUME")]
        volume: Option<String>,

        /// Count what each snapshot holds alone, and what it shares; takes a while.
        #[arg(long)]
        space: bool,
    },

    /// Bring a volume that is offline back to what a snapshot holds.
    #[command(
        after_long_help = "Examples:\n  drystone volume offline vm1\n  drystone snapshot rollback vm1 before-update\n  drystone volume online vm1"
    )]
    Rollback {
        /// Which snapshot.
        #[command(flatten)]
        which: Which,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },

    /// Make a new volume of what a snapshot holds; it takes no space until it is written.
    #[command(after_long_help = "Examples:\n  drystone snapshot clone vm1 before-update vm1-test")]
    Clone {
        /// Which snapshot.
        #[command(flatten)]
        which: Which,

        /// The name of the new volume.
        #[arg(value_name = "NEW")]
        to: String,
    },

    /// Delete a snapshot.
    #[command(after_long_help = "Examples:\n  drystone snapshot delete vm1 before-update")]
    Delete {
        /// Which snapshot.
        #[command(flatten)]
        which: Which,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,

        /// Whether to wait.
        #[command(flatten)]
        follow: Follow,
    },

    /// Serve a snapshot read-only or read-write, as a target of its own.
    ///
    /// The snapshot itself never changes. What hosts write is kept beside it, over restarts and
    /// while it is offline; rollback, clone and diff see the snapshot as it was taken. It goes with
    /// the snapshot, or with --fresh.
    #[command(
        after_long_help = "Examples:\n  drystone snapshot online vm1 before-update\n  drystone snapshot online vm1 before-update --writable\n  drystone snapshot online vm1 before-update --writable --fresh"
    )]
    Online {
        /// Which snapshot.
        #[command(flatten)]
        which: Which,

        /// Hosts may write to it, and go on with what they wrote before.
        #[arg(long)]
        writable: bool,

        /// Throw away what hosts wrote to it before.
        #[arg(long, requires = "writable")]
        fresh: bool,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },

    /// Stop serving a snapshot; what hosts wrote to it is kept.
    #[command(after_long_help = "Examples:\n  drystone snapshot offline vm1 before-update")]
    Offline {
        /// Which snapshot.
        #[command(flatten)]
        which: Which,
    },

    /// Show and end what hosts have reserved of a snapshot that is online.
    #[command(subcommand, after_long_help = reservations::OF_SNAPSHOT_EXAMPLES)]
    Reservations(SnapshotReservationsCommand),

    /// List the ranges that differ between two snapshots, or a snapshot and now.
    #[command(
        after_long_help = "Examples:\n  drystone snapshot diff vm1 monday tuesday\n  drystone snapshot diff vm1 monday --json"
    )]
    Diff {
        /// The volume.
        #[arg(value_name = "VOLUME")]
        volume: String,

        /// The older snapshot; without any, all that the volume holds.
        #[arg(value_name = "FROM")]
        from: Option<String>,

        /// The younger snapshot; without it, the present contents.
        #[arg(value_name = "TO")]
        to: Option<String>,
    },
}
