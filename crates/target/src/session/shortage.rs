//! What gives way when others find no room.
//!
//! Room for the data of a write is kept before it comes, whether it comes unasked or is asked for then.
//! Many that send nothing would have all of it, however little each may have. So, when somebody finds
//! no room, those writes end with BUSY for which next to nothing has come for a second. Where it was
//! asked for it is four times as long as such data took lately, up to five seconds: hosts are late
//! when there are very many of them. It is a second where most of the room is kept for nothing, be it all
//! room or a part of it: late hosts have little of it, and many that mean to be late would have all. Their owners may hold little for a while
//! ([`memory::Owner::distrust`]), and wait behind others: what has become free is for those. Memory
//! that the socket is filling cannot be taken back: a connection that stops in the middle of a PDU is
//! dropped.
//!
//! In the same way many that ask and take no answers would have all memory for output, though each
//! may keep little of it waiting ([`crate::datamover`]). When somebody who takes its own finds none, the
//! connections are dropped whose peers have taken next to nothing for two seconds: what is queued for
//! a host cannot be taken back in any other way.
//!
//! Nothing is watched as long as there is room.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::ends::give_way;
use super::per_core::{all_sessions, sessions};
use super::task::{IdleRoom, Task};
use super::{Connection, Ending};
use crate::memory::{self, Level, Use, Way};
use crate::mutants::{self, Mutant};
use crate::quiet::{STALL, quietly};

/// How long data that was asked for may not come: so often as long as it took lately, within these
/// bounds.
const ASKED_PART: u32 = 4;
const ASKED_TIME_MIN: Duration = Duration::from_secs(1);
const ASKED_TIME_MAX: Duration = Duration::from_secs(5);

/// "Lately" is the time since two of these began.
const LATELY: Duration = Duration::from_secs(10);

/// What part of all room for data that was asked for, as one of so many, may be kept for data that has not
/// come for a second.
const IDLE_PART: usize = 2;

/// How long nothing of a PDU may come that has begun.
const PDU_TIME: Duration = Duration::from_secs(5);

/// How long output may not be taken: longer than a network needs to find another way.
const UNTAKEN_TIME: Duration = Duration::from_secs(2);

/// How often a core looks for such data: many may find no room at the same time.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// The same while somebody waits.
const WATCH_PAUSE: Duration = Duration::from_millis(250);

/// The longest time in which data came that was asked for, of two spans.
#[derive(Clone, Copy)]
struct Lateness {
    since: Option<Instant>,
    longest: Duration,
    before: Duration,
}

impl Lateness {
    const UNKNOWN: Self = Self { since: None, longest: ASKED_TIME_MAX, before: ASKED_TIME_MAX };

    /// As it is at this time. When nothing has come for two spans nobody was late.
    fn at(self, now: Instant) -> Self {
        let age = self.since.map_or(Duration::ZERO, |since| now - since);
        let since = Some(if self.since.is_none() || age >= LATELY { now } else { now - age });
        match age {
            _ if age >= 2 * LATELY => {
                Self { since, longest: Duration::ZERO, before: Duration::ZERO }
            }
            _ if age >= LATELY => Self { since, longest: Duration::ZERO, before: self.longest },
            _ => Self { since, ..self },
        }
    }
}

type Look = Cell<Option<Instant>>;

thread_local! {
    static LATENESS: Cell<Lateness> = const { Cell::new(Lateness::UNKNOWN) };
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static LAST_LOOK: Look = const { Cell::new(None) };
    static LAST_OUTPUT_LOOK: Look = const { Cell::new(None) };
}

/// Room that may be taken back.
struct Idle {
    task: Rc<Task>,
    room: IdleRoom,
}

/// Somebody on this core found no room. What gives way is chosen before the first of it does: those
/// who have much, which is everybody when nothing is free.
pub(crate) fn make_room() {
    if !LAST_LOOK.with(may_look) || mutants::is(Mutant::KeepRoom) {
        return;
    }
    let sessions = sessions();
    let connections = sessions.iter().flat_map(|session| session.connections());
    let holding: Vec<_> = connections.filter(|conn| conn.owner.holds_much(Way::In)).collect();
    let mut idle: Vec<_> = holding.iter().flat_map(idle_rooms).collect();
    if !mutants::is(Mutant::LateAreMany) {
        end_most(&mut idle);
    }
    idle.retain(|idle| idle.room.gives_way);
    let (filled, idle): (Vec<_>, Vec<_>) = idle.into_iter().partition(|idle| idle.room.is_filled);
    let is_stopped = |conn: &&Rc<Connection>| conn.mover.stopped_in_a_pdu() >= PDU_TIME;
    let stopped = holding.iter().filter(is_stopped).chain(filled.iter().map(|it| it.task.conn()));
    let stopped: Vec<_> = stopped.collect();
    // All of them first: what one gives back is not for another one.
    for conn in idle.iter().map(|idle| idle.task.conn()).chain(stopped.iter().copied()) {
        conn.owner.distrust();
    }
    for Idle { task, .. } in idle {
        let conn = task.conn();
        let (initiator, peer) = (&conn.session.initiator, conn.peer);
        quietly!(
            STALL,
            warn,
            "refused a write of {initiator} at {peer}: its data does not come, and others need its memory"
        );
        give_way(&task);
    }
    for conn in stopped {
        conn.end(Ending::Stalled("it stopped in the middle of a PDU, and others need its memory"));
    }
}

