//! The options of `drystone lab`.

use clap::{Args, Subcommand, ValueHint};
use initiator::paths::Policy;
use lab::experiment::Name;
use lab::measure::{MetricsError, MetricsUrl};
use lab::volume::Address;
use lab::workload::fio;
use std::path::PathBuf;
use std::time::Duration;

use crate::access::secret::Login;
use crate::access::{name, secret};
use crate::cli::number;

/// What stands above the options of `lab run` in the long help.
pub(crate) const RUN_ABOUT: &str = "\
Run a workload, check every byte, and report.

FILE is a parameter file of Vdbench: sd= says what is worked on, wd= how, rd=
how long and how fast. With --on the storage of the file is put on the targets
named there, in turn; several sd= on one target divide it, and the only sd= of a
file is repeated for each target. Words that are not understood are errors that
name their line; docs/lab.md lists those that are.

Every block that is written carries its address, a sequence number and a key,
and every read is compared with what was written last. A workload that writes
destroys what is on its targets: it needs --overwrite, except for memory.

It prints a line for each interval, and a table at the end. Results are kept in
the directory of --report after each step: results.json, flatfile.csv and
report.html.";

/// Examples at the foot of `drystone lab --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone lab run oltp.vd --on iscsi://192.0.2.10/iqn.2026-11.com.example:a \\
          --overwrite --report results/oltp
  drystone lab fio --on ram:1G -- --rw=randread --bs=4k --iodepth=32 \\
          --runtime=5 --time_based
  drystone lab compare results/monday results/friday";

/// Examples at the foot of `drystone lab run --help`.
pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  drystone lab run oltp.vd --on iscsi://192.0.2.10/iqn.2026-11.com.example:a \\
          --overwrite --report results/oltp
          One volume, over as many paths as it has
  drystone lab run 34-volumes.vd --on 'iscsi://192.0.2.10/*:vol-*' --overwrite
          All targets of a portal whose names fit
  drystone lab run oltp.vd --on /srv/disk.img --overwrite --validate-after \\
          --journal oltp.journal
          A file; all that was written is read again at the end
  drystone lab run reads.vd --on /srv/disk.img --journal oltp.journal --validate
          After a crash: is all that was written before still there?
  drystone lab run sweep.vd --on ram:1G --report results/sweep --resume
          Go on where it was killed

Exit status:
  0  all steps were run, no I/O failed, no data was wrong
  1  it could not start, or not all of that is so; results are kept
  2  the command line or FILE does not read; stderr says what to write";

/// What stands above the options of `lab fio` in the long help.
pub(crate) const FIO_ABOUT: &str = "\
Run the command line of a fio job, check every byte, and report.

Behind -- stand options of fio for one job, with one dash or two. --filename
says what is worked on, unless --on does. The options that are understood are
listed below; all others are errors.";

/// What stands at the foot of `drystone lab fio --help`.
fn fio_foot() -> String {
    format!("Options of fio behind --, [default]:\n{}\n{FIO_EXAMPLES}", fio::list_text())
}

/// Examples there.
const FIO_EXAMPLES: &str = "\
Examples:
  drystone lab fio -- --rw=randread --bs=64k --numjobs=4 --iodepth=8 \\
          --runtime=30 --time_based --filename=/dev/sdb
  drystone lab fio --on iscsi://192.0.2.10/iqn.2026-11.com.example:a \\
          --overwrite -- --rw=randwrite --bs=4k --iodepth=32 --size=1g";

/// Examples at the foot of `drystone lab compare --help`.
pub(crate) const COMPARE_EXAMPLES: &str = "\
Examples:
  drystone lab compare results/before results/after
  drystone lab compare results/before results/after --json |
          jq '.comparisons[] | select(.verdict == \"worse\")'

Exit status:
  0  compared, whatever was found; troubles of either run are in what is printed
  1  the runs do not read, or have no step of the same name
  2  the command line does not read";

