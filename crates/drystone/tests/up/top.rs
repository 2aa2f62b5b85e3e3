//! `drystone top`, in a pipe and in a terminal.

use crate::common::drystone;
use crate::common::member::{Home, Member};
use crate::host::Host;
use crate::{block, log_in, write};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How long something may take to be drawn.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes without pause, until told to stop.
fn load(mut host: Host) -> (Arc<AtomicBool>, thread::JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let is_over = stop.clone();
    let writes = thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            write(&mut host, 0, &block(1));
        }
    });
    (stop, writes)
}

fn member(home: &Home) -> Member<'_> {
    let member = home.start(&[]);
    for name in ["busy", "idle"] {
        member.run(&["volume", "create", name, "64M"]);
    }
    member
}

#[test]
fn who_is_busy_is_told_in_tables_and_lines() {
    let home = Home::files(4, "256M");
    let member = member(&home);
    let (stop, writes) = load(log_in(&member, "busy"));
    let table = member.run(&["top", "--once"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("VOLUME") && lines.len() == 3, "{table}");
    assert!(lines[1].starts_with("busy") && lines[2].starts_with("idle"), "{table}");
    let table = member.run(&["top", "--filter", "idle", "--sort", "name"]);
    assert!(table.lines().count() == 2 && !table.contains("busy"), "{table}");
    let table = member.run(&["top", "--once", "--view", "disks"]);
    assert!(table.lines().count() == 5 && table.contains("disk-3"), "{table}");
    assert!(table.starts_with("DISK") && table.contains("LATENCY"), "{table}");

    let text = member.run(&["top", "--json", "--count", "2"]);
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(lines.len(), 2);
    for line in lines {
        for (view, name) in [("volumes", "busy"), ("portals", &member.portal().to_string())] {
            let load = &line[view][0];
            assert_eq!(load["name"], name, "{line}");
            let iops = load["iops"].as_f64().expect("a number");
            let bytes = load["written_bytes_per_second"].as_f64().expect("a number");
            assert!(iops > 1.0 && (bytes / iops - 4096.0).abs() < 1024.0, "{load}");
            let mean = load["latency_mean_us"].as_f64().expect("commands were answered");
            let p99 = load["latency_p99_us"].as_f64().expect("commands were answered");
            assert!(mean > 0.0 && p99 > 0.0, "{load}");
        }
        assert_eq!(line["volumes"][1]["iops"], 0.0, "{line}");
        assert!(line["hosts"][0]["iops"].as_f64() > Some(1.0), "{line}");
        let disks = line["disks"].as_array().expect("disks");
        assert_eq!(disks.len(), 4);
        let written = |disk: &Value| disk["load"]["written_bytes_per_second"].as_f64();
        assert!(disks.iter().any(|disk| written(disk) > Some(0.0)), "{line}");
        assert!(disks.iter().all(|disk| disk["state"] == "online"), "{line}");
    }
    stop.store(true, Ordering::Relaxed);
    writes.join().expect("all was written");
    let refusal = home.ask(&["top", "--count", "3"]);
    assert_eq!(refusal.0, 2, "{}", refusal.2);
    member.stop();
    let (code, _, err) = home.ask(&["top", "--once"]);
    assert!(code == 1 && err.lines().count() == 1, "{err}");
}

/// What a program in a pseudo-terminal prints, and its keyboard.
struct Terminal {
    child: std::process::Child,
    printed: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    /// Starts `drystone top` in 24 lines of 100 columns.
    fn start(home: &Home) -> Terminal {
        let program = drystone(&[]).get_program().to_string_lossy().into_owned();
        let line = format!("stty rows 24 cols 100; exec '{program}' top");
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"])
            .env("DRYSTONE_SOCKET", home.socket())
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of util-linux is there");
        let mut stdout = child.stdout.take().expect("stdout is a pipe");
        let (sender, printed) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, printed, seen: String::new() }
    }

    /// Waits until this is printed, and forgets what came before.
    #[track_caller]
    fn wait_for(&mut self, wanted: &str) {
        let end = Instant::now() + PATIENCE;
        let found = loop {
            if let Some(at) = self.seen.find(wanted) {
                break at + wanted.len();
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.printed.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{wanted:?} is never printed: {:?}", self.seen),
            }
        };
        self.seen.drain(..found);
    }

    fn press(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is a pipe");
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).expect("it reads keys");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail on a child that was waited for, and only on that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Only letters that are not on the screen already are printed, so what is waited for shares none with what was
/// in its place.
#[test]
fn in_a_terminal_it_draws_hears_keys_and_leaves_the_terminal_as_it_was() {
    let home = Home::files(4, "256M");
    let member = member(&home);
    let (stop, writes) = load(log_in(&member, "busy"));
    let mut terminal = Terminal::start(&home);
    // The other screen, and on it the volumes.
    terminal.wait_for("\u{1b}[?1049h");
    terminal.wait_for("busy");
    terminal.press("d");
    terminal.wait_for("disks");
    terminal.press("v");
    terminal.wait_for("volumes");
    terminal.press("/");
    terminal.wait_for("filter:");
    // It comes to where the busy one was.
    terminal.press("idle");
    terminal.wait_for("idle");
    terminal.press("\rp");
    terminal.wait_for("paused");
    terminal.press("q");
    terminal.wait_for("\u{1b}[?1049l");
    assert!(terminal.child.wait().expect("it ends").success());
    stop.store(true, Ordering::Relaxed);
    writes.join().expect("all was written");
    member.stop();
}

#[test]
fn it_hears_keys_while_the_member_is_halted() {
    let home = Home::files(4, "256M");
    let member = member(&home);
    let mut terminal = Terminal::start(&home);
    terminal.wait_for("busy");
    member.signal(Signal::STOP);
    terminal.wait_for("slow to answer");
    let begun = Instant::now();
    terminal.press("q");
    terminal.wait_for("\u{1b}[?1049l");
    assert!(terminal.child.wait().expect("it ends").success());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    member.signal(Signal::CONT);
    member.stop();
}

#[test]
fn it_ends_with_its_terminal() {
    let home = Home::files(4, "256M");
    let member = member(&home);
    let mut terminal = Terminal::start(&home);
    terminal.wait_for("busy");
    let parent = terminal.child.id();
    let children = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(children).expect("the kernel tells of children");
    let top: u32 = children.trim().parse().expect("one child");
    terminal.child.kill().expect("it runs");
    let end = Instant::now() + PATIENCE;
    let is_there = || {
        let line = fs::read_to_string(format!("/proc/{top}/cmdline")).unwrap_or_default();
        line.contains("drystone")
    };
    while is_there() {
        assert!(Instant::now() < end, "it goes on without a terminal");
        thread::sleep(Duration::from_millis(20));
    }
    member.stop();
}
