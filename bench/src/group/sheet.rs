//! What came out, for people and for programs.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::machine::Facts;
use crate::report::{Mark, Verdict};
use crate::suite::median;

/// Who all ratios are to.
pub(super) const ALONE: &str = "in no group";

/// The whole report.
#[derive(Debug)]
pub(super) struct Sheet {
    facts: Facts,
    method: String,
    pub(super) parts: Vec<Part>,
}

/// One question and its answer.
#[derive(Debug)]
pub(super) struct Part {
    key: String,
    title: &'static str,
    /// What was set up, a sentence each.
    notes: Vec<String>,
    pub(super) lines: Vec<Line>,
    pub(super) marks: Vec<Mark>,
    /// Why there is no more of it.
    pub(super) trouble: Option<String>,
}

/// One figure of one that took part, as often as it was taken.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) work: &'static str,
    pub(super) entrant: String,
    pub(super) unit: &'static str,
    pub(super) values: Vec<f64>,
}

impl Line {
    pub(super) fn new(work: &'static str, entrant: &str, unit: &'static str) -> Self {
        Self { work, entrant: entrant.to_owned(), unit, values: Vec::new() }
    }

    pub(super) fn median(&self) -> Option<f64> {
        median(self.values.iter().copied())
    }

    /// What 99 of a hundred are not above; of fewer than a hundred it is the most.
    pub(super) fn p99(&self) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * 99).div_ceil(100);
        sorted.get(rank.checked_sub(1)?).copied()
    }

    pub(super) fn most(&self) -> Option<f64> {
        self.values.iter().copied().reduce(f64::max)
    }
}

impl Part {
    pub(super) fn new(key: &str, title: &'static str) -> Self {
        Self {
            key: key.to_owned(),
            title,
            notes: Vec::new(),
            lines: Vec::new(),
            marks: Vec::new(),
            trouble: None,
        }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    pub(super) fn line(&self, work: &str, entrant: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.work == work && line.entrant == entrant)
    }

    pub(super) fn median(&self, work: &str, entrant: &str) -> Option<f64> {
        self.line(work, entrant)?.median()
    }

    /// Notes whether a figure is at most as large as it may be.
    pub(super) fn at_most(&mut self, title: &str, found: Option<f64>, most: f64, unit: &str) {
        let outcome = found.map(|found| (found <= most, format!("{found:.2} {unit}")));
        self.marks.push(Mark::new(format!("{title}: at most {most} {unit}"), outcome));
    }

    /// How a line's median is to that of the member in no group, where there is one.
    fn to_alone(&self, line: &Line) -> Option<f64> {
        let of = self.median(line.work, ALONE).filter(|of| *of > 0.0)?;
        (line.entrant != ALONE).then(|| line.median()).flatten().map(|found| found / of)
    }

    fn json(&self) -> Value {
        let line = |line: &Line| {
            json!({
                "work": line.work,
                "entrant": line.entrant,
                "unit": line.unit,
                "times": line.values.len(),
                "median": line.median(),
                "p99": line.p99(),
                "most": line.most(),
                "to_no_group": self.to_alone(line),
                "values": line.values,
            })
        };
        let lines: Vec<Value> = self.lines.iter().map(line).collect();
        json!({
            "key": self.key,
            "title": self.title,
            "notes": self.notes,
            "lines": lines,
            "marks": self.marks,
            "trouble": self.trouble,
        })
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

    /// Writes `group.md` and `group.json` into `directory`.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        let put = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))
        };
        fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        let parts: Vec<Value> = self.parts.iter().map(Part::json).collect();
        let all = json!({"facts": self.facts, "method": self.method, "parts": parts});
        put("group.json", &format!("{}\n", serde_json::to_string_pretty(&all)?))?;
        put("group.md", &self.markdown())
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = String::new();
        let facts = &self.facts;
        line!(
            out,
            "# The group\n\n{}. {}, {} cores, {:.0} GiB, Linux {}; TCP congestion control {}.\n",
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
            line!(out, "\n| work | entrant | | median | p99 | times | to {ALONE} |");
            line!(out, "|---|---|---|--:|--:|--:|--:|");
        }
        for line in &self.lines {
            let text = |figure: Option<f64>| figure.map_or("-".to_owned(), figures);
            let ratio = self.to_alone(line).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            line!(
                out,
                "| {} | {} | {} | {} | {} | {} | {ratio} |",
                line.work,
                line.entrant,
                line.unit,
                text(line.median()),
                text(line.p99()),
                line.values.len()
            );
        }
        if !self.marks.is_empty() {
            line!(out, "\n| mark | found | |\n|---|---|---|");
        }
        for mark in &self.marks {
            line!(out, "| {} | {} | {} |", mark.title, mark.found, mark.verdict.text());
        }
    }
}

/// A number as a table shows it: no digits that nobody could see again.
fn figures(number: f64) -> String {
    match number.abs() {
        large if large >= 1000.0 => format!("{number:.0}"),
        middle if middle >= 10.0 => format!("{number:.1}"),
        small if small >= 0.1 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}