/// What stands above the options of `lab experiment` in the long help.
pub(crate) const EXPERIMENT_ABOUT: &str = "\
Ask this machine what the papers asked theirs.

paths              one volume over two paths of 1 Gbit/s, policies side by side
switch-failure     a verified load of 1000 IOPS over two such paths, of which
                   one is cut and comes back, four times
sessions-per-core  1, 3 and 16 sessions on one and on two cores of the target
native-vs-iscsi    the same file directly and through iSCSI
raid-levels        RAID 0, 1, 10, 5 and 6 on ten simulated drives, and RAID 10
                   on 6 to 45, against 1 to 45 clients; takes half an hour,
                   and keeps volumes of 1.4 GiB in memory, RAID 10 twice
sessions           the same load over 45, 510, 1020, 2048 and 4096 sessions to
                   45 volumes of 64 MiB in memory

Each starts targets of its own, and leaves a report that puts what the paper
found beside what was found here. paths and switch-failure make two network
namespaces and remove them again: they need root, and the programs ip and tc.";

/// Examples at the foot of `drystone lab experiment --help`.
pub(crate) const EXPERIMENT_EXAMPLES: &str = "\
Examples:
  drystone lab experiment switch-failure --report results/switch
  drystone lab experiment paths --seconds 60 --report results/paths
  drystone lab experiment raid-levels --quick --report results/levels

Exit status:
  0  it was run, and what should be so is so
  1  it could not be run, or a bar was missed; the report is kept
  2  the command line does not read";

/// Measure a SAN, check every byte, explain the result.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct LabArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) what: LabCommand,
}

/// What the lab does.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run a workload, check every byte, and report.
    #[command(long_about = RUN_ABOUT, after_long_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),

    /// Run the command line of a fio job.
    #[command(long_about = FIO_ABOUT, after_long_help = fio_foot())]
    Fio(Box<FioArgs>),

    /// Ask this machine what the papers asked theirs.
    #[command(long_about = EXPERIMENT_ABOUT, after_long_help = EXPERIMENT_EXAMPLES)]
    Experiment(ExperimentArgs),

    /// Put two runs side by side; tell which differences exceed the noise.
    #[command(after_long_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
}

/// Run a workload.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A parameter file of Vdbench.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,

    /// Leave out steps that the results in the directory of --report have already.
    #[arg(long, requires = "report")]
    pub(crate) resume: bool,

    /// How it is run.
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Run a fio job.
#[derive(Debug, Args)]
pub(crate) struct FioArgs {
    /// How it is run.
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// Options of fio, behind --.
    #[arg(value_name = "FIO-OPTION", last = true, required = true, allow_hyphen_values = true)]
    pub(crate) options: Vec<String>,
}

