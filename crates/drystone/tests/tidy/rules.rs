//! The rules that look at one file at a time.

use crate::source::{self, File, Kind};
use std::fmt;
use std::path::Path;

/// The longest production file.
const LINES_MAX: usize = 600;

/// How far above an `unsafe` its reason may stand: a long statement may lie between.
const REASON_LINES_MAX: usize = 12;

/// Something to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    /// At a line of a file, counted from 1.
    pub(crate) fn at(file: &File, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: file.path.clone(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// From a file to what is wrong with it.
pub(crate) type Rule = fn(&File) -> Vec<Finding>;

/// Production files have at most 600 lines.
pub(crate) fn length(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().count();
    if lines <= LINES_MAX {
        return Vec::new();
    }
    let what = format!(
        "{lines} lines are more than {LINES_MAX}: split it by concept, or move its tests to a file of their own"
    );
    vec![Finding::at(file, lines, what)]
}

/// The rooms that talk to the kernel and to vector registers.
const UNSAFE_ROOMS: [&str; 2] = ["ring", "parity"];

/// `unsafe` only in those rooms, and there with its reason.
pub(crate) fn unsafe_code(file: &File) -> Vec<Finding> {
    let tokens = source::tokens_of(&source::code_of(&file.text));
    let lines: Vec<_> = file.text.lines().collect();
    let mut findings = Vec::new();
    for pair in tokens.windows(2) {
        let [(line, word), (_, next)] = pair else { continue };
        if word != "unsafe" {
            continue;
        }
        let above = &lines[line.saturating_sub(REASON_LINES_MAX + 1)..*line];
        let says = |reason: &str| above.iter().any(|text| text.contains(reason));
        if !file.room().is_some_and(|room| UNSAFE_ROOMS.contains(&room)) {
            findings.push(Finding::at(
                file,
                *line,
                "`unsafe` outside `ring`: use or add a safe call of `ring`",
            ));
        } else if matches!(next.as_str(), "{" | "impl") && !says("SAFETY:") {
            findings.push(Finding::at(
                file,
                *line,
                "`unsafe` without `// SAFETY:` above it: say why it holds",
            ));
        }
    }
    findings
}

/// Macros that stand in for code, and words that put work off.
pub(crate) fn leftovers(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let tokens = source::tokens_of(&source::code_of(&file.text));
    for window in tokens.windows(3) {
        let [(line, first), (_, second), (_, third)] = window else { continue };
        if matches!(first.as_str(), "todo" | "unimplemented" | "dbg") && second == "!" {
            let what = format!("`{first}!` is left in: finish it or take it out");
            findings.push(Finding::at(file, *line, what));
        }
        if first == "#" && second == "[" && third == "ignore" {
            let what = "an ignored test proves nothing: make it run or delete it";
            findings.push(Finding::at(file, *line, what));
        }
    }
    // Words of comments and strings: cut in two here, so that this file does not hold them.
    for word in [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")] {
        for (line, text) in file.text.lines().enumerate() {
            if source::tokens_of(text).iter().any(|(_, token)| token == word) {
                let what = format!("`{word}` is left in: do it now or open an issue");
                findings.push(Finding::at(file, line + 1, what));
            }
        }
    }
    findings
}

/// No tabs, nothing behind the last character of a line, one line end at the end of a file.
pub(crate) fn whitespace(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in file.text.split('\n').enumerate() {
        if text.contains('\t') {
            findings.push(Finding::at(file, line + 1, "a tab: write spaces, or \\t in a string"));
        }
        if text.ends_with(char::is_whitespace) {
            findings.push(Finding::at(
                file,
                line + 1,
                "blanks at the end of the line: delete them",
            ));
        }
    }
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        let line = file.text.lines().count();
        findings.push(Finding::at(file, line, "the file must end with exactly one line end"));
    }
    findings
}

/// Nothing points to directories that a user's clone does not have.
pub(crate) fn outside_references(file: &File) -> Vec<Finding> {
    let outside = [concat!("../", "shared"), concat!(".", "library"), concat!("/work", "/")];
    let mut findings = Vec::new();
    for (line, text) in file.text.lines().enumerate() {
        for place in outside.iter().filter(|place| text.contains(**place)) {
            let what = format!("`{place}` is not in a clone: copy what is needed, or leave it out");
            findings.push(Finding::at(file, line + 1, what));
        }
    }
    findings
}

/// Relative links of Markdown files lead to files that exist.
pub(crate) fn links(file: &File) -> Vec<Finding> {
    let here = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    let mut fenced = false;
    for (line, text) in file.text.lines().enumerate() {
        if text.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            let elsewhere = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
            if !elsewhere && !source::root().join(here).join(path).exists() {
                let what = format!("the link to `{link}` leads nowhere: correct it");
                findings.push(Finding::at(file, line + 1, what));
            }
        }
    }
    findings
}

/// The part of a production file that is not its inline tests.
pub(crate) fn without_inline_tests(file: &File) -> &str {
    let tests =
        if file.kind == Kind::Production { file.text.find("#[cfg(test)]\nmod ") } else { None };
    tests.map_or(&file.text, |at| &file.text[..at])
}
