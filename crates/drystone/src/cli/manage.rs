//! What all commands to a running member have in common.

use crate::cli::up::SocketArgs;
use clap::Args;

/// Which member, and how to print.
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// Print JSON instead of a table: sizes in bytes, names in snake_case.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Where the member is reached.
    #[command(flatten)]
    pub(crate) socket: SocketArgs,
}

/// Whether to ask before something is lost.
#[derive(Debug, Args)]
pub(crate) struct Confirm {
    /// Do not ask.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

/// Whether to wait for long work.
#[derive(Debug, Args)]
pub(crate) struct Follow {
    /// Do not wait until the work is done; it goes on in the background.
    #[arg(long)]
    pub(crate) no_wait: bool,
}
