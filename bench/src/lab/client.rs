//! Who reads, and what a run of it says of itself.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use super::Bench;
use crate::hosts::{DiskRun, answer_of, own};
use crate::machine::{Child, Pinned};

/// What a child may take beyond its work: it also fills disks.
const SLACK: Duration = Duration::from_secs(60);
/// The lab's and fio's reads alike.
const JOB: [&str; 4] = ["--rw=randread", "--bs=4k", "--iodepth=32", "--time_based"];
/// Before anything counts.
const WARMUP: &str = "--ramp_time=0.5";

/// A program.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// The initiator as a library, in a loop: `drystone-bench disk-load`.
    Bare,
    /// The engine of this program with its own iSCSI: `drystone-bench load`.
    Lean,
    /// `drystone lab fio --no-validation`.
    Lab,
    /// `drystone lab fio`, which compares all that it reads with what its journal knows.
    Validating(PathBuf),
    /// fio with this engine.
    Fio(&'static str),
}

/// A program on what it reads. The first of a part is what the others are compared with.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) kind: Kind,
    /// A URL or a path; for fio the option that names it.
    on: String,
    /// So much of the I/Os per core of the first client it must reach.
    pub(super) mark: Option<f64>,
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Run {
    pub(super) iops: f64,
    /// User and system time for each read.
    pub(super) us_per_read: f64,
}

impl Client {
    pub(super) fn new(kind: Kind, on: String, mark: Option<f64>) -> Self {
        Self { kind, on, mark }
    }

    /// For tables.
    pub(super) fn name(&self) -> String {
        match self.kind {
            Kind::Bare => "drystone-bench disk-load".to_owned(),
            Kind::Lean => "drystone-bench load".to_owned(),
            Kind::Lab => "drystone lab, unvalidated".to_owned(),
            Kind::Validating(_) => "drystone lab, validated".to_owned(),
            Kind::Fio(engine) => format!("fio, {engine}"),
        }
    }

    pub(super) fn run(&self, bench: &Bench<'_>) -> Result<Run> {
        let run = match &self.kind {
            Kind::Bare => self.bare(bench),
            Kind::Lean => self.lean(bench),
            Kind::Lab => self.lab(bench, None),
            Kind::Validating(journal) => self.lab(bench, Some(journal)),
            Kind::Fio(engine) => self.fio(bench, engine),
        };
        run.with_context(|| self.name())
    }

    fn bare(&self, bench: &Bench<'_>) -> Result<Run> {
        let mut command = own("disk-load");
        let (seconds, core) = (bench.args.seconds.to_string(), bench.args.client_core.to_string());
        command.args([&self.on, "--seconds", &seconds, "--core", &core]);
        let limit = Duration::from_secs_f64(bench.args.seconds) + SLACK;
        let run: DiskRun = answer_of(command, limit, bench.stop)?;
        Ok(Run { iops: run.iops, us_per_read: run.cpu_us_per_io })
    }

    fn lean(&self, bench: &Bench<'_>) -> Result<Run> {
        let mut command = own("load");
        command.args([&self.on, "--json", "--seconds", &bench.args.seconds.to_string()]);
        let found = bench.finish(command)?;
        let run = of_lean(&found);
        run.with_context(|| format!("it printed {found}"))
    }

    fn lab(&self, bench: &Bench<'_>, journal: Option<&PathBuf>) -> Result<Run> {
        let mut command = bench.lab(&self.on);
        match journal {
            Some(journal) => command.arg("--journal").arg(journal),
            None => command.arg("--no-validation"),
        };
        command.arg("--").args(JOB).arg(WARMUP);
        command.arg(format!("--runtime={}", bench.args.seconds));
        let found = bench.finish(command)?;
        let run = of_lab(&found, journal.is_some());
        run.with_context(|| format!("the lab wrote {found}"))
    }

    fn fio(&self, bench: &Bench<'_>, engine: &str) -> Result<Run> {
        let mut command = Command::new("fio");
        // An engine's own options are known behind its name only.
        command.args(["--name=read", &format!("--ioengine={engine}"), &self.on]);
        command.args(JOB).args([WARMUP, "--output-format=json"]);
        // As the lab: places are drawn without a map, and what is in the page cache stays there.
        command.args(["--norandommap", "--invalidate=0"]);
        command.arg(format!("--size={}", bench.args.size));
        // It takes no parts of a second.
        command.arg(format!("--runtime={}", bench.args.seconds.ceil()));
        let found = bench.finish(command)?;
        of_fio(&found).with_context(|| format!("fio wrote {found}"))
    }
}

