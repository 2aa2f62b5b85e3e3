//! The table for people.

use std::fmt::Write;

use super::{FLOOR, REFERENCE, chart, marks};
use crate::suite::{Cell, Limit, Results, Run};

/// Others had the client's core for more of the time than this: the run was not undisturbed.
const DISTURBED: f64 = 0.03;

/// The whole report.
pub(super) fn render(results: &Results) -> String {
    let mut out = String::new();
    head(results, &mut out);
    for (row, title) in rows(results) {
        table(results, row, title, &mut out);
    }
    rest(results, &mut out);
    marks_table(results, &mut out);
    failures(results, &mut out);
    out
}

/// Writing into a String cannot fail; this says so once.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {
        writeln!($out, $($argument)*).expect("a String takes any text")
    };
}

fn head(results: &Results, out: &mut String) {
    let facts = &results.facts;
    line!(
        out,
        "# Side by side\n\n{}. {}, {} cores, {:.0} GiB, Linux {}; TCP congestion control {}.\n",
        facts.date,
        facts.cpu,
        facts.cores,
        facts.memory_gib,
        facts.kernel,
        facts.congestion
    );
    line!(out, "{}\n", results.method);
    line!(out, "| target | what it is |\n|---|---|");
    for target in &results.targets {
        let skipped = target.skipped.as_ref().map(|why| format!(" **Not measured: {why}**"));
        line!(out, "| {} | {}.{} |", target.name, target.what, skipped.unwrap_or_default());
    }
    line!(out, "");
    for figure in chart::FIGURES {
        line!(out, "![{}]({})", figure.title, figure.file);
    }
    line!(out, "\nFigures of one hour compare with each other only: quote the ratios.");
}

/// Key and title of each row that has cells, in order of appearance.
pub(super) fn rows(results: &Results) -> Vec<(&str, &str)> {
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for cell in &results.cells {
        if !rows.iter().any(|(key, _)| *key == cell.row) {
            rows.push((&cell.row, &cell.title));
        }
    }
    rows
}

fn table(results: &Results, row: &str, title: &str, out: &mut String) {
    let cells: Vec<&Cell> = results.cells.iter().filter(|cell| cell.row == row).collect();
    let find =
        |name: &str| cells.iter().find(|cell| cell.target == name).and_then(|cell| cell.median());
    let (reference, floor) = (find(REFERENCE), find(FLOOR));
    line!(out, "\n## {title}\n");
    line!(
        out,
        "| target | IOPS | MB/s | p50 us | p99 us | target CPU us/IO | client CPU us/IO | target core \
         | client core | limited by | IOPS to {REFERENCE} | CPU to {REFERENCE} | CPU to {FLOOR} |"
    );
    line!(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|");
    for cell in &cells {
        match cell.median() {
            Some(run) => table_line(cell, &run, reference.as_ref(), floor.as_ref(), out),
            None => line!(out, "| {} | failed | | | | | | | | | | | |", cell.target),
        }
    }
    let shares: Vec<String> = cells
        .iter()
        .filter_map(|cell| Some((cell, cell.median()?)))
        .filter(|(_, run)| row.starts_with("fair-4") && run.session_share_min > 0.0)
        .map(|(cell, run)| format!("{} {:.0} %", cell.target, run.session_share_min * 100.0))
        .collect();
    if !shares.is_empty() {
        line!(out, "\nShare of the least served session, of what is fair: {}.", shares.join(", "));
    }
}

fn table_line(
    cell: &Cell,
    run: &Run,
    reference: Option<&Run>,
    floor: Option<&Run>,
    out: &mut String,
) {
    let maybe = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let ratio = |of: fn(&Run) -> f64, to: Option<&Run>| {
        maybe(to.map(|to| of(run) / of(to)).filter(|ratio| ratio.is_finite()), 2)
    };
    let mut limit = Limit::of(run.client_core, run.target_core).text().to_owned();
    if run.client_waited > DISTURBED {
        limit.push_str(&format!(
            "; disturbed, {:.0} % of the client's core",
            run.client_waited * 100.0
        ));
    }
    if run.errors > 0 {
        limit.push_str(&format!("; **{} I/Os failed**", run.errors));
    }
    line!(
        out,
        "| {} | {:.0} | {:.0} | {} | {} | {:.2} | {:.2} | {:.0} % | {:.0} % | {limit} | {} | {} | {} |",
        cell.target,
        run.iops,
        run.mb_per_s,
        maybe(run.latency_us_p50, 1),
        maybe(run.latency_us_p99, 1),
        run.target_cpu_us_per_io,
        run.client_cpu_us_per_io,
        run.target_core * 100.0,
        run.client_core * 100.0,
        ratio(|run| run.iops, reference),
        ratio(|run| run.target_cpu_us_per_io, reference),
        ratio(|run| run.target_cpu_us_per_io, floor),
    );
}

fn rest(results: &Results, out: &mut String) {
    if results.idle.is_empty() {
        return;
    }
    let percent = |core: Option<f64>| {
        core.map_or_else(|| "-".to_owned(), |core| format!("{:.3} %", core * 100.0))
    };
    line!(out, "\n## At rest\n");
    line!(
        out,
        "| target | core, no session | idle sessions | memory of each | core, with them | |"
    );
    line!(out, "|---|--:|--:|--:|--:|---|");
    for idle in &results.idle {
        let kib = idle
            .session_bytes
            .map_or_else(|| "-".to_owned(), |bytes| format!("{:.1} KiB", bytes / 1024.0));
        line!(
            out,
            "| {} | {} | {} | {kib} | {} | {} |",
            idle.target,
            percent(idle.core_alone),
            idle.sessions,
            percent(idle.core_sessions),
            idle.failure.as_deref().unwrap_or("")
        );
    }
}

fn marks_table(results: &Results, out: &mut String) {
    line!(out, "\n## Marks\n\n| mark | found | |\n|---|---|---|");
    for mark in marks::check(results) {
        line!(out, "| {} | {} | {} |", mark.title, mark.found, mark.verdict.text());
    }
}

fn failures(results: &Results, out: &mut String) {
    let failed: Vec<&Cell> =
        results.cells.iter().filter(|cell| !cell.failures.is_empty()).collect();
    if failed.is_empty() {
        return;
    }
    line!(out, "\n## What went wrong\n");
    for cell in failed {
        line!(out, "- {}, {}: {}", cell.target, cell.title, cell.failures.join("; "));
    }
}
