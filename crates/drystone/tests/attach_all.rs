//! `drystone attach --all`: one process for what a directory tells of.

mod common;

use common::{Export, drystone, file_spec, finish};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The directories of a process, its log and its notifications.
struct Home {
    dir: TempDir,
    /// What the service manager hears.
    heard: Receiver<String>,
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        fs::create_dir(dir.path().join("attach.d")).expect("there is room");
        let manager = UnixDatagram::bind(dir.path().join("notify")).expect("it is free");
        let (sender, heard) = mpsc::channel();
        // As systemd does, it takes everything at once. It ends with the test's process.
        thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok(len) = manager.recv(&mut bytes) {
                let words = String::from_utf8_lossy(&bytes[..len]).into_owned();
                if sender.send(words).is_err() {
                    return;
                }
            }
        });
        Home { dir, heard }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the file of a volume, which NBD clients find at `NAME.sock`, and more lines of it.
    fn write(&self, name: &str, url: &str, more: &str) {
        let sock = self.path(&format!("{name}.sock"));
        self.write_text(name, &format!("url = '{url}'\nnbd = 'unix:{}'\n{more}", sock.display()));
    }

    fn write_text(&self, name: &str, text: &str) {
        fs::write(self.path(&format!("attach.d/{name}.toml")), text).expect("there is room");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(&format!("attach.d/{name}.toml"))).expect("it is there");
    }

    fn command(&self) -> Command {
        let mut command = drystone(&["attach", "--all", "--config-dir"]);
        command.arg(self.path("attach.d")).arg("--runtime-dir").arg(self.path("run"));
        command
    }

    fn start(&self) -> Running<'_> {
        let log = File::create(self.path("log")).expect("there is room");
        let lines = File::create(self.path("lines")).expect("there is room");
        let mut command = self.command();
        command.env("NOTIFY_SOCKET", self.path("notify")).env("WATCHDOG_USEC", "3000000");
        let child = command.stdout(lines).stderr(log).spawn().expect("drystone can be started");
        Running { home: self, child }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// What the service manager hears, up to the first that begins like this.
    fn hears(&self, words: &str) -> String {
        while let Ok(heard) = self.heard.recv_timeout(PATIENCE) {
            if heard.starts_with(words) {
                return heard;
            }
        }
        panic!("never heard: {words}\n{}", self.log());
    }

    /// Each volume as `drystone attached` shows it.
    fn shown(&self) -> Vec<Value> {
        let mut command = drystone(&["attached", "--json", "--interval", "1"]);
        let output = finish(command.arg("--runtime-dir").arg(self.path("run")));
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("it prints JSON")
    }

    /// The volume of this name; `None` if it is not shown.
    fn volume(&self, name: &str) -> Option<Value> {
        self.shown().into_iter().find(|volume| volume["name"] == name)
    }

    /// Waits until the volume is in this state.
    fn await_state(&self, name: &str, state: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let volume = self.volume(name);
            match volume {
                Some(volume) if volume["state"] == state => return volume,
                _ => assert!(
                    Instant::now() < end,
                    "{name} is not {state}: {volume:?}\n{}",
                    self.log()
                ),
            }
        }
    }

    fn await_gone(&self, name: &str) {
        let end = Instant::now() + PATIENCE;
        while self.volume(name).is_some() {
            assert!(Instant::now() < end, "{name} is still there\n{}", self.log());
        }
    }

    fn await_log(&self, words: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.log().contains(words) {
            assert!(Instant::now() < end, "not in the log: {words}\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn detach(&self, which: &str) -> Output {
        finish(drystone(&["detach", which]).arg("--runtime-dir").arg(self.path("run")))
    }

    /// Writes through the volume without a flush, and reads it back.
    #[track_caller]
    fn can_be_used(&self, name: &str, pattern: u8) {
        let uri = format!("nbd+unix:///?socket={}", self.path(&format!("{name}.sock")).display());
        for command in ["write", "read"] {
            let command = format!("{command} -P {pattern} 0 64k");
            // It flushes when it closes the disk.
            let options = ["-f", "raw", "-t", "unsafe", "-c", &command, &uri];
            let output = finish(Command::new("qemu-io").args(options));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && !said.contains("rror"), "{said}{}", stderr(&output));
            assert!(!said.contains("failed"), "{said}");
        }
    }
}

