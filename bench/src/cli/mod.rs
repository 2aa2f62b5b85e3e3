//! The command line.

mod array;
mod group;
mod lab;
mod size;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::initiator::TargetAddress;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use array::ArrayArgs;
pub(crate) use group::{GroupArgs, GroupPart};
pub(crate) use lab::{LabArgs, LabPart};
pub(crate) use size::parse_bytes;

use crate::adapter::External;
use crate::initiator::{Route, Url};
use crate::load::{Order, Plan};

#[cfg(test)]
mod tests;

/// Measures iSCSI targets side by side: what they reach, and what it costs.
#[derive(Debug, Parser)]
#[command(name = "drystone-bench", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Drive one target with the lean client.
    Load(LoadArgs),
    /// Run every target that is found through the same work, interleaved, and write a report.
    Compare(Box<CompareArgs>),
    /// Measure the array: RAID levels against their disks and against btrfs.
    Array(Box<ArrayArgs>),
    /// Measure our initiator and `drystone attach` beside the clients of others.
    Hosts(HostsArgs),
    /// Measure what the lab costs beside the bare initiator and fio.
    Lab(LabArgs),
    /// Measure what a group of three members costs beside a member in none.
    Group(GroupArgs),
    /// Read with our own initiator, over one session for each URL.
    DiskLoad(DiskLoadArgs),
    /// Open many sessions with our own initiator.
    DiskSessions(DiskSessionsArgs),
    /// Drive an NBD server, as that of `drystone attach`, with a lean client.
    NbdLoad(NbdLoadArgs),
    /// Check a report against the marks that the project has set itself.
    Marks(MarksArgs),
    /// Serve the plain request/response loop, the floor of every comparison.
    PlainServer(PlainServerArgs),
    /// Drive a plain server.
    PlainLoad(PlainLoadArgs),
}

