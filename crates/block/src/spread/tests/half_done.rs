//! Atomic operations that may have been done, or are done on one side of a border: how they are ended, and what is
//! told of those that cannot be.

use super::*;

/// Four blocks on each side of the first border.
const AT: u64 = MIB - 4 * BLOCK;
const LEN: u64 = 8 * BLOCK;

/// A volume of two slices that holds `summed(LEN, 1)` over its first border.
async fn volume() -> Faulty {
    let faulty = Faulty::of_two();
    faulty.disk.write(AT, summed(LEN, 1), VOLATILE).await.unwrap();
    faulty
}

/// Over the border, from what `volume` holds.
fn compared(disk: &SpreadDisk, write: u32) -> IoFuture<Compared> {
    disk.compare_and_write(AT, summed(LEN, 1), summed(LEN, write), VOLATILE)
}

/// The same request, made anew, would find a difference that it has made itself: in all of its blocks, or in half of them.
#[test]
fn a_comparison_whose_answer_was_lost_is_in_doubt() {
    on_a_core(async {
        let lost = Fault::LoseAnswer(BlockError::InDoubt);
        // Within one slice.
        let faulty = volume().await;
        faulty.slices[1].inject(Rule::always(Operation::ReadModifyWrite, lost).times(1));
        let (old, new) = (summed(LEN, 1).slice(4 * 512..8 * 512), summed(LEN / 2, 2));
        let compared_on_one = faulty.disk.compare_and_write(MIB, old, new, VOLATILE).await;
        assert_eq!(compared_on_one, Err(BlockError::InDoubt));
        assert!(read(&*faulty.disk, MIB, LEN / 2).await == bytes_of(&summed(LEN / 2, 2)));
        // Over a border, where the answer of the first side is lost.
        let faulty = volume().await;
        faulty.slices[1].inject(Rule::always(Operation::Write, lost).times(1));
        assert_eq!(compared(&faulty.disk, 2).await, Err(HALF_DONE));
        let (old, new) = (bytes_of(&summed(LEN, 1)), bytes_of(&summed(LEN, 2)));
        let found = read(&*faulty.disk, AT, LEN).await;
        let (home, other) = found.split_at(LEN as usize / 2);
        assert!(home == &old[..LEN as usize / 2] && other == &new[LEN as usize / 2..]);
    });
}

/// What was only read is not begun: a page that is away for a while is asked for again.
#[test]
fn a_comparison_that_cannot_read_is_not_begun() {
    on_a_core(async {
        let faulty = volume().await;
        let gone = Fault::Fail(BlockError::Unreachable);
        for slice in &faulty.slices {
            slice.inject(Rule::always(Operation::Read, gone));
            assert_eq!(compared(&faulty.disk, 2).await, Err(BlockError::Unreachable));
            slice.heal();
        }
        assert_eq!(compared(&faulty.disk, 2).await, Ok(Compared::Equal));
    });
}

/// Hosts wait for pages that are away.
#[test]
fn a_comparison_that_was_never_sent_is_not_begun() {
    on_a_core(async {
        let gone = BlockError::Unreachable;
        let faulty = volume().await;
        for operation in [Operation::ReadModifyWrite, Operation::Write] {
            faulty.slices[1].inject(Rule::always(operation, Fault::Fail(gone)));
        }
        let (old, new) = (summed(LEN, 1).slice(4 * 512..8 * 512), summed(LEN / 2, 2));
        assert_eq!(faulty.disk.compare_and_write(MIB, old, new, VOLATILE).await, Err(gone));
        assert_eq!(compared(&faulty.disk, 2).await, Err(gone));
        faulty.slices[1].heal();
        assert!(read(&*faulty.disk, AT, LEN).await == bytes_of(&summed(LEN, 1)));
        assert_eq!(compared(&faulty.disk, 2).await, Ok(Compared::Equal));
    });
}

