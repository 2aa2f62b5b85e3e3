//! Tests of what needs no server.

use clap::Parser;
use serde_json::json;

use super::bed::files;
use super::rebuild::runs;
use super::sheet::Line;
use super::*;
use crate::cli::{Cli, Command};
use crate::report::Verdict;
use crate::suite::Run;

fn args(line: &str) -> Box<ArrayArgs> {
    let words = ["drystone-bench", "array"].into_iter().chain(line.split_ascii_whitespace());
    match Cli::try_parse_from(words).unwrap().command {
        Command::Array(args) => args,
        other => panic!("{other:?}"),
    }
}

fn run(iops: f64, errors: u64) -> Run {
    Run {
        iops,
        mb_per_s: iops * 4096.0 / 1e6,
        latency_us_mean: None,
        latency_us_p50: Some(100.0),
        latency_us_p99: Some(200.0),
        target_cpu_us_per_io: 2.0,
        client_cpu_us_per_io: 1.0,
        target_core: 0.9,
        client_core: 0.5,
        client_waited: 0.0,
        session_share_min: 1.0,
        errors,
    }
}

fn line(entrant: &str, runs: Vec<Run>) -> Line {
    Line { work: "work", entrant: entrant.to_owned(), runs, failures: Vec::new() }
}

fn sheet(parts: Vec<Part>) -> Sheet {
    let mut sheet = Sheet::new(Facts::gather("not set"), "Method.".to_owned());
    sheet.parts = parts;
    sheet
}

#[test]
fn an_unknown_part_and_a_missing_program_are_refused() {
    let stop = AtomicBool::new(false);
    let error = array(&args("--parts memory,cheese"), &stop).unwrap_err().to_string();
    assert!(error.contains("no part cheese: there are memory, sequential"), "{error}");
    let error = array(&args("--drystone /nonexistent"), &stop).unwrap_err().to_string();
    assert!(error.contains("cargo build --release"), "{error}");
}

#[test]
fn a_mark_compares_medians_and_needs_sound_runs() {
    let mut part = Part::new("key", "Title");
    part.lines = vec![
        line("bare", vec![run(1000.0, 0), run(900.0, 0), run(5000.0, 0)]),
        line("volume", vec![run(850.0, 0), run(700.0, 0), run(900.0, 0)]),
        line("broken", vec![run(9000.0, 0), run(9000.0, 1)]),
    ];
    let iops = |name: &str| part.figure("work", name, |run| run.iops);
    let (bare, volume, broken) = (iops("bare"), iops("volume"), iops("broken"));
    assert_eq!((bare, volume, broken), (Some(1000.0), Some(850.0), None));
    assert_eq!(part.figure("other", "bare", |run| run.iops), None);
    part.mark("near", volume, bare, 0.8, "IOPS");
    part.mark("nearer", volume, bare, 0.9, "IOPS");
    part.mark("unknown", broken, bare, 0.8, "IOPS");
    let verdicts: Vec<_> = part.marks.iter().map(|mark| mark.verdict).collect();
    assert_eq!(verdicts, [Verdict::Met, Verdict::Missed, Verdict::Unknown]);
    assert_eq!(part.marks[0].found, "0.85 (850 of 1000 IOPS)");
    assert!(!sheet(vec![part]).all_met());
}

#[test]
fn the_sheet_tells_all_of_it() {
    let mut part = Part::new("key", "A question");
    part.note("Six disks.");
    part.lines = vec![line("bare", vec![run(1234.0, 0)]), line("volume", Vec::new())];
    part.lines[1].failures.push("it burns".to_owned());
    part.mark("near", Some(2.0), Some(1.0), 0.8, "IOPS");
    let mut lost = Part::new("lost", "Another");
    lost.trouble = Some("no such kernel".to_owned());
    let sheet = sheet(vec![part, lost]);
    assert!(!sheet.all_met(), "a part is missing");
    let text = sheet.markdown();
    for piece in [
        "## A question",
        "- Six disks.",
        "| work | bare | 1234 | 5.1 | 100 | 200 | 2.00 |",
        "| work | volume | - | - | - | - | - |",
        "work, volume: it burns",
        "| near: at least 0.8 | 2.00 (2 of 1 IOPS) | met |",
        "**Not measured: no such kernel**",
    ] {
        assert!(text.contains(piece), "{piece}\n{text}");
    }
    assert!(sheet.marks_text().contains("not run   lost: no such kernel"));
    let directory = std::env::temp_dir().join(format!("drystone-sheet-{}", std::process::id()));
    sheet.write(&directory).unwrap();
    let json = std::fs::read_to_string(directory.join("array.json")).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["parts"].is_array());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_rebuild_is_told_from_other_work() {
    assert!(!runs(&json!([])));
    assert!(!runs(&json!([{"kind": "scrub"}])));
    assert!(runs(&json!([{"kind": "scrub"}, {"kind": "rebuild", "done_bytes": 1}])));
    assert!(runs(&json!({"jobs": [{"kind": "rebuild"}]})));
    assert!(!runs(&json!(null)));
}

#[test]
fn disks_are_written_as_drystone_takes_them() {
    let names = files("/dev/shm/x".as_ref(), 2, 3 << 30);
    assert_eq!(names, ["/dev/shm/x/disk-0:3072M", "/dev/shm/x/disk-1:3072M"]);
}

#[test]
fn questions_have_different_names() {
    let mut keys = QUESTIONS.map(|(key, ..)| key).to_vec();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), QUESTIONS.len());
}
