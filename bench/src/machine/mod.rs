//! The machine under the measurement: which core runs what, and what that cost.

mod affinity;
mod congestion;
mod facts;
mod process;

use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

pub(crate) use affinity::{Pinned, PinnedProcesses};
pub(crate) use congestion::CongestionControl;
pub(crate) use facts::Facts;
pub(crate) use process::{Child, Sample, children_cpu, in_path, sample};

#[cfg(test)]
mod tests;

/// Open files that one process may have: 1,000 sessions need more than the usual 1,024, here and in
/// the targets, which inherit the limit. What the hard limit forbids stays forbidden.
pub(crate) fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A soft limit may always be raised to the hard one.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Time that the calling thread was ready to run and had to wait for its core: with a core to itself
/// this is next to nothing, so it tells how far others disturbed a measurement.
pub(crate) fn thread_waited() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

/// CPU time that the calling thread has used, user and system.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
