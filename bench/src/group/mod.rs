//! The group: three members that are managed as one, against a member in none.
//!
//! All run on this machine, at addresses of the loopback of their own, with the etcds that the members start. Each part
//! answers one question; whoever is compared in it takes turns.

mod bed;
mod hosts;
mod http;
mod member;
mod requests;
mod rest;
mod sheet;
mod spread;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::cli::{GroupArgs, GroupPart};
use crate::machine::{Facts, raise_file_limit};
use bed::{Bed, Settings};
use sheet::{Part, Sheet};

/// `group`: answers the questions and writes the sheet.
///
/// # Errors
/// The members do not become a group, or a signal came. What goes wrong in a part is noted there.
pub(crate) fn group_command(args: &GroupArgs, stop: &AtomicBool) -> Result<ExitCode> {
    raise_file_limit();
    let settings = Settings::new(args)?;
    let mut sheet = Sheet::new(Facts::gather("as it is, but for reads"), settings.method());
    eprintln!("three members become a group");
    let mut bed = Bed::new(settings, stop)?;
    for part in GroupPart::value_variants().iter().filter(|part| args.has(**part)) {
        let (key, title) = (key(*part), title(*part));
        eprintln!("{key}: {title}");
        let mut answer = Part::new(&key, title);
        let outcome = run(*part, &mut bed, &mut answer);
        if stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        // What other parts find is worth telling all the same.
        if let Err(error) = outcome {
            eprintln!("{key}: {error:#}");
            answer.trouble = Some(format!("{error:#}"));
        }
        sheet.parts.push(answer);
    }
    // All that was started ends before anything is said of it.
    drop(bed);
    sheet.write(&args.out)?;
    crate::say(&sheet.marks_text())?;
    eprintln!("report: {}", args.out.join("group.md").display());
    Ok(if args.strict && !sheet.all_met() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run(part: GroupPart, bed: &mut Bed<'_>, answer: &mut Part) -> Result<()> {
    match part {
        GroupPart::Create => requests::create(bed, answer),
        GroupPart::Policy => requests::policy(bed, answer),
        GroupPart::Login => hosts::login(bed, answer),
        GroupPart::Reads => hosts::reads(bed, answer),
        GroupPart::List => requests::list(bed, answer),
        GroupPart::Show => requests::show(bed, answer),
        GroupPart::Rest => rest::rest(bed, answer),
        GroupPart::Start => rest::start(bed, answer),
        GroupPart::Spread => spread::spread(bed, answer),
    }
}

/// Its name on the command line.
fn key(part: GroupPart) -> String {
    part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// What it asks, for people.
const fn title(part: GroupPart) -> &'static str {
    match part {
        GroupPart::Create => "A new volume",
        GroupPart::Policy => "A change of what is set for all members",
        GroupPart::Login => "A login of a host, with and without a redirection",
        GroupPart::Reads => "4 KiB random reads at depth 32",
        GroupPart::Spread => "4 KiB random reads at depth 32 of a volume on two members",
        GroupPart::List => "The list of all volumes",
        GroupPart::Show => "One volume",
        GroupPart::Rest => "At rest",
        GroupPart::Start => "The start of a member with many volumes",
    }
}
