//! Files of a run: written, read again, and holding the numbers that were measured.

use super::*;
use crate::check::{Mismatch, Seen};
use crate::measure::{Figures, Freeze, IntervalFigures, IoError, Stall, Validation};
use crate::workload::vdbench;

fn figures(iops: f64) -> Figures {
    Figures {
        ios: (iops * 10.0) as u64,
        iops,
        mb_per_s: iops * 4096.0 / 1e6,
        mean_us: 100.0,
        p50_us: 90.0,
        p90_us: 150.0,
        p99_us: 300.0,
        p999_us: 700.0,
        max_us: 1234.0,
    }
}

fn interval(at: usize, iops: f64) -> IntervalFigures {
    IntervalFigures {
        at_s: at as f64,
        seconds: 1.0,
        read: figures(iops),
        write: Figures::default(),
        total: figures(iops),
        errors: 0,
        queue_depth: 8,
        path_iops: Vec::new(),
    }
}

/// A step of ten seconds, with so many IOPS in each of them.
fn step(name: &str, iops: &[f64]) -> StepFigures {
    let mean = iops.iter().sum::<f64>() / iops.len() as f64;
    StepFigures {
        name: name.to_owned(),
        what: "a <test>".to_owned(),
        started_unix_s: 1_795_262_400,
        seconds: iops.len() as f64,
        asked_iops: None,
        read: figures(mean),
        write: Figures::default(),
        total: figures(mean),
        mean_queue_depth: 8.0,
        lab_cpu_us_per_io: 2.5,
        target_cpu_us_per_io: None,
        volumes: Vec::new(),
        paths: Vec::new(),
        intervals: iops.iter().enumerate().map(|(at, iops)| interval(at + 1, *iops)).collect(),
        retries: 0,
        sessions: None,
        error_count: 0,
        errors: Vec::new(),
        stalls: Vec::new(),
        longest_pause_s: 0.0,
        longest_pause_frozen_s: 0.0,
        freezes: Vec::new(),
        target_faults: Vec::new(),
        validation: Validation { is_on: true, ..Validation::default() },
        was_stopped: false,
    }
}

fn report(steps: Vec<StepFigures>) -> Report {
    let script = vdbench::parse("sd=s,lun=x\nwd=w,sd=s\nrd=a,wd=w\nrd=b,wd=w\n").unwrap();
    Report { steps, ..Report::new("a <title>", &script, vec!["s on x".to_owned()]) }
}

#[test]
fn what_is_saved_is_read_again_and_can_be_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/inside");
    let stopped = StepFigures { was_stopped: true, ..step("b", &[5.0; 10]) };
    let saved = report(vec![step("a", &[1000.0; 10]), stopped]);
    ResultsDirectory::take(&path).unwrap().save(&saved).unwrap();
    assert_eq!(Report::load(&path).unwrap(), saved);
    let done = saved.resumable(&path).unwrap().unwrap();
    assert_eq!(done.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["a"]);
    let unchecked = saved.clone().made("--no-validation");
    assert_eq!(unchecked.resumable(&path).unwrap(), None, "measured in another way");
    assert_eq!(saved.clone().made(""), saved);
    let other = Report { fingerprint: "0".to_owned(), ..saved };
    assert_eq!(other.resumable(&path).unwrap(), None);
    assert_eq!(other.resumable(directory.path()).unwrap(), None);
    let names: Vec<_> =
        fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn files_that_are_no_results_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.json");
    assert!(matches!(Report::load(&path), Err(ReportError::Io { .. })));
    fs::write(&path, "{\"format\":99}").unwrap();
    assert!(matches!(Report::load(&path), Err(ReportError::Later { found: 99, .. })));
    fs::write(&path, "{\"format\":1}").unwrap();
    assert!(matches!(Report::load(directory.path()), Err(ReportError::Form { .. })));
    let file = directory.path().join("results.json/deeper");
    assert!(matches!(ResultsDirectory::take(&file), Err(ReportError::Io { action: "make", .. })));
}