impl Bench<'_> {
    /// Runs a client on its core to its end, and gives the JSON that it prints.
    pub(super) fn finish(&self, mut command: Command) -> Result<Value> {
        let (path, log) = (self.directory.join("output.json"), self.directory.join("client.log"));
        command.stdin(Stdio::null()).stdout(File::create(&path).context("a file for output")?);
        command.stderr(File::create(&log).context("a file for messages")?);
        let mut child = {
            let _pinned = Pinned::to_core(self.args.client_core)?;
            let program = command.get_program().to_string_lossy().into_owned();
            Child::start(&mut command, &program)?
        };
        let limit = Duration::from_secs_f64(self.args.seconds) + SLACK;
        let status = child.wait_until(Instant::now() + limit, self.stop)?;
        let text = fs::read_to_string(&path).context("its output")?;
        let said = || fs::read_to_string(&log).unwrap_or_default();
        ensure!(status.success(), "{command:?} failed: {status}: {}", said().trim());
        // fio may put warnings before it.
        let json = text.find('{').map_or("", |start| &text[start..]);
        serde_json::from_str(json).with_context(|| format!("{command:?} printed {text:?}"))
    }
}

fn of_lean(report: &Value) -> Option<Run> {
    let us_per_read = report["client_cpu_us_per_io"].as_f64()?;
    Some(Run { iops: report["iops"].as_f64()?, us_per_read })
}

/// The last step of a run of the lab; `None` unless all that it read was compared, if it was to be.
fn of_lab(report: &Value, is_validated: bool) -> Option<Run> {
    let step = report["steps"].as_array()?.last()?;
    let checks = &step["validation"];
    let (compared, unknown) =
        (checks["compared_bytes"].as_u64()?, checks["unknown_bytes"].as_u64()?);
    let is_as_asked = (compared > 0) == is_validated && unknown == 0;
    let iops = step["total"]["iops"].as_f64().filter(|iops| *iops > 0.0 && is_as_asked)?;
    Some(Run { iops, us_per_read: step["lab_cpu_us_per_io"].as_f64()? })
}

/// The reads of fio's only job, which tells CPU time in percent of its own.
fn of_fio(report: &Value) -> Option<Run> {
    let job = &report["jobs"][0];
    let percent = job["usr_cpu"].as_f64()? + job["sys_cpu"].as_f64()?;
    let used_us = percent / 100.0 * job["job_runtime"].as_f64()? * 1e3;
    let reads = job["read"]["total_ios"].as_f64().filter(|reads| *reads > 0.0)?;
    Some(Run { iops: job["read"]["iops"].as_f64()?, us_per_read: used_us / reads })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fio_says_of_itself_becomes_time_for_each_read() {
        let read = json!({ "total_ios": 1_000_000, "iops": 500_000.0 });
        let job =
            json!({ "usr_cpu": 12.5, "sys_cpu": 62.5, "job_runtime": 2000, "read": read.clone() });
        assert_eq!(
            of_fio(&json!({ "jobs": [job] })),
            Some(Run { iops: 500_000.0, us_per_read: 1.5 })
        );
        assert_eq!(of_fio(&json!({ "jobs": [{ "read": read }] })), None);
    }

    #[test]
    fn a_run_of_the_lab_counts_only_if_it_compared_what_it_should() {
        let step = |compared: u64, unknown: u64| {
            json!({ "steps": [{
                "total": { "iops": 5.0 },
                "lab_cpu_us_per_io": 2.0,
                "validation": { "compared_bytes": compared, "unknown_bytes": unknown },
            }] })
        };
        let run = Some(Run { iops: 5.0, us_per_read: 2.0 });
        assert_eq!((of_lab(&step(0, 0), false), of_lab(&step(4096, 0), true)), (run, run));
        assert_eq!((of_lab(&step(0, 0), true), of_lab(&step(4096, 512), true)), (None, None));
        assert_eq!(of_lab(&step(4096, 0), false), None);
    }
}
