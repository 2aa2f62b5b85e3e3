//! `drystone-bench`: measures iSCSI targets side by side. See bench/README.md.

mod adapter;
mod array;
mod cli;
mod group;
mod hosts;
mod initiator;
mod lab;
mod load;
mod machine;
mod nbd;
mod plain;
mod report;
mod suite;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};

use cli::{Cli, Command, LoadArgs, NbdLoadArgs, PlainLoadArgs, PlainServerArgs};
use load::{Edge, LoadReport};
use machine::{Pinned, Sample, sample};

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("drystone-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signal handler")?;
    }
    match command {
        Command::Load(args) if args.idle => suite::idle_command(args, &stop),
        Command::Load(args) => load_command(args, &stop),
        Command::PlainLoad(args) => plain_load_command(args, &stop),
        Command::PlainServer(args) => plain_server_command(args, &stop),
        Command::Compare(args) => suite::compare(args, &stop),
        Command::Hosts(args) => hosts::hosts_command(args, &stop),
        Command::Lab(args) => lab::lab_command(args, &stop),
        Command::Group(args) => group::group_command(args, &stop),
        Command::DiskLoad(args) => hosts::disk_load_command(args),
        Command::DiskSessions(args) => hosts::disk_sessions_command(args),
        Command::NbdLoad(args) => nbd_load_command(args, &stop),
        Command::Array(args) => array::array(args, &stop),
        Command::Marks(args) => report::marks_command(args),
    }
}

fn load_command(args: &LoadArgs, stop: &AtomicBool) -> Result<ExitCode> {
    let _pinned = args.work.core.map(Pinned::to_core).transpose()?;
    let plan = args.work.plan(args.verify)?;
    let mut probe = Probe::new(args.pid);
    let report = initiator::load(&args.route(), &plan, stop, &mut |edge| probe.edge(edge))?;
    finish(&report, &probe, args.work.json)
}

fn plain_load_command(args: &PlainLoadArgs, stop: &AtomicBool) -> Result<ExitCode> {
    let _pinned = args.work.core.map(Pinned::to_core).transpose()?;
    let plan = args.work.plan(false)?;
    let mut probe = Probe::new(args.pid);
    let report = plain::load(args.address, &plan, stop, &mut |edge| probe.edge(edge))?;
    finish(&report, &probe, args.work.json)
}

fn nbd_load_command(args: &NbdLoadArgs, stop: &AtomicBool) -> Result<ExitCode> {
    let _pinned = args.work.core.map(Pinned::to_core).transpose()?;
    let plan = args.work.plan(false)?;
    let mut probe = Probe::new(args.pid);
    let report = nbd::load(&args.socket, &plan, stop, &mut |edge| probe.edge(edge))?;
    finish(&report, &probe, args.work.json)
}

fn plain_server_command(args: &PlainServerArgs, stop: &AtomicBool) -> Result<ExitCode> {
    plain::serve(args.address, usize::try_from(args.size)?, stop, &mut |address| {
        say(&format!("plain loop on {address}\n"))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn finish(report: &LoadReport, probe: &Probe, json: bool) -> Result<ExitCode> {
    let target_cpu_us = probe.used_us().map(|us| us / report.ios.max(1) as f64);
    if json {
        let mut value = serde_json::to_value(report)?;
        value["target_cpu_us_per_io"] = target_cpu_us.into();
        say(&format!("{value}\n"))?;
    } else {
        say(&report.to_text())?;
        if let Some(us) = target_cpu_us {
            say(&format!("target: {us:.3} us per I/O\n"))?;
        }
    }
    Ok(if report.errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes to standard output, the one place where results for people and programs go.
fn say(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("standard output")
}

/// Samples a process at both ends of a measurement.
#[derive(Debug)]
struct Probe {
    pid: Option<u32>,
    start: Option<Sample>,
    end: Option<Sample>,
}

impl Probe {
    fn new(pid: Option<u32>) -> Self {
        Self { pid, start: None, end: None }
    }

    fn edge(&mut self, edge: Edge) {
        let now = self.pid.and_then(|pid| sample(pid).ok());
        match edge {
            Edge::Start => self.start = now,
            Edge::End => self.end = now,
        }
    }

    /// CPU time between the two ends, in microseconds.
    fn used_us(&self) -> Option<f64> {
        let used = self.end?.cpu.checked_sub(self.start?.cpu)?;
        Some(used.as_secs_f64() * 1e6)
    }
}
