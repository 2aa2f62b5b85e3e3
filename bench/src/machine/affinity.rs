//! Pinning: the target on one core, the client on another.

use anyhow::{Context, Result};
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
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only).with_context(|| format!("cannot run on core {core}"))?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Where it was before, it may be again: this cannot fail short of a hot-unplugged core.
        let _ = sched_setaffinity(None, &self.before);
    }
}
