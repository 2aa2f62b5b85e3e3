//! SIGINT and SIGTERM: the first stops cleanly, a second ends the process at once. SIGHUP: read the
//! configuration again, or, for commands that belong to a terminal, stop as well.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

/// The signals that stop.
const STOPPING: [i32; 2] = [SIGINT, SIGTERM];

/// Waits for a signal to stop. A second signal ends the process with 128 and its number from inside its
/// handler, whatever the rest of the process hangs in.
pub(crate) struct StopSignals {
    signals: Signals,
}

impl StopSignals {
    /// Takes the signals over; one that arrives before [`wait`](Self::wait) is not lost.
    pub(crate) fn install() -> io::Result<StopSignals> {
        Self::of(&STOPPING)
    }

    /// As [`install`](Self::install), and SIGHUP stops as well, unless whoever started this process has
    /// had it ignored, as `nohup` does.
    pub(crate) fn install_with_hangup() -> io::Result<StopSignals> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        match ignores_hangup(&status) {
            true => Self::of(&STOPPING),
            false => Self::of(&[SIGINT, SIGTERM, SIGHUP]),
        }
    }

    fn of(stopping: &[i32]) -> io::Result<StopSignals> {
        let first_seen = Arc::new(AtomicBool::new(false));
        for &signal in stopping {
            // Handlers run in the order they were registered: the first signal finds the flag
            // false and sets it, the second finds it true.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&first_seen))?;
            flag::register(signal, Arc::clone(&first_seen))?;
        }
        Ok(StopSignals { signals: Signals::new(stopping)? })
    }

    /// The name of the first signal, if it has come.
    pub(crate) fn came(&mut self) -> Option<&'static str> {
        self.signals.pending().next().map(name)
    }

    /// Blocks until the first signal and gives its name.
    pub(crate) fn wait(&mut self) -> &'static str {
        self.signals.forever().next().map_or("a closed signal source", name)
    }
}

fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGHUP => "SIGHUP",
        _ => "SIGTERM",
    }
}

/// Whether SIGHUP is ignored, by the words of `/proc/self/status`: `SigIgn:` and a mask in which bit 0 is
/// signal 1.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// Calls `reload` for each SIGHUP, in a thread of its own. Without this a SIGHUP ends the process.
pub(crate) fn on_reload(reload: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP])?;
    thread::Builder::new().name("reload".to_owned()).spawn(move || {
        for _ in signals.forever() {
            reload();
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_that_is_ignored_stays_ignored() {
        assert!(ignores_hangup("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"));
        assert!(!ignores_hangup("SigBlk:\t1\nSigIgn:\t0000000000001000\n"));
        assert!(!ignores_hangup("Name:\tx\n"));
    }
}
