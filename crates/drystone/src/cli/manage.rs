//! What all commands to a running member have in common.

use crate::cli::up::SocketArgs;
use api::client::{Fingerprint, ServerUrl};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Which member, and how to print.
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// Print JSON instead of a table: sizes in bytes, names in snake_case.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Have this member of the group do it, and show what that one has alone.
    ///
    /// Any command may be given to any member: the one that is asked carries it on. Without this option volumes,
    /// snapshots and schedules are found wherever they are, and lists are those of the whole group.
    #[arg(long = "on", value_name = "MEMBER", global = true, help_heading = "Another machine")]
    pub(crate) on_member: Option<String>,

    /// Where the member is reached.
    #[command(flatten)]
    pub(crate) socket: SocketArgs,

    /// Or where it is managed from afar.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// How a member on another machine is reached.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The member on another machine: where it listens with --api-listen, or the address of the group.
    ///
    /// Its certificate is checked: by what this system trusts, by --ca-file or by --fingerprint. The
    /// environment variable DRYSTONE_SERVER stands in for this option.
    #[arg(long, value_name = "https://HOST:PORT", global = true, help_heading = "Another machine")]
    pub(crate) server: Option<ServerUrl>,

    /// A file of mode 600 that holds the token to log in with; 'drystone token create' makes one.
    ///
    /// With - it comes on standard input. The environment variable DRYSTONE_TOKEN_FILE stands in for this
    /// option.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, global = true)]
    #[arg(help_heading = "Another machine")]
    pub(crate) token_file: Option<PathBuf>,

    /// Trust the certificates in this file (PEM): authorities, or the certificate of the member itself. That of a group
    /// at its address is printed by 'drystone group certificate'.
    ///
    /// The environment variable DRYSTONE_CA_FILE stands in for this option.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, global = true)]
    #[arg(help_heading = "Another machine", conflicts_with = "fingerprint")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Trust the certificate with this SHA-256 and no other; 'drystone member show' tells it.
    ///
    /// The environment variable DRYSTONE_FINGERPRINT stands in for this option.
    #[arg(long, value_name = "SHA256", global = true, help_heading = "Another machine")]
    pub(crate) fingerprint: Option<Fingerprint>,
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
