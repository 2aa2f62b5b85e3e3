//! A running `drystone up`, and commands to it.

use super::{drystone, finish_within};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a start or an end may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a command may take there: what is asked of a group waits for other members, step by step.
const COMMAND_TIME: Duration = Duration::from_secs(180);

/// A directory for a member, and how it is started.
pub(crate) struct Home {
    dir: TempDir,
    options: Vec<String>,
    /// Where hosts reach the member, on a free port.
    address: IpAddr,
}

/// Where a member is unless it is put [elsewhere](Home::at).
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl Home {
    /// Sparse files of this size are the disks.
    pub(crate) fn files(count: usize, size: &str) -> Home {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let disk = |n| format!("--disk={}:{size}", dir.path().join(format!("disk-{n}")).display());
        let options = (0..count).map(disk).collect();
        Home { dir, options, address: LOOPBACK }
    }

    /// The same on disks with a write cache that killing the member empties, as a power cut does.
    pub(crate) fn volatile(count: usize, size: &str) -> Home {
        let mut home = Home::files(0, size);
        let disk = |n| format!("--disk={}", home.volatile_disk(&format!("disk-{n}"), size));
        home.options = (0..count).map(disk).collect();
        home
    }

    /// How such a disk is written.
    pub(crate) fn volatile_disk(&self, name: &str, size: &str) -> String {
        format!("volatile:{size}:{}", self.path(name).display())
    }

    /// The disks are what the member makes of its directory.
    pub(crate) fn bare() -> Home {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        Home { dir, options: Vec::new(), address: LOOPBACK }
    }

    /// The same with hosts reaching the member at this address.
    pub(crate) fn at(self, address: IpAddr) -> Home {
        Home { address, ..self }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("run/control.sock")
    }

    /// Without the disks that were named before.
    pub(crate) fn forget(&mut self) {
        self.options.clear();
    }

    /// The words of a command line that starts a member here.
    pub(crate) fn command_line(&self, more: &[&str]) -> Vec<String> {
        let data = self.path("data").display().to_string();
        let socket = self.socket().display().to_string();
        let portal = SocketAddr::new(self.address, 0).to_string();
        let fixed = ["up", "--data", &data, "--socket", &socket, "--portal", &portal];
        let words = fixed.into_iter().chain(more.iter().copied()).map(str::to_owned);
        words.chain(self.options.iter().cloned()).collect()
    }

    /// Starts a member that is killed as soon as this time is over, wherever it is by then.
    pub(crate) fn start_and_kill(&self, more: &[&str], after: Duration) {
        let line = self.command_line(more);
        let mut child = drystone(&line.iter().map(String::as_str).collect::<Vec<_>>())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("drystone can be started");
        std::thread::sleep(after);
        child.kill().expect("the child is there");
        child.wait().expect("a killed child ends");
    }

    /// Starts the member and waits until it is ready.
    pub(crate) fn start(&self, more: &[&str]) -> Member<'_> {
        let line = self.command_line(more);
        self.start_by(drystone(&line.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// The same by a command of the caller's.
    pub(crate) fn start_by(&self, command: Command) -> Member<'_> {
        let log = File::create(self.path("log")).expect("a log can be made");
        self.start_logging_to(log.into(), command)
    }

    /// Starts a member whose log fills a small pipe that nobody reads, as long as what comes with it is there.
    pub(crate) fn start_unread(&self) -> (Member<'_>, PipeReader) {
        let (unread, log) = pipe().expect("a pipe can be made");
        fcntl_setpipe_size(&log, 4096).expect("a page is enough for a pipe");
        let line = self.command_line(&[]);
        let command = drystone(&line.iter().map(String::as_str).collect::<Vec<_>>());
        (self.start_logging_to(log.into(), command), unread)
    }

    fn start_logging_to(&self, log: Stdio, mut command: Command) -> Member<'_> {
        let mut child =
            command.stdout(Stdio::piped()).stderr(log).spawn().expect("drystone can be started");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut lines = Vec::new();
        for line in stdout.lines().map_while(Result::ok) {
            let last = line.starts_with("socket ");
            lines.push(line);
            if last {
                break;
            }
        }
        let member = Member { home: self, child, lines };
        let ready = member.lines.last().is_some_and(|line| line.starts_with("socket "));
        assert!(ready, "it is not ready: {:?}\n{}", member.lines, member.log());
        member
    }

    /// Runs a command against the member.
    pub(crate) fn ask(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = drystone(words);
        let ended = finish_within(command.env("DRYSTONE_SOCKET", self.socket()), COMMAND_TIME);
        let output = ended.unwrap_or_else(|output| panic!("{words:?} does not end: {output:?}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code().expect("no signal ended it"),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}

/// A running member; killed with its value.
pub(crate) struct Member<'a> {
    pub(crate) home: &'a Home,
    child: Child,
    /// What it printed until it was ready.
    pub(crate) lines: Vec<String>,
}

impl Member<'_> {
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.path("log")).unwrap_or_default()
    }

    /// Its log, once these words are in it: it is written by and by.
    #[track_caller]
    pub(crate) fn logged(&self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            if log.contains(words) {
                return log;
            }
            assert!(Instant::now() < end, "not in the log: {words}\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn portal(&self) -> SocketAddr {
        self.portals()[0]
    }

    /// Where it listens, in the order of its options.
    pub(crate) fn portals(&self) -> Vec<SocketAddr> {
        let lines = self.lines.iter().filter_map(|line| line.strip_prefix("portal address="));
        let addresses = lines.filter_map(|rest| rest.split(' ').next());
        addresses.map(|address| address.parse().expect("an address")).collect()
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let (code, out, err) = self.home.ask(words);
        assert_eq!((code, err.as_str()), (0, ""), "{words:?}: {out}\n{}", self.log());
        out
    }

    /// The same with `--json`.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let out = self.run(&[words, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?}: {error}: {out}"))
    }

    /// Runs a command that must be refused with one sentence, and returns that.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str]) -> String {
        let (code, out, err) = self.home.ask(words);
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{words:?}: {err}");
        err.trim_end().strip_prefix("drystone: ").expect("it says who speaks").to_owned()
    }

    /// The target of a volume.
    pub(crate) fn iqn(&self, volume: &str) -> String {
        let shown = self.json(&["volume", "show", volume]);
        shown["iqn"].as_str().expect("a volume has a target").to_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the child is there");
    }

    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be asked") {
                return status;
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops it as an operator would.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert!(status.success(), "ended with {status}:\n{}", self.log());
    }

    /// Kills it as a crash would.
    pub(crate) fn crash(mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        // Both fail on a child that was waited for, and only on that.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of drystone {} ---\n{}---", self.child.id(), self.log());
        }
    }
}

/// A path as it stands in a command line.
pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}
