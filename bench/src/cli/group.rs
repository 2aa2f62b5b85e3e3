//! The options of `group`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  drystone-bench group
  drystone-bench group --quick
  drystone-bench group --parts login,list --volumes 300 --scratch /mnt/ssd")]
pub(crate) struct GroupArgs {
    /// 150 volumes, 20 repetitions, less of the rest (about a third of the time)
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) parts: Vec<GroupPart>,
    /// Volumes of the whole group, and of the member in none [default: 1000, 150 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(150..=1000))]
    pub(crate) volumes: Option<u32>,
    /// How often each request and each login is repeated [default: 100, 20 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..=200))]
    pub(crate) rounds: Option<u32>,
    /// The drystone binary
    #[arg(long, default_value = "target/release/drystone")]
    pub(crate) drystone: PathBuf,
    /// Where disks are made, and all that members and their etcds keep: on a real disk
    #[arg(long, default_value = "target")]
    pub(crate) scratch: PathBuf,
    /// Core of all servers while hosts read; else the system chooses
    #[arg(long, default_value_t = 0)]
    pub(crate) server_core: usize,
    /// Core of the client while hosts read
    #[arg(long, default_value_t = 1)]
    pub(crate) client_core: usize,
    /// TCP port of all portals, at 127.0.0.1 to 127.0.0.4; members have four more from 10 above it
    #[arg(long, default_value_t = 13_460)]
    #[arg(value_parser = clap::value_parser!(u16).range(1024..=65_000))]
    pub(crate) port: u16,
    /// Where the report goes
    #[arg(long, default_value = "target/bench-results")]
    pub(crate) out: PathBuf,
    /// Fail when a mark is missed
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What `group` measures, in this order: what comes first has few volumes, what comes last has all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupPart {
    /// Volumes that are made here, on another member, and in no group.
    Create,
    /// Changes of a policy, and when another member has them.
    Policy,
    /// Logins of a host, with and without a redirection.
    Login,
    /// Reads of a volume.
    Reads,
    /// The list of all volumes.
    List,
    /// One volume, asked of its member and of another one.
    Show,
    /// Processor time with nobody asking.
    Rest,
    /// Starts of a member.
    Start,
    /// Reads of a volume that lies on two members.
    Spread,
}

impl GroupArgs {
    /// Whether the part is asked for.
    pub(crate) fn has(&self, part: GroupPart) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}
