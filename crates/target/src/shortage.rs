//! What gives way when data that comes unasked finds no room.
//!
//! Room for a write whose data is announced to come unasked is kept before it comes, since the host
//! cannot be told to wait. Many that announce and send nothing would have all of it, however little
//! each may have. So, when somebody finds no room, those writes end with BUSY for which next to
//! nothing has come for a second. Their owners may hold little for a while
//! ([`memory::Owner::distrust`]): what has become free is for others.
//!
//! Nothing is watched as long as there is room.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::conn::Connection;
use crate::ffp;
use crate::quiet::{STALL, quietly};
use crate::task::Task;

/// How long data that was announced may not come. Shorter than a command waits for room.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// How often a core looks for such data: many may find no room at the same time.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

thread_local! {
    static LAST_LOOK: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Somebody on this core found no room. What gives way is chosen before the first of it does: those
/// who have much, which is everybody when nothing is free.
pub(crate) fn make_room() {
    let now = ring::now();
    if LAST_LOOK.get().is_some_and(|last| now - last < LOOK_PAUSE) {
        return;
    }
    LAST_LOOK.set(Some(now));
    let sessions = crate::core::sessions();
    let connections = sessions.iter().flat_map(|session| session.connections());
    let idle: Vec<_> = connections.flat_map(|conn| idle_tasks(&conn)).collect();
    for task in idle {
        let conn = task.conn();
        let (initiator, peer) = (&conn.session.initiator, conn.peer);
        quietly!(
            STALL,
            warn,
            "refused a write of {initiator} at {peer}: its data does not come, and others need its memory"
        );
        conn.owner.distrust();
        ffp::give_way(&task);
    }
}

fn idle_tasks(conn: &Rc<Connection>) -> Vec<Rc<Task>> {
    let missing = conn.session.missing_bytes(conn);
    if missing == 0 || !conn.owner.holds_much() {
        return Vec::new();
    }
    let mut tasks = conn.session.tasks_of(conn);
    tasks.retain(|task| task.is_idle(IDLE_TIME, missing));
    tasks
}
