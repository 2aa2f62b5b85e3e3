//! SIGINT and SIGTERM: the first stops cleanly, a second ends the process at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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

    /// Blocks until the first signal and gives its name.
    pub(crate) fn wait(&mut self) -> &'static str {
        match self.signals.forever().next() {
            Some(SIGINT) => "SIGINT",
            Some(_) => "SIGTERM",
            None => "a closed signal source",
        }
    }
}
