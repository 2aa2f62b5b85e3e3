//! What gives way when others find no room.
//!
//! Room for a write whose data is announced to come unasked is kept before it comes, since the host
//! cannot be told to wait. Many that announce and send nothing would have all of it, however little
//! each may have. So, when somebody finds no room, those writes end with BUSY for which next to
//! nothing has come for a second. Their owners may hold little for a while
//! ([`memory::Owner::distrust`]): what has become free is for others.
//!
//! In the same way many that ask and take no answers would have all memory for output, though each
//! may keep little of it waiting ([`crate::conn`]). When somebody who takes its own finds none, the
//! connections are dropped whose peers have taken next to nothing for two seconds: what is queued for
//! a host cannot be taken back in any other way.
//!
//! Nothing is watched as long as there is room.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::conn::{Connection, Ending};
use crate::ffp;
use crate::memory::{OUTPUT, UNASKED};
use crate::quiet::{STALL, quietly};
use crate::task::Task;

/// How long data that was announced may not come. Shorter than a command waits for room.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// How long output may not be taken: longer than a network needs to find another way.
const UNTAKEN_TIME: Duration = Duration::from_secs(2);

/// How often a core looks for such data: many may find no room at the same time.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

type Look = Cell<Option<Instant>>;

thread_local! {
    static LAST_LOOK: Look = const { Cell::new(None) };
    static LAST_OUTPUT_LOOK: Look = const { Cell::new(None) };
}

/// Somebody on this core found no room. What gives way is chosen before the first of it does: those
/// who have much, which is everybody when nothing is free.
pub(crate) fn make_room() {
    if !LAST_LOOK.with(may_look) {
        return;
    }
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

fn may_look(last: &Look) -> bool {
    let now = ring::now();
    let may = last.get().is_none_or(|last| now - last >= LOOK_PAUSE);
    if may {
        last.set(Some(now));
    }
    may
}

/// Somebody on this core who takes its own output found no memory for more.
pub(crate) fn take_back_output() {
    if !LAST_OUTPUT_LOOK.with(may_look) {
        return;
    }
    let sessions = crate::core::all_sessions();
    let mut idle: Vec<_> = sessions.iter().flat_map(|session| session.connections()).collect();
    idle.retain(|conn| conn.owner.holds_much(OUTPUT) && conn.takes_nothing(UNTAKEN_TIME));
    for conn in idle {
        conn.owner.distrust();
        conn.end(Ending::Stalled("it does not take what it asked for, and others need its memory"));
    }
}

fn idle_tasks(conn: &Rc<Connection>) -> Vec<Rc<Task>> {
    let missing = conn.session.missing_bytes(conn);
    if missing == 0 || !conn.owner.holds_much(UNASKED) {
        return Vec::new();
    }
    let mut tasks = conn.session.tasks_of(conn);
    tasks.retain(|task| task.is_idle(IDLE_TIME, missing));
    tasks
}
