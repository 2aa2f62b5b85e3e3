//! What is left of a comparison: a table for people, JSON for programs, charts, and the marks.

mod chart;
mod markdown;
mod marks;

pub(crate) use marks::{Mark, Verdict};

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli::MarksArgs;
use crate::suite::Results;

#[cfg(test)]
mod tests;

/// The target that ratios are taken to.
const REFERENCE: &str = "tgt";
/// The floor that CPU is compared with.
const FLOOR: &str = "plain";

/// Writes `latest.md`, `latest.json` and the charts into `directory`.
///
/// # Errors
/// What the file system says.
pub(crate) fn write(results: &Results, directory: &Path) -> Result<()> {
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    };
    fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    put("latest.json", &format!("{}\n", serde_json::to_string_pretty(results)?))?;
    for figure in chart::FIGURES {
        put(figure.file, &chart::draw(results, &figure)?)?;
    }
    put("latest.md", &markdown::render(results))
}

/// The marks as text, one line each.
pub(crate) fn marks_text(results: &Results) -> String {
    let mut text = String::new();
    for mark in marks::check(results) {
        text.push_str(&format!("{:<9} {}: {}\n", mark.verdict.text(), mark.title, mark.found));
    }
    text
}

/// With `strict`, failure when a mark was missed or could not be checked.
pub(crate) fn exit_code(results: &Results, strict: bool) -> ExitCode {
    let met = marks::check(results).iter().all(|mark| mark.verdict == marks::Verdict::Met);
    if strict && !met { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// `marks`: checks a report that was written earlier.
///
/// # Errors
/// There is no such report.
pub(crate) fn marks_command(args: &MarksArgs) -> Result<ExitCode> {
    let path = args.report.display();
    let text = fs::read_to_string(&args.report)
        .with_context(|| format!("{path}: run `drystone-bench compare` first"))?;
    let results: Results =
        serde_json::from_str(&text).with_context(|| format!("{path} is no report of ours"))?;
    crate::say(&marks_text(&results))?;
    Ok(exit_code(&results, args.strict))
}
