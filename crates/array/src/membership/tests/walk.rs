//! Walks through all that can happen to the model.

use std::collections::{HashMap, HashSet, VecDeque};

use super::model::{Flaw, Limits, World};

/// Steps of a walk that are shown when it ends badly.
type Trace = Vec<World>;

fn key(world: &World) -> u64 {
    world.key()
}

/// All worlds that can be reached, breadth first. How many there are, or the first one that is wrong
/// and the way to it.
fn walk(limits: &Limits, flaw: Flaw) -> Result<usize, (String, Trace)> {
    let first = World::new(*limits);
    let mut seen: HashSet<u64> = HashSet::from([key(&first)]);
    let mut from: HashMap<u64, World> = HashMap::new();
    let mut queue: VecDeque<World> = VecDeque::from([first]);
    while let Some(world) = queue.pop_front() {
        for next in world.nexts(limits, flaw) {
            match next {
                Err(why) => {
                    let mut trace = vec![world];
                    while let Some(before) = from.get(&key(trace.last().expect("not empty"))) {
                        trace.push(before.clone());
                    }
                    return Err((why, trace));
                }
                Ok(next) => {
                    if seen.insert(key(&next)) {
                        if limits.trace {
                            from.insert(key(&next), world.clone());
                        }
                        queue.push_back(next);
                    }
                }
            }
        }
    }
    Ok(seen.len())
}

const SMALL: Limits = Limits {
    disks: 2,
    journal_disks: 0,
    spare: false,
    losses: 1,
    crashes: 1,
    faults: 1,
    orders: 0,
    cuts: 0,
    writes: 1,
    trace: false,
};

fn is_sound(limits: Limits) {
    match walk(&limits, Flaw::None) {
        Ok(worlds) => eprintln!("{worlds} worlds of {limits:?}"),
        Err((why, trace)) => {
            let way: String = trace.iter().rev().map(World::brief).collect();
            panic!("{why}: {limits:?}: {way}");
        }
    }
}

fn is_found(flaw: Flaw, limits: Limits) {
    match walk(&limits, flaw) {
        Ok(worlds) => panic!("{flaw:?} passes {worlds} worlds of {limits:?}"),
        Err((why, trace)) => {
            let way: String = trace.iter().rev().map(World::brief).collect();
            eprintln!("{flaw:?} is found: {why}{way}");
        }
    }
}

#[test]
fn two_disks_a_crash_and_a_fault() {
    is_sound(SMALL);
}

#[test]
fn two_disks_and_two_crashes() {
    is_sound(Limits { crashes: 2, faults: 0, ..SMALL });
}

#[test]
fn two_disks_two_faults_and_no_crash() {
    is_sound(Limits { crashes: 0, faults: 2, ..SMALL });
}

#[test]
fn three_disks_and_a_crash() {
    is_sound(Limits { disks: 3, faults: 0, ..SMALL });
}

#[test]
fn a_disk_for_the_journal_alone_that_fails() {
    is_sound(Limits { journal_disks: 1, crashes: 0, ..SMALL });
}

#[test]
fn a_disk_is_added_and_takes_the_place_of_another() {
    is_sound(Limits { spare: true, faults: 0, orders: 2, ..SMALL });
}

#[test]
fn a_disk_for_the_journal_alone_and_a_crash() {
    is_sound(Limits { journal_disks: 1, faults: 0, ..SMALL });
}

#[test]
fn a_disk_stands_in_for_one_of_two_for_the_journal_alone() {
    is_sound(Limits { disks: 1, losses: 0, journal_disks: 2, faults: 0, ..SMALL });
}

#[test]
fn a_stand_in_that_was_not_given_the_journal() {
    is_found(Flaw::EmptyStandIn, Limits { disks: 1, losses: 0, journal_disks: 2, ..SMALL });
}

#[test]
fn a_journal_that_moves_to_disks_that_were_not_given_it() {
    is_found(Flaw::A2JournalUnfilled, Limits { journal_disks: 1, ..SMALL });
}

#[test]
fn the_last_holder_leaving_its_label() {
    is_found(Flaw::A3LastHolderLeaves, Limits { faults: 2, ..SMALL });
}

#[test]
fn parity_updates_forgotten_for_a_disk_that_was_away() {
    is_found(Flaw::A4WrittenForgotten, SMALL);
}

#[test]
fn a_redo_that_is_not_noted() {
    is_found(Flaw::A5RedoForgotten, Limits { crashes: 2, faults: 0, ..SMALL });
}

#[test]
fn a_flush_that_failed_and_is_ignored() {
    is_found(Flaw::A6FlushIgnored, Limits { disks: 3, crashes: 0, faults: 2, ..SMALL });
}

#[test]
fn a_replacement_that_counts_too_early() {
    is_found(Flaw::A7EarlyPromotion, Limits { spare: true, faults: 0, orders: 2, ..SMALL });
}

#[test]
fn a_holder_that_lacks_the_newest_checkpoint() {
    is_found(Flaw::A8SlotLagging, Limits { crashes: 2, faults: 0, ..SMALL });
}

#[test]
fn a_wave_that_is_done_again_from_one_disk() {
    is_found(Flaw::WaveLagging, Limits { crashes: 2, faults: 0, ..SMALL });
}

#[test]
fn an_opening_that_writes_its_labels_late() {
    is_found(Flaw::LateLabels, Limits { faults: 0, ..SMALL });
}

#[test]
fn an_answer_before_its_label_is_durable() {
    is_found(Flaw::EarlyLabel, SMALL);
}

#[test]
fn a_disk_that_does_not_know_that_it_was_out() {
    is_found(Flaw::LaxReturn, Limits { crashes: 1, faults: 1, ..SMALL });
}

#[test]
fn a_disk_that_is_cut_short_and_a_crash() {
    is_sound(Limits { cuts: 1, faults: 0, ..SMALL });
}

#[test]
fn a_disk_of_three_that_is_cut_short() {
    is_sound(Limits { disks: 3, cuts: 1, faults: 0, ..SMALL });
}

#[test]
fn what_a_disk_lacks_that_counts_as_recorded_too_early() {
    is_found(Flaw::HastyRecord, Limits { cuts: 1, crashes: 2, faults: 0, ..SMALL });
}
