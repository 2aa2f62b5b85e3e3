//! `drystone doctor`: looks at a machine as the server of a SAN, and says what to do.

mod disks;
mod moves;
mod network;
mod slices;
mod system;

use crate::advice::Advised;
use crate::cli::doctor::DoctorArgs;
use crate::daemon::{self, Look};
use crate::{Failure, print};
use anyhow::anyhow;
use member::data::DataError;
use serde::Serialize;

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Severity {
    /// As it should be.
    Good,
    /// A member runs, and could run better.
    Warning,
    /// A member does not start.
    Error,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    /// What was looked at, in a word or two.
    about: String,
    severity: Severity,
    /// What was found.
    found: String,
    /// What to do.
    advice: Option<String>,
}

impl Finding {
    fn good(about: &str, found: impl Into<String>) -> Finding {
        let (about, found) = (about.to_owned(), found.into());
        Finding { about, severity: Severity::Good, found, advice: None }
    }

    fn warning(about: &str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        let advice = Some(advice.into());
        Finding { severity: Severity::Warning, advice, ..Finding::good(about, found) }
    }

    fn error(about: &str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { severity: Severity::Error, ..Finding::warning(about, found, advice) }
    }
}

/// Looks, and prints what was found.
///
/// # Errors
/// Something stands in the way of a member.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let Look { portals, refused, is_in_group } = match &args.config {
        Some(path) => daemon::look(path)?,
        None => Look { portals: args.portals.clone(), refused: None, is_in_group: false },
    };
    let refused = refused.iter().map(refused_by_data).collect();
    let system = system::look(is_in_group);
    let (moves, slices) = (moves::look(&args.socket), slices::look(&args.socket));
    let looks = [system, network::look(&portals), disks::look(), moves, slices, refused];
    let findings: Vec<Finding> = looks.into_iter().flatten().collect();
    match args.json {
        true => print::json(&findings)?,
        false => print::out(&text(&findings))?,
    }
    match findings.iter().filter(|it| it.severity == Severity::Error).count() {
        0 => Ok(()),
        1 => Err(anyhow!("a member does not start here: mend the error above").into()),
        n => Err(anyhow!("a member does not start here: mend the {n} errors above").into()),
    }
}

fn refused_by_data(error: &DataError) -> Finding {
    Finding {
        advice: error.advice(),
        ..Finding::error("data directory", error.to_string(), String::new())
    }
}

/// What matters most comes last, where people look first.
fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|it| it.about.len()).max().unwrap_or(0);
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    let mut text = String::new();
    for Finding { about, severity, found, advice } in sorted {
        let mark = match severity {
            Severity::Good => "good   ",
            Severity::Warning => "warning",
            Severity::Error => "error  ",
        };
        let advice = advice.as_ref().map_or_else(String::new, |advice| format!(": {advice}"));
        text.push_str(&format!("{mark}  {about:width$}  {found}{advice}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_most_comes_last() {
        let findings = [
            Finding::error("kernel", "Linux 5.10", "use 6.1 or newer"),
            Finding::good("io_uring", "is allowed"),
            Finding::warning("clock", "not known to be right", "run chrony"),
        ];
        assert_eq!(
            text(&findings),
            "good     io_uring  is allowed\n\
             warning  clock     not known to be right: run chrony\n\
             error    kernel    Linux 5.10: use 6.1 or newer\n"
        );
    }
}
