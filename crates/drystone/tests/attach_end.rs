//! The ends of `drystone attach`: what is shown of one that goes, who asks for it twice or at once, and a
//! volume that is another one.

mod common;

use common::member::Home;
use common::{Export, drystone, file_spec, finish};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a start or an end may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn within(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn attach(dir: &Path, url: &str, options: &[&str]) -> Command {
    let mut command = drystone(&["attach", url, "--nbd"]);
    command.arg(format!("unix:{}", dir.join("nbd.sock").display())).args(options);
    command.arg("--runtime-dir").arg(dir.join("run"));
    command
}

/// Starts it and waits until the disk can be used.
fn start(dir: &Path, url: &str, options: &[&str]) -> Child {
    let mut child = attach(dir, url, options).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    stdout.read_line(&mut line).expect("a pipe can be read");
    assert!(line.starts_with("attached "), "{line:?}");
    child
}

fn detach(dir: &Path) -> Command {
    let mut command = drystone(&["detach"]);
    command.arg(dir.join("nbd.sock")).arg("--runtime-dir").arg(dir.join("run"));
    command
}

/// What `drystone attached --json` says of the only attachment; nothing when there is none.
fn shown(dir: &Path) -> Option<serde_json::Value> {
    let mut command = drystone(&["attached", "--json", "--runtime-dir"]);
    let output = finish(command.arg(dir.join("run")));
    let shown: Vec<serde_json::Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    shown.into_iter().next()
}

fn is_in_state(dir: &Path, state: &str) -> bool {
    shown(dir).is_some_and(|shown| shown["state"] == state)
}

fn qemu_io(dir: &Path, command: &str) -> Output {
    let uri = format!("nbd+unix:///?socket={}", dir.join("nbd.sock").display());
    finish(Command::new("qemu-io").args(["-f", "raw", "-c", command, "-c", "abort", &uri]))
}

fn went_well(child: Child) -> Output {
    let output = child.wait_with_output().expect("it can be waited for");
    assert!(output.status.success(), "{output:?}");
    output
}

/// It was in no list from the beginning of its end on, and who asked a second time was told of an error.
#[test]
fn what_is_being_detached_is_listed_and_can_be_asked_for_twice() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let export = Export::start(&[&file_spec(dir, "disk", "32M")], &[]);
    let running = start(dir, &export.url(0), &[]);
    qemu_io(dir, "write -P 7 0 64k");
    export.signal(Signal::STOP);
    let ask = || detach(dir).stderr(Stdio::piped()).spawn().expect("it starts");
    let first = ask();
    within("detaching", || is_in_state(dir, "detaching"));
    let place = dir.join("nbd.sock");
    assert_eq!(shown(dir).unwrap()["place"], format!("unix:{}", place.display()));
    let second = ask();
    thread::sleep(Duration::from_millis(300));
    export.signal(Signal::CONT);
    went_well(first);
    went_well(second);
    went_well(running);
    assert!(shown(dir).is_none());
    export.stop();
    assert!(fs::read(dir.join("disk")).unwrap()[..65536].iter().all(|&byte| byte == 7));
}

/// A signal ended the process with 143 until it had read its options and its directory. The secret comes on
/// standard input here: it waits in the midst of that.
#[test]
fn a_signal_in_the_first_moments_is_a_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let export = Export::start(&["ram:32M"], &[]);
    let mut command = attach(dir, &export.url(0), &["--chap-file", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    pipe.write_all(b"alice:sixteen-bytes-ok").unwrap();
    drop(pipe);
    let output = went_well(child);
    assert!(output.stdout.is_empty(), "{output:?}");
    export.stop();
}

/// It was listed as `attached`, with a size and nothing beside it.
#[test]
fn a_volume_that_was_made_anew_does_not_look_attached() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let url = format!("iscsi://{}/{}", member.portal(), member.iqn("a"));
    let running = start(dir, &url, &["--path-timeout", "2"]);
    assert!(is_in_state(dir, "attached"));
    member.run(&["volume", "offline", "a", "--yes"]);
    member.run(&["volume", "delete", "a", "--yes"]);
    member.run(&["volume", "purge", "a", "--yes"]);
    within("no path works", || {
        shown(dir).unwrap()["trouble"].as_str().unwrap().contains("no path works")
    });
    member.run(&["volume", "create", "a", "64M"]);
    within("replaced", || is_in_state(dir, "replaced"));
    let said = shown(dir).unwrap()["trouble"].as_str().unwrap().to_owned();
    assert!(said.contains("detach it, then attach it again"), "{said}");
    let mut table = drystone(&["attached", "--runtime-dir"]);
    let table = String::from_utf8(finish(table.arg(dir.join("run"))).stdout).unwrap();
    assert!(table.contains("replaced: "), "{table}");
    assert!(finish(&mut detach(dir)).status.success());
    went_well(running);
    let again = start(dir, &url, &[]);
    assert!(is_in_state(dir, "attached"));
    kill_process(Pid::from_child(&again), Signal::TERM).unwrap();
    went_well(again);
    member.stop();
}
