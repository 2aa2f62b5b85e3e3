//! Tests of the report.

use super::marks::Verdict;
use super::*;
use crate::machine::Facts;
use crate::suite::{Cell, Idle, ROWS, Run, TargetInfo};

/// A report in which CPU per I/O is 2 us on the floor, and for the others what is given.
fn results(ours_us: f64, tgt_us: f64) -> Results {
    let targets = ["plain", "ours-ram", "ours-file", "tgt"];
    let mut cells = Vec::new();
    for row in ROWS {
        for target in targets {
            let us = match target {
                "plain" => 2.0,
                "tgt" => tgt_us,
                _ => ours_us,
            };
            let run = Run {
                iops: 900_000.0 / us,
                mb_per_s: 10.0,
                latency_us_p50: Some(33.3),
                target_cpu_us_per_io: us,
                client_cpu_us_per_io: 1.0,
                target_core: 0.95,
                client_core: 0.4,
                session_share_min: 0.9,
                ..Run::default()
            };
            cells.push(Cell {
                row: row.key.into(),
                title: row.title.into(),
                target: target.into(),
                client: "lean".into(),
                runs: vec![run],
                failures: Vec::new(),
            });
        }
    }
    let target = |name: &&str| TargetInfo {
        name: (*name).into(),
        what: format!("{name} of the test"),
        skipped: None,
    };
    let idle = Idle {
        target: "ours-ram".into(),
        core_alone: Some(0.0001),
        sessions: 1000,
        session_bytes: Some(20_480.0),
        core_sessions: Some(0.0002),
        failure: None,
    };
    Results {
        facts: Facts::gather("cubic"),
        method: "by test".into(),
        targets: targets.iter().map(target).collect(),
        cells,
        idle: vec![idle],
    }
}

#[test]
fn good_figures_meet_every_mark() {
    let found = marks::check(&results(2.0, 20.0));
    let missed: Vec<_> = found.iter().filter(|mark| mark.verdict != Verdict::Met).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    assert_eq!(found.len(), 21);
    assert_eq!(exit_code(&results(2.0, 20.0), true), ExitCode::SUCCESS);
}

#[test]
fn bad_figures_miss_theirs_and_only_strict_fails() {
    let bad = results(10.0, 20.0);
    let missed = marks::check(&bad).iter().filter(|mark| mark.verdict == Verdict::Missed).count();
    // Both over the floor; SPDK's but depth 1 and the two large ones; both CPU ratios.
    assert_eq!(missed, 2 + 4 + 2, "{}", marks_text(&bad));
    assert_eq!(exit_code(&bad, false), ExitCode::SUCCESS);
    assert_eq!(exit_code(&bad, true), ExitCode::FAILURE);
}

#[test]
fn every_mark_can_be_missed() {
    let mut bad = results(100.0, 20.0);
    for cell in bad.cells.iter_mut().filter(|cell| cell.row == "fair-45") {
        cell.runs[0].session_share_min = 0.1;
        cell.runs[0].iops /= 2.0;
    }
    bad.idle[0].session_bytes = Some(70_000.0);
    bad.idle[0].core_alone = Some(0.01);
    bad.idle[0].core_sessions = Some(0.01);
    let met = marks::check(&bad).into_iter().filter(|mark| mark.verdict == Verdict::Met);
    assert_eq!(met.count(), 0);
}

#[test]
fn what_was_not_run_is_not_met() {
    let mut empty = results(2.0, 20.0);
    empty.cells.clear();
    empty.idle.clear();
    assert!(marks::check(&empty).iter().all(|mark| mark.verdict == Verdict::Unknown));
    assert_eq!(exit_code(&empty, true), ExitCode::FAILURE);
}

#[test]
fn a_full_client_excuses_the_rate_but_not_at_depth_1() {
    let mut full = results(8.0, 8.8);
    for cell in &mut full.cells {
        cell.runs[0].client_core = 0.97;
    }
    let verdict = |start: &str| {
        let found = marks::check(&full);
        found.iter().find(|mark| mark.title.starts_with(start)).unwrap().verdict
    };
    assert_eq!(verdict("4 KiB reads, ours-file: at least 2 times the rate"), Verdict::Met);
    assert_eq!(verdict("4 KiB reads at depth 1, ours-file"), Verdict::Missed);
}

#[test]
fn the_table_shows_ratios_limits_and_what_is_wrong() {
    let mut results = results(2.0, 20.0);
    results.targets[3].skipped = Some("the moon is full".into());
    results.cells[1].failures.push("it fell over".into());
    results.cells[2].runs[0].errors = 3;
    results.cells[2].runs[0].client_waited = 0.25;
    let text = markdown::render(&results);
    for part in [
        "| ours-ram | 450000 | 10 | 33.3 | - | 2.00 | 1.00 | 95 % | 40 % | target core full | 10.00 | 0.10 | 1.00 |",
        "**Not measured: the moon is full**",
        "**3 I/Os failed**",
        "disturbed, 25 % of the client's core",
        "it fell over",
        "| ours-ram | 0.010 % | 1000 | 20.0 KiB | 0.020 % |  |",
        "Share of the least served session",
        "![I/Os per second (long is good)](iops.svg)",
        "TCP congestion control cubic",
    ] {
        assert!(text.contains(part), "{part}\n---\n{text}");
    }
}

#[test]
fn charts_have_a_bar_for_every_target_and_row() {
    let results = results(2.0, 20.0);
    for figure in chart::FIGURES {
        let svg = chart::draw(&results, &figure).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("ours-file"));
        // The background, and one bar for each of four targets in each row.
        assert_eq!(svg.matches("<rect").count(), 1 + 4 * ROWS.len());
    }
}

#[test]
fn reports_are_written_and_read_again() {
    let directory = std::env::temp_dir().join(format!("drystone-bench-re-{}", std::process::id()));
    let results = results(2.0, 20.0);
    write(&results, &directory).unwrap();
    let json = std::fs::read_to_string(directory.join("latest.json")).unwrap();
    assert_eq!(serde_json::from_str::<Results>(&json).unwrap(), results);
    for name in ["latest.md", "cpu.svg", "iops.svg"] {
        assert!(directory.join(name).metadata().unwrap().len() > 100, "{name}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
