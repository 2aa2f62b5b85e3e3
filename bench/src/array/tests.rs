//! Tests of what needs no server.

use std::time::Duration;

use clap::Parser;
use serde_json::json;

use super::bed::files;
use super::cache::{Cold, Lookups};
use super::column::{LONGEST, P999, Rounds, SILENT, TAILS};
use super::durable::WRITES;
use super::rebuild::runs;
use super::sheet::{Asked, Line};
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
        latency_us_p999: Some(300.0),
        latency_us_max: Some(400.0),
        silent_seconds: Some(0),
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
    line_of("work", entrant, runs)
}

fn line_of(work: &'static str, entrant: &str, runs: Vec<Run>) -> Line {
    Line { work, entrant: entrant.to_owned(), runs, failures: Vec::new() }
}

fn verdicts(part: &Part) -> Vec<Verdict> {
    part.marks.iter().map(|mark| mark.verdict).collect()
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
    assert_eq!(verdicts(&part), [Verdict::Met, Verdict::Missed, Verdict::Unknown]);
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

#[test]
fn a_cost_has_a_limit_above_it() {
    let mut part = Part::new("key", "Title");
    for found in [1.14, 1.16] {
        part.compare("cost", (Some(found), Some(1.0)), Asked::AtMost(1.15), "us");
    }
    part.compare("cost", (None, Some(1.0)), Asked::AtMost(1.15), "us");
    assert_eq!(verdicts(&part), [Verdict::Met, Verdict::Missed, Verdict::Unknown]);
    assert_eq!(part.marks[0].title, "cost: at most 1.15");
    assert_eq!(part.marks[0].found, "1.14 (1.14 of 1.00 us)");
}

#[test]
fn what_is_rare_is_not_lost_in_a_median() {
    assert_eq!(Rounds::Median.fold([1.0, 9.0, 2.0]), Some(2.0));
    assert_eq!(Rounds::Worst.fold([1.0, 9.0, 2.0]), Some(9.0));
    assert_eq!(Rounds::Sum.fold([1.0, 9.0, 2.0]), Some(12.0));
    for rounds in [Rounds::Median, Rounds::Worst, Rounds::Sum] {
        assert_eq!(rounds.fold([]), None);
    }
    let stalled = Run {
        latency_us_p999: Some(5e4),
        latency_us_max: Some(2.5e6),
        silent_seconds: Some(2),
        ..run(10.0, 0)
    };
    let runs = [run(10.0, 0), stalled, run(10.0, 0), Run::default()];
    assert_eq!((P999.of(&runs), LONGEST.of(&runs)), (Some(5e4), Some(2.5e6)));
    assert_eq!(SILENT.of(&runs), Some(2.0));
    let mut part = Part::new("key", "Title");
    part.columns = TAILS;
    part.lines = vec![line("raid5", runs.to_vec())];
    let text = sheet(vec![part]).markdown();
    assert!(text.contains("| p99.9 us, worst round | longest us | seconds without an answer |"));
    assert!(text.contains("| 100 | 200 | 50000 | 2500000 | 2 | 2.00 |"), "{text}");
}

#[test]
fn writes_are_judged_by_their_worst_round() {
    let lines = |runs: &[Run]| {
        let of = |level| line_of(WRITES.title, level, runs.to_vec());
        ["raid10", "raid5", "raid6"].map(of).to_vec()
    };
    let judge = |lines: Vec<Line>, length: Duration| {
        let mut part = Part::new("writes", "Title");
        part.lines = lines;
        writes::marks(&mut part, length);
        part
    };
    let (second, good) = (Duration::from_secs(4), run(10.0, 0));
    let part = judge(lines(&[good.clone(), good.clone()]), second);
    assert_eq!(verdicts(&part), [Verdict::Met; 6]);
    assert_eq!(part.marks[0].found, "0.3 ms, the longest answer 0.4 ms");
    assert_eq!(part.marks[1].found, "0 of 8 seconds");
    let slow = Run { latency_us_p999: Some(20_000.0), silent_seconds: Some(1), ..good.clone() };
    let part = judge(lines(&[good.clone(), slow, good.clone()]), second);
    assert_eq!(verdicts(&part), [Verdict::Missed; 6]);
    assert_eq!(part.marks[1].found, "1 of 12 seconds");
    // Half a second says nothing about whole ones.
    let part = judge(lines(std::slice::from_ref(&good)), Duration::from_millis(500));
    assert_eq!(verdicts(&part), [Verdict::Met, Verdict::Unknown].repeat(3));
    // Nor does what broke off, or failed.
    let mut broken = lines(std::slice::from_ref(&good));
    broken[0].failures.push("I/Os in flight did not come back".to_owned());
    broken[1].runs.push(run(10.0, 1));
    broken.pop();
    assert_eq!(verdicts(&judge(broken, second)), [Verdict::Unknown; 6]);
}

#[test]
fn the_long_way_is_one_round_of_ten_minutes() {
    let here = std::env::current_exe().unwrap();
    let settings = |more: &str| {
        let mut args = args(&format!("--rounds 2 --seconds 3 --client-core 1 {more}"));
        args.drystone.clone_from(&here);
        Settings::new(&args)
    };
    assert_eq!(settings("").unwrap().endurance(), (2, Duration::from_secs(3)));
    assert_eq!(settings("--long").unwrap().endurance(), (1, Duration::from_secs(600)));
    let error = settings("--before /nonexistent").unwrap_err().to_string();
    assert!(error.contains("--before: /nonexistent is not there"), "{error}");
}

#[test]
fn hot_reads_have_four_bars_for_each_level() {
    let (reads_title, stream_title) = ("4 KiB random read, depth 32", "256 KiB sequential read");
    let reads = |entrant, iops, us| {
        let run = Run { target_cpu_us_per_io: us, ..run(iops, 0) };
        line_of(reads_title, entrant, vec![run])
    };
    let stream =
        |entrant, mb_per_s| line_of(stream_title, entrant, vec![Run { mb_per_s, ..run(1.0, 0) }]);
    let mut part = Part::new("cache", "Title");
    part.lines = vec![
        reads("ram", 500.0, 2.0),
        reads("file", 400.0, 3.0),
        reads("tgt on btrfs", 100.0, 9.0),
        reads("raid10", 400.0, 2.3),
        reads("raid5", 399.0, 2.4),
        stream("ram", 1000.0),
        stream("raid10", 900.0),
        stream("raid5", 899.0),
    ];
    cache::hot_marks(&mut part);
    let expected = [[Verdict::Met; 4], [Verdict::Missed; 4]].concat();
    assert_eq!(verdicts(&part), expected, "{:#?}", part.marks);
    // Without btrfs the other bars are judged all the same.
    part.lines.retain(|line| line.entrant != "tgt on btrfs");
    part.marks.clear();
    cache::hot_marks(&mut part);
    assert_eq!(verdicts(&part)[..4], [Verdict::Met, Verdict::Met, Verdict::Unknown, Verdict::Met]);
}

#[test]
fn misses_are_compared_with_an_older_binary_only_where_there_is_one() {
    let mut part = Part::new("cache", "Title");
    for level in ["raid10", "raid5"] {
        for (cold, iops) in [(Cold::Misses, 98.0), (Cold::NotCached, 100.0), (Cold::Before, 102.0)]
        {
            let name = cache::cold_name(level, cold);
            part.lines.push(line_of("4 KiB random read that misses", &name, vec![run(iops, 0)]));
        }
    }
    cache::cold_marks(&mut part, true);
    assert_eq!(verdicts(&part), [Verdict::Met, Verdict::Missed].repeat(2));
    part.marks.clear();
    cache::cold_marks(&mut part, false);
    assert_eq!(verdicts(&part), [Verdict::Met; 2]);
}

#[test]
fn hits_are_those_of_the_time_between() {
    let at = |hits, misses| cache::lookups(&json!({"cache_hits": hits, "cache_misses": misses}));
    assert_eq!(at(10, 90), Some(Lookups { hits: 10, misses: 90 }));
    assert_eq!(cache::lookups(&json!({"iqn": "iqn.x"})), None, "a drystone without a cache");
    assert_eq!(cache::hit_percent(at(10, 90), at(40, 100)), Some(75.0));
    assert_eq!(cache::hit_percent(at(10, 90), at(10, 90)), None);
    assert_eq!(cache::hit_percent(at(10, 90), at(0, 1)), None, "the counters began anew");
    assert_eq!(cache::hit_percent(None, at(10, 90)), None);
}

#[test]
fn a_full_client_is_told() {
    let full = Run { client_core: 0.95, ..run(10.0, 0) };
    let lines = [line("ram", vec![run(10.0, 0), full]), line("raid5", vec![run(10.0, 0)])];
    let note = cache::full_client(&lines).unwrap();
    assert!(note.ends_with("the server may do more: ram (work)."), "{note}");
    assert_eq!(cache::full_client(&lines[1..]), None);
}
