//! `drystone lab` and `drystone plan` as people use them: against a target over iSCSI, and with
//! everything that goes wrong.

#[path = "../common/mod.rs"]
mod common;
mod keeping;
mod namespaces;

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use common::Export;
use serde_json::Value;
use tempfile::TempDir;

const WRITES: &str = "sd=s,lun=none\nwd=w,sd=s,xfersize=8k,rdpct=67\n";

/// The longest of them takes one minute where nothing else runs.
const EXPERIMENT_MAX: Duration = Duration::from_secs(300);

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("works"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("works").to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("works");
        self.text(name)
    }

    /// A file of zeroes.
    fn disk(&self, name: &str, bytes: u64) -> String {
        fs::File::create(self.path(name)).expect("works").set_len(bytes).expect("works");
        self.text(name)
    }
}

fn lab(args: &[&str]) -> Output {
    common::run(&[&["lab"], args].concat())
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn results(directory: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(directory.join("results.json")).expect("works"))
        .expect("works")
}

#[test]
fn the_papers_examples_of_connections() {
    let total = |args: &[&str]| {
        let output = common::run(&[&["plan", "connections", "--json"], args].concat());
        assert_eq!(code(&output), 0, "{}", said(&output));
        serde_json::from_str::<Value>(&printed(&output)).unwrap()["total"].as_u64().unwrap()
    };
    assert_eq!(total(&["--members", "2", "--hosts", "5", "--volumes", "1"]), 20);
    assert_eq!(total(&["--members", "5", "--hosts", "2", "--volumes", "1"]), 12);
    let none =
        common::run(&["plan", "connections", "--members", "1", "--hosts", "0", "--volumes", "1"]);
    assert_eq!(code(&none), 2);
    assert!(said(&none).contains("there is no host"), "{}", said(&none));
}

#[test]
fn nothing_is_overwritten_without_the_word() {
    let place = Place::new();
    let disk = place.disk("disk", 1 << 20);
    let file = place.write("w.vd", &format!("{WRITES}rd=r,wd=w,elapsed=1\n"));
    let output = lab(&["run", &file, "--on", &disk]);
    assert_eq!(code(&output), 2);
    assert!(said(&output).contains("add --overwrite"), "{}", said(&output));
    assert!(fs::read(&disk).unwrap().iter().all(|&byte| byte == 0), "it was written to");
}

#[test]
fn a_mistake_in_the_file_is_named_with_its_line() {
    let place = Place::new();
    let file = place.write("w.vd", "sd=s,lun=x\nwd=w,sd=s,xfersze=8k\nrd=r,wd=w\n");
    let output = lab(&["run", &file]);
    assert_eq!(code(&output), 2);
    assert!(
        said(&output).contains("w.vd: line 2: 'xfersze' is not a word of wd="),
        "{}",
        said(&output)
    );
    let output = lab(&["fio", "--on", "ram:1M", "--", "--verify=md5"]);
    assert_eq!(code(&output), 2);
    assert!(said(&output).contains("--verify is not an option"), "{}", said(&output));
}

/// What is written in the wrong place is told where it belongs, in the words of fio.
#[test]
fn hints_of_fio_lead_on() {
    let place = Place::new();
    let disk = place.disk("disk", 1 << 20);
    let end = ["--rw=write", "--runtime=1"];
    for (args, expected) in [
        (&["--rw=read"][..], "'--rw' is an option of fio: write '--' before it"),
        (
            &["--", "--rw=read", "--runtime=1"],
            "write --on TARGET before the '--', or --filename=PATH",
        ),
        (&["--", "--on=ram:1M"], "--on is an option of the lab: write it before the '--'"),
        (&["--on", "ram:1M", "--", "--verify=md5"], "lab fio --help lists those that are"),
        (&["--on", "ram:1M", "--", "--iodeph=3"], "write --iodepth"),
        (&["--on", &disk, "--", end[0], end[1]], "add --overwrite, before the '--', to say so"),
    ] {
        let output = lab(&[&["fio"], args].concat());
        assert_eq!(code(&output), 2, "{args:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{args:?}: {}", said(&output));
    }
    let help = printed(&lab(&["fio", "--help"]));
    assert!(help.contains("--iodepth") && help.contains("--rwmixread"), "{help}");
    let directory = place.0.path().to_str().expect("works");
    for (on, expected) in [
        ("/dev/no-such-disk", "cannot use /dev/no-such-disk: No such file"),
        ("/no/such/file", "there is no /no/such/file; a file must exist and have its size"),
        (directory, "is neither a file nor a block device"),
    ] {
        let output = lab(&["fio", "--on", on, "--", "--runtime=1"]);
        assert_eq!(code(&output), 1);
        assert!(said(&output).contains(expected), "{}", said(&output));
        assert!(!said(&output).contains("/dev/no-such-disk; a file"), "{}", said(&output));
    }
}

