//! `report.html`: one page that needs no network.

use std::fmt::Write;

use super::svg::{BarChart, LineChart, Series, escape, label};
use super::{Chart, Ending, Report};
use crate::measure::{Figures, IntervalFigures, SessionCount, StepFigures};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2em auto;padding:0 1em;color:#222}\
h1{font-size:1.6em}h2{font-size:1.25em;border-top:1px solid #ccc;padding-top:.8em;margin-top:2em}h3{font-size:1em}\
table{border-collapse:collapse;font-size:13px;margin:.6em 0;display:block;overflow-x:auto}th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid #e3e3e3;white-space:nowrap}\
th:first-child,td:first-child{text-align:left;white-space:normal;min-width:9em}th{background:#f4f4f4}svg{width:100%;height:auto;font:11px system-ui,sans-serif;margin:.5em 0}\
table.wide td,table.wide th{white-space:normal;text-align:left;vertical-align:top}svg .t{font-size:13px;font-weight:600}.verdict{padding:.7em 1em;border-left:5px solid #009e73;background:#eef7f3}\
.bad{border-color:#d55e00;background:#fdf1ea}.small{color:#666;font-size:13px}";

/// Lines of a table of details, at most.
const LINES_MAX: usize = 40;

/// What every page holds, of this and earlier versions.
pub(super) const MARK: &str = "<h2>How to read this</h2><p class=\"small\">IOPS are I/Os completed";

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let title = escape(&report.title);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    html += &verdict(report);
    html += &findings(report);
    report.charts.iter().for_each(|chart| html += &varied(chart));
    html += &facts(report);
    html += &overview(&report.steps);
    for step in &report.steps {
        html += &section(step);
    }
    html += READING;
    html += "</body></html>\n";
    html
}

const READING: &str = "<h2>How to read this</h2><p class=\"small\">IOPS are I/Os completed per second of the \
measured part, MB/s are 10<sup>6</sup> bytes. Latency is the time from handing an I/O to the device until its data or \
answer is there; where a rate was asked for, it is counted from when the I/O was due, so that a target that stands \
still is not flattered. p99 is the latency that 99 in 100 I/Os stayed below. A stall is a time in which a volume that \
had I/O to do finished none; if the lab itself did not run in that time, it says for how long. Retries are commands that \
the initiator sent once more: their I/Os took longer, and did not fail by it. CPU is user and system time in microseconds per I/O. Data that this run did not write cannot be compared.</p>\n";

/// What came of it, in two sentences.
fn verdict(report: &Report) -> String {
    let compared: u64 = report.steps.iter().map(|step| step.validation.compared_bytes).sum();
    let (wrong, errors) = (report.mismatch_count(), report.error_count());
    let stalls: usize = report.steps.iter().map(|step| step.stalls.len()).sum();
    let longest = report.steps.iter().map(|step| step.longest_pause_s).fold(0.0, f64::max);
    let frozen: f64 =
        report.steps.iter().flat_map(|step| &step.freezes).map(|freeze| freeze.seconds).sum();
    let frozen = match frozen > 0.0 {
        true => format!(
            " The lab itself did not run for {frozen:.3} s in all, which is not the target's."
        ),
        false => String::new(),
    };
    let is_checked = report.steps.iter().any(|step| step.validation.is_on);
    let data = match (is_checked, wrong) {
        (false, _) => "Data was not checked.".to_owned(),
        (true, 0) => format!("No wrong data in {} compared.", bytes(compared)),
        (true, wrong) => format!("{wrong} blocks held WRONG DATA."),
    };
    let ending = match report.ending {
        Ending::Complete => "",
        Ending::Unfinished => " The run is not finished.",
        Ending::Stopped => " The run was stopped before its end.",
        Ending::WrongData => " The run was ended because of the wrong data.",
    };
    let is_missed = report.findings.iter().any(|finding| finding.met == Some(false));
    let class = if wrong > 0 || errors > 0 || is_missed { "verdict bad" } else { "verdict" };
    format!(
        "<p class=\"{class}\">{data} {errors} I/Os failed. {stalls} stalls; the longest time in which a volume finished \
         nothing was {longest:.3} s.{frozen}{ending}</p>\n"
    )
}

/// What the paper found, and what was found here.
fn findings(report: &Report) -> String {
    let mut html = String::new();
    if report.findings.is_empty() {
        return html;
    }
    html +=
        "<table class=\"wide\"><tr><th>question</th><th>the paper</th><th>here</th><th></th></tr>";
    for finding in &report.findings {
        let verdict = match finding.met {
            Some(true) => "met",
            Some(false) => "<b>MISSED</b>",
            None => "",
        };
        let cells = [&finding.what, &finding.paper, &finding.ours].map(|text| escape(text));
        let _ = write!(html, "<tr><td>{}</td><td>{verdict}</td></tr>", cells.join("</td><td>"));
    }
    html + "</table>\n"
}

fn facts(report: &Report) -> String {
    let machine = &report.machine;
    let mut html = format!(
        "<p class=\"small\">{}, began {} UTC, on {} processors ({}), Linux {}.</p>\n",
        escape(&report.program),
        time(report.started_unix_s),
        machine.processors,
        escape(&machine.processor),
        escape(&machine.kernel)
    );
    html += &list("Volumes", report.volumes.iter().map(String::as_str));
    html += &list("Notes", report.notes.iter().map(String::as_str));
    html
}

fn list<'a>(heading: &str, lines: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = lines.len();
    if count == 0 {
        return String::new();
    }
    let shown: String = lines.take(LINES_MAX).fold(String::new(), |mut html, line| {
        let _ = write!(html, "<li>{}</li>", escape(line));
        html
    });
    format!("<h3>{heading}</h3><ul class=\"small\">{shown}</ul>{}\n", more(count))
}

fn more(count: usize) -> String {
    match count.checked_sub(LINES_MAX) {
        Some(rest) if rest > 0 => format!("<p class=\"small\">and {rest} more in results.json</p>"),
        _ => String::new(),
    }
}

fn overview(steps: &[StepFigures]) -> String {
    let mut html = "<h2>All steps</h2>\n".to_owned();
    let headings = [
        "step",
        "IOPS",
        "MB/s",
        "mean us",
        "p50",
        "p99",
        "max",
        "errors",
        "retries",
        "wrong",
        "stalls",
        "lab CPU",
        "target CPU",
    ];
    let rows = steps.iter().map(|step| {
        let total = &step.total;
        let mut row = vec![escape(&step.name)];
        row.push(format!("{:.0}", total.iops));
        row.push(format!("{:.2}", total.mb_per_s));
        let latencies = [total.mean_us, total.p50_us, total.p99_us, total.max_us];
        row.extend(latencies.map(|us| format!("{us:.0}")));
        row.push(step.error_count.to_string());
        row.push(step.retries.to_string());
        row.push(step.validation.mismatch_count.to_string());
        row.push(step.stalls.len().to_string());
        row.push(format!("{:.1}", step.lab_cpu_us_per_io));
        row.push(step.target_cpu_us_per_io.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}")));
        row
    });
    html += &table(&headings, rows);
    let measured: Vec<&StepFigures> =
        steps.iter().filter(|step| !step.intervals.is_empty()).collect();
    if (2..=60).contains(&measured.len()) {
        let groups = |of: &dyn Fn(&StepFigures) -> Vec<f64>| {
            measured.iter().map(|step| (step.name.clone(), of(step))).collect::<Vec<_>>()
        };
        let iops = BarChart {
            title: "I/Os per second (long is good)",
            unit: "IOPS",
            names: vec!["read", "write"],
            groups: groups(&|step| vec![step.read.iops, step.write.iops]),
        };
        let latency = BarChart {
            title: "Latency (short is good)",
            unit: "microseconds",
            names: vec!["mean", "p99"],
            groups: groups(&|step| vec![step.total.mean_us, step.total.p99_us]),
        };
        html += &iops.draw();
        html += &latency.draw();
    }
    html
}

const FIGURES: [&str; 8] = ["IOPS", "MB/s", "mean us", "p50", "p90", "p99", "p99.9", "max"];

fn cells(figures: &Figures) -> Vec<String> {
    let latencies = [
        figures.mean_us,
        figures.p50_us,
        figures.p90_us,
        figures.p99_us,
        figures.p999_us,
        figures.max_us,
    ];
    let mut cells = vec![format!("{:.0}", figures.iops), format!("{:.2}", figures.mb_per_s)];
    cells.extend(latencies.map(|us| format!("{us:.0}")));
    cells
}

fn section(step: &StepFigures) -> String {
    let mut html = format!("<h2>{}</h2>\n<p>{}", escape(&step.name), escape(&step.what));
    let _ = write!(
        html,
        "; measured for {:.1} s from {} UTC; {:.1} I/Os under way on average.",
        step.seconds,
        time(step.started_unix_s),
        step.mean_queue_depth
    );
    if let Some(asked) = step.asked_iops {
        let _ = write!(html, " Asked for {asked:.0} IOPS, got {:.0}.", step.total.iops);
    }
    html += "</p>\n";
    let is_mixed = step.read.ios > 0 && step.write.ios > 0;
    let kinds = [("read", &step.read), ("write", &step.write), ("both", &step.total)];
    let rows = kinds
        .iter()
        .filter(|(name, figures)| figures.ios > 0 && (*name != "both" || is_mixed))
        .map(|(name, figures)| [vec![(*name).to_owned()], cells(figures)].concat());
    html += &table(&[&[""], &FIGURES[..]].concat(), rows);
    html += &charts(step);
    html += &volumes(step);
    html += &paths(step);
    html += &troubles(step);
    html
}

/// Lines over what an experiment varied.
fn varied(chart: &Chart) -> String {
    let line = |(name, points): &(String, Vec<(f64, f64)>)| Series {
        name: name.clone(),
        points: points.clone(),
    };
    let Chart { title, unit, across, lines } = chart;
    let series = lines.iter().map(line).collect();
    LineChart { title, unit, across, series, shaded: Vec::new() }.draw()
}

/// Lines over the seconds of a step.
fn chart(title: &str, unit: &str, series: Vec<Series>, shaded: &[(f64, f64)]) -> String {
    LineChart { title, unit, across: "seconds", series, shaded: shaded.to_vec() }.draw()
}

fn charts(step: &StepFigures) -> String {
    type Of = fn(&IntervalFigures) -> f64;
    let line = |name: &str, of: Of| Series {
        name: name.to_owned(),
        points: step.intervals.iter().map(|interval| (interval.at_s, of(interval))).collect(),
    };
    let mut iops = Vec::new();
    if step.read.ios > 0 {
        iops.push(line("read", |interval| interval.read.iops));
    }
    if step.write.ios > 0 {
        iops.push(line("write", |interval| interval.write.iops));
    }
    let shaded: Vec<(f64, f64)> =
        step.stalls.iter().map(|stall| (stall.at_s, stall.at_s + stall.seconds)).collect();
    let has_stalls = if shaded.is_empty() { "" } else { " (shaded: stalls)" };
    let title = format!("I/Os per second{has_stalls}");
    let mut html = chart(&title, "IOPS", iops, &shaded);
    let latency = vec![
        line("p50", |interval| interval.total.p50_us),
        line("p99", |interval| interval.total.p99_us),
    ];
    html += &chart("Latency", "microseconds", latency, &shaded);
    let paths = step.intervals.iter().map(|interval| interval.path_iops.len()).max().unwrap_or(0);
    if (2..=6).contains(&paths) {
        let series = (0..paths).map(|path| Series {
            name: step
                .paths
                .get(path)
                .map_or_else(|| format!("path {path}"), |found| host_of(&found.path)),
            points: step
                .intervals
                .iter()
                .map(|interval| {
                    (interval.at_s, interval.path_iops.get(path).copied().unwrap_or(0.0))
                })
                .collect(),
        });
        html += &chart("Each path", "commands per second", series.collect(), &shaded);
    }
    html
}

/// `iscsi://host:port/name/0` without all but host and port.
fn host_of(path: &str) -> String {
    let rest = path.split_once("://").map_or(path, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest).to_owned()
}

fn volumes(step: &StepFigures) -> String {
    if step.volumes.len() < 2 {
        return String::new();
    }
    let rows = step
        .volumes
        .iter()
        .take(LINES_MAX)
        .map(|volume| [vec![escape(&volume.name)], cells(&volume.total)].concat());
    let mut html = "<h3>Each volume</h3>\n".to_owned();
    html += &table(&[&["volume"], &FIGURES[..]].concat(), rows);
    html + &more(step.volumes.len())
}

fn paths(step: &StepFigures) -> String {
    if step.paths.is_empty() {
        return String::new();
    }
    let rows = step.paths.iter().take(LINES_MAX).map(|path| {
        vec![
            escape(&path.path),
            escape(&path.volume),
            escape(&path.state),
            format!("{:.0}", path.iops),
            format!("{:.2}", path.mb_per_s),
            format!("{:.0}", path.latency_us),
            path.losses.to_string(),
            path.retries.to_string(),
        ]
    });
    let headings =
        ["path", "volume", "state", "commands/s", "MB/s", "latency us", "losses", "retries"];
    format!("<h3>Each path</h3>\n{}{}", table(&headings, rows), more(step.paths.len()))
}

fn troubles(step: &StepFigures) -> String {
    let mut html = String::new();
    if step.validation.mismatch_count > 0 {
        let again = match step.validation.again_count {
            0 => String::new(),
            count => format!(", {count} of them known from steps before"),
        };
        let heading = format!("Wrong data: {} blocks{again}", step.validation.mismatch_count);
        let lines: Vec<String> =
            step.validation.mismatches.iter().map(ToString::to_string).collect();
        html += &list(&heading, lines.iter().map(String::as_str));
    }
    if step.error_count > 0 {
        let lines: Vec<String> = step
            .errors
            .iter()
            .map(|error| {
                let end = error.at_bytes.saturating_add(error.len_bytes);
                format!(
                    "{:.3} s: {} {}, bytes {} to {end}: {}",
                    error.at_s, error.operation, error.volume, error.at_bytes, error.error
                )
            })
            .collect();
        html += &list(&format!("Errors: {}", step.error_count), lines.iter().map(String::as_str));
    }
    let short = step.sessions.filter(SessionCount::is_short).map(|count| count.to_string());
    html += &list("Sessions", short.as_deref().into_iter());
    html +=
        &list("Silent targets and broken protocols", step.target_faults.iter().map(String::as_str));
    let lines: Vec<String> =
        step.stalls.iter().map(|stall| format!("{:.3} s: {stall}", stall.at_s)).collect();
    html += &list(&format!("Stalls: {}", lines.len()), lines.iter().map(String::as_str));
    let lines: Vec<String> =
        step.freezes.iter().map(|freeze| format!("{:.3} s: {freeze}", freeze.at_s)).collect();
    let heading = format!("Times in which the lab did not run: {}", lines.len());
    html + &list(&heading, lines.iter().map(String::as_str))
}

fn table(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut html = "<table><tr>".to_owned();
    for heading in headings {
        let _ = write!(html, "<th>{heading}</th>");
    }
    html += "</tr>";
    for row in rows {
        html += "<tr>";
        for cell in row {
            let _ = write!(html, "<td>{cell}</td>");
        }
        html += "</tr>";
    }
    html + "</table>\n"
}

fn bytes(bytes: u64) -> String {
    format!("{}B", label(bytes as f64))
}

/// Hours, minutes and seconds; the day stands in results.json.
fn time(unix_s: u64) -> String {
    format!("{:02}:{:02}:{:02}", unix_s / 3600 % 24, unix_s / 60 % 60, unix_s % 60)
}
