//! SIGINT and SIGTERM: the first stops cleanly, a second ends the process at once. SIGHUP: read the
//! configuration again.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

/// The signals that stop.
const STOPPING: [i32; 2] = [SIGINT, SIGTERM];

/// Waits for a signal to stop. A second signal ends the process with 130 or 143 from inside its
/// handler, whatever the rest of the process hangs in.
pub(crate) struct StopSignals {
    signals: Signals,
}

impl StopSignals {
    /// Takes the signals over; one that arrives before [`wait`](Self::wait) is not lost.
    pub(crate) fn install() -> io::Result<StopSignals> {
        let first_seen = Arc::new(AtomicBool::new(false));
        for signal in STOPPING {
            // Handlers run in the order they were registered: the first signal finds the flag
            // false and sets it, the second finds it true.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&first_seen))?;
            flag::register(signal, Arc::clone(&first_seen))?;
        }
        Ok(StopSignals { signals: Signals::new(STOPPING)? })
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
    if signal == SIGINT { "SIGINT" } else { "SIGTERM" }
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
