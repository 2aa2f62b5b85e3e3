//! The options of `drystone doctor`.

use crate::access::portal;
use crate::cli::serve::PORTAL_DEFAULT;
use crate::cli::up::SocketArgs;
use clap::{Args, ValueHint};
use std::net::SocketAddr;
use std::path::PathBuf;

/// What stands above the options in the long help.
pub(crate) const ABOUT: &str = "\
Look at this machine as the server of a SAN, and say what to do.

Looks at the kernel and io_uring, at limits, the clock, TCP, whether etcd is
there for a group of members, the addresses and interfaces of the portals,
and at all block devices: which hold partitions or file systems, which are
members of an array, and which are free for one. Nothing is changed; disks
are read only where root runs it. A member that runs here is asked whether it
has volumes whose moves an operator has to settle.

Exit status: 0 if nothing stands in the way of a member, 1 if something does.";

/// Examples at the foot of `drystone doctor --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone doctor
  drystone doctor --portal 192.0.2.10:3260 --portal 198.51.100.10:3260
  drystone doctor --config /etc/drystone/member.toml
          The portals of this member
  drystone doctor --json | jq '.[] | select(.severity != \"good\")'";

/// What to look at.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// A portal of the member; may be given more than once.
    #[arg(long = "portal", value_name = "ADDR:PORT", default_value = PORTAL_DEFAULT, value_parser = portal::parse)]
    pub(crate) portals: Vec<SocketAddr>,

    /// The file of a member, whose portals are meant.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with = "portals")]
    pub(crate) config: Option<PathBuf>,

    /// Where a member that runs here is asked.
    #[command(flatten)]
    pub(crate) socket: SocketArgs,

    /// Print JSON instead of lines for people.
    #[arg(long)]
    pub(crate) json: bool,
}
