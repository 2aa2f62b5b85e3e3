//! Servers into one storage area network: the `drystone` binary.
//!
//! Exit codes: 0 after a clean stop, 1 when a start or a stop failed, 2 for a command line that
//! does not read or would open what was closed.

mod access;
mod advice;
mod attach;
mod cli;
mod daemon;
mod doctor;
mod export;
mod lab;
mod logging;
mod manage;
mod os;
mod plan;
mod print;
mod san;
mod serve;
mod up;

use anyhow::Context;
use clap::Parser;
use cli::{Cli, Command, refusal};
use member::Unlisted;
use member::printable::printable;
use os::signals::StopSignals;
use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// How a run that did not succeed ends.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The command line, or what it points to for a setting, does not read, or would let in hosts that were
    /// kept out before: exit code 2.
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
    let stop = serves(env::args_os().skip(1)).then(StopSignals::install);
    let outcome = match Cli::try_parse() {
        Ok(cli) => run(cli, stop),
        Err(error) => return refusal::report(&error),
    };
    logging::finish();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&failure.to_string());
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { 2 } else { 1 })
        }
    }
}

/// Whether these words begin a command that runs until it is told to stop. Others end by a signal as
/// any program does.
fn serves(words: impl Iterator<Item = OsString>) -> bool {
    let mut is_value = false;
    let mut commands = words.filter(|word| {
        let is_option = is_value || word.as_encoded_bytes().starts_with(b"-");
        is_value = !is_value && word == "--log";
        !is_option
    });
    match commands.next() {
        Some(word) if word == "member" => commands.next().is_some_and(|word| word == "start"),
        word => word.is_some_and(|word| word == "attach" || word == "export" || word == "up"),
    }
}

/// Does what the command line says.
fn run(cli: Cli, stop: Option<io::Result<StopSignals>>) -> Result<(), Failure> {
    logging::check(cli.log.as_deref()).map_err(Failure::Usage)?;
    let stop = || stop.unwrap_or_else(StopSignals::install).context("cannot watch for signals");
    match cli.command {
        Command::Export(args) => {
            logging::start(cli.log.as_deref()).map_err(Failure::Usage)?;
            export::run(&args, stop()?)
        }
        Command::Up(args) => {
            logging::start(cli.log.as_deref()).map_err(Failure::Usage)?;
            up::run(&args, Unlisted::Loopback, stop()?)
        }
        Command::Member(args) => daemon::run(args.command, cli.log.as_deref(), stop),
        Command::Group(args) => manage::group::run(args),
        Command::Pool(args) => manage::pools::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Status(args) => manage::status::run(&args),
        Command::Connections(args) => manage::connections::run(&args),
        Command::Events(args) => manage::events::run(&args),
        Command::Audit(args) => manage::audit::run(&args),
        Command::Top(args) => manage::top::run(&args),
        Command::Volume(args) => manage::volume::run(args),
        Command::Policy(args) => manage::access::policy(args),
        Command::Chap(args) => manage::chap::run(args),
        Command::Account(args) => manage::logins::account(args),
        Command::Token(args) => manage::logins::token(args),
        Command::Snapshot(args) => manage::snapshot::run(args),
        Command::Schedule(args) => manage::schedule::run(args),
        Command::Notify(args) => manage::notify::run(args),
        Command::ExportConfig(args) => manage::san::export(&args),
        Command::Diff(args) => manage::san::diff(&args),
        Command::Apply(args) => manage::san::apply(&args),
        Command::Disk(args) => manage::disk::run(args),
        Command::Run(args) => manage::run::run(args),
        Command::Array(args) => manage::array::array(args),
        Command::Attach(args) => {
            logging::start(cli.log.as_deref()).map_err(Failure::Usage)?;
            attach::run(&args, stop()?)
        }
        Command::Attached(args) => attach::list::run(&args),
        Command::Detach(args) => attach::detach::run(&args),
        Command::Lab(args) => {
            logging::start_quiet(cli.log.as_deref()).map_err(Failure::Usage)?;
            lab::run(args)
        }
        Command::Plan(args) => plan::run(&args),
        Command::Help { words } => cli::generate::help(&words),
        Command::Completions { shell } => Ok(cli::generate::completions(shell)?),
        Command::Man { page, dir } => cli::generate::man(page.as_deref(), dir.as_deref()),
    }
}

/// Tells the user one sentence on stderr; when that is closed there is nobody to tell.
fn say(sentence: &str) {
    // Each line by itself: what others have said is in there.
    let lines: Vec<_> = sentence.split('\n').map(printable).collect();
    let _ = writeln!(io::stderr(), "drystone: {}", lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_until_it_is_told_to_stop_is_known_before_the_command_line_is_read() {
        let serves = |line: &str| serves(line.split_whitespace().map(OsString::from));
        for line in [
            "up",
            "export ram:1G",
            "attach all",
            "--log debug up",
            "--log=debug export x",
            "member --log debug start",
        ] {
            assert!(serves(line), "{line}");
        }
        for line in [
            "",
            "volume create up 1G",
            "--log up volume list",
            "status",
            "--help",
            "member",
            "member check",
            "member join 192.0.2.10",
            "group create start",
        ] {
            assert!(!serves(line), "{line}");
        }
    }

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
