//! A question before something is lost.

use crate::cli::manage::Confirm;
use anyhow::{Context, bail};
use std::io::{self, BufRead, IsTerminal, Write};

/// Asks `question` unless the command line has answered it. The error is that it is not to be.
pub(super) fn confirm(args: &Confirm, question: &str) -> anyhow::Result<()> {
    if args.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        bail!("{question} There is no terminal to ask at: write --yes to say so");
    }
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).context("cannot ask")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    if is_yes(&answer) { Ok(()) } else { bail!("nothing was changed") }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::is_yes;

    #[test]
    fn only_yes_is_yes() {
        for yes in ["y\n", "Yes\n", " YES "] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yep\n", "yn"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
