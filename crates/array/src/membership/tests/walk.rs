//! Walks through all that can happen to the model.
//!
//! In each, any disks are there at a start, a crash tears any write of labels, journal, waves, stripes and records,
//! and a fault refuses writes from any moment on, for a moment or until a start. From each world it is seen that all
//! ends when nothing bad happens any more ([`World::settles`]), and that a refusal names who would help. One write
//! is made, small or of a whole stripe, where nothing else is said.
//!
//! | disks | crashes | faults | and |
//! |--:|--:|--:|---|
//! | 2 | 1 | 1 | |
//! | 2 | 2 | 0 | |
//! | 2 | 2 | 1 | small writes only, far |
//! | 2 | 3 | 0 | small writes only, far |
//! | 2 | 3 | 0 | small writes only, far; later changes have the lower numbers |
//! | 2 | 0 | 2 | |
//! | 3 | 1 | 0 | |
//! | 3 | 2 | 0 | small writes only, far |
//! | 3 | 3 | 0 | no write, far |
//! | 3, of which each has all | 1 | 0 | |
//! | 2 and 1 for the journal | 1 or 0 | 0 or 1 | |
//! | 1 and 2 for the journal | 1 | 0 | |
//! | 2 and a spare one | 1 | 0 | it joins and takes the place of another, which leaves |
//! | 3, of which 2 have a seat | 1 | 0 | one is retired, no write |
//! | 2 or 3 | 1 | 0 | a disk is cut short |
//! | 2 | 1 | 0 | an image of a disk is put back |
//! | 3 | 1 | 0 | an image of a disk is put back, small writes only |
//!
//! Those that are far take up to a minute each, and are walked by `make simulate`. Each test run goes through as much of
//! them as takes seconds: no write, or one crash less.
//!
//! Not walked: four disks, retirements beside writes, faults or two crashes, and images beside two crashes. Where more
//! disks are out than the level survives it is not judged whether they get what they lack.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

use super::model::{Flaw, Limits, World};

/// Steps of a walk that are shown when it ends badly.
type Trace = Vec<World>;

/// All worlds that can be reached: how many there are, or what is wrong with one. Depth first, which keeps no more
/// than the worlds beside the way to the one that is looked at; of the others their keys.
fn walk(limits: &Limits, flaw: Flaw) -> Result<usize, String> {
    let first = World::new(*limits);
    let mut seen: HashSet<u64, Keys> = HashSet::default();
    seen.insert(first.key(limits));
    let mut settled: HashSet<u64, Keys> = HashSet::default();
    let mut ahead = vec![first];
    while let Some(world) = ahead.pop() {
        if flaw == Flaw::None {
            world.settles(limits, &mut settled)?;
        }
        for next in world.nexts(limits, flaw) {
            let next = next?;
            if seen.insert(next.key(limits)) {
                ahead.push(next);
            }
        }
    }
    Ok(seen.len())
}

/// The shortest way to a world that is wrong, and what is: breadth first, with all that was on the way.
fn shortest(limits: &Limits, flaw: Flaw) -> Option<(String, Trace)> {
    let first = World::new(*limits);
    let mut seen: HashSet<u64, Keys> = HashSet::default();
    seen.insert(first.key(limits));
    // Each with the place of the one that it came of.
    let mut ways: Vec<(World, usize)> = vec![(first, 0)];
    let mut at = 0;
    let mut settled: HashSet<u64, Keys> = HashSet::default();
    while at < ways.len() {
        let settles = match flaw {
            Flaw::None => ways[at].0.settles(limits, &mut settled),
            _ => Ok(()),
        };
        for next in settles.err().map(Err).into_iter().chain(ways[at].0.nexts(limits, flaw)) {
            match next {
                Err(why) => {
                    let mut trace = vec![ways[at].0.clone()];
                    while at > 0 {
                        at = ways[at].1;
                        trace.push(ways[at].0.clone());
                    }
                    trace.reverse();
                    return Some((why, trace));
                }
                Ok(next) => {
                    if seen.insert(next.key(limits)) {
                        ways.push((next, at));
                    }
                }
            }
        }
        at += 1;
    }
    None
}

/// Keys are hashes already.
#[derive(Default)]
struct Key(u64);

type Keys = BuildHasherDefault<Key>;

impl Hasher for Key {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are words");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
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
    images: 0,
    writes: 1,
    whole: true,
    seatless: 0,
    counts_down: false,
};

/// Is set where walks go far.
const FAR: &str = "DRYSTONE_WALKS_FAR";

/// How far a walk goes: as far as it can, or so near that each test run can wait for it.
fn as_far(far: Limits, near: Limits) -> Limits {
    if std::env::var_os(FAR).is_some() { far } else { near }
}

fn is_sound(limits: Limits) {
    let began = Instant::now();
    match walk(&limits, Flaw::None) {
        Ok(worlds) => eprintln!("{worlds} worlds in {:.1?} of {limits:?}", began.elapsed()),
        Err(why) => panic!("{why}: {limits:?}: {}", way(&limits, Flaw::None)),
    }
}

