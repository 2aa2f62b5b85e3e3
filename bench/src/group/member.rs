//! One `drystone up`, with the etcd that it may run.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::http::{Ask, Reply};
use crate::adapter::{follow, log_tail};
use crate::machine::Child;

/// Sparse files that are its disks, and how large each is.
const DISKS: usize = 4;
const DISK: &str = "4G";
/// What its read cache may hold: more than is read.
const CACHE: &str = "128M";
/// How far above its portal the first of the ports is where others reach it.
const DOOR: u16 = 10;
/// How long it may take until it serves, and until it has stopped.
const START_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(30);
/// How long an etcd has to end when its member is gone.
const ETCD_GRACE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// A member, which ends with this value, and its etcd too.
pub(super) struct Member {
    pub(super) name: &'static str,
    /// Its portal.
    pub(super) portal: SocketAddr,
    program: PathBuf,
    directory: PathBuf,
    child: Option<Child>,
}

impl Member {
    /// At 127.0.0.`last_byte`; it does not run yet.
    pub(super) fn new(
        (name, last_byte): (&'static str, u8),
        program: &Path,
        directory: PathBuf,
        port: u16,
    ) -> Self {
        let portal = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last_byte), port));
        Self { name, portal, program: program.to_owned(), directory, child: None }
    }

    /// Where other members reach it.
    pub(super) fn door(&self) -> SocketAddr {
        SocketAddr::new(self.portal.ip(), self.portal.port() + DOOR)
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Its process, while it runs.
    pub(super) fn pid(&self) -> Result<u32> {
        let child = self.child.as_ref();
        child.map(Child::pid).with_context(|| format!("member {} does not run", self.name))
    }

    /// Starts it, and waits until it says that it serves: how long that took.
    pub(super) fn start(&mut self, stop: &AtomicBool) -> Result<Duration> {
        let log = self.directory.join("drystone.log");
        let file = fs::File::options().create(true).append(true).open(&log);
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(file.with_context(|| format!("open {}", log.display()))?);
        let begun = Instant::now();
        let mut child = Child::start(&mut command, "drystone up")?;
        let lines = follow(child.take_stdout().context("drystone has no standard output")?);
        self.child = Some(child);
        loop {
            match lines.recv_timeout(POLL) {
                // The last of what it prints once it serves.
                Ok(line) if line.starts_with("socket ") => return Ok(begun.elapsed()),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("member {} ended at once: {}", self.name, log_tail(&log))
                }
            }
            if stop.load(Ordering::Relaxed) {
                bail!("stopped by a signal");
            }
            if begun.elapsed() > START_MAX {
                bail!("member {} does not serve within {START_MAX:?}", self.name);
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("up").arg("--data").arg(self.data()).arg("--socket").arg(self.socket());
        command.args(["--portal", &self.portal.to_string(), "--cores", "1"]);
        command.args(["--cache-memory", CACHE]);
        for number in 0..DISKS {
            let path = self.directory.join(format!("disk-{number}"));
            command.arg("--disk").arg(format!("{}:{DISK}", path.display()));
        }
        command
    }

    /// Stops it as an operator would, and waits until it has ended.
    pub(super) fn end(&mut self, stop: &AtomicBool) -> Result<()> {
        let etcds = self.etcds();
        let mut child = self.child.take().with_context(|| format!("{} has ended", self.name))?;
        signal(child.pid(), Signal::TERM);
        let ended = child.wait_until(Instant::now() + STOP_MAX, stop);
        drop(child);
        self.end_etcds(etcds);
        let status = ended.with_context(|| format!("stopping member {}", self.name))?;
        if !status.success() {
            let tail = log_tail(&self.directory.join("drystone.log"));
            bail!("member {} ended with {status}: {tail}", self.name);
        }
        Ok(())
    }

    /// Asks it; its answer is a good one.
    pub(super) fn ask(&self, ask: &Ask<'_>) -> Result<Reply> {
        ask.of(&self.socket())
    }

    /// The etcds on what it keeps: one, or none. Their command line says where their data is.
    pub(super) fn etcds(&self) -> Vec<u32> {
        let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
        let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|pid| self.is_its_etcd(*pid)).collect()
    }

    fn is_its_etcd(&self, pid: u32) -> bool {
        // A process that has ended meanwhile is none of them.
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_etcd_at(&String::from_utf8_lossy(&line), &self.data())
    }

    /// Waits until these etcds have ended, as they do when their member has; kills what is left.
    fn end_etcds(&self, mut etcds: Vec<u32>) {
        let deadline = Instant::now() + ETCD_GRACE;
        loop {
            // One that has this number by now and is something else is not touched.
            etcds.retain(|pid| self.is_its_etcd(*pid));
            if etcds.is_empty() {
                return;
            }
            if Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(POLL);
        }
        for pid in etcds {
            eprintln!("the etcd of member {} (pid {pid}) outlived it and is killed", self.name);
            signal(pid, Signal::KILL);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let etcds = self.etcds();
        // This ends it.
        self.child = None;
        self.end_etcds(etcds);
    }
}

/// Whether a process with this command line, of /proc, is an etcd on what is kept in `data`. It is started through
/// setpriv, and is that for a moment.
pub(super) fn is_etcd_at(line: &str, data: &Path) -> bool {
    let program = line.split('\0').next().and_then(|path| path.rsplit('/').next());
    let inside = format!("{}/", data.display());
    matches!(program, Some("etcd" | "setpriv")) && line.contains(&inside)
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself since; then there is nothing to tell it.
        let _ = kill_process(pid, signal);
    }
}
