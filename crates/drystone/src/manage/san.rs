//! `drystone export-config`, `drystone diff` and `drystone apply`.

use super::confirm::confirm;
use super::{Desk, password};
use crate::Failure;
use crate::access::secret;
use crate::advice::advised;
use crate::cli::manage::MemberArgs;
use crate::cli::san::{ApplyArgs, DiffArgs};
use crate::cli::words::read_regular;
use crate::print::{self, colour};
use crate::san::San;
use crate::san::diff::{Difference, diff as compare, text};
use crate::san::of_member::{MemberError, of_member};
use crate::san::plan::plan;
use crate::san::read::{SecretFiles, read_with_files};
use crate::san::write::write;
use anyhow::{Context, anyhow, bail};
use serde::Serialize;
use std::path::Path;

/// The longest file: with comments and spaces several times what the interface takes (4 MiB).
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Prints what the member is set to.
pub(crate) fn export(args: &MemberArgs) -> Result<(), Failure> {
    let desk = Desk::new(args)?;
    let (san, _) = asked(&desk)?;
    let san = san.without_idle();
    Ok(desk.show(&san.sections, |_| Ok(write(&san)))?)
}

fn asked(desk: &Desk) -> anyhow::Result<(San, String)> {
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
    let (wanted, files) = read_file(&args.file)?;
    let desk = Desk::new(&args.member)?;
    let (there, _) = asked(&desk)?;
    let differences = compare(&there, &wanted);
    let report = Report { same: differences.is_empty(), differences };
    desk.show(&report, |report| match report.same {
        true => Ok(same(&args.file)),
        false => Ok(text(&report.differences, &files, colour::is_wanted())),
    })?;
    Ok(report)
}

fn same(file: &Path) -> String {
    format!("the member is as '{}' says\n", file.display())
}

fn read_file(path: &Path) -> anyhow::Result<(San, SecretFiles)> {
    let file = path.display();
    let wanted =
        read_regular(path, FILE_BYTES_MAX).with_context(|| format!("cannot read '{file}'"))?;
    read_with_files(&wanted).map_err(|refused| {
        let all: Vec<String> =
            refused.iter().map(|refused| format!("'{file}' {refused}")).collect();
        anyhow!(all.join("; "))
    })
}

/// Changes the member to be as the file says, all of it or nothing.
pub(crate) fn apply(args: &ApplyArgs) -> Result<(), Failure> {
    Ok(applied(args)?)
}

#[derive(Debug, Serialize)]
struct Applied {
    changed: Vec<Difference>,
}

fn applied(args: &ApplyArgs) -> anyhow::Result<()> {
    let file = &args.file;
    let (wanted, files) = read_file(file)?;
    let desk = Desk::new(&args.member)?;
    let (there, tag) = asked(&desk)?;
    let changed = compare(&there, &wanted);
    if changed.is_empty() {
        return desk.show(&Applied { changed }, |_| Ok(same(file)));
    }
    let beside = file.parent().unwrap_or(Path::new(""));
    let secrets = |kind: &str, key: &str, path: &str, whose: &str| {
        secret_of(kind, key, &beside.join(path), whose)
    };
    let plan = plan(&changed, &wanted, &files, &secrets);
    let plan = plan.map_err(|refused| anyhow!("nothing was changed: {}", refused.join("; ")))?;
    if !args.member.json {
        print::out(&text(&changed, &files, colour::is_wanted()))?;
    }
    if !plan.losses.is_empty() {
        confirm(&args.confirm, &format!("With this {}. Apply it?", plan.losses.join(", ")))?;
    }
    desk.ask(|member| member.change_configuration(&plan.change, tag))?;
    let again =
        asked(&desk).context("it was applied, but the member cannot be asked whether it is so");
    let (there, _) = again?;
    let left = compare(&there, &wanted);
    if !left.is_empty() {
        bail!(
            "it was applied, and the member is not as the file says: {}",
            text(&left, &files, false)
        );
    }
    desk.show(&Applied { changed }, |_| Ok(same(file)))
}

/// A CHAP secret, a password, or what goes along with events.
fn secret_of(kind: &str, key: &str, path: &Path, whose: &str) -> anyhow::Result<String> {
    match (kind, key) {
        ("account", _) => return password::read(Some(path), "password", whose),
        ("chap" | "mutual-chap", _) => {}
        (_, "url-file") => return password::read(Some(path), "URL", whose),
        (_, "token-file") => return password::read(Some(path), "token", whose),
        (_, "password-file") => return password::read(Some(path), "password", whose),
        _ => return password::read(Some(path), "secret", whose),
    }
    let text = password::read(Some(path), "secret", whose)?;
    Ok(secret::checked(whose, &text)?.secret)
}
