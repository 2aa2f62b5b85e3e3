//! Processes: starting them, ending them by their id, and reading what they have used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::facts::field;

/// A process that was asked to end has this long before it is killed.
const GRACE: Duration = Duration::from_secs(3);
/// How often a child is looked at while we wait for it.
const POLL: Duration = Duration::from_millis(10);
/// The unit of CPU times in /proc/PID/stat: USER_HZ, which is 100 on every Linux ABI that we run on.
const TICK: Duration = Duration::from_millis(10);

/// A child that never outlives us.
#[derive(Debug)]
pub(crate) struct Child {
    inner: std::process::Child,
    what: String,
}

impl Child {
    /// Starts `command`; `what` names it in messages.
    ///
    /// # Errors
    /// It could not be started.
    pub(crate) fn start(command: &mut Command, what: &str) -> Result<Self> {
        let inner = command.spawn().with_context(|| format!("cannot start {what}"))?;
        Ok(Self { inner, what: what.to_owned() })
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.inner.id()
    }

    /// The pipe of its standard output, once, if it was started with one.
    pub(crate) fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.inner.stdout.take()
    }

    /// Whether it has ended, and how.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.inner.try_wait()
    }

    /// Waits for its end until `deadline`.
    ///
    /// # Errors
    /// It is still running then (it is ended), or `stop` said so.
    pub(crate) fn wait_until(
        &mut self,
        deadline: Instant,
        stop: &std::sync::atomic::AtomicBool,
    ) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if stop.load(std::sync::atomic::Ordering::Relaxed) {
                bail!("stopped by a signal");
            }
            if Instant::now() >= deadline {
                bail!("{} did not end in time", self.what);
            }
            std::thread::sleep(POLL);
        }
    }

    fn end(&mut self) -> io::Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself since; then there is nothing to tell it.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if self.ended()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        self.inner.kill()?;
        self.inner.wait().map(drop)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("cannot end {} (pid {}): {error}", self.what, self.pid());
        }
    }
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// When this was read.
    pub(crate) at: Instant,
    /// User and system time of all its threads.
    pub(crate) cpu: Duration,
    /// Memory that it holds and could not give back: anonymous and shared pages that are resident.
    pub(crate) memory_bytes: u64,
}

/// Reads what process `pid` has used.
///
/// # Errors
/// There is no such process.
pub(crate) fn sample(pid: u32) -> Result<Sample> {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    let stat = fs::read_to_string(directory.join("stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    let coarse = stat_cpu(&stat).with_context(|| format!("/proc/{pid}/stat is not readable"))?.0;
    // The scheduler's own count is exact to the nanosecond but forgets threads that have ended; the
    // coarse one remembers them, so a gap of more than its resolution means that some have.
    let exact = threads_cpu(&directory.join("task"));
    let cpu = if coarse > exact + Duration::from_millis(50) { coarse } else { exact };
    let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
    let kib = |name| {
        let value = field(&status, name)?.trim_end_matches(" kB");
        value.parse::<u64>().ok()
    };
    let memory_kib = kib("RssAnon").unwrap_or(0) + kib("RssShmem").unwrap_or(0);
    Ok(Sample { at: Instant::now(), cpu, memory_bytes: memory_kib << 10 })
}

fn threads_cpu(tasks: &Path) -> Duration {
    let Ok(entries) = fs::read_dir(tasks) else { return Duration::ZERO };
    entries
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split_ascii_whitespace().next()?.parse().ok())
        .map(Duration::from_nanos)
        .sum()
}

/// CPU time of the process itself, and of its children that have ended, from /proc/PID/stat.
pub(super) fn stat_cpu(stat: &str) -> Option<(Duration, Duration)> {
    // The name, in parentheses, may hold anything; fields are counted after its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some((TICK * (ticks(11)? + ticks(12)?), TICK * (ticks(13)? + ticks(14)?)))
}

/// CPU time of all our children that have ended and been waited for.
pub(crate) fn children_cpu() -> Duration {
    fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| stat_cpu(&stat))
        .map_or(Duration::ZERO, |(_, children)| children)
}

/// Where `program` is, looked for in PATH and where daemons live.
pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}
