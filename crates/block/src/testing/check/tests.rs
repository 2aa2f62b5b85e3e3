//! The suite finds the mistakes that devices make, one of each kind.

use std::sync::Arc;

use super::*;
use crate::testing::FaultyDisk;
use crate::{NullDisk, RamDisk};

mod wrong;

use wrong::{Mistake, Wrong};

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&ring::CoreConfig::default(), test).unwrap();
}

fn ram() -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(512, 4096).unwrap())
}

fn finds(mistake: Mistake) {
    on_a_core(check_device(Arc::new(Wrong::new(ram(), mistake)), 1));
}

fn finds_under_faults(mistake: Mistake) {
    let ram = ram();
    let below = Arc::new(FaultyDisk::new(Arc::clone(&ram)));
    let wrong = Wrong::new(below.clone(), mistake).with_way_around(ram);
    on_a_core(check_faults(below, Arc::new(wrong), 1));
}

#[test]
fn a_device_without_a_mistake_passes() {
    finds(Mistake::Nothing);
    finds_under_faults(Mistake::Nothing);
    on_a_core(check_read_only(Arc::new(Wrong::new(ram(), Mistake::ReadOnly))));
    on_a_core(check_null_device(Arc::new(NullDisk::new(512, 4096)), 1));
}

/// One test for each mistake, with a part of what is said of it.
macro_rules! found {
    ($($name:ident: $check:ident($mistake:ident) says $says:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $says)]
        fn $name() {
            $check(Mistake::$mistake);
        }
    )*};
}

found! {
    a_read_past_the_end: finds(ReadsPastTheEnd) says "read: what cannot be done is refused";
    a_range_that_wraps_around: finds(WrapsAround) says "unmap: what cannot be done is refused";
    the_wrong_error: finds(SaysMedium) says "unmap at 1+512";
    an_empty_range_that_is_refused: finds(RefusesEmpty) says "the device is busy";
    a_part_of_what_was_refused: finds(WritesWhatFits) says "after refused operations";
    payloads_of_two_lengths: finds(TakesTwoLengths) says "left: Ok(Equal)";
    a_long_atomic_write: finds(TakesLongAtomics) says "refused(";
    an_unmap_that_leaves_data: finds(ForgetsUnmap) says "should be 0x0, after round";
    zeroes_without_space: finds(DeallocatesZeroes) says "zeroes that may not be unmapped";
    a_hole_with_data: finds(HidesData) says "holds data";
    the_wrong_place_of_a_miscompare: finds(MiscomparesAtZero) says "offset_bytes";
    another_shape: finds(ChangesShape) says "another geometry";
    a_block_of_two_writes: finds(MixesBytes) says "after two plain writes";
    zeroes_that_nobody_wrote: finds(ZeroesFirst) says "a byte that nobody wrote";
    a_neighbour_undone: finds(UndoesNeighbours) says "after changes side by side";
    half_an_atomic_write: finds(TearsAtomics) says "by halves";
    a_count_lost: finds(ComparesThenWrites) says "after several counted in one block";
    a_bit_lost: finds(ReadsThenOrs) says "after or-writes of one bit each";
    what_a_dropped_write_leaves: finds(SpoilsWhenDropped) says "dropped: PolledOnce";
    a_dropped_write_that_holds_on: finds(HoldsWhenDropped) says "a write after Write was dropped";
    a_read_only_unmap: finds_read_only(UnmapsReadOnly) says "unmap at 0";
    a_quiet_change_of_a_read_only_device: finds_read_only(WritesQuietly) says "refused changes";
    a_null_device_that_keeps: finds_null(Nothing) says "the longest compare-and-write";
    a_swallowed_error: finds_under_faults(SwallowsErrors) says "success of Write";
    another_error_than_below: finds_under_faults(SaysOs) says "'operating system error 5' of";
    an_answer_that_comes_early: finds_under_faults(AnswersEarly) says "success of Write";
    an_answer_before_the_end: finds_under_faults(AnswersBeforeTheEnd) says "an answer to Write";
    a_durable_write_that_is_none: finds_under_faults(ForgetsFua) says "not durable, as was asked";
    a_flush_that_goes_nowhere: finds_under_faults(IgnoresFlush) says "not durable after a flush";
    a_fault_for_ever: finds_under_faults(NeverRecovers) says "a write to a device that is well";
    what_was_there_lost_with_a_fault: finds_under_faults(LosesOld) says "fails with";
    an_answer_that_is_not_durable: finds_not_durable(Nothing) says "not durable when it is over";
}

/// No mistake but that of whoever takes it for one that needs no flush.
fn finds_not_durable(mistake: Mistake) {
    let below = Arc::new(FaultyDisk::new(ram()));
    let device = Arc::new(Wrong::new(below.clone(), mistake));
    on_a_core(check_durable_faults(below, device, 1));
}

fn finds_read_only(mistake: Mistake) {
    on_a_core(check_read_only(Arc::new(Wrong::new(ram(), mistake))));
}

/// No mistake but that of whoever takes it for one that keeps nothing.
fn finds_null(mistake: Mistake) {
    on_a_core(check_null_device(Arc::new(Wrong::new(ram(), mistake)), 1));
}
