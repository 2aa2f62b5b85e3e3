//! libiscsi's own suite (`iscsi-test-cu`) against the real binary, on every kind of disk.
//!
//! The suite counts a test that skips as passed, so its verdict is not enough: what each test says
//! is read. Those that may skip stand in `conformance-skips.txt` with their reasons.

mod common;

use common::member::Home;
use common::{Export, file_spec, finish_within};
use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// How long one run of the suite may take. On an idle machine the longest takes some 70 s, since
/// its tests sleep a lot.
const LIMIT: Duration = Duration::from_secs(300);

/// Data may be lost; failures show in the exit code; all that a test says is shown, for only then
/// does it say of every skip.
const FLAGS: &[&str] = &["--dataloss", "--fail", "--verbose", "--Verbose-scsi"];

/// Without this one, the tests of SANITIZE skip.
const SANITIZE: &str = "--allow-sanitize";

const SKIPS: &str = include_str!("conformance-skips.txt");

/// How a test of the suite ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// It passed, but said that it skipped all or a part of what it is for.
    Skipped,
    Failed,
    /// It never ended.
    Hung,
}

/// One test of the suite and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Test {
    verdict: Verdict,
    said: String,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last lines tell what went wrong.
        let lines: Vec<_> = self.said.lines().collect();
        let tail = &lines[lines.len().saturating_sub(15)..];
        write!(f, "{:?}\n{}", self.verdict, tail.join("\n"))
    }
}

/// Tests by name, as in `SCSI.Read10.Simple`.
type Tests = BTreeMap<String, Test>;

/// Reads the suite's output. A test begins with its name; its verdict is the first line, or the
/// rest of that with the name, that begins with `passed` or `FAILED`. Behind it may stand what
/// the next test's set-up says.
fn parse(family: &str, output: &str) -> Tests {
    let output = output.split("\nRun Summary:").next().expect("a split has a first part");
    let mut tests = Tests::new();
    for suite in output.split("\nSuite: ").skip(1) {
        let mut parts = suite.split("\n  Test: ");
        let suite = parts.next().expect("a split has a first part").trim();
        for part in parts {
            let (name, said) = part.split_once(" ...").unwrap_or((part, ""));
            let verdict = match said.lines().find_map(verdict_of) {
                Some(Verdict::Passed) if said.contains("[SKIPPED]") => Verdict::Skipped,
                verdict => verdict.unwrap_or(Verdict::Hung),
            };
            let name = format!("{family}.{suite}.{name}");
            tests.insert(name, Test { verdict, said: said.to_owned() });
        }
    }
    tests
}

fn verdict_of(line: &str) -> Option<Verdict> {
    if line.starts_with("passed") {
        Some(Verdict::Passed)
    } else {
        line.starts_with("FAILED").then_some(Verdict::Failed)
    }
}

/// The number of tests that the suite's summary says have run.
fn ran(output: &str) -> Option<usize> {
    let summary = output.split("\nRun Summary:").nth(1)?;
    let tests = summary.lines().find(|line| line.trim_start().starts_with("tests"))?;
    tests.split_whitespace().nth(2)?.parse().ok()
}

/// A disk by its two paths.
type Paths = [String; 2];

