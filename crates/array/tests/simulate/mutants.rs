//! Tests of the test: an array with one planted mistake is found out, and the same history of the
//! honest array is not.

use array::mutants::{Mutant, plant};

use crate::scenario::Theme;
use crate::themes::run;

/// Histories of each theme that a mistake may need until it shows.
const SEEDS_MAX: u64 = 100;

/// The first seed in which the mistake shows, beginning with the one in which it did when this was
/// written: every change of the array shifts what happens in a seed. One in which the honest array
/// fails too proves nothing: it is a failure of its theme.
fn first_seed(mutant: Mutant, themes: &[Theme], known: u64) -> Option<(Theme, u64, String)> {
    let all = (0..SEEDS_MAX).flat_map(|seed| themes.iter().map(move |theme| (*theme, seed)));
    std::iter::once((themes[0], known)).chain(all).find_map(|(theme, seed)| {
        plant(Some(mutant));
        let mistaken = run(theme, seed, false);
        plant(None);
        let failure = mistaken.err()?;
        let is_honest_well = run(theme, seed, false).is_ok();
        is_honest_well.then_some((theme, seed, failure))
    })
}

fn is_found(mutant: Mutant, themes: &[Theme], known: u64) {
    let Some((theme, seed, failure)) = first_seed(mutant, themes, known) else {
        panic!("{mutant:?} passes {SEEDS_MAX} seeds of each of {themes:?}");
    };
    let line = failure.lines().next().unwrap_or_default();
    eprintln!("{mutant:?} is found by seed {seed} of {theme}, {known} was expected: {line}");
}

#[test]
fn blocks_in_memory_that_stay_when_they_are_written() {
    is_found(Mutant::KeepEnded, &[Theme::Plain], 3);
}

#[test]
fn parity_changed_without_a_redo_record() {
    is_found(Mutant::NoRedo, &[Theme::Moments, Theme::Plain], 45);
}

#[test]
fn a_generation_of_the_label_left_out() {
    is_found(Mutant::NoGeneration, &[Theme::Disks], 0);
}

#[test]
fn a_cluster_freed_too_early() {
    is_found(Mutant::EarlyFree, &[Theme::Snapshots], 34);
}

#[test]
fn checksums_not_looked_at() {
    is_found(Mutant::NoVerify, &[Theme::Faults], 6);
}

#[test]
fn a_write_answered_too_early() {
    is_found(Mutant::EarlyAck, &[Theme::Plain], 0);
}

#[test]
fn a_checkpoint_without_a_flush() {
    is_found(Mutant::NoFlush, &[Theme::Plain], 0);
}

#[test]
fn clusters_mapped_before_they_are_flushed() {
    is_found(Mutant::EarlyMap, &[Theme::Plain], 13);
}

#[test]
fn a_volatile_batch_counted_as_durable() {
    is_found(Mutant::NoJournalFlush, &[Theme::Plain], 28);
}

#[test]
fn a_volatile_write_answered_too_early() {
    is_found(Mutant::EarlyVolatileAck, &[Theme::Plain], 210);
}

#[test]
fn a_snapshot_written_over() {
    is_found(Mutant::NoCopyOnWrite, &[Theme::Snapshots], 0);
}

#[test]
fn what_a_disk_missed_forgotten() {
    is_found(Mutant::NoStaleBits, &[Theme::Disks], 27);
}

#[test]
fn a_former_lap_of_the_journal_taken_for_this_one() {
    is_found(Mutant::NoSequence, &[Theme::Plain], 394);
}

#[test]
fn a_journal_trimmed_too_early() {
    is_found(Mutant::EarlyTrim, &[Theme::Plain], 0);
}

#[test]
fn runs_of_a_rebuild_copied_without_a_look() {
    is_found(Mutant::BlindRebuild, &[Theme::Rot], 4);
}

#[test]
fn a_checkpoint_that_goes_on_after_flushes_failed() {
    is_found(Mutant::BlindFlush, &[Theme::Passing, Theme::Beyond], 652);
}

#[test]
fn a_placed_cluster_that_a_disk_missed_forgotten_when_the_journal_is_replayed() {
    is_found(Mutant::ForgetPlaced, &[Theme::Passing, Theme::Starts], 96);
}

#[test]
fn want_of_memory_taken_for_an_error_of_a_disk() {
    is_found(Mutant::BlameMemory, &[Theme::Scarcity], 0);
}

#[test]
fn a_journal_disk_that_nobody_stands_in_for() {
    is_found(Mutant::NoStandIn, &[Theme::Starts], 16);
}

#[test]
fn old_checkpoints_taken_for_the_newest() {
    is_found(Mutant::BelieveOld, &[Theme::Images], 0);
}
