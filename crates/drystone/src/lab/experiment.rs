//! `drystone lab experiment`.

use std::io::{self, Write};

use anyhow::{Context, anyhow};
use lab::experiment::{ExperimentOptions, run as run_experiment};
use lab::report::Report;

use super::{live, save, stop_flag, take_directory};
use crate::cli::lab::ExperimentArgs;
use crate::{Failure, print};

/// Runs one, keeps its report and tells what was found.
pub(super) fn run(args: &ExperimentArgs) -> Result<(), Failure> {
    let directory = take_directory(&args.report)?;
    let options = ExperimentOptions {
        program: std::env::current_exe().context("cannot find this program")?,
        directory: args.report.clone(),
        seconds: args.time().as_secs_f64(),
        is_quick: args.quick,
        stop: stop_flag().context("cannot take signals over")?,
    };
    let say = |what: &str| {
        // Nobody there to be told: the report is what counts.
        let _ = writeln!(io::stderr(), "{what}");
    };
    let report = run_experiment(args.name, &options, &say).context("the experiment")?;
    save(&report, &directory)?;
    print::out(&text(&report))?;
    print::out(&format!("\nreport: {}\n", args.report.join("report.html").display()))?;
    let missed = report.findings.iter().filter(|finding| finding.met == Some(false)).count();
    match missed {
        0 => Ok(()),
        1 => Err(Failure::Run(anyhow!("one thing is not as it should be"))),
        missed => Err(Failure::Run(anyhow!("{missed} things are not as they should be"))),
    }
}

fn text(report: &Report) -> String {
    let mut text = live::summary(&report.steps);
    for finding in &report.findings {
        let verdict = match finding.met {
            Some(true) => " (met)",
            Some(false) => " (MISSED)",
            None => "",
        };
        let (what, paper, ours) = (&finding.what, &finding.paper, &finding.ours);
        text.push_str(&format!("\n{what}{verdict}\n  the paper: {paper}\n  here: {ours}\n"));
    }
    text
}