impl Home {
    /// Writes 64 KiB, and ends before they were flushed.
    fn leaves_unflushed(&self, name: &str) {
        let uri = format!("nbd+unix:///?socket={}", self.path(&format!("{name}.sock")).display());
        let options = ["-f", "raw", "-c", "write 0 64k", "-c", "abort", &uri];
        let output = finish(Command::new("qemu-io").args(options));
        // What it prints dies with it.
        let volume = self.volume(name).expect("it is attached");
        assert_eq!((&volume["requests"], &volume["failed"]), (&1.into(), &0.into()), "{output:?}");
    }
}

/// A running process; killed with its value.
struct Running<'a> {
    home: &'a Home,
    child: Child,
}

impl Running<'_> {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the child is there");
    }

    fn wait(&mut self, limit: Duration) -> ExitStatus {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be asked") {
                return status;
            }
            assert!(Instant::now() < end, "it does not end\n{}", self.home.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait(PATIENCE);
        assert!(status.success(), "{status}\n{}", self.home.log());
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Both fail on a child that was waited for, and only on that.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- log ---\n{}---", self.home.log());
        }
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A portal at which nobody listens yet, and nobody else will.
fn portal_of_nobody() -> SocketAddr {
    let export = Export::start(&["null:1M"], &[]);
    let portal = export.portal();
    export.stop();
    portal
}

fn start_at(portal: SocketAddr, spec: &str) -> Export {
    Export::start(&[spec], &["--portal", &portal.to_string()])
}

#[test]
fn a_boot_goes_on_without_those_that_are_late_and_they_come_later() {
    let home = Home::new();
    let spec = file_spec(&home.path(""), "good", "32M");
    let good = Export::start(&[&spec], &[]);
    let portal = portal_of_nobody();
    home.write("good", &good.url(0), "");
    home.write("late", &format!("iscsi://{portal}/{}", good.iqn), "");
    home.write_text("broken", "url = 'iscsi://");
    let running = home.start();
    let ready = home.hears("READY=1");
    assert!(ready.ends_with("STATUS=1 of 2 volumes attached, not yet: late"), "{ready}");
    home.can_be_used("good", 1);
    let states = |volumes: Vec<Value>| -> Vec<String> {
        let state = |it: &Value| format!("{} {}", it["name"], it["state"]).replace('"', "");
        volumes.iter().map(state).collect()
    };
    assert_eq!(states(home.shown()), ["broken refused", "good attached", "late waiting"]);
    let late = home.volume("late").unwrap();
    assert!(late["trouble"].as_str().unwrap().contains("cannot connect to"), "{late}");
    let broken = home.volume("broken").unwrap();
    assert!(broken["trouble"].as_str().unwrap().contains("broken.toml: line 1: "), "{broken}");
    // Some more attempts: the cause is said once.
    thread::sleep(Duration::from_secs(6));
    let log = home.log();
    assert_eq!(log.matches("not attached yet").count(), 1, "{log}");
    assert!(log.contains("volume{name=\"late\"}: "), "{log}");
    let portal_said = portal.to_string();
    assert_eq!(log.lines().filter(|line| line.contains(&portal_said)).count(), 1, "{log}");
    home.hears("WATCHDOG=1");
    let late = start_at(portal, "ram:32M");
    home.hears("STATUS=2 of 2 volumes attached");
    home.await_log(&format!("attached iscsi://{portal}/"));
    home.can_be_used("late", 2);
    let printed = fs::read_to_string(home.path("lines")).unwrap();
    assert!(printed.lines().all(|line| line.starts_with("attached pid=")), "{printed}");
    assert!(printed.contains(" name=late volume=iscsi://"), "{printed}");
    running.stop();
    home.hears("STOPPING=1");
    for name in ["good.sock", "late.sock"] {
        assert!(!home.path(name).exists(), "{name} is left");
    }
    good.stop();
    late.stop();
    assert!(fs::read(home.path("good")).unwrap()[..65536].iter().all(|&byte| byte == 1));
}

#[test]
fn a_target_that_hangs_holds_up_neither_the_others_nor_the_end() {
    let home = Home::new();
    let (good, hangs) = (Export::start(&["ram:32M"], &[]), Export::start(&["ram:32M"], &[]));
    hangs.signal(Signal::STOP);
    home.write("good", &good.url(0), "");
    home.write("hangs", &hangs.url(0), "");
    let mut running = home.start();
    home.await_state("good", "attached");
    let hanging = home.volume("hangs").unwrap();
    assert_eq!(hanging["state"], "attaching", "{hanging}");
    home.can_be_used("good", 3);
    running.signal(Signal::TERM);
    let status = running.wait(Duration::from_secs(5));
    assert!(status.success(), "{status}\n{}", home.log());
    // As with a dead target in a detach by name.
    let running = home.start();
    home.await_state("good", "attached");
    assert!(home.detach("hangs").status.success());
    assert!(home.volume("hangs").is_none());
    hangs.signal(Signal::CONT);
    running.signal(Signal::HUP);
    home.await_state("hangs", "attached");
    home.can_be_used("hangs", 4);
    running.stop();
    good.stop();
    hangs.stop();
}