/// Runs the tests that `pattern` names (`FAMILY[.SUITE[.TEST]]`, with wildcards) over both paths.
fn run(paths: &Paths, pattern: &str, flags: &[&str]) -> Tests {
    let mut command = Command::new("iscsi-test-cu");
    command.args(FLAGS).args(flags).args(["--test", pattern]).args(paths);
    let (output, in_time) = match finish_within(&mut command, LIMIT) {
        Ok(output) => (output, true),
        Err(output) => (output, false),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let family = pattern.split('.').next().expect("a split has a first part");
    let tests = parse(family, &text);
    let bad: Vec<_> = tests
        .iter()
        .filter(|(_, test)| matches!(test.verdict, Verdict::Failed | Verdict::Hung))
        .map(|(name, test)| format!("{name}: {test}"))
        .collect();
    assert!(bad.is_empty(), "{command:?}\n{}", bad.join("\n"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(in_time, "{command:?} took longer than {LIMIT:?}: {said}");
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
    assert_eq!(ran(&text), Some(tests.len()), "{command:?}: a test ran that was not understood");
    tests
}

/// The names in `conformance-skips.txt`.
fn may_skip() -> Vec<&'static str> {
    let lines = SKIPS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let name_of = |line: &'static str| {
        let (name, reason) = line.split_once(' ').unwrap_or((line, ""));
        assert!(!reason.trim().is_empty(), "{name} may not skip without a reason");
        name
    };
    lines.map(name_of).collect()
}

/// A disk with two portals, for the tests of multipath. A test of the suite that sleeps for a
/// minute does not answer a NOP-In.
fn export(spec: &str) -> Export {
    let portals = ["--portal", "127.0.0.1:0", "--portal", "127.0.0.1:0"];
    Export::start(&[spec], &[&portals[..], &["--keepalive", "600"]].concat())
}

fn paths(export: &Export) -> Paths {
    [export.url_by(0, 0), export.url_by(1, 0)]
}

/// All tests but two, which run on disks of their own below.
fn conforms(scsi: &str, iscsi: &str) {
    let (scsi, iscsi) = (export(scsi), export(iscsi));
    all_pass(&paths(&scsi), &paths(&iscsi));
    scsi.stop();
    iscsi.stop();
}

/// A volume conforms as a disk does.
fn volumes_conform(options: &[&str]) {
    let home = Home::files(6, "512M");
    let member = home.start(&["--portal", "127.0.0.1:0", "--keepalive", "600"]);
    let paths = ["scsi", "iscsi"].map(|name| {
        member.run(&[&["volume", "create", name, "100M"], options].concat());
        let iqn = member.iqn(name);
        [0, 1].map(|portal| format!("iscsi://{}/{iqn}/0", member.portals()[portal]))
    });
    all_pass(&paths[0], &paths[1]);
    assert_eq!(member.json(&["array", "check"])["problems"].as_array().map(Vec::len), Some(0));
    member.stop();
}

fn all_pass(scsi: &Paths, iscsi: &Paths) {
    let mut tests = thread::scope(|scope| {
        let iscsi = scope.spawn(|| run(iscsi, "iSCSI", &[]));
        let mut tests = run(scsi, "SCSI", &[]);
        // All of Sanitize but Reset; the patterns know no "not".
        for pattern in ["[!R]*", "Readonly", "Reservations"] {
            tests.extend(run(scsi, &format!("SCSI.Sanitize.{pattern}"), &[SANITIZE]));
        }
        tests.extend(iscsi.join().expect("its test did not fail"));
        tests
    });
    for elsewhere in ["SCSI.Sanitize.Reset", "SCSI.ReadOnly.ReadOnlySBC"] {
        let test = tests.remove(elsewhere).expect("the suite has this test");
        assert_eq!(test.verdict, Verdict::Skipped, "{elsewhere}: {test}");
    }
    assert!(tests.len() >= 228, "libiscsi 1.19 has 230 tests, not {}", tests.len() + 2);
    let listed = may_skip();
    let skipped = tests.iter().filter(|(_, test)| test.verdict == Verdict::Skipped);
    let new: Vec<_> = skipped.filter(|(name, _)| !listed.contains(&name.as_str())).collect();
    assert!(new.is_empty(), "skips that are not in conformance-skips.txt: {new:#?}");
    let is_stale = |name: &&&str| tests.get(**name).is_none_or(|t| t.verdict != Verdict::Skipped);
    let stale: Vec<_> = listed.iter().filter(is_stale).collect();
    assert!(stale.is_empty(), "no longer skipped, but in conformance-skips.txt: {stale:?}");
}

/// Runs one test that must not skip.
fn passes(spec: &str, pattern: &str, flags: &[&str]) {
    let export = export(spec);
    let tests = run(&paths(&export), pattern, flags);
    assert_eq!(tests.len(), 1, "{pattern}");
    let test = &tests[pattern];
    assert_eq!(test.verdict, Verdict::Passed, "{pattern}: {test}");
    export.stop();
}

#[test]
fn a_disk_in_memory_conforms() {
    conforms("ram:100M", "ram:100M");
}

#[test]
fn a_file_conforms() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let spec = |name| file_spec(dir.path(), name, "100M");
    conforms(&spec("scsi"), &spec("iscsi"));
}

#[test]
fn blocks_of_4096_bytes_conform() {
    conforms("ram:100M,block=4096", "ram:100M,block=4096");
}

#[test]
fn a_thin_volume_of_raid5_conforms() {
    volumes_conform(&["--raid", "raid5"]);
}

#[test]
fn a_volume_of_raid10_and_4096_byte_blocks_conforms() {
    volumes_conform(&["--raid", "raid10", "--block", "4096", "--cache", "volatile"]);
}

#[test]
fn a_read_only_disk_conforms() {
    passes("ram:100M,ro", "SCSI.ReadOnly.ReadOnlySBC", &[]);
}

/// The test wants to see SANITIZE under way for five seconds, so it needs a large disk; then it
/// looks once a minute whether it has ended.
#[test]
fn a_begun_sanitize_outlives_every_reset() {
    passes("null:16T", "SCSI.Sanitize.Reset", &[SANITIZE]);
}

#[test]
fn the_suite_is_understood() {
    let output = "
Suite: Read10
  Test: Simple ...passed
  Test: Residuals ...passed    [FAILED] said by the next set-up
    and more of it
  Test: Long ...
    Write and read
    [FAILED] but wanted
passed
  Test: Part ...    [SKIPPED] a part
passed
  Test: Bad ...FAILED
    1. file.c:1  - CU_ASSERT
Suite: Last
  Test: Stuck ...
    Write and
Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      2      2    n/a      0        0
               tests      6      6      4      2        0
";
    let tests = parse("SCSI", output);
    let verdict = |name: &str| tests[name].verdict;
    assert_eq!(tests.len(), 6);
    assert_eq!(verdict("SCSI.Read10.Simple"), Verdict::Passed);
    assert_eq!(verdict("SCSI.Read10.Residuals"), Verdict::Passed);
    assert_eq!(verdict("SCSI.Read10.Long"), Verdict::Passed);
    assert_eq!(verdict("SCSI.Read10.Part"), Verdict::Skipped);
    assert_eq!(verdict("SCSI.Read10.Bad"), Verdict::Failed);
    assert_eq!(verdict("SCSI.Last.Stuck"), Verdict::Hung);
    assert_eq!(ran(output), Some(6));
}