/// The shape of the work.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Share of reads in percent; the rest are writes
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    read: u8,
    /// Bytes per I/O
    #[arg(long, default_value = "4k", value_parser = parse_bytes)]
    bs: u64,
    /// I/Os that each session keeps in flight
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// Sessions
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: u32,
    /// Seconds that count
    #[arg(long, default_value_t = 5.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Seconds before anything counts
    #[arg(long, default_value_t = 0.5, value_parser = parse_seconds)]
    warmup: f64,
    /// How addresses follow each other
    #[arg(long, value_enum, default_value_t = Order::Random)]
    order: Order,
    /// Use only this much of the disk, from its start
    #[arg(long, default_value = "1g", value_parser = parse_bytes)]
    area: u64,
    /// Core to run on; the system chooses without
    #[arg(long)]
    pub(crate) core: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl WorkArgs {
    /// The plan that these arguments ask for.
    pub(crate) fn plan(&self, verify: bool) -> anyhow::Result<Plan> {
        let io_bytes = u32::try_from(self.bs).ok().filter(|&bytes| bytes > 0 && bytes <= 16 << 20);
        Ok(Plan {
            read_percent: self.read,
            order: self.order,
            io_bytes: io_bytes.ok_or_else(|| anyhow::anyhow!("--bs: 512 bytes to 16 MiB"))?,
            depth: self.depth,
            sessions: self.sessions,
            warmup: Duration::from_secs_f64(self.warmup),
            measure: Duration::from_secs_f64(self.seconds),
            area_bytes: self.area,
            verify,
            ios_max: None,
        })
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  drystone-bench load iscsi://127.0.0.1:3260/iqn.2026-11.dev.drystone:export/0
  drystone-bench load URL --read 67 --bs 8k --depth 32 --seconds 10 --json
  drystone-bench load URL --read 50 --verify --area 64m
  drystone-bench load URL --idle --sessions 1000 --pid 4711")]
pub(crate) struct LoadArgs {
    /// iscsi://HOST:PORT/IQN/LUN
    pub(crate) url: Url,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// Write the area first (this destroys what is there), then check the data of every read
    #[arg(long)]
    pub(crate) verify: bool,
    /// Congestion control of the client's sockets, for example cubic
    #[arg(long)]
    congestion: Option<String>,
    /// Log the sessions in and hold them idle
    #[arg(long)]
    pub(crate) idle: bool,
    /// Process of the target, whose CPU and memory are then reported too
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

impl LoadArgs {
    /// Where to go.
    pub(crate) fn route(&self) -> Route {
        Route { url: self.url.clone(), congestion: self.congestion.clone() }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  drystone-bench compare
  drystone-bench compare --quick --targets plain,ours-ram,tgt
  drystone-bench compare --external spdk=iscsi://127.0.0.1:3270/iqn.2016-06.io.spdk:d/0,pid=4711")]
pub(crate) struct CompareArgs {
    /// One short round (about a sixth of the time)
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds; each runs every target once per row
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) rounds: Option<u32>,
    /// Seconds that count in each run
    #[arg(long, value_parser = parse_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Only these targets, by the names of the report
    #[arg(long, value_delimiter = ',')]
    pub(crate) targets: Vec<String>,
    /// Only rows whose name holds one of these
    #[arg(long, value_delimiter = ',')]
    pub(crate) rows: Vec<String>,
    /// The drystone binary
    #[arg(long, default_value = "target/release/drystone")]
    pub(crate) drystone: PathBuf,
    /// Size of each disk [default: 1g, 256m with --quick]
    #[arg(long, value_parser = parse_bytes)]
    pub(crate) size: Option<u64>,
    /// Where disks are made: a tmpfs
    #[arg(long, default_value = "/dev/shm")]
    pub(crate) disks: PathBuf,
    /// Core of the targets
    #[arg(long, default_value_t = 0)]
    pub(crate) target_core: usize,
    /// Core of the clients
    #[arg(long, default_value_t = 1)]
    pub(crate) client_core: usize,
    /// First of the TCP ports to use
    #[arg(long, default_value_t = 13_260)]
    pub(crate) port: u16,
    /// A target that already runs: NAME=iscsi://HOST:PORT/IQN/LUN,pid=N (its disk is overwritten)
    #[arg(long)]
    pub(crate) external: Vec<External>,
    /// Where the report goes
    #[arg(long, default_value = "target/bench-results")]
    pub(crate) out: PathBuf,
    /// Fail when a mark is missed
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  drystone-bench hosts
  drystone-bench hosts --rounds 1 --seconds 1
  drystone-bench hosts --parts attach")]
pub(crate) struct HostsArgs {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) parts: Vec<HostsPart>,
    /// Rounds; of each figure the best counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) rounds: u32,
    /// Seconds that count in each run
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// The drystone binary
    #[arg(long, default_value = "target/release/drystone")]
    pub(crate) drystone: PathBuf,
    /// Size of the disk
    #[arg(long, default_value = "256m", value_parser = parse_bytes)]
    pub(crate) size: u64,
    /// Where files are made: a tmpfs
    #[arg(long, default_value = "/dev/shm")]
    pub(crate) disks: PathBuf,
    /// Core of the target
    #[arg(long, default_value_t = 0)]
    pub(crate) target_core: usize,
    /// Core of the clients
    #[arg(long, default_value_t = 1)]
    pub(crate) client_core: usize,
    /// TCP port to use
    #[arg(long, default_value_t = 13_290)]
    pub(crate) port: u16,
    /// Fail when a mark is missed
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What `hosts` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostsPart {
    /// CPU and IOPS of the initiator, against libiscsi.
    Initiator,
    /// CPU of `drystone attach` for each read of its NBD clients.
    Attach,
    /// fio over NBD, against qemu-nbd.
    Fio,
    /// Many sessions of one process.
    Sessions,
    /// Two networks, against one.
    Paths,
}

impl HostsArgs {
    /// Whether the part is asked for.
    pub(crate) fn has(&self, part: HostsPart) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

#[derive(Debug, Args)]
pub(crate) struct DiskLoadArgs {
    /// iscsi://HOST:PORT/IQN/LUN, all of the same unit
    #[arg(required = true)]
    pub(crate) urls: Vec<TargetAddress>,
    /// Bytes per read
    #[arg(long, default_value = "4k", value_parser = parse_bytes)]
    pub(crate) bs: u64,
    /// Reads in flight
    #[arg(long, default_value_t = 32)]
    pub(crate) depth: u32,
    /// Seconds that count
    #[arg(long, default_value_t = 5.0, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Core to run on; the system chooses without
    #[arg(long)]
    pub(crate) core: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct DiskSessionsArgs {
    /// iscsi://HOST:PORT/IQN/LUN
    pub(crate) url: TargetAddress,
    /// How many
    #[arg(long, default_value_t = 4096)]
    pub(crate) sessions: usize,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  drystone-bench nbd-load /run/a.sock --sessions 4 --pid 4711
          Four connections; what the process 4711 uses is reported too")]
pub(crate) struct NbdLoadArgs {
    /// The Unix socket
    pub(crate) socket: PathBuf,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// Process of the server, whose CPU is then reported too
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct MarksArgs {
    /// The report
    #[arg(default_value = "target/bench-results/latest.json")]
    pub(crate) report: PathBuf,
    /// Fail when a mark is missed
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PlainServerArgs {
    /// Address to serve
    #[arg(long, default_value = "127.0.0.1:13259")]
    pub(crate) address: SocketAddr,
    /// Memory that answers come from
    #[arg(long, default_value = "1g", value_parser = parse_bytes)]
    pub(crate) size: u64,
}

#[derive(Debug, Args)]
pub(crate) struct PlainLoadArgs {
    /// Address of the server
    #[arg(default_value = "127.0.0.1:13259")]
    pub(crate) address: SocketAddr,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// Process of the server, whose CPU is then reported too
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds".to_owned())?;
    if (0.0..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("0 to 3600 seconds".into()) }
}
