//! What experiments stand on: processes, network namespaces, and results put together.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::{ExperimentError, ExperimentOptions};
use crate::measure::StepFigures;
use crate::report::{Ending, Finding, Report};
use crate::workload::vdbench;

const SERVE_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// A run may take so much longer than its steps: logins, draining, reading back.
const SLACK: Duration = Duration::from_secs(180);
/// The target of all experiments.
pub(super) const IQN: &str = "iqn.2026-11.dev.drystone:lab-experiment";

/// Where an experiment works.
pub(super) struct Bed<'a> {
    pub(super) options: &'a ExperimentOptions,
    pub(super) say: &'a dyn Fn(&str),
}

/// A process that does not outlive this value.
pub(super) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A `drystone export` that serves.
pub(super) struct Server {
    process: Process,
    /// The portals as it tells them.
    pub(super) portals: Vec<String>,
}

impl Server {
    pub(super) fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

/// One `drystone lab run`.
pub(super) struct Run<'a> {
    /// What its steps are called in the results of the experiment.
    pub(super) label: String,
    /// Its workload.
    pub(super) workload: String,
    /// Where it runs.
    pub(super) on: String,
    /// The namespace that it runs in.
    pub(super) namespace: Option<&'a str>,
    /// Further options.
    pub(super) options: Vec<String>,
}

impl<'a> Bed<'a> {
    pub(super) fn new(
        options: &'a ExperimentOptions,
        say: &'a dyn Fn(&str),
    ) -> Result<Self, ExperimentError> {
        let failed = |source| ExperimentError::File { path: options.directory.clone(), source };
        fs::create_dir_all(&options.directory).map_err(failed)?;
        Ok(Self { options, say })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.options.directory.join(name)
    }

    fn command(&self, namespace: Option<&str>) -> Command {
        let Some(namespace) = namespace else { return Command::new(&self.options.program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(&self.options.program);
        command
    }

    fn must_go_on(&self) -> Result<(), ExperimentError> {
        match self.options.stop.load(Ordering::Relaxed) {
            true => Err(ExperimentError::Stopped),
            false => Ok(()),
        }
    }

    /// Waits, unless a signal comes.
    pub(super) fn wait(&self, time: Duration) -> Result<(), ExperimentError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.must_go_on()?;
            thread::sleep(POLL.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Serves `disk` at each portal; the target listens when this returns.
    pub(super) fn serve(
        &self,
        disk: &str,
        portals: &[String],
        cores: u32,
        namespace: Option<&str>,
    ) -> Result<Server, ExperimentError> {
        let log = self.path("target.log");
        let mut command = self.command(namespace);
        command.args([
            "--log",
            "warn",
            "export",
            disk,
            "--iqn",
            IQN,
            "--cores",
            &cores.to_string(),
        ]);
        for portal in portals {
            command.args(["--portal", portal]);
        }
        command.arg("--state-dir").arg(self.path("target-state"));
        let errors = create(&log)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut process = Process(start(&mut command)?);
        let lines = BufReader::new(process.0.stdout.take().expect("it was asked for"));
        let (teller, told) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(portal) = line.strip_prefix("portal address=") {
                    // Nobody listens any more once all portals are known.
                    let _ = teller.send(portal.split(' ').next().unwrap_or("").to_owned());
                }
            }
        });
        let deadline = Instant::now() + SERVE_MAX;
        let mut found = Vec::new();
        while found.len() < portals.len() {
            self.must_go_on()?;
            match told.recv_timeout(POLL) {
                Ok(portal) => found.push(portal),
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => return Err(ExperimentError::NotServing(SERVE_MAX, log)),
            }
        }
        Ok(Server { process, portals: found })
    }

    /// Starts a run.
    pub(super) fn begin(&self, run: &Run<'_>) -> Result<Running<'_>, ExperimentError> {
        self.must_go_on()?;
        (self.say)(&run.label);
        let directory = self.path(&run.label.replace([' ', ',', '/'], "-"));
        let failed = |source| ExperimentError::File { path: directory.clone(), source };
        fs::create_dir_all(&directory).map_err(failed)?;
        let file = directory.join("workload.vd");
        fs::write(&file, &run.workload).map_err(failed)?;
        let script = vdbench::parse(&run.workload).expect("the workloads of experiments read");
        let time: Duration = script.steps.iter().map(|step| step.elapsed + step.warmup).sum();
        let log = directory.join("lab.log");
        let mut command = self.command(run.namespace);
        command.args(["--log", "warn", "lab", "run"]).arg(&file);
        command.args(["--on", &run.on, "--overwrite", "--report"]).arg(&directory);
        command.args(&run.options);
        let errors = create(&log)?;
        let output = errors.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let process = Process(start(&mut command)?);
        let deadline = Instant::now() + time + SLACK;
        let label = run.label.clone();
        Ok(Running { bed: self, process, directory, log, label, deadline })
    }

    /// Runs to the end.
    pub(super) fn measure(&self, run: &Run<'_>) -> Result<Report, ExperimentError> {
        self.begin(run)?.finish()
    }

    /// One report of all runs, with what the paper found beside it.
    pub(super) fn conclude(
        &self,
        title: &str,
        runs: Vec<Report>,
        findings: Vec<Finding>,
    ) -> Report {
        let mut runs = runs.into_iter();
        let mut all = runs.next().expect("an experiment has a run");
        for run in runs {
            all.steps.extend(run.steps);
            all.volumes.extend(run.volumes);
        }
        all.volumes.dedup();
        all.title = title.to_owned();
        all.findings = findings;
        all.ending = Ending::Complete;
        all
    }
}

/// A run under way.
pub(super) struct Running<'a> {
    bed: &'a Bed<'a>,
    process: Process,
    directory: PathBuf,
    log: PathBuf,
    label: String,
    deadline: Instant,
}