#[test]
fn a_target_that_is_not_there_is_said() {
    let output = lab(&[
        "fio",
        "--on",
        "iscsi://127.0.0.1:1/iqn.2026-11.com.example:none",
        "--",
        "--runtime=1",
    ]);
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("cannot attach iscsi://127.0.0.1:1/"), "{}", said(&output));
    let output = lab(&["fio", "--on", "/no/such/file", "--", "--runtime=1"]);
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("truncate -s"), "{}", said(&output));
}

/// All of it at once: a verified load over iSCSI, figures that fit each other, and the page.
#[test]
fn a_verified_run_over_iscsi() {
    let place = Place::new();
    let export = Export::start(&["ram:32M"], &["--cores", "1"]);
    let work = format!("{WRITES}rd=r,wd=w,elapsed=2,interval=0.5,iorate=(300,max),threads=8\n");
    let file = place.write("w.vd", &work);
    let report = place.text("report");
    let pid = export.pid().to_string();
    let output = lab(&[
        "run",
        &file,
        "--on",
        &export.url(0),
        "--overwrite",
        "--report",
        &report,
        "--validate-after",
        "--target-pid",
        &pid,
    ]);
    assert_eq!(code(&output), 0, "{}\n{}", said(&output), printed(&output));
    let results = results(Path::new(&report));
    assert_eq!(results["ending"], "complete");
    let steps = results["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 3);
    let slow = &steps[0];
    let iops = slow["total"]["iops"].as_f64().unwrap();
    assert!((iops / 300.0 - 1.0).abs() < 0.02, "{iops} IOPS for 300");
    for step in &steps[..2] {
        assert_eq!(step["error_count"], 0);
        assert!(step["target_cpu_us_per_io"].as_f64().is_some());
        let path = &step["paths"][0];
        let commands = path["iops"].as_f64().unwrap();
        let ios = step["total"]["iops"].as_f64().unwrap();
        assert!((commands / ios - 1.0).abs() < 0.2, "{commands} commands a second for {ios} IOPS");
    }
    assert_eq!(steps[2]["name"], "validate-after");
    assert!(steps[2]["validation"]["compared_bytes"].as_u64().unwrap() > 0);
    let page = fs::read_to_string(Path::new(&report).join("report.html")).unwrap();
    assert!(page.contains("No wrong data in ") && page.contains(&format!("<td>{iops:.0}</td>")));
    let lines =
        fs::read_to_string(Path::new(&report).join("flatfile.csv")).unwrap().lines().count();
    assert_eq!(lines, 1 + 4 + 1 + 4 + 1 + 1);

    let compared = lab(&["compare", &report, &report, "--json"]);
    assert_eq!(code(&compared), 0, "{}", said(&compared));
    assert!(!printed(&compared).contains("worse"), "{}", printed(&compared));
}

/// A target on another machine tells its CPU time as metrics: what it used in the measured part counts.
#[test]
fn the_targets_cpu_comes_from_its_metrics() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("works");
    let url = format!("http://{}/metrics", listener.local_addr().expect("works"));
    std::thread::spawn(move || {
        // Asked before the run, at the begin of each step and at its end: 0.25 s more each time.
        for turn in 1_u32.. {
            let Ok((mut socket, _)) = listener.accept() else { return };
            let _ = socket.read(&mut [0; 1024]);
            let seconds = 100.0 + f64::from(turn) * 0.25;
            let body = format!("process_cpu_seconds_total {seconds}\n");
            let _ = socket.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{body}").as_bytes());
        }
    });
    let report = place.text("report");
    let run = |url: &str, size: &str| {
        let on = ["fio", "--on", "ram:8M", "--report", &report, "--target-metrics", url];
        lab(&[&on[..], &["--", "--rw=read", "--bs=4k", size]].concat())
    };
    let output = run(&url, "--size=8m");
    assert_eq!(code(&output), 0, "{}", said(&output));
    let step = results(Path::new(&report))["steps"][0].clone();
    let (ios, us) = (step["total"]["ios"].as_f64(), step["target_cpu_us_per_io"].as_f64());
    assert_eq!(ios.zip(us).map(|(ios, us)| (ios * us).round()), Some(250_000.0));
    let page = fs::read_to_string(Path::new(&report).join("report.html")).expect("works");
    assert!(page.contains(&format!("<td>{:.1}</td>", us.expect("it is there"))), "{page}");

    let gone = run("http://127.0.0.1:1/metrics", "--size=1m");
    assert_eq!(code(&gone), 1);
    let told = said(&gone);
    assert!(
        told.contains("CPU time of the target cannot be had: cannot ask http://127.0.0.1:1/"),
        "{told}"
    );
    let wrong = run("ftp://x", "--size=1m");
    assert_eq!(code(&wrong), 2, "{}", said(&wrong));
}

