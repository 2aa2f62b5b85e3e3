//! The options of `array`.

use std::path::PathBuf;

use clap::Args;

use super::parse_seconds;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  drystone-bench array
  drystone-bench array --quick --parts memory,rebuild
  drystone-bench array --parts cache --before ~/old/drystone
          Reads that miss, beside those of an older drystone
  drystone-bench array --parts writes --long
          Ten minutes of writes to each RAID level")]
pub(crate) struct ArrayArgs {
    /// One short round, with smaller volumes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these parts: memory, sequential, durable, writes, rebuild, btrfs, cache
    #[arg(long, value_delimiter = ',')]
    pub(crate) parts: Vec<String>,
    /// Rounds; each runs every entrant of a part once
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) rounds: Option<u32>,
    /// Seconds that count in each run
    #[arg(long, value_parser = parse_seconds)]
    pub(crate) seconds: Option<f64>,
    /// The drystone binary
    #[arg(long, default_value = "target/release/drystone")]
    pub(crate) drystone: PathBuf,
    /// Let each level of the part `writes` run once, for 600 seconds
    #[arg(long)]
    pub(crate) long: bool,
    /// An older drystone binary: the part `cache` compares reads that miss with its reads
    #[arg(long)]
    pub(crate) before: Option<PathBuf>,
    /// Where disks in memory are made: a tmpfs
    #[arg(long, default_value = "/dev/shm")]
    pub(crate) disks: PathBuf,
    /// Where files are made whose writes are durable: on a real disk
    #[arg(long, default_value = "target")]
    pub(crate) scratch: PathBuf,
    /// Core of the servers
    #[arg(long, default_value_t = 0)]
    pub(crate) server_core: usize,
    /// Core of the client
    #[arg(long, default_value_t = 1)]
    pub(crate) client_core: usize,
    /// First of the TCP ports to use
    #[arg(long, default_value_t = 13_360)]
    pub(crate) port: u16,
    /// Where the report goes
    #[arg(long, default_value = "target/bench-results")]
    pub(crate) out: PathBuf,
    /// Fail when a mark is missed
    #[arg(long)]
    pub(crate) strict: bool,
}
