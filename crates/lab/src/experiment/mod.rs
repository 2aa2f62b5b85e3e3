//! Experiments: questions of the papers, asked of this machine.
//!
//! Each starts `drystone export` and `drystone lab run` as processes of their own, perhaps in network
//! namespaces that it makes and removes, and puts what they found beside what the paper found.

mod bed;
mod cores;
mod levels;
mod native;
mod networks;
mod owner;
mod paths;
mod server;
mod sessions;
mod switch;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::report::{Report, ReportError};

/// Which experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// One volume over two paths, policies side by side.
    Paths,
    /// A verified load over two paths, of which one is cut and comes back.
    SwitchFailure,
    /// Sessions against cores of the target.
    SessionsPerCore,
    /// The same file directly and through iSCSI.
    NativeVsIscsi,
    /// RAID levels and numbers of drives against clients.
    RaidLevels,
    /// The same load over more and more sessions.
    Sessions,
}

impl Name {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Paths,
        Self::SwitchFailure,
        Self::SessionsPerCore,
        Self::NativeVsIscsi,
        Self::RaidLevels,
        Self::Sessions,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Paths => "paths",
            Self::SwitchFailure => "switch-failure",
            Self::SessionsPerCore => "sessions-per-core",
            Self::NativeVsIscsi => "native-vs-iscsi",
            Self::RaidLevels => "raid-levels",
            Self::Sessions => "sessions",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.word() == word)
    }
}

/// What an experiment needs to know.
#[derive(Debug, Clone)]
pub struct ExperimentOptions {
    /// The program of both sides.
    pub program: PathBuf,
    /// Where results, files and logs go.
    pub directory: PathBuf,
    /// How long each measurement takes.
    pub seconds: f64,
    /// Leave most cases of the large ones out.
    pub is_quick: bool,
    /// Ends it early.
    pub stop: Arc<AtomicBool>,
}

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A program that is not there, or not allowed.
    #[error("cannot run {program}: {source}")]
    Start {
        /// Which one.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program that failed.
    #[error("{command} failed: {said}")]
    Failed {
        /// What was run.
        command: String,
        /// What it said.
        said: String,
    },
    /// A target that does not come up.
    #[error("the target did not serve within {0:?}; {1} tells why")]
    NotServing(Duration, PathBuf),
    /// Volumes that could not be written.
    #[error("the volumes could not be written once; {0} tells why")]
    NotFilled(PathBuf),
    /// A run that left nothing.
    #[error("a run left no results; {log} tells why: {source}")]
    NoResults {
        /// Its output.
        log: PathBuf,
        /// What is missing.
        source: ReportError,
    },
    /// A file.
    #[error("cannot use {path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A system without /proc.
    #[error("/proc does not tell of this process, by which its network namespaces are named")]
    NoProc,
    /// A signal.
    #[error("stopped by a signal")]
    Stopped,
}

/// Runs an experiment; `say` is told what it does. All that it makes, apart from its directory, has
/// gone when it returns.
///
/// # Errors
/// An [`ExperimentError`].
pub fn run(
    name: Name,
    options: &ExperimentOptions,
    say: &dyn Fn(&str),
) -> Result<Report, ExperimentError> {
    let bed = bed::Bed::new(options, say)?;
    match name {
        Name::Paths => paths::run(&bed),
        Name::SwitchFailure => switch::run(&bed),
        Name::SessionsPerCore => cores::run(&bed),
        Name::NativeVsIscsi => native::run(&bed),
        Name::RaidLevels => levels::run(&bed),
        Name::Sessions => sessions::run(&bed),
    }
}
