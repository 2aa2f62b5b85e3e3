//! Moves of which one side is killed, at one moment after the other: one member has the volume, with all that was
//! acknowledged, and the next move goes on as if nothing had been.

use std::thread;
use std::time::Duration;

use crate::busy::{Bed, Busy, NAMES, VOLUME, roomy_sites};
use crate::common::member::Member;
use crate::sites::{PATIENCE, Site, asked, await_all, wait_for};

/// Which side is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

/// When.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// So long after it began to be copied.
    Copying(Duration),
    /// So long after hosts have lost it: it is frozen, prepared, handed over, adopted within these times.
    Frozen(Duration),
}

const MOMENTS: [Moment; 5] = [
    Moment::Copying(Duration::from_millis(100)),
    Moment::Frozen(Duration::ZERO),
    Moment::Frozen(Duration::from_millis(50)),
    Moment::Frozen(Duration::from_millis(200)),
    Moment::Frozen(Duration::from_millis(800)),
];

/// How often a move is begun anew that was given up: a machine that is busy with other things is slow to answer.
const TRIES: usize = 5;

/// Has the volume move from one member to another, as the third one is asked, and returns at this moment.
#[track_caller]
fn move_until(
    (members, busy): (&[Member<'_>], &Busy),
    (from, to, third): (usize, usize, usize),
    moment: Moment,
) {
    let ended = busy.ended();
    let line = ["volume", "move", VOLUME, "--to", NAMES[to], "--no-wait"];
    for _ in 0..TRIES {
        wait_for("it begins to move", PATIENCE, || {
            // The one before may leave something that goes by and by.
            match asked(&members[third], &line) {
                // One whose answer was lost has begun all the same.
                Err(_) if busy.ended() > ended => Ok(()),
                begun => begun.map(drop),
            }
        });
        let (is_it, since) = match moment {
            Moment::Copying(since) => (true, since),
            Moment::Frozen(since) => {
                let goes_on = || moves_from(&members[third], NAMES[from]);
                (busy.await_end_of_session(ended, goes_on), since)
            }
        };
        if is_it {
            thread::sleep(since);
            return;
        }
    }
    panic!("{TRIES} moves to {} were given up", NAMES[to]);
}

/// Whether a move from this member goes on, as far as it says.
fn moves_from(asked_member: &Member<'_>, from: &str) -> bool {
    // Who does not answer may be busy with it.
    let Ok(list) = asked(asked_member, &["run", "list", "--on", from]) else { return true };
    let mut runs = list.as_array().into_iter().flatten();
    runs.any(|run| run["kind"] == "move" && run["state"] == "running")
}

/// Has the volume move, kills one side of it at this moment, and starts that one anew.
fn cut_off<'a>(
    members: &mut Vec<Member<'a>>,
    sites: &'a [Site; 3],
    busy: &Busy,
    (side, moment): (Side, Moment),
) {
    let from = busy.await_owner(members);
    let (to, third) = ((from + 1) % 3, (from + 2) % 3);
    move_until((&members[..], busy), (from, to, third), moment);
    let killed = if side == Side::Source { from } else { to };
    members.remove(killed).crash();
    sites[killed].await_no_etcd();
    members.insert(killed, sites[killed].start());
    busy.are_at(members);
    members.iter().for_each(|member| await_all(member));
    let owner = busy.await_owner(members);
    assert_ne!(owner, third, "{side:?} {moment:?}: it has nothing to do with it");
    busy.await_work();
}

fn one_side_is_killed(side: Side) {
    let sites = roomy_sites();
    let mut bed = Bed::make(&sites);
    let Bed { members, busy, now, .. } = &mut bed;
    let busy = &*busy;
    busy.beside(now, || {
        for moment in MOMENTS {
            cut_off(members, &sites, busy, (side, moment));
        }
    });
    bed.check();
}

#[test]
fn a_source_that_is_killed_loses_nothing_and_leaves_one_owner() {
    one_side_is_killed(Side::Source);
}

#[test]
fn a_destination_that_is_killed_loses_nothing_and_leaves_one_owner() {
    one_side_is_killed(Side::Destination);
}