#[test]
fn the_flatfile_has_a_line_for_each_interval_and_as_many_fields_in_all() {
    let text = csv::flatfile(&report(vec![step("a, b", &[1000.0, 2000.0])]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    let columns = lines[0].split(',').count();
    for line in &lines[1..] {
        assert!(line.starts_with("\"a, b\","), "{line}");
        assert_eq!(line.split(',').count(), columns + 1, "one comma is quoted: {line}");
    }
    let fields: Vec<&str> = lines[3].split(',').skip(2).collect();
    assert_eq!((fields[0], fields[4], fields[5]), ("all", "1500.000", "6.144"));
}

#[test]
fn the_page_shows_the_numbers_and_the_troubles() {
    let mut bad = step("r xfersize=4k", &[1000.0, 2000.0, 3000.0]);
    bad.error_count = 2;
    bad.retries = 5;
    bad.errors = vec![IoError {
        at_s: 1.5,
        volume: "s".to_owned(),
        operation: "write".to_owned(),
        at_bytes: 4096,
        len_bytes: 4096,
        error: "the device cannot be reached".to_owned(),
    }];
    bad.stalls = vec![Stall { at_s: 1.0, volume: "s".to_owned(), seconds: 0.75, frozen_s: 0.25 }];
    bad.longest_pause_s = 0.75;
    bad.freezes = vec![Freeze { at_s: 1.125, seconds: 0.25, cpu_s: 0.01 }];
    bad.validation.mismatch_count = 1;
    bad.validation.mismatches = vec![Mismatch {
        volume: "s".to_owned(),
        lba: 8,
        at_bytes: 4096,
        expected: 7,
        written_unix_ns: 1,
        seen: Seen::Zeroes,
        found_unix_ns: 2,
    }];
    let page = html::page(&report(vec![bad, step("second", &[10.0; 3])]));
    for part in [
        "1 blocks held WRONG DATA. 2 I/Os failed. 1 stalls; the longest time in which a volume finished nothing was 0.750 s.",
        "<td>r xfersize=4k</td><td>2000</td><td>8.19</td><td>100</td><td>90</td><td>300</td><td>1234</td><td>2</td><td>5</td><td>1</td><td>1</td>",
        "<td>read</td><td>2000</td><td>8.19</td><td>100</td><td>90</td><td>150</td><td>300</td><td>700</td><td>1234</td>",
        "1.500 s: write s, bytes 4096 to 8192: the device cannot be reached",
        "s LBA 8 (byte 4096): expected write 7",
        "1.000 s: s finished nothing for 0.750 s, of which the lab itself did not run for 0.250 s",
        "1.125 s: the lab itself did not run for 0.250 s",
        "was 0.750 s. The lab itself did not run for 0.250 s in all",
        "a &lt;title&gt;",
        "The run is not finished.",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<test>") && !page.contains("http:") && !page.contains("src="));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.matches("<polyline").count() >= 3, "charts over time");
}

#[test]
fn only_differences_beyond_the_noise_are_told() {
    let quiet = |base: f64| (0..20).map(|n| base + f64::from(n % 3)).collect::<Vec<_>>();
    let loud =
        |base: f64| (0..20).map(|n| base + f64::from(n * 7919 % 13) * 60.0).collect::<Vec<_>>();
    let verdict = |a: &[f64], b: &[f64]| {
        let (all, alone) = compare(&report(vec![step("s", a)]), &report(vec![step("s", b)]));
        assert!(alone.is_empty());
        all.iter().find(|one| one.metric == Metric::Iops).unwrap().clone()
    };
    assert_eq!(verdict(&quiet(1000.0), &quiet(1100.0)).verdict, Verdict::Better);
    assert_eq!(verdict(&quiet(1000.0), &quiet(900.0)).verdict, Verdict::Worse);
    assert_eq!(verdict(&quiet(1000.0), &quiet(1001.0)).verdict, Verdict::Noise);
    assert_eq!(verdict(&loud(1000.0), &loud(1040.0)).verdict, Verdict::Noise);
    assert_eq!(verdict(&[1000.0; 3], &[900.0; 3]).verdict, Verdict::TooShort);
    // The figure that is shown is the one that decides.
    let within = verdict(&loud(1000.0), &loud(1040.0));
    assert!(within.change.abs() <= within.noise, "{within:?}");
    assert_eq!(verdict(&[1000.0; 10], &[1009.0; 10]).noise, 0.01);
    let change = verdict(&quiet(1000.0), &quiet(1100.0)).change;
    assert!((change - 0.1).abs() < 0.001, "{change}");
    let (_, alone) = compare(&report(vec![step("x", &[1.0])]), &report(vec![step("y", &[1.0])]));
    assert_eq!(alone, ["x is in A only", "y is in B only"]);
}

#[test]
fn trouble_of_either_side_and_other_work_are_told() {
    let (good, mut bad) = (report(vec![step("s", &[10.0; 3])]), step("s", &[20.0; 3]));
    let complete = |steps| Report { ending: Ending::Complete, ..report(steps) };
    let good = Report { ending: Ending::Complete, ..good };
    assert_eq!((troubles(&good, &good), differences(&good, &good)), (vec![], vec![]));
    bad.error_count = 11;
    bad.validation.mismatch_count = 3;
    bad.stalls = vec![Stall { at_s: 1.0, volume: "s".to_owned(), seconds: 0.75, frozen_s: 0.0 }];
    bad.what = "a test; 200 IOPS".to_owned();
    let bad = Report {
        ending: Ending::WrongData,
        volumes: vec!["s on y".to_owned()],
        ..complete(vec![bad])
    };
    let told = "s: 3 blocks held WRONG DATA; 11 I/Os failed; 1 stalls, the longest of 0.750 s";
    assert_eq!(
        troubles(&good, &bad),
        ["B: wrong data ended the run".to_owned(), format!("B: {told}")]
    );
    assert_eq!(
        differences(&good, &bad),
        ["A worked on s on x; B on s on y", "s: in A a <test>; in B a test; 200 IOPS"]
    );
    let other = Report { fingerprint: "0".to_owned(), ..good.clone() };
    assert_eq!(differences(&good, &other).len(), 1);
}