/// To write the same again ends what may be half done.
#[test]
fn a_write_whose_answer_was_lost_may_be_repeated() {
    on_a_core(async {
        let lost = BlockError::InDoubt;
        let faulty = volume().await;
        let rule = Rule::always(Operation::Write, Fault::LoseAnswer(lost)).times(1);
        faulty.slices[1].inject(rule);
        assert_eq!(faulty.disk.write(AT, summed(LEN, 2), ATOMIC).await, Err(lost));
        assert_eq!(faulty.disk.write(AT, summed(LEN, 2), ATOMIC).await, Ok(()));
        assert!(read(&*faulty.disk, AT, LEN).await == bytes_of(&summed(LEN, 2)));
    });
}

/// None of these errors is one that says, or lets a host believe, that nothing was begun.
#[test]
fn what_stays_half_done_is_not_told_as_not_begun() {
    on_a_core(async {
        for error in [
            BlockError::Unreachable,
            BlockError::InDoubt,
            BlockError::NoSpace,
            BlockError::Reserved,
            // Linux repeats a write that ends in one.
            BlockError::Medium { at: AT + BLOCK },
            BlockError::LostWrites,
            HALF_DONE,
        ] {
            let faulty = volume().await;
            let disk = &faulty.disk;
            for operation in [Operation::Write, Operation::ReadModifyWrite] {
                faulty.slices[0].inject(Rule::always(operation, Fault::Fail(error)));
            }
            assert_eq!(compared(disk, 2).await, Err(HALF_DONE), "{error}");
            // This really is what it must not be repeated over.
            let again = compared(disk, 2).await;
            assert_eq!(again, Ok(Compared::Miscompare { offset_bytes: LEN as usize / 2 }));
            assert_eq!(disk.write(AT, summed(LEN, 3), ATOMIC).await, Err(HALF_DONE), "{error}");
            assert_eq!(
                disk.or_write(AT, equal(LEN, 0xff), VOLATILE).await,
                Err(HALF_DONE),
                "{error}"
            );
        }
    });
}

/// Within a second, and longer: nobody can mend it later.
#[test]
fn what_is_half_done_is_ended_as_soon_as_it_can_be() {
    on_a_core(async {
        let faulty = volume().await;
        let disk = &faulty.disk;
        let busy = Rule::always(Operation::Write, Fault::Fail(BlockError::Busy));
        faulty.slices[0].inject(busy.clone().times(10));
        assert_eq!(compared(disk, 2).await, Ok(Compared::Equal));
        assert!(read(&**disk, AT, LEN).await == bytes_of(&summed(LEN, 2)));
        // The other side before anything is done: nobody has to wait.
        faulty.slices[1].inject(busy.clone().times(1));
        let compared = disk.compare_and_write(AT, summed(LEN, 2), summed(LEN, 3), VOLATILE).await;
        assert_eq!(compared, Err(BlockError::Busy));
        assert!(read(&**disk, AT, LEN).await == bytes_of(&summed(LEN, 2)));
    });
}

/// The last of these errors would pass too, and still is not told.
#[test]
fn what_is_half_done_is_given_up_at_last() {
    let mut faulty = Faulty::of_two();
    faulty.be_patient_for(Duration::from_millis(20));
    on_a_core(async move {
        let disk = &faulty.disk;
        let busy = Rule::always(Operation::Write, Fault::Fail(BlockError::Busy));
        faulty.slices[0].inject(busy);
        assert_eq!(disk.write(AT, summed(LEN, 4), ATOMIC).await, Err(HALF_DONE));
    });
}

/// A slice may write what is plain in parts, and fail between two of them.
#[test]
fn each_side_is_all_of_it_or_nothing() {
    on_a_core(async {
        let faulty = volume().await;
        let disk = &faulty.disk;
        faulty.slices[1].inject(Rule::always(Operation::Write, Fault::Tear(BlockError::NoSpace)));
        let full = BlockError::NoSpace;
        assert_eq!(disk.write(AT, summed(LEN, 2), ATOMIC).await, Err(full));
        assert_eq!(compared(disk, 2).await, Err(full));
        assert!(read(&**disk, AT, LEN).await == bytes_of(&summed(LEN, 1)), "a side is torn");
    });
}