impl Running<'_> {
    /// Waits until its log has a line for an interval: it works.
    pub(super) fn wait_for_load(&mut self) -> Result<(), ExperimentError> {
        while !self.has_ended()? {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            if text.lines().any(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
            {
                return Ok(());
            }
            self.bed.wait(POLL)?;
        }
        Ok(())
    }

    fn has_ended(&mut self) -> Result<bool, ExperimentError> {
        let ended = self.process.0.try_wait();
        ended.map(|status| status.is_some()).map_err(|source| ExperimentError::Start {
            program: self.bed.options.program.display().to_string(),
            source,
        })
    }

    /// Its results. A run with errors or wrong data has results all the same.
    pub(super) fn finish(mut self) -> Result<Report, ExperimentError> {
        while !self.has_ended()? && Instant::now() < self.deadline {
            self.bed.wait(POLL)?;
        }
        let log = self.log.clone();
        let missing = |source| ExperimentError::NoResults { log, source };
        let mut report = Report::load(&self.directory).map_err(missing)?;
        for step in &mut report.steps {
            step.name = format!("{}: {}", self.label, step.name);
        }
        Ok(report)
    }
}

fn create(path: &Path) -> Result<File, ExperimentError> {
    File::create(path).map_err(|source| ExperimentError::File { path: path.to_owned(), source })
}

fn start(command: &mut Command) -> Result<Child, ExperimentError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|source| ExperimentError::Start { program, source })
}

/// Runs a tool to its end.
fn tool(program: &str, args: &[&str]) -> Result<(), ExperimentError> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let failed = |source| ExperimentError::Start { program: program.to_owned(), source };
    let output = output.map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ExperimentError::Failed { command: format!("{program} {}", args.join(" ")), said })
}

/// A namespace for the host, one for the target, and two links of 1 Gbit/s between them. All of it goes
/// with this value.
pub(super) struct Networks {
    pub(super) host: String,
    pub(super) target: String,
}

impl Networks {
    pub(super) fn make() -> Result<Self, ExperimentError> {
        let id = std::process::id();
        let networks =
            Self { host: format!("drystone-lab-h{id}"), target: format!("drystone-lab-t{id}") };
        for namespace in [&networks.host, &networks.target] {
            tool("ip", &["netns", "add", namespace])?;
            tool("ip", &["-n", namespace, "link", "set", "lo", "up"])?;
        }
        for path in 0..2 {
            networks.link(path)?;
        }
        Ok(networks)
    }

    fn link(&self, path: u8) -> Result<(), ExperimentError> {
        let (near, far) = (format!("h{path}"), format!("t{path}"));
        let (host, target) = (self.host.as_str(), self.target.as_str());
        let peer = ["peer", "name", &far, "netns", target];
        tool("ip", &[&["-n", host, "link", "add", &near, "type", "veth"][..], &peer].concat())?;
        for (namespace, device, last) in [(host, &near, 1), (target, &far, 2)] {
            let address = format!("198.18.{path}.{last}/24");
            tool("ip", &["-n", namespace, "addr", "add", &address, "dev", device])?;
            tool("ip", &["-n", namespace, "link", "set", device, "up"])?;
            let shape = ["tbf", "rate", "1gbit", "burst", "256kb", "latency", "20ms"];
            let place = ["-n", namespace, "qdisc", "add", "dev", device, "root"];
            tool("tc", &[&place[..], &shape].concat())?;
        }
        Ok(())
    }

    /// The portals of the target's side.
    pub(super) fn portals() -> Vec<String> {
        (0..2).map(|path| format!("198.18.{path}.2:3260")).collect()
    }

    /// Cuts a path, as a switch does that is powered down, or brings it back.
    pub(super) fn set(&self, path: u8, is_up: bool) -> Result<(), ExperimentError> {
        let state = if is_up { "up" } else { "down" };
        tool("ip", &["-n", &self.target, "link", "set", &format!("t{path}"), state])
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for namespace in [&self.host, &self.target] {
            // One that was never made cannot be removed, which is as good.
            let _ = tool("ip", &["netns", "del", namespace]);
        }
    }
}

/// The IOPS of a step, by the end of its name.
pub(super) fn iops(steps: &[StepFigures], name: &str) -> f64 {
    steps.iter().find(|step| step.name == name).map_or(0.0, |step| step.total.iops)
}
