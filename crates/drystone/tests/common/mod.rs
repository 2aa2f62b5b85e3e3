//! A running `drystone export` for integration tests: `Export::start(&["ram:64M"], &[])`.
//!
//! Each has free ports and a state directory of its own, so that tests run beside each other. It
//! ends with its value; what it logged is shown when the test fails.

// Every test binary compiles this file for itself and uses its own part of it.
#![allow(dead_code, reason = "no test binary uses all of it")]

pub(crate) mod ip;
pub(crate) mod member;

use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a start or a stop may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often an awaited state is looked at.
const PAUSE: Duration = Duration::from_millis(10);

/// The binary under test: DRYSTONE_BIN, or the one that cargo built for this test run.
pub(crate) fn binary() -> PathBuf {
    env::var_os("DRYSTONE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_drystone").into(), PathBuf::from)
}

/// `drystone` with arguments, and without what the caller's environment would change.
pub(crate) fn drystone(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).stdin(Stdio::null());
    for name in ["CHAP", "MUTUAL_CHAP", "LOG", "STATE_DIR", "RUNTIME_DIR", "DATA", "SOCKET"] {
        command.env_remove(format!("DRYSTONE_{name}"));
    }
    command.env_remove("RUST_LOG");
    command
}

/// Runs `drystone` to its end; one that does not end is killed, and the test fails.
pub(crate) fn run(args: &[&str]) -> Output {
    finish(&mut drystone(args))
}

/// Runs a command to its end, with a limit of time.
pub(crate) fn finish(command: &mut Command) -> Output {
    finish_within(command, PATIENCE).unwrap_or_else(|output| {
        panic!("{command:?} did not end: {}", String::from_utf8_lossy(&output.stderr))
    })
}

/// Runs a command to its end. One that takes longer is killed; what it said until then is the
/// error.
pub(crate) fn finish_within(command: &mut Command, limit: Duration) -> Result<Output, Output> {
    let mut child = spawn(command);
    let collect = |stream: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let (mut stream, mut bytes) = (stream, Vec::new());
            stream.read_to_end(&mut bytes).expect("a pipe can be read");
            bytes
        })
    };
    let stdout = collect(Box::new(child.stdout.take().expect("stdout is a pipe")));
    let stderr = collect(Box::new(child.stderr.take().expect("stderr is a pipe")));
    let status = wait(&mut child, limit);
    if status.is_none() {
        child.kill().expect("the child is still ours to kill");
    }
    let output = Output {
        status: status.unwrap_or_else(|| child.wait().expect("a killed child ends")),
        stdout: stdout.join().expect("the reader does not panic"),
        stderr: stderr.join().expect("the reader does not panic"),
    };
    if status.is_some() { Ok(output) } else { Err(output) }
}

/// Starts a command; tools that are not there fail the test with what to do about it.
fn spawn(command: &mut Command) -> Child {
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    started.unwrap_or_else(|error| {
        let program = command.get_program().display();
        panic!("{program} cannot be started ({error}): `scripts/setup.sh test` installs it")
    })
}

/// Waits for a child to end, up to `limit`.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        let status = child.try_wait().expect("the child can be asked");
        if status.is_some() || Instant::now() > end {
            return status;
        }
        thread::sleep(PAUSE);
    }
}

/// A `key=value` line that the binary printed once it was ready.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// All of it.
    pub(crate) text: String,
    /// Its pairs; the last one may hold blanks.
    pub(crate) pairs: HashMap<String, String>,
}

impl Line {
    pub(crate) fn parse(text: &str) -> Line {
        let (head, from) = match text.split_once(" from=") {
            Some((head, from)) => (head, Some(from)),
            None => (text, None),
        };
        let mut pairs: HashMap<_, _> = head
            .split(' ')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        pairs.extend(from.map(|from| ("from".to_owned(), from.to_owned())));
        Line { text: text.to_owned(), pairs }
    }
}

/// A running export.
#[derive(Debug)]
pub(crate) struct Export {
    child: Child,
    /// Where it listens; the first `--portal` first.
    pub(crate) portals: Vec<SocketAddr>,
    /// The name of its target.
    pub(crate) iqn: String,
    /// What it says about each LUN.
    pub(crate) luns: Vec<Line>,
    stdout: Option<Receiver<String>>,
    log: Arc<Mutex<String>>,
    log_reader: Option<JoinHandle<()>>,
    _state: Option<TempDir>,
}

impl Export {
    /// Starts `drystone export SPECS... OPTIONS...` and waits until it is ready. Without a
    /// `--portal` it listens on a free port of 127.0.0.1, without a `--state-dir` it has an empty
    /// one.
    pub(crate) fn start(specs: &[&str], options: &[&str]) -> Export {
        Export::start_with(specs, options, |_| {})
    }