/// One unit by two addresses: what is written by the one would be wrong data for the other.
#[test]
fn one_unit_is_not_worked_on_twice() {
    let place = Place::new();
    let export = Export::start(&["ram:4M"], &["--cores", "1"]);
    let file = place.write("w.vd", &format!("{WRITES}rd=r,wd=w,elapsed=1\n"));
    let url = export.url(0);
    let by_name = url.replacen("127.0.0.1", "localhost", 1);
    for (other, told) in [(&url, "is named twice"), (&by_name, "is the same disk as")] {
        let output = lab(&["run", &file, "--overwrite", "--on", &url, "--on", other]);
        assert_eq!(code(&output), 1, "{}", said(&output));
        assert!(said(&output).contains(told), "{}", said(&output));
    }
}

/// Sessions of a path, all of which are to work: `active`, or `7 active`.
fn active(state: &str) -> usize {
    match state.strip_suffix(" active") {
        Some(count) => count.parse().expect("a number"),
        None => usize::from(state == "active"),
    }
}

/// One small file sweeps sessions and clients; the targets are opened anew, and what was written by one
/// step is checked by the next.
#[test]
fn a_sweep_over_sessions_and_clients() {
    let place = Place::new();
    let export = Export::start(&["ram:4M", "ram:4M", "ram:4M"], &["--cores", "1"]);
    let sweep = format!("{WRITES}rd=r,wd=w,elapsed=0.5,forsessions=(3,7),forclients=(1,3)\n");
    let (file, report) = (place.write("w.vd", &sweep), place.text("report"));
    let urls = [0, 1, 2].map(|lun| export.url(lun));
    let on = urls.iter().flat_map(|url| ["--on", url]).collect::<Vec<_>>();
    let args = ["run", &file, "--overwrite", "--validate-after", "--report", &report];
    let output = lab(&[&args[..], &on].concat());
    assert_eq!(code(&output), 0, "{}", said(&output));
    let steps = results(Path::new(&report))["steps"].as_array().unwrap().clone();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(
        names[..4],
        [
            "r sessions=3 clients=1",
            "r sessions=3 clients=3",
            "r sessions=7 clients=1",
            "r sessions=7 clients=3"
        ]
    );
    for (step, (volumes, sessions)) in steps.iter().zip([(1, 1), (3, 3), (1, 3), (3, 7)]) {
        assert_eq!(step["volumes"].as_array().unwrap().len(), volumes);
        let states = step["paths"].as_array().unwrap().iter();
        let count: usize = states.map(|path| active(path["state"].as_str().unwrap())).sum();
        assert_eq!(count, sessions, "{}", step["paths"]);
        let asked = step["sessions"]["asked"].clone();
        assert!(asked.is_u64() && step["sessions"]["up"] == asked, "{}", step["sessions"]);
        assert_eq!(step["error_count"], 0);
    }
    assert!(steps[4]["validation"]["compared_bytes"].as_u64().unwrap() > 0);
    let memory = lab(&["run", &file, "--on", "ram:1M"]);
    assert_eq!(code(&memory), 1);
    assert!(said(&memory).contains("3 sessions cannot be divided among 0"), "{}", said(&memory));
}

