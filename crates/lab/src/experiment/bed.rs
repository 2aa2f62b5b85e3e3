//! What experiments stand on: runs of the lab, and results put together.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::server::Process;
use super::{ExperimentError, ExperimentOptions};
use crate::measure::StepFigures;
use crate::report::{Chart, Ending, Finding, Report};
use crate::workload::vdbench;

pub(super) const POLL: Duration = Duration::from_millis(20);
/// A run may take so much longer than its steps: logins, draining, reading back.
const SLACK: Duration = Duration::from_secs(180);

/// Where an experiment works.
pub(super) struct Bed<'a> {
    pub(super) options: &'a ExperimentOptions,
    pub(super) say: &'a dyn Fn(&str),
}

/// One `drystone lab run`.
pub(super) struct Run<'a> {
    /// What its steps are called in the results of the experiment.
    pub(super) label: String,
    /// Its workload.
    pub(super) workload: String,
    /// Where it runs.
    pub(super) on: Vec<String>,
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

    /// This program, to be run in a namespace. It ends with the experiment, however that ends.
    pub(super) fn command(&self, namespace: Option<&str>) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        command.args(namespace.into_iter().flat_map(|name| ["ip", "netns", "exec", name]));
        command.arg(&self.options.program);
        command
    }

    pub(super) fn must_go_on(&self) -> Result<(), ExperimentError> {
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
        command.args(run.on.iter().flat_map(|on| ["--on", on]));
        command.args(["--overwrite", "--report"]).arg(&directory);
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

    /// Writes all of these volumes once, so that nobody reads what was never written.
    pub(super) fn fill(&self, on: &str, size: &str) -> Result<(), ExperimentError> {
        self.must_go_on()?;
        let log = self.path("fill.log");
        let failed = |source| ExperimentError::File { path: log.clone(), source };
        let errors = create(&log)?;
        let output = errors.try_clone().map_err(failed)?;
        let mut command = self.command(None);
        command.args(["--log", "warn", "lab", "fio", "--on", on, "--sessions", "1"]);
        command.args(["--overwrite", "--no-validation", "--", "--name=fill", "--rw=write"]);
        command.args(["--bs=1m", "--iodepth=4", &format!("--size={size}")]);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let mut process = Process(start(&mut command)?);
        let status = loop {
            if let Some(status) = self.ended(&mut process)? {
                break status;
            }
            self.wait(POLL)?;
        };
        match status.success() {
            true => Ok(()),
            false => Err(ExperimentError::NotFilled(log)),
        }
    }

    fn ended(&self, process: &mut Process) -> Result<Option<ExitStatus>, ExperimentError> {
        process.0.try_wait().map_err(|source| ExperimentError::Start {
            program: self.options.program.display().to_string(),
            source,
        })
    }

    /// One report of all runs, with what the paper found beside it.
    pub(super) fn conclude(
        &self,
        title: &str,
        runs: Vec<Report>,
        findings: Vec<Finding>,
        charts: Vec<Chart>,
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
        all.charts = charts;
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
        Ok(self.bed.ended(&mut self.process)?.is_some())
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

pub(super) fn create(path: &Path) -> Result<File, ExperimentError> {
    File::create(path).map_err(|source| ExperimentError::File { path: path.to_owned(), source })
}

pub(super) fn start(command: &mut Command) -> Result<Child, ExperimentError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|source| ExperimentError::Start { program, source })
}

/// Runs a tool to its end, in a directory if one is named.
pub(super) fn tool(
    program: &str,
    args: &[&str],
    directory: Option<&Path>,
) -> Result<(), ExperimentError> {
    let mut command = Command::new(program);
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    let output = command.args(args).stdin(Stdio::null()).output();
    let failed = |source| ExperimentError::Start { program: program.to_owned(), source };
    let output = output.map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ExperimentError::Failed { command: format!("{program} {}", args.join(" ")), said })
}

/// The IOPS of a step, by the end of its name.
pub(super) fn iops(steps: &[StepFigures], name: &str) -> f64 {
    steps.iter().find(|step| step.name == name).map_or(0.0, |step| step.total.iops)
}
