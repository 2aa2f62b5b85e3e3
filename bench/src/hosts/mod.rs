//! The hosts' side: our initiator and `drystone attach` against the clients of others, on the same
//! target. `drystone-bench hosts`.

mod attached;
mod disk;
mod local;
mod shaped;

use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;

use crate::adapter::{Adapter, Ours, Running, Service, Site};
use crate::cli::{DiskLoadArgs, DiskSessionsArgs, HostsArgs, HostsPart};
use crate::initiator::{Route, Url, prepare};
use crate::machine::{Child, CongestionControl, Pinned, raise_file_limit};
use crate::suite::{Foreign, Scratch};
use disk::{SessionsRun, Work};

pub(crate) use disk::DiskRun;
pub(crate) use local::with_server;

/// Reads of the rows that compare: as others' clients do them.
const IO_BYTES: usize = 4096;
const DEPTH: u32 = 32;

/// Sessions of one process, and what they may take.
const SESSIONS: usize = 4096;
const SESSIONS_SECONDS_MAX: f64 = 10.0;
const SESSIONS_MIB_MAX: f64 = 512.0;

/// What a child may take beyond its work.
const SLACK: Duration = Duration::from_secs(30);

/// One line of the report.
#[derive(Debug)]
struct Line {
    what: String,
    found: String,
    /// Whether the mark is met; `None` for what could not be measured.
    met: Option<bool>,
}

impl Line {
    fn new(what: &str, found: String, met: bool) -> Self {
        Self { what: what.to_owned(), found, met: Some(met) }
    }

    fn missing(what: &str, why: String) -> Self {
        Self { what: what.to_owned(), found: why, met: None }
    }

    fn text(&self) -> String {
        let verdict = match self.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not run",
        };
        format!("{verdict:>8}  {}: {}\n", self.what, self.found)
    }
}

/// `hosts`: runs all rows and says how they came out.
///
/// # Errors
/// The target cannot be started, or a signal came.
pub(crate) fn hosts_command(args: &HostsArgs, stop: &AtomicBool) -> Result<ExitCode> {
    raise_file_limit();
    let scratch = Scratch::new(&args.disks)?;
    let _congestion = CongestionControl::set("cubic");
    let site = Site {
        port: args.port,
        directory: scratch.directory("hosts")?,
        disk_bytes: args.size,
        core: args.target_core,
    };
    let (target, url) = memory_target(&args.drystone, &site, args.client_core, stop)?;
    let bench = Bench { args, url, target, stop, site };
    let mut lines = vec![];
    // fio over NBD is compared with the initiator itself.
    if args.has(HostsPart::Initiator) || args.has(HostsPart::Fio) {
        let direct = bench.against_libiscsi(&mut lines)?;
        if args.has(HostsPart::Fio) {
            local::rows(&bench, direct, &mut lines)?;
        }
    }
    if args.has(HostsPart::Attach) {
        attached::rows(&bench, &mut lines)?;
    }
    if args.has(HostsPart::Sessions) {
        bench.many_sessions(&mut lines)?;
    }
    if args.has(HostsPart::Paths) {
        shaped::rows(&bench, &mut lines)?;
    }
    let met = lines.iter().all(|line| line.met == Some(true));
    crate::say(&lines.iter().map(Line::text).collect::<String>())?;
    Ok(if met || !args.strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `drystone export` of memory, written once from the client's core, and where it is.
///
/// # Errors
/// It is not there, does not start, or does not take what is written.
pub(crate) fn memory_target(
    drystone: &Path,
    site: &Site,
    client_core: usize,
    stop: &AtomicBool,
) -> Result<(Box<dyn Running>, Url)> {
    let ours = Ours::all(drystone).into_iter().find(|ours| ours.name() == "ours-ram");
    let ours = ours.context("there is no target of memory")?;
    if let Some(reason) = ours.missing() {
        bail!(reason);
    }
    let target = ours.start(site, stop)?;
    let Service::Iscsi(url) = target.service() else { bail!("it serves no iSCSI") };
    let _pinned = Pinned::to_core(client_core)?;
    prepare(&Route { url: url.clone(), congestion: None }, site.disk_bytes, stop)?;
    Ok((target, url))
}

/// What all rows share.
struct Bench<'a> {
    args: &'a HostsArgs,
    url: Url,
    target: Box<dyn Running>,
    stop: &'a AtomicBool,
    site: Site,
}

impl Bench<'_> {
    /// Our initiator and iscsi-perf, in turn; the best of each, for others' work only ever slows one.
    fn against_libiscsi(&self, lines: &mut Vec<Line>) -> Result<f64> {
        let mut ours: Vec<DiskRun> = Vec::new();
        let mut theirs = Vec::new();
        let foreign = Foreign::IscsiPerfRead;
        for _ in 0..self.args.rounds {
            ours.push(self.disk_load(&[self.url.to_string()], IO_BYTES, DEPTH, None)?);
            if foreign.missing().is_none() {
                let (core, seconds) = (self.args.client_core, self.args.seconds);
                theirs.push(foreign.run(&self.url, self.target.pid(), core, seconds, self.stop)?);
            }
        }
        let direct = ours.iter().map(|run| run.iops).fold(0.0, f64::max);
        let cpu = ours.iter().map(|run| run.cpu_us_per_io).fold(f64::MAX, f64::min);
        let (what_cpu, what_rate) = (
            "4 KiB random reads at depth 32: at most 0.6 of the CPU of libiscsi",
            "4 KiB random reads at depth 32: one core drives at least twice the IOPS of libiscsi",
        );
        if let Some(reason) = foreign.missing() {
            lines.push(Line::missing(what_cpu, reason));
            return Ok(direct);
        }
        let their_cpu = theirs.iter().map(|run| run.client_cpu_us_per_io).fold(f64::MAX, f64::min);
        let their_iops = theirs.iter().map(|run| run.iops).fold(0.0, f64::max);
        let ratio = cpu / their_cpu;
        let found = format!("{ratio:.2} ({cpu:.2} us against {their_cpu:.2} us)");
        lines.push(Line::new(what_cpu, found, ratio <= 0.6));
        let ratio = direct / their_iops;
        let full = ours.iter().map(|run| run.core).fold(0.0, f64::max);
        let found = format!(
            "{ratio:.2} times ({direct:.0} against {their_iops:.0}; our core {:.0} % full)",
            full * 100.0
        );
        // Where the target is the limit, the client's core has room.
        lines.push(Line::new(what_rate, found, ratio >= 2.0 || full < 0.9));
        Ok(direct)
    }

    fn many_sessions(&self, lines: &mut Vec<Line>) -> Result<()> {
        let mut command = own("disk-sessions");
        command.args([&self.url.to_string(), "--sessions", &SESSIONS.to_string()]);
        let run: SessionsRun = answer_of(command, Duration::from_secs(60), self.stop)?;
        let found =
            format!("{} in {:.1} s with {:.0} MiB", run.sessions, run.seconds, run.memory_mib);
        let met = run.sessions == SESSIONS
            && run.seconds <= SESSIONS_SECONDS_MAX
            && run.memory_mib <= SESSIONS_MIB_MAX;
        lines.push(Line::new(
            "4,096 sessions from one process: within 10 s and 512 MiB",
            found,
            met,
        ));
        Ok(())
    }

    /// Our initiator in a process of its own, over one session for each URL, perhaps in a network
    /// namespace.
    fn disk_load(
        &self,
        urls: &[String],
        io_bytes: usize,
        depth: u32,
        namespace: Option<&str>,
    ) -> Result<DiskRun> {
        let mut command = match namespace {
            None => own("disk-load"),
            Some(namespace) => {
                let own = std::env::current_exe().context("our own program")?;
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(own).arg("disk-load");
                command
            }
        };
        command.args(urls);
        command.args(["--bs", &io_bytes.to_string(), "--depth", &depth.to_string()]);
        command.args(["--seconds", &self.args.seconds.to_string()]);
        command.args(["--core", &self.args.client_core.to_string()]);
        answer_of(command, Duration::from_secs_f64(self.args.seconds), self.stop)
    }
}

