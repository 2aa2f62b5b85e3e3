//! The options of `lab`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{parse_bytes, parse_seconds};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  drystone-bench lab
  drystone-bench lab --parts iscsi --rounds 9
  drystone-bench lab --json | jq '.[] | {part, client, us_per_read}'")]
pub(crate) struct LabArgs {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) parts: Vec<LabPart>,
    /// Rounds; each runs every client of a part once, and of each figure the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub(crate) rounds: u32,
    /// Seconds that count in each run
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// The drystone binary
    #[arg(long, default_value = "target/release/drystone")]
    pub(crate) drystone: PathBuf,
    /// Size of the disks
    #[arg(long, default_value = "256m", value_parser = parse_bytes)]
    pub(crate) size: u64,
    /// Where the sockets and files of servers are made: a tmpfs
    #[arg(long, default_value = "/dev/shm")]
    pub(crate) disks: PathBuf,
    /// Where the file is made that is read from the page cache
    #[arg(long, default_value = "target")]
    pub(crate) scratch: PathBuf,
    /// Core of the targets
    #[arg(long, default_value_t = 0)]
    pub(crate) target_core: usize,
    /// Core of the clients
    #[arg(long, default_value_t = 1)]
    pub(crate) client_core: usize,
    /// TCP port to use
    #[arg(long, default_value_t = 13_295)]
    pub(crate) port: u16,
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// Fail when a mark is missed
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What `lab` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LabPart {
    /// Over iSCSI, beside the bare initiator of `disk-load`.
    Iscsi,
    /// A file in the page cache, beside fio with io_uring.
    File,
    /// An export of qemu-nbd, beside fio's engine for NBD.
    Nbd,
}

impl LabArgs {
    /// Whether the part is asked for.
    pub(crate) fn has(&self, part: LabPart) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}
