//! What came out, for people and for programs.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::column::{Column, USUAL};
use crate::machine::Facts;
use crate::report::{Mark, Verdict};
use crate::suite::{Run, median};

/// The whole report.
#[derive(Debug, Serialize)]
pub(super) struct Sheet {
    facts: Facts,
    method: String,
    pub(super) parts: Vec<Part>,
}

/// One question and its answer.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    key: &'static str,
    title: &'static str,
    /// What was set up, a sentence each.
    pub(super) notes: Vec<String>,
    pub(super) lines: Vec<Line>,
    pub(super) marks: Vec<Mark>,
    /// Why there is no more of it.
    pub(super) trouble: Option<String>,
    /// What its table shows of each line.
    #[serde(skip)]
    pub(super) columns: &'static [Column],
}

/// What a ratio has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Asked {
    AtLeast(f64),
    AtMost(f64),
}

/// All runs of one entrant at one work.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Line {
    pub(super) work: &'static str,
    pub(super) entrant: String,
    pub(super) runs: Vec<Run>,
    pub(super) failures: Vec<String>,
}

impl Line {
    pub(super) fn new(work: &'static str, entrant: &str) -> Self {
        Self { work, entrant: entrant.to_owned(), runs: Vec::new(), failures: Vec::new() }
    }

    /// Whether no I/O of any run failed.
    pub(super) fn is_sound(&self) -> bool {
        self.runs.iter().all(|run| run.errors == 0)
    }

    fn middle(&self, figure: impl Fn(&Run) -> f64) -> Option<f64> {
        median(self.runs.iter().map(figure))
    }
}

impl Part {
    pub(super) fn new(key: &'static str, title: &'static str) -> Self {
        Self {
            key,
            title,
            notes: Vec::new(),
            lines: Vec::new(),
            marks: Vec::new(),
            trouble: None,
            columns: USUAL,
        }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The median of a figure of `entrant` at `work`, if it ran without a failed I/O.
    pub(super) fn figure(
        &self,
        work: &str,
        entrant: &str,
        figure: impl Fn(&Run) -> f64,
    ) -> Option<f64> {
        let line = self.line(work, entrant)?;
        line.is_sound().then(|| line.middle(figure)).flatten()
    }

    /// All runs of `entrant` at `work`.
    pub(super) fn line(&self, work: &str, entrant: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.work == work && line.entrant == entrant)
    }

    /// Notes whether `found` is at least `asked` times `of`.
    pub(super) fn mark(
        &mut self,
        title: impl Into<String>,
        found: Option<f64>,
        of: Option<f64>,
        asked: f64,
        unit: &str,
    ) {
        self.compare(title, (found, of), Asked::AtLeast(asked), unit);
    }

    /// Notes whether the first figure is to the second as asked.
    pub(super) fn compare(
        &mut self,
        title: impl Into<String>,
        (found, of): (Option<f64>, Option<f64>),
        asked: Asked,
        unit: &str,
    ) {
        let outcome = found.zip(of).map(|(found, of)| {
            let ratio = found / of;
            // What must stay below something is a cost of a few microseconds.
            let (met, digits) = match asked {
                Asked::AtLeast(least) => (ratio >= least, 0),
                Asked::AtMost(most) => (ratio <= most, 2),
            };
            (met, format!("{ratio:.2} ({found:.digits$} of {of:.digits$} {unit})"))
        });
        let asked = match asked {
            Asked::AtLeast(least) => format!("at least {least}"),
            Asked::AtMost(most) => format!("at most {most}"),
        };
        self.marks.push(Mark::new(format!("{}: {asked}", title.into()), outcome));
    }
}

/// Writing into a String cannot fail; this says so once.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {
        writeln!($out, $($argument)*).expect("a String takes any text")
    };
}

impl Sheet {
    pub(super) fn new(facts: Facts, method: String) -> Self {
        Self { facts, method, parts: Vec::new() }
    }

    fn all_marks(&self) -> impl Iterator<Item = &Mark> {
        self.parts.iter().flat_map(|part| &part.marks)
    }

    pub(super) fn all_met(&self) -> bool {
        self.parts.iter().all(|part| part.trouble.is_none())
            && self.all_marks().all(|mark| mark.verdict == Verdict::Met)
    }

    /// The marks as text, one line each.
    pub(super) fn marks_text(&self) -> String {
        let mut text = String::new();
        for mark in self.all_marks() {
            line!(text, "{:<9} {}: {}", mark.verdict.text(), mark.title, mark.found);
        }
        for part in &self.parts {
            if let Some(trouble) = &part.trouble {
                line!(text, "not run   {}: {trouble}", part.key);
            }
        }
        text
    }

    /// Writes `array.md` and `array.json` into `directory`.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        let put = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))
        };
        fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        put("array.json", &format!("{}\n", serde_json::to_string_pretty(self)?))?;
        put("array.md", &self.markdown())
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = String::new();
        let facts = &self.facts;
        line!(
            out,
            "# The array\n\n{}. {}, {} cores, {:.0} GiB, Linux {}; TCP congestion control {}.\n",
            facts.date,
            facts.cpu,
            facts.cores,
            facts.memory_gib,
            facts.kernel,
            facts.congestion
        );
        line!(
            out,
            "{} Quote the ratios: figures of one hour compare with each other only.",
            self.method
        );
        for part in &self.parts {
            part.markdown(&mut out);
        }
        out
    }
}

impl Part {
    fn markdown(&self, out: &mut String) {
        line!(out, "\n## {}\n", self.title);
        for note in &self.notes {
            line!(out, "- {note}");
        }
        if let Some(trouble) = &self.trouble {
            line!(out, "- **Not measured: {trouble}**");
        }
        if !self.lines.is_empty() {
            let titles: Vec<&str> = self.columns.iter().map(|column| column.title).collect();
            line!(out, "\n| work | entrant | {} |", titles.join(" | "));
            line!(out, "|---|---|{}", "--:|".repeat(titles.len()));
        }
        for line in &self.lines {
            let figures = self.columns.iter().map(|column| column.text(&line.runs));
            let figures = figures.collect::<Vec<_>>().join(" | ");
            line!(out, "| {} | {} | {figures} |", line.work, line.entrant);
        }
        for line in self.lines.iter().filter(|line| !line.failures.is_empty()) {
            line!(out, "\n{}, {}: {}", line.work, line.entrant, line.failures.join("; "));
        }
        if !self.marks.is_empty() {
            line!(out, "\n| mark | found | |\n|---|---|---|");
        }
        for mark in &self.marks {
            line!(out, "| {} | {} | {} |", mark.title, mark.found, mark.verdict.text());
        }
    }
}