/// What `run` and `fio` have in common.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommonArgs {
    /// What to work on; repeat it. iscsi://HOST[:PORT]/IQN[/LUN], iscsi://HOST/PATTERN with * for all
    /// targets of a portal that fit, nbd://HOST[:PORT][/EXPORT], nbd+unix:///[EXPORT]?socket=PATH, a file, a
    /// block device, ram:SIZE, null:SIZE or sim:DRIVE:SIZE.
    #[arg(long, value_name = "TARGET", value_parser = address)]
    pub(crate) on: Vec<Address>,

    /// Write to targets, whose data is lost.
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Keep results in this directory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) report: Option<PathBuf>,

    /// Print the results as JSON, and the live table to stderr.
    #[arg(long)]
    pub(crate) json: bool,

    /// A volume that finishes nothing for so long stands still.
    #[arg(long, value_name = "MS", default_value = "500", value_parser = number::milliseconds)]
    pub(crate) stall: Duration,

    /// The process of the target on this machine, for its CPU time per I/O.
    #[arg(long, value_name = "PID")]
    pub(crate) target_pid: Option<u32>,

    /// The same of a target on another machine: where it, or an exporter beside it, tells
    /// process_cpu_seconds_total in the text format of Prometheus, as http://HOST[:PORT][/PATH].
    #[arg(long, value_name = "URL", conflicts_with = "target_pid", value_parser = metrics)]
    pub(crate) target_metrics: Option<MetricsUrl>,

    /// Neither stamp what is written nor check what is read.
    #[arg(long, conflicts_with_all = ["validate", "validate_after", "journal"], help_heading = "Validation")]
    pub(crate) no_validation: bool,

    /// Before the first step read all that the journal knows of, and compare it.
    #[arg(long, requires = "journal", help_heading = "Validation")]
    pub(crate) validate: bool,

    /// After the last step read all that was written, and compare it.
    #[arg(long, help_heading = "Validation")]
    pub(crate) validate_after: bool,

    /// Keep what was written in this file, for a later --validate.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Validation")]
    pub(crate) journal: Option<PathBuf>,

    /// So many wrong blocks end the run.
    #[arg(long, value_name = "N", default_value = "50", value_parser = number::blocks)]
    #[arg(help_heading = "Validation")]
    pub(crate) wrong_blocks: u64,

    /// How to choose among paths: failover, round-robin[:COMMANDS], least-queue-depth, service-time or
    /// routed.
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "least-queue-depth",
        help_heading = "Paths"
    )]
    pub(crate) policy: Policy,

    /// Sessions of each volume, or connections of an NBD export [default: as drystone attach plans them; 1].
    #[arg(long, value_name = "N", value_parser = number::sessions, help_heading = "Paths")]
    pub(crate) sessions: Option<u16>,

    /// How long I/O waits while no path works; then it fails.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = number::seconds)]
    #[arg(help_heading = "Paths")]
    pub(crate) path_timeout: Duration,

    /// The name to log in as [default: that of drystone attach].
    #[arg(long, value_name = "IQN", value_parser = name::parse, help_heading = "Access")]
    pub(crate) initiator: Option<String>,

    /// Log in by CHAP as this user; better --chap-file or the environment variable DRYSTONE_CHAP.
    #[arg(long, value_name = "USER:SECRET", value_parser = secret::parse, conflicts_with = "chap_file")]
    #[arg(help_heading = "Access")]
    pub(crate) chap: Option<Login>,

    /// Like --chap, read from a file.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Access")]
    pub(crate) chap_file: Option<PathBuf>,
}

/// Ask this machine what the papers asked theirs.
#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// Which one: paths, switch-failure, sessions-per-core, native-vs-iscsi, raid-levels or sessions.
    #[arg(value_name = "NAME", value_parser = experiment)]
    pub(crate) name: Name,

    /// Keep results, files and logs in this directory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) report: PathBuf,

    /// How long each measurement takes; for switch-failure, how long a path is away, and back: below 4
    /// seconds a cut may be over before it is noticed, and the bar is missed [default: 10, or 1 with --quick].
    #[arg(long, value_name = "SECONDS", value_parser = number::seconds)]
    pub(crate) seconds: Option<Duration>,

    /// See whether it works: measure for a second, and leave most cases of raid-levels and sessions out.
    #[arg(long)]
    pub(crate) quick: bool,
}

impl ExperimentArgs {
    /// How long each measurement takes.
    pub(crate) fn time(&self) -> Duration {
        let usual = if self.quick { 1 } else { 10 };
        self.seconds.unwrap_or(Duration::from_secs(usual))
    }
}

/// Put two runs side by side.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The directory of the first run, or its results.json.
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub(crate) a: PathBuf,

    /// The directory of the second run, or its results.json.
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub(crate) b: PathBuf,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

fn address(text: &str) -> Result<Address, String> {
    text.parse().map_err(|error: lab::volume::AddressError| error.to_string())
}

fn metrics(text: &str) -> Result<MetricsUrl, String> {
    text.parse().map_err(|error: MetricsError| error.to_string())
}

fn experiment(text: &str) -> Result<Name, String> {
    Name::from_word(text).ok_or_else(|| {
        let known = Name::ALL.map(Name::word).join(", ");
        format!("there is no experiment '{text}': write one of {known}")
    })
}
