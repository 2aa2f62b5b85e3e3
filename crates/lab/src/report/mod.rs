//! What is kept of a run: `results.json`, `flatfile.csv` and `report.html` in one directory.

mod compare;
mod csv;
mod directory;
mod html;
mod sides;
mod svg;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::measure::StepFigures;
use crate::workload::Script;

pub use compare::{Comparison, Metric, Verdict, compare};
pub use directory::ResultsDirectory;
pub use sides::{differences, troubles};

/// The version of results.json. A reader takes its own and older ones.
const FORMAT: u32 = 1;
const RESULTS: &str = "results.json";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// It is under way, or was killed.
    Unfinished,
    /// All steps were run.
    Complete,
    /// A signal ended it.
    Stopped,
    /// Wrong data ended it.
    WrongData,
}

/// A run and where it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format.
    pub format: u32,
    /// A name for people.
    pub title: String,
    /// The program that made it.
    pub program: String,
    /// The machine.
    pub machine: Machine,
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// Where the storage of the script was.
    pub volumes: Vec<String>,
    /// Words that had no effect, and the like.
    pub notes: Vec<String>,
    /// Tells the same workload from another.
    pub fingerprint: String,
    /// How it ended.
    pub ending: Ending,
    /// What an experiment found, beside what its paper found.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Charts over what an experiment varied.
    #[serde(default)]
    pub charts: Vec<Chart>,
    /// What was measured.
    pub steps: Vec<StepFigures>,
}

/// Lines over a number that was varied, such as that of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// What was varied.
    pub across: String,
    /// The lines: a name, and places with values, the places rising.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// One question of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was asked.
    pub what: String,
    /// What the paper found.
    pub paper: String,
    /// What was found here.
    pub ours: String,
    /// Whether that is as it should be, if something should be.
    pub met: Option<bool>,
}

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its processor.
    pub processor: String,
    /// Processors that this process could use.
    pub processors: usize,
    /// Its kernel.
    pub kernel: String,
}

/// Why results cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The system.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Not JSON of ours.
    #[error("{path} does not read: {error}")]
    Form {
        /// The file.
        path: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
    /// Another run keeps its results there.
    #[error("{} is where another run keeps its results, and it is under way", .0.display())]
    Busy(PathBuf),
    /// A file that would be replaced.
    #[error("{} is no file of the lab, and stays as it is", .0.display())]
    Foreign(PathBuf),
    /// New files are beside old ones.
    #[error(
        "cannot replace {path}: {source}; it is of an earlier step than the files that were replaced before it"
    )]
    Mixed {
        /// The first that is old.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A later format.
    #[error("{path} is of format {found}; this program reads up to {FORMAT}")]
    Later {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

impl Report {
    /// A run that begins now.
    #[must_use]
    pub fn new(title: &str, script: &Script, volumes: Vec<String>) -> Self {
        Self {
            format: FORMAT,
            title: title.to_owned(),
            program: format!("drystone {}", env!("CARGO_PKG_VERSION")),
            machine: Machine::this(),
            started_unix_s: crate::check::unix_ns() / 1_000_000_000,
            fingerprint: fingerprint(script, &volumes),
            volumes,
            notes: script.notes.clone(),
            ending: Ending::Unfinished,
            findings: Vec::new(),
            charts: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Says how the run is made other than as usual: with that its steps are others, and not mixed with those of
    /// a run as usual.
    #[must_use]
    pub fn made(self, how: &str) -> Self {
        if how.is_empty() {
            return self;
        }
        let fingerprint = fnv(&format!("{} {how}", self.fingerprint));
        Self { fingerprint, ..self }
    }

    /// Blocks that were wrong, over all steps; one that several steps found counts once.
    #[must_use]
    pub fn mismatch_count(&self) -> u64 {
        let of = |step: &StepFigures| {
            let validation = &step.validation;
            validation.mismatch_count.saturating_sub(validation.again_count)
        };
        self.steps.iter().map(of).sum()
    }

    /// I/Os that failed, over all steps.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.steps.iter().map(|step| step.error_count).sum()
    }

    /// Reads the results of a directory, or a results.json itself.
    ///
    /// # Errors
    /// A [`ReportError`].
    pub fn load(path: &Path) -> Result<Self, ReportError> {
        let path = if path.is_dir() { path.join(RESULTS) } else { path.to_owned() };
        let text = fs::read_to_string(&path).map_err(|source| ReportError::Io {
            action: "read",
            path: path.clone(),
            source,
        })?;
        let form = |error| ReportError::Form { path: path.clone(), error };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(form)?;
        let found = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if found > u64::from(FORMAT) {
            return Err(ReportError::Later {
                path,
                found: u32::try_from(found).unwrap_or(u32::MAX),
            });
        }
        serde_json::from_value(value).map_err(form)
    }

    /// The steps of an earlier run of the same workload in this directory that ran to their end;
    /// `None` if there is none, or it is of another workload.
    ///
    /// # Errors
    /// Results that are there and do not read.
    pub fn resumable(&self, directory: &Path) -> Result<Option<Vec<StepFigures>>, ReportError> {
        if !directory.join(RESULTS).exists() {
            return Ok(None);
        }
        let earlier = Self::load(directory)?;
        let is_same = earlier.fingerprint == self.fingerprint;
        let mut steps = earlier.steps;
        steps.retain(|step| !step.was_stopped && !step.name.starts_with("validate-"));
        Ok(is_same.then_some(steps))
    }
}

/// A sum of what is run and on what.
fn fingerprint(script: &Script, volumes: &[String]) -> String {
    fnv(&serde_json::to_string(&(&script.storage, &script.steps, volumes)).unwrap_or_default())
}

/// FNV-1a of a text.
fn fnv(text: &str) -> String {
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{sum:016x}")
}

impl Machine {
    fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let processor = model.map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
        Self {
            processor: processor.to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}