#[test]
fn files_that_come_go_and_change_are_followed() {
    let home = Home::new();
    let export = Export::start(&["ram:32M", "ram:16M", "ram:8M"], &[]);
    home.write("stays", &export.url(0), "");
    home.write("goes", &export.url(1), "");
    let running = home.start();
    home.hears("READY=1");
    home.remove("goes");
    home.write("comes", &export.url(2), "");
    home.write_text("nonsense", "path_timeout = 5");
    running.signal(Signal::HUP);
    assert_eq!(home.await_state("comes", "attached")["size_bytes"], 8 << 20);
    home.await_gone("goes");
    let stays = home.await_state("stays", "attached");
    home.await_log("stays");
    let said = home.log().lines().filter(|line| line.contains("stays")).count();
    assert!(stays["requests"].is_u64() && said == 1, "nothing was done to it but the attach");
    home.await_state("nonsense", "refused");

    // Another volume in the place of the first one.
    home.write("stays", &export.url(1), "sessions = 2\n");
    home.remove("nonsense");
    running.signal(Signal::HUP);
    home.await_gone("nonsense");
    let end = Instant::now() + PATIENCE;
    while home.await_state("stays", "attached")["size_bytes"] != 16 << 20 {
        assert!(Instant::now() < end, "{}", home.log());
    }
    home.can_be_used("stays", 5);

    // An error of writing takes no disk away.
    home.write_text("stays", "url = ");
    running.signal(Signal::HUP);
    let end = Instant::now() + PATIENCE;
    while !home.volume("stays").unwrap()["trouble"].as_str().unwrap().contains("stays.toml: line 1")
    {
        assert!(Instant::now() < end, "{}", home.log());
    }
    home.can_be_used("stays", 6);

    // By hand, until the files are read again.
    assert!(home.detach("comes").status.success());
    assert!(home.volume("comes").is_none());
    running.signal(Signal::HUP);
    home.await_state("comes", "attached");
    fs::rename(home.path("attach.d"), home.path("away")).unwrap();
    running.signal(Signal::HUP);
    home.await_log("everything stays as it is");
    assert_eq!(home.shown().len(), 2);
    running.stop();
    export.stop();
}

#[test]
fn a_wrong_secret_is_told_and_tried_at_once_when_it_is_mended() {
    let home = Home::new();
    let export = Export::start(&["ram:32M"], &["--chap", "alice:sixteen-bytes-ok"]);
    let secret = home.path("secret");
    let write = |text: &str, mode: u32| {
        fs::write(&secret, text).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("alice:sixteen-bytes-no", 0o600);
    home.write("a", &export.url(0), &format!("chap-file = '{}'\n", secret.display()));
    let running = home.start();
    let waiting = home.await_state("a", "waiting");
    assert!(waiting["trouble"].as_str().unwrap().contains("authentication"), "{waiting}");
    assert!(home.log().contains("that is for somebody to mend"), "{}", home.log());
    write("alice:sixteen-bytes-ok", 0o644);
    running.signal(Signal::HUP);
    let end = Instant::now() + PATIENCE;
    let trouble = || home.await_state("a", "waiting")["trouble"].to_string();
    while !trouble().contains("run chmod 600 on it") {
        assert!(Instant::now() < end, "{}", home.log());
    }
    write("alice:sixteen-bytes-ok", 0o600);
    let since = Instant::now();
    running.signal(Signal::HUP);
    home.await_state("a", "attached");
    assert!(since.elapsed() < Duration::from_secs(25), "not only after its pause");
    assert!(!home.log().contains("sixteen"), "{}", home.log());
    running.stop();
    export.stop();
}

#[test]
fn what_is_in_use_stays_until_it_is_not() {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: mounting needs /dev/fuse and root");
        return;
    }
    let home = Home::new();
    let export = Export::start(&["ram:32M"], &[]);
    let at = home.path("mnt");
    let text = format!("url = '{}'\nfuse = '{}'\n", export.url(0), at.display());
    home.write_text("a", &text);
    let running = home.start();
    let waiting = home.await_state("a", "waiting");
    assert!(waiting["trouble"].as_str().unwrap().contains("make it first"), "{waiting}");
    assert!(!home.log().contains("detached"), "it never was attached: {}", home.log());
    fs::create_dir(&at).unwrap();
    home.await_state("a", "attached");
    let file = OpenOptions::new().read(true).write(true).open(at.join("disk")).unwrap();
    file.write_all_at(b"any byte", 1_000_001).unwrap();
    home.remove("a");
    running.signal(Signal::HUP);
    home.await_log("its file is gone, but it cannot be detached");
    assert_eq!(home.await_state("a", "attached")["name"], "a");
    let mut back = [0; 8];
    file.read_exact_at(&mut back, 1_000_001).unwrap();
    assert_eq!(&back, b"any byte");
    drop(file);
    running.signal(Signal::HUP);
    home.await_gone("a");
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0, "it is not mounted any more");

    // What a process leaves that is killed, the next one takes away.
    home.write_text("a", &text);
    running.signal(Signal::HUP);
    home.await_state("a", "attached");
    drop(running);
    assert_eq!(fs::metadata(&at).unwrap_err().kind(), ErrorKind::NotConnected);
    let running = home.start();
    home.await_state("a", "attached");
    assert!(fs::metadata(at.join("disk")).is_ok());
    running.stop();
    export.stop();
}

