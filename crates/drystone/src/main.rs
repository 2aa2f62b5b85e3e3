//! Servers into one storage area network: the `drystone` binary.
//!
//! Exit codes: 0 after a clean stop, 1 when a start or a stop failed, 2 for a command line that
//! does not read.

mod access;
mod attach;
mod cli;
mod control;
mod export;
mod lab;
mod logging;
mod manage;
mod os;
mod plan;
mod print;
mod serve;
mod spec;
mod turn;
mod up;

use anyhow::Context;
use clap::Parser;
use cli::{Cli, Command, refusal};
use os::signals::StopSignals;
use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

/// How a run that did not succeed ends.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The command line, or what it points to for a setting, does not read: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The system, a file or a peer stood in the way: exit code 1.
    #[error("{}", causes(.0))]
    Run(#[from] anyhow::Error),
}

/// All causes in one line. Some errors of libraries tell their cause themselves: it is told once.
fn causes(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

fn main() -> ExitCode {
    // A signal that comes while the command line is read is a clean stop, too.
    let is_attach = env::args_os().nth(1).is_some_and(|command| command == "attach");
    let stop = is_attach.then(StopSignals::install);
    let outcome = match Cli::try_parse() {
        Ok(cli) => run(cli, stop),
        Err(error) => return refusal::report(&error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&failure.to_string());
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { 2 } else { 1 })
        }
    }
}

/// Does what the command line says.
fn run(cli: Cli, stop: Option<io::Result<StopSignals>>) -> Result<(), Failure> {
    match cli.command {
        Command::Export(args) => {
            logging::start(cli.log.as_deref()).map_err(Failure::Usage)?;
            export::run(&args)
        }
        Command::Up(args) => {
            logging::start(cli.log.as_deref()).map_err(Failure::Usage)?;
            up::run(&args)
        }
        Command::Volume(args) => manage::volume::run(args),
        Command::Snapshot(args) => manage::snapshot::run(args),
        Command::Disk(args) => manage::disk::run(args),
        Command::Array(args) => manage::array::run(args),
        Command::Attach(args) => {
            logging::start(cli.log.as_deref()).map_err(Failure::Usage)?;
            let stop = stop.unwrap_or_else(StopSignals::install);
            attach::run(&args, stop.context("cannot watch for signals")?)
        }
        Command::Attached(args) => attach::list::run(&args),
        Command::Detach(args) => attach::detach::run(&args),
        Command::Lab(args) => {
            logging::start_quiet(cli.log.as_deref()).map_err(Failure::Usage)?;
            lab::run(args)
        }
        Command::Plan(args) => plan::run(&args),
        Command::Completions { shell } => Ok(cli::generate::completions(shell)?),
        Command::Man { page, dir } => cli::generate::man(page.as_deref(), dir.as_deref()),
    }
}

/// Tells the user one sentence on stderr; when that is closed there is nobody to tell.
fn say(sentence: &str) {
    let _ = writeln!(io::stderr(), "drystone: {sentence}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = || io::Error::other("it is full");
        let twice = anyhow::Error::new(lab_error(cause())).context("results cannot be kept");
        assert_eq!(
            Failure::Run(twice).to_string(),
            "results cannot be kept: cannot write /x: it is full"
        );
        let once = anyhow::Error::new(cause()).context("cannot read f");
        assert_eq!(Failure::Run(once).to_string(), "cannot read f: it is full");
    }

    fn lab_error(source: io::Error) -> ::lab::report::ReportError {
        ::lab::report::ReportError::Io { action: "write", path: "/x".into(), source }
    }
}
