//! The options of `drystone pool`.

use crate::cli::manage::{Confirm, MemberArgs};
use clap::{Args, Subcommand};
use group::connections::{ConnectionLimit, ConnectionLimitError};

/// Examples at the foot of `drystone pool --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone pool create fast
  drystone member move right --pool fast
          With its volumes; hosts notice nothing
  drystone volume create db 500G --pool fast
          On the member of the pool that has most room
  drystone pool list
  drystone pool set fast --connections 8192
          So many connections may hosts have to its members

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

    /// Say how many connections hosts may have to the members of a pool.
    ///
    /// A login that would be one more is refused (out of resources), and an event names the host and the volume. Hosts that
    /// are logged in stay. 'drystone group set --connections' does so for all members together.
    #[command(
        after_long_help = "Examples:\n  drystone pool set fast --connections 8192\n  drystone pool set fast --connections default"
    )]
    Set {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// A number; or 'default' for as many as pools have for which none was set.
        #[arg(long, value_name = "N|default", value_parser = parse_pool_limit)]
        connections: PoolLimit,
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

/// How many connections a pool takes; `None` for as many as pools do for which none was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolLimit(pub(crate) Option<ConnectionLimit>);

/// Reads it.
fn parse_pool_limit(text: &str) -> Result<PoolLimit, String> {
    if text == "default" {
        return Ok(PoolLimit(None));
    }
    let read = text.parse().map(|limit| PoolLimit(Some(limit)));
    read.map_err(|error: ConnectionLimitError| format!("{error}, or 'default'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_takes_a_number_of_connections_or_what_others_take() {
        let eight: ConnectionLimit = 8.try_into().expect("it is one");
        assert_eq!(parse_pool_limit("8"), Ok(PoolLimit(Some(eight))));
        assert_eq!(parse_pool_limit("default"), Ok(PoolLimit(None)));
        for wrong in ["", "0", "small", "8k"] {
            let said = parse_pool_limit(wrong).unwrap_err();
            assert!(said.ends_with("from 1 to 4194304, or 'default'"), "{said}");
        }
    }
}
