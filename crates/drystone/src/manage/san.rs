//! `drystone export-config` and `drystone diff`.

use super::Desk;
use crate::Failure;
use crate::advice::advised;
use crate::cli::manage::MemberArgs;
use crate::cli::san::DiffArgs;
use crate::cli::words::read_regular;
use crate::print::colour;
use crate::san::San;
use crate::san::diff::{Difference, diff as compare, text};
use crate::san::of_member::{MemberError, of_member};
use crate::san::read::read;
use crate::san::write::write;
use anyhow::{Context, anyhow};
use serde::Serialize;

/// Prints what the member is set to.
pub(crate) fn export(args: &MemberArgs) -> Result<(), Failure> {
    let desk = Desk::new(args)?;
    let san = asked(&desk)?;
    Ok(desk.show(&san.0, |_| Ok(write(&san)))?)
}

fn asked(desk: &Desk) -> anyhow::Result<San> {
    of_member(&desk.client).map_err(|error| match error {
        MemberError::Client(error) => advised(error),
        strange @ MemberError::Strange(_) => anyhow!(strange),
    })
}

#[derive(Debug, Serialize)]
struct Report {
    same: bool,
    differences: Vec<Difference>,
}

/// Prints where the member and the file differ, and fails with 1 if they do.
pub(crate) fn diff(args: &DiffArgs) -> Result<(), Failure> {
    let file = args.file.display();
    // What stands in the way is no difference.
    let report = report(args).map_err(|error| Failure::Usage(Failure::Run(error).to_string()))?;
    if report.same {
        return Ok(());
    }
    Err(anyhow!("the member is not as '{file}' says").into())
}

fn report(args: &DiffArgs) -> anyhow::Result<Report> {
    let file = args.file.display();
    let wanted = read_regular(&args.file).with_context(|| format!("cannot read '{file}'"))?;
    let wanted = read(&wanted).map_err(|refused| {
        let all: Vec<String> =
            refused.iter().map(|refused| format!("'{file}' {refused}")).collect();
        anyhow!(all.join("; "))
    })?;
    let desk = Desk::new(&args.member)?;
    let differences = compare(&asked(&desk)?, &wanted);
    let report = Report { same: differences.is_empty(), differences };
    desk.show(&report, |report| match report.same {
        true => Ok(format!("the member is as '{file}' says\n")),
        false => Ok(text(&report.differences, colour::is_wanted())),
    })?;
    Ok(report)
}
