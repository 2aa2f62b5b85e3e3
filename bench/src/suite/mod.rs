//! The side-by-side: every target that is found, the same work, interleaved.

mod clients;
mod idle;
mod measure;
mod results;
mod rows;
mod runner;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};

pub(crate) use clients::Foreign;
pub(crate) use idle::idle_command;
pub(crate) use measure::measure;
pub(crate) use results::{Cell, Limit, Results, Run, median};
#[cfg(test)]
pub(crate) use results::{Idle, TargetInfo};
#[cfg(test)]
pub(crate) use rows::ROWS;
pub(crate) use rows::{Row, row};

use crate::adapter::{Adapter, Istgt, Ours, Plain, Site, Tgt};
use crate::cli::CompareArgs;
use crate::machine::{CongestionControl, Facts, raise_file_limit};
use crate::report;
use runner::{Entry, Runner, Settings};

#[cfg(test)]
mod tests;

/// Congestion control for all while a comparison runs.
const CONGESTION: &str = "cubic";

/// `compare`: runs everything and writes the report.
///
/// # Errors
/// The machine cannot do it (cores, memory, no target at all), or a signal came.
pub(crate) fn compare(args: &CompareArgs, stop: &AtomicBool) -> Result<ExitCode> {
    raise_file_limit();
    let settings = Settings::new(args)?;
    let scratch = Scratch::new(&args.disks)?;
    // Lives to the end of this function: dropping it restores the system's setting.
    let congestion = CongestionControl::set(CONGESTION);
    let facts = Facts::gather(congestion.sentence());
    let mut runner = Runner::new(settings, facts);
    let adapters = adapters(args)?;
    eprintln!("{}", runner.announce(adapters.len()));
    let mut entries = Vec::new();
    for (index, adapter) in adapters.iter().enumerate() {
        let site = Site {
            port: args.port + u16::try_from(index)?,
            directory: scratch.directory(adapter.name())?,
            disk_bytes: runner.settings.disk_bytes,
            core: args.target_core,
        };
        let entry: Option<Entry> = runner.start(adapter.as_ref(), &site, stop)?;
        entries.extend(entry);
    }
    ensure!(!entries.is_empty(), "no target could be started");
    runner.run_all(&mut entries, stop)?;
    drop(entries);
    let results = runner.into_results();
    report::write(&results, &args.out)?;
    crate::say(&report::marks_text(&results))?;
    eprintln!("report: {}", args.out.join("latest.md").display());
    Ok(report::exit_code(&results, args.strict))
}

/// All targets, or those that `--targets` names.
fn adapters(args: &CompareArgs) -> Result<Vec<Box<dyn Adapter>>> {
    let mut all: Vec<Box<dyn Adapter>> = vec![Box::new(Plain)];
    all.extend(
        Ours::all(&args.drystone).into_iter().map(|ours| Box::new(ours) as Box<dyn Adapter>),
    );
    all.push(Box::new(Tgt));
    all.push(Box::new(Istgt));
    all.extend(args.external.iter().cloned().map(|one| Box::new(one) as Box<dyn Adapter>));
    let names: Vec<String> = all.iter().map(|adapter| adapter.name().to_owned()).collect();
    for wanted in &args.targets {
        ensure!(names.contains(wanted), "no target {wanted}: there are {}", names.join(", "));
    }
    let external: Vec<&str> = args.external.iter().map(Adapter::name).collect();
    all.retain(|adapter| {
        let name = adapter.name();
        args.targets.is_empty()
            || external.contains(&name)
            || args.targets.iter().any(|wanted| wanted == name)
    });
    Ok(all)
}

/// A directory of our own on the tmpfs, gone at the end.
#[derive(Debug)]
pub(crate) struct Scratch {
    root: PathBuf,
}

impl Scratch {
    pub(crate) fn new(parent: &std::path::Path) -> Result<Self> {
        let root = parent.join(format!("drystone-bench-{}", std::process::id()));
        std::fs::create_dir_all(&root).with_context(|| format!("create {}", root.display()))?;
        Ok(Self { root })
    }

    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf> {
        let directory = self.root.join(name);
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("create {}", directory.display()))?;
        Ok(directory)
    }

    /// Removes all that was made in it.
    pub(crate) fn clear(&self) -> Result<()> {
        std::fs::remove_dir_all(&self.root)
            .and_then(|()| std::fs::create_dir_all(&self.root))
            .with_context(|| format!("clear {}", self.root.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.root) {
            eprintln!("cannot remove {}: {error}", self.root.display());
        }
    }
}
