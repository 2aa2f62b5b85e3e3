//! The control socket of a member, which lives on its core.

use crate::control::server::{CONNECTIONS_MAX, Control};
use crate::os::files;
use anyhow::Context;
use member::Life;
use std::cell::RefCell;
use std::io;
use std::path::Path;

thread_local! {
    /// The socket of the member of this core.
    static HERE: RefCell<Option<Control>> = const { RefCell::new(None) };
}

/// Takes requests at `socket`.
pub(super) fn answer_at(life: &Life, socket: &Path) -> anyhow::Result<()> {
    let path = socket.to_owned();
    let connections_max = files::control_connections(CONNECTIONS_MAX);
    let made = life.with(move |member| async move {
        let control = Control::start(&path, member, connections_max)?;
        HERE.set(Some(control));
        Ok::<(), io::Error>(())
    });
    let failed = || format!("cannot make the control socket '{}'", socket.display());
    made.with_context(failed)?.with_context(failed)
}

/// Takes no more requests, and has those under way answered.
pub(super) fn hang_up(life: &Life) {
    let hung_up = life.with(|member| async move {
        member.stops();
        if let Some(control) = HERE.take() {
            control.hang_up().await;
        }
    });
    if let Err(error) = hung_up {
        tracing::warn!("{error}");
    }
}