#[test]
fn two_processes_do_not_attach_the_same_files() {
    let home = Home::new();
    let running = home.start();
    let ready = home.hears("READY=1");
    assert!(ready.ends_with("STATUS=0 of 0 volumes attached"), "{ready}");
    let output = finish(home.command().stdout(Stdio::null()));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("has attached all volumes already"), "{said}");
    running.stop();
    fs::remove_dir(home.path("attach.d")).unwrap();
    let output = finish(&mut home.command());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot read the directory '"), "{}", stderr(&output));
}

/// What was accepted and cannot be flushed is not passed over at the end, and holds up no other volume.
#[test]
fn a_flush_that_fails_at_the_end_is_in_the_status() {
    let home = Home::new();
    let spec = file_spec(&home.path(""), "good", "32M");
    let (good, dies) = (Export::start(&[&spec], &[]), Export::start(&["ram:32M"], &[]));
    home.write("good", &good.url(0), "");
    home.write("dies", &dies.url(0), "path-timeout = 2\n");
    let mut running = home.start();
    home.hears("READY=1");
    home.can_be_used("good", 7);
    home.leaves_unflushed("dies");
    dies.crash();
    running.signal(Signal::TERM);
    let status = running.wait(PATIENCE);
    assert_eq!(status.code(), Some(1), "{}", home.log());
    let log = home.log();
    assert!(log.contains("dies: what was written last could not be flushed"), "{log}");
    assert!(log.ends_with("not all volumes were detached in order: see above\n"), "{log}");
    good.stop();
    assert!(fs::read(home.path("good")).unwrap()[..65536].iter().all(|&byte| byte == 7));
}

/// Where nothing was written, or all of it was flushed, a dead target takes nothing along.
#[test]
fn a_target_that_dies_without_unflushed_writes_loses_nothing() {
    let home = Home::new();
    let dies = Export::start(&["ram:32M"], &[]);
    home.write("dies", &dies.url(0), "path-timeout = 2\n");
    let mut running = home.start();
    home.hears("READY=1");
    home.can_be_used("dies", 9);
    dies.crash();
    running.signal(Signal::TERM);
    let status = running.wait(PATIENCE);
    assert_eq!(status.code(), Some(0), "{}", home.log());
    assert!(!home.log().contains("could not be flushed"), "{}", home.log());
}

/// Its file has changed, and what it was cannot be flushed any more: that is told, and the disk of the new
/// file comes all the same.
#[test]
fn a_changed_file_is_followed_although_the_old_target_is_dead() {
    let home = Home::new();
    let (dies, lives) = (Export::start(&["ram:32M"], &[]), Export::start(&["ram:16M"], &[]));
    home.write("a", &dies.url(0), "path-timeout = 2\n");
    let running = home.start();
    home.hears("READY=1");
    home.leaves_unflushed("a");
    dies.crash();
    home.write("a", &lives.url(0), "path-timeout = 2\n");
    running.signal(Signal::HUP);
    let end = Instant::now() + PATIENCE;
    while home.volume("a").is_none_or(|volume| volume["size_bytes"] != 16 << 20) {
        assert!(Instant::now() < end, "{}", home.log());
    }
    home.can_be_used("a", 10);
    home.await_log("a: what was written last could not be flushed");
    let log = home.log();
    assert!(!log.contains("stays as it is"), "{log}");
    running.stop();
    lives.stop();
}