    /// As [`start`](Self::start), with a say in the command (environment, network namespace).
    pub(crate) fn start_with(
        specs: &[&str],
        options: &[&str],
        adapt: impl FnOnce(&mut Command),
    ) -> Export {
        let given =
            |name: &str| options.iter().any(|o| *o == name || o.starts_with(&format!("{name}=")));
        let mut command = drystone(&["export"]);
        command.args(specs).args(options);
        let mut portals = options.iter().filter(|o| o.starts_with("--portal")).count();
        if !given("--portal") {
            command.args(["--portal", "127.0.0.1:0"]);
            portals = 1;
        }
        let mut state = None;
        if !given("--state-dir") {
            let dir = tempfile::tempdir().expect("a temporary directory can be made");
            command.arg("--state-dir").arg(dir.path());
            state = Some(dir);
        }
        adapt(&mut command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("drystone can be started");
        let log = Arc::new(Mutex::new(String::new()));
        let log_reader = read_log(child.stderr.take().expect("stderr is a pipe"), &log);
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let mut export = Export {
            child,
            portals: Vec::new(),
            iqn: String::new(),
            luns: Vec::new(),
            stdout: None,
            log,
            log_reader: Some(log_reader),
            _state: state,
        };
        export.await_ready(stdout, specs.len(), portals);
        export
    }

    /// Reads stdout until all LUNs and portals have been named; then on, so that it never fills.
    fn await_ready(&mut self, stdout: impl Read + Send + 'static, luns: usize, portals: usize) {
        let (lines, received) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The receiver is gone when the test has ended.
                let _ = lines.send(line);
            }
        });
        let end = Instant::now() + PATIENCE;
        while self.luns.len() < luns || self.portals.len() < portals {
            let text = match received.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(text) => text,
                Err(RecvTimeoutError::Timeout) => panic!("not ready in time:\n{}", self.log()),
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait().expect("a child without stdout ends");
                    self.join_log();
                    panic!("ended ({status}) before it was ready:\n{}", self.log());
                }
            };
            let line = Line::parse(&text);
            if text.starts_with("lun ") {
                self.luns.push(line);
            } else if text.starts_with("portal ") {
                let address = line.pairs["address"].parse();
                self.portals.push(address.expect("a portal line holds an address"));
                self.iqn = line.pairs["iqn"].clone();
            }
        }
        self.stdout = Some(received);
    }

    /// The lines it printed once it was ready; waits for its end.
    pub(crate) fn rest_of_stdout(&mut self) -> Vec<String> {
        self.stdout.take().map(|lines| lines.iter().collect()).unwrap_or_default()
    }

    /// The first portal.
    pub(crate) fn portal(&self) -> SocketAddr {
        self.portals[0]
    }

    /// `iscsi://PORTAL/IQN/LUN` by the first portal.
    pub(crate) fn url(&self, lun: usize) -> String {
        self.url_by(0, lun)
    }

    /// `iscsi://PORTAL/IQN/LUN` by the portal of this index.
    pub(crate) fn url_by(&self, portal: usize, lun: usize) -> String {
        format!("iscsi://{}/{}/{lun}", self.portals[portal], self.iqn)
    }

    /// Its process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until its log holds `text`; false when it does not in time.
    pub(crate) fn logs(&self, text: &str) -> bool {
        let end = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            if Instant::now() > end {
                return false;
            }
            thread::sleep(PAUSE);
        }
        true
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal)
            .expect("a child that was not waited for can be signalled");
    }

    /// Kills it as a crash would: no handler runs, nothing is flushed.
    pub(crate) fn crash(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("a killed child ends");
    }

    /// Stops it as an operator would; the test fails when it does not end with exit code 0.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.await_end();
        assert!(status.success(), "ended with {status}:\n{}", self.log());
    }

    /// Waits for its end.
    pub(crate) fn await_end(&mut self) -> ExitStatus {
        let status = wait(&mut self.child, PATIENCE);
        if status.is_none() {
            self.signal(Signal::KILL);
        } else {
            self.join_log();
        }
        status.unwrap_or_else(|| panic!("did not end in time:\n{}", self.log()))
    }

    /// Waits for the rest of the log of a child that has ended.
    fn join_log(&mut self) {
        if let Some(reader) = self.log_reader.take() {
            reader.join().expect("the log reader does not panic");
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // Both fail on a child that was waited for, and only on that.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- log of drystone {} ---\n{}---", self.child.id(), self.log());
        }
    }
}

/// Collects what a child logs.
fn read_log(stderr: impl Read + Send + 'static, log: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let log = Arc::clone(log);
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push_str(&line);
            log.push('\n');
        }
    })
}

/// `file:PATH:SIZE` for a file in a directory.
pub(crate) fn file_spec(dir: &Path, name: &str, size: &str) -> String {
    format!("file:{}:{size}", dir.join(name).display())
}