/// How it comes to what is wrong, for people.
fn way(limits: &Limits, flaw: Flaw) -> String {
    let (why, trace) = shortest(limits, flaw).expect("a walk has found it");
    let worlds: String = trace.iter().map(World::brief).collect();
    format!("{worlds}\n{why}")
}

fn is_found(flaw: Flaw, limits: Limits) {
    match shortest(&limits, flaw) {
        None => panic!("{flaw:?} is not found in {limits:?}"),
        Some((why, trace)) => {
            eprintln!("{flaw:?} is found in {} steps: {why}", trace.len());
        }
    }
}

#[test]
fn two_disks_and_three_crashes() {
    let far = Limits { crashes: 3, faults: 0, whole: false, ..SMALL };
    is_sound(as_far(far, Limits { writes: 0, ..far }));
}

/// Of labels of one generation that all were cut off the lowest number goes on, which is drawn at random.
#[test]
fn two_disks_and_crashes_with_numbers_that_become_lower() {
    let far = Limits { crashes: 3, faults: 0, whole: false, counts_down: true, ..SMALL };
    is_sound(as_far(far, Limits { crashes: 2, ..far }));
}

#[test]
fn two_disks_two_crashes_and_a_fault() {
    let far = Limits { crashes: 2, whole: false, ..SMALL };
    is_sound(as_far(far, Limits { writes: 0, ..far }));
}

#[test]
fn an_old_image_of_one_of_two_disks() {
    is_sound(Limits { images: 1, faults: 0, ..SMALL });
}

#[test]
fn an_old_image_of_one_of_three_disks() {
    is_sound(Limits { disks: 3, images: 1, faults: 0, whole: false, ..SMALL });
}

#[test]
fn a_disk_of_three_is_retired_and_another_takes_its_seat() {
    is_sound(Limits { disks: 3, seatless: 1, orders: 2, writes: 0, faults: 0, ..SMALL });
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
fn three_disks_and_two_crashes() {
    let far = Limits { disks: 3, crashes: 2, faults: 0, whole: false, ..SMALL };
    is_sound(as_far(far, Limits { writes: 0, ..far }));
}

#[test]
fn three_disks_of_which_each_has_all_and_a_crash() {
    is_sound(Limits { disks: 3, losses: 2, faults: 0, ..SMALL });
}

#[test]
fn three_disks_three_crashes_and_no_write() {
    let far = Limits { disks: 3, crashes: 3, faults: 0, writes: 0, ..SMALL };
    is_sound(as_far(far, Limits { crashes: 2, ..far }));
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

/// Mistakes in the code that ships, by the letters of the review that found the first of them in the array.
#[cfg(feature = "mutants")]
mod planted {
    use super::*;
    use crate::mutants::{Mutant, plant};

    /// One thread, one mistake: it ends with the test.
    struct Planted;

    impl Drop for Planted {
        fn drop(&mut self) {
            plant(None);
        }
    }

    fn is_caught(mutant: Mutant, limits: Limits) {
        let _planted = Planted;
        plant(Some(mutant));
        match shortest(&limits, Flaw::None) {
            None => panic!("{mutant:?} is not found in {limits:?}"),
            Some((why, trace)) => {
                eprintln!("{mutant:?} is found in {} steps: {why}", trace.len());
            }
        }
    }

    #[test]
    fn a_journal_that_moves_to_disks_that_were_not_given_it() {
        is_caught(Mutant::BareHolders, Limits { journal_disks: 1, ..SMALL });
    }

    #[test]
    fn the_last_holder_leaving_its_label() {
        is_caught(Mutant::LastLeaves, Limits { faults: 2, ..SMALL });
    }

    #[test]
    fn parity_updates_forgotten_for_a_disk_that_was_away() {
        is_caught(Mutant::ForgetMissed, SMALL);
    }

    #[test]
    fn a_redo_that_is_not_noted() {
        is_caught(Mutant::ForgetRedone, Limits { crashes: 2, faults: 0, ..SMALL });
    }

    #[test]
    fn a_flush_that_failed_and_is_ignored() {
        is_caught(Mutant::BlindFlush, Limits { disks: 3, crashes: 0, faults: 2, ..SMALL });
    }

    #[test]
    fn a_replacement_that_counts_too_early() {
        is_caught(Mutant::EarlyPromotion, Limits { spare: true, faults: 0, orders: 2, ..SMALL });
    }

    #[test]
    fn a_holder_that_lacks_the_newest_checkpoint() {
        is_caught(Mutant::LoneSlot, Limits { crashes: 2, faults: 0, ..SMALL });
    }

    #[test]
    fn a_wave_that_is_done_again_from_one_disk() {
        is_caught(Mutant::LoneWave, Limits { crashes: 2, faults: 0, ..SMALL });
    }
}
