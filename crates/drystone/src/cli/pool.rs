//! The options of `drystone pool`.

use crate::cli::manage::{Confirm, MemberArgs};
use clap::{Args, Subcommand};

/// Examples at the foot of `drystone pool --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone pool create fast
  drystone member move right --pool fast
          With its volumes; hosts notice nothing
  drystone volume create db 500G --pool fast
          On the member of the pool that has most room
  drystone pool list

Each member is in one pool; those that nobody has put into another are in 'default'.";

/// Members whose room is given out together.
#[derive(Debug, Args)]
pub(crate) struct PoolArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: PoolCommand,

    /// Which member is asked, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with pools.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool, without members yet.
    #[command(
        after_long_help = "Examples:\n  drystone pool create fast && drystone member move right --pool fast"
    )]
    Create {
        /// Its name: 1 to 63 letters, digits, '-', '.' or '_'.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// List the pools: their members, and how much room these have.
    #[command(after_long_help = "Examples:\n  drystone pool list\n  drystone pool list --json")]
    List,

    /// Show one pool.
    #[command(after_long_help = "Examples:\n  drystone pool show fast")]
    Show {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Put all members of a pool into another one; the pool is gone then.
    #[command(after_long_help = "Examples:\n  drystone pool merge fast --into default")]
    Merge {
        /// The pool that goes.
        #[arg(value_name = "NAME")]
        name: String,

        /// The pool that its members are in from then on.
        #[arg(long, value_name = "POOL")]
        into: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },

    /// Delete a pool that has no members.
    #[command(after_long_help = "Examples:\n  drystone pool delete fast")]
    Delete {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },
}