/// What one process bears: a hundred volumes, first over a session each, then over 4,096 in all, and every
/// byte that the first step wrote is checked by the second.
#[test]
fn a_hundred_volumes_and_4096_sessions_in_one_process() {
    const VOLUMES: usize = 100;
    const SESSIONS: usize = 4096;
    let place = Place::new();
    // One address may have a quarter of all connections.
    let export =
        Export::start(&["ram:1M"; VOLUMES], &["--cores", "1", "--max-connections", "18000"]);
    let work = format!(
        "{WRITES}rd=r,wd=w,elapsed=2,iorate=2000,threads=4,forsessions=({VOLUMES},{SESSIONS})\n"
    );
    let (file, report) = (place.write("w.vd", &work), place.text("report"));
    let urls: Vec<String> = (0..VOLUMES).map(|lun| export.url(lun)).collect();
    let on = urls.iter().flat_map(|url| ["--on", url]).collect::<Vec<_>>();
    let args = ["lab", "run", &file, "--overwrite", "--validate-after", "--report", &report];
    let mut command = common::drystone(&[&args[..], &on].concat());
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    // The target holds a descriptor for each session, and a few of its own.
    let descriptors = format!("/proc/{}/fd", export.pid());
    let (mut most, end) = (0, Instant::now() + Duration::from_secs(60));
    while child.try_wait().expect("works").is_none() && Instant::now() < end {
        most = most.max(fs::read_dir(&descriptors).expect("it runs").count());
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().expect("works");
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(most >= SESSIONS, "{most} descriptors");
    let steps = results(Path::new(&report))["steps"].as_array().expect("there are some").clone();
    assert_eq!(steps.len(), 3);
    // Paths are told of the first 64 volumes.
    for (step, least) in steps.iter().zip([1, SESSIONS / VOLUMES]) {
        assert_eq!(step["volumes"].as_array().map(Vec::len), Some(VOLUMES));
        let is_used = |volume: &Value| volume["total"]["ios"].as_u64() > Some(0);
        assert!(step["volumes"].as_array().is_some_and(|all| all.iter().all(is_used)), "{step}");
        assert_eq!(
            (&step["error_count"], &step["validation"]["mismatch_count"]),
            (&0.into(), &0.into())
        );
        for path in step["paths"].as_array().expect("they have paths") {
            assert!(active(path["state"].as_str().expect("works")) >= least, "{path}");
        }
    }
    assert!(steps[2]["validation"]["compared_bytes"].as_u64() > Some(1 << 20), "{}", steps[2]);
}

/// A verified load on an export of somebody else's server, and what it says when there is none.
#[test]
fn a_verified_run_over_nbd() {
    let place = Place::new();
    let (disk, socket) = (place.disk("disk", 8 << 20), place.text("s"));
    let mut server = std::process::Command::new("qemu-nbd")
        .args(["--format", "raw", "--persistent", "--shared", "4", "--export-name", "vol"])
        .args(["--socket", &socket, &disk])
        .spawn()
        .expect("qemu-nbd is there");
    let end = Instant::now() + Duration::from_secs(20);
    while !Path::new(&socket).exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let on = format!("nbd+unix:///vol?socket={socket}");
    let work = ["--rw=randrw", "--bssplit=4k/60:256k/40", "--iodepth=16", "--size=8m", "--loops=3"];
    let run = |on: &str| {
        let args = ["fio", "--on", on, "--overwrite", "--validate-after", "--json", "--"];
        lab(&[&args[..], &work].concat())
    };
    let output = run(&on);
    let none = run(&format!("nbd+unix:///other?socket={socket}"));
    server.kill().expect("works");
    server.wait().expect("works");
    assert_eq!(code(&output), 0, "{}", said(&output));
    let results: Value = serde_json::from_str(&printed(&output)).expect("works");
    let after = &results["steps"][1]["validation"];
    assert_eq!(results["steps"][1]["name"], "validate-after");
    assert!(after["compared_bytes"].as_u64().unwrap() > 4 << 20, "{after}");
    assert_eq!(code(&none), 1);
    assert!(said(&none).contains("the server refuses nbd+unix:///other"), "{}", said(&none));
    let gone = run(&on);
    assert!(said(&gone).contains("cannot connect to nbd+unix:///vol"), "{}", said(&gone));
}

/// The target is killed under load and comes back on the same file.
fn run_with_a_restart(cache: &str) -> (Output, Value) {
    let place = Place::new();
    let disk = format!("file:{}:32M,cache={cache}", place.text("disk"));
    let state = place.text("state");
    let export = Export::start(&[&disk], &["--cores", "1", "--state-dir", &state]);
    let portal = export.portal().to_string();
    let file = place.write("w.vd", &format!("{WRITES}rd=r,wd=w,elapsed=6,iorate=500,threads=4\n"));
    let report = place.text("report");
    let mut command = common::drystone(&[
        "lab",
        "run",
        &file,
        "--on",
        &export.url(0),
        "--overwrite",
        "--report",
        &report,
        "--validate-after",
        "--stall",
        "200",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("works");
    std::thread::sleep(Duration::from_secs(2));
    export.crash();
    std::thread::sleep(Duration::from_millis(700));
    let again =
        Export::start(&[&disk], &["--cores", "1", "--state-dir", &state, "--portal", &portal]);
    let output = child.wait_with_output().expect("works");
    again.stop();
    let results = results(Path::new(&report));
    (output, results)
}

/// The lab waits, tells of the stall, and finds nothing wrong.
#[test]
fn a_target_that_is_restarted_loses_nothing() {
    let (output, results) = run_with_a_restart("durable");
    assert_eq!(code(&output), 0, "{}\n{}", said(&output), printed(&output));
    assert!(!results["steps"][0]["stalls"].as_array().unwrap().is_empty(), "it was away");
    assert!(printed(&output).contains("stall at "), "{}", printed(&output));
    assert!(results["steps"][1]["validation"]["compared_bytes"].as_u64().unwrap() > 0);
}

/// With a volatile cache nobody knows whether all of it is there: the flush at the end says so.
#[test]
fn a_restart_that_may_have_lost_a_cache_is_an_error() {
    let (output, results) = run_with_a_restart("volatile");
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("1 I/Os failed"), "{}", said(&output));
    let error = &results["steps"][0]["errors"][0];
    assert_eq!(
        (&error["operation"], results["ending"].as_str()),
        (&"flush".into(), Some("complete"))
    );
}

#[test]
fn a_killed_sweep_goes_on_where_it_was() {
    let place = Place::new();
    let sweep = "sd=s,lun=x\nwd=w,sd=s\nrd=r,wd=w,elapsed=0.5,forthreads=(1,2,4,8,16,32)\n";
    let file = place.write("sweep.vd", sweep);
    let report = place.path("report");
    let args =
        ["lab", "run", &file, "--on", "ram:16M", "--report", report.to_str().unwrap(), "--resume"];
    let mut child = common::drystone(&args).stdout(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let steps = || {
        let text = fs::read_to_string(report.join("results.json")).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        value["steps"].as_array().cloned().unwrap_or_default()
    };
    while steps().len() < 2 {
        assert!(Instant::now() < end && child.try_wait().unwrap().is_none(), "no steps in time");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = steps();
    assert!(before.len() < 6, "it was killed in time");
    let output = common::run(&args);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let after = steps();
    assert_eq!(after.len(), 6);
    assert_eq!(after[..before.len()], before[..], "what was measured is as it was");
    let first_run = format!("step {} of 6", before.len() + 1);
    assert!(printed(&output).starts_with(&first_run), "{}", printed(&output));

    let other = place.write("other.vd", &sweep.replace("elapsed=0.5", "elapsed=0.6"));
    let output =
        lab(&["run", &other, "--on", "ram:16M", "--report", report.to_str().unwrap(), "--resume"]);
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("another workload"), "{}", said(&output));
}

/// One block is changed behind its back: the journal knows what should be there.
#[test]
fn a_journal_finds_what_somebody_changed() {
    let place = Place::new();
    let (disk, journal) = (place.disk("disk", 1 << 20), place.text("journal"));
    let write = ["--rw=write", "--bs=4k", "--size=1m"];
    let first =
        [&["fio", "--on", &disk, "--overwrite", "--journal", &journal, "--"][..], &write].concat();
    assert_eq!(code(&lab(&first)), 0);
    let read = ["--rw=read", "--bs=4k", "--size=64k"];
    let again =
        [&["fio", "--on", &disk, "--journal", &journal, "--validate", "--"][..], &read].concat();
    let clean = lab(&again);
    assert_eq!(code(&clean), 0, "{}", said(&clean));

    let mut file = OpenOptions::new().write(true).open(&disk).unwrap();
    file.seek(SeekFrom::Start(700 << 10)).unwrap();
    file.write_all(&[0; 4096]).unwrap();
    drop(file);
    let found = lab(&again);
    assert_eq!(code(&found), 1);
    assert!(said(&found).contains("1 blocks held wrong data"), "{}", said(&found));
    let line = "LBA 1400 (byte 716800): expected write 176, last written at or soon after ";
    assert!(
        printed(&found).contains(line) && printed(&found).contains("; seen zeroes"),
        "{}",
        printed(&found)
    );
}

#[test]
fn results_that_cannot_be_kept_are_known_before_the_run() {
    let place = Place::new();
    let file = place.write("file", "");
    let begun = Instant::now();
    let output = lab(&[
        "fio",
        "--on",
        "ram:1M",
        "--report",
        &format!("{file}/x"),
        "--",
        "--runtime=30",
        "--time_based",
    ]);
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("no results could be kept"), "{}", said(&output));
    assert!(begun.elapsed() < Duration::from_secs(20), "it ran first");
}

#[test]
fn a_signal_keeps_what_was_measured() {
    let place = Place::new();
    let report = place.text("report");
    let args =
        ["lab", "fio", "--on", "ram:1M", "--report", &report, "--", "--runtime=60", "--time_based"];
    let child =
        common::drystone(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("stopped by a signal"), "{}", said(&output));
    let results = results(Path::new(&report));
    assert_eq!(results["ending"], "stopped");
    assert!(results["steps"][0]["total"]["ios"].as_u64().unwrap() > 100);
}

/// Runs an experiment in its short form; its results, once its page was looked at.
fn experiment(place: &Place, name: &str) -> Value {
    let report = place.text(name);
    let mut command =
        common::drystone(&["lab", "experiment", name, "--quick", "--report", &report]);
    let output = common::finish_within(&mut command, EXPERIMENT_MAX).expect("it ends");
    assert_eq!(code(&output), 0, "{}{}", said(&output), printed(&output));
    let results = results(&place.path(name));
    let page = fs::read_to_string(place.path(name).join("report.html")).expect("works");
    for chart in results["charts"].as_array().expect("works") {
        let title = chart["title"].as_str().expect("works");
        assert!(page.contains(title), "{title} is a chart of the page");
    }
    let steps = results["steps"].as_array().expect("works");
    let mut stood = Vec::new();
    for step in steps {
        let step_name = step["name"].as_str().expect("works");
        if step["total"]["iops"].as_f64() <= Some(0.0) {
            stood.push(step_name);
        }
        assert_eq!(step["error_count"], 0, "{step_name}");
    }
    // A file may stand for a second while the system writes others' back.
    let stood_max = if name == "native-vs-iscsi" { steps.len() / 4 } else { 0 };
    assert!(stood.len() <= stood_max, "{stood:?} did nothing");
    results
}

#[test]
fn raid_levels_against_drives_and_clients() {
    let place = Place::new();
    let results = experiment(&place, "raid-levels");
    // Three levels with two numbers of clients, five patterns each; two depths; six drives.
    assert_eq!(results["steps"].as_array().map(Vec::len), Some(3 * 2 * 5 + 2 + 2 * 5));
    assert_eq!(results["charts"].as_array().map(Vec::len), Some(6));
    let lines = results["charts"][1]["lines"].as_array().expect("works");
    let names: Vec<_> = lines.iter().map(|line| line[0].as_str().expect("works")).collect();
    assert_eq!(names, ["raid0", "raid10", "raid5"]);
    for line in lines {
        let points = line[1].as_array().expect("works");
        assert!(points.iter().all(|point| point[1].as_f64() > Some(0.0)), "{line}");
    }
    let levels = results["findings"][0]["ours"].as_str().expect("works");
    assert!(levels.contains("read-random") && levels.contains("raid5 "), "{levels}");
    // Nothing of the members is left.
    let left = fs::read_dir(place.path("raid-levels/raid5-on-10-drives")).expect("works");
    let left: Vec<_> = left.map(|entry| entry.expect("works").file_name()).collect();
    assert!(left.iter().all(|name| name != "data" && name != "member.sock"), "{left:?}");
}

#[test]
fn an_experiment_that_is_killed_leaves_no_target_behind() {
    let place = Place::new();
    let args = ["lab", "experiment", "sessions-per-core", "--report", &place.text("killed")];
    let mut experiment = common::drystone(&args).stderr(Stdio::null()).spawn().expect("works");
    let id = experiment.id();
    let children = || fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("works");
    let end = Instant::now() + Duration::from_secs(30);
    while children().split_whitespace().count() < 2 {
        assert!(Instant::now() < end, "a target and the lab run");
        std::thread::sleep(Duration::from_millis(20));
    }
    let children = children();
    experiment.kill().expect("works");
    experiment.wait().expect("works");
    for child in children.split_whitespace() {
        // One that has ended has no program any more, even if nobody has asked for its end.
        while fs::read_link(format!("/proc/{child}/exe")).is_ok() {
            assert!(Instant::now() < end, "process {child} goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_same_load_over_more_sessions() {
    let place = Place::new();
    let results = experiment(&place, "sessions");
    assert_eq!(results["steps"].as_array().map(Vec::len), Some(3 * 3));
    let first = results["charts"][0]["lines"][0][1][0].clone();
    assert_eq!((first[0].as_f64(), first[1].as_f64()), (Some(4.0), Some(100.0)), "{first}");
}

#[test]
fn the_experiments_that_need_no_namespaces() {
    let place = Place::new();
    let cores = experiment(&place, "sessions-per-core");
    assert_eq!(cores["steps"].as_array().map(Vec::len), Some(2 * 3 * 2));
    let native = experiment(&place, "native-vs-iscsi");
    assert_eq!(native["steps"].as_array().map(Vec::len), Some(2 * 5));
}

#[test]
fn an_experiment_overwrites_no_file_that_was_there() {
    let place = Place::new();
    let precious = place.write("precious", "mine");
    fs::create_dir(place.path("report")).expect("works");
    std::os::unix::fs::symlink(&precious, place.path("report/disk.img")).expect("works");
    let report = place.text("report");
    let output = lab(&["experiment", "native-vs-iscsi", "--quick", "--report", &report]);
    assert_eq!(code(&output), 1, "{}", printed(&output));
    assert!(said(&output).contains("disk.img: File exists"), "{}", said(&output));
    assert_eq!(fs::read_to_string(&precious).expect("works"), "mine");
    assert!(place.path("report/disk.img").exists(), "nor is it taken away");
}
