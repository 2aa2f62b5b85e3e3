//! Pinning: the target on one core, the client on another.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The calling thread runs on one core while this lives; so do threads and processes that it
/// starts meanwhile, for ever.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pins the calling thread to `core`.
    ///
    /// # Errors
    /// There is no such core, or it is not ours to use.
    pub(crate) fn to_core(core: usize) -> Result<Self> {
        let before = sched_getaffinity(None).context("sched_getaffinity")?;
        sched_setaffinity(None, &only(core))
            .with_context(|| format!("cannot run on core {core}"))?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Where it was before, it may be again: this cannot fail short of a hot-unplugged core.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// All threads of some processes run on one core while this lives, and wherever we may afterwards; so do those that
/// they start meanwhile, which stay there.
#[derive(Debug)]
pub(crate) struct PinnedProcesses {
    pids: Vec<u32>,
    after: CpuSet,
}

impl PinnedProcesses {
    /// Pins the processes to `core`.
    ///
    /// # Errors
    /// One of them is gone, or there is no such core.
    pub(crate) fn to_core(pids: Vec<u32>, core: usize) -> Result<Self> {
        let after = sched_getaffinity(None).context("sched_getaffinity")?;
        let pinned = Self { pids, after };
        let set = only(core);
        for pid in &pinned.pids {
            place(*pid, &set)
                .with_context(|| format!("cannot put process {pid} on core {core}"))?;
        }
        Ok(pinned)
    }
}

impl Drop for PinnedProcesses {
    fn drop(&mut self) {
        for pid in &self.pids {
            // One that has ended meanwhile runs nowhere.
            let _ = place(*pid, &self.after);
        }
    }
}

fn only(core: usize) -> CpuSet {
    let mut only = CpuSet::new();
    only.set(core);
    only
}

/// Has all threads of a process run on these cores. One that ends meanwhile is none of them.
fn place(pid: u32, cores: &CpuSet) -> Result<()> {
    let leader = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process has it")?;
    sched_setaffinity(Some(leader), cores)?;
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let threads = tasks.filter_map(|task| Pid::from_raw(task.file_name().to_str()?.parse().ok()?));
    for thread in threads {
        let _ = sched_setaffinity(Some(thread), cores);
    }
    Ok(())
}