/// Of each part of all room no more than [`IDLE_PART`] stays with those from whom nothing has come for
/// [`ASKED_TIME_MIN`]: who has been idle longest gives way.
fn end_most(idle: &mut [Idle]) {
    idle.sort_by_key(|idle| std::cmp::Reverse(idle.room.time));
    for level in Level::ALL {
        let is_late = |Idle { room, .. }: &Idle| {
            room.was_asked && room.time >= ASKED_TIME_MIN && room.level <= level
        };
        let mut bytes: usize = idle.iter().filter(|it| is_late(it)).map(|it| it.room.bytes).sum();
        for it in idle.iter_mut().filter(|it| is_late(it)) {
            if bytes <= memory::pulled_bytes(level) / IDLE_PART {
                break;
            }
            it.room.gives_way = true;
            bytes -= it.room.bytes;
        }
    }
}

/// Looks whether something gives way for as long as data that is to be asked for waits for room.
pub(crate) fn watch() {
    let Some(watch) = Watch::begin() else { return };
    ring::spawn(async move {
        let _watch = watch;
        while ring::sleep(WATCH_PAUSE).map(|()| memory::look_again(Use::Pulled)).await {
            make_room();
        }
    });
}

/// There is one on a core.
struct Watch;

impl Watch {
    fn begin() -> Option<Self> {
        (!IS_WATCHED.replace(true)).then(|| Self)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        IS_WATCHED.set(false);
    }
}

/// All data of a write has come that was asked for, in this time.
pub(crate) fn came_in(time: Duration) {
    let mut lateness = LATENESS.get().at(ring::now());
    lateness.longest = lateness.longest.max(time);
    LATENESS.set(lateness);
}

/// How long data that was asked for may not come, while others need its memory.
pub(crate) fn asked_time() -> Duration {
    let Lateness { longest, before, .. } = LATENESS.get().at(ring::now());
    (longest.max(before) * ASKED_PART).clamp(ASKED_TIME_MIN, ASKED_TIME_MAX)
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
    let sessions = all_sessions();
    let mut idle: Vec<_> = sessions.iter().flat_map(|session| session.connections()).collect();
    idle.retain(|conn| conn.owner.holds_much(Way::Out) && conn.mover.takes_nothing(UNTAKEN_TIME));
    for conn in idle {
        conn.owner.distrust();
        conn.end(Ending::Stalled("it does not take what it asked for, and others need its memory"));
    }
}

fn idle_rooms(conn: &Rc<Connection>) -> Vec<Idle> {
    let missing = conn.session.missing_bytes(conn);
    // What has come and was not read yet is late by this core's fault.
    if missing == 0 || conn.mover.has_unread() {
        return Vec::new();
    }
    let stopped = conn.mover.stopped_in_a_pdu();
    let tasks = conn.session.tasks_of(conn).into_iter();
    tasks
        .filter_map(|task| task.idle_room(missing, stopped).map(|room| Idle { task, room }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_known_for_two_spans() {
        let begun = Instant::now();
        let at = |lateness: Lateness, seconds| {
            let now = lateness.at(begun + Duration::from_secs(seconds));
            (now, now.longest.max(now.before).as_secs())
        };
        let (mut late, longest) = at(Lateness::UNKNOWN, 0);
        assert_eq!(longest, 5, "nothing is known at first");
        late.longest = Duration::from_secs(2);
        late.before = Duration::ZERO;
        let (late, longest) = at(late, 9);
        assert_eq!(longest, 2);
        assert_eq!(at(late, 29).1, 0, "nor after a long rest");
        let (late, longest) = at(late, 12);
        assert_eq!(longest, 2);
        assert_eq!(at(late, 22).1, 0);
    }
}
