//! What a service manager hears of a member: that it serves, that it is alive, that it stops.

use crate::os::notify::Notifier;
use member::Life;
use std::sync::Arc;
use std::thread;

/// The member as a service.
#[derive(Debug)]
pub(super) struct Service(Arc<Notifier>);

impl Service {
    /// As the environment of this process says.
    pub(super) fn of_process() -> Service {
        Service(Arc::new(Notifier::of_process()))
    }

    /// It serves: says so, and gives signs of life from now on, each after the member's own core has
    /// answered.
    pub(super) fn ready(&self, life: &Arc<Life>, status: &str) -> std::io::Result<()> {
        self.0.ready(status);
        let Some(interval) = self.0.sign_interval() else { return Ok(()) };
        let (notifier, life) = (Arc::clone(&self.0), Arc::clone(life));
        // Ends with the process, or when the member has.
        thread::Builder::new().name("watchdog".into()).spawn(move || {
            while life.with(|_| async {}).is_ok() {
                notifier.sign_of_life();
                thread::sleep(interval);
            }
        })?;
        Ok(())
    }

    /// It is on its way out.
    pub(super) fn stopping(&self, status: &str) {
        self.0.stopping(status);
    }
}