/// This program again, as a child.
pub(crate) fn own(subcommand: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_default());
    command.arg(subcommand);
    command
}

/// The JSON that a child prints.
///
/// # Errors
/// It does not start, or end in time, or well; or that is no such JSON.
pub(crate) fn answer_of<T: DeserializeOwned>(
    mut command: Command,
    work: Duration,
    stop: &AtomicBool,
) -> Result<T> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = Child::start(&mut command, "a client of our own")?;
    let status = child.wait_until(Instant::now() + work * 2 + SLACK, stop)?;
    let mut text = String::new();
    child.take_stdout().context("no output")?.read_to_string(&mut text)?;
    ensure!(status.success(), "{command:?} failed: {status}");
    serde_json::from_str(&text).with_context(|| format!("{command:?} printed {text:?}"))
}

/// `disk-load`: the child of the rows above.
///
/// # Errors
/// Whatever goes wrong with the disk.
pub(crate) fn disk_load_command(args: &DiskLoadArgs) -> Result<ExitCode> {
    let work = Work {
        io_bytes: usize::try_from(args.bs)?,
        depth: args.depth,
        warmup: Duration::from_millis(500),
        measure: Duration::from_secs_f64(args.seconds),
    };
    let run = disk::read(&args.urls, work, args.core)?;
    crate::say(&format!("{}\n", serde_json::to_string(&run)?))?;
    Ok(ExitCode::SUCCESS)
}

/// `disk-sessions`: likewise.
///
/// # Errors
/// A session that cannot be opened.
pub(crate) fn disk_sessions_command(args: &DiskSessionsArgs) -> Result<ExitCode> {
    let run = disk::open_sessions(&args.url, args.sessions)?;
    crate::say(&format!("{}\n", serde_json::to_string(&run)?))?;
    Ok(ExitCode::SUCCESS)
}
