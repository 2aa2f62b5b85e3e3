//! What came out, for people and for programs.

use std::fmt::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::client::{Client, Run};
use crate::cli::LabPart;
use crate::report::Verdict;
use crate::suite::median;

/// All runs of one client.
#[derive(Debug)]
pub(super) struct Line {
    part: LabPart,
    client: String,
    mark: Option<f64>,
    pub(super) runs: Vec<Run>,
}

impl Line {
    pub(super) fn new(part: LabPart, client: &Client) -> Self {
        Self { part, client: client.name(), mark: client.mark, runs: Vec::new() }
    }

    fn iops(&self) -> f64 {
        median(self.runs.iter().map(|run| run.iops)).unwrap_or(f64::NAN)
    }

    fn us_per_read(&self) -> f64 {
        median(self.runs.iter().map(|run| run.us_per_read)).unwrap_or(f64::NAN)
    }
}

/// All lines; the first of each part is what the others of it are compared with.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) lines: Vec<Line>,
    /// Parts that could not be run, and why.
    pub(super) missing: Vec<(LabPart, String)>,
}

impl Table {
    /// I/Os of a core, and I/Os of a run, both to those of the first client of the part.
    fn ratios(&self, line: &Line) -> (f64, f64) {
        let first = self.lines.iter().find(|other| other.part == line.part).unwrap_or(line);
        (first.us_per_read() / line.us_per_read(), line.iops() / first.iops())
    }

    fn verdict(&self, line: &Line) -> Option<Verdict> {
        let is_met = self.ratios(line).0 >= line.mark?;
        Some(if is_met { Verdict::Met } else { Verdict::Missed })
    }

    /// Nothing was missed, and nothing left out.
    pub(super) fn all_met(&self) -> bool {
        let is_missed = |line: &Line| self.verdict(line) == Some(Verdict::Missed);
        self.missing.is_empty() && !self.lines.iter().any(is_missed)
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{:<6} {:<26} {:>9} {:>11} {:>9} {:>9} {:>5}\n",
            "part", "client", "IOPS", "us per read", "per core", "IOPS to", "mark"
        );
        for line in &self.lines {
            let (per_core, iops) = self.ratios(line);
            let mark = line.mark.map_or(String::new(), |mark| format!("{mark:.2}"));
            let verdict = self.verdict(line).map_or("", Verdict::text);
            let row = format!(
                "{:<6} {:<26} {:>9.0} {:>11.2} {per_core:>9.2} {iops:>9.2} {mark:>5} {verdict}",
                name(line.part),
                line.client,
                line.iops(),
                line.us_per_read()
            );
            writeln!(text, "{}", row.trim_end()).expect("a String takes any text");
        }
        for (part, why) in &self.missing {
            writeln!(text, "{:<6} not run: {why}", name(*part)).expect("a String takes any text");
        }
        text.push_str(
            "per core: reads for each second of processor time, to those of the part's first line\n",
        );
        text
    }

    pub(super) fn json(&self) -> Result<String> {
        let line = |line: &Line| {
            let (per_core, iops) = self.ratios(line);
            json!({
                "part": line.part,
                "client": line.client,
                "iops": line.iops(),
                "us_per_read": line.us_per_read(),
                "reads_per_core_to_first": per_core,
                "iops_to_first": iops,
                "mark": line.mark,
                "verdict": self.verdict(line),
                "runs": line.runs,
            })
        };
        let missing =
            |(part, why): &(LabPart, String)| json!({ "part": part, "not_run": why.as_str() });
        let lines: Vec<Value> =
            self.lines.iter().map(line).chain(self.missing.iter().map(missing)).collect();
        Ok(format!("{}\n", serde_json::to_string_pretty(&lines)?))
    }
}

fn name(part: LabPart) -> &'static str {
    match part {
        LabPart::Iscsi => "iscsi",
        LabPart::File => "file",
        LabPart::Nbd => "nbd",
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::Kind;
    use super::*;

    fn table(us_per_read: [f64; 3]) -> Table {
        let line = |part, us_per_read, mark| Line {
            runs: [9.0, us_per_read, 0.5]
                .map(|us_per_read| Run { iops: 1e6 / us_per_read, us_per_read })
                .into(),
            ..Line::new(part, &Client::new(Kind::Lab, String::new(), mark))
        };
        let [first, second, third] = us_per_read;
        let lines = vec![
            line(LabPart::Iscsi, first, None),
            line(LabPart::Iscsi, second, Some(0.9)),
            line(LabPart::Nbd, third, None),
        ];
        Table { lines, missing: vec![] }
    }

    #[test]
    fn medians_are_compared_with_the_first_line_of_their_part() {
        let met = table([1.8, 2.0, 7.0]);
        assert!(met.all_met());
        assert!(met.text().lines().nth(2).unwrap().ends_with("0.90      0.90  0.90 met"));
        let missed = table([1.7, 2.0, 0.6]);
        assert!(!missed.all_met());
        assert!(missed.text().lines().nth(2).unwrap().ends_with("0.85      0.85  0.90 MISSED"));
        let json: Value = serde_json::from_str(&missed.json().unwrap()).unwrap();
        assert_eq!(json[1]["verdict"], "missed");
        assert_eq!(json[2]["verdict"], Value::Null);
        assert_eq!(json[0]["us_per_read"], 1.7);
    }

    #[test]
    fn a_part_that_was_not_run_is_no_success() {
        let mut table = table([1.0, 1.0, 1.0]);
        table.missing.push((LabPart::File, "no fio".to_owned()));
        assert!(!table.all_met());
        assert!(table.text().contains("file   not run: no fio\n"));
    }
}
