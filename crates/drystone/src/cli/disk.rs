//! The options of `drystone disk`.

use crate::cli::manage::{Confirm, Follow, MemberArgs};
use clap::{Args, Subcommand};
use member::spec::disk::MemberDisk;

/// Examples at the foot of `drystone disk --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone disk list
  drystone disk show 3
          By its number, its path, or the last part of that
  drystone disk add /dev/sdf
  drystone disk replace /dev/sdc /dev/sdg
          A new disk takes over what is on the old one
  drystone disk fail disk-2 --yes
          Do not use it any more: its data is restored on the others
  drystone disk retire disk-4
          Empty it, then let it go
  drystone disk clear disk-3
          Forgive it its errors, after a cable was changed
  drystone disk wipe /dev/sdc
          Take its label away, so that another array can have it";

/// What to do with disks.
#[derive(Debug, Args)]
pub(crate) struct DiskArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: DiskCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with disks.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// List all disks.
    #[command(after_long_help = "Examples:\n  drystone disk list")]
    List,

    /// Show one disk.
    #[command(after_long_help = "Examples:\n  drystone disk show 3\n  drystone disk show /dev/sdc")]
    Show {
        /// Its number, its path, or the last part of that.
        #[arg(value_name = "DISK")]
        disk: String,
    },

    /// Take in a blank disk, or one of this array that was away.
    #[command(
        after_long_help = "Examples:\n  drystone disk add /dev/sdf\n  drystone disk add /srv/disk-6:100G\n  drystone disk add --journal /dev/nvme1n1"
    )]
    Add {
        /// The disk: PATH[:SIZE].
        #[arg(value_name = "PATH[:SIZE]")]
        disk: MemberDisk,

        /// For the journal alone, as with 'up --journal': one that is gone has its place taken, and
        /// may retire.
        #[arg(long)]
        journal: bool,
    },

    /// Put a blank disk in the place of another one, which leaves when it is empty.
    #[command(after_long_help = "Examples:\n  drystone disk replace /dev/sdc /dev/sdg")]
    Replace {
        /// The old one: its number, its path, or the last part of that.
        #[arg(value_name = "DISK")]
        disk: String,

        /// The new one: PATH[:SIZE].
        #[arg(value_name = "PATH[:SIZE]")]
        by: MemberDisk,

        /// Whether to wait.
        #[command(flatten)]
        follow: Follow,
    },

    /// Treat a disk as failed; its data is restored on the others.
    #[command(
        after_long_help = "Examples:\n  drystone disk fail /dev/sdc\n  drystone disk fail 3 --accept-loss"
    )]
    Fail {
        /// Its number, its path, or the last part of that.
        #[arg(value_name = "DISK")]
        disk: String,

        /// Also when nobody else has some of its data: that is lost then, and gives read errors.
        /// For a disk that is gone for good, beside another one that lacks something.
        #[arg(long)]
        accept_loss: bool,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },

    /// Move the data of a disk to the others, then let it go.
    #[command(
        after_long_help = "Examples:\n  drystone disk retire 4 --no-wait\n  drystone disk retire 4 --cancel"
    )]
    Retire {
        /// Its number, its path, or the last part of that.
        #[arg(value_name = "DISK")]
        disk: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,

        /// Let it stay after all: no more of its data is moved, and it is used as before.
        #[arg(long)]
        cancel: bool,

        /// Whether to wait.
        #[command(flatten)]
        follow: Follow,
    },

    /// Forgive a disk its errors: it is not suspect any more until it has as many again.
    ///
    /// Of a disk that has left the array by itself, which 'drystone status' tells of, nothing is said any more.
    #[command(after_long_help = "Examples:\n  drystone disk clear /dev/sdc")]
    Clear {
        /// Its number, its path, or the last part of that.
        #[arg(value_name = "DISK")]
        disk: String,
    },

    /// Take the label off a disk that no array uses, so that it counts as blank; needs no member.
    ///
    /// Zeroes are written to its first 256 KiB and its last 64 KiB: these are looked at before a
    /// disk counts as blank. What lies between stays where it is, but no array finds it any more.
    /// A disk that a program uses is refused.
    #[command(
        after_long_help = "Examples:\n  drystone disk wipe /dev/sdc\n  drystone disk wipe /srv/disk-3 --yes\n  drystone disk wipe /dev/sdd --foreign\n          Also if it holds a file system, a partition table or the like"
    )]
    Wipe {
        /// The disk: PATH.
        #[arg(value_name = "PATH")]
        disk: MemberDisk,

        /// Also give up what is not an array's: a file system, a partition table and the like.
        #[arg(long)]
        foreign: bool,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },
}
